"""Axe reads every whole page of the book, light and dark, on a telephone and on paper."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import SITE
from tests.browser.panel import settle
from tests.browser.test_pages import THEME_LOGS, turn_to

# What axe finds and is not ours to mend: the rule, and its cause.
KNOWN: dict[str, str] = {}

NAMES = sorted(
    str(path.relative_to(SITE).with_suffix(""))
    for path in SITE.rglob("*.html")
    if path != SITE / "index.html"  # which only leads to the opening page
)
FIND = """async () => {
  const { violations } = await axe.run(document, {
    preload: false, resultTypes: ["violations"], elementRef: false,
  });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, html }) => (
    [id, String(target), html.slice(0, 200)])));
}"""
# Each holds thousands of elements of which axe asks the same: a few of a kind are enough.
LIGHTER = """() => {
  document.querySelectorAll("mjx-container").forEach((one, n) => { if (n > 5) one.remove(); });
  document.querySelectorAll("article div.highlight").forEach((one, n) => {
    if (n > 5) one.querySelectorAll("pre > span").forEach((span) => {
      span.replaceWith(span.textContent);
    });
  });
}"""


def found(page: Page) -> list[list[str]]:
    return [one for one in page.evaluate(FIND) if one[0] not in KNOWN]


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_on_a_whole_page(visit, book, name):
    visit.expected = (THEME_LOGS,)
    page = turn_to(visit, book, name, width=1280).page
    settle(page)
    page.evaluate(Axe().axe_script)
    seen = {}
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(500)  # until the theme has seen what now scrolls
    page.evaluate(LIGHTER)
    seen["telephone"] = found(page)
    page.set_viewport_size({"width": 1280, "height": 1000})
    for theme in ("light", "dark"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        seen[theme] = found(page)
    page.emulate_media(media="print")
    seen["paper"] = found(page)
    assert {state: some for state, some in seen.items() if some} == {}
