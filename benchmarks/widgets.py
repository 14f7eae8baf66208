"""Script time of the widgets in Chromium, and how long a view of many tokens takes as a whole."""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from playwright.sync_api import Browser, sync_playwright

from attn_notes.data import Vocabulary
from attn_notes.stored import load_translator
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_widgets import (
    AttentionHeatmap,
    FamilyDiagram,
    FollowToken,
    HeadExplorer,
    LanguageModelPlayer,
    OnlineSoftmax,
    PositionExplorer,
    TransformerPlayer,
    WrittenMemory,
    page_style,
    show_attention,
)
from attn_widgets.assets import module_source
from attn_widgets.base import BookWidget
from benchmarks.report import median, percentile, print_load, print_table
from tools.browser import FLAGS, find

ROUNDS = 200
GOAL_ONE, GOAL_ALL = 4.0, 16.0  # milliseconds: a quarter of a frame, and a frame
GOAL_TOKEN = 20.0  # so that a translation seems to be there at once
GOAL_LARGE, LARGE_ROUNDS = 2000.0, 5  # for one who has called show_attention and waits
HAS_COME = """document.querySelector(".attn-first canvas")
  && !document.querySelector(".attn-stale")"""

# Functions of the heatmap's own module, on a model that holds the state of a real widget.
SETUP = """
  const model = { get: (name) => state[name], set: (name, value) => { state[name] = value; },
    on() {}, off() {} };
  const life = lifetime(model), reader = headReader(model);
  const { layers, heads, L, S } = reader, room = new Float64Array(L * S);
  const view = layers * heads > 1
    ? headGrid(life, model, { layers, heads, size: () => [L, S], map: (layer, head) => (
        { values: reader.read(layer, head, room), mask: reader.mask(), top: 1,
          scale: state.scale }) })
    : heatmap(life, { label: "Attention weights" });
  document.body.append(view.el);
  const draw = () => (view.draw ? view.draw() : view.show({ values: reader.read(0, 0),
    L, S, mask: reader.mask(), queries: null, keys: null, top: 1, scale: state.scale }));
"""
# The pointer goes from cell to cell of a map that stays as it is.
HOVERED = """
  const model = { get: (name) => state[name], set() {}, on() {}, off() {} };
  render({ model, el: document.body });
  const canvas = document.querySelector(".attn-heatmap canvas");
  const box = canvas.getBoundingClientRect();
  let turn = 0;
  const draw = () => canvas.dispatchEvent(new PointerEvent("pointermove", {
    clientX: box.left + 150 + (turn++ % 90) * 5, clientY: box.top + 150 }));
"""
# A whole widget, one of whose traits takes one value after another: all that shows it is drawn.
WHOLE = """
  const heard = {};
  const model = { get: (name) => state[name], set: (name, value) => { state[name] = value; },
    on(name, callback) { (heard[name] ||= []).push(callback); }, off() {} };
  render({ model, el: document.body });
  let turn = 0;
  const draw = () => { state.NAME = turn++ % 12; heard["change:NAME"].forEach((call) => call()); };
"""
MOVED = {
    "heads": "head",
    "translator": "step",
    "follow": "token",
    "online": "step",
    "memory": "step",
} | dict.fromkeys(("position", "family", "sampler"), "position")
# The Transformer of chapter 7 reads a source and says TOKENS tokens, whatever they are.
TOKENS = 10
SAID = f"""
  const network = new TransformerModel(state.data.model), source = [4, 5, 6, 7, 8];
  const prefix = Array({TOKENS}).fill(4), draw = () => translateTokens(network, source, {{ prefix, most: {TOKENS} }});
"""  # noqa: E501
# A language model begins anew each time and says TOKENS tokens, its context half full before.
WRITTEN = f"""
  const network = new LanguageModel(state.data.model), half = Array(state.data.context / 2).fill(4);
  const settings = {{ temperature: 0.8, top_k: 40, top_p: 0.95 }};
  function draw() {{
    const text = [START, ...half], reader = new Reader(network, state.data.context);
    reader.read(text);
    start = performance.now(); // only what follows counts
    for (let n = 0; n < {TOKENS}; n++) text.push(drawn(samplingDistribution(reader.read([...text]).at(-1).logits, settings), chance(0, n)));
  }}
"""  # noqa: E501
# What is asked for is drawn with the next frame: the script that runs then counts too.
TIMES = """async ([state, rounds]) => {
  let start = 0, spent = 0;
  const nextFrame = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) => nextFrame((time) => {
    const begun = performance.now();
    call(time);
    spent += performance.now() - begun;
  });
  %s
  const times = [];
  for (let n = -10; n < rounds; n++) {
    await new Promise(nextFrame);
    state.temperature = 1 + (n & 15) / 8;
    spent = 0;
    start = performance.now();
    draw();
    const asked = performance.now() - start;
    await new Promise(nextFrame);
    if (n >= 0) times.push(asked + spent);
  }
  return times;
}"""

# Chromium's clock ticks every 0.1 ms, and every 0.005 ms on a page that is isolated like this.
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Content-Type": "text/html",
}


