"""A link sets the state of a widget, and a widget's state can be copied as a link."""

from functools import partial

import pytest
from playwright.sync_api import Error, Page, expect

from attn_notes.data import Vocabulary
from attn_notes.widgets import LanguageModelPlayer, explore
from attn_notes.widgets.base import BookWidget
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.panel import Panel, settle
from tests.widgets import near, of_function, of_mask, of_player, of_points, random_decoder

LINK = '<p><a href="#mask-2?second=window&amp;layers=3">three layers</a></p>'
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


def reached(page: Page, widget: BookWidget, nth: int) -> None:
    assert_shown(Panel(page, nth), widget)


def test_a_link_in_the_text_sets_the_widget_that_it_names(visit, page_of_four):
    page = visit(page_of_four)
    page.get_by_role("link", name="three layers").click()
    second = of_mask(["a", "rose"])
    second.second, second.layers = "window", 3
    reached(page, second, 2)
    reached(page, of_mask(), 1)
    assert page.url.endswith("#mask-2?second=window&layers=3")


def test_an_address_opens_the_page_with_the_state_that_it_names(visit, page_of_four):
    page = visit(f"{page_of_four}#kernel?bandwidth=0.37&kernel=boxcar")
    widget = of_points()
    widget.bandwidth, widget.kernel = 0.37, "boxcar"
    reached(page, widget, 0)


def test_the_link_of_a_widget_opens_it_as_the_reader_left_it(visit, page_of_four):
    page = visit(page_of_four)
    panel = Panel(page, 3)
    panel.control("Prompt").fill(TEXT)
    panel.press("Temperature", "End")
    widget = of_text()
    widget.prompt, widget.temperature = panel.control("Prompt").input_value(), 3.0
    assert widget.prompt == TEXT
    panel.el.get_by_role("button", name="Copy link").press("Enter")
    expect(panel.el.locator(".attn-copied")).to_contain_text("link")
    again = visit(page.url)
    reached(again, widget, 3)
    reached(again, of_mask(), 1)
    assert again.evaluate("window.ran") is None


BAD = (
    *("kernel?bandwidth=NaN", "kernel?bandwidth=1e9", "kernel?bandwidth=%22wide%22"),
    *("kernel?data={}", "kernel?kernel=nothing", "kernel?kernel=__proto__", "kernel?__proto__=1"),
    *("kernel?toString=1", "kernel?points=1", "kernel-7?bandwidth=1", "nothing?bandwidth=1"),
    *("kernel?", "kernel", "%"),
)


def test_a_link_to_a_state_that_there_is_not_changes_nothing(visit, page_of_four):
    page = visit(page_of_four)
    for state in BAD:
        page.evaluate("(state) => { location.hash = state; }", state)
        settle(page)
        reached(page, of_points(), 0)
    assert page.evaluate("({}).polluted === undefined")
    page.evaluate("location.hash = 'kernel?bandwidth=0.37'")  # and one that makes sense is followed
    settle(page)
    widget = of_points()
    widget.bandwidth = 0.37
    reached(page, widget, 0)


def test_a_translator_keeps_its_state_where_a_link_makes_no_sense(visit, bare):
    page = visit(bare("player"))
    for state in ("text=12x", "language=zz", "prefix=[0.5]", "prefix=[99999]"):
        page.evaluate("(state) => { location.hash = `translator?${state}`; }", state)
        settle(page)
        reached(page, of_player(), 0)


def test_a_link_sets_one_control_of_a_function_and_leaves_the_others(visit, bare):
    page = visit(bare("function"))
    page.evaluate("location.hash = '#explore?width=1.50&shared_scale=true'")
    settle(page)
    widget = of_function()
    widget.values, widget.shared_scale = {**widget.values, "width": 1.5}, True
    reached(page, widget, 0)
    page.evaluate("location.hash = '#explore?falls=sharp&causal=true'")
    settle(page)
    widget.values = {**widget.values, "falls": "sharp", "causal": True}
    reached(page, widget, 0)
    Panel(page).el.get_by_role("button", name="Copy link").press("Enter")
    expect(Panel(page).el.locator(".attn-copied")).to_contain_text("link")
    moved = page.url.partition("#explore?")[2].split("&")
    assert sorted(moved) == ["causal=true", "falls=sharp", "shared_scale=true", "width=1.5"]
    reached(visit(page.url), widget, 0)


BESIDE_THE_GRID = (
    *("width=0.7", "width=9", "width=%22round%22", "width=", "falls=flat", "falls=0", "causal=1"),
    *("nothing=1", "values={}", "__proto__=1", "constructor=1"),
    *("error=Send+your+password", "printed=hello", "title=hello", "frame=1", "frames=null"),
)


def test_a_control_that_there_is_not_and_a_value_off_the_grid_change_nothing(visit, bare):
    page = visit(bare("function"))
    shown = Panel(page).picture()
    for state in BESIDE_THE_GRID:
        page.evaluate("(state) => { location.hash = `explore?${state}`; }", state)
        settle(page)
        reached(page, of_function(), 0)
        assert Panel(page).picture() == shown, state


def test_a_function_takes_no_value_off_its_grid_from_anyone(visit, bare):
    page = visit(bare("function"))
    with pytest.raises(Error, match=r"width must be one of 0\.5,1,1\.5,2, got 0\.7"):
        page.evaluate("""() => {
          const { model } = document.querySelector("attn-widget");
          model.set("values", { ...model.get("values"), width: 0.7 });
        }""")


def test_a_link_leaves_a_function_alone_that_only_a_kernel_can_answer(visit, tmp_path):
    live = explore(partial(near, causal=False, falls="round"), width=[0.5, 1.0])
    page = visit(f"{page_of(tmp_path, live.page_html())}#explore?width=1.0")
    settle(page)
    assert Panel(page).value("width") == 0
    reached(page, live, 0)
