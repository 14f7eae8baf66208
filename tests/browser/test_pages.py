"""The built book, page by page: it asks nobody, answers its controls, and reads without scripts."""

import gzip
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from playwright.sync_api import Page

from tests.browser.conftest import PRINTED, ROOT, SITE, THEME_LOGS, SlowHandler, Visitor, served
from tests.browser.journeys import TYPED, WRITTEN, nudge
from tests.browser.panel import Panel, number, settle

# A formula as it is typed, and those of a page that are not typeset.
TEX = re.compile(r"\\\(|\\\[|\\[a-zA-Z]{2,}\{|\\(?:mathbf|infty|sum|frac)\b")
RAW = "[...document.querySelectorAll('.math')].filter((one) => !one.querySelector('mjx-container'))"
LEFT_TO_PRINT = f"{PRINTED}, {RAW}.length"  # in one task: a printer waits for no other
FOLD = "document.querySelectorAll('attn-widget details').forEach((one) => { one.open = false; })"
CELLS = "(table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
# Whatever fonts and widgets take, no formula is near: a page that opens has none to typeset.
FAR_BELOW = """const sheet = new CSSStyleSheet();
sheet.replaceSync(".math { position: relative; top: 20000px; }");
document.adoptedStyleSheets.push(sheet);"""
# The theme hides its contents beside a widget that takes the margin: the corner is seen.
UNCOVERED = """(one) => {
  const { right, top } = one.getBoundingClientRect();
  return one.contains(document.elementFromPoint(right - 12, Math.max(top, 60) + 12));
}"""
# How far what is seen moves by itself, as a part of the screen.
SHIFTS = """window.shifts = [];
new PerformanceObserver((seen) => shifts.push(...seen.getEntries().map((one) => one.value)))
  .observe({ type: "layout-shift", buffered: true });"""
TALLEST_WIDGET = 1000  # pixels, where the window is 1280 wide: with slack for other fonts


def pages_of(entry: dict) -> list[str]:
    """Every page that a part of the table of contents names."""
    here = [entry[key] for key in ("root", "file") if key in entry]
    inside = (part for key in ("parts", "chapters", "sections") for part in entry.get(key, ()))
    return here + [page for part in inside for page in pages_of(part)]


