"""What the packages load, and what must not be in them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [(path.relative_to(ROOT), path.read_text("utf-8")) for path in ROOT.glob("attn_*/**/*.py")]
TREES = {path: ast.parse(text) for path, text in FILES}

# A library that a part of the package needs, what needs it, and the extra that installs it.
NEEDED = [
    ("matplotlib", "import attn_notes.plotting", "plot"),
    ("anywidget", "import attn_widgets", "widgets"),
    ("safetensors", "import attn_notes.stored", "train"),
    ("tyro", "import attn_train.commands", "train"),
    ("tokenizers", "import attn_notes.pretrained", "pretrained"),
    ("num2words", "from attn_notes.data import number_words; number_words(3, 'de')", "data"),
]
IMPORTING = f"""
import sys
import torch
before = set(sys.modules)
import attn_notes
OURS = "attn_notes", "attn_train", "attn_widgets"
print(*set(sys.modules) - before)
for library, code, _ in {NEEDED}:
    for name in [name for name in sys.modules if name.split(".")[0] in {{*OURS, library}}]:
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


@pytest.mark.slow
def test_importing_the_package_loads_torch_alone(said):
    loaded = {name.split(".")[0] for name in said[0].split()}
    assert loaded - set(sys.stdlib_module_names) == {"attn_notes"}


@pytest.mark.slow
def test_a_missing_library_is_named_with_the_extra_that_installs_it(said):
    for line, (library, _, extra) in zip(said[1:], NEEDED, strict=True):
        assert library in line
        assert f"[{extra}]" in line


NAMES = """arange as_tensor empty eye full linspace logspace normal ones rand randint randn randperm
    tensor tril_indices triu_indices zeros"""
FACTORIES = {f"torch.{name}" for name in NAMES.split()}


def homeless_factories(tree: ast.AST) -> list[int]:
    """Lines where torch makes a tensor without being told where."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    makes = [node for node in calls if ast.unparse(node.func) in FACTORIES]
    return [node.lineno for node in makes if "device" not in {one.arg for one in node.keywords}]


def test_every_tensor_is_made_on_a_named_device():
    homeless = {str(path): homeless_factories(tree) for path, tree in TREES.items()}
    assert {path: lines for path, lines in homeless.items() if lines} == {}


# Each package, and those that it may import.
MAY_IMPORT = {
    "attn_notes": set(),
    "attn_widgets": {"attn_notes"},
    "attn_train": {"attn_notes"},
    "attn_exercises": {"attn_notes", "attn_widgets"},
}


def test_packages_import_one_another_in_one_direction():
    for path, tree in TREES.items():
        home, nodes = path.parts[0], [*ast.walk(tree)]
        names = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        ours = {name.partition(".")[0] for name in names if name.startswith("attn_")}
        assert ours <= MAY_IMPORT[home] | {home}, path
