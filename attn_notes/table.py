"""A result with rows, shown as a table: HTML on a page, aligned text in a terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral

from torch import Tensor

Cell = str | int | float | Tensor


@dataclass(frozen=True)
class Table:
    """Text in rows and columns; a notebook shows it as HTML. `table` makes one."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(map(str.ljust, line, widths)) for line in lines]
        return "\n".join(text.rstrip() for text in texts)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = ["".join(f"<td>{_signed(escape(cell))}</td>" for cell in row) for row in self.rows]
        lines = "\n".join(f"<tr>{row}</tr>" for row in body)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"


def table(rows: Sequence[Sequence[Cell]], columns: Sequence[str], digits: int = 2) -> Table:
    """A table of `rows` under the names of `columns`.

    Args:
        rows: each as long as `columns`; text, whole numbers, floats or tensors of one number.
        columns: the names above them.
        digits: decimals of a float.

    Raises:
        ValueError: where a row is longer or shorter than `columns`.

    Example:
        >>> table([("one head", 0.5), ("two heads", 0.25)], ["layer", "error"])
        layer      error
        one head   0.50
        two heads  0.25
    """
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"each row must have {len(columns)} cells, got {row!r}")
    texts = tuple(tuple(_text(cell, digits) for cell in row) for row in rows)
    return Table(tuple(columns), texts)


def _signed(text: str) -> str:
    """A number's hyphen as the minus sign that it stands for; in "-three" it stays."""
    return re.sub(r"^-(?=\d|inf\b)", "−", text)


def _text(cell: Cell, digits: int) -> str:
    if isinstance(cell, Tensor):
        cell = cell.item()
    return str(cell) if isinstance(cell, str | Integral) else f"{cell:.{digits}f}"
