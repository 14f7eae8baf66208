"""Heads switched in the page: the numbers are torch's, and every control moves what it should."""

import itertools
import re
from collections.abc import Iterator

import pytest
import torch

from attn_notes.data.numbers import BELOW_TEN_THOUSAND
from attn_notes.stored import load_translator
from attn_widgets import HeadSwitches
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.modules import assert_close
from tests.browser.panel import Panel, settle
from tests.widgets import of_switches

MODULE = "switches"
LANGUAGES = {"fr": "French", "de": "German", "es": "Spanish"}
ALL = [f"{kind}.{layer}" for kind in ("encoder", "decoder", "cross") for layer in (0, 1)]


@pytest.fixture(scope="module")
def made() -> HeadSwitches:
    """The model that the book stores."""
    stored = load_translator("book/_data/transformer-numbers")
    return HeadSwitches(
        stored.model,
        stored.source_vocab,
        stored.target_vocab,
        languages=LANGUAGES,
        examples=("1999", "73", "eight hundred and twelve"),
        domain=(BELOW_TEN_THOUSAND, "numbers below ten thousand"),
        reference=[str(n) for n in range(7, 10_000, 500)],
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory, made) -> str:
    """The address of a page with it."""
    return page_of(tmp_path_factory.mktemp("switches"), made.page_html())


@pytest.fixture
def stored(made) -> Iterator[HeadSwitches]:
    """The same in Python, for a test to change; as the page begins with it."""
    names = ("text", "language", "other", "head", "edits")
    start = {name: getattr(made, name) for name in names}
    yield made
    for name, value in start.items():
        setattr(made, name, value)


# What is computed

COMPUTED = """(state) => {
  const board = switchboard({ get: (name) => state[name] }), plain = (x) => Array.from(x, (y) => Array.from(y));
  board.begin();
  board.change();
  const map = ({ kind, layer, head }) => { const { values, L, S } = board.map(kind, layer, head);
    return Array.from({ length: L }, (_, i) => Array.from(values.subarray(i * S, (i + 1) * S))); };
  return { tokens: [board.tokens, board.now.tokens], bits: [board.plain.bits, board.bits],
    probabilities: [board.plain, board.now].map(({ steps }) => plain(steps.map((step) => step.probabilities))),
    names: board.heads.map((head) => head.name), maps: board.heads.map(map), effects: finish(board.rank()) };
}"""  # noqa: E501


def heads(change: object, *layers: str, count: int = 4) -> str:
    return ",".join(f"{layer}.{head}:{change}" for layer in layers for head in range(count))


CASES = {
    "all on": {},
    "one off": {"edits": "cross.0.1:0"},
    "two off": {"edits": "cross.0.1:0,decoder.0.1:0", "language": "<de>"},
    "all off": {"edits": heads(0, *ALL)},
    "all doubled": {"edits": heads(2, *ALL), "text": "73"},
    "the encoder off": {"edits": heads(0, *ALL[:2]), "language": "<es>"},
    "halved": {"edits": heads(0.55, "cross.1", "encoder.0"), "text": "5100"},
    "all at their means": {"edits": heads("mean", *ALL), "text": "7004"},
    "patched": {"edits": "cross.0.1:other,cross.0.3:other", "other": "1998"},
    "patched from a shorter text": {"edits": heads("other", "encoder.0", "cross.0"), "other": "7"},
    "patched from a longer text": {
        "edits": heads("other", *ALL),
        "text": "93",
        "other": "eight hundred and twelve",
    },
    "of every kind": {
        "edits": "encoder.1.0:other,decoder.0.2:mean,decoder.1.1:1.35,cross.0.0:0,cross.1.3:other",
        "text": "nine thousand and one",
        "other": "4729",
        "language": "<es>",
    },
}


