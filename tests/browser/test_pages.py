"""The built book, page by page: it asks nobody, answers its controls, and reads without scripts."""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import pypdf
import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from attn_notes.widgets.base import BookWidget
from attn_notes.widgets.packing import checksum
from tests.browser.conftest import PRINTED, SITE, Visitor
from tests.browser.journeys import QUIET_IN_A_CHAPTER, TYPED, assert_moves, assert_shown, from_page
from tests.browser.panel import Panel, settle
from tests.test_repository import figures_brighter

ROOT = Path(__file__).resolve().parents[2]
THEME_LOGS = "log: [PST]: "  # what the theme tells the console as it works; errors are none
# For an excerpt Sphinx reads the pages it found, which a browser forbids on the disk.
NO_EXCERPTS = (
    "error: Access to fetch at 'file:",
    "error: Fetch API cannot load file:",
    "error: Failed to load resource: net::ERR_FAILED",
    "Failed to fetch",
)
# A formula as it is typed, and those of a page that are not typeset.
TEX = re.compile(r"\\\(|\\\[|\\[a-zA-Z]{2,}\{|\\(?:mathbf|infty|sum|frac)\b")
RAW = "[...document.querySelectorAll('.math')].filter((one) => !one.querySelector('mjx-container'))"
LEFT_TO_PRINT = f"{PRINTED}, {RAW}.length"  # in one task: a printer waits for no other
# The theme hides its contents beside a widget that takes the margin: the corner is seen.
UNCOVERED = """(one) => {
  const { right, top } = one.getBoundingClientRect();
  return one.contains(document.elementFromPoint(right - 12, Math.max(top, 60) + 12));
}"""
TALLEST_PAGE, TALLEST_WIDGET = 33_000, 940  # pixels, where the window is 1280 wide


def pages_of(entry: dict) -> list[str]:
    """Every page that a part of the table of contents names."""
    here = [entry[key] for key in ("root", "file") if key in entry]
    inside = (part for key in ("parts", "chapters", "sections") for part in entry.get(key, ()))
    return here + [page for part in inside for page in pages_of(part)]


