"""A real JupyterLab: the widgets live, from slider to Python and back."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.panel import Panel

pytestmark = pytest.mark.xdist_group("lab")  # one server for all of them

WAIT = 90_000  # milliseconds: a kernel that imports torch on a busy machine

CELLS = (
    """
import torch
from attn_notes.masks import masked_softmax
from attn_notes.widgets import AttentionHeatmap, explore

calls, heard = [], []

def falling(width):
    calls.append(width)
    places = torch.arange(4.0)
    return masked_softmax(-((places[:, None] - places) / width) ** 2)

scores = torch.tensor([[0.0, 2.0], [1.0, -1.0]])
live = AttentionHeatmap(scores=scores, query_tokens=["a", "b"])
live.observe(lambda change: heard.append(change["new"]), "temperature")
explorer = explore(falling, width=(0.5, 2.0, 0.5))
at_start = len(calls)
""",
    "live",
    "explorer",
    "print('temperature', live.temperature, 'heard', heard[-1:], 'row', live.row)",
    "live.temperature = 4.0",
    "print('width', explorer.values['width'], 'answered', len(calls) - at_start, explorer.error)",
)
HEATMAP, EXPLORER, TEMPERATURE, SET, WIDTH = range(1, 6)


class Lab:
    """One open notebook: run a cell, read what it printed, find its widget."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def run(self, cell: int) -> None:
        self.page.evaluate(
            """async (n) => {
              window.jupyterapp.shell.currentWidget.content.activeCellIndex = n;
              await window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            cell,
        )

    def printed(self, cell: int) -> str:
        self.run(cell)
        output = (
            self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output")
        )
        expect(output).to_be_visible(timeout=WAIT)
        return output.inner_text().strip()

    def panel(self, cell: int) -> Panel:
        return Panel(self.page, element=f".jp-Notebook .jp-Cell >> nth={cell} >> .attn-root")


@pytest.fixture(scope="module")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c.strip()) for c in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "trip.ipynb")
    with _server(folder) as (address, token):
        context = chromium.new_context(viewport={"width": 1200, "height": 1400})
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.goto(f"{address}/lab/tree/trip.ipynb?token={token}")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        page.wait_for_function(
            """() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel
                     ?.status === 'idle'"""
        )
        notebook_open = Lab(page)
        for cell in (0, HEATMAP, EXPLORER):
            notebook_open.run(cell)
        page.locator(".attn-root").nth(1).wait_for()
        yield notebook_open
        context.close()


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[tuple[str, str]]:
    """JupyterLab in `folder` on a free port, with settings of its own; ended by its own id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token, home = secrets.token_hex(16), folder / "home"
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--expose-app-in-browser"]
    command += ["--allow-root", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"]
    command += [
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home),
        "JUPYTERLAB_SETTINGS_DIR": str(home),
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/api?token={token}", process, folder / "log")
        yield address, token
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + WAIT / 1000
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def test_a_slider_moved_by_keyboard_changes_the_trait_in_python(lab: Lab):
    panel = lab.panel(HEATMAP)
    panel.press("Temperature", "End")
    expect(panel.control("Temperature").locator("xpath=../output")).to_have_text("20.00")
    assert "temperature 20.0 heard [20.0]" in lab.printed(TEMPERATURE)


def test_a_trait_set_in_python_moves_the_slider_and_the_numbers(lab: Lab):
    panel = lab.panel(HEATMAP)
    lab.run(SET)
    expect(panel.control("Temperature").locator("xpath=../output")).to_have_text("4.00")
    panel.el.locator("summary").click()
    # softmax of 0 and 2 over the temperature 4: 1 / (1 + e^0.5)
    expect(panel.el.locator("tbody td").first).to_have_text("0.378")


def test_arrow_keys_walk_the_heatmap_and_not_the_notebook(lab: Lab):
    panel = lab.panel(HEATMAP)
    panel.el.locator("canvas[tabindex]").focus()
    lab.page.keyboard.press("ArrowDown")
    expect(panel.el.locator(".attn-readout")).to_contain_text("(row 1)")
    assert "row 1" in lab.printed(TEMPERATURE)


def test_explore_is_answered_by_torch_as_the_reader_moves(lab: Lab):
    panel = lab.panel(EXPLORER)
    panel.el.locator("summary").click()
    before = panel.el.locator("tbody td").first.inner_text()
    panel.press("width", "ArrowRight")
    expect(panel.el.locator("tbody td").first).not_to_have_text(before)
    assert lab.printed(WIDTH) == "width 1.0 answered 1"
