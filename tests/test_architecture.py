"""The packages stay small, layered and documented: read from their source, not from promises."""

import ast
import io
import itertools
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.notebook_rules import homeless_factories

ROOT = Path(__file__).parents[1]
PACKAGE, EXERCISES = ROOT / "attn_notes", ROOT / "attn_exercises"
FILES = sorted([*PACKAGE.rglob("*.py"), *EXERCISES.rglob("*.py")])
SOURCES = {path: path.read_text(encoding="utf-8") for path in FILES}
TREES = {path: ast.parse(source) for path, source in SOURCES.items()}
EVERY_FILE = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))

# Of a whole package, its JavaScript aside: lines, and lines of code.
MOST_LINES = {PACKAGE: (12_120, 6_975), EXERCISES: (1_755, 1_425)}
MOST_LINES_OF_TESTS = 20_000
MOST_LINES_OF_TRAINING = 1_600  # the loop and the command line together
MOST_LINES_IN_A_MODULE = 200  # of code, as in a function
MOST_LINES_IN_A_FUNCTION = 29

# From the ground up: a module may import from the rows below its own, and no other.
LAYERS = (
    {"device", "source", "palette", "arguments"},
    {"masks"},
    {"attention", "kernels", "positions", "cache", "flash", "triton_attention"},
    {"scores", "data", "patterns"},
    {"decoding", "multihead", "ngrams"},
    {"seq2seq", "transformer"},
    {"training"},
    {"pretrained", "inside"},
    {"checks"},
    {"cli"},
    {"__main__"},
    {"plotting"},
    {"widgets"},
    {"attn_exercises"},  # a package of its own, which no part of attn_notes imports
)
# Who may import what beside torch and Python's own library.
GUESTS = {
    "data": {"num2words", "babel"},  # inside the functions that need them
    "training": {"safetensors", "sacrebleu", "tqdm"},
    "cli": {"tqdm", "tyro"},
    "pretrained": {"tokenizers", "safetensors", "huggingface_hub"},  # the last only to download
    "plotting": {"matplotlib", "cycler"},  # the one comes with the other
    "triton_attention": {"triton"},
    "widgets": {"anywidget", "ipywidgets", "traitlets"},
}
ROOT_IMPORTS = {"attention", "cache", "device", "kernels", "multihead", "source", "transformer"}


def part(path: Path) -> str:
    """The module, or the subpackage, that a file belongs to; "" for the package's own root."""
    return part_of(".".join(path.relative_to(ROOT).with_suffix("").parts))


def part_of(name: str) -> str:
    """The same for the full name of a module; the exercises are one part."""
    package, _, inner = name.partition(".")
    return inner.split(".")[0].replace("__init__", "") if package == PACKAGE.name else package


def imports(tree: ast.AST) -> Iterator[str]:
    """The full name of every module imported anywhere in it, inside functions as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            if node.module == "attn_notes":
                yield from (f"attn_notes.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


# What is imported


# A library that a part of the package needs, what needs it, and the extra that installs it.
NEEDED = [
    ("matplotlib", "import attn_notes.plotting", "plot"),
    ("anywidget", "import attn_notes; attn_notes.show_attention", "widgets"),
    ("safetensors", "import attn_notes.training", "train"),
    ("tyro", "import attn_notes.cli.commands", "train"),
    ("tokenizers", "import attn_notes.pretrained", "pretrained"),
    ("num2words", "from attn_notes.data import number_words; number_words(3, 'de')", "data"),
]
MATHS = [f"attn_notes.{name}" for name in sorted(set().union(*LAYERS[:-3]))]
IMPORTING = f"""
import sys
import torch
before = set(sys.modules)
import attn_notes
print(*set(sys.modules) - before)
import {", ".join(MATHS)}, attn_exercises
print(*sys.modules)
for library, code, _ in {NEEDED}:
    for name in [name for name in sys.modules if name.split(".")[0] in ("attn_notes", library)]:
        del sys.modules[name]
    sys.modules[library] = None
    try:
        exec(code)
    except ModuleNotFoundError as error:
        print(error)
    del sys.modules[library]
