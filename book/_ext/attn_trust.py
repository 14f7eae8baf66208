"""`{trust}`: what is checked, counted in the sources as the book is built."""

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

Cell = dict[str, Any]


def cells_of(book: Path) -> list[Cell]:
    """The cells of all notebooks, without the one that launches it elsewhere."""
    read = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(book.glob("*.ipynb")))
    return [cell for notebook in read for cell in notebook["cells"] if cell["id"] != "launch"]


def source(cell: Cell) -> str:
    return "".join(cell["source"])


def tagged(cell: Cell, *tags: str) -> bool:
    return not set(tags).isdisjoint(cell["metadata"].get("tags", ()))


def printed(cell: Cell) -> str:
    """What a cell prints and shows, without its pictures."""
    outputs = cell.get("outputs", ())
    shown = ["".join(out.get("text", "")) for out in outputs]
    shown += ["".join(text) for out in outputs for kind, text in out.get("data", {}).items()
              if kind.startswith("text/")]  # fmt: skip
    return "\n".join(shown)


def tests_in(folder: Path) -> int:
    """The functions that pytest runs in a folder; most of them run on many cases."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("test_*.py"))
    return sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for tree in trees
        for node in ast.walk(tree)
    )


def claims(code: list[Cell]) -> int:
    """The assertions, comparisons of tensors and checks that a run of the cells has to pass."""
    found = re.compile(r"^\s*assert |\bassert_close\(|\bcheck_\w+\(", re.MULTILINE)
    return sum(len(found.findall(source(cell))) for cell in code)


def wrong_answers(root: Path) -> int:
    import importlib

    names = [path.stem for path in (root / "tests" / "wrong_answers").glob("[a-z]*.py")]
    modules = (importlib.import_module(f"tests.wrong_answers.{name}") for name in names)
    return sum(len(answers) for module in modules for answers in module.ANSWERS.values())


def counted(root: Path) -> list[tuple[int, str, str]]:
    """How many, of what, and the command that checks them."""
    if str(root) not in sys.path:
        sys.path.append(str(root))
    from tools.faults import FAULTS

    cells = cells_of(root / "book")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    prose = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    compared = [cell for cell in code if not tagged(cell, "nbval-ignore-output", "needs-triton")]
    outputs = "\n".join(printed(cell) for cell in compared)
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    pages = len(re.findall(r"'(?:file|root)': ", str(contents)))
    tests = root / "tests"
    return [
        (len(compared), "cells run again, and what they print is compared", "make nbval"),
        (outputs.count(" ± "), "numbers compared within the tolerance beside them", "make nbval"),
        (outputs.count("<attn-widget>"), "widgets whose data is compared", "make nbval"),
        (claims(code), "assertions and checks in the notebooks' own cells", "make nbval"),
        (prose.count("{exercise}"), "exercises", ""),
        (sum(tagged(cell, "stub") for cell in code),
         "of them with a check that accepts the book's solution", "make unit"),
        (wrong_answers(root), "wrong answers refused, each with its mistake named", "make unit"),
        (tests_in(tests), "tests of the package and the repository", "make unit"),
        (tests_in(tests / "browser"), "tests in a browser", "make browser"),
        (pages, "pages opened by them", "make browser"),
        (len(FAULTS), "faults planted, each caught by a test that is named", "make faults"),
    ]  # fmt: skip


class TrustDirective(SphinxDirective):
    """The table of what is counted."""

    def run(self) -> list[nodes.Node]:
        table = nodes.table("", group := nodes.tgroup(cols=3), classes=["trust"])
        group += [nodes.colspec(colwidth=width) for width in (1, 8, 2)]
        group += (body := nodes.tbody())
        for number, what, command in counted(Path(self.env.srcdir)):
            entries = [nodes.paragraph("", f"{number:,}"), nodes.paragraph("", what)]
            entries.append(nodes.paragraph("", "", *([nodes.literal("", command)] * bool(command))))
            body += nodes.row("", *(nodes.entry("", entry) for entry in entries))
        return [table]


def refresh(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """An incremental build counts anew whatever page changed."""
    return [page for page in env.found_docs if page.endswith("/trust")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("trust", TrustDirective)
    app.connect("env-updated", refresh)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
