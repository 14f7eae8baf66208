"""What every notebook of the book must keep to, and what is worth a second look.

`python tools/notebooks.py --check` fails where one of `RULES` is broken, and prints what `WARNINGS`
find. A rule takes the cells of one notebook and gives its complaints.
"""

import ast
import base64
import builtins
import html as markup
import itertools
import json
import re
import symtable
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import nbformat

Cell = dict[str, Any]
Rule = Callable[[list[Cell]], list[str]]

KNOWN_TAGS = {
    "hide-input", "remove-input", "print-only", "own-caption", "stub", "nbval-ignore-output",
    "raises-exception", "needs-triton",
}  # fmt: skip
# As `FoldCode` of the book's extension: the page folds the code of a cell that begins so.
DRAWS = re.compile(r"[\w, ()]+ = plt\.subplots\(")
NAMES_OF_IPYTHON = {"display", "get_ipython", "__name__", "__file__"}
# Above these a warning is printed.
MANY_LINES, MANY_LINES_FOLDED = 16, 24  # of code in a cell
WIDE = 700  # pixels of a still: the labels of a wider one are small on a telephone
MANY_WORDS = 3_000  # of a page's main text


def read(path: Path) -> list[Cell]:
    """The cells of a notebook, without the one that launches it."""
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell["id"] != "launch"]


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
    return [out["data"][mime] for out in outputs if mime in out.get("data", {})]


def is_folded(cell: Cell) -> bool:
    """Whether a page shows the cell's code only to those who ask for it."""
    hidden = tags(cell) & {"hide-input", "remove-input"}
    return cell["cell_type"] == "code" and bool(hidden or DRAWS.match(cell["source"]))


def first_shown(cells: list[Cell]) -> Cell:
    """The first code cell that a page shows, which imports what the others need."""
    return next((cell for cell in code(cells) if not is_folded(cell)), code(cells)[0])


def every_cell_is_executed(cells: list[Cell]) -> list[str]:
    """Nbval compares nothing where there is no count."""
    return [f"{cell['id']}: not executed" for cell in code(cells) if not cell["execution_count"]]


def known_tags_only(cells: list[Cell]) -> list[str]:
    unknown = [(cell["id"], sorted(tags(cell) - KNOWN_TAGS)) for cell in cells]
    return [f"{name}: unknown tags {found}" for name, found in unknown if found]


def what_is_not_compared_says_why(cells: list[Cell]) -> list[str]:
    ignored = [cell for cell in code(cells) if "nbval-ignore-output" in tags(cell)]
    complaints = [f"{c['id']}: no comment says why" for c in ignored if "#" not in c["source"]]
    # A comment would do the same as the tag, unnoticed by this rule.
    hidden = [cell for cell in code(cells) if "NBVAL_" in cell["source"]]
    return complaints + [f"{cell['id']}: a NBVAL_ comment" for cell in hidden]


def nothing_that_changes_between_runs(cells: list[Cell]) -> list[str]:
    """No address of an object in an output, nothing on stderr, no `;` that hides a result."""
    complaints = []
    for cell in code(cells):
        outputs = cell.get("outputs", [])
        said = [out.get("text", "") for out in outputs] + data_of(cell, "text/plain")
        if re.search(r"\bat 0x[0-9a-f]{6,}", "\n".join(said)):
            complaints.append(f"{cell['id']}: the address of an object")
        if any(out.get("name") == "stderr" for out in outputs):
            complaints.append(f"{cell['id']}: a warning or a message on stderr")
        if cell["source"].rstrip().endswith(";"):
            complaints.append(f"{cell['id']}: ends in a semicolon")
    return complaints


