"""The built book, page by page: it asks nobody, answers its controls, and reads without scripts."""

import gzip
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import SITE
from tests.browser.journeys import COLOUR, SIZE, assert_shown, from_page, same_move
from tests.browser.panel import Panel

ROOT = Path(__file__).resolve().parents[2]

THEME_LOGS = "log: [PST]: "  # what the theme tells the console as it works; errors are none


def pages_of(entry: dict) -> list[str]:
    """Every page that a part of the table of contents names."""
    here = [entry[key] for key in ("root", "file") if key in entry]
    inside = (part for key in ("parts", "chapters", "sections") for part in entry.get(key, ()))
    return here + [page for part in inside for page in pages_of(part)]


PAGES = pages_of(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
NOTEBOOKS = [page for page in PAGES if (ROOT / f"{page}.ipynb").is_file()]
TEXTS = [page for page in PAGES if page not in NOTEBOOKS]

every_page = pytest.mark.parametrize("name", PAGES)
every_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


@pytest.fixture
def turn(visit, book):
    """Opens a page of the book; only the theme may say something."""

    def to(name: str, scheme: str = "http", **options):
        page = visit(f"{book[scheme]}/{name}.html", **options)
        page.wait_for_load_state("networkidle")
        return page

    yield to
    visit.problems[:] = [said for said in visit.problems if not said.startswith(THEME_LOGS)]


def source(name: str) -> str:
    return (SITE / f"{name}.html").read_text(encoding="utf-8")


def elements(name: str) -> list[str]:
    return re.findall(r"<attn-widget>.*?</attn-widget>", source(name))


def in_python(element: str):
    """The live widget with the state of a page's element."""
    return from_page(**json.loads(re.search(r"<script[^>]*>(.*?)</script>", element)[1]))


# ---- What a page asks for


@every_page
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_page_asks_for_nothing_but_the_site_s_own_files(turn, visit, book, name, scheme):
    turn(name, scheme)
    assert {url for url in visit.requests if not url.startswith(book[scheme])} == set()
    asked = {unquote(urlsplit(url).path) for url in visit.requests}
    names_widgets = any(path.endswith("/attn-widgets.js") for path in asked)
    assert names_widgets == ("<attn-widget" in source(name))


@every_page
def test_a_page_names_no_other_host_s_script_style_or_font(name):
    text = source(name)
    loaded = re.findall(
        r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"(https?:)?//[^\"]*", text
    )
    assert loaded == []
    assert not re.search(r"widget-state|widget-view|html-manager|require\.js|unpkg|jsdelivr", text)


@every_notebook
def test_a_page_is_light(turn, visit, book, name):
    turn(name)
    assert sum(map(len, elements(name))) <= 250_000
    weight = 0
    for url in set(visit.requests):
        path = SITE / unquote(urlsplit(url).path).lstrip("/")
        ours = path.suffix in (".html", ".js", ".css") and "mathjax" not in path.parts
        weight += len(gzip.compress(path.read_bytes())) if ours else 0
    assert 0 < weight <= 1_000_000


def test_the_site_s_front_door_opens_the_first_page(turn):
    page = turn("index")
    assert page.url.endswith(f"/{PAGES[0]}.html")
    assert page.locator(".attn-root").count() == len(elements(PAGES[0]))


# ---- Widgets on their pages

QUIET = {  # controls whose work is seen only with another's
    COLOUR,
    SIZE,
    "by",
    "its size",
}


def nudge(panel: Panel, label: str) -> None:
    """Move a control by keyboard, to whichever side there is room."""
    at = panel.value(label)
    box = panel.control(label).get_attribute("type") == "checkbox"
    for key in ("Space",) if box else ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        panel.press(label, key)
        if panel.value(label) != at:
            return
    pytest.fail(f"{label} does not move")


@every_notebook
def test_every_control_of_a_page_moves_what_torch_says(turn, name):
    page = turn(name)
    found = elements(name)
    assert found, "a chapter without a widget"
    assert page.locator(".attn-root").count() == len(found)
    for nth, element in enumerate(found):
        panel, widget = Panel(page, nth), in_python(element)
        assert_shown(panel, widget)
        for label in panel.labels():
            if label == "Words":
                continue
            before = (panel.picture(), panel.table(), panel.el.inner_text())
            nudge(panel, label)
            same_move(widget, label, panel.value(label))
            assert_shown(panel, widget)
            changed = (panel.picture(), panel.table(), panel.el.inner_text()) != before
            assert changed or label in QUIET, label


@every_notebook
def test_every_widget_answers_from_the_file_system(turn, name):
    page = turn(name, "file")
    found = elements(name)
    assert page.locator(".attn-root").count() == len(found)
    for nth, element in enumerate(found):
        panel, widget = Panel(page, nth), in_python(element)
        label = next(label for label in panel.labels() if label not in QUIET | {"Words"})
        nudge(panel, label)
        same_move(widget, label, panel.value(label))
        assert_shown(panel, widget)


@every_notebook
def test_a_widget_is_followed_by_a_still_figure(name):
    for after in re.split(r"</attn-widget>", source(name))[1:]:
        upto = re.split(r"<attn-widget>|<h2", after)[0]
        assert "<img" in upto


# ---- How a page reads


@every_notebook
def test_a_page_reads_without_scripts(turn, name):
    page = turn(name, java_script_enabled=False)
    assert page.locator("h1").first.is_visible()
    tables = page.locator("attn-widget table")
    assert tables.count() == len(elements(name))
    for nth, element in enumerate(elements(name)):
        caption, columns, rows = in_python(element)._table()
        table = tables.nth(nth)
        assert table.is_visible()
        assert table.locator("caption").inner_text() == caption
        assert table.locator("thead th").all_inner_texts() == list(columns)
        assert table.locator("tbody tr").count() == len(rows)


@every_page
def test_a_page_fits_a_telephone(turn, name):
    page = turn(name, width=390, height=800)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    for summary in page.locator("attn-widget summary").all():
        summary.press("Enter")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


@every_notebook
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_inside_a_widget(turn, name, scheme):
    page = turn(name, color_scheme=scheme)
    for nth in range(len(elements(name))):
        Panel(page, nth).table()
    found = Axe().run(page, context="attn-widget")
    assert found.violations_count == 0, found.generate_report()


@every_notebook
def test_the_theme_s_own_switch_redraws_the_widgets(turn, name):
    page = turn(name)
    panels = [Panel(page, nth) for nth in range(len(elements(name)))]
    seen = {}
    for _ in range(3):  # auto, light, dark, in the theme's own order
        page.locator("button.theme-switch-button").first.press("Enter")
        page.wait_for_timeout(100)
        theme = page.evaluate("document.documentElement.dataset.theme")
        pictures = [panel.picture() for panel in panels]
        assert seen.setdefault(theme, pictures) == pictures
    assert set(seen) == {"light", "dark"}
    assert all(a != b for a, b in zip(seen["light"], seen["dark"], strict=True))


def test_the_search_finds_the_first_chapter(turn, visit):
    for scheme in ("http", "file"):
        page = turn("search", scheme)
        page.locator("input[type=search]").locator("visible=true").first.fill("regression")
        page.keyboard.press("Enter")
        hits = page.locator("#search-results li a")
        hits.first.wait_for()
        addresses = hits.evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
        assert any(NOTEBOOKS[1] in address for address in addresses)
