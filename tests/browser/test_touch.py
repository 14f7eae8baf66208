"""By finger: a swipe scrolls the page unless it begins on a handle, and what is tapped is large."""

import pytest

from tests.browser.panel import Panel, settle
from tests.widgets import EVERY, of_mask, of_points, of_positions

SWIPED = ("points", "arrows", "mask", "positions", "scores", "family", "online")
PHONE = {"width": 390, "height": 700, "has_touch": True, "is_mobile": True}
TALL = "() => { document.body.style.paddingBottom = '2000px'; }"  # something to scroll


class Finger:
    """Touches as the browser itself gets them, so that it scrolls where a page would."""

    def __init__(self, panel: Panel) -> None:
        self.page = panel.page
        self.page.evaluate(TALL)
        self.session = self.page.context.new_cdp_session(self.page)

    def send(self, kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y} for x, y in places]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def swipe(self, start: tuple[float, float], end: tuple[float, float]) -> float:
        """How far the page scrolled."""
        before = self.page.evaluate("scrollY")
        self.send("touchStart", start)
        for n in range(1, 11):
            x, y = (a + (b - a) * n / 10 for a, b in zip(start, end, strict=True))
            self.send("touchMove", (x, y))
            settle(self.page)
        self.send("touchEnd")
        settle(self.page)
        return self.page.evaluate("scrollY") - before


def canvas_box(panel: Panel, nth: int = 0) -> dict:
    canvas = panel.el.locator("canvas:visible").nth(nth)
    canvas.evaluate("(el) => el.scrollIntoView({ block: 'center' })")
    settle(panel.page)
    return canvas.bounding_box()


@pytest.mark.parametrize("name", SWIPED)
def test_a_swipe_over_a_picture_scrolls_the_page_and_moves_nothing(visit, bare, name):
    panel = Panel(visit(bare(name), **PHONE))
    finger = Finger(panel)
    said = panel.el.inner_text()
    for nth in range(panel.el.locator("canvas:visible").count()):
        box = canvas_box(panel, nth)
        if box["height"] < 40:
            continue
        # Between the handles: beside the arrows' ends, and below the points.
        x, y = box["x"] + 0.93 * box["width"], min(box["y"] + 0.9 * box["height"], 650)
        assert finger.swipe((x, y), (x, y - 150)) > 60, nth
    assert panel.el.inner_text() == said


def test_the_query_is_taken_by_its_knob_and_the_page_stays(visit, bare):
    panel, widget = Panel(visit(bare("points"), **PHONE)), of_points()
    finger, box = Finger(panel), canvas_box(panel)
    query = panel.control("Query")
    low, high = (float(query.get_attribute(end)) for end in ("min", "max"))
    x = box["x"] + 42 + (widget.query - low) / (high - low) * (box["width"] - 54)
    before = panel.value("Query")
    assert finger.swipe((x, box["y"] + 10), (x + 60, box["y"] + 90)) == 0
    moved = 60 / (box["width"] - 54) * (high - low)
    assert panel.value("Query") == pytest.approx(before + moved, abs=0.1)


def test_the_end_of_an_arrow_is_taken_and_the_page_stays(visit, bare):
    panel = Panel(visit(bare("arrows"), **PHONE))
    finger, box = Finger(panel), canvas_box(panel)
    unit = min(box["width"], box["height"]) / 6.4
    x, y = box["x"] + box["width"] / 2 + unit, box["y"] + box["height"] / 2 - 0.6 * unit
    assert finger.swipe((x, y), (x - unit, y + unit)) == 0
    panel.control("Move").select_option(index=0)
    assert float(panel.output("its x")) == pytest.approx(0.0, abs=0.06)
    assert float(panel.output("its y")) == pytest.approx(-0.4, abs=0.06)


def test_the_other_position_is_taken_by_its_knob_or_sent_by_a_tap(visit, bare):
    panel, widget = Panel(visit(bare("positions"), **PHONE)), of_positions()
    curve = panel.el.get_by_role("img", name="The chosen position with each")
    curve.evaluate("(el) => el.scrollIntoView({ block: 'center' })")
    settle(panel.page)
    box = curve.bounding_box()
    place = lambda p: box["x"] + 34 + p / 11 * (box["width"] - 44)  # noqa: E731
    panel.page.touchscreen.tap(place(2), box["y"] + 100)
    assert panel.value("Distance to the other") == widget.position - 2
    panel.page.touchscreen.tap(place(9), box["y"] + 60)
    assert panel.value("Distance to the other") == widget.position - 9


def test_a_mask_is_painted_by_taps_and_from_the_knob(visit, bare):
    panel, widget = Panel(visit(bare("mask"), **PHONE)), of_mask()
    painted, finger = widget.attn_mask, Finger(panel)
    canvas_box(panel)
    found, box = panel.cells(), panel.map().bounding_box()
    place = lambda i, j: (box["x"] + found["columns"][j], box["y"] + found["rows"][i])  # noqa: E731

    def cells() -> list[list[bool]]:
        return [[cell == "masked" for cell in row[1:]] for row in panel.table()[1:]]

    panel.table()
    box = canvas_box(panel)
    panel.page.touchscreen.tap(*place(1, 3))
    painted[1, 3] ^= True
    assert cells() == (~painted).tolist()
    assert finger.swipe(place(1, 3), place(4, 3)) == 0  # from the knob: it paints, and closes again
    painted[1:, 3] = False
    assert cells() == (~painted).tolist()


def test_a_tap_reads_a_cell_and_shows_its_number_above_the_finger(visit, bare):
    panel = Panel(visit(bare("scores"), **PHONE))
    assert "arrow keys" not in panel.readout()
    rows = panel.table()[1:]
    canvas_box(panel)
    found, box = panel.cells(), panel.map().bounding_box()
    y = box["y"] + found["rows"][3]
    panel.page.touchscreen.tap(box["x"] + found["columns"][1], y)
    assert rows[3][2] in panel.readout()
    tip = panel.el.locator(".attn-tip")
    assert tip.locator("strong").inner_text() == rows[3][2]
    assert tip.bounding_box()["y"] + tip.bounding_box()["height"] <= y


@pytest.mark.parametrize("name", EVERY)
def test_what_is_tapped_is_44_pixels_high_and_no_hint_speaks_of_keys(visit, bare, name):
    panel = Panel(visit(bare(name), **PHONE))
    read = """(el) => [...el.querySelectorAll("button, select, input, summary, textarea")]
      .filter((one) => one.offsetWidth && one.type !== "checkbox")
      .map((one) => [one.textContent || one.type, one.getBoundingClientRect().height])"""
    small = [one for one in panel.el.evaluate(read) if one[1] < 44]
    assert small == []
    ticks = panel.el.locator(".attn-control:has(input[type=checkbox])")
    assert all(tick.bounding_box()["height"] >= 44 for tick in ticks.all())
    said = panel.el.locator(".attn-readout").all_inner_texts()
    assert not [text for text in said if "key" in text]
    assert panel.page.evaluate("document.scrollingElement.scrollWidth") <= 390
