"""Every widget on a bare page under a strict policy: reached, moved, read, and never run."""

import itertools
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from attn_widgets.encoding import encode_mask
from attn_widgets.mask import PRESETS, SIZED
from tests.browser import journeys
from tests.browser.conftest import PRINTED
from tests.browser.journeys import COLOUR, CONTROLS, OVERVIEW, SIZE, assert_shown
from tests.browser.panel import Panel, number, settle, stop_time
from tests.colours import DARK, LIGHT
from tests.widgets import EVERY, NAMED_MASKS, TOKENISED, WORDS, of_mask, of_points

# Pages of widgets with the fewest and the most that they take, and the control that chooses a kind.
SMALL_AND_LARGE = {
    **dict.fromkeys(("positions-small", "positions-large"), "Scheme"),
    **dict.fromkeys(("family-short", "family-long"), "Family"),
}
WITHOUT_MAP = ("arrows", "memory", "budget")
every_widget = pytest.mark.parametrize("name", EVERY)


# Controls


def test_every_widget_answers_under_a_strict_policy_from_the_disk(visit, bare):
    page = visit(bare("all", "file"))
    assert page.locator(".attn-root").count() == len(EVERY)
    assert page.locator(".attn-fallback").count() == len(EVERY)
    assert not page.locator(".attn-fallback").first.is_visible()
    assert {url.rpartition("/")[2] for url in visit.requests} <= {
        *("all.html", "page.css", "widgets.css", "widgets.js"),
    }


@every_widget
def test_all_folds_can_be_opened_at_once(visit, bare, name):
    panel = Panel(visit(bare(name)))
    panel.unfold()
    every = "(el) => el.querySelectorAll('details').forEach((one) => { one.open = true; })"
    panel.el.evaluate(every)
    settle(panel.page)
    filled = panel.el.locator("table:visible").first.locator("tbody tr")
    assert filled.count()  # and the console has been silent, which the fixture asserts


@every_widget
def test_every_control_moves_what_it_should_by_the_amount_that_torch_says(visit, bare, name):
    panel, widget = Panel(visit(bare(name))), EVERY[name]()
    assert_shown(panel, widget)
    assert set(panel.labels()) == set(CONTROLS[name]), "CONTROLS in journeys.py lists them"
    changed = set()
    # The three attentions of a model have tokens of their own: there is no pattern for all. And
    # neither the first nor the last scheme of positions has all the controls.
    first = journeys.ONWARD if name in ("model", "positions") else ("End", "Home")
    for keys in (first, ("Home", "End")):
        moved = journeys.assert_moves(panel, widget, keys)
        changed |= {label for label, is_seen in moved.items() if is_seen}
    idle = set(CONTROLS[name]) - journeys.TYPED - changed - journeys.QUIET.get(name, set())
    assert not idle, f"attn_widgets/static: {idle} change nothing that is seen"


@every_widget
def test_every_control_is_reached_by_keyboard_and_says_where_it_stands(visit, bare, name):
    panel = Panel(visit(bare(name)))
    panel.unfold()
    assert_in_the_order_of_the_tab_key(panel)
    for label in panel.labels():
        control = panel.control(label)
        if control.get_attribute("type") != "range" or control.is_disabled():
            continue
        said = []
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"):
            panel.press(label, key)
            said.append(panel.output(label))
            assert control.get_attribute("aria-valuetext") == said[-1]
        assert len(set(said[:3])) == 3, label
        assert said[3:] == said[1::-1], label
        assert all(re.fullmatch(r"\u2212?\d+(\.\d+)?( of \d+)?", text) for text in said)


