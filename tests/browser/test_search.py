"""The search page: what stands first, what its excerpts read like, and how it fits a phone."""

import re

import pytest

WORD = re.compile(r"\brope\b", re.IGNORECASE)


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


def test_a_whole_word_is_not_looked_for_inside_others(turn, book):
    page = turn("search", query="?q=RoPE")
    found = results(page)
    assert any("glossary" in href for _, href, _ in found)
    for title, href, _ in found:  # none that only has a property
        path = href.split("?")[0].split("#")[0]
        text = page.request.get(f"{book['http']}/{path}").text()
        assert WORD.search(re.sub(r"<[^>]+>", " ", text)), title


# A part of a word is looked for where no page has it whole.
@pytest.mark.parametrize("word", ["softma", "\u6838\u51fd\u6570", "\u67e5\u8be2"])
def test_a_part_of_a_word_or_a_chinese_term_leads_to_the_glossary(turn, word):
    assert any("glossary" in href for _, href, _ in results(turn("search", query=f"?q={word}")))


def test_an_excerpt_is_text_of_the_article(turn):
    found = results(turn("search", query="?q=bandwidth"))
    excerpts = [excerpt for _, _, excerpt in found if excerpt]
    assert len(excerpts) > 3
    for excerpt in excerpts:
        assert not re.search(r"\\\(|\\[a-z]+\{|On this page|Contents|\bimport torch\b", excerpt)


def test_a_phone_shows_all_of_it(turn):
    page = turn("search", query="?q=softmax", width=390, height=844)
    results(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_field_shows_what_is_typed_from_its_first_letter(turn):
    page = turn("search")
    field = page.locator(".bd-search-container input")
    icon = page.locator(".bd-search-container .fa-magnifying-glass").bounding_box()
    padding = field.evaluate("(input) => parseFloat(getComputedStyle(input).paddingLeft)")
    assert field.bounding_box()["x"] + padding >= icon["x"] + icon["width"]
