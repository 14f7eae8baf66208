"""A link sets the state of a widget, and a widget's state can be copied as a link."""

from functools import partial

import pytest
from playwright.sync_api import Page, expect

from attn_notes.data import Vocabulary
from attn_widgets import LanguageModelPlayer, explore
from attn_widgets.base import BookWidget
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.panel import Panel, settle
from tests.widgets import EVERY, near, of_function, of_mask, of_player, of_points, random_decoder

LINK = """<p><a href="#mask-2?second=window&amp;layers=3">three layers</a>
<a href="#kernel?bandwidth=0.37">narrow</a> <a href="#kernel?kernel=boxcar">boxcar</a></p>"""
TEXT = "<b>&amp; a+b=c #1 % \u00e9"


@pytest.fixture(scope="module")
def page_of_four(tmp_path_factory):
    """The address of a page with a kernel widget, two of masks and a writer, and a link."""
    widgets = (of_points(), of_mask(), of_mask(["a", "rose"]), of_text())
    elements = [widget.page_html() for widget in widgets]
    return page_of(tmp_path_factory.mktemp("links"), *elements, LINK)


def of_text() -> LanguageModelPlayer:
    """A random language model that knows the characters which an address must escape."""
    vocab = Vocabulary(dict.fromkeys(TEXT))
    sizes = {"vocab_size": len(vocab), "embed_dim": 8, "num_heads": 2, "ffn_dim": 6}
    return LanguageModelPlayer(random_decoder(**sizes), vocab, prompt="a")


def set_hash(page: Page, state: str) -> None:
    page.evaluate("(state) => { location.hash = state; }", state)
    settle(page)


def reached(page: Page, widget: BookWidget, nth: int) -> None:
    assert_shown(Panel(page, nth), widget)


def test_the_link_of_a_widget_opens_it_as_the_reader_left_it(visit, page_of_four):
    page = visit(page_of_four)
    panel = Panel(page, 3)
    panel.control("Prompt").fill(TEXT)
    panel.press("Temperature", "End")
    widget = of_text()
    widget.prompt, widget.temperature = panel.control("Prompt").input_value(), 3.0
    assert widget.prompt == TEXT
    panel.press_button("Copy link")
    expect(panel.el.locator(".attn-copied")).to_contain_text("link")
    again = visit(page.url)
    reached(again, widget, 3)
    reached(again, of_mask(), 1)
    assert again.evaluate("window.ran") is None


# The texts that the button or its message lies over.
COVERED = """(el) => {
  const foot = el.querySelector(".attn-foot"), marks = [...foot.children].map((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return [one.matches("button") ? one : range].flatMap((of) => [...of.getClientRects()]);
  }).flat();
  const walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT), covered = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, range = document.createRange();
    range.selectNodeContents(node);
    if (foot.contains(node) || !node.data.trim() || !node.parentElement.checkVisibility()) continue;
    const seen = node.parentElement.closest(".attn-scroll, .attn-page, .attn-root").getBoundingClientRect();
    const meets = (a, b) => a.left < b.right && b.left < a.right && Math.max(a.top, seen.top) < b.bottom
      && b.top < Math.min(a.bottom, seen.bottom);
    if ([...range.getClientRects()].some((one) => marks.some((mark) => meets(one, mark)))) covered.push(node.data);
  }
  return covered;
}"""  # noqa: E501


@pytest.mark.parametrize("width", [390, 900])
@pytest.mark.parametrize("name", [*EVERY, "saved"])
def test_the_button_that_copies_the_link_and_its_message_lie_over_nothing(visit, bare, name, width):
    page = visit(bare(name), width=width)
    panel = Panel(page)
    assert panel.el.evaluate(COVERED) == []
    panel.press_button("Copy link")
    expect(panel.el.locator(".attn-copied")).to_contain_text("link")
    assert panel.el.evaluate(COVERED) == []
    for details in panel.el.locator("details.attn-table:visible").all()[-1:]:
        details.locator("summary").press("Enter")
        settle(page)
        assert panel.el.evaluate(COVERED) == []