PAGES = pages_of(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
NOTEBOOKS = [page for page in PAGES if (ROOT / f"{page}.ipynb").is_file()]


@dataclass
class Turned:
    """A page of the book, open in the browser."""

    name: str
    scheme: str
    page: Page
    visitor: Visitor

    @property
    def source(self) -> str:
        return (SITE / f"{self.name}.html").read_text(encoding="utf-8")

    @property
    def elements(self) -> list[str]:
        return re.findall(r"<attn-widget>.*?</attn-widget>", self.source)

    @property
    def panels(self) -> list[tuple[Panel, BookWidget]]:
        """Each widget on the page, and the same in Python with the state that the page holds."""
        found = (re.search(r"<script[^>]*>(.*?)</script>", element)[1] for element in self.elements)
        described = [json.loads(state) for state in found]
        models = [one["state"].get("data", {}).get("model", {}) for one in described]
        whole = {checksum(model): model for model in models if "bytes" in model}
        for one, model in zip(described, models, strict=True):
            if "same" in model:  # another element of the page holds it
                one["state"]["data"]["model"] = whole[model["same"]]
        widgets = [from_page(**one) for one in described]
        return [(Panel(self.page, nth), widget) for nth, widget in enumerate(widgets)]

    @property
    def asked(self) -> set[str]:
        paths = (unquote(urlsplit(url).path) for url in self.visitor.requests)
        return {path.removeprefix(str(SITE)) for path in paths}


def turn_to(visitor: Visitor, book, name: str, scheme: str = "http", **options) -> Turned:
    page = visitor(f"{book[scheme]}/{name}.html", **options)
    if options.get("java_script_enabled", True):
        page.evaluate(PRINTED)
        page.wait_for_function(f"{RAW}.length === 0")
    return Turned(name, scheme, page, visitor)


def assert_only_the_theme_spoke(visitor: Visitor) -> None:
    assert [said for said in visitor.problems if not said.startswith(THEME_LOGS)] == []


class Reader:
    """Has one page of the book open at a time, and keeps it while it is asked for."""

    def __init__(self, chromium, book) -> None:
        self.chromium, self.book = chromium, book
        self.opened: Turned | None = None

    def turn_to(self, name: str, scheme: str) -> Turned:
        if not self.opened or (self.opened.name, self.opened.scheme) != (name, scheme):
            self.close()
            self.opened = turn_to(Visitor(self.chromium), self.book, name, scheme)
        return self.opened

    def close(self) -> None:
        left, self.opened = self.opened, None
        if left:
            left.visitor.close()
            assert_only_the_theme_spoke(left.visitor)  # while it was left


def together(name: str, scheme: str) -> object:
    """A page, and where it comes from: in parallel too, its tests share the one that is open."""
    both = f"{name}-{scheme}"
    return pytest.param((name, scheme), marks=pytest.mark.xdist_group(both), id=both)


# Chapters from the disk, where a browser allows less; the other pages, and two of them, served.
ON_DISK = [together(name, "file") for name in NOTEBOOKS]
SERVED = [together(name, "http") for name in PAGES if name not in NOTEBOOKS[2:]]


def opened_on(*pages: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opened", pages, indirect=True)


every_page = opened_on(*SERVED, *ON_DISK)
every_chapter = opened_on(*ON_DISK)


@pytest.fixture(scope="session")
def reader(chromium, book) -> Iterator[Reader]:
    reader = Reader(chromium, book)
    yield reader
    reader.close()


@pytest.fixture
def opened(request, reader) -> Iterator[Turned]:
    """The page of `opened_on`, as the test before has left it: those that only look come first."""
    opened = reader.turn_to(*request.param)
    yield opened
    assert_only_the_theme_spoke(opened.visitor)


# Every page


@every_page
def test_a_page_asks_for_the_site_s_own_files_and_the_widgets_where_it_holds_one(opened, book):
    home, text = book[opened.scheme], opened.source
    assert {url for url in opened.visitor.requests if not url.startswith(home)} == set()
    assert not re.search(r"<(script|link|img|iframe)\b[^>]*(src|href)=\"(https?:)?//", text)
    assert not re.search(r"widget-state|widget-view|html-manager|require\.js|unpkg|jsdelivr", text)
    for kind in ("js", "css"):
        loaded = any(path.endswith(f"/attn-widgets.{kind}") for path in opened.asked)
        assert loaded == bool(opened.elements)


@every_page
def test_every_widget_of_a_page_is_mounted_and_shows_what_torch_says(opened):
    assert opened.page.locator(".attn-root").count() == len(opened.elements)
    for panel, widget in opened.panels:
        assert_shown(panel, widget)


@every_page
def test_a_page_fits_a_telephone(opened):
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    widths = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    page.set_viewport_size({"width": 900, "height": 1000})
    assert widths == [390, 390]


@every_chapter
def test_every_part_of_a_drawing_leads_somewhere(opened):
    places = opened.page.locator("svg.attn-drawing a[href]").evaluate_all(
        "(all) => all.map((a) => a.getAttribute('href'))"
    )
    for place in places:
        page, _, name = place.partition("#")
        path = (SITE / f"{opened.name}.html").parent / (page or f"{Path(opened.name).name}.html")
        assert (f'id="{name}"' if name else "<h1") in path.read_text(encoding="utf-8"), place


def test_the_front_door_opens_the_first_page(visit, book):
    # The page that only redirects has no icon of its own, and a browser may ask the server for one.
    failed = "error: Failed to load resource: the server responded with a status of 404"
    visit.expected = (THEME_LOGS, f"{failed} (File not found): {book['http']}/favicon.ico")
    page = visit(f"{book['http']}/index.html", leads_on=True)
    page.wait_for_url(f"**/{PAGES[0]}.html")
    page.locator(".attn-root").first.wait_for()


def test_a_public_site_tells_its_host_to_leave_out_no_file(public):
    with urlopen(f"{public['http']}/.nojekyll") as answer:
        assert answer.status == 200


def test_a_figure_is_brighter_on_the_dark_page_and_as_it_is_on_the_light_one(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{NOTEBOOKS[1]}.html")
    seen = {}
    for theme in ("light", "dark"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        shown = page.locator("div.cell:not(.tag_print-only) figure img").first
        seen[theme] = shown.evaluate("(image) => getComputedStyle(image).filter")
    assert seen == {"light": "none", "dark": f"brightness({figures_brighter()})"}


def weight(paths: set[str]) -> int:
    """Bytes of these files of the site: text compressed, as a server sends it."""
    files = [path for name in paths if (path := SITE / name.lstrip("/")).is_file()]
    text = (".html", ".js", ".css", ".svg")
    return sum(
        len(gzip.compress(path.read_bytes())) if path.suffix in text else path.stat().st_size
        for path in files
    )


def test_the_opening_page_is_light_and_typesets_its_formulas_when_they_come_near(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{PAGES[0]}.html")
    page.locator(".attn-root").first.wait_for()
    settle(page)
    asked = {unquote(urlsplit(url).path) for url in visit.requests}
    assert not any("mathjax" in path for path in asked)
    assert 100_000 < weight(asked) <= 500_000
    assert page.evaluate("document.fonts.check('900 16px \"Font Awesome 6 Free\"', '\\uf0c9')")
    page.locator(".math").first.scroll_into_view_if_needed()
    page.locator("mjx-container").first.wait_for()


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_the_search_finds_the_first_chapter(visit, book, scheme):
    visit.expected = (THEME_LOGS,) if scheme == "http" else (THEME_LOGS, *NO_EXCERPTS)
    page = visit(f"{book[scheme]}/search.html")
    page.locator("input[type=search]").locator("visible=true").first.fill("regression")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li a")
    found.first.wait_for()
    addresses = found.evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert any(NOTEBOOKS[1] in address for address in addresses)


# Chapters


@every_chapter
def test_a_chapter_holds_a_widget_and_each_is_followed_by_a_still_figure(opened):
    assert opened.elements
    for after in opened.source.split("</attn-widget>")[1:]:
        assert "<img" in re.split(r"<attn-widget>|<h2", after)[0]


@every_chapter
def test_a_chapter_says_what_a_band_is_below_the_first_that_it_prints(opened):
    before, *after = opened.source.split('<p class="attn-band">')
    outputs = re.findall(r'<div class="output stream.*?</pre>', before, re.DOTALL)
    assert sum("±" in output for output in outputs) == len(after) <= 1


@every_chapter
def test_a_chapter_is_light(opened):
    assert sum(map(len, opened.elements)) <= 250_000
    files = [SITE / path.lstrip("/") for path in opened.asked]
    ours = [path for path in files if path.suffix in (".html", ".js", ".css")]
    own = [path for path in ours if "mathjax" not in path.parts]
    assert 10 < len(own) < 50
    assert sum(len(gzip.compress(path.read_bytes())) for path in own) <= 1_000_000


@every_chapter
def test_a_chapter_read_to_its_end_weighs_a_megabyte_at_most(opened):
    shown = "[...document.querySelectorAll('article img')].filter((one) => one.checkVisibility())"
    opened.page.evaluate(f"{shown}.forEach((image) => {{ image.loading = 'eager'; }})")
    opened.page.wait_for_function(f"{shown}.every((image) => image.complete)")
    assert 250_000 < weight(opened.asked) <= 1_000_000


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_page_and_its_widgets_are_no_taller_than_they_may_be_and_uncovered(visit, book, name):
    visit.expected = (THEME_LOGS,)
    page = turn_to(visit, book, name, "file", width=1280, height=900).page
    settle(page)
    heights = "[...document.querySelectorAll('attn-widget')].map((one) => one.offsetHeight)"
    assert 100 < max(page.evaluate(heights)) <= TALLEST_WIDGET
    assert 1_000 < page.evaluate("document.documentElement.scrollHeight") <= TALLEST_PAGE
    for widget in page.locator("attn-widget").all():
        widget.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
        page.wait_for_function(UNCOVERED, arg=widget.element_handle())


@every_chapter
def test_what_scrolls_sideways_on_a_telephone_shows_it_by_a_shadow(opened):
    opened.page.set_viewport_size({"width": 390, "height": 800})
    settle(opened.page)
    found = opened.page.evaluate("""() => [...document.querySelectorAll("article *")]
      .filter((one) => !one.closest("attn-widget, mjx-container")
        && one.scrollWidth > one.clientWidth + 2
        && ["auto", "scroll"].includes(getComputedStyle(one).overflowX))
      .map((one) => [one.outerHTML.slice(0, 99), getComputedStyle(one).backgroundAttachment])""")
    opened.page.set_viewport_size({"width": 900, "height": 1000})
    shaded = "local, local, scroll, scroll"
    assert [one for one, cover in found if not cover.startswith(shaded)] == []


@every_chapter
def test_the_theme_s_own_switch_redraws_the_widgets(opened):
    seen = {}
    for _ in range(3):  # auto, light, dark, in the theme's own order
        opened.page.locator("button.theme-switch-button").first.press("Enter")
        settle(opened.page)
        theme = opened.page.evaluate("document.documentElement.dataset.theme")
        pictures = [panel.picture() for panel, _ in opened.panels]
        assert seen.setdefault(theme, pictures) == pictures
    assert set(seen) == {"light", "dark"}
    assert all(day != night for day, night in zip(*seen.values(), strict=True))


@every_chapter
def test_every_control_of_a_chapter_moves_what_torch_says(opened):
    for panel, widget in opened.panels:
        labels = set(panel.labels()) - TYPED
        moved = assert_moves(panel, widget)
        assert labels & set(panel.labels()) <= {*moved}
        unseen = {label for label, is_seen in moved.items() if not is_seen}
        assert unseen <= QUIET_IN_A_CHAPTER.get(widget._widget, set())


@every_chapter
def test_axe_finds_nothing_inside_a_widget_of_the_dark_page(opened):
    opened.page.evaluate("document.documentElement.dataset.theme = 'dark'")
    # As they are met, folded: the bare pages show them to axe unfolded, by day and by night.
    fold = (
        "document.querySelectorAll('attn-widget details').forEach((one) => { one.open = false; })"
    )
    opened.page.evaluate(fold)
    # Axe asks of every element of the page what it covers: of formulas' thousands too.
    aside = (
        "document.querySelectorAll('mjx-container, div.highlight').forEach((one) => one.remove())"
    )
    opened.page.evaluate(aside)
    # Without the style sheets that axe would read for itself, and look for in the wrong folder.
    options = {"preload": False, "resultTypes": ["violations"]}
    found = Axe().run(opened.page, context="attn-widget", options=options)
    assert found.violations_count == 0, found.generate_report()


def test_a_formula_is_typeset_when_it_comes_near_and_can_be_heard(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{NOTEBOOKS[1]}.html", width=390)
    last = page.locator("article div.math").locator("visible=true").last
    page.wait_for_function("Boolean(window.MathJax?.typeset)")
    assert last.inner_text().strip().endswith("\\]")
    last.scroll_into_view_if_needed()
    last.locator("mjx-assistive-mml math").wait_for(state="attached")
    assert last.locator("[style*='--ems']").count() == 0
    assert page.evaluate(f"{RAW}.length") > 50  # those above have been passed by


@pytest.mark.parametrize("name", [NOTEBOOKS[1], NOTEBOOKS[7]])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_link_to_a_section_lands_on_its_heading_and_stays_there(visit, book, name, width):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{name}.html", width=width)
    places = page.locator("article section[id] > h2").evaluate_all(
        "(all) => all.map((one) => one.parentElement.id)"
    )
    equation = page.locator("article div.math[id]").last.get_attribute("id")
    for place in (places[len(places) // 2], equation):
        there = visit(f"{book['http']}/{name}.html#{place}", width=width)
        there.wait_for_function(f"""() => window.MathJax?.typeset && {RAW}.every((one) => {{
          const {{ top, bottom }} = one.getBoundingClientRect();
          return !one.checkVisibility() || bottom < 0 || top > innerHeight;
        }})""")
        settle(there)
        top = there.evaluate(
            "(id) => document.getElementById(id).getBoundingClientRect().top", place
        )
        assert -5 <= top <= 250, place


def test_what_is_printed_has_no_formula_as_it_was_typed(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{NOTEBOOKS[7]}.html")
    page.wait_for_function("Boolean(window.MathJax?.typeset)")
    assert page.evaluate(f"{RAW}.length") > 50
    assert page.evaluate(LEFT_TO_PRINT) == 0
    page.pdf()
    assert page.locator(".attn-root").count() == page.locator("attn-widget").count()


def test_the_opening_page_is_printed_typeset_before_its_formulas_come_near(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{PAGES[0]}.html")
    assert page.evaluate(f"!MathJax.typeset && {RAW}.length") > 5
    page.mouse.move(200, 200)  # on the way to the browser's menu
    page.wait_for_function("Boolean(window.MathJax?.typeset)")
    assert page.evaluate(LEFT_TO_PRINT) == 0


def test_what_scrolls_can_be_reached_by_keyboard_once_it_is_unfolded(visit, book):
    visit.expected = (THEME_LOGS,)
    page = turn_to(visit, book, NOTEBOOKS[1], width=390).page
    page.locator("article pre[tabindex='0']").first.wait_for(state="attached")
    page.wait_for_timeout(500)  # until the theme has measured what else has come
    folded = "article details:not([open]) pre"
    assert page.locator(f"{folded}[tabindex='0']").count() == 0  # not laid out for this alone
    folds = page.locator("article details:not(attn-widget *)")
    folds.evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    page.wait_for_function("""() => {
      const wide = (one) => one.scrollWidth > one.clientWidth;
      const all = [...document.querySelectorAll("article details pre")];
      return all.some(wide) && all.every((one) => wide(one) === (one.tabIndex === 0));
    }""")


def test_the_opening_page_prints_without_any_deed_and_no_formula_twice(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{PAGES[0]}.html")
    page.emulate_media(media="print")
    seen = "(all) => all.filter((one) => one.checkVisibility()).length"
    typed, instead = page.locator("span.math"), page.locator("span.math + math")
    assert typed.evaluate_all(seen) == 0
    assert instead.evaluate_all(seen) == typed.count() > 5
    sheets = pypdf.PdfReader(BytesIO(page.pdf())).pages
    assert not TEX.search("".join(sheet.extract_text() for sheet in sheets))
    page.wait_for_function(f"{RAW}.length === 0")  # a page that is printed asks for MathJax
    assert typed.evaluate_all(seen) == typed.count()
    assert instead.evaluate_all(seen) == 0


def test_the_keys_that_print_wait_for_the_formulas(visit, book):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book['http']}/{PAGES[0]}.html")
    page.evaluate(f"void (window.print = () => {{ window.leftRaw = {RAW}.length; }})")
    assert page.evaluate(f"{RAW}.length") > 5
    page.keyboard.press("Control+p")
    page.wait_for_function("window.leftRaw !== undefined")
    assert page.evaluate("leftRaw") == 0
    assert page.evaluate("[...document.fonts].every((font) => font.status !== 'loading')")


def test_a_chapter_reads_without_scripts(chromium, book):
    visitor = Visitor(chromium)
    chapter = turn_to(visitor, book, NOTEBOOKS[-1], java_script_enabled=False)
    assert chapter.page.locator("article h1").first.is_visible()
    tables = chapter.page.locator("attn-widget table")
    assert tables.count() == len(chapter.elements)
    for nth, (_, widget) in enumerate(chapter.panels):
        caption, columns, rows = widget._table()
        table = tables.nth(nth)
        assert table.is_visible()
        assert table.locator("caption").inner_text() == caption
        assert table.locator("thead th").all_inner_texts() == list(columns)
        assert table.locator("tbody tr").count() == len(rows)
    visitor.close()
    assert_only_the_theme_spoke(visitor)
