"""The search page: what stands first, what its excerpts read like, and how it fits a phone."""

import re

import pytest

from tests.browser.test_pages import THEME_LOGS

WORD = re.compile(r"\brope\b", re.IGNORECASE)


@pytest.fixture(autouse=True)
def _the_theme_may_log(visit):
    visit.expected = (THEME_LOGS,)


def results(page):
    """Title, address and excerpt of each result, once all are there."""
    page.locator("#search-results p.search-summary").filter(has_text="finished").wait_for()
    page.wait_for_function(
        "() => [...document.querySelectorAll('ul.search > li')].every((li) => li.children.length)"
    )
    read = """(items) => items.map((li) => [
      li.querySelector("a").textContent, li.querySelector("a").getAttribute("href"),
      li.querySelector("p.context")?.textContent ?? ""])"""
    return page.locator("ul.search > li").evaluate_all(read)


def test_a_whole_word_is_not_looked_for_inside_others(visit, book):
    page = visit(f"{book['http']}/search.html?q=RoPE")
    found = results(page)
    assert any("glossary" in href for _, href, _ in found)
    for title, href, _ in found:  # none that only has a property
        path = href.split("?")[0].split("#")[0]
        text = page.request.get(f"{book['http']}/{path}").text()
        assert WORD.search(re.sub(r"<[^>]+>", " ", text)), title


def test_a_part_of_a_word_is_found_where_no_page_has_it_whole(visit, book):
    found = results(visit(f"{book['http']}/search.html?q=softma"))
    assert found


@pytest.mark.parametrize("word", ["\u6838\u51fd\u6570", "\u67e5\u8be2"])
def test_a_chinese_term_leads_to_the_glossary(visit, book, word):
    found = results(visit(f"{book['http']}/search.html?q={word}"))
    assert any("glossary" in href for _, href, _ in found)


def test_an_excerpt_is_text_of_the_article(visit, book):
    found = results(visit(f"{book['http']}/search.html?q=bandwidth"))
    excerpts = [excerpt for _, _, excerpt in found if excerpt]
    assert len(excerpts) > 3
    for excerpt in excerpts:
        assert not re.search(r"\\\(|\\[a-z]+\{|On this page|Contents|\bimport torch\b", excerpt)


@pytest.mark.parametrize("name", ["search.html?q=softmax", "genindex.html"])
def test_a_phone_shows_all_of_it(visit, book, name):
    page = visit(f"{book['http']}/{name}", width=390, height=844)
    if "search" in name:
        results(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_field_shows_what_is_typed_from_its_first_letter(visit, book):
    page = visit(f"{book['http']}/search.html")
    field = page.locator(".bd-search-container input")
    icon = page.locator(".bd-search-container .fa-magnifying-glass").bounding_box()
    padding = field.evaluate("(input) => parseFloat(getComputedStyle(input).paddingLeft)")
    assert field.bounding_box()["x"] + padding >= icon["x"] + icon["width"]
