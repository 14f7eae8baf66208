"""What every notebook of the book must keep to; each rule gives its complaints, cell by cell.

A rule takes the cells of one notebook. Rules that only chapters keep (the numbered notebooks)
stand in `CHAPTER_RULES`. `python tools/notebooks.py --check` tells which are broken.
"""

import ast
import base64
import html as markup
import importlib
import itertools
import json
import pkgutil
import re
import symtable
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import attn_notes

Cell = dict[str, Any]
Rule = Callable[[list[Cell]], list[str]]

KNOWN_TAGS = {
    "hide-input", "remove-input", "print-only", "stub", "nbval-ignore-output", "raises-exception",
    "needs-topics", "needs-triton",
}  # fmt: skip
MOST_LINES = 14  # of code in a cell that is read
MOST_LINES_FOLDED = 20  # in one that the reader has to unfold
MOST_COLUMNS = 78  # of a shown source: what a page has room for without a scroll bar
WIDEST_STILL = 650  # pixels: the labels of a wider one are under 8 pixels high on a telephone
FEWEST_EXERCISES = 4
MOST_WORDS = 5_000  # of a chapter's main text
MOST_WORDS_BEFORE_A_WIDGET = 110  # that a chapter opens with

FACTORIES = {
    "arange", "as_tensor", "empty", "eye", "full", "linspace", "logspace", "normal", "ones", "rand",
    "randint", "randn", "randperm", "tensor", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip


def read(path: Path) -> list[Cell]:
    """The cells of a notebook, each source one string, without the one that launches it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": text(cell["source"])} for cell in cells if cell["id"] != "launch"]


def text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def tags(cell: Cell) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def code(cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell["cell_type"] == "code"]


def prose(cells: list[Cell]) -> str:
    return "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")


def parse(cell: Cell) -> ast.Module:
    """The cell's syntax tree, without the lines that are IPython's own."""
    return ast.parse(re.sub(r"^\s*[%!].*$", "", cell["source"], flags=re.MULTILINE))


def data_of(cell: Cell, mime: str) -> list[str]:
    outputs = cell.get("outputs", [])
    return [text(out["data"][mime]) for out in outputs if mime in out.get("data", {})]


def texts_of(cell: Cell) -> list[str]:
    """The lines that its outputs print or say in plain text."""
    printed = [text(out.get("text", "")) for out in cell.get("outputs", [])]
    return "\n".join([*printed, *data_of(cell, "text/plain")]).splitlines()


def widgets_of(cell: Cell) -> list[str]:
    return [html for html in data_of(cell, "text/html") if "<attn-widget" in html]


# ---- Rules for every notebook ----------------------------------------------------------------


def every_cell_is_executed(cells: list[Cell]) -> list[str]:
    """Nbval compares nothing where there is no count."""
    return [f"{cell['id']}: not executed" for cell in code(cells) if not cell["execution_count"]]


def known_tags_only(cells: list[Cell]) -> list[str]:
    unknown = [(cell["id"], sorted(tags(cell) - KNOWN_TAGS)) for cell in cells]
    return [f"{name}: unknown tags {found}" for name, found in unknown if found]


def short_cells(cells: list[Cell]) -> list[str]:
    """A cell is one idea of about ten lines; blanks, comments and imports don't count."""
    complaints = []
    for cell in code(cells):
        lines = dict(enumerate(cell["source"].splitlines(), 1))
        for node in parse(cell).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "")
        size = sum(not re.match(r"\s*(#|$)", line) for line in lines.values())
        most = MOST_LINES_FOLDED if "hide-input" in tags(cell) else MOST_LINES
        if size > most:
            complaints.append(f"{cell['id']}: {size} lines of code, at most {most}")
    return complaints


def tensors_on_a_device(cells: list[Cell]) -> list[str]:
    """Each factory names its device; random numbers come from a CPU generator and are moved."""
    trees = {cell["id"]: parse(cell) for cell in code(cells)}
    trees |= {f"solution {label}": ast.parse(answer) for label, answer in solutions(cells).items()}
    return [f"{name}: line {n}" for name, tree in trees.items() for n in homeless_factories(tree)]