PAGES = pages_of(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
NOTEBOOKS = [page for page in PAGES if (ROOT / f"{page}.ipynb").is_file()]
# Whose first lines are long, so that another face breaks them elsewhere.
LONG_FIRST_LINES = ["book/05_multi_head", "book/08_training"]


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
        return re.findall(r"<attn-widget[^>]*>.*?</attn-widget>", self.source)

    @property
    def panels(self) -> list[Panel]:
        return [Panel(self.page, nth) for nth in range(len(self.elements))]

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
        loaded = any(re.search(rf"/attn-widgets\b.*\.{kind}$", path) for path in opened.asked)
        assert loaded == bool(opened.elements)


@every_page
def test_every_widget_of_a_page_is_mounted_and_says_what_torch_wrote_beside_it(opened):
    assert opened.page.locator(".attn-root").count() == len(opened.elements)
    for panel in opened.panels:
        by_torch = panel.el.locator(".attn-fallback table").evaluate(CELLS)
        tables = panel.el.locator(".attn-root details.attn-table:visible")
        assert tables.count()
        for nth in range(tables.count()):
            (columns, *rows), (named, *expected) = panel.table(nth), by_torch
            if columns[1:] == named[1:] and [row[0] for row in rows] == [
                row[0] for row in expected
            ]:
                cells = zip(chain(*expected), chain(*rows), strict=True)
                assert all(is_rounded(*both) for both in cells)


def is_rounded(text: str, other: str) -> bool:
    """Whether both are the same text, or the same number to the digits of the shorter."""
    digits = min(len(one.partition(".")[2]) for one in (text, other))
    return text == other or math.isclose(number(text), number(other), abs_tol=0.56 * 10**-digits)


@every_page
def test_a_page_fits_a_telephone_and_what_scrolls_sideways_shows_it_by_a_shadow(opened):
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    widths = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    covers = page.evaluate("""() => [...document.querySelectorAll("article *")]
      .filter((one) => !one.closest("attn-widget, mjx-container")
        && one.scrollWidth > one.clientWidth + 2
        && ["auto", "scroll"].includes(getComputedStyle(one).overflowX))
      .map((one) => [one.outerHTML.slice(0, 99), getComputedStyle(one).backgroundAttachment])""")
    page.set_viewport_size({"width": 900, "height": 1000})
    assert widths == [390, 390]
    shaded = "local, local, scroll, scroll"
    assert [one for one, cover in covers if not cover.startswith(shaded)] == []


@every_page
def test_no_two_folded_cells_of_a_page_stand_together(opened):
    """A cell that shows nothing shares the line of the figure or the table that it is for."""
    alone = opened.page.locator("article div.cell").evaluate_all("""(cells) => cells
      .filter((one) => one.checkVisibility()
        && [...one.children].every((part) => part.matches("details.hide")))
      .map((one) => one.nextElementSibling)
      .filter((next) => next?.matches("div.cell") && next.querySelector(":scope > details.hide"))
      .map((next) => next.textContent.slice(0, 99))""")
    assert alone == []


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_the_typefaces_are_the_site_s_own_and_light(visit, book, scheme):
    visit.expected = (THEME_LOGS,)
    page = visit(f"{book[scheme]}/{NOTEBOOKS[1]}.html")
    page.evaluate("document.fonts.ready")
    loaded = page.evaluate("""[...document.fonts].filter((one) => one.status === "loaded")
      .map((one) => one.family.replaceAll('"', ""))""")
    assert {"Source Serif 4", "Source Sans 3"} <= {*loaded}
    fonts = {path for path in map(unquote, visit.requests) if "/_static/fonts/" in path}
    files = {name.rpartition("/_static/")[2] for name in fonts}
    assert {"fonts/source-serif-4.woff2", "fonts/source-sans-3.woff2"} <= files
    assert sum((SITE / "_static" / name).stat().st_size for name in files) <= 150_000


@pytest.mark.parametrize("name", [PAGES[0], *LONG_FIRST_LINES], ids=str)
def test_nothing_moves_while_a_page_opens_on_a_slow_line(chromium, name):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(SHIFTS)
    with served(SITE, SlowHandler) as slow:
        page.goto(f"{slow}/{name}.html")
        page.evaluate("document.fonts.ready")
        settle(page)
        # Half a line of one paragraph is .01; a screen of text whose lines break anew is .1.
        assert page.evaluate("shifts.reduce((sum, one) => sum + one, 0)") <= 0.03
        context.close()


@pytest.mark.parametrize("width", [1280, 1680])
def test_where_there_is_room_the_margin_holds_captions_and_notes(visit, book, width):
    visit.expected = (THEME_LOGS,)
    page = turn_to(visit, book, NOTEBOOKS[1], width=width).page
    edge = page.locator("article p").first.bounding_box()
    edge = edge["x"] + edge["width"]
    captions = page.locator("article figcaption:visible:not(:empty)")
    assert captions.count() >= 3
    for caption in captions.all():
        words, picture = caption.bounding_box(), caption.locator("xpath=..").bounding_box()
        assert (words["x"] >= edge) == (width > 1500)
        assert width < 1500 or words["y"] < picture["y"] + picture["height"] / 2
    parts = "figcaption:visible, .sidenote:visible, .marginnote:visible, attn-widget:visible"
    boxes = [one.bounding_box() for one in page.locator("article").locator(parts).all()]
    beside = sorted((box["y"], box["y"] + box["height"]) for box in boxes if box["x"] > edge)
    assert all(above[1] <= below[0] for above, below in itertools.pairwise(beside))
    contents = page.locator(".bd-sidebar-secondary").bounding_box()
    if width > 1500:
        assert all(box["x"] + box["width"] <= contents["x"] for box in boxes)


def test_the_front_door_opens_the_first_page(visit, book):
    # The page that only redirects has no icon of its own, and a browser may ask the server for one.
    failed = "error: Failed to load resource: the server responded with a status of 404"
    visit.expected = (THEME_LOGS, f"{failed} (File not found): {book['http']}/favicon.ico")
    page = visit(f"{book['http']}/index.html", leads_on=True)
    page.wait_for_url(f"**/{PAGES[0]}.html")
    page.locator(".attn-root").first.wait_for()


def weight(paths: set[str]) -> int:
    """Bytes of these files of the site: text compressed, as a server sends it."""
    files = [path for name in paths if (path := SITE / name.lstrip("/")).is_file()]
    text = (".html", ".js", ".css", ".svg")
    return sum(
        len(gzip.compress(path.read_bytes())) if path.suffix in text else path.stat().st_size
        for path in files
    )


@pytest.fixture
def opening(visit: Visitor, book: dict[str, str]) -> Page:
    """The opening page, which has few formulas, with all of them far below what is seen."""
    visit.expected = (THEME_LOGS,)
    page = visit("about:blank")
    page.add_init_script(FAR_BELOW)
    page.goto(f"{book['http']}/{PAGES[0]}.html")
    return page


def test_the_opening_page_is_light_and_typesets_its_formulas_when_they_come_near(opening, visit):
    opening.locator("attn-widget").first.scroll_into_view_if_needed()
    opening.locator(".attn-root").first.wait_for()
    settle(opening)
    asked = {unquote(urlsplit(url).path) for url in visit.requests}
    assert not any("mathjax" in path for path in asked)
    assert 100_000 < weight(asked) <= 500_000
    assert opening.evaluate("document.fonts.check('900 16px \"Font Awesome 6 Free\"', '\\uf0c9')")
    opening.locator(".math").first.scroll_into_view_if_needed()
    opening.locator("mjx-container").first.wait_for()


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_first_screen_holds_the_ways_in_and_the_widget_s_picture(visit, book, width, height):
    visit.expected = (THEME_LOGS,)
    phone = width < 1000
    page = visit(f"{book['http']}/{PAGES[0]}.html", width=width, height=height, has_touch=phone)
    picture = page.locator(".attn-root canvas").first.bounding_box()
    whole = page.locator(".attn-root").first.bounding_box()
    ways = page.locator("article h1 ~ p a")
    assert ways.first.get_attribute("href").startswith("01_")
    assert ways.last.bounding_box()["y"] < picture["y"]
    controls = page.locator(".attn-root").first.locator(".attn-control, button").all()
    boxes = [control.bounding_box() for control in controls]
    assert all(picture["y"] < box["y"] for box in boxes)
    assert picture["y"] + picture["height"] <= height
    seen = boxes[0] if phone else whole
    assert seen["y"] + seen["height"] <= height
    cards = page.locator("#the-chapters li")
    assert cards.count() == len({path[5:7] for path in PAGES if path[5:7].isdigit()})
    assert all(svg.is_visible() for svg in cards.locator("svg").all())


# Chapters


@every_chapter
def test_every_part_of_a_drawing_leads_somewhere(opened):
    drawings = re.findall(r'<svg[^>]*class="attn-drawing.*?</svg>', opened.source, re.DOTALL)
    for place in re.findall(r'href="([^"]*)"', "".join(drawings)):
        page, _, name = place.partition("#")
        path = (SITE / f"{opened.name}.html").parent / (page or f"{Path(opened.name).name}.html")
        assert (f'id="{name}"' if name else "<h1") in path.read_text(encoding="utf-8"), place


@every_chapter
def test_a_page_of_a_chapter_is_numbered_as_its_file_is(opened):
    number = re.findall(r"/0?(\d+[a-z]?)_", opened.name)
    shown = opened.page.locator("h1 .section-number").all_inner_texts()
    assert [text.rstrip(". ") for text in shown] == number


@every_chapter
def test_a_chapter_holds_a_widget_and_each_is_followed_by_a_still_figure(opened):
    if re.search(r"/\d\d[a-z]_", opened.name):
        pytest.skip("a page in depth, which needs no widget; its tables stand in for one in print")
    assert opened.elements
    for after in opened.source.split("</attn-widget>")[1:]:
        before = re.split(r"<attn-widget[^>]*>|<h2", after)[0]
        assert "<img" in before or 'class="attn-still"' in before


@every_chapter
def test_a_chapter_read_to_its_end_weighs_a_megabyte_at_most(opened):
    assert sum(map(len, opened.elements)) <= 350_000
    shown = "[...document.querySelectorAll('article img')].filter((one) => one.checkVisibility())"
    opened.page.evaluate(f"{shown}.forEach((image) => {{ image.loading = 'eager'; }})")
    opened.page.wait_for_function(f"{shown}.every((image) => image.complete)")
    assert 250_000 < weight(opened.asked) <= 1_000_000


@every_chapter
def test_a_widget_fits_a_window_and_nothing_covers_it(opened):
    page = opened.page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate(FOLD)
    settle(page)
    heights = "[...document.querySelectorAll('attn-widget')].map((one) => one.offsetHeight)"
    assert all(100 < height <= TALLEST_WIDGET for height in page.evaluate(heights))
    for panel in opened.panels:
        panel.el.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
        page.wait_for_function(UNCOVERED, arg=panel.el.element_handle())
    page.set_viewport_size({"width": 900, "height": 1000})


@every_chapter
def test_the_theme_s_own_switch_redraws_the_widgets_and_the_figures(opened):
    page, seen, inks = opened.page, {}, {}
    letters = page.locator("div.cell:not(.tag_print-only) svg.attn-still text")
    for _ in range(3):  # auto, light, dark, in the theme's own order
        page.locator("button.theme-switch-button").first.press("Enter")
        settle(page)
        theme = page.evaluate("document.documentElement.dataset.theme")
        pictures = [panel.picture() for panel in opened.panels]
        assert seen.setdefault(theme, pictures) == pictures
        inks[theme] = letters.evaluate_all("(all) => all.map((one) => getComputedStyle(one).fill)")
    assert set(seen) == {"light", "dark"}
    assert all(day != night for day, night in zip(*seen.values(), strict=True))
    day, night = inks.values()  # the numbers in a heatmap's cells stay as they are
    assert not day or day != night


@every_chapter
def test_a_control_of_every_widget_of_a_chapter_moves_what_is_shown(opened):
    """Which amounts it moves is proved on bare pages, by the same code."""
    for panel in opened.panels:
        before = panel.picture(), panel.el.evaluate(WRITTEN)
        if panel.el.get_attribute("data-widget") == "mask":
            panel.press_button("invert")  # a mask that leaves one key shows nothing of the others
            assert (panel.picture(), panel.el.evaluate(WRITTEN)) != before
        else:
            assert any(
                nudge(panel, label) and (panel.picture(), panel.el.evaluate(WRITTEN)) != before
                for label in panel.labels()
                if label not in TYPED
            )


def test_a_formula_is_typeset_when_it_comes_near_and_can_be_heard(turn):
    page = turn(NOTEBOOKS[1], width=390)
    last = page.locator("article div.math").locator("visible=true").last
    page.wait_for_function("Boolean(window.MathJax?.typeset)")
    assert last.inner_text().strip().endswith("\\]")
    last.scroll_into_view_if_needed()
    last.locator("mjx-assistive-mml math").wait_for(state="attached")
    assert last.locator("[style*='--ems']").count() == 0
    assert page.evaluate(f"{RAW}.length") > 25  # those above have been passed by


@pytest.mark.parametrize(("nth", "width"), [(1, 390), (7, 1280)])
def test_a_link_to_a_section_lands_on_its_heading_and_stays_there(visit, book, nth, width):
    visit.expected = (THEME_LOGS,)
    source = (SITE / f"{NOTEBOOKS[nth]}.html").read_text(encoding="utf-8")
    places = re.findall(r'<section id="([^"]+)">\s*<h2', source)
    equations = re.findall(r'<div class="math[^>]* id="([^"]+)"', source)
    for place in (places[len(places) // 2], equations[-1]):
        there = visit(f"{book['http']}/{NOTEBOOKS[nth]}.html#{place}", width=width)
        there.wait_for_function(f"""() => window.MathJax?.typeset && {RAW}.every((one) => {{
          const {{ top, bottom }} = one.getBoundingClientRect();
          return !one.checkVisibility() || bottom < 0 || top > innerHeight;
        }})""")
        settle(there)
        top = there.evaluate(
            "(id) => document.getElementById(id).getBoundingClientRect().top", place
        )
        assert -5 <= top <= 250, place


def test_the_opening_page_is_printed_typeset_before_its_formulas_come_near(opening):
    assert opening.evaluate(f"!MathJax.typeset && {RAW}.length") > 5
    opening.mouse.move(200, 200)  # on the way to the browser's menu
    opening.wait_for_function("Boolean(window.MathJax?.typeset)")
    assert opening.evaluate(LEFT_TO_PRINT) == 0


def test_what_scrolls_can_be_reached_by_keyboard_once_it_is_unfolded(visit, book):
    visit.expected = (THEME_LOGS,)
    page = turn_to(visit, book, NOTEBOOKS[1], width=390).page
    page.locator("article pre[tabindex='0']").first.wait_for(state="attached")
    folds = page.locator("article details:not(attn-widget *)")
    folds.evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    page.wait_for_function("""() => {
      const wide = (one) => one.scrollWidth > one.clientWidth;
      const all = [...document.querySelectorAll("article details pre")];
      return all.some(wide) && all.every((one) => wide(one) === (one.tabIndex === 0));
    }""")


def test_the_opening_page_prints_without_any_deed_and_no_formula_twice(opening):
    opening.emulate_media(media="print")
    seen = "(all) => all.filter((one) => one.checkVisibility()).length"
    typed, instead = opening.locator("span.math"), opening.locator("span.math + math")
    assert typed.evaluate_all(seen) == 0
    assert instead.evaluate_all(seen) == typed.count() > 5
    assert not TEX.search(opening.locator("article").inner_text())
    opening.pdf()
    opening.wait_for_function(f"{RAW}.length === 0")  # a page that is printed asks for MathJax
    assert typed.evaluate_all(seen) == typed.count()
    assert instead.evaluate_all(seen) == 0


def test_the_keys_that_print_wait_for_the_formulas(opening):
    opening.evaluate(f"void (window.print = () => {{ window.leftRaw = {RAW}.length; }})")
    assert opening.evaluate(f"{RAW}.length") > 5
    # One event: after Control, which comes first, MathJax may be there before the letter, and the
    # browser prints by itself.
    opening.evaluate("""document.body.dispatchEvent(new KeyboardEvent("keydown",
      { key: "p", ctrlKey: true, bubbles: true, cancelable: true }))""")
    opening.wait_for_function("window.leftRaw !== undefined", timeout=60_000)  # all are typeset
    assert opening.evaluate("leftRaw") == 0
    assert opening.evaluate("[...document.fonts].every((font) => font.status !== 'loading')")


def test_a_chapter_reads_without_scripts(turn):
    page = turn(NOTEBOOKS[-1], java_script_enabled=False)
    assert page.locator("article h1").first.is_visible()
    widgets = page.locator("attn-widget").all()
    assert widgets
    for widget in widgets:
        header, *rows = widget.locator("table").locator("visible=true").evaluate(CELLS)
        assert widget.locator("caption").inner_text()
        assert {len(row) for row in rows} == {len(header)}