def assert_in_the_order_of_the_tab_key(panel: Panel) -> None:
    reached = (
        "input, select, textarea, button:not([tabindex='-1']), canvas[tabindex], .attn-page, "
        ".attn-ranking, summary"
    )
    stops = [
        stop
        for stop in panel.el.locator(reached).element_handles()
        if stop.is_visible() and not stop.evaluate("(one) => Boolean(one.disabled)")
    ]
    focused = "document.activeElement"
    for stop in stops:
        panel.page.keyboard.press("Tab")
        assert stop.evaluate(f"(stop) => stop === {focused}")
        assert stop.evaluate("(stop) => getComputedStyle(stop).outlineStyle") == "solid"
        assert stop.get_attribute("data-lm-suppress-shortcuts") == "true"
    panel.page.keyboard.press("Tab")
    assert panel.page.evaluate(f"!{focused}.closest('attn-widget')")


def test_the_buttons_of_the_painter_paint_the_package_s_masks(visit, bare):
    panel, widget = Panel(visit(bare("mask"))), of_mask()
    assert panel.control(SIZE).is_disabled()
    panel.press_button("window")
    panel.press(SIZE, "ArrowRight")  # and the window that is painted with it
    assert panel.value(SIZE) == 3
    assert_shown(panel, widget, painted=encode_mask(NAMED_MASKS["window"](5, 5, 3)))
    for name in (*NAMED_MASKS, "invert"):
        painted = NAMED_MASKS[name](5, 5, 3) if name in NAMED_MASKS else ~widget.attn_mask
        panel.press_button(name)
        assert_shown(panel, widget, painted=encode_mask(painted))
        assert panel.control(SIZE).is_enabled() == (name in SIZED)
    panel.press_button("none")
    before = panel.picture()
    panel.press(COLOUR, "Space")
    assert panel.picture() != before


def test_a_second_mask_has_a_size_and_a_way_only_where_these_change_something(visit, bare):
    panel, widget = Panel(visit(bare("mask"))), of_mask()
    for at, name in enumerate(PRESETS):
        panel.control("Combine with").select_option(index=at)
        assert ("its size" in panel.labels()) == (name in SIZED)
        assert ("by" in panel.labels()) == (name != "none")
        for label in {"its size", "by"} & {*panel.labels()}:
            assert journeys.nudge(panel, label)
            journeys.same_move(widget, label, panel.value(label))
        assert_shown(panel, widget, second=name)


def test_the_painter_names_empty_rows_and_sources(visit, bare):
    panel = Panel(visit(bare("mask")))
    empties, sources = (panel.el.locator(f".attn-{name}") for name in ("empties", "sources"))
    assert empties.inner_text() == "No row is empty."
    panel.press_button("invert")
    empty = "Empty rows: \u201c\u2068arrow\u2069\u201d. Their weights are 0"
    assert empties.inner_text().startswith(empty)
    panel.map(1).press("PageDown")
    assert "is made of: nothing, so it is 0." in sources.inner_text()
    panel.map(1).press("PageUp")
    found = re.findall(r"\u2068(\w+)\u2069\u201d (\d\.\d\d)", sources.inner_text())
    table = dict(zip(WORDS, panel.table()[1][1:], strict=True))
    assert found
    for token, weight in found:
        assert float(weight) == pytest.approx(float(table[token]), abs=0.0056)
    assert sorted(found, key=lambda pair: -float(pair[1])) == found


# Cells


def weight_rows(panel: Panel, name: str) -> list[list[str]]:
    """The table's cells that are weights: a row for each query."""
    rows = [row[1:] for row in panel.table(int(name == "family"))[1:]]
    if name == "online":  # a row for each key too: its weight so far, and in the end
        return [[row[n] for row in rows] for n in (2, 3)]
    return rows


def says(cell: str, row: int, column: int, name: str = "") -> re.Pattern:
    if name == "positions":
        return re.compile(rf"position {row}, dimension {column}: {re.escape(cell)}")
    if name == "follow":
        return re.compile(rf".+: (.+ = )?{re.escape(cell)}")
    if name == "online":
        return re.compile(rf"{('so far', 'softmax')[row]}, key {column} .+: {re.escape(cell)}")
    if name == "writer":
        return re.compile(rf"layer {row // 2}, head {row % 2}, reads .+: {re.escape(cell)}")
    value = cell if cell in ("masked", "open") else f"weight {re.escape(cell)}"
    return re.compile(rf"query .+ \(row {row}\), key .+ \(column {column}\): {value}")


