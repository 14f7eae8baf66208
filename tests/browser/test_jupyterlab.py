"""A real JupyterLab: the widgets live, from slider to Python and back."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, expect

from attn_notes.masks import causal_mask, masked_softmax
from tests.browser.lab import Lab, open_lab
from tests.browser.panel import Panel, assert_cells, rgb
from tests.colours import LIGHT
from tools import lab as copies

BOOK = Path(__file__).parents[2] / "book"
pytestmark = pytest.mark.xdist_group("lab")  # one server for all of them

SETUP = """
import torch
from attn_notes.data import Vocabulary
from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.transformer import DecoderOnly, Encoder, Transformer, TransformerConfig
from attn_widgets import *

calls, heard = [], []
sizes = {"embed_dim": 8, "num_heads": 2, "num_layers": 1, "ffn_dim": 8}
digits, words = Vocabulary([*"0123456789", "<de>"]), Vocabulary(["eins", "zwei", "drei"])
torch.manual_seed(0)
tiny = Transformer(TransformerConfig(vocab_size=15, target_vocab_size=7, **sizes,
                                     positions="sinusoidal", tie_embeddings=True))
small = Encoder(TransformerConfig(vocab_size=3, **sizes))
torch.manual_seed(3)  # under which neither of the two said below is the end
says = DecoderOnly(TransformerConfig(vocab_size=8, embed_dim=8, num_heads=2,
                                     positions="sinusoidal"))

def falling(width):
    calls.append(width)
    places = torch.arange(4.0)
    return masked_softmax(-((places[:, None] - places) / width) ** 2)

def turned(text):  # what a network would make of it that turns its words round
    words = text.split()
    if "?" in words:
        raise ValueError("no question, please")
    return Example(words, words[::-1], {"trained": (words[::-1], torch.eye(len(words)).flip(0))})

def read(text):  # what an encoder would make of it whose heads read the token before, and itself
    tokens = ["[CLS]", *text.split(), "[SEP]"]
    itself = torch.eye(len(tokens))
    return tokens, torch.stack([itself.roll(-1, 1), itself])[:, None]

def layers(seed):  # 144 heads of 70 tokens: too many to be sent whole
    scores = torch.randn(12, 12, 70, 70, generator=torch.Generator().manual_seed(seed))
    return list(masked_softmax(scores, causal_mask(70)))

