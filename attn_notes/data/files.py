"""The reader's own text, from a file (chapter 9)."""

from os import PathLike
from pathlib import Path


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