def homeless_factories(tree: ast.AST) -> list[int]:
    """Lines where torch makes a tensor without being told where.

    `torch.randn(…, generator=…)` is fine where its statement moves the result: `(…).to(device)`.
    """
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def is_moved(node: ast.AST) -> bool:
        while node in parents and not isinstance(node, ast.stmt):
            node = parents[node]
            if isinstance(node, ast.Attribute) and node.attr in ("to", "cpu"):
                return True
        return False

    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name.startswith("torch.") and name.removeprefix("torch.") in FACTORIES:
            keywords = {keyword.arg for keyword in node.keywords}
            if "device" not in keywords and not ("generator" in keywords and is_moved(node)):
                lines.append(node.lineno)
    return lines


def no_name_of_the_package_redefined(cells: list[Cell]) -> list[str]:
    return [
        f"{cell['id']}: redefines {name}"
        for cell in code(cells)
        for name in sorted(bindings(parse(cell)) & public_names())
    ]


@cache
def public_names() -> set[str]:
    """The names of all modules and packages that readers import from."""
    modules = pkgutil.iter_modules(attn_notes.__path__, "attn_notes.")
    return {name for info in modules for name in names_of(importlib.import_module(info.name))}


def names_of(module: Any) -> set[str]:
    """What a package lists in `__all__`, or a module defines without an underscore."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    own = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    tree.body = [node for node in tree.body if isinstance(node, own)]
    return {name for name in bindings(tree) if not name.startswith("_")}


def bindings(tree: ast.Module) -> set[str]:
    """What a cell binds at its top level, imports of the package under their own names excepted."""
    symbols = symtable.symtable(ast.unparse(tree), "cell", "exec").get_symbols()
    ours = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("attn_notes.")
        for alias in node.names
        if alias.asname in (None, alias.name)
    }
    imported = {one.get_name() for one in symbols if one.is_imported()} - ours
    return imported | {one.get_name() for one in symbols if one.is_assigned()}


def ignored_outputs_are_rare_and_explained(cells: list[Cell]) -> list[str]:
    ignored = [cell for cell in code(cells) if "nbval-ignore-output" in tags(cell)]
    complaints = [f"{c['id']}: no comment says why" for c in ignored if "#" not in c["source"]]
    # A comment would do the same as the tag, unnoticed by this rule.
    complaints += [f"{c['id']}: a NBVAL_ comment" for c in code(cells) if "NBVAL_" in c["source"]]
    if len(ignored) > (most := max(2, len(code(cells)) // 10)):
        complaints.append(f"{len(ignored)} cells are not compared, at most {most} may be")
    return complaints


def nothing_that_changes_between_runs(cells: list[Cell]) -> list[str]:
    """No address of an object in an output, nothing on stderr, no `;` that hides a result."""
    complaints = []
    for cell in code(cells):
        if any(re.search(r"\bat 0x[0-9a-f]{6,}", line) for line in texts_of(cell)):
            complaints.append(f"{cell['id']}: the address of an object")
        if any(out.get("name") == "stderr" for out in cell.get("outputs", [])):
            complaints.append(f"{cell['id']}: a warning or a message on stderr")
        if cell["source"].rstrip().endswith(";"):
            complaints.append(f"{cell['id']}: ends in a semicolon")
    return complaints


def stills_can_be_read_on_a_telephone(cells: list[Cell]) -> list[str]:
    stills = [(cell["id"], png) for cell in code(cells) for png in data_of(cell, "image/png")]
    widths = [(name, int.from_bytes(base64.b64decode(png)[16:20])) for name, png in stills]
    wide = [(name, width) for name, width in widths if width > WIDEST_STILL]
    return [f"{name}: a still of {width} pixels, at most {WIDEST_STILL}" for name, width in wide]


def every_figure_has_a_caption_and_says_what_it_shows(cells: list[Cell]) -> list[str]:
    """An `alt` for those who don't see it; then a caption: a paragraph in italics."""
    complaints = []
    for cell, after in itertools.pairwise([*cells, None]):
        if cell is None or not data_of(cell, "image/png"):
            continue
        if len(cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")) < 25:
            complaints.append(f"{cell['id']}: its figure has no alt")
        first = re.split(r"\n\s*\n", prose([after]).strip() if after else "")[0]
        if not re.fullmatch(r"\*[^*].*[^*]\*", first, re.DOTALL):
            complaints.append(f"{cell['id']}: no paragraph in italics, its caption, follows")
    return complaints


def every_drawing_has_a_caption_and_says_what_it_shows(cells: list[Cell]) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", prose(cells))
    return [
        f"{found[2]}: no alt, or no paragraph in italics after it"
        for image, after in zip(paragraphs, [*paragraphs[1:], ""], strict=True)
        if (found := re.fullmatch(r"!\[(.*)\]\((drawings/.*)\)", image.strip(), re.DOTALL))
        and not (len(found[1]) >= 25 and re.fullmatch(r"\*[^*].*\*", after.strip(), re.DOTALL))
    ]


def numbers_and_not_booleans(cells: list[Cell]) -> list[str]:
    """Outputs say what was measured; True and False only in a mask, a tensor or a table of them."""
    found = []
    for cell in code(cells):
        if "stub" in tags(cell) or "show_source(" in cell["source"]:  # what is shown there is code
            continue
        for line in texts_of(cell):
            count = len(re.findall(r"\b(?:True|False)\b", line))
            if 0 < count < 3 and not re.search(r"[\[({].*(?:True|False)", line):
                found.append(f"{cell['id']}: {line.strip()}")
    return found


STATE = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


def links_set_what_a_widget_has(cells: list[Cell]) -> list[str]:
    """Each link #kind-n?trait=value names a widget of the page, its traits, and values that fit."""
    found = [STATE.search(html) for cell in cells for html in widgets_of(cell)]
    shown = [json.loads(state[1]) for state in found if state]
    wrong = []
    for link in re.findall(r'href="#([^"]+\?[^"]+)"', prose(cells)):
        name, _, query = markup.unescape(link).partition("?")
        kind, _, nth = name.partition("-")
        states = [one["state"] for one in shown if one["widget"] == kind]
        state = states[int(nth or 1) - 1] if len(states) >= int(nth or 1) else {}
        wrong += [
            f"{link}: {name}" for name, text in parse_qsl(query) if not fits(state, name, text)
        ]
    return wrong


def fits(state: dict[str, Any], trait: str, text: str) -> bool:
    """Whether a widget has the trait, and it can hold what a link says."""
    for control in state.get("data", {}).get("controls", ()):  # of `explore`
        if control["name"] == trait:
            return text in [c if isinstance(c, str) else json.dumps(c) for c in control["choices"]]
    now = state.get(trait)
    value = text if isinstance(now, str) else json.loads(text)
    kinds = [float if type(one) is int else type(one) for one in (now, value)]
    return kinds[0] is kinds[1]


# ---- Rules for chapters ----------------------------------------------------------------------

DIRECTIVE = re.compile(
    r"^(`{3,}|:{3,})\{(exercise|solution)\}[ \t]*(.*)\n((?:.*\n)*?)\1[ \t]*$", re.MULTILINE
)


def directives(cell: Cell) -> list[tuple[str, str, str]]:
    """(kind, label, body) of each exercise or solution; a solution's label is its exercise's."""
    found = []
    source = cell["source"] if cell["cell_type"] == "markdown" else ""
    for _, kind, title, body in DIRECTIVE.findall(source):
        label = re.search(r"^:label:[ \t]*(\S+)", body, re.MULTILINE)
        found.append((kind, title if kind == "solution" else label[1] if label else "", body))
    return found


def labels(cells: list[Cell], kind: str) -> list[str]:
    return [label for cell in cells for k, label, _ in directives(cell) if k == kind]


def solutions(cells: list[Cell]) -> dict[str, str]:
    """The Python of each solution that has any, by the label of its exercise."""
    found = {}
    for cell in cells:
        for kind, label, body in directives(cell):
            blocks = re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
            if kind == "solution" and blocks:
                found[label] = "\n".join(blocks)
    return found


def enough_exercises_and_all_solved(cells: list[Cell]) -> list[str]:
    """Sphinx warns of a label that is there twice, and of a solution to no exercise."""
    exercises, solved = labels(cells, "exercise"), labels(cells, "solution")
    complaints = [f"{label}: has no solution" for label in exercises if label not in solved]
    if len(exercises) < FEWEST_EXERCISES:
        complaints.append(f"{len(exercises)} exercises, at least {FEWEST_EXERCISES}")
    return complaints


def exercises_say_how_hard_and_how_long(cells: list[Cell]) -> list[str]:
    return [
        f"{label}: no stars, or no minutes"
        for cell in cells
        for kind, label, body in directives(cell)
        if kind == "exercise"
        and not (re.search("★{1,3}", body) and re.search(r"\d+ minutes", body))
    ]


def ends_with_summary_and_further_reading(cells: list[Cell]) -> list[str]:
    headings = re.findall(r"^## +(.+)$", prose(cells), re.MULTILINE)
    if [heading.strip().lower() for heading in headings[-2:]] == ["summary", "further reading"]:
        return []
    return [f"the last headings are {headings[-2:]}"]


def a_widget_stands_on_the_first_screen(cells: list[Cell]) -> list[str]:
    """Folded imports, which the page puts below it, then the folded cell of a widget."""
    opening = code(cells)[:2]
    folded = all("hide-input" in tags(cell) for cell in opening)
    if not (folded and opening and widgets_of(opening[-1])):
        return ["the first two cells are not imports and a widget, both folded"]
    count = words_of_main_text(cells[: cells.index(opening[-1])])
    most = MOST_WORDS_BEFORE_A_WIDGET
    return [] if count <= most else [f"{count} words before the first widget, at most {most}"]


def words_of_main_text(cells: list[Cell]) -> int:
    """Words of prose, without formulas, code, and what stands in exercises and folds."""
    words = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", " ", prose(cells), flags=re.MULTILINE | re.DOTALL)
    words = re.sub(r"\$\$.*?\$\$(\s*\([\w-]+\))?", " ", words, flags=re.DOTALL)
    words = re.sub(r"\$[^$]*\$|`[^`]*`|<[^>]*>", " ", words)
    return len(re.findall(r"[A-Za-z][\w'’-]*", words))


def main_text_is_short(cells: list[Cell]) -> list[str]:
    count = words_of_main_text(cells)
    return [] if count <= MOST_WORDS else [f"{count} words of main text, at most {MOST_WORDS}"]


def shown_sources(cells: list[Cell]) -> Iterator[tuple[str, str]]:
    """The argument and the source of every call of `show_source`."""
    nodes = [node for cell in code(cells) for node in ast.walk(parse(cell))]
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "show_source":
            continue
        names: dict[str, Any] = {}
        shown = ast.unparse(node.args[0])
        for line in nodes:
            if isinstance(line, ast.ImportFrom) and shown.split(".")[0] in {
                alias.asname or alias.name for alias in line.names
            }:
                exec(ast.unparse(line), names)
        yield shown, repr(attn_notes.show_source(eval(shown, names)))


def no_shown_source_is_wider_than_the_page(cells: list[Cell]) -> list[str]:
    return [
        f"{shown}: {line}"
        for shown, source in shown_sources(cells)
        for line in source.splitlines()
        if len(line) > MOST_COLUMNS
    ]


RULES: list[Rule] = [
    every_cell_is_executed,
    known_tags_only,
    short_cells,
    tensors_on_a_device,
    no_name_of_the_package_redefined,
    ignored_outputs_are_rare_and_explained,
    nothing_that_changes_between_runs,
    links_set_what_a_widget_has,
    stills_can_be_read_on_a_telephone,
    every_figure_has_a_caption_and_says_what_it_shows,
    every_drawing_has_a_caption_and_says_what_it_shows,
    numbers_and_not_booleans,
]
CHAPTER_RULES: list[Rule] = [
    enough_exercises_and_all_solved,
    exercises_say_how_hard_and_how_long,
    ends_with_summary_and_further_reading,
    a_widget_stands_on_the_first_screen,
    main_text_is_short,
    no_shown_source_is_wider_than_the_page,
]


def broken(path: Path) -> list[str]:
    """The complaints of every rule that this notebook has to keep, each after the rule's name."""
    complaints = []
    for rule in RULES + (CHAPTER_RULES if path.stem[:2].isdigit() else []):
        try:
            complaints += [f"{rule.__name__}: {complaint}" for complaint in rule(read(path))]
        except (ValueError, KeyError, SyntaxError) as error:  # such as a cell that is no Python
            complaints.append(f"{rule.__name__}: {error!r}")
    return complaints
