"""A token followed in the page: its numbers are torch's, and every step can be reached and seen."""

import pytest

from attn_notes.data import Vocabulary
from attn_notes.transformer import DecoderOnly, Encoder, Transformer
from attn_widgets import FollowToken, TransformerPlayer
from tests.browser.bare import write_files, write_page
from tests.browser.journeys import assert_shown
from tests.browser.modules import assert_close
from tests.browser.panel import Panel, number, settle
from tests.parts import shown
from tests.widgets import WORDS, of_follow, of_player, random_transformer

MODULE = "follow"

# The numbers

# Every strip of every step, for each token and head; what the mask closes is null.
STRIPS = """(state, tokens, heads) => {
  const following = follower({ get: (name) => state[name] });
  return tokens.map((token) => heads.map((head) => {
    Object.assign(state, { token, head });
    return laidOut(following, following.way(), 600).map(({ strips }) => strips.map(
      ({ name, values, open }) => [name, Array.from(values, (x, n) => (open(n) ? x : null))]));
  }));
}"""
CONFIGS = {
    "pre-norm": {},
    "post-norm, gelu": {"norm": "post", "activation": "gelu", "layer_norm_eps": 0.1},
    "learned, gelu_tanh": {"positions": "learned", "max_length": 7, "activation": "gelu_tanh"},
    "no positions, one head": {"positions": "none", "num_heads": 1, "scale_embeddings": False},
}


def followed(kind: type, changes: dict) -> FollowToken:
    """Five words, or three digits and their translation."""
    if kind is not Transformer:
        model = random_transformer(kind, target_vocab_size=None, **changes)
        return FollowToken(model, [*WORDS[:3], "time", "an"])
    digits, words = Vocabulary([*"0123456789"]), Vocabulary(WORDS)
    sizes = {"vocab_size": 14, "target_vocab_size": 9, "num_decoder_layers": 3}
    model = random_transformer(noise=0.9, seed=13, **sizes, **changes)
    return FollowToken(TransformerPlayer(model, digits, words, examples=("407",), most=4), "407")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [*zip((Encoder, Transformer, DecoderOnly, Transformer), CONFIGS.values(), strict=True)],
    ids=CONFIGS,
)
def test_every_number_of_every_step_is_torch_s_on_the_rounded_weights(js, kind, changes):
    widget = followed(kind, changes)
    sides = widget.data["sentences"][0]
    tokens = list(range(len(sides["source"][0]) + len(sides["target"][0])))
    heads = list(range(widget._model.config.num_heads))
    found = js(STRIPS, {"data": widget.data, "sentence": 0}, tokens, heads)
    compared = 0
    for widget.token in tokens:
        for widget.head in heads:
            here = found[widget.token][widget.head]
            assert len(here) == len(widget._steps())
            for widget.step, strips in enumerate(here):
                wanted = shown(widget)
                assert [name for name, _ in strips] == list(wanted)
                for (_, values), expected in zip(strips, wanted.values(), strict=True):
                    closed = [value is None for value in values]
                    assert closed == expected.isnan().tolist()
                    numbers = [value for value in values if value is not None]
                    assert_close(numbers, expected[~expected.isnan()])
                    compared += len(numbers)
    assert compared > 5000


# Cells that are computed from others: how, and the value that this gives.
FORMULAS = r"""(state) => {
  const following = follower({ get: (name) => state[name] }), found = [];
  for (const { strips } of laidOut(following, following.way(), 600)) {
    for (const { values, how, open } of strips) {
      values.forEach((value, n) => { if (open(n) && how(n)) found.push([how(n), value]); });
    }
  }
  return found.filter(([text]) => !/\u2026|gelu/.test(text));
}"""


def test_a_formula_with_its_rounded_numbers_gives_the_value_nearly(js):
    widget = followed(DecoderOnly, {"norm": "post"})
    state = {"data": widget.data, "sentence": 0, "token": 1, "head": 1}
    formulas = js(FORMULAS, state)
    assert len(formulas) > 300
    for text, value in formulas:
        python = text.replace("\u2212", "-").replace("\u00d7", "*").replace("e^", "2.718281828**")
        result = eval(python, {"relu": lambda x: max(0.0, x)})
        assert result == pytest.approx(value, abs=0.05 + 0.03 * abs(value)), text


# Of every step: where the colours of its keys end, and of each key; their numbers, and the others'.
SCALES = """(state) => {
  const following = follower({ get: (name) => state[name] });
  const isKey = ({ id }) => /^k[0-9]/.test(id);
  const numbers = (strips) => strips.flatMap(({ values }) => [...values]);
  return laidOut(following, following.way(), 600).map(({ strips, longest = 0, top }) => ({
    longest, top, ends: strips.filter(isKey).map(({ most }) => most),
    keys: numbers(strips.filter(isKey)),
    others: numbers(strips.filter((one) => one.signed && !one.plain && !isKey(one))) }));
}"""


def test_the_keys_have_a_scale_of_colours_of_their_own(js):
    scenes = js(SCALES, {"data": of_follow().data, "sentence": 0, "token": 1, "head": 0})
    assert [scene["longest"] > 0 for scene in scenes] == [bool(scene["keys"]) for scene in scenes]
    assert any(scene["keys"] for scene in scenes)
    for scene in scenes:
        assert scene["top"] == pytest.approx(max(map(abs, scene["others"]), default=1.0))
        if scene["keys"]:
            assert {*scene["ends"], scene["longest"]} == {max(map(abs, scene["keys"]))}


# Steps


def steps_of(panel: Panel) -> list[str]:
    """The boxes of the map, which are steps, that of the step on show in brackets."""
    read = """(all) => all.map((el) => (el.getAttribute("aria-pressed") === "true"
      ? `[${el.lastChild.textContent}]` : el.lastChild.textContent))"""
    return panel.el.locator(".attn-steps button").evaluate_all(read)


