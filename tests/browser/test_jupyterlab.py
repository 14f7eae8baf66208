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
from tests.browser.panel import Panel, assert_cells, drawn
from tests.colours import LIGHT
from tests.hostile import HOSTILE, SCRIPTS
from tools import lab as copies

BOOK = Path(__file__).parents[2] / "book"
pytestmark = pytest.mark.xdist_group("lab")  # one server for all of them

CELLS = (
    """
import torch
from attn_notes.masks import masked_softmax
from attn_notes.data import Vocabulary
from attn_notes.transformer import Encoder, Transformer, TransformerConfig
from attn_notes.widgets import (
    AlignmentSteps, AttentionHeatmap, Example, FamilyDiagram, FollowToken, HeadExplorer,
    HeadSwitches, OnlineSoftmax, PositionExplorer, explore, show_attention)

calls, heard = [], []
small = TransformerConfig(vocab_size=3, embed_dim=8, num_heads=2, num_layers=1, ffn_dim=8)
digits, words = Vocabulary([*"0123456789"]), Vocabulary(["eins", "zwei", "drei"])
tiny = Transformer(TransformerConfig(vocab_size=14, target_vocab_size=7, embed_dim=8, num_heads=2,
                                     num_layers=1, ffn_dim=8, positions="sinusoidal"))

def falling(width):
    calls.append(width)
    places = torch.arange(4.0)
    return masked_softmax(-((places[:, None] - places) / width) ** 2)

scores = torch.tensor([[0.0, 2.0], [1.0, -1.0]])
live = AttentionHeatmap(scores=scores, query_tokens=["a", "b"])
live.observe(lambda change: heard.append(change["new"]), "temperature")
explorer = explore(falling, page=True, width=(0.5, 2.0, 0.5))
at_start = len(calls)

def turned(text):  # what a network would make of it that turns its words round
    words = text.split()
    if "?" in words:
        raise ValueError("no question, please")
    return Example(words, words[::-1], {"trained": (words[::-1], torch.eye(len(words)).flip(0))})

steps = AlignmentSteps([turned("one two three")], translate=turned)

def read(text):  # what an encoder would make of it whose heads read the token before, and itself
    tokens = ["[CLS]", *text.split(), "[SEP]"]
    if "?" in tokens:
        raise ValueError("no question, please")
    itself = torch.eye(len(tokens))
    return tokens, torch.stack([itself.roll(-1, 1), itself])[:, None]

heads = HeadExplorer([read("one two three"), read("four")], encode=read)
""",
    "live",
    "explorer",
    "print('temperature', live.temperature, 'heard', heard[-1:], 'row', live.row)",
    "live.temperature = 4.0",
    "print('width', explorer.values['width'], 'answered', len(calls) - at_start, explorer.error)",
    "explorer.values = {'width': 2.0}",
    f"AttentionHeatmap(torch.eye({len(HOSTILE)}), query_tokens={HOSTILE!a}, title={SCRIPTS[1]!r})",
    "steps",
    "print(steps, '|', steps.text, '|', steps.reply['error'])",
    "steps.text = 'set in Python'; steps.step = 2",
    "heads",
    "print(heads, '|', heads.pattern, heads.token, '|', heads.text, '|', heads.reply['error'])",
    "heads.text = 'set in Python'; heads.hide_special = True; heads.layer = 0",
    """
from attn_notes.data import Vocabulary
from attn_notes.transformer import Transformer, TransformerConfig
from attn_notes.widgets import TransformerPlayer

torch.manual_seed(0)
source, target = Vocabulary([*"0123456789", "<de>"]), Vocabulary(["eins", "zwei", "drei"])
config = TransformerConfig(vocab_size=len(source), target_vocab_size=len(target), embed_dim=8,
                           num_heads=2, positions="sinusoidal", tie_embeddings=True)
player = TransformerPlayer(Transformer(config), source, target, languages={"de": "X"}, most=4)
player
""",
    "print(player, '|', player.prefix, player.temperature, '|', player.translation().tokens)",
    "player.text, player.step, player.prefix = '407', 1, [5, 6]",
    """
from attn_notes.data import Vocabulary
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_notes.widgets import LanguageModelPlayer

torch.manual_seed(3)  # under which neither of the two said below is the end
config = TransformerConfig(vocab_size=8, embed_dim=8, num_heads=2, positions="sinusoidal")
writer = LanguageModelPlayer(DecoderOnly(config), Vocabulary([*"abc\\n"]), prompt="cab", most=9)
writer
""",
    "print(ascii(writer.text), '|', writer.said, writer.position, writer.top_k)",
    "writer.prompt, writer.said = 'ba', []; writer.generate(3); print(writer._tokens())",
    """
from attn_notes.masks import causal_mask

def layers(seed):  # 144 heads of 70 tokens: too many to be sent whole
    scores = torch.randn(12, 12, 70, 70, generator=torch.Generator().manual_seed(seed))
    return list(masked_softmax(scores, causal_mask(70)))

many = show_attention(layers(0), [f"word{n}" for n in range(70)])
many
""",
    "print(len(many.packed), many.layer, many.head, many.pinned, many.token)",
    "many.weights = layers(1); many.layer = 2",
    "mapped = AttentionHeatmap(torch.eye(2), ['a', 'b']); mapped",
    "mapped.weights = torch.tensor([[0.25, 0.75], [0.5, 0.5]])",
)
# What is made, keys on its controls, what Python then prints of it, what Python sets, what is said.
LIVE = {
    "PositionExplorer(8, 12, position=6)": (
        {"Pair, or head": ["ArrowRight"], "Position": ["End"]},
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
    "FollowToken(Encoder(small), ['a', 'rose', 'is', 'a', 'rose'])": (
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
MADE = tuple(
    cell
    for made, (_, _, sets, _) in LIVE.items()
    for cell in (f"chosen = {made}; chosen", "print(chosen)", sets)
)
HEATMAP, EXPLORER, TEMPERATURE, SET, WIDTH, SET_WIDTH, TOKENS, STEPS, STAND, TYPE = range(1, 11)
HEADS, HEADS_STAND, HEADS_SET = range(11, 14)
PLAYER, PLAYER_STAND, PLAYER_SET = range(14, 17)
WRITER, WRITER_STAND, WRITER_SAYS = range(17, 20)
MANY, MANY_STAND, MANY_SET, MAPPED, MAPPED_SET = range(20, 25)


@pytest.fixture(scope="module")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    copies.copy(BOOK, folder)
    for plugin, values in json.loads(copies.SETTINGS).items():
        package, name = plugin.split(":")
        settings = folder / "home" / package / f"{name}.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(values), encoding="utf-8")
    with open_lab(chromium, folder, CELLS + MADE) as lab:
        for cell in (0, HEATMAP, EXPLORER):
            lab.run(cell)
        lab.page.locator(".attn-root").nth(1).wait_for()
        yield lab


def test_a_slider_moved_by_keyboard_changes_the_trait_in_python(lab: Lab):
    panel = lab.panel(HEATMAP)
    panel.press("Temperature", "End")
    expect(panel.control("Temperature").locator("xpath=../output")).to_have_text("20.00")
    lab.prints(TEMPERATURE, "temperature 20.0 heard [20.0]")


def test_a_trait_set_in_python_moves_the_slider_and_the_numbers(lab: Lab):
    panel = lab.panel(HEATMAP)
    lab.run(SET)
    expect(panel.control("Temperature").locator("xpath=../output")).to_have_text("4.00")
    summary = panel.el.locator("summary")
    triangle = "(el) => [getComputedStyle(el).display, getComputedStyle(el).listStyleType]"
    assert summary.evaluate(triangle) == ["list-item", "disclosure-closed"]
    summary.click()
    # softmax of 0 and 2 over the temperature 4: 1 / (1 + e^0.5)
    expect(panel.el.locator("tbody td").first).to_have_text("0.378")


def test_arrow_keys_walk_the_heatmap_and_not_the_notebook(lab: Lab):
    panel = lab.panel(HEATMAP)
    panel.el.locator("canvas[tabindex]").focus()
    lab.page.keyboard.press("ArrowDown")
    expect(panel.el.locator(".attn-readout")).to_contain_text("(row 1)")
    lab.prints(TEMPERATURE, "row 1")


def test_explore_is_answered_by_torch_as_the_reader_moves(lab: Lab):
    panel = lab.panel(EXPLORER)
    panel.el.locator("summary").click()
    before = panel.el.locator("tbody td").first.inner_text()
    panel.press("width", "ArrowRight")
    expect(panel.el.locator("tbody td").first).not_to_have_text(before)
    assert lab.prints(WIDTH, "width 1.0") == "width 1.0 answered 1"


def test_an_explorer_set_in_python_moves_its_slider_and_its_map(lab: Lab):
    panel = lab.panel(EXPLORER)
    lab.run(SET_WIDTH)
    expect(panel.control("width").locator("xpath=../output")).to_have_text("2")
    rows = panel.table()[1:]
    places = torch.arange(4.0)
    weights = (-(((places[:, None] - places) / 2.0) ** 2)).softmax(-1)
    assert_cells(rows, weights)


def test_hostile_tokens_are_data_in_a_live_notebook(lab: Lab):
    lab.run(TOKENS)
    panel = lab.panel(TOKENS)
    expect(panel.el.locator(".attn-title")).to_have_text(SCRIPTS[1])
    assert panel.table()[0][1:] == [drawn(token) for token in HOSTILE]
    assert lab.page.evaluate("window.ran") is None
    assert panel.el.locator("img, script, iframe, svg, a").count() == 0


def test_what_is_typed_is_decoded_by_python_and_stepped_through(lab: Lab):
    lab.run(STEPS)
    panel = lab.panel(STEPS)
    said, box = panel.el.locator(".attn-said"), panel.el.get_by_label("Type your own")
    expect(said).to_contain_text("Step 1 of 3, \u201c\u2068three\u2069")
    panel.el.get_by_role("button", name="Next").press("Enter")
    expect(said).to_contain_text("Step 2 of 3, \u201c\u2068two\u2069")
    box.fill("here I am again")
    box.press("Enter")
    expect(said).to_contain_text("Step 1 of 4, \u201c\u2068again\u2069")
    assert panel.control("Example").locator("option:checked").inner_text() == "what you typed"
    panel.press("Step", "ArrowRight")
    expect(said).to_contain_text("Step 2 of 4, \u201c\u2068am\u2069")
    shown = "AlignmentSteps(2 examples; trained, right: 4 words from 4, step 2) | here I am again |"
    assert lab.prints(STAND, "step 2") == shown


HUES = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [...new Set(new Uint32Array(data.buffer))].map((word) => word.toString(16));
}"""


def test_a_live_widget_is_drawn_in_the_colours_of_its_page(lab: Lab):
    lab.run(STEPS)
    canvas = lab.panel(STEPS).el.locator(".attn-links canvas")
    canvas.scroll_into_view_if_needed()
    wanted = set()
    for name in ("accent", "surface", "muted"):
        red, green, blue = (LIGHT[name][n : n + 2] for n in (1, 3, 5))
        wanted.add(f"ff{blue}{green}{red}")
    for _ in range(200):  # the links move for a moment after each step
        missing = wanted - set(canvas.evaluate(HUES))
        if not missing:
            break
        lab.page.wait_for_timeout(100)
    assert missing == set()


def test_what_cannot_be_decoded_is_said_beside_the_box_and_changes_nothing(lab: Lab):
    lab.run(STEPS)
    panel = lab.panel(STEPS)
    said, box = panel.el.locator(".attn-said"), panel.el.get_by_label("Type your own")
    before = said.inner_text()
    box.fill("what ?")
    box.press("Enter")
    expect(panel.el).to_contain_text("Not read: no question, please")
    assert said.inner_text() == before
    assert lab.prints(STAND, "no question").endswith("| what ? | no question, please")


def test_a_text_set_in_python_is_decoded_and_shown(lab: Lab):
    lab.run(STEPS)
    panel = lab.panel(STEPS)
    lab.run(TYPE)
    expect(panel.el.locator(".attn-said")).to_contain_text("Step 3 of 3, \u201c\u2068set\u2069")
    expect(panel.el.get_by_label("Type your own")).to_have_value("set in Python")
    expect(panel.el).not_to_contain_text("Not read")


def test_heads_are_found_walked_and_reported_to_python(lab: Lab):
    lab.run(HEADS)
    panel = lab.panel(HEADS)
    which, said = (panel.el.locator(".attn-said").nth(n) for n in range(2))
    expect(which).to_have_text("Layer 0, head 0, entropy 0.00 bits")
    panel.control("Heads that read").select_option(label="the token itself")
    best = panel.el.locator(".attn-best button")
    expect(best).to_have_text(["1.0: 1.00", "0.0: 0.00"])
    best.first.press("Enter")
    expect(which).to_contain_text(
        "Layer 1, head 0, entropy 0.00 bits: score 1.00 over 2 sentences, rank 1 of 2"
    )
    panel.el.locator(".attn-links canvas").press("End")
    expect(said).to_have_text(
        "\u201c\u2068[SEP]\u2069\u201d reads \u201c\u2068[SEP]\u2069\u201d 1.00."
    )
    shown = "HeadExplorer(2 sentences, 2 layers x 1 heads; layer 1, head 0: 5 tokens, weights 0.00"
    stand = lab.prints(HEADS_STAND, "| itself 4 |")
    assert stand == f"{shown} to 1.00) | itself 4 |  |"
    box = panel.el.get_by_label("Type your own")
    lab.run(HEADS_SET)
    reads = "\u201c\u2068set\u2069\u201d reads \u201c\u2068set\u2069\u201d 0.00."  # [CLS] is hidden
    expect(said).to_have_text(reads)
    expect(box).to_have_value("set in Python")
    assert panel.value("Hide special tokens") == 1


def many_heads(seed: int) -> torch.Tensor:
    """(layers, heads, L, L): what the notebook's view of many tokens shows."""
    noise = torch.randn(12, 12, 70, 70, generator=torch.Generator().manual_seed(seed))
    return masked_softmax(noise, causal_mask(70))


def assert_row(panel: Panel, weights: torch.Tensor) -> None:
    """The last row of the table is that of these weights, as far as 8 bits hold them."""
    expect(panel.el.locator(".attn-stale")).to_have_count(0)
    cells = panel.table()[-1][1:]
    assert [float(cell) for cell in cells] == pytest.approx(weights[-1].tolist(), abs=0.004)


def test_heads_of_many_tokens_are_sent_as_they_are_chosen(lab: Lab):
    lab.run(MANY)
    panel = lab.panel(MANY)
    said = panel.el.locator(".attn-said").nth(1)
    expect(said).to_contain_text("\u201c\u2068word69\u2069\u201d reads ")
    assert_row(panel, many_heads(0)[0, 0])
    grid = panel.el.get_by_role("application", name="All 144 heads")
    for key in ("ArrowDown", "ArrowRight", "Space", "ArrowDown"):
        grid.press(key)
    lab.prints(MANY_STAND, "2 2 1 [13] 69")
    assert_row(panel, many_heads(0)[[1, 2], [1, 1]].mean(0))
    lab.run(MANY_SET)
    expect(panel.el.locator(".attn-said").first).to_contain_text("Layer 2, head 1, entropy ")
    lab.page.wait_for_timeout(500)
    assert_row(panel, many_heads(1)[[1, 2], [1, 1]].mean(0))


def test_weights_set_in_python_are_drawn_at_once(lab: Lab):
    lab.run(MAPPED)
    panel = lab.panel(MAPPED)
    assert [row[1:] for row in panel.table()[1:]] == [["1.000", "0.000"], ["0.000", "1.000"]]
    lab.run(MAPPED_SET)
    expect(panel.el.locator("details[open]")).to_have_count(0)  # made anew
    assert [row[1:] for row in panel.table()[1:]] == [["0.250", "0.750"], ["0.500", "0.500"]]


@pytest.mark.parametrize("made", LIVE)
def test_what_is_chosen_goes_to_python_and_comes_from_it(lab: Lab, made: str):
    cell = len(CELLS) + 3 * [*LIVE].index(made)
    keys, printed, _, said = LIVE[made]
    lab.run(cell)
    panel = lab.panel(cell)
    panel.el.locator(".attn-said").first.wait_for()
    for label, pressed in keys.items():
        panel.press(label, *pressed)
    lab.prints(cell + 1, printed)
    lab.run(cell + 2)
    expect(panel.el).to_contain_text(said)


def test_a_transformer_in_the_page_says_what_the_one_in_python_says(lab: Lab):
    lab.run(PLAYER)
    panel = lab.panel(PLAYER)
    box, words = panel.control("Translate"), panel.el.locator(".attn-translation bdi")
    expect(panel.el.locator(".attn-translation")).to_contain_text("1999")
    box.fill("73")
    expect(panel.el.locator(".attn-translation")).to_contain_text("73")
    box.press("ArrowLeft")
    box.press("5")
    expect(panel.el.locator(".attn-translation")).to_contain_text("753")
    panel.el.locator(".attn-option").nth(2).press("Enter")
    option = panel.el.locator(".attn-option[aria-pressed=true] bdi").inner_text()
    names = ["<pad>", "<start>", "<end>", "<unk>", "eins", "zwei", "drei"]
    id_of = names.index(option)
    stand = lab.prints(PLAYER_STAND, "(753 in X: ", f"{id_of}] 0.0 | ")
    player, state, said = stand.split(" | ")
    assert player.startswith("TransformerPlayer(753 in X: ")
    assert int(said.strip("[]").split(", ")[-1]) == id_of
    assert state.endswith(f"{id_of}] 0.0")
    lab.run(PLAYER_SET)
    expect(box).to_have_value("407")
    expect(words).to_have_text("zweidrei")
    expect(panel.el.locator(".attn-option[aria-pressed=true] bdi")).to_have_text("drei")


def test_what_is_said_in_the_page_is_said_in_python_and_the_other_way_round(lab: Lab):
    lab.run(WRITER)
    panel = lab.panel(WRITER)
    spans, box = panel.el.locator(".attn-page span"), panel.control("Prompt")
    expect(spans).to_have_count(4)
    box.fill("a\nb")
    box.press("End")
    box.press("ArrowLeft")  # an arrow key of the box, not of JupyterLab
    box.press("c")
    expect(spans).to_have_count(5)
    panel.press("Top k", "ArrowLeft", "ArrowLeft")
    panel.el.locator(".attn-option").nth(1).press("Enter")
    panel.el.get_by_role("button", name="Say one").press("Enter")
    expect(spans).to_have_count(7)
    shown = "".join(spans.all_inner_texts()[:6])
    text, state = lab.prints(WRITER_STAND, ", ").split(" | ")
    assert text.startswith("'a\\ncb")
    assert len(state.split(", ")) == 2
    assert state.endswith("] 9 4")
    assert len(shown) >= 6
    said = lab.printed(WRITER_SAYS)
    tokens = [int(n) for n in said.strip("[]").split(", ")]
    expect(box).to_have_value("ba")
    expect(spans).to_have_count(len(tokens) + (tokens[-1] != 2))


def test_a_term_of_a_copied_chapter_leads_to_the_glossary(lab: Lab):
    page = lab.page.context.new_page()
    page.goto(lab.page.url.replace("/lab/tree/trip", "/lab/workspaces/copies/tree/03_masking"))
    page.locator(".jp-Notebook a", has_text=re.compile("^mask$")).first.click()
    glossary = page.locator(".jp-MarkdownViewer")
    expect(glossary.locator("strong", has_text="additive score")).to_be_visible()
    expect(glossary).not_to_contain_text("{doc}")
    back = glossary.get_by_role("link", name="chapter 11").first
    expect(back).to_have_attribute("href", re.compile("/11_looking_inside.ipynb"))
    page.close()
