"""Show the package's own code on the page, without its docstring."""

import ast
import inspect
import textwrap
from typing import Any

__all__ = ["Source", "show_source"]


class Source:
    """A piece of source code that a notebook displays as highlighted Python.

    Args:
        text: the code.

    Example:
        >>> Source("x = 1")
        x = 1
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"


def show_source(thing: Any) -> Source:
    """The source of a function or class of the package, its docstrings left out.

    The chapters derive a formula with bare tensors first, and show with this what the package
    runs; the docstring is on the API page.

    Args:
        thing: a Python function, method or class.

    Returns:
        An object that a notebook shows as highlighted code, and `print` as plain text.

    Raises:
        TypeError: `thing` has no Python source, as a built-in function has none.

    Example:
        >>> def double(x):
        ...     return 2 * x
        >>> show_source(double)
        def double(x):
            return 2 * x
    """
    try:
        text = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError) as error:
        raise TypeError(
            f"thing must be a function or class written in Python, got {thing!r}"
        ) from error
    lines = text.rstrip().splitlines()
    for start, stop in reversed(_docstring_spans(ast.parse(text), lines)):
        del lines[start:stop]
    return Source("\n".join(lines))


def _docstring_spans(tree: ast.Module, lines: list[str]) -> list[tuple[int, int]]:
    """Half-open line ranges of every docstring in `tree`, blank line after it included."""
    spans = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or not ast.get_docstring(node):
            continue
        if len(node.body) == 1:
            continue  # without its docstring it would have no body
        stop = node.body[0].end_lineno or node.body[0].lineno
        spans.append((node.body[0].lineno - 1, stop + (not lines[stop].strip())))
    return sorted(spans)