def test_each_box_of_the_map_is_pressed_and_next_goes_on_to_the_next_block(visit, bare):
    panel, widget = Panel(visit(bare("follow"))), of_follow()
    buttons = panel.el.locator(".attn-steps button")
    panel.table()  # unfolded first: that takes the focus
    labels = [*("Embed", "Norm", "q \u00b7 k", "\u00f7 \u221aD", "Mask", "Softmax"), "Values"]
    labels += ["Heads", "Add", "Norm", "Network", "Add", "Block 1"]
    for n, label in enumerate(labels[:-1]):
        buttons.nth(n).press("Enter")
        assert_shown(panel, widget, step=n)
        assert steps_of(panel) == [*labels[:n], f"[{label}]", *labels[n + 1 :]]
        assert panel.said().startswith(f"{label}. ")
        lit = panel.el.locator(".attn-lit-part > span").all_inner_texts()
        assert lit == ["Self-attention"] * (1 <= n <= 7) + ["Feed-forward"] * (9 <= n <= 10)
        assert buttons.nth(n).evaluate("(button) => button === document.activeElement")
    panel.press_button("Next")
    widget.step += 1
    assert_shown(panel, widget)
    assert steps_of(panel) == ["[Block 1]", *labels[1:-1], "Out"]
    assert panel.value("Block") == 1
    panel.press_button("Previous")
    assert steps_of(panel) == [*labels[:-2], "[Add]", "Block 1"]
    buttons.last.press("Enter")
    assert steps_of(panel)[0] == "[Block 1]"
    assert panel.value("Block") == 1


def test_the_pointer_reads_the_number_under_it_and_how_it_comes_about(visit, bare):
    panel, widget = Panel(visit(bare("follow"))), of_follow()
    panel.press("Step", *["ArrowRight"] * 6)
    widget.step = 6
    plain = panel.picture()
    panel.map().hover(position={"x": 489, "y": 208})  # the sum stands under the products
    value = float(widget.shown()["z"][3])
    assert panel.readout().startswith("z 0, feature 3: ")
    assert number(panel.readout().rpartition(" = ")[2]) == pytest.approx(value, abs=0.000501)
    assert panel.picture() != plain
    panel.page.mouse.move(0, 0)
    assert panel.picture() == plain


# One model for two widgets


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder with a page that holds a player and a token of its, and one without the player."""
    folder = tmp_path_factory.mktemp("shared")
    write_files(folder)
    player = of_player()
    widget = FollowToken(player, "407", "19")
    write_page(folder, "both", of_follow().page_html(), widget.page_html(), player.page_html())
    write_page(folder, "alone", widget.page_html(), of_follow().page_html())
    return folder, widget


def test_the_model_of_a_player_is_found_on_the_page(visit, shared):
    folder, widget = shared
    panel = Panel(visit((folder / "both.html").as_uri()), 1)
    assert_shown(panel, widget)
    panel.press("Token", "End")
    panel.press("Step", "End")
    assert_shown(panel, widget, token=99, step=99)
    panel.press("Sentence", "End")
    assert_shown(panel, widget, sentence=1)
    panel.press("Block", "Home")
    assert steps_of(panel).count("q \u00b7 k") == 2  # of the target, and of the source


def test_without_the_player_the_table_stays_and_the_console_says_why(visit, shared):
    folder, _ = shared
    page = visit((folder / "alone.html").as_uri())
    first = page.locator("attn-widget").first
    assert first.locator(".attn-root").count() == 0
    caption = first.locator("caption")
    assert caption.is_visible()
    assert caption.inner_text() == FollowToken(of_player(), "407", "19")._table()[0]
    assert_shown(Panel(page, 1), of_follow())
    assert len(visit.problems) == 1
    assert "no element on this page holds the model" in visit.problems.pop()


# Looks


def test_every_step_has_its_place_and_the_picture_keeps_its_height(visit, bare):
    page = visit(bare("follow"), width=1280)
    panel = Panel(page)
    for width, tallest, places in ((1280, 700, {"y", "height"}), (390, 900, {"height"})):
        page.set_viewport_size({"width": width, "height": 1000})
        panel.press("Step", "Home")
        settle(page)
        start, whole = panel.map().bounding_box(), panel.el.bounding_box()["height"]
        assert whole <= tallest
        for _ in range(24):
            panel.press("Step", "ArrowRight")
            settle(page)
            box = panel.map().bounding_box()
            assert all(box[place] == start[place] for place in places)
            assert panel.el.bounding_box()["height"] == whole  # nothing below it moves


def test_on_a_phone_the_lit_box_is_in_sight_and_the_picture_stays_above_the_strip(visit, bare):
    page = visit(bare("follow"), width=390, height=700, has_touch=True, is_mobile=True)
    panel, strip = Panel(page), Panel(page).el.locator(".attn-strip")
    assert strip.evaluate("(el) => el.scrollWidth > el.clientWidth")  # or there is nothing to test
    for _ in range(12):
        panel.press_button("Next")
        settle(page)
        seen = strip.bounding_box()
        box = strip.locator("[aria-pressed=true]").bounding_box()
        assert seen["x"] <= box["x"]
        assert box["x"] + box["width"] <= seen["x"] + seen["width"]
    page.evaluate("document.body.style.paddingBottom = '2000px'")
    tall = panel.map().bounding_box()["height"] + 60  # the sentence has gone behind the picture
    strip.evaluate("(el, tall) => scrollBy(0, el.getBoundingClientRect().top - tall)", tall)
    settle(page)
    assert strip.bounding_box()["y"] == pytest.approx(tall, abs=1)
    assert panel.map().bounding_box()["y"] >= 0
