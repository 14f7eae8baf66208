"""Widgets: milliseconds of script in headless Chromium, and the way to a live kernel and back."""

import statistics
import tempfile
from pathlib import Path

import torch
from playwright.sync_api import Browser, sync_playwright

from attn_notes.masks import causal_mask
from attn_notes.widgets import AttentionHeatmap
from attn_notes.widgets.assets import module_source
from benchmarks.timing import row
from tests.browser.lab import open_lab
from tests.browser.panel import Panel
from tools.browser import FLAGS, find

# Ten calls a sample, since a browser's clock ticks in tenths of a millisecond; a frame between.
TIMED = """(calls) => {
  %s
  const model = {
    listeners: {},
    get: (name) => calls.state[name],
    set(name, value) {
      calls.state[name] = value;
      (this.listeners[`change:${name}`] || []).forEach((callback) => callback());
    },
    on(name, callback) { (this.listeners[name] ??= []).push(callback); },
    off() {},
  };
  const place = document.body.appendChild(document.createElement("div"));
  const nextFrame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const sample = async (work) => {
    const taken = [];
    for (let n = 0; n < 60; n++) {
      await nextFrame();
      const start = performance.now();
      for (let m = 0; m < 10; m++) work(n * 10 + m);
      if (n >= 5) taken.push((performance.now() - start) / 10);
    }
    return taken;
  };
  const work = { one, grid, whole }[calls.what];
  return sample(work());

  // The heatmap alone: the softmax again at another temperature, then drawn.
  function one() {
    const { L, S, read, mask } = headReader(model);
    const map = heatmap(lifetime(model), { label: "one" });
    place.append(map.el);
    return (n) => {
      calls.state.temperature = 0.5 + n / 300;
      map.show({ values: read(0, 0), L, S, mask: mask(), queries: null, keys: null, top: 1 });
    };
  }
  // All heads in one canvas, their softmax included.
  function grid() {
    const reader = headReader(model), mask = reader.mask();
    const map = (layer, head) => ({ values: reader.read(layer, head), mask, top: 1 });
    const view = headGrid(lifetime(model), model, { ...reader, map });
    place.append(view.el);
    return (n) => { calls.state.temperature = 0.5 + n / 300; view.draw(); };
  }
  // The widget as it stands on a page: the slider's trait is set.
  function whole() {
    render({ model, el: place });
    return (n) => model.set("temperature", 0.5 + n / 300);
  }
}"""

CELLS = (
    """
import torch
from attn_notes.widgets import explore

def falling(width):
    places = torch.arange(64.0)
    return (-((places[:, None] - places) / width) ** 2).softmax(-1)
explorer = explore(falling, width=(1.0, 4.5, 0.5))
""",
    "explorer",
)

# From the key to the number in the readout that the kernel sent.
ROUND_TRIP = """(root) => new Promise((done) => {
  const slider = root.querySelector("input[type=range]");
  const readout = root.querySelector(".attn-readout");
  const before = readout.textContent, start = performance.now();
  new MutationObserver((_, observer) => {
    if (readout.textContent === before) return;
    observer.disconnect();
    done(performance.now() - start);
  }).observe(readout, { childList: true, characterData: true, subtree: true });
  slider.value = (Number(slider.value) + 1) % 8;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def cases() -> dict[str, tuple[AttentionHeatmap, str]]:
    rng = torch.Generator().manual_seed(0)
    one = 2 * torch.randn(64, 64, generator=rng)
    many = 2 * torch.randn(12, 12, 64, 64, generator=rng)
    masked, all_heads = (
        AttentionHeatmap(scores=scores, mask=causal_mask(64), overview=True)
        for scores in (one, many)
    )
    return {
        "64 x 64, softmax and drawn": (AttentionHeatmap(scores=one), "one"),
        "64 x 64, causal": (masked, "one"),
        "64 x 64, the whole widget": (masked, "whole"),
        "144 heads of 64 x 64, weights given": (AttentionHeatmap(many.softmax(-1)), "grid"),
        "144 heads, softmax, causal": (all_heads, "grid"),
        "144 heads, the whole widget": (all_heads, "whole"),
    }


def script_times(browser: Browser) -> None:
    print(row("what", "median ms", "slowest ms"))
    for name, (widget, what) in cases().items():
        page = browser.new_page(viewport={"width": 900, "height": 900})
        source = module_source("heatmap").replace("export default { render };", "")
        taken = page.evaluate(TIMED % source, {"state": widget.page_state(), "what": what})
        page.close()
        print(row(name, f"{statistics.median(taken):.2f}", f"{max(taken):.2f}"))


def round_trip(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder, open_lab(browser, Path(folder), CELLS) as lab:
        lab.run(0)
        lab.run(1)
        panel: Panel = lab.panel(1)
        panel.map().press("ArrowRight")
        taken = [panel.el.evaluate(ROUND_TRIP) for _ in range(40)][5:]
        median = statistics.median(taken)
        print(row("64 x 64 from a live kernel", f"{median:.1f}", f"{max(taken):.1f}"))


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=list(FLAGS))
        script_times(browser)
        round_trip(browser)
        browser.close()


if __name__ == "__main__":
    main()
