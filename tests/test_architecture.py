"""What the packages load, and what must not be in them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tools.notebook_rules import homeless_factories

ROOT = Path(__file__).parents[1]
PACKAGE, EXERCISES = ROOT / "attn_notes", ROOT / "attn_exercises"
FILES = sorted([*PACKAGE.rglob("*.py"), *EXERCISES.rglob("*.py")])

# A library that a part of the package needs, what needs it, and the extra that installs it.
NEEDED = [
    ("matplotlib", "import attn_notes.plotting", "plot"),
    ("anywidget", "import attn_notes; attn_notes.show_attention", "widgets"),
    ("safetensors", "import attn_notes.training", "train"),
    ("tyro", "import attn_notes.cli.commands", "train"),
    ("tokenizers", "import attn_notes.pretrained", "pretrained"),
    ("num2words", "from attn_notes.data import number_words; number_words(3, 'de')", "data"),
]
IMPORTING = f"""
import sys
import torch
before = set(sys.modules)
import attn_notes
print(*set(sys.modules) - before)
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


@pytest.mark.slow
def test_importing_the_package_loads_torch_alone(said):
    loaded = {name.split(".")[0] for name in said[0].split()}
    assert loaded - set(sys.stdlib_module_names) == {"attn_notes"}


@pytest.mark.slow
def test_a_missing_library_is_named_with_the_extra_that_installs_it(said):
    for line, (library, _, extra) in zip(said[1:], NEEDED, strict=True):
        assert library in line
        assert f"[{extra}]" in line


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_tensor_is_made_on_a_named_device(path):
    assert homeless_factories(ast.parse(path.read_text(encoding="utf-8"))) == []