live = AttentionHeatmap(scores=torch.tensor([[0.0, 2.0], [1.0, -1.0]]), query_tokens=["a", "b"])
live.observe(lambda change: heard.append(change["new"]), "temperature")
"""


@pytest.fixture(scope="module")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    copies.copy(BOOK, folder)
    for plugin, values in json.loads(copies.SETTINGS).items():
        package, name = plugin.split(":")
        settings = folder / "home" / package / f"{name}.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(values), encoding="utf-8")
    with open_lab(chromium, folder, [SETUP]) as lab:
        lab.run(0)
        yield lab


def slides(panel: Panel, label: str):
    """Waits for what stands beside a slider."""
    return expect(panel.control(label).locator("xpath=../output"))


def test_a_slider_moved_by_keyboard_changes_the_trait_and_a_trait_moves_the_slider(lab: Lab):
    panel = lab.show("live")
    panel.press("Temperature", "End")
    slides(panel, "Temperature").to_have_text("20.00")
    lab.prints("live.temperature, heard[-1:]", "20.0 [20.0]")
    lab.do("live.temperature = 4.0")
    slides(panel, "Temperature").to_have_text("4.00")
    # softmax of 0 and 2 over the temperature 4: 1 / (1 + e^0.5)
    assert panel.table()[1][1:] == ["0.378", "0.622"]


def test_arrow_keys_walk_the_heatmap_and_not_the_notebook(lab: Lab):
    panel = lab.show("live")
    panel.map().press("ArrowDown")
    expect(panel.el.locator(".attn-readout")).to_contain_text("(row 1)")
    lab.prints("'row', live.row", "row 1")


def test_explore_is_answered_by_torch_as_the_reader_moves_and_as_python_sets(lab: Lab):
    panel = lab.show("explorer = explore(falling, page=True, width=(0.5, 2.0, 0.5)); explorer")
    lab.do("calls.clear()")
    before = panel.table()
    panel.press("width", "ArrowRight")
    expect(panel.el.locator("tbody td").first).not_to_have_text(before[1][1])
    lab.prints("explorer.values, len(calls)", "{'width': 1.0} 1")
    lab.do("explorer.values = {'width': 2.0}")
    slides(panel, "width").to_have_text("2")
    places = torch.arange(4.0)
    weights = (-(((places[:, None] - places) / 2.0) ** 2)).softmax(-1)
    assert_cells(panel.table()[1:], weights)


def test_explore_plays_and_torch_answers_each_place(lab: Lab):
    panel = lab.show(
        "played = explore(falling, width=(0.5, 2.0, 0.5), curve=('loss', [3, 2, 1, 0])); played"
    )
    lab.do("calls.clear()")
    panel.press_button("Play")
    slides(panel, "width").to_have_text("2")
    expect(panel.button("Play")).to_be_visible()  # and no longer Pause
    lab.prints("played.values, calls", "{'width': 2.0} [1.0, 1.5, 2.0]")
    panel.press_button("Play")  # from the beginning
    expect(panel.button("Pause")).to_be_visible()
    panel.press("width", "End")
    expect(panel.button("Play")).to_be_visible()


def test_what_is_typed_is_decoded_by_python_or_refused_in_its_words(lab: Lab):
    panel = lab.show("steps = AlignmentSteps([turned('one two three')], translate=turned); steps")
    said, box = panel.el.locator(".attn-said"), panel.el.get_by_label("Type your own")
    panel.unfold()
    expect(said).to_contain_text("Step 1 of 3, \u201c\u2068three\u2069")
    panel.press_button("Next")
    expect(said).to_contain_text("Step 2 of 3, \u201c\u2068two\u2069")
    box.fill("here I am again")
    box.press("Enter")
    expect(said).to_contain_text("Step 1 of 4, \u201c\u2068again\u2069")
    assert panel.control("Example").locator("option:checked").inner_text() == "what you typed"
    panel.press("Step", "ArrowRight")
    shown = "AlignmentSteps(2 examples; trained, right: 4 words from 4, step 2) | here I am again"
    assert lab.prints("steps, '|', steps.text", "step 2") == shown
    before = said.inner_text()
    box.fill("what ?")
    box.press("Enter")
    expect(panel.el).to_contain_text("Not read: no question, please")
    assert said.inner_text() == before
    lab.prints("steps.reply['error']", "no question, please")
    lab.do("steps.text = 'set in Python'; steps.step = 2")
    expect(said).to_contain_text("Step 3 of 3, \u201c\u2068set\u2069")
    expect(box).to_have_value("set in Python")
    expect(panel.el).not_to_contain_text("Not read")


HUES = """(canvas, wanted) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set(new Uint32Array(data.buffer));
  return wanted.every(([red, green, blue]) => (
    found.has(((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0)));
}"""


def test_a_live_widget_is_drawn_in_the_colours_of_its_page(lab: Lab):
    canvas = lab.show("AlignmentSteps([turned('one two three')])").el.locator(".attn-links canvas")
    canvas.scroll_into_view_if_needed()
    wanted = [rgb(LIGHT[name]) for name in ("accent", "surface", "muted")]
    # The links move for a moment after each step.
    lab.page.wait_for_function(
        f"([canvas, wanted]) => ({HUES})(canvas, wanted)", arg=[canvas.element_handle(), wanted]
    )


def test_heads_are_found_walked_and_reported_to_python(lab: Lab):
    given = "[read('one two three'), read('four')], encode=read"
    panel = lab.show(f"heads = HeadExplorer({given}); heads")
    which, said = (panel.el.locator(".attn-said").nth(n) for n in range(2))
    expect(which).to_have_text("Layer 0, head 0, entropy 0.00 bits")
    panel.control("Heads that read").select_option(label="the token itself")
    best = panel.el.locator(".attn-best button")
    expect(best).to_have_text(["1.0: 1.00", "0.0: 0.00"])
    best.first.press("Enter")
    expect(which).to_contain_text("entropy 0.00 bits: score 1.00 over 2 sentences, rank 1 of 2")
    panel.el.locator(".attn-links canvas").press("End")
    expect(said).to_have_text(
        "\u201c\u2068[SEP]\u2069\u201d reads \u201c\u2068[SEP]\u2069\u201d 1.00."
    )
    lab.prints("heads, heads.pattern, heads.token", "layer 1, head 0: 5 tokens", ") itself 4")
    lab.do("heads.text = 'set in Python'; heads.hide_special = True; heads.layer = 0")
    reads = "\u201c\u2068set\u2069\u201d reads \u201c\u2068set\u2069\u201d 0.00."  # [CLS] is hidden
    expect(said).to_have_text(reads)
    expect(panel.el.get_by_label("Type your own")).to_have_value("set in Python")
    assert panel.value("Hide special tokens") == 1


def assert_many(panel: Panel, seed: int) -> None:
    """The table's last row is the mean of heads 1.1 and 2.1, as far as 8 bits hold them."""
    noise = torch.randn(12, 12, 70, 70, generator=torch.Generator().manual_seed(seed))
    weights = masked_softmax(noise, causal_mask(70))[[1, 2], [1, 1], -1].mean(0)
    expect(panel.el.locator(".attn-stale")).to_have_count(0)
    cells = [float(cell) for cell in panel.table()[-1][1:]]
    assert cells == pytest.approx(weights.tolist(), abs=0.004)


def test_heads_of_many_tokens_are_sent_as_they_are_chosen(lab: Lab):
    tokens = "[f'word{n}' for n in range(70)]"
    panel = lab.show(f"many = show_attention(layers(0), {tokens}); many")
    said = panel.el.locator(".attn-said")
    expect(said.nth(1)).to_contain_text("\u201c\u2068word69\u2069\u201d reads ")
    grid = panel.el.get_by_role("application", name="All 144 heads")
    for key in ("ArrowDown", "ArrowRight", "Space", "ArrowDown"):
        grid.press(key)
    traits = "len(many.packed), many.layer, many.head, many.pinned, many.token"
    lab.prints(traits, "2 2 1 [13] 69")
    assert_many(panel, 0)
    before = said.nth(1).inner_text()
    lab.do("many.weights = layers(1)")
    expect(said.nth(1)).not_to_have_text(before)
    assert_many(panel, 1)


# What is made, keys on its controls, what Python then prints of it, what Python sets, what is said.
LIVE = {
    "PositionExplorer(8, 12, position=6)": (
        {"Pair": ["ArrowRight"], "Position": ["End"]},
        "base 10,000: positions 11 and 6 give",
        "chosen.scheme, chosen.pair, chosen.position = 'alibi', 7, 11",
        "A key 5 away loses 5 \u00d7 1/256 = 0.020 in head 7, wherever the two stand.",
    ),
    "FamilyDiagram(['a', 'rose'], ['eine', 'Rose'])": (
        {"Family": ["ArrowDown", "ArrowDown"], "Position": ["ArrowRight"]},
        "encoder-decoder, 2 blocks: position 3 knows 4 of 5 tokens, says \u201cRose\u201d",
        "chosen.family, chosen.num_layers, chosen.position = 'prefix', 1, 3",
        "Through 1 block its output can know 4 of 5 tokens.",
    ),
    "FollowToken(small, ['a', 'rose', 'is', 'a', 'rose'])": (
        {"Step": ["ArrowRight", "ArrowRight"], "Head": ["ArrowDown"]},
        "in block 0, head 1; step 3 of 11: scale",
        "chosen.token, chosen.head, chosen.step = 2, 1, 5",
        "Values. Each value is multiplied by its weight",
    ),
    "OnlineSoftmax([0.0, 2.0, 9.0, 1.0], torch.eye(4)[:, :2], tile=2)": (
        {"Step": ["ArrowRight"], "Tile": ["ArrowRight"], "its score": ["ArrowRight"]},
        "4 keys, tile 2 of 2: maximum 9.00, sum 1.00, ",
        "chosen.tile, chosen.forget, chosen.step = 1, True, 3",
        "The output is not the softmax\u2019s.",
    ),
    "HeadSwitches(tiny, digits, words, most=3)": (
        {"Output": ["ArrowDown"], "times": ["ArrowRight"]},
        "; cross.0.1:0.05: ",
        "chosen.text, chosen.other, chosen.edits = '73', '37', 'encoder.0.0:other,cross.0.0:0'",
        "encoder 0.0: 37, cross 0.0: off. ",
    ),
}


@pytest.mark.parametrize("made", LIVE)
def test_what_is_chosen_goes_to_python_and_comes_from_it(lab: Lab, made: str):
    keys, printed, sets, said = LIVE[made]
    panel = lab.show(f"chosen = {made}; chosen")
    panel.el.locator(".attn-said").first.wait_for()
    for label, pressed in keys.items():
        panel.press(label, *pressed)
    lab.prints("chosen", printed)
    lab.do(sets)
    expect(panel.el).to_contain_text(said)


def test_in_a_narrow_window_views_stand_under_tabs(lab: Lab):
    wide = lab.page.viewport_size
    lab.page.set_viewport_size({"width": 560, "height": 1200})
    panel = lab.show("narrow = PositionExplorer(8, 12, position=6); narrow")
    first, second = (panel.el.get_by_role("tab").nth(n) for n in range(2))
    shown = panel.el.get_by_role("tabpanel").locator("visible=true")
    expect(first).to_have_attribute("aria-selected", "true")
    first.press("ArrowRight")  # a key of the tabs, not of JupyterLab
    expect(second).to_have_attribute("aria-selected", "true")
    expect(shown).to_have_count(1)
    lab.do("narrow.position = 3")
    expect(panel.el).to_contain_text("position 3")
    lab.page.set_viewport_size(wide)
    expect(first).not_to_be_visible()


def test_a_transformer_in_the_page_says_what_the_one_in_python_says(lab: Lab):
    given = "tiny, digits, words, languages={'de': 'X'}, most=4"
    panel = lab.show(f"player = TransformerPlayer({given}); player")
    box, said = panel.control("Translate"), panel.el.locator(".attn-translation")
    expect(said).to_contain_text("1999")
    box.fill("73")
    expect(said).to_contain_text("73")
    box.press("ArrowLeft")
    box.press("5")
    expect(said).to_contain_text("753")
    panel.el.locator(".attn-option").nth(2).press("Enter")
    chosen = panel.el.locator(".attn-option[aria-pressed=true] bdi")
    names = ["<pad>", "<start>", "<end>", "<unk>", "eins", "zwei", "drei"]
    token = names.index(chosen.inner_text())
    lab.prints("player", "TransformerPlayer(753 in X: ")
    prefix = json.loads(lab.prints("player.prefix", f"{token}]"))
    assert prefix[-1] == token
    assert json.loads(lab.prints("player.translation().tokens"))[-1] == token
    lab.do("player.text, player.step, player.prefix = '407', 1, [5, 6]")
    expect(box).to_have_value("407")
    expect(said.locator("bdi")).to_have_text("zweidrei")
    expect(chosen).to_have_text("drei")


def test_what_is_said_in_the_page_is_said_in_python_and_the_other_way_round(lab: Lab):
    given = "says, Vocabulary([*'abc\\n']), prompt='cab', most=9"
    panel = lab.show(f"writer = LanguageModelPlayer({given}); writer")
    spans, box = panel.el.locator(".attn-page span"), panel.control("Prompt")
    expect(spans).to_have_count(4)
    box.fill("a\nb")
    box.press("End")
    box.press("ArrowLeft")  # an arrow key of the box, not of JupyterLab
    box.press("c")
    expect(spans).to_have_count(5)
    panel.press("Top k", "ArrowLeft", "ArrowLeft")
    panel.el.locator(".attn-option").nth(1).press("Enter")
    panel.press_button("Say one")
    expect(spans).to_have_count(7)
    state = "ascii(writer.text), len(writer.said), writer.position, writer.top_k"
    assert lab.prints(state, " 2 9 4").startswith("'a\\ncb")
    lab.do("writer.prompt, writer.said = 'ba', []; writer.generate(3)")
    tokens = json.loads(lab.prints("writer._tokens()", "]"))
    expect(box).to_have_value("ba")
    expect(spans).to_have_count(len(tokens) + (tokens[-1] != 2))


def test_a_term_of_a_copied_chapter_leads_to_the_glossary(lab: Lab):
    page = lab.page
    open_file = "(path) => window.jupyterapp.commands.execute('docmanager:open', { path })"
    page.evaluate(open_file, "03_masking.ipynb")
    page.locator(".jp-Notebook a", has_text=re.compile("^mask$")).first.click()
    glossary = page.locator(".jp-MarkdownViewer")
    expect(glossary.locator("strong", has_text="additive score")).to_be_visible()
    expect(glossary).not_to_contain_text("{doc}")
    back = glossary.get_by_role("link", name="chapter 11").first
    expect(back).to_have_attribute("href", re.compile("/11_looking_inside.ipynb"))
