"""The plugin lets two quanta pass and nothing else; tried on HTML, and through nbval itself."""

import base64
import copy
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.nbval_widgets import difference, pair_widgets

ROOT = Path(__file__).parents[1]
QUANTA = [0, 1000, 40_000, 65_535]


def packed(code: str, numbers) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}{code}", *numbers)).decode()


def hexed(digits: str) -> str:
    """Numbers of 12 bits, three digits each, and one more where the last byte is half empty."""
    return base64.b64encode(bytes.fromhex(digits.replace(" ", ""))).decode()


def state() -> dict:
    span = {"lo": 0.0, "hi": 1.0}
    return {
        "weights": {"b64": packed("H", QUANTA), "shape": [2, 2], "bits": 16} | span,
        "roots": {"b64": hexed("000 7ff ffd 0"), "shape": [3], "bits": 12, "power": 2} | span,
        "mask": {"b64": packed("B", [0xA0]), "shape": [3], "bits": 1},
        "tokens": ["a</script>", "é"],
        "row": 3,
        "temperature": 0.5,
        "causal": True,
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
    return packed("H", [QUANTA[0], QUANTA[1] + by, *QUANTA[2:]])


SAME = {
    "nothing changed": html(state()),
    "one quantum": changed(weights__b64=moved(1)),
    "two quanta": changed(weights__b64=moved(2)),
    "two quanta of 4096": changed(roots__b64=hexed("002 7fd fff 0")),
    "an end of the scale moved by 1e-6": changed(weights__hi=1.000001, weights__lo=-1e-6),
    "a float moved by 1e-6": changed(temperature=0.500001),
    "a number of the table, by one in its last place": html(state(), "0.26"),
}
OTHER = {
    "three quanta": (changed(weights__b64=moved(3)), "entry 1 is 3 quanta off"),
    "three quanta of 4096": (changed(roots__b64=hexed("000 802 ffd 0")), ".roots: entry 1 is 3"),
    "another power": (changed(roots__power=1), ".roots.power: 2 became 1"),
    "a bit of the mask": (changed(mask__b64=packed("B", [0xE0])), "the mask differs"),
    "fewer numbers": (changed(weights__b64=packed("H", QUANTA[:-1])), "8 bytes became 6"),
    "other bits": (changed(mask__bits=12), ".mask.bits: 1 became 12"),
    "the scale": (changed(weights__hi=1.01), ".weights.hi"),
    "a token": (changed(tokens=["a</script>", "e"]), ".tokens[1]: 'é' became 'e'"),
    "a whole number for a float": (changed(temperature=1), ".temperature: 0.5 became 1"),
    "a bool for a whole number": (changed(row=True), ".row: 3 became True"),
    "a new key": (changed(more=1), "keys"),
    "a number of the table, by two": (html(state(), "0.27"), "0.25 became 0.27"),
    "a word of the table": (html(state(), name="b"), "more than its decimals"),
    "another widget": (html(state()).replace("heatmap", "kernel"), ".widget"),
    "no widget": ("<b>0.25</b>", "not"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_a_processor_may_change_passes(name):
    assert difference(html(state()), SAME[name]) is None


@pytest.mark.parametrize("name", OTHER)
def test_anything_else_is_a_difference_and_is_named(name):
    test, words = OTHER[name]
    assert words in difference(html(state()), test)
    assert difference(test, html(state()))


def output(html: str, text: str = "Map(0.25)") -> nbformat.NotebookNode:
    data = {"text/html": html, "text/plain": text}
    return nbformat.from_dict({"output_type": "execute_result", "metadata": {}, "data": data})


def test_only_equivalent_widgets_are_replaced_by_what_is_stored():
    stored = [output(html(state())), output("<b>1</b>"), output(html(state()))]
    fresh = [output(SAME["two quanta"]), output("<b>2</b>"), output(OTHER["three quanta"][0])]
    replaced, complaints = pair_widgets(fresh, stored)
    assert replaced[0]["data"] == stored[0]["data"]
    assert replaced[1]["data"] == fresh[1]["data"]
    assert len(complaints) == 1
    assert fresh[0]["data"]["text/html"] == SAME["two quanta"]  # nothing of the caller's changed


# Through nbval, as CI runs it

# (what the cell gives, whether it passes, words of the report)
CELLS = [
    (html(state()), True, ""),
    (SAME["two quanta"], True, ""),
    (OTHER["three quanta"][0], False, "entry 1 is 3 quanta off"),
    (OTHER["a token"][0], False, ".tokens[1]: 'é' became 'e'"),
    ("<b>no widget</b>", False, "one is a widget, the other is not"),
]

# (what the cell prints, what is stored, whether it passes)
PRINTED = [
    ("exact 0.991 ± 0.01", "exact 0.998 ± 0.01", True),
    ("exact 0.987 ± 0.01", "exact 0.998 ± 0.01", False),
]


def test_nbval_passes_what_may_differ_and_fails_anything_more(tmp_path):
    cells = []
    for n, (fresh, _, _) in enumerate(CELLS):
        data = {"text/html": html(state()), "text/plain": "<IPython.core.display.HTML object>"}
        shown = nbformat.v4.new_output("execute_result", data=data, execution_count=n + 1)
        source = f"from IPython.display import HTML\nHTML({fresh!r})"
        cell = nbformat.v4.new_code_cell(source, execution_count=n + 1, outputs=[shown], id=f"c{n}")
        cells.append(cell)
    printed_at = len(cells)
    for new, old, _ in PRINTED:
        shown, count = nbformat.v4.new_output("stream", text=old + "\n"), len(cells) + 1
        cell = nbformat.v4.new_code_cell(f"print({new!r})", execution_count=count, outputs=[shown])
        cells.append(cell)
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "tiny.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", str(tmp_path / "tiny.ipynb"), "-v"]
    plugins = ["-p", "tests.nbval_widgets", "-p", "no:cacheprovider", "-c", os.devnull]
    run = subprocess.run(
        [*command, *plugins, "--rootdir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    for n, (_, passes, words) in enumerate(CELLS):
        assert f"Cell {n} {'PASSED' if passes else 'FAILED'}" in run.stdout
        assert words in run.stdout
    for n, (new, _, passes) in enumerate(PRINTED, start=printed_at):
        assert f"Cell {n} {'PASSED' if passes else 'FAILED'}" in run.stdout, new
    assert "0.998 became 0.987, more than 0.01 away" in run.stdout
    assert run.returncode == 1


@pytest.mark.parametrize("can", [False, True])
@pytest.mark.parametrize(
    ("tag", "check", "why"),
    [
        ("needs-triton", "runs_triton", "triton cannot run here"),
        ("needs-topics", "has_topics", "the topics of this Python's help() are another text"),
    ],
)
def test_what_needs_something_runs_everywhere_and_is_compared_where_it_is(
    tmp_path, tag, check, why, can
):
    cells = []
    for n, (line, tags) in enumerate([("a = 2", [tag]), ("print(a)", [])], start=1):
        shown = [nbformat.v4.new_output("stream", text="2\n")]
        cell = nbformat.v4.new_code_cell(line, execution_count=n, outputs=shown)
        cell.metadata["tags"] = tags
        cells.append(cell)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "tiny.ipynb")
    fake = f"import tools.notebooks\ntools.notebooks.{check} = lambda: {can}\n"
    (tmp_path / "sitecustomize.py").write_text(fake, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--nbval", str(tmp_path / "tiny.ipynb"), "-v"]
    plugins = ["-p", "tests.nbval_widgets", "-p", "no:cacheprovider", "-c", os.devnull]
    if not can:  # the report counts what a worker has seen
        plugins += ["-n", "1"]
    run = subprocess.run(
        [*command, *plugins, "--rootdir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ("1 failed, 1 passed" if can else "2 passed") in run.stdout
    assert (f"{why}: 1 outputs not compared" in run.stdout) != can
    assert run.returncode == int(can)
