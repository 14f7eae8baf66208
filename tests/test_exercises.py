"""Every exercise of every chapter: stub, solution and typical wrong answers, run as a reader would.

A page's first code cell is run once; then, on what it imports, the committed stub must print
`Not yet: …`, the solution in its place and each answer of `tests/right_answers.py` `Correct`, and
each wrong answer of `tests/wrong_answers/` the phrase that names its mistake.
"""

import contextlib
import importlib
import io
import linecache
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import attn_exercises as exercises
from tests import right_answers
from tools import notebook_rules as rules
from tools.assignments import CALL, calls
from tools.notebooks import runs_triton

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "book").glob("[0-9][0-9]*_*.ipynb"))


@dataclass(frozen=True)
class Exercise:
    """One stub, and what goes into its place."""

    chapter: Path
    label: str
    stub: str
    solution: str | None
    checks: tuple[str, ...]
    wrong: tuple[tuple[str, str], ...]  # (code, phrase of the message)

    def with_answer(self, code: str) -> str:
        """The stub cell with `code` for everything but its last lines, the calls of the checks."""
        return f"{code.rstrip()}\n\n\n" + "\n".join(calls(self.stub))


FOLDER = ROOT / "tests" / "wrong_answers"
# What `tests/wrong_answers/` holds, by the name of the check; a chapter's pages share a file.
WRONG_ANSWERS: dict[str, list[tuple[str, str]]] = {
    name: answers
    for path in sorted(FOLDER.glob("[!_]*.py"))
    for name, answers in importlib.import_module(f"tests.wrong_answers.{path.stem}").ANSWERS.items()
}


def exercises_of(chapter: Path) -> list[Exercise]:
    """The exercises of a chapter that have a stub, in order."""
    cells = rules.read(chapter)
    solutions = rules.solutions(cells)
    found, label = [], ""
    for cell in cells:
        label = [label, *rules.labels([cell], "exercise")][-1]
        if "stub" in rules.tags(cell):
            source = cell["source"]
            names = tuple(CALL.match(call)[1] for call in calls(source))
            answers = tuple(answer for name in names for answer in WRONG_ANSWERS.get(name, []))
            exercise = Exercise(chapter, label, source, solutions.get(label), names, answers)
            found.append(exercise)
    return found


EXERCISES = [exercise for chapter in CHAPTERS for exercise in exercises_of(chapter)]
EVERY_EXERCISE = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.label)


@pytest.fixture(autouse=True)
def in_the_book_on_a_cpu(monkeypatch):
    monkeypatch.chdir(ROOT / "book")
    monkeypatch.setenv("ATTN_NOTES_DEVICE", "cpu")


@cache
def imports(chapter: Path) -> dict[str, Any]:
    """What the cell with a page's imports leaves in the namespace."""
    os.environ["ATTN_NOTES_DEVICE"] = "cpu"
    first = rules.first_shown(rules.read(chapter))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(rules.parse(first), f"{chapter.stem}: first cell", "exec"), namespace)
    return namespace


def printed(exercise: Exercise, code: str) -> str:
    """What the code prints when it is run after the chapter's first cell."""
    if re.search("^import triton", code, re.MULTILINE) and not runs_triton():
        pytest.skip("checked by `make test-triton`")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        name = f"<{exercise.label}>"  # with its source, as in a notebook: Triton reads it
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        exec(compile(code, name, "exec"), dict(imports(exercise.chapter)))
    return out.getvalue()


@EVERY_EXERCISE
def test_the_committed_stub_is_not_yet_an_answer(exercise):
    assert printed(exercise, exercise.stub).startswith("Not yet:")


@EVERY_EXERCISE
def test_the_solution_in_the_stubs_place_is_correct(exercise):
    assert exercise.solution, f"{exercise.label} has a stub and no solution in Python"
    expected = "Correct\n" * len(exercise.checks)
    assert printed(exercise, exercise.with_answer(exercise.solution)) == expected


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        pytest.param(exercise, answer, id=f"{exercise.label}-{n}")
        for exercise in EXERCISES
        for name in exercise.checks
        for n, answer in enumerate(right_answers.ANSWERS.get(name, "").split("# or"))
        if answer
    ],
)
def test_a_right_answer_need_not_be_the_books(exercise, answer):
    assert printed(exercise, exercise.with_answer(answer)) == "Correct\n"


@pytest.mark.parametrize(
    ("exercise", "answer", "phrase"),
    [
        pytest.param(exercise, answer, phrase, id=f"{exercise.label}-{n}")
        for exercise in EXERCISES
        for n, (answer, phrase) in enumerate(exercise.wrong)
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(exercise, answer, phrase):
    said = printed(exercise, exercise.with_answer(answer))
    assert "Not yet:" in said
    assert phrase in said
    # Naming an error is not naming a mistake, unless the phrase says which error it should be.
    assert "the answer raises" not in said or "raises" in phrase


@EVERY_EXERCISE
def test_an_exercise_has_a_check_and_four_wrong_answers(exercise):
    assert exercise.checks, f"the stub of {exercise.label} does not end in a call of exercises"
    place = f"{FOLDER.name}/ has too few wrong answers to "
    assert [name for name in exercise.checks if not WRONG_ANSWERS.get(name)] == [], place
    assert len(exercise.wrong) >= 4, place + exercise.label


def test_every_check_belongs_to_an_exercise_and_every_wrong_answer_to_a_check():
    used = [name for exercise in EXERCISES for name in exercise.checks]
    checks = {name for name, thing in vars(exercises).items() if hasattr(thing, "__wrapped__")}
    assert sorted(used) == sorted(checks), "each check of attn_exercises ends one stub in book/"
    unknown = (set(WRONG_ANSWERS) | set(right_answers.ANSWERS)) - set(used)
    assert unknown == set(), "tests/wrong_answers/ or tests/right_answers.py answer no exercise"