def assert_computed(call, widget: HeadSwitches) -> None:
    found, made = call(COMPUTED, widget.page_state()), widget.shown()
    assert found["names"] == list(widget._heads)
    assert found["tokens"] == [made.untouched.tokens, made.switched.tokens]
    assert_close(found["bits"], made.bits)
    for here, one in zip(found["probabilities"], made[:2], strict=True):
        assert_close(here, one.probabilities)
    effects = torch.tensor([*widget.effects().values()], dtype=torch.float64)
    assert_close(found["effects"], effects)
    for name, here in zip(found["names"], found["maps"], strict=True):
        kind, layer, head = name.split(".")
        expected = getattr(made.switched.weights, kind)[int(layer)][0, int(head)]
        assert_close(here, expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_edit_does_in_the_page_what_it_does_in_torch(js, stored, case):
    for name, value in ({"other": "1998"} | case).items():
        setattr(stored, name, value)
    assert_computed(js, stored)


def test_post_norm_heads_of_other_sizes_are_switched_as_in_torch(js):
    widget = of_switches()
    widget.other = "5550123"
    for name, edit in zip(widget._heads, itertools.cycle(("0", "2", "mean", "other", "0.5"))):
        widget.edits = f"{name}:{edit}"
        assert_computed(js, widget)


def test_tokens_that_stay_are_those_of_a_longest_common_subsequence(js):
    common = "(a, b) => common(a, b).map((kept) => [...kept])"
    assert js(common, [5, 6, 7, 2], [5, 6, 7, 2]) == [[0, 1, 2, 3]] * 2
    assert js(common, [5, 6, 7, 2], [6, 7, 8, 2]) == [[1, 2, 3], [0, 1, 3]]
    assert js(common, [5, 5, 2], [9, 5, 9, 5, 2]) == [[0, 1, 2], [1, 3, 4]]
    assert js(common, [5, 6], []) == [[], []]


# What a reader does


def grid(panel: Panel, kind: str):
    return panel.el.locator(".attn-columns canvas").nth(["encoder", "decoder", "cross"].index(kind))


def test_the_keyboard_walks_the_maps_and_its_space_bar_switches(visit, bare):
    panel, widget = Panel(visit(bare("switches"))), of_switches()
    for kind, key, head in (
        *(("cross", "ArrowDown", "cross.1.1"), ("cross", "ArrowLeft", "cross.1.0")),
        *(("decoder", "ArrowUp", "decoder.0.0"), ("encoder", "ArrowRight", "encoder.0.1")),
    ):
        grid(panel, kind).press(key)
        assert_shown(panel, widget, head=head)
        grid(panel, kind).press("Space")
        edits = dict(one.split(":") for one in widget.edits.split(",") if one)
        edits[head] = "1" if head in edits else "0"
        assert_shown(panel, widget, edits=",".join(f"{name}:{to}" for name, to in edits.items()))
    again = panel.button("All on again")
    assert again.get_attribute("aria-disabled") == "false"
    again.press("Enter")
    assert_shown(panel, widget, edits="")
    assert again.get_attribute("aria-disabled") == "true"
    again.press("Enter")
    assert_shown(panel, widget)


def test_the_ranked_list_is_one_stop_that_arrow_keys_walk(visit, bare):
    panel, widget = Panel(visit(bare("switches"))), of_switches()
    assert_shown(panel, widget)
    rows = [row[0] for row in widget._table()[2]]
    listed = panel.el.get_by_role("listbox")
    for key, at in (("Home", 0), ("ArrowDown", 1), ("End", 11), ("ArrowDown", 11), ("ArrowUp", 10)):
        listed.press(key)
        assert_shown(panel, widget, head=rows[at])
        active = listed.get_attribute("aria-activedescendant")
        option = panel.page.locator(f"[id='{active}']")
        assert option.inner_text().split("\n")[0].replace(" ", ".") == rows[at]
    listed.press("Space")
    widget.edits += f",{rows[10]}:0"
    assert_shown(panel, widget)
    listed.get_by_role("option").nth(3).click()
    assert_shown(panel, widget, head=rows[3])
    about = panel.said(1).replace("\u2212", "-")
    assert re.fullmatch(r"Switched off alone: \S+ bits, 4 of 12\.", about)


def test_another_text_appears_where_a_head_is_patched_and_is_read_at_every_key(visit, bare):
    panel, widget = Panel(visit(bare("switches"))), of_switches()
    assert not panel.control("Other text").is_visible()
    panel.press("Output", "End")
    assert_shown(panel, widget, edits="encoder.0.1:other,cross.1.0:mean")
    assert panel.control("Other text").input_value() == "1999"
    assert panel.control("times").is_disabled()
    for text in ("5", "55", "555"):
        panel.control("Other text").fill(text)
        assert_shown(panel, widget, other=text)
    panel.control("Other text").fill("5x")
    assert panel.el.locator(".attn-error:visible").inner_text().startswith("The model does not")
    assert_shown(panel, widget)
    panel.press("Output", "Home")
    assert_shown(panel, widget, edits="cross.1.0:mean")
    assert not panel.el.locator(".attn-error").first.is_visible()


def test_what_is_typed_is_translated_and_ranked_anew(visit, trained, stored):
    panel = Panel(visit(trained))
    panel.control("Translate").fill("4729")
    panel.press("into", "ArrowDown")
    assert_shown(panel, stored, text="4729", language="<de>")
    assert panel.said().startswith("All heads are on. Log-probability of the translation: ")
    grid(panel, "cross").press("ArrowUp")
    grid(panel, "cross").press("Space")
    assert_shown(panel, stored, head="cross.0.3", edits="cross.0.3:0")
    assert panel.said().startswith("cross 0.3: off. ")
    panel.control("Translate").fill("12345")
    said = panel.el.locator(".attn-error:visible").inner_text()
    assert said.startswith("The model was trained on numbers below ten thousand only.")


def test_words_that_differ_are_marked_and_not_by_colour_alone(visit, trained, stored):
    edits = heads(0, "cross.0", count=4)
    panel = Panel(visit(f"{trained}#switches?edits={edits}", width=1280))
    assert panel.el.locator(".attn-root").bounding_box()["height"] <= 900
    assert_shown(panel, stored, edits=edits)
    tokens = stored.shown()
    assert tokens.untouched.tokens != tokens.switched.tokens
    lines = panel.el.locator(".attn-tokens")
    for line, mark, made in ((0, "del", tokens.untouched), (1, "ins", tokens.switched)):
        marked = lines.nth(line).locator(mark)
        assert 0 < marked.count() <= len(made.tokens)
        style = marked.first.evaluate("(el) => getComputedStyle(el).textDecorationLine")
        assert style == {"del": "line-through", "ins": "underline"}[mark]


def test_a_finger_finds_each_switch_in_44_pixels_either_way(visit, trained, stored):
    phone = {"width": 390, "height": 700, "has_touch": True, "is_mobile": True}
    page = visit(trained, **phone)
    assert page.locator(".attn-root").bounding_box()["height"] <= 1700
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    panel = Panel(page)
    page.get_by_role("tab", name="Decoder").tap()
    canvas = grid(panel, "decoder")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, below, layers, count = 22, 18, 2, 4
    wide, tall = min(box["width"] - left - 4, 72 * count) / count, (box["height"] - below) / layers
    assert wide >= 44
    for x, y, edits in ((3, 42, "decoder.0.2:0"), (wide - 3, 2, "")):  # its two far corners
        place = {"x": left + 2 * wide + x, "y": tall - y}
        canvas.tap(position=place)
        assert_shown(panel, stored, head="decoder.0.2", edits=edits)
    canvas.tap(position={"x": left + 3.5 * wide, "y": tall - 46})
    assert_shown(panel, stored, head="decoder.0.3")


def test_on_a_phone_both_translations_stay_in_view_while_a_head_is_switched(visit, bare):
    page = visit(bare("switches"), width=390, height=844)
    panel, strip = Panel(page), page.locator(".attn-picture")
    assert strip.locator(".attn-tokens").count() == 2
    for label in ("Output", "times"):
        control = panel.control(label)
        control.evaluate("(one) => scrollTo(0, one.getBoundingClientRect().top + scrollY - 600)")
        settle(page)
        box = strip.bounding_box()
        assert box["y"] == pytest.approx(0, abs=1)
        assert box["height"] < control.bounding_box()["y"]


def test_a_phone_shows_the_maps_of_the_chosen_head_s_attention(visit, bare):
    panel = Panel(visit(bare("switches"), width=390, height=844))
    rows = [row[0] for row in of_switches()._table()[2]]
    listed, grids = panel.el.get_by_role("listbox"), panel.el.locator(".attn-either canvas")
    listed.press("Home")
    for head in rows:
        settle(panel.page)
        kind = head.split(".")[0]
        assert [grid.is_visible() for grid in grids.all()] == [
            kind == one for one in ("encoder", "decoder", "cross")
        ]
        listed.press("ArrowDown")
    panel.page.set_viewport_size({"width": 900, "height": 844})
    settle(panel.page)
    assert all(grid.is_visible() for grid in grids.all())
