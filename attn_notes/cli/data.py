"""What a training learns from: pairs or texts, in two sides, and the settings that follow."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_notes.cli.settings import PairData
from attn_notes.data import (
    Pair,
    Vocabulary,
    date_pairs,
    join_words,
    number_pairs,
    python_documentation,
    read_pairs,
    read_text,
    split_number,
    split_pairs,
    split_text,
)

__all__ = [
    "Pairs",
    "digest_and_vocabularies",
    "join_tokens",
    "languages",
    "load_pairs",
    "load_texts",
    "longest_of",
    "split_tokens",
]

Pairs = tuple[list[Pair], list[Pair]]


def load_pairs(
    data: PairData, *, seed: int, path: Path | None = None, encoding: str | None = None
) -> Pairs:
    """The pairs to train on and those held out."""
    if path is not None:
        with warnings.catch_warnings(record=True, action="always") as caught:
            sides = split_pairs(read_pairs(path, encoding=encoding))
        for warning in caught:  # lines without a pair were skipped
            print(warning.message)
    elif data.data == "pairs":
        raise ValueError("--data pairs needs a file: name it with --pairs")
    elif data.data == "dates":
        drawn: dict[str, Any] = {"count": data.count, "style": data.style, "seed": seed}
        sides = date_pairs(data.source, data.target, **drawn)
    else:
        drawn = {"count": data.count, "digits": data.digits, "balance": data.balance, "seed": seed}
        sides = number_pairs(languages(data.source), languages(data.target), **drawn)
    if not all(sides):
        raise ValueError(
            "there must be pairs to train on and pairs to hold out, about one in ten, got "
            f"{len(sides[0])} and {len(sides[1])}; use more pairs, or numbers of more digits"
        )
    return sides


def load_texts(
    paths: Sequence[Path] = (), *, encoding: str | None = None
) -> tuple[list[str], list[str]]:
    """The texts of some files, or Python's documentation: those to train on and those held out."""
    texts = [read_text(path, encoding=encoding) for path in paths]
    return split_text(texts or python_documentation())


def digest_and_vocabularies(
    sides: Any, *sequences: Sequence[Sequence[str]], min_count: int
) -> dict[str, Any]:
    """A digest of the data, and a vocabulary of each of these sequences of tokens."""
    tokens = tuple(Vocabulary.build(each, min_count=min_count).tokens for each in sequences)
    if not all(tokens):
        raise ValueError(f"min_count must leave tokens in every vocabulary, got {min_count}")
    data = json.dumps(sides, ensure_ascii=True).encode()
    return {"digest": hashlib.sha256(data).hexdigest(), "vocabularies": tokens}


def longest_of(sides: Pairs) -> int:
    """Twice the longest target that is trained on; at least the longest source of all."""
    longest_source = max(len(source) for side in sides for source, _ in side)
    return max(2 * max(len(target) for _, target in sides[0]) + 1, longest_source)


def languages(names: str) -> tuple[str, ...]:
    """The languages of an option, such as digits,en."""
    return tuple(names.split(","))


def split_tokens(
    data: PairData, text: str, known: Sequence[str], *, to: str | None = None
) -> tuple[str, ...]:
    """The tokens of a text; of several source languages, the one with the fewest unknown."""
    wanted = _target(data, to)
    if data.data == "dates":
        return tuple(text.strip())
    if data.data == "pairs":
        return tuple(text.split())
    readings = [split_number(text, language) for language in languages(data.source)]
    best = min(readings, key=lambda tokens: sum(token not in known for token in tokens))
    return (f"<{wanted}>", *best) if "," in data.target else best


def join_tokens(data: PairData, tokens: Sequence[str], *, to: str | None = None) -> str:
    """The text that the tokens of a translation make."""
    wanted = _target(data, to)
    if data.data == "numbers":
        return join_words(tokens, wanted)
    return ("" if data.data == "dates" else " ").join(tokens)


def _target(data: PairData, to: str | None) -> str:
    """The language to write, by default the first."""
    if to is not None and to not in languages(data.target):
        raise ValueError(f"the language to write must be one of {data.target or '-'}, got {to!r}")
    return to or languages(data.target)[0]