@pytest.mark.parametrize("name", [name for name in EVERY if name not in WITHOUT_MAP])
def test_arrow_keys_walk_the_cells_and_the_readout_says_each(visit, bare, name):
    panel = Panel(visit(bare(name)))
    if name == "player":
        panel.el.get_by_role("tab", name="The chosen head").click()
    panel.unfold()
    rows = weight_rows(panel, name)
    nth = {"mask": 1, "player": 2}.get(name, 0)
    canvas = panel.map(nth)
    readout = panel.el.locator(".attn-readout").nth(nth)
    assert readout.get_attribute("role") == "status"
    canvas.press("PageUp")
    canvas.press("Home")
    walk = ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "End", "PageDown", "ArrowUp"]
    walk += ["Home", "ArrowLeft", "PageUp", "ArrowUp"]
    row, column, last_row, last = 0, 0, len(rows) - 1, len(rows[0]) - 1
    for key in walk:
        canvas.press(key)
        row, column = {
            "ArrowRight": (row, min(column + 1, last)),
            "ArrowLeft": (row, max(column - 1, 0)),
            "ArrowDown": (min(row + 1, last_row), column),
            "ArrowUp": (max(row - 1, 0), column),
            "Home": (row, 0),
            "End": (row, last),
            "PageUp": (0, column),
            "PageDown": (last_row, column),
        }[key]
        assert says(rows[row][column], row, column, name).fullmatch(readout.inner_text())


def test_all_heads_at_once_can_be_walked_and_clicked(visit, bare):
    panel, widget = Panel(visit(bare("layers"))), EVERY["layers"]()
    panel.press(OVERVIEW, "Space")
    grid = panel.el.get_by_role("application", name="All 6 heads")
    assert grid.is_visible()
    for key, layer, head in (("ArrowDown", 1, 0), ("ArrowRight", 1, 1), ("ArrowUp", 0, 1)):
        grid.press(key)
        assert (panel.value("Layer"), panel.value("Head")) == (layer, head)
        assert_shown(panel, widget, layer=layer, head=head)
    box = grid.bounding_box()
    grid.click(position={"x": 22 + (box["width"] - 22) * 0.05, "y": 0.6 * box["height"]})
    assert (panel.value("Layer"), panel.value("Head")) == (1, 0)
    panel.press(OVERVIEW, "Space")
    assert not grid.is_visible()


# Painting and dragging


def test_painting_by_pointer_opens_what_the_stroke_crosses_once(visit, bare):
    panel, widget = Panel(visit(bare("mask"))), of_mask()
    painted, found = widget.attn_mask, panel.cells()
    mouse = panel.page.mouse
    panel.point_at(0, 0, 2, found)
    mouse.down()
    for column in (3, 4, 3, 2):
        panel.point_at(0, 0, column, found)
    mouse.up()
    painted[0, 2:] = True
    assert_shown(panel, widget, painted=encode_mask(painted))
    panel.point_at(0, 1, 4, found)  # the button is up: nothing is painted
    assert_shown(panel, widget)
    panel.point_at(0, 4, 0, found)
    mouse.down()
    panel.point_at(0, 4, 1, found)
    mouse.up()
    painted[4, :2] = False
    assert_shown(panel, widget, painted=encode_mask(painted))


def test_painting_by_keyboard(visit, bare):
    panel, widget = Panel(visit(bare("mask"))), of_mask()
    painted = widget.attn_mask
    for to, key, cell in (("ArrowRight", "Space", (0, 1)), ("End", "Enter", (0, 4))):
        panel.map().press(to)
        panel.map().press(key)
        painted[cell] ^= True
        assert_shown(panel, widget, painted=encode_mask(painted))
        assert panel.readout().endswith("open" if painted[cell] else "masked")


