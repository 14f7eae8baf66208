"""Axe reads whole pages of the book, light and dark, on a telephone and on paper.

One page of each kind; where ATTN_NOTES_EVERY_PAGE is set, all of them.
"""

import os
import re
from urllib.request import urlopen

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import SITE, THEME_LOGS
from tests.browser.panel import settle
from tests.browser.test_pages import turn_to

EVERY = sorted(
    str(path.relative_to(SITE).with_suffix(""))
    for path in SITE.rglob("*.html")
    if path != SITE / "index.html" and "_static" not in path.parts  # these only lead on
    if path != SITE / "404.html"  # its files have the addresses of the public home
)
OF_EACH_KIND = {
    *("book/index", "book/01_kernel_regression", "book/bibliography", "book/api/attention"),
    *("search", "genindex"),
}
PAGES = [name for name in EVERY if os.environ.get("ATTN_NOTES_EVERY_PAGE") or name in OF_EACH_KIND]

# A formula's letters are pseudo-elements, which axe does not read: their room is enough for it.
# Of the words of code some of each colour are.
SPOKEN = """[...document.querySelectorAll("mjx-container")]
  .filter((one) => !one.querySelector("mjx-assistive-mml math")?.textContent.trim()).length"""
LIGHTER = """() => {
  const formulas = [...document.querySelectorAll("mjx-container")];
  const boxes = formulas.map((one) => one.getBoundingClientRect());
  formulas.forEach((one, n) => {
    one.innerHTML = "<span class='visually-hidden'>formula</span>";
    const { width, height } = boxes[n];
    one.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px`;
  });
  const seen = {};
  for (const one of document.querySelectorAll("div.highlight pre span")) {
    const around = one.closest("[class^='highlight-']")?.parentElement.className;
    const kind = `${one.className} in ${around}`;
    seen[kind] = (seen[kind] ?? 0) + 1;
    if (seen[kind] > 3) one.replaceWith(...one.childNodes);
  }
  document.body.normalize();
}"""
COLOURS = ["color-contrast", "link-in-text-block"]


def found(page: Page, *, only_colours: bool = False) -> list[str]:
    options = {"preload": False, "resultTypes": ["violations"]}
    if only_colours:
        options["runOnly"] = COLOURS
    violations = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
    return [f"{one['id']}: {node['html'][:200]}" for one in violations for node in one["nodes"]]


def assert_axe_finds_nothing(visit, book, name):
    visit.expected = (THEME_LOGS,)
    page = turn_to(visit, book, name, width=390, height=800).page
    assert page.evaluate(SPOKEN) == 0
    page.wait_for_timeout(500)  # until the theme has seen what scrolls
    page.evaluate(Axe().axe_script)
    page.evaluate(LIGHTER)
    seen = {"telephone": found(page)}
    page.set_viewport_size({"width": 1280, "height": 1000})
    settle(page)
    for theme in ("light", "dark"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        seen[theme] = found(page, only_colours=theme == "dark")
    page.emulate_media(media="print")
    seen["paper"] = found(page, only_colours=True)
    assert [f"{state}: {said}" for state, some in seen.items() for said in some] == []


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_on_a_whole_page(visit, book, name):
    assert_axe_finds_nothing(visit, book, name)


def test_a_public_site_has_a_map_and_axe_finds_nothing_on_its_page_for_an_address_that_is_gone(
    visit, public
):
    with urlopen(f"{public['http']}/sitemap.xml") as answer:
        listed = re.findall("<loc>(.*?)</loc>", answer.read().decode())
    site = "https://someone.github.io/notes/book"
    assert sorted(listed) == [f"{site}/glossary.html", f"{site}/notation.html"]
    with urlopen(f"{public['http']}/.nojekyll") as answer:  # else the host leaves out _static
        assert answer.status == 200
    assert_axe_finds_nothing(visit, public, "404")
