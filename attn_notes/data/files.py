"""The reader's own texts, from a file: running text, or pairs of sentences (chapters 4 and 8)."""

import warnings
from os import PathLike
from pathlib import Path

from attn_notes.data.split import Pair

_MOST_TOKENS = 200  # on a side


def read_text(path: str | PathLike[str], *, encoding: str | None = None) -> str:
    r"""A text from a file with any line endings, or a pipe, in UTF-8 by default. Chapter 9.

    Without a byte order mark; its lines end in `\n`.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.txt"
        >>> _ = path.write_bytes(b"one\r\ntwo\r\n")
        >>> read_text(path)
        'one\ntwo\n'
    """
    try:
        text = Path(path).read_text(encoding or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        got = f"got byte 0x{error.object[error.start]:02x} in line {line}"
        hint = "if it has another encoding, pass that, such as 'utf-16'"
        raise ValueError(f"{path} must be text in {error.encoding}, {got}; {hint}") from None
    except LookupError:
        raise ValueError(f"encoding must be one that Python knows, got {encoding!r}") from None
    if not text.strip():
        raise ValueError(f"{path} must hold a text, got {len(text)} characters of white space")
    return text


def read_pairs(path: str | PathLike[str], *, encoding: str | None = None) -> list[Pair]:
    r"""Read pairs of sentences, one per line: source and target with a tab between them. Chapter 4.

    The file is as for `read_text`. Columns after the second and blank lines are ignored. Lines
    without a tab, or without 1 to 200 tokens on a side, are skipped with a warning.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.tsv"
        >>> _ = path.write_text("wie geht es\thow are you\n", encoding="utf-8")
        >>> read_pairs(path)
        [(('wie', 'geht', 'es'), ('how', 'are', 'you'))]
    """
    pairs: list[Pair] = []
    skipped = []
    for number, line in enumerate(read_text(path, encoding=encoding).split("\n"), 1):
        sides = [tuple(side.split()) for side in line.split("\t")[:2]]
        if len(sides) == 2 and all(0 < len(side) <= _MOST_TOKENS for side in sides):
            pairs.append((sides[0], sides[1]))
        elif line.strip():
            skipped.append(number)
    if not pairs:
        raise ValueError(f"{path} must hold at least one pair, with a tab between its sides")
    if skipped:
        wanted = f"a line must hold a tab, and 1 to {_MOST_TOKENS} tokens on either side"
        kept = f"{len(pairs):,} pairs kept, {len(skipped):,} lines skipped"
        warnings.warn(f"{path}: {kept}, line {skipped[0]} the first: {wanted}", stacklevel=2)
    return pairs
