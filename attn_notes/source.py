"""Show the package's own code on the page, without its docstring."""

import ast
import inspect
import re
import textwrap
from typing import Any


class Source:
    """A piece of source code that a notebook displays as highlighted Python."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"


def show_source(thing: Any) -> Source:
    """The source of a function or class of the package, without its docstrings.

    A notebook shows it as highlighted code, and `print` as plain text.

    Example:
        >>> def double(x):
        ...     return 2 * x
        >>> show_source(double)
        def double(x):
            return 2 * x
    """
    function = getattr(thing, "fn", thing)  # what a Triton kernel was made from
    text = re.sub(r"(?m)  # fmt: skip$", "", textwrap.dedent(inspect.getsource(function)))
    lines: list[str | None] = [*text.rstrip().splitlines()]
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or not ast.get_docstring(node):
            continue
        first, stop = node.body[0].lineno - 1, node.body[0].end_lineno or 0
        if len(node.body) > 1:  # without its docstring it would have no body
            stop += not lines[stop]  # a blank line after it
            lines[first:stop] = [None] * (stop - first)
    return Source("\n".join(line for line in lines if line is not None))
