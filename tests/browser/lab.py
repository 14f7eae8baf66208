"""A real JupyterLab with one open notebook, for the tests and for the benchmarks."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, Page, expect

from tests.browser.panel import Panel

WAIT = 90_000  # milliseconds: a kernel that imports torch on a busy machine
PATIENCE = 20  # seconds: a kernel that hears of what was done in the page
KERNEL_IDLE = """() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel
  ?.status === 'idle'"""
OUTPUT = ".jp-OutputArea-output"
ADD_CELL = """(source) => {
  const { sharedModel } = window.jupyterapp.shell.currentWidget.content.model;
  sharedModel.insertCell(sharedModel.cells.length, { cell_type: "code", source });
  return sharedModel.cells.length - 1;
}"""
RUN_CELL = """async (n) => {
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = n;
  await window.jupyterapp.commands.execute('notebook:run-cell');
}"""


class Lab:
    """The open notebook: run a cell, read what it printed, find its widget."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def run(self, cell: int) -> None:
        self.page.evaluate(RUN_CELL, cell)

    def do(self, source: str) -> int:
        """Run this in a new cell below all others; which one it is."""
        cell: int = self.page.evaluate(ADD_CELL, source.strip())
        self.run(cell)
        return cell

    def show(self, source: str) -> Panel:
        return self.panel(self.do(source))

    def prints(self, expression: str, *parts: str) -> str:
        """What Python prints of it, once all of these are in it; where they never are, it is said.

        The page tells the kernel of one change at a time, on a line of its own, and gathers those
        that follow meanwhile: a cell that is run at once may ask before the kernel has heard.
        """
        cell, deadline = self.do(f"print({expression})"), time.monotonic() + PATIENCE
        output = self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(OUTPUT)
        expect(output).to_be_visible(timeout=WAIT)
        while not all(part in output.inner_text() for part in parts):
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"waited for {parts!r}, {expression} is {output.inner_text()!r}"
                )
            self.page.wait_for_timeout(100)
            self.run(cell)
            expect(output).to_be_visible(timeout=WAIT)
        return output.inner_text().strip()

    def panel(self, cell: int) -> Panel:
        return Panel(self.page, element=f".jp-Notebook .jp-Cell >> nth={cell} >> .attn-root")


@contextlib.contextmanager
def open_lab(browser: Browser, folder: Path, cells: Sequence[str]) -> Iterator[Lab]:
    """A notebook of these cells, open in JupyterLab; all of it ends with the block."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c.strip()) for c in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "trip.ipynb")
    with _server(folder) as (address, token):
        context = browser.new_context(viewport={"width": 1200, "height": 1400})
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.goto(f"{address}/lab/tree/trip.ipynb?token={token}")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        page.wait_for_function(KERNEL_IDLE)
        yield Lab(page)
        context.close()


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[tuple[str, str]]:
    """JupyterLab in `folder` on a free port, with settings of its own; ended by its own id."""
    token, home = secrets.token_hex(16), folder / "home"
    # Every cell stays in the page: one that is scrolled out would be taken from it, canvas and all.
    tracker = home / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True, exist_ok=True)
    tracker.write_text('{"windowingMode": "none"}', encoding="utf-8")
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--expose-app-in-browser"]
    command += ["--allow-root", "--ip=127.0.0.1", f"--IdentityProvider.token={token}"]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    if os.name != "nt":  # as in tests.nbval_widgets: a port can be lost before it is bound
        command += ["--KernelManager.transport=ipc"]
    # A short path: the sockets of the kernels are files in it, whose names have their limits.
    with tempfile.TemporaryDirectory(prefix="lab-") as runtime, (folder / "log").open("w") as log:
        environment = os.environ | {
            "JUPYTER_CONFIG_DIR": str(home),
            "JUPYTERLAB_SETTINGS_DIR": str(home),
            "JUPYTER_RUNTIME_DIR": runtime,
        }
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield _address(process, Path(runtime), folder / "log"), token
        finally:
            process.terminate()
            process.wait(timeout=30)


def _address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """Where the server listens: it says so in a file, once it does."""
    deadline = time.monotonic() + WAIT / 1000
    while time.monotonic() < deadline and process.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(json.JSONDecodeError):  # half written
                address: str = json.loads(file.read_text(encoding="utf-8"))["url"]
                return address.rstrip("/")
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")
