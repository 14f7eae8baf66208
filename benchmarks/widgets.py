"""Script time of the heatmap in Chromium, and a key press answered by Python in JupyterLab."""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import nbformat
import torch
from playwright.sync_api import Browser, Page, sync_playwright

from attn_notes.widgets import AttentionHeatmap, page_style
from attn_notes.widgets.assets import module_source
from benchmarks.report import median, percentile, print_load, print_table
from tools.browser import FLAGS, find

ROUNDS, PRESSES = 200, 20
GOAL_ONE, GOAL_ALL = 4.0, 16.0  # milliseconds: a quarter of a frame, and a frame
LAB_WAIT = 120  # seconds until JupyterLab is up, and until its page shows the widget

# Functions of the heatmap's own module, on a model that holds the state of a real widget.
SETUP = """
  const model = { get: (name) => state[name], set: (name, value) => { state[name] = value; },
    on() {}, off() {} };
  const life = lifetime(model), reader = headReader(model);
  const { layers, heads, L, S } = reader;
  const view = layers * heads > 1
    ? headGrid(life, model, { ...reader, map: (layer, head) => (
        { values: reader.read(layer, head), mask: reader.mask(), top: 1 }) })
    : heatmap(life, { label: "Attention weights" });
  document.body.append(view.el);
  const draw = () => (view.draw ? view.draw() : view.show({ values: reader.read(0, 0),
    L, S, mask: reader.mask(), queries: null, keys: null, top: 1 }));
"""
TIMES = """async ([state, rounds]) => {
  %s
  const times = [];
  for (let n = -10; n < rounds; n++) {
    await new Promise(requestAnimationFrame);
    state.temperature = 1 + (n & 15) / 8;
    const start = performance.now();
    draw();
    if (n >= 0) times.push(performance.now() - start);
  }
  return times;
}"""

# Chromium's clock ticks every 0.1 ms, and every 0.005 ms on a page that is isolated like this.
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Content-Type": "text/html",
}


def heatmaps() -> dict[str, tuple[AttentionHeatmap, float]]:
    """What is drawn, with its goal in milliseconds."""
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(12, 12, 64, 64, generator=rng)
    one = AttentionHeatmap(scores=scores[0, 0])
    every = AttentionHeatmap(scores=scores)
    one.mask_choice = every.mask_choice = "causal"
    return {
        "64x64 recomputed and drawn": (one, GOAL_ONE),
        "144 heads drawn": (AttentionHeatmap(scores.softmax(-1)), GOAL_ALL),
        "144 heads recomputed and drawn": (every, GOAL_ALL),
    }


def script_times(browser: Browser, widget: AttentionHeatmap) -> list[float]:
    """Milliseconds of script that each of `ROUNDS` redraws took."""
    page = browser.new_page(viewport={"width": 900, "height": 900})
    body = f"<!doctype html><style>{page_style()}</style><body style='width: 760px'>"
    page.route("**/*", lambda route: route.fulfill(headers=ISOLATED, body=body))
    page.goto("http://localhost/")
    source = module_source("heatmap").replace("export default { render };", SETUP)
    times = page.evaluate(TIMES % source, [widget.page_state(), ROUNDS])
    page.close()
    return times


# ---------------------------------------------------------------- JupyterLab

CELL = """
import torch
from attn_notes.masks import masked_softmax
from attn_notes.widgets import explore

scores = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))

def weights(temperature):
    return masked_softmax(scores / temperature)

widget = explore(weights, temperature=(1.0, 5.0, 1.0))
widget.shared_scale = True
widget
"""

# From the key to the new end of the colour scale, which only a frame from Python can bring.
WATCH = """() => {
  const scale = document.querySelector(".attn-scale");
  window.answers = [];
  let pressed = null;
  document.addEventListener("keydown", () => { pressed = performance.now(); }, true);
  new MutationObserver(() => {
    if (pressed !== null) window.answers.push([performance.now() - pressed, scale.textContent]);
    pressed = null;
  }).observe(scale, { childList: true, characterData: true, subtree: true });
}"""


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab in `folder`, with settings of its own, ended with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    own = {
        f"JUPYTER_{name}": str(folder / name) for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    }
    own |= {"JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"), "JUPYTER_TOKEN": token}
    options = [
        "--no-browser", "--allow-root", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        f"--LabApp.workspaces_dir={folder / 'workspaces'}",
    ]  # fmt: skip
    with (folder / "lab.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "lab", *options],
            env=os.environ | own, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_until_up(f"http://127.0.0.1:{port}/api/status?token={token}", process)
            yield f"http://127.0.0.1:{port}/lab/tree/live.ipynb?token={token}"
        finally:
            process.terminate()  # ends its kernels first
            process.wait(30)


def wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LAB_WAIT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(0.3)
    raise RuntimeError(f"JupyterLab must answer within {LAB_WAIT} s, got nothing")


def round_trips(page: Page, url: str) -> list[float]:
    """Milliseconds from each key press to the answer on the page."""
    page.set_default_timeout(1000 * LAB_WAIT)
    page.goto(url)
    page.locator(".jp-Notebook .jp-CodeCell").first.click()
    page.wait_for_selector(".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status='idle']")
    page.keyboard.press("Control+Enter")
    slider = page.locator(".attn-root input[type=range]")
    slider.wait_for()
    slider.focus()
    page.evaluate(WATCH)
    for n in range(PRESSES):
        page.keyboard.press("ArrowRight" if n % 8 < 4 else "ArrowLeft")
        page.wait_for_function(f"window.answers.length > {n}")
    times, texts = zip(*page.evaluate("window.answers"), strict=True)
    assert all(text != before for text, before in zip(texts[1:], texts, strict=False)), texts
    return list(times)


def live(browser: Browser) -> list[float]:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(CELL.strip())],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        nbformat.write(notebook, Path(name) / "live.ipynb")
        with jupyterlab(Path(name)) as url:
            page = browser.new_page(viewport={"width": 1200, "height": 1000})
            times = round_trips(page, url)
            page.close()
    return times


def row(name: str, times: list[float], goal: float | None) -> list[str]:
    middle, high = median(times), percentile(times, 95)
    shares = [f"{goal:.0f}", f"{middle / goal:.2f}", f"{high / goal:.2f}"] if goal else ["-"] * 3
    return [name, str(len(times)), f"{middle:.2f}", f"{high:.2f}", *shares]


def main() -> None:
    path = find()
    if path is None:
        sys.exit("there is no Chromium: run python tools/browser.py first")
    print_load()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        print(f"Chromium {browser.version}; milliseconds of script a redraw")
        rows = [
            row(name, script_times(browser, widget), goal)
            for name, (widget, goal) in heatmaps().items()
        ]
        rows.append(row("key press to Python's answer", live(browser), None))
        browser.close()
    print_table(["", "rounds", "median", "95 %", "goal", "median/goal", "95 %/goal"], rows)


if __name__ == "__main__":
    main()
