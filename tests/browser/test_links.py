"""A link sets the state of a widget, and a widget's state can be copied as a link."""

import pytest
from playwright.sync_api import Page, expect

from attn_notes.widgets import SpellingAttention
from attn_notes.widgets.base import BookWidget
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.panel import Panel, settle
from tests.widgets import of_player, of_points

LINK = '<p><a href="#spelling-2?temperature=0.5&amp;causal=true">cooler</a></p>'


@pytest.fixture(scope="module")
def page_of_three(tmp_path_factory):
    """The address of a page with a kernel widget and two of spelling, and a link to the last."""
    spelling = [SpellingAttention(text).page_html() for text in ("tea eat", "rose sore ore")]
    return page_of(tmp_path_factory.mktemp("links"), of_points().page_html(), *spelling, LINK)


def reached(page: Page, widget: BookWidget, nth: int) -> None:
    assert_shown(Panel(page, nth), widget)


def test_a_link_in_the_text_sets_the_widget_that_it_names(visit, page_of_three):
    page = visit(page_of_three)
    page.get_by_role("link", name="cooler").click()
    second = SpellingAttention("rose sore ore")
    second.temperature, second.causal = 0.5, True
    reached(page, second, 2)
    reached(page, SpellingAttention("tea eat"), 1)
    assert page.url.endswith("#spelling-2?temperature=0.5&causal=true")


def test_an_address_opens_the_page_with_the_state_that_it_names(visit, page_of_three):
    page = visit(f"{page_of_three}#kernel?bandwidth=0.37&kernel=boxcar")
    widget = of_points()
    widget.bandwidth, widget.kernel = 0.37, "boxcar"
    reached(page, widget, 0)


def test_the_link_of_a_widget_opens_it_as_the_reader_left_it(visit, page_of_three):
    page = visit(page_of_three)
    panel = Panel(page, 2)
    panel.control("Words").fill("<b>&amp; a+b=c #1 % \u2028 \u00e9")
    panel.press("Read no later word (causal mask)", " ")
    widget = SpellingAttention(panel.control("Words").input_value())
    widget.causal = True
    panel.el.get_by_role("button", name="Copy link").press("Enter")
    expect(panel.el.locator(".attn-copied")).to_contain_text("link")
    again = visit(page.url)
    reached(again, widget, 2)
    reached(again, SpellingAttention("tea eat"), 1)
    assert again.evaluate("window.ran") is None


BAD = (
    *("kernel?bandwidth=NaN", "kernel?bandwidth=1e9", "kernel?bandwidth=%22wide%22"),
    *("kernel?data={}", "kernel?kernel=nothing", "kernel?kernel=__proto__", "kernel?__proto__=1"),
    *("kernel?toString=1", "kernel?points=1", "kernel-7?bandwidth=1", "nothing?bandwidth=1"),
    *("kernel?", "kernel", "%"),
)


def test_a_link_to_a_state_that_there_is_not_changes_nothing(visit, page_of_three):
    page = visit(page_of_three)
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