def test_dragging_a_point_moves_it_and_chooses_it(visit, bare):
    panel, widget = Panel(visit(bare("points"))), of_points()
    mouse, box = panel.page.mouse, panel.el.locator("canvas").first.bounding_box()
    low, high = (float(panel.control("Query").get_attribute(end)) for end in ("min", "max"))
    ys = widget.ys + widget.data["truth"]["y"]
    pad = 0.12 * (max(ys) - min(ys))
    bottom, top = min(ys) - pad, max(ys) + pad

    # The plot leaves 42 pixels on its left and 12 on its right, and lies between 10 and 250.
    def move_to(x: float, y: float) -> None:
        across = 42 + (x - low) / (high - low) * (box["width"] - 54)
        mouse.move(box["x"] + across, box["y"] + 250 - (y - bottom) / (top - bottom) * 240)

    move_to(widget.xs[7], widget.ys[7])
    mouse.down()
    move_to(1.5, 0.5)
    move_to(2.1, 0.25)
    mouse.up()
    assert panel.value("Point") == 7
    x, y = (number(panel.output(label)) for label in ("Point x", "Point y"))
    assert (x, y) == (pytest.approx(2.1, abs=0.03), pytest.approx(0.25, abs=0.03))
    widget.xs[7], widget.ys[7] = x, y
    note = panel.el.locator(".attn-prediction").inner_text()
    prediction = number(re.search(r"Prediction at 2\.00: (\u2212?\d\.\d\d)", note)[1])
    assert prediction == pytest.approx(widget.predict()[0], abs=0.011)


def test_axe_finds_nothing_by_day_and_by_night(visit, bare):
    page = visit(bare("all"))
    for nth, name in enumerate(EVERY):
        panel = Panel(page, nth)
        panel.table()
        panel.unfold()
        if name in ("scores", "layers"):
            panel.press(OVERVIEW, "Space")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()


# Tokens


PLANTED = """() => [...document.querySelectorAll("main *")]
  .filter((el) => !el.closest("attn-widget > script"))
  .map((el) => el.localName)"""
HANDLERS = """() => [...document.querySelectorAll("main *")]
  .flatMap((el) => [...el.attributes])
  .filter(({ name, value }) => /^on/.test(name) || (/window/.test(value) && name !== "label"))
  .map((attribute) => attribute.name)"""
OWN = {
    *("attn-widget", "h1", "div", "p", "span", "label", "output", "input", "select", "option"),
    *("button", "canvas", "details", "summary", "table", "caption", "thead", "tbody", "tr", "td"),
    *("th", "bdi", "optgroup", "textarea", "strong", "pre", "ins", "del"),
}


def test_hostile_tokens_run_nothing_and_plant_no_element(visit, bare):
    page = visit(bare("hostile"))
    assert page.evaluate("window.ran") is None
    mounted = page.locator(".attn-root").count()
    assert mounted == page.locator("attn-widget").count() == len(TOKENISED)
    for nth in range(len(TOKENISED)):
        panel = Panel(page, nth)
        panel.table()
        for canvas in panel.el.locator(".attn-heatmap canvas").all():
            canvas.press("ArrowDown")
            canvas.press("ArrowRight")
    assert set(page.evaluate(PLANTED)) <= OWN
    assert page.evaluate(HANDLERS) == []
    assert page.evaluate("window.ran") is None
    assert {url.rpartition("/")[2] for url in visit.requests} <= {
        *("hostile.html", "page.css", "widgets.css", "widgets.js", "favicon.ico"),
    }


# Looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_s_theme_wins_over_the_reader_s_which_wins_over_none(visit, bare, scheme):
    page = visit(bare("scores"), color_scheme=scheme)
    read = """(el, names) => names.map((name) =>
      getComputedStyle(el).getPropertyValue(`--attn-${name}`).trim())"""
    for theme in ("", "light", "dark"):
        if theme:
            page.evaluate("(one) => { document.documentElement.dataset.theme = one; }", theme)
        expected = DARK if (theme or scheme) == "dark" else LIGHT
        found = page.locator(".attn-root").evaluate(read, list(LIGHT))
        assert dict(zip(LIGHT, found, strict=True)) == expected