"""


@pytest.fixture(scope="module")
def said():
    """The lines that imports in a Python of its own print."""
    command = [sys.executable, "-c", IMPORTING]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return run.stdout.splitlines()


def test_importing_the_package_loads_torch_alone_and_the_maths_no_plotting_and_no_widgets(said):
    at_first, loaded = ({name.split(".")[0] for name in line.split()} for line in said[:2])
    assert at_first - set(sys.stdlib_module_names) == {"attn_notes"}
    assert not loaded & {"matplotlib", "ipywidgets", "anywidget", "IPython", "traitlets", "pandas"}


def test_a_missing_library_is_named_with_the_extra_that_installs_it(said):
    assert said[2:] == [
        f"{library} is missing: `pip install 'attn_notes[{extra}]'` installs it"
        for library, _, extra in NEEDED
    ]


def test_every_module_has_its_place_in_the_layers():
    placed = [name for layer in LAYERS for name in layer]
    assert len(placed) == len(set(placed))
    assert {part(path) for path in FILES} - {""} == set(placed)


@EVERY_FILE
def test_a_module_imports_only_from_the_layers_below_it(path):
    own = part(path)
    below = list(itertools.takewhile(lambda layer: own not in layer, LAYERS if own else ()))
    ours = ("attn_notes.", EXERCISES.name)
    wanted = {part_of(name) for name in imports(TREES[path]) if name.startswith(ours)}
    assert wanted <= ({own}.union(*below) if own else ROOT_IMPORTS)


@EVERY_FILE
def test_a_module_imports_torch_python_and_its_own_guests(path):
    roots = {name.split(".")[0] for name in imports(TREES[path])}
    own = path.relative_to(ROOT).parts[0]
    guests = roots - set(sys.stdlib_module_names) - {"attn_notes", "torch", own}
    assert guests <= GUESTS.get(part(path), set())


# How large things are


# Tokens that are no code.
EMPTY = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


@cache
def code_lines(source: str) -> set[int]:
    """The lines that hold code: no blank line, no comment, no docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in EMPTY:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def lines_of(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


@pytest.mark.parametrize("package", MOST_LINES, ids=lambda package: package.name)
def test_a_package_can_be_read_in_an_evening(package):
    paths = [path for path in FILES if path.is_relative_to(package)]
    most_lines, most_lines_of_code = MOST_LINES[package]
    assert 0 < lines_of(paths) <= most_lines
    assert sum(len(code_lines(SOURCES[path])) for path in paths) <= most_lines_of_code


def test_the_loop_and_the_command_line_are_short():
    training = [path for path in FILES if part(path) in {"training", "cli", "__main__"}]
    assert 0 < lines_of(training) <= MOST_LINES_OF_TRAINING


def test_the_tests_stay_within_their_budget():
    assert 0 < lines_of((ROOT / "tests").rglob("*.py")) <= MOST_LINES_OF_TESTS


def test_the_house_style_states_the_budgets():
    style = " ".join((ROOT / "STYLE.md").read_text(encoding="utf-8").split())
    for package, (lines, of_code) in MOST_LINES.items():
        assert f"`{package.name}` has at most {lines:,} lines, {of_code:,} of them code" in style
    assert f"The tests have at most {MOST_LINES_OF_TESTS:,} lines" in style


@EVERY_FILE
def test_a_module_can_be_read_in_one_sitting_and_a_function_on_one_screen(path):
    lines = code_lines(SOURCES[path])
    assert len(lines) <= MOST_LINES_IN_A_MODULE
    bodies = {
        node.name: range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.FunctionDef)
    }
    sizes = {name: len(lines.intersection(body)) for name, body in bodies.items()}
    assert {name: n for name, n in sizes.items() if n > MOST_LINES_IN_A_FUNCTION} == {}


