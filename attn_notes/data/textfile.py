"""The lines of a text file, in any encoding; a byte that is no text is named (chapters 4 and 8)."""

import codecs
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["MARK", "NUL", "OTHER", "no_text", "text_lines"]

MARK = "\ufeff"
"""The byte order mark, once it is decoded."""
NUL = "a NUL character"
"""What a text does not hold: it comes of the wrong encoding, or of no text."""
OTHER = "if the file is written in another encoding, name it"
"""What to do about it."""

# UTF-32 first: its mark begins as that of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def text_lines(
    path: Path, encoding: str | None = None, *, longest: int | None = None
) -> Iterator[tuple[int, str]]:
    r"""Every line of a file with its number. Chapter 4.

    Lines may end as on any system, and end in `\n` here, all but perhaps the last. A byte order
    mark before a line is left out, also before a later one, where two files were put together.

    Args:
        path: a text file, or a pipe, which is read once.
        encoding: of the file. By default what its byte order mark says, or UTF-8 without one.
        longest: of a longer line, its end not counted, the beginning is given, more than `longest`
            characters of it, and the rest is passed over without being kept. By default none is
            too long.

    Returns:
        (line number from 1, line), one after the other.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a byte that is no text in this encoding, or an encoding that Python does not
            know or that no file is written in.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.txt"
        >>> _ = path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
        >>> list(text_lines(path))
        [(1, 'one\n'), (2, 'two')]
    """
    with path.open("rb") as file:
        if encoding is None:
            start = file.peek(4)  # without taking it: a pipe gives every byte once
            encoding = next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")
        try:
            with io.TextIOWrapper(file, encoding, errors="attn_notes.half_pair") as text:
                for number, line in enumerate(_pieces(text, longest), 1):
                    if bad := no_text(line):
                        raise ValueError(f"{path}:{number}: {bad} in {encoding}; {OTHER}")
                    yield number, line.removeprefix(MARK)
        except LookupError:
            raise ValueError(f"encoding must be one that Python knows, got {encoding!r}") from None
        except UnicodeError as error:  # UTF-16 by name without its mark; idna and its like
            raise ValueError(f"{path} must be text in {encoding}, got: {error}") from None


def no_text(line: str) -> str:
    r"""What was found in place of a character: a byte, or half a pair that was spelt out.

    Args:
        line: decoded so that a byte that is no text became half a surrogate pair.

    Returns:
        The first such thing and that it is none; nothing where all is text.

    Example:
        >>> no_text(b"f\xfcnf".decode("utf-8", errors="surrogateescape"))
        'byte 0xfc is no text'
    """
    found = _HALF_PAIR.search(line)
    if not found:
        return ""
    number = ord(found[0])
    byte = 0xDC00 <= number < 0xDD00
    return f"byte 0x{number - 0xDC00:02x} is no text" if byte else f"U+{number:X} is no character"


def _pieces(text: TextIO, longest: int | None) -> Iterator[str]:
    """Every line with its end; of an enormous one the first piece."""
    size = -1 if longest is None else longest + 2  # and its end, and a mark before it
    while line := text.readline(size):
        yield line
        while len(line) == size and not line.endswith("\n"):
            line = text.readline(size)


def _half_pair(error: UnicodeError) -> tuple[str, int]:
    """A byte that is no text becomes half a surrogate pair, which no text holds.

    Raised at once, the error would know its place in a block of the file, but not its line.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) for byte in wrong), error.end


codecs.register_error("attn_notes.half_pair", _half_pair)
