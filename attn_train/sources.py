"""What only the command line trains on: dates, the reader's own sentences, Python's `help()`."""

import random
import warnings
from collections.abc import Iterable
from datetime import date
from os import PathLike

from attn_notes.data import Pair, date_characters, is_held_out, read_text

DAYS = range(date(1900, 1, 1).toordinal(), date(2100, 1, 1).toordinal())
MOST_TOKENS = 200  # on a side of a pair


def date_pairs(
    source: str, target: str, *, count: int, style: str = "long", seed: int = 0
) -> tuple[list[Pair], list[Pair]]:
    """Distinct days from 1900 to 2099 in two locales, to train on and to test on.

    Of `count` days in all, about one in ten is held out, by its date alone. Locales and style are
    those of `date_characters`.

    Example:
        >>> train, held_out = date_pairs("de", "iso", count=1000)
        >>> len(train) + len(held_out)
        1000
    """
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for ordinal in random.Random(seed).sample(DAYS, count):
        day = date.fromordinal(ordinal)
        pair = date_characters(day, source, style), date_characters(day, target, style)
        sides[is_held_out(day.isoformat())].append(pair)
    return sides


def read_pairs(path: str | PathLike[str], *, encoding: str | None = None) -> list[Pair]:
    r"""Read pairs of sentences, one per line: source and target with a tab between them.

    The file is as for `read_text`. Columns after the second and blank lines are ignored. Lines
    without a tab, or without 1 to 200 tokens on a side, are skipped with a warning.

    Example:
        >>> from pathlib import Path
        >>> path = Path(getfixture("tmp_path")) / "own.tsv"
        >>> _ = path.write_text("wie geht es\thow are you\n", encoding="utf-8")
        >>> read_pairs(path)
        [(('wie', 'geht', 'es'), ('how', 'are', 'you'))]
    """
    pairs: list[Pair] = []
    skipped = []
    for number, line in enumerate(read_text(path, encoding=encoding).split("\n"), 1):
        sides = [tuple(side.split()) for side in line.split("\t")[:2]]
        if len(sides) == 2 and all(0 < len(side) <= MOST_TOKENS for side in sides):
            pairs.append((sides[0], sides[1]))
        elif line.strip():
            skipped.append(number)
    if not pairs:
        raise ValueError(f"{path} must hold at least one pair, with a tab between its sides")
    if skipped:
        wanted = f"a line must hold a tab, and 1 to {MOST_TOKENS} tokens on either side"
        kept = f"{len(pairs):,} pairs kept, {len(skipped):,} lines skipped"
        warnings.warn(f"{path}: {kept}, line {skipped[0]} the first: {wanted}", stacklevel=2)
    return pairs


def split_pairs(pairs: Iterable[Pair], *, share: float = 0.1) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on, and the `share` held out; no source is on both sides.

    Example:
        >>> train, held_out = split_pairs([(("a",), ("b",)), (("c",), ("d",))], share=0)
        >>> len(train), len(held_out)
        (2, 0)
    """
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for pair in pairs:
        sides[is_held_out(" ".join(pair[0]), share)].append(pair)
    return sides


def python_documentation() -> list[str]:
    """The text that `help()` shows for Python's own topics, from "assert" to "yield".

    About 80 documents of half a million characters, in alphabetical order. Releases of Python
    differ in it, so the book stores that of one (`book/_data/python-topics`).
    """
    from pydoc_data.topics import topics  # noqa: PLC0415, half a megabyte

    return [topics[name] for name in sorted(topics)]