def drawings() -> dict[str, tuple[BookWidget, float]]:
    """What is drawn, with its goal in milliseconds."""
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(12, 12, 64, 64, generator=rng)
    one = AttentionHeatmap(scores=scores[0, 0])
    every = AttentionHeatmap(scores=scores)
    one.mask_choice = every.mask_choice = "causal"
    explorer = HeadExplorer([([f"word{n}" for n in range(64)], scores.softmax(-1))])
    explorer.pattern = "previous"
    alibi, blocks = PositionExplorer(64, 128), FamilyDiagram(family="encoder-decoder")
    alibi.scheme, blocks.num_layers = "alibi", 6
    return {
        "64x64 recomputed and drawn": (one, GOAL_ONE),
        "144 heads drawn": (AttentionHeatmap(list(scores.softmax(-1))), GOAL_ALL),
        "144 heads recomputed and drawn": (every, GOAL_ALL),
        "144 heads ranked, one with its links": (explorer, GOAL_ALL),
        "64 positions of 64 dimensions, four views": (PositionExplorer(64, 64), GOAL_ALL),
        "ALiBi's weights of 128 positions": (alibi, GOAL_ALL),
        "6 + 6 blocks on 12 tokens, one picked": (blocks, GOAL_ALL),
        "a step of chapter 7's Transformer": (player(), GOAL_ALL),
        "another place of a language model's text": (writer(), GOAL_ALL),
        "another token of 12 followed": (follower(), GOAL_ALL),
        "a pair written into a matrix of 8x8": (WrittenMemory(), GOAL_ALL),
        "a tile of 64 scores": (OnlineSoftmax(scores[0, 0, 0], scores[0, 0, :, :2]), GOAL_ALL),
    }


def player() -> TransformerPlayer:
    """The model that the book stores, in the page."""
    stored = load_translator("book/_data/transformer-numbers")
    return TransformerPlayer(
        stored.model, stored.source_vocab, stored.target_vocab, languages={"de": "German"}
    )


LARGEST = TransformerConfig(
    vocab_size=106, embed_dim=64, num_layers=3, ffn_dim=192, norm="pre", max_length=128
)


def writer() -> LanguageModelPlayer:
    """A language model as large as a page can hold, whatever it says."""
    vocabulary = Vocabulary(map(chr, range(30, 132)))
    return LanguageModelPlayer(DecoderOnly(LARGEST), vocabulary, prompt="To be or not to be")


def follower() -> FollowToken:
    """Its steps, at scores of 12 keys."""
    widget = FollowToken(DecoderOnly(LARGEST), [*"To be or not"])
    widget.step = 2
    return widget


def script_times(browser: Browser, widget: BookWidget, setup: str = "") -> list[float]:
    """Milliseconds of script that each of `ROUNDS` redraws took, or of what `setup` calls so."""
    page = browser.new_page(viewport={"width": 900, "height": 900})
    body = f"<!doctype html><style>{page_style()}</style><body style='width: 760px'>"
    page.route("**/*", lambda route: route.fulfill(headers=ISOLATED, body=body))
    page.goto("http://localhost/")
    moved = MOVED.get(widget._widget)
    setup = setup or (WHOLE.replace("NAME", moved) if moved else SETUP)
    source = module_source(widget._widget).replace("export default { render };", setup)
    times = page.evaluate(TIMES % source, [widget.page_state(), ROUNDS])
    page.close()
    return times


def large_times(browser: Browser) -> tuple[list[float], list[float]]:
    """Milliseconds until 144 heads of 256 tokens are a saved page, and until it is drawn, too."""
    rng = torch.Generator().manual_seed(0)
    layers = [torch.randn(1, 12, 256, 256, generator=rng).softmax(-1) for _ in range(12)]
    tokens, made, drawn = [f"word{n}" for n in range(256)], [], []
    with TemporaryDirectory() as folder:
        path = Path(folder, "view.html")
        for _ in range(LARGE_ROUNDS):
            page = browser.new_page(viewport={"width": 900, "height": 900})
            start = time.perf_counter()
            show_attention(layers, tokens).save_html(path)
            made.append(1000 * (time.perf_counter() - start))
            page.goto(path.as_uri())
            page.wait_for_function(HAS_COME)
            drawn.append(1000 * (time.perf_counter() - start))
            page.close()
    return made, drawn


def row(name: str, times: list[float], goal: float) -> list[str]:
    middle, high = median(times), percentile(times, 95)
    shares = [f"{goal:.0f}", f"{middle / goal:.2f}", f"{high / goal:.2f}"]
    return [name, str(len(times)), f"{middle:.2f}", f"{high:.2f}", *shares]


def main() -> None:
    path = find()
    if path is None:
        sys.exit("there is no Chromium: run python tools/browser.py first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        print(f"Chromium {browser.version}; milliseconds of script a redraw; ", end="")
        print_load()
        rows = [
            row(name, script_times(browser, widget), goal)
            for name, (widget, goal) in drawings().items()
        ]
        hovered = AttentionHeatmap(torch.rand(512, 512).softmax(-1))
        times = script_times(browser, hovered, HOVERED)
        rows.append(row("the pointer on 512x512", times, GOAL_ONE))
        said = [whole / TOKENS for whole in script_times(browser, player(), SAID)]
        rows.append(row("a token said by chapter 7's Transformer", said, GOAL_TOKEN))
        written = [whole / TOKENS for whole in script_times(browser, writer(), WRITTEN)]
        rows.append(row("a character said by a language model", written, GOAL_TOKEN))
        made, drawn = large_times(browser)
        rows.append(row("144 heads of 256 tokens, saved", made, GOAL_LARGE))
        rows.append(row("144 heads of 256 tokens, saved and drawn", drawn, GOAL_LARGE))
        browser.close()
    print_table(["", "rounds", "median", "95 %", "goal", "median/goal", "95 %/goal"], rows)


if __name__ == "__main__":
    main()
