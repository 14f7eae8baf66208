"""The code shown on a page is the package's own code, without its docstrings."""

import ast
import importlib
import inspect
import pkgutil
import textwrap

import attn_notes
from attn_notes.source import show_source


def public_code():
    """Every public function and class of the package that is written in it."""
    names = {info.name for info in pkgutil.iter_modules(attn_notes.__path__, "attn_notes.")}
    for module in map(importlib.import_module, sorted(names - {"attn_widgets"})):
        public = (thing for name, thing in sorted(vars(module).items()) if name[0] != "_")
        for thing in public:
            is_code = inspect.isfunction(thing) or inspect.isclass(thing)
            if is_code and f"{thing.__module__}.".startswith(f"{module.__name__}."):
                yield thing


def without_docstrings(code: str) -> str:
    """The same code by way of the syntax tree, for comparison."""
    tree = ast.parse(textwrap.dedent(code))
    for node in ast.walk(tree):
        is_documented = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
        if is_documented and len(node.body) > 1:
            del node.body[0]
    return ast.dump(tree)


def test_what_is_shown_of_any_public_code_is_the_code_without_its_docstrings():
    for thing in public_code():
        shown = show_source(thing).text
        assert ast.dump(ast.parse(shown)) == without_docstrings(inspect.getsource(thing)), thing
        if not getattr(thing, "_is_protocol", False):  # its docstrings are all there is
            assert "Args:" not in shown, thing


def test_a_notebook_shows_it_as_highlighted_python_with_its_comments_and_blank_lines():
    def spaced(x):
        """Twice x.

        At length.
        """
        # Why it is so.
        y = x

        return y + x

    expected = "def spaced(x):\n    # Why it is so.\n    y = x\n\n    return y + x"
    assert repr(show_source(spaced)) == expected
    assert show_source(spaced)._repr_markdown_() == f"```python\n{expected}\n```"