# What is public, and what it says of itself


def all_of(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return None


@EVERY_FILE
def test_a_module_has_a_docstring_and_a_package_lists_what_it_hands_out(path):
    tree = TREES[path]
    assert ast.get_docstring(tree)
    if path.name != "__init__.py" or path.parent in MOST_LINES:
        return  # what has no underscore is public; exercises are known by their decorator
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules = [line for line in lines if (line.module or "").startswith(f"{PACKAGE.name}.")]
    imported = {
        alias.name
        for line in modules
        if line.module != "attn_notes.arguments"
        for alias in line.names
    }
    assert sorted(all_of(tree) or ()) == sorted(imported)


def public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef, bool]]:
    """(name, node, whether it is a method) of what a reader may call."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        yield node.name, node, False
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                yield f"{node.name}.{inner.name}", inner, True


PUBLIC = [
    pytest.param(path, node, is_method, id=f"{path.relative_to(ROOT)}:{name}")
    for path, tree in TREES.items()
    for name, node, is_method in public(tree)
]
UNTAUGHT = {"arguments", "cli", "attn_exercises"}  # no chapter teaches them
HELPERS = {"and_causal", "relative_positions"}  # nor these, which other modules need
# The docstring of their module says what kernels, and what schedules, take and give.
HELPERS |= {"boxcar_kernel", "epanechnikov_kernel", "gaussian_kernel", "triangular_kernel"}
HELPERS |= {"forward_kernel", "backward_kernel"}  # their caller is what is called
HELPERS |= {"constant", "cosine_decay", "inverse_sqrt", "linear_decay", "noam"}


def is_taught(path: Path, node: ast.AST, is_method: bool) -> bool:
    """Whether a chapter and an API page teach it: what a module, or a subpackage, hands out."""
    if is_method or part(path) in UNTAUGHT:
        return False
    name, home = getattr(node, "name", ""), PACKAGE / part(path) / "__init__.py"
    is_handed_out = path.parent == PACKAGE or name in (all_of(TREES[home]) or [])
    return is_handed_out and name not in HELPERS


def parameters(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """The names that its caller fills in."""
    if isinstance(node, ast.ClassDef):
        inits = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
        return parameters(inits[0]) if inits else set()
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {argument.arg for argument in named} - {"self", "cls"}


def has_decorator(node: ast.AST, name: str) -> bool:
    return any(getattr(one, "id", "") == name for one in getattr(node, "decorator_list", []))


@pytest.mark.parametrize(("path", "node", "is_method"), PUBLIC)
def test_public_docstrings_are_complete_where_taught_and_one_line_elsewhere(path, node, is_method):
    doc = ast.get_docstring(node) or ""
    assert doc
    sections = {line.strip() for line in doc.splitlines()}
    taught = is_taught(path, node, is_method)
    if has_decorator(node, "exercise") or not (taught or "Args:" in sections):
        return  # a chapter describes the exercise
    before_colons = ",".join(line.split(":")[0] for line in doc.splitlines() if ":" in line)
    assert parameters(node) <= {name.strip() for name in before_colons.split(",")}
    if isinstance(node, ast.FunctionDef):
        gives = node.returns is not None and ast.unparse(node.returns) != "None"
        assert ("Returns:" in sections) == (gives and not has_decorator(node, "property"))
    is_error = isinstance(node, ast.ClassDef) and any(
        "Error" in ast.unparse(base) for base in node.bases
    )
    if taught and parameters(node) and not is_error:
        assert "Example:" in sections
        assert ">>>" in doc


# What must not be in it


@EVERY_FILE
def test_no_bare_assert_guards_anything(path):
    asserts = [node.lineno for node in ast.walk(TREES[path]) if isinstance(node, ast.Assert)]
    assert asserts == []


@EVERY_FILE
def test_every_tensor_is_made_on_a_named_device(path):
    assert homeless_factories(TREES[path]) == []