BAD = {
    "points": (
        *("kernel?bandwidth=NaN", "kernel?bandwidth=1e9", "kernel?bandwidth=%22wide%22"),
        *("kernel?data={}", "kernel?kernel=nothing", "kernel?kernel=__proto__"),
        *("kernel?__proto__=1", "kernel?toString=1", "kernel?points=1", "kernel-7?bandwidth=1"),
        *("nothing?bandwidth=1", "kernel?", "kernel", "%"),
    ),
    "function": (
        *("explore?width=0.7", "explore?width=9", "explore?width=%22round%22", "explore?width="),
        *("explore?falls=flat", "explore?falls=0", "explore?causal=1", "explore?nothing=1"),
        *("explore?values={}", "explore?__proto__=1", "explore?error=Send+your+password"),
        *("explore?printed=hello", "explore?title=hello", "explore?frame=1"),
    ),
    "player": (
        *("translator?text=12x", "translator?language=zz", "translator?prefix=[0.5]"),
        "translator?prefix=[99999]",
    ),
    "online": (
        *("online?tile=0.5", "online?step=-1", "online?scores=[1]"),
        *("online?scores=[null,1,1,1,1]", "online?key=65"),
    ),
    "switches": (
        *("switches?edits=cross.9.9:0", "switches?edits=cross.0.0:3", "switches?text=x"),
        *("switches?edits=cross.0.0:-1", "switches?edits=__proto__:0", "switches?head=cross.1.2"),
        *("switches?other=<b>", "switches?language=<xx>", "switches?edits=cross.0.0:off"),
    ),
}
GOOD = {
    "points": ("kernel?bandwidth=0.37", {"bandwidth": 0.37}),
    "function": ("explore?shared_scale=true", {"shared_scale": True}),
    "player": ("translator?text=73&step=1", {"text": "73", "step": 1}),
    "online": (
        "online?tile=2&step=1&masked=[3]&forget=true",
        {"tile": 2, "step": 1, "masked": [3], "forget": True},
    ),
    "switches": (
        "switches?text=1999&other=1998&head=cross.0.0&edits=cross.0.0:other,encoder.1.1:0",
        {"text": "1999", "other": "1998", "head": "cross.0.0"}
        | {"edits": "cross.0.0:other,encoder.1.1:0"},
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_link_to_a_state_that_there_is_not_changes_nothing(visit, bare, name):
    page, widget = visit(bare(name)), EVERY[name]()
    panel = Panel(page)
    shown = panel.picture(), panel.el.inner_text()
    for state in BAD[name]:
        set_hash(page, state)
        assert (panel.picture(), panel.el.inner_text()) == shown, state
    reached(page, widget, 0)
    assert page.evaluate("({}).polluted === undefined")
    state, traits = GOOD[name]  # and one that makes sense is followed
    set_hash(page, state)
    for trait, value in traits.items():
        setattr(widget, trait, value)
    reached(page, widget, 0)


def test_back_returns_from_a_link_to_where_the_reader_was(visit, page_of_four):
    page = visit(page_of_four)
    moved, second = of_points(), of_mask(["a", "rose"])
    moved.bandwidth = 0.31
    Panel(page).press("Width", "ArrowRight")
    page.get_by_role("link", name="three layers").click()
    second.second, second.layers = "window", 3
    reached(page, second, 2)
    reached(page, of_mask(), 1)
    page.get_by_role("link", name="narrow").click()
    page.get_by_role("link", name="narrow").click()  # once more is no further
    narrow = of_points()
    narrow.bandwidth = 0.37
    reached(page, narrow, 0)
    for here, mask in (("mask-2?second=window&layers=3", second), ("", of_mask(["a", "rose"]))):
        page.go_back()
        settle(page)
        assert page.url.partition("#")[2] == here
        reached(page, moved, 0)
        reached(page, mask, 2)
    page.go_forward()
    settle(page)
    reached(page, second, 2)
    page.go_forward()
    settle(page)
    reached(page, narrow, 0)


def test_what_a_link_set_does_not_leak_into_the_next_and_what_the_reader_set_stays(
    visit, page_of_four
):
    page = visit(page_of_four)
    Panel(page).press("Query", "ArrowRight")
    page.get_by_role("link", name="narrow").click()
    widget = of_points()
    widget.query, widget.bandwidth = Panel(page).value("Query"), 0.37
    assert widget.query != of_points().query
    reached(page, widget, 0)
    page.get_by_role("link", name="boxcar").click()
    widget.kernel, widget.bandwidth = "boxcar", of_points().bandwidth
    reached(page, widget, 0)


def test_a_link_to_another_text_drops_what_the_reader_put_into_the_old_one(visit, bare):
    page, widget = visit(bare("player")), of_player()
    set_hash(page, "translator?temperature=2&seed=7")
    Panel(page).el.locator(".attn-option").nth(2).click()
    set_hash(page, "translator?text=5550123&step=1")
    widget.text, widget.step = "5550123", 1
    reached(page, widget, 0)


def test_a_link_sets_controls_of_a_function_and_undoes_those_of_the_link_before(visit, bare):
    page = visit(bare("function"))
    set_hash(page, "explore?width=1.50&shared_scale=true")
    widget = of_function()
    widget.values, widget.shared_scale = {**widget.values, "width": 1.5}, True
    reached(page, widget, 0)
    Panel(page).press("causal", "Space")
    set_hash(page, "explore?falls=sharp")
    widget.values, widget.shared_scale = {**of_function().values, "falls": "sharp"}, False
    widget.values = {**widget.values, "causal": True}  # the reader's own
    reached(page, widget, 0)
    Panel(page).press_button("Copy link")
    expect(Panel(page).el.locator(".attn-copied")).to_contain_text("link")
    moved = page.url.partition("#explore?")[2].split("&")
    assert sorted(moved) == ["causal=true", "falls=sharp"]
    reached(visit(page.url), widget, 0)


def test_a_link_leaves_a_function_alone_that_only_a_kernel_can_answer(visit, tmp_path):
    live = explore(partial(near, causal=False, falls="round"), width=[0.5, 1.0])
    page = visit(f"{page_of(tmp_path, live.page_html())}#explore?width=1.0")
    settle(page)
    assert Panel(page).value("width") == 0
    reached(page, live, 0)


@pytest.mark.parametrize(("height", "begins"), [(500, True), (2000, False)])
def test_a_link_shows_the_beginning_of_a_widget_that_is_taller_than_the_window(
    visit, bare, height, begins
):
    page = visit(bare("online"), width=390, height=height)
    page.evaluate(
        "document.documentElement.style.scrollPaddingTop = '64px';"  # of a header
        "document.body.style.paddingBlock = '3000px'"
    )
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.emulate_media(reduced_motion="reduce")
    set_hash(page, "online?step=1")
    edges = page.evaluate(
        "() => { const b = document.querySelector('attn-widget').getBoundingClientRect();"
        " return [b.top, b.bottom]; }"
    )
    assert abs(edges[0] - 64) < 1 if begins else edges[0] + 1 >= 64 and edges[1] <= height + 1