def test_nothing_is_wider_than_the_window(visit, bare):
    page = visit(bare("all"), width=320)
    for summary in page.locator("attn-widget summary").all():
        summary.press("Enter")
    cut = """() => [...document.querySelectorAll("attn-widget canvas")].filter((canvas) => {
      if (!canvas.offsetWidth) return false;
      const box = canvas.getBoundingClientRect();
      const root = canvas.closest(".attn-root").getBoundingClientRect();
      return box.left < root.left || box.right > root.right;
    }).length"""
    for width in (320, 1400):
        page.set_viewport_size({"width": width, "height": 1000})
        settle(page)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(cut) == 0


@pytest.mark.parametrize("name", SMALL_AND_LARGE)
def test_every_corner_of_a_small_or_large_widget_is_told_in_numbers(visit, bare, name):
    panel, kind = Panel(visit(bare(name), width=320)), SMALL_AND_LARGE[name]
    for option in range(panel.control(kind).locator("option").count()):
        panel.control(kind).select_option(index=option)
        for key, label in itertools.product(("Home", "End"), {*panel.labels()} - {kind}):
            if panel.control(label).is_enabled():
                panel.press(label, key)
            text = panel.el.inner_text()
            assert not re.search(r"undefined|null|NaN|Infinity|\[object|e[+-]\d", text)
    assert panel.page.evaluate("document.scrollingElement.scrollWidth") == 320


def test_nothing_moves_for_readers_who_asked_for_less_motion(visit, bare):
    page = visit(bare("all"))
    moving = """() => [...document.querySelectorAll("attn-widget *")].filter((el) => {
      const style = getComputedStyle(el);
      if (!el.checkVisibility()) return false;
      return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
    }).length"""
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == page.locator("button:visible").count()


# What moves: a press on a control, and for how long at least and at most a picture then changes.
MOTION = {
    "family": ("Position", 140, 1000),
    "follow": ("Step", 300, 1000),
    "memory": ("Step", 400, 900),
    "online": ("Step", 400, 900),
}


@pytest.mark.parametrize("name", MOTION)
def test_a_picture_moves_to_where_it_stands_at_once_for_who_wants_no_motion(visit, bare, name):
    label, least, most = MOTION[name]
    still, page = Panel(visit(bare(name))), visit(bare(name))
    page.emulate_media(reduced_motion="no-preference")
    stop_time(page)
    panel = Panel(page)
    before = still.picture()
    for one in (still, panel):
        one.press(label, "ArrowRight")
    seen = []
    for _ in range(0, most + 200, 100):
        page.clock.run_for(100)
        seen.append(panel.picture(settled=False))
    rest = still.picture()
    assert rest != before
    assert seen[-2:] == [rest, rest]
    assert rest not in seen[: least // 100]
    assert len(set(seen)) > least // 200 + 1


# Taken off, and put back


def test_a_widget_taken_off_the_page_ends_and_put_back_starts_again(visit, bare):
    page = visit(bare("all"))
    children = page.locator("attn-widget > *").count()
    page.evaluate("window.taken = [...document.querySelectorAll('attn-widget')]")
    page.evaluate("taken.forEach((one) => one.remove())")
    assert page.evaluate("taken.every((one) => !one.querySelector('.attn-root'))")
    page.evaluate("document.querySelector('main').append(...taken)")
    page.evaluate(PRINTED)
    assert page.locator(".attn-root").count() == len(EVERY)
    assert page.locator("attn-widget > *").count() == children
    for nth, make in enumerate(EVERY.values()):
        panel, widget = Panel(page, nth), make()
        label = [one for one in panel.labels() if one not in journeys.TYPED][-1]
        assert journeys.nudge(panel, label)
        journeys.same_move(widget, label, panel.value(label))
        assert_shown(panel, widget)
