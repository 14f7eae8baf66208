"""The plugin lets two quanta and stated tolerances pass, and no more; also through nbval itself."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from attn_notes.table import table
from attn_widgets.encoding import encode, encode_mask
from tests.nbval_widgets import difference, difference_beyond

ROOT = Path(__file__).parents[1]
QUANTA = [0, 1000, 40_000, 65_535]


def packed(bits: int, *numbers: int) -> str:
    """Whole numbers as a widget sends them."""
    return encode(torch.tensor(numbers) / (2**bits - 1), bits=bits)["b64"]


def state() -> dict:
    span = {"lo": 0.0, "hi": 1.0}
    return {
        "weights": {"b64": packed(16, *QUANTA), "shape": [2, 2], "bits": 16} | span,
        "roots": {"b64": packed(12, 0, 2047, 4093), "shape": [3], "bits": 12, "power": 2} | span,
        "mask": encode_mask(torch.tensor([True, False, True])),
        "tokens": ["a</script>", "é"],
        "row": 3,
        "temperature": 0.5,
        "title": None,
    }


def html(state: dict, number: str = "0.25", name: str = "a") -> str:
    data = json.dumps({"widget": "heatmap", "state": state}).replace("<", "\\u003c")
    table = f"<table><tr><th>{name} 0.5</th><td>{number}</td><td>7</td></tr></table>"
    return (
        f'<attn-widget><script type="application/json">{data}</script>'
        f'<div class="attn-fallback">{table}</div></attn-widget>'
    )


def changed(**changes) -> str:
    """The widget with some of its state changed: `weights__hi=2.0` sets state["weights"]["hi"]."""
    new = copy.deepcopy(state())
    for path, value in changes.items():
        *way, last = path.split("__")
        place = new
        for key in way:
            place = place[key]
        place[last] = value
    return html(new)


def moved(by: int) -> str:
    return packed(16, QUANTA[0], QUANTA[1] + by, *QUANTA[2:])


TWO_QUANTA, THREE = changed(weights__b64=moved(2)), changed(weights__b64=moved(3))
SAME = {
    "nothing changed": html(state()),
    "two quanta": TWO_QUANTA,
    "two quanta of 4096": changed(roots__b64=packed(12, 2, 2045, 4095)),
    "an end of the scale moved by 1e-6": changed(weights__hi=1.000001, weights__lo=-1e-6),
    "a float moved by 1e-6": changed(temperature=0.500001),
    "a number of the table, by one in its last place": html(state(), "0.26"),
}
OTHER = {
    "three quanta": THREE,
    "three quanta of 4096": changed(roots__b64=packed(12, 0, 2050, 4093)),
    "another power": changed(roots__power=1),
    "a bit of the mask": changed(mask__b64=encode_mask(torch.ones(3))["b64"]),
    "fewer numbers": changed(weights__b64=packed(16, *QUANTA[:-1])),
    "other bits": changed(mask__bits=12),
    "the scale": changed(weights__hi=1.01),
    "a token": changed(tokens=["a</script>", "e"]),
    "a whole number for a float": changed(temperature=1),
    "a bool for a whole number": changed(row=True),
    "a new key": changed(more=1),
    "a number of the table, by two": html(state(), "0.27"),
    "a word of the table": html(state(), name="b"),
    "another widget": html(state()).replace("heatmap", "kernel"),
    "no widget": "<b>0.25</b>",
}


@pytest.mark.parametrize("test", SAME.values(), ids=SAME)
def test_what_a_processor_may_change_passes(test):
    assert difference(html(state()), test) is None


@pytest.mark.parametrize("test", OTHER.values(), ids=OTHER)
def test_anything_else_is_a_difference(test):
    assert difference(html(state()), test)
    assert difference(test, html(state()))


def test_the_tolerance_of_a_cell_holds_for_its_widget_s_single_numbers():
    assert difference(html(state()), changed(temperature=0.501), 0.001) is None
    assert difference(html(state()), changed(temperature=0.509), "2%") is None
    assert difference(html(state()), changed(temperature=0.502), 0.001)
    assert difference(html(state()), changed(weights__hi=1.001), 0.001)  # an array's scale
    assert difference(html(state()), changed(row=4), 1)


def output(html: str) -> nbformat.NotebookNode:
    data = {"text/html": html, "text/plain": "<IPython.core.display.HTML object>"}
    return nbformat.v4.new_output("execute_result", data=data)


@pytest.mark.parametrize(
    ("tolerance", "test", "is_same"),
    [
        (0.01, "exact 0.990 after 9 steps", True),
        (0.01, "exact 0.985 after 9 steps", False),
        (0.01, "exact 0.990 after 8 steps", False),
        (1, "exact 0.990 after 10 steps", True),  # wider by a digit
        ("2%", "exact  0.98 after 9 steps", True),
        ("2%", "exact 0.97 after 9 steps", False),
        (0.01, "share 0.998 after 9 steps", False),
    ],
)
def test_a_text_is_compared_within_the_tolerance_of_its_cell(tolerance, test, is_same):
    found = difference_beyond(tolerance, "exact 0.998 after 9 steps", test)
    assert (found is None) == is_same


# Through nbval, as CI runs it


def cell_of(source, shown, *tags, **metadata):
    ran = {"execution_count": 1, "outputs": shown, "metadata": {"tags": tags, **metadata}}
    return nbformat.v4.new_code_cell(source, **ran)


def printing(fresh: str, stored: str, *tags: str, **metadata: Any) -> nbformat.NotebookNode:
    shown = [nbformat.v4.new_output("stream", text=f"{stored}\n")] if stored else []
    return cell_of(fresh, shown, *tags, **metadata)


def showing(fresh: str, **metadata: Any) -> nbformat.NotebookNode:
    source = f"from IPython.display import HTML\nHTML({fresh!r})"
    return cell_of(source, [output(html(state()))], **metadata)


def drawing(fresh: str) -> nbformat.NotebookNode:
    source = "from IPython.display import display\n"
    source += f"display({{'text/plain': {fresh!r}, 'image/svg+xml': '<svg/>'}}, raw=True)"
    data = {"text/plain": "Figure 1", "image/svg+xml": "<svg><path/></svg>"}
    return cell_of(source, [nbformat.v4.new_output("display_data", data=data)])


# (the cell, whether it passes)
CELLS = [
    (showing(html(state())), True),
    (showing(TWO_QUANTA), True),
    (showing(THREE), False),
    (showing("<b>no widget</b>"), False),
    (showing(changed(temperature=0.501)), False),
    (showing(changed(temperature=0.501), tolerance=0.001), True),
    (drawing("Figure 1"), True),  # its paths differ from those of the stored one
    (drawing("Figure 2"), False),
    (printing("print('exact 0.997')", "exact 0.998"), False),  # it states no tolerance
    (printing("a = 2; print(a)", "3", "needs-triton"), True),  # it runs, and is not compared
    (printing("print(a)", "3"), False),  # a is 2, and nothing excuses this cell
    (printing("print('exact 0.991')", "exact 0.998", tolerance=0.01), True),
    (printing("print('exact 0.987')", "exact 0.998", tolerance=0.01), False),
]
TABLE = "from attn_notes.table import table\ntable([('loss', {})], ['what', 'how much'])"
ROWS = [nbformat.v4.new_output("execute_result", data={
    "text/plain": repr(table([("loss", 0.5)], ["what", "how much"])),
    "text/html": table([("loss", 0.5)], ["what", "how much"])._repr_html_(),
})]  # fmt: skip
# Shown cells run first, and each twice.
ORDERED = [
    (printing("seen = []", "", "hide-input"), True),
    (
        printing("print('folded' if 'early' in globals() else 'too soon')", "folded", "hide-input"),
        True,
    ),
    (printing("early = []", ""), True),
    (printing("early.append(1)\nprint(len(early))", "1"), False),  # 2 at its second run
    (printing("print(seen)", "[]"), False),  # only the folded cell binds it
    (cell_of(TABLE.format(0.59), ROWS, tolerance=0.1), True),
    (cell_of(TABLE.format(0.61), ROWS, tolerance=0.1), False),
]


@pytest.mark.slow
def test_nbval_passes_what_may_differ_and_fails_anything_more(tmp_path):
    cells, name = CELLS + ORDERED, "page.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[cell for cell, _ in cells])
    nbformat.write(notebook, tmp_path / name)
    fake = "notebooks.runs_triton = lambda: False"
    (tmp_path / "fake.py").write_text(f"from tools import notebooks\n{fake}\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", name, "-rA", "-n", "1",
         "-p", "fake", "-p", "tests.nbval_widgets", "-p", "no:cacheprovider", "-c", os.devnull],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 1
    ends = re.findall(r"^(PASSED|FAILED) .*::Cell (\d+)", run.stdout, re.MULTILINE)
    found = {int(number): end == "PASSED" for end, number in ends}
    assert found == {n: passes for n, (_, passes) in enumerate(cells)}, run.stdout
    assert "entry 1 is 3 quanta off" in run.stdout  # it says where, without a diff of long lines
    assert "triton cannot run here: 1 outputs not compared" in run.stdout
