"""Typical wrong answers to the exercises, and the phrase by which each is named.

A file for each chapter holds a table of rows for each exercise. A row is (code, edits, phrase):
each edit, `old -> new`, is made wherever the code has `old`.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def edited(code: str, *edits: str) -> str:
    """The code with each `old -> new` made, one after the other."""
    for edit in edits:
        old, new = edit.split(" -> ")
        assert old in code, f"there is no {old!r} to replace"
        code = code.replace(old, new)
    return code


def answers(**tables: Sequence[tuple[str, ...]]) -> dict[str, list[tuple[str, str]]]:
    """For each exercise the wrong answers as (code, phrase)."""
    return {
        exercise: [(edited(code, *edits), phrase) for code, *edits, phrase in rows]
        for exercise, rows in tables.items()
    }


def guesses(right: Mapping[str, Any], *wrong: tuple[str, Any, str]) -> list[tuple[str, str]]:
    """A row for each wrong guess, given as (part, guess, why it is wrong)."""
    return [
        (f"answer = {right | {part: guess}}", f"{part} is not {guess!r}: {why}")
        for part, guess, why in wrong
    ]