def every_picture_has_an_alt_and_a_caption(cells: list[Cell]) -> list[str]:
    """An `alt` for those who don't see it; then a caption: a paragraph in italics."""
    pictures = [
        (cell["id"], cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", ""), after)
        for cell, after in itertools.pairwise([*cells, {"cell_type": "end", "source": ""}])
        if data_of(cell, "image/png") + data_of(cell, "image/svg+xml")
    ]
    seen = [(name, alt, prose([after]).strip()) for name, alt, after in pictures]
    paragraphs = re.split(r"\n\s*\n", prose(cells))
    for image, after in itertools.pairwise([*paragraphs, ""]):
        if drawing := re.fullmatch(r"!\[(.*)\]\((drawings/.*)\)", image.strip(), re.DOTALL):
            seen.append((drawing[2], drawing[1], after))
    return [
        f"{name}: no alt, or no caption in italics after it"
        for name, alt, after in seen
        if len(alt) < 25
        or not re.fullmatch(r"\*[^*].*[^*]\*", re.split(r"\n\s*\n", after)[0].strip(), re.DOTALL)
    ]


STATE = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


def links_set_what_a_widget_has(cells: list[Cell]) -> list[str]:
    """Each link #kind-n?trait=value names a widget of the page, its traits, and values that fit."""
    shown = [
        json.loads(state)
        for cell in cells
        for html in data_of(cell, "text/html")
        for state in STATE.findall(html)[:1]
    ]
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


# ---- Exercises -------------------------------------------------------------------------------

DIRECTIVE = re.compile(
    r"^(`{3,}|:{3,})\{(exercise|solution)\}[ \t]*(.*)\n((?:.*\n)*?)\1[ \t]*$", re.MULTILINE
)


def directives(cells: list[Cell], kind: str) -> dict[str, str]:
    """The body of each exercise or solution, by the label of the exercise."""
    found = {}
    for _, name, title, body in DIRECTIVE.findall(prose(cells)):
        if name == kind:
            label = re.search(r"^:label:[ \t]*(\S+)", body, re.MULTILINE)
            found[title if kind == "solution" else label[1] if label else ""] = body
    return found


def labels(cells: list[Cell], kind: str) -> list[str]:
    return list(directives(cells, kind))


def solutions(cells: list[Cell]) -> dict[str, str]:
    """The Python of each solution that has any, by the label of its exercise."""
    blocks = {label: python(body) for label, body in directives(cells, "solution").items()}
    return {label: "\n".join(found) for label, found in blocks.items() if found}


def python(markdown: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)


def every_exercise_is_solved(cells: list[Cell]) -> list[str]:
    """Sphinx warns of a label that is there twice, and of a solution to no exercise."""
    solved = labels(cells, "solution")
    return [f"{one}: no solution" for one in labels(cells, "exercise") if one not in solved]


# ---- A reader types along --------------------------------------------------------------------


def the_first_cell_chooses_the_device(cells: list[Cell]) -> list[str]:
    """One call of `torch.set_default_device`; no cell or solution after it names a device."""
    first = first_shown(cells)
    complaints = []
    if "torch.set_default_device(get_device())" not in first["source"]:
        complaints.append(f"{first['id']}: no torch.set_default_device(get_device())")
    trees = {cell["id"]: parse(cell) for cell in code(cells) if cell is not first}
    trees |= {f"solution {label}": ast.parse(answer) for label, answer in solutions(cells).items()}
    for name, tree in trees.items():
        complaints += [f"{name}: line {n} names a device" for n in named_devices(tree)]
    return complaints


def named_devices(tree: ast.AST) -> list[int]:
    """Lines that say where a tensor is to be."""
    lines = []
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="device") | ast.Name("device") | ast.Attribute(attr="cuda"):
                lines.append(node.lineno)
    return lines


def shown_cells_stand_alone(cells: list[Cell]) -> list[str]:
    """A shown cell uses only names that it or a shown cell above it binds."""
    known, complaints = set(dir(builtins)) | NAMES_OF_IPYTHON, []
    for cell in code(cells):
        if is_folded(cell):
            continue
        bound, used = names_of(cell)
        if missing := sorted(used - bound - known):
            complaints.append(f"{cell['id']}: no shown cell above it binds {', '.join(missing)}")
        known |= bound
    return complaints


