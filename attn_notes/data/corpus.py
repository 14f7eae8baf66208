"""The reader's own sentences, from a text file of two columns (chapter 4).

A file from the world has lines that are no pair, and bytes that are no text. None of them is
passed over in silence, and none of them stops the reading of the others.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from attn_notes.arguments import check_integers
from attn_notes.data.split import Pair
from attn_notes.data.textfile import MARK, NUL, OTHER, text_lines

__all__ = ["Corpus", "read_pairs"]

_LONGEST_LINE = 100_000  # characters; what is beyond is passed over without being kept
_LINES_NAMED = 5  # of each reason, in the summary


@dataclass(frozen=True)
class Corpus:
    """What was read from a file, and what was not; `str` of it says both."""

    path: Path
    """The file."""
    pairs: list[Pair]
    """The pairs, in the order of the file."""
    skipped: list[tuple[int, str]]
    """(line number from 1, reason) of every line that gave none."""

    def __str__(self) -> str:
        if not self.pairs and not self.skipped:
            return f"{self.path}: no pair, for no line holds any text"
        lines: dict[str, list[int]] = {}
        for number, reason in self.skipped:
            lines.setdefault(reason, []).append(number)
        reasons = "; ".join(f"{reason} ({_which(numbers)})" for reason, numbers in lines.items())
        kept = f"{self.path}: {_count(len(self.pairs), 'pair')} kept"
        return f"{kept}, {_count(len(self.skipped), 'line')} skipped" + (reasons and f": {reasons}")


def read_pairs(
    path: str | PathLike[str],
    *,
    encoding: str | None = None,
    max_length: int = 200,
    strict: bool = False,
) -> Corpus:
    r"""Read pairs of sentences: a line each, source and target with a tab between them.

    Tokens are what stands between white space. Columns after the second are left out (published
    collections keep the authors' names there), and so are blank lines. A line is skipped if it
    has no tab, an empty side, a NUL character, more than `max_length` tokens on a side, or more
    than 100,000 characters; `skipped` tells which, and a warning sums them up. A byte order mark
    before a line is left out, also before a later one, where two files were put together.

    Args:
        path: a text file, or a pipe, which is read once; lines may end as on any system.
        encoding: of the file. By default what its byte order mark says, or UTF-8 without one.
        max_length: the most tokens on a side; 1 or more.
        strict: raise at the first line that would be skipped.

    Returns:
        The corpus; `str` of it says what was kept and why the rest was not.

    Raises:
        OSError: a file that is not there or cannot be read.
        TypeError: a `max_length` that is not an integer.
        ValueError: a byte that is no text in this encoding, an encoding that Python does not
            know or that no file is written in, a file without a single pair, a `max_length` below
            1, or, with `strict`, a line that is none.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.tsv"
        >>> _ = path.write_text("wie geht es\thow are you\n", encoding="utf-8")
        >>> read_pairs(path).pairs
        [(('wie', 'geht', 'es'), ('how', 'are', 'you'))]
    """
    check_integers(1, max_length=max_length)
    corpus = Corpus(Path(path), [], [])
    for number, line in _lines(corpus.path, encoding):
        try:
            corpus.pairs.append(_parse(line, max_length))
        except ValueError as reason:
            if strict:
                raise ValueError(f"{path}:{number}: {reason}") from None
            corpus.skipped.append((number, str(reason)))
    if not corpus.pairs:
        nul = any(reason == NUL for _, reason in corpus.skipped)
        raise ValueError(str(corpus) + (f"; {OTHER}: utf-16-le, say" if nul else ""))
    if corpus.skipped:
        warnings.warn(str(corpus), stacklevel=2)
    return corpus


def _parse(line: str, max_length: int) -> Pair:
    """The pair in a line; raises a ValueError that says why there is none."""
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"more than {_LONGEST_LINE:,} characters")
    if "\0" in line:
        raise ValueError(NUL)
    columns = line.split("\t")
    if len(columns) < 2:
        raise ValueError("no tab")
    source, target = tuple(columns[0].split()), tuple(columns[1].split())
    if not source or not target:
        raise ValueError("an empty side")
    if max(len(source), len(target)) > max_length:
        raise ValueError(f"more than {max_length} tokens")
    return source, target


def _lines(path: Path, encoding: str | None) -> Iterator[tuple[int, str]]:
    """(number, line) of every line that is not blank; of an enormous one the beginning."""
    for number, line in text_lines(path, encoding, longest=_LONGEST_LINE):
        if line.strip(f" \n{MARK}"):
            yield number, line.removesuffix("\n")


def _which(numbers: list[int]) -> str:
    """The first few line numbers of many."""
    named = ", ".join(str(number) for number in numbers[:_LINES_NAMED])
    more = len(numbers) - _LINES_NAMED
    word = "line" if len(numbers) == 1 else "lines"
    return f"{word} {named}" + (f" and {more:,} more" if more > 0 else "")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
