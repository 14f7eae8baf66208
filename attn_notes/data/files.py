"""The reader's own texts, from a file: running text, or pairs of sentences (chapters 4 and 8)."""

import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from attn_notes.arguments import check_integers
from attn_notes.data.split import Pair

__all__ = ["Corpus", "read_pairs", "read_text"]


@dataclass(frozen=True)
class Corpus:
    """The pairs read from a file, and the lines that were skipped; `str` sums both up."""

    path: Path
    """The file."""
    pairs: list[Pair]
    """The pairs, in the order of the file."""
    skipped: list[tuple[int, str]]
    """(line number from 1, reason) of every skipped line."""

    def __str__(self) -> str:
        pairs, lines = len(self.pairs), len(self.skipped)
        first = [f"; line {number}: {reason}" for number, reason in self.skipped[:5]]
        counts = f"{pairs:,} pair{'s' * (pairs != 1)} kept, {lines:,} line{'s' * (lines != 1)}"
        return f"{self.path}: {counts} skipped{''.join(first)}{'; …' * (lines > 5)}"


def read_text(path: str | PathLike[str], *, encoding: str | None = None) -> str:
    r"""Read a text from a file. Chapter 8.

    Args:
        path: a text file with any line endings, or a pipe.
        encoding: of the file; UTF-8 by default.

    Returns:
        The text without a byte order mark; its lines end in `\n`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a byte that is not valid in this encoding, an unknown encoding, or no text.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.txt"
        >>> _ = path.write_bytes(b"one\r\ntwo\r\n")
        >>> read_text(path)
        'one\ntwo\n'
    """
    content, encoding = Path(path).read_bytes(), encoding or "utf-8"
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} must be text in {encoding}, got byte 0x{content[error.start]:02x} at offset "
            f"{error.start}, line {line}; if it has another encoding, pass that, such as 'utf-16'"
        ) from None
    except LookupError:
        raise ValueError(f"encoding must be one that Python knows, got {encoding!r}") from None
    if not text.strip():
        raise ValueError(f"{path} must hold a text, got {len(text)} characters of white space")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_pairs(
    path: str | PathLike[str], *, encoding: str | None = None, max_length: int = 200
) -> Corpus:
    r"""Read pairs of sentences, one per line: source and target with a tab between them. Chapter 4.

    White space separates tokens. Columns after the second (published collections keep the authors'
    names there) and blank lines are ignored. A line without a tab, with an empty side or with more
    than `max_length` tokens on a side is skipped, and a warning says so.

    Args:
        path: of the file.
        encoding: as for `read_text`.
        max_length: the most tokens on a side; 1 or more.

    Returns:
        The pairs, and the skipped lines with the reason.

    Raises:
        OSError: the file cannot be read.
        ValueError: as in `read_text`, and for a file without a single pair.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.tsv"
        >>> _ = path.write_text("wie geht es\thow are you\n", encoding="utf-8")
        >>> read_pairs(path).pairs
        [(('wie', 'geht', 'es'), ('how', 'are', 'you'))]
    """
    check_integers(1, max_length=max_length)
    corpus = Corpus(Path(path), [], [])
    for number, line in enumerate(read_text(path, encoding=encoding).split("\n"), 1):
        source, target = [tuple(side.split()) for side in [*line.split("\t"), ""][:2]]
        if "\t" in line and source and target and max(len(source), len(target)) <= max_length:
            corpus.pairs.append((source, target))
        elif line.strip(" "):
            reason = "no tab" if "\t" not in line else f"a side must have 1 to {max_length} tokens"
            corpus.skipped.append((number, reason))
    if not corpus.pairs:
        raise ValueError(f"there must be at least one pair, got none; {corpus}")
    if corpus.skipped:
        warnings.warn(str(corpus), stacklevel=2)
    return corpus