def names_of(cell: Cell) -> tuple[set[str], set[str]]:
    """The global names that a cell binds, and those that it uses, within its functions too."""
    bound, used = set(), set()
    tables = [symtable.symtable(ast.unparse(parse(cell)), cell["id"], "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table.get_type() == "module" or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
    return bound, used


def plain_numbers(cells: list[Cell]) -> list[str]:
    """No ± on the page, and no True or False where something was measured."""
    said = {cell["id"]: [cell["source"]] for cell in cells}
    complaints = []
    for cell in code(cells):
        streams = [out["text"] for out in cell.get("outputs", []) if "text" in out]
        said[cell["id"]] += streams
        results = [] if data_of(cell, "text/markdown") else data_of(cell, "text/plain")  # no source
        if re.search(r"\b(True|False)\b", "\n".join(streams + results)):
            complaints.append(f"{cell['id']}: prints True or False")
    found = [name for name, texts in said.items() if "±" in "\n".join(texts)]
    return complaints + [f"{name}: ± (a tolerance stands in the metadata)" for name in found]


def tolerances_that_hold_something(cells: list[Cell]) -> list[str]:
    """A tolerance is a number above 0 or a text such as "10%", of a cell that prints a number."""
    complaints = []
    for cell in cells:
        tolerance = cell["metadata"].get("tolerance", 1)
        number = isinstance(tolerance, float | int) and tolerance > 0
        if not number and not re.fullmatch(r"\d+%", str(tolerance)):
            complaints.append(f"{cell['id']}: tolerance {tolerance!r}")
        texts = data_of(cell, "text/plain") + [o.get("text", "") for o in cell.get("outputs", [])]
        if "tolerance" in cell["metadata"] and not re.search(r"\d", "".join(texts)):
            complaints.append(f"{cell['id']}: a tolerance, and no number")
    return complaints


# ---- Warnings --------------------------------------------------------------------------------


def long_cells(cells: list[Cell]) -> list[str]:
    """A cell is one idea of about ten lines; blanks, comments and imports don't count."""
    found = []
    for cell in code(cells):
        body = [n for n in parse(cell).body if not isinstance(n, ast.Import | ast.ImportFrom)]
        lines = ast.unparse(ast.Module(body, [])).splitlines()
        many = MANY_LINES_FOLDED if "hide-input" in tags(cell) else MANY_LINES
        found += [f"{cell['id']}: {len(lines)} lines of code"] * (len(lines) > many)
    return found


def wide_stills(cells: list[Cell]) -> list[str]:
    stills = [(cell["id"], png) for cell in code(cells) for png in data_of(cell, "image/png")]
    widths = [(name, int.from_bytes(base64.b64decode(png)[16:20])) for name, png in stills]
    drawings = [(cell["id"], svg) for cell in code(cells) for svg in data_of(cell, "image/svg+xml")]
    for name, svg in drawings:
        if found := re.search(r'<svg[^>]* width="([\d.]+)pt"', svg):
            widths.append((name, round(float(found[1]) * 4 / 3)))
    return [f"{name}: {width} pixels wide" for name, width in widths if width > WIDE]


def many_words(cells: list[Cell]) -> list[str]:
    """Of prose, without formulas, code, and what stands in exercises and folds."""
    words = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", " ", prose(cells), flags=re.MULTILINE | re.DOTALL)
    words = re.sub(r"\$\$.*?\$\$(\s*\([\w-]+\))?", " ", words, flags=re.DOTALL)
    words = re.sub(r"\$[^$]*\$|`[^`]*`|<[^>]*>", " ", words)
    count = len(re.findall(r"[A-Za-z][\w'’-]*", words))
    return [f"{count} words of main text"] if count > MANY_WORDS else []


RULES: list[Rule] = [
    every_cell_is_executed,
    known_tags_only,
    what_is_not_compared_says_why,
    nothing_that_changes_between_runs,
    every_picture_has_an_alt_and_a_caption,
    links_set_what_a_widget_has,
    every_exercise_is_solved,
    the_first_cell_chooses_the_device,
    shown_cells_stand_alone,
    plain_numbers,
    tolerances_that_hold_something,
]
WARNINGS: list[Rule] = [long_cells, wide_stills, many_words]


def complaints(path: Path, rules: list[Rule]) -> list[str]:
    """What these rules say of a notebook, each complaint after the rule's name."""
    found, cells = [], read(path)
    for rule in rules:
        try:
            found += [f"{rule.__name__}: {complaint}" for complaint in rule(cells)]
        except (ValueError, KeyError, SyntaxError) as error:  # such as a cell that is no Python
            found.append(f"{rule.__name__}: {error!r}")
    return found
