"""By finger: a swipe scrolls the page unless it begins on a handle, and what is tapped is large."""

import pytest

from tests.browser.panel import Panel, number, settle
from tests.widgets import of_mask, of_points, of_positions

PHONE = {"width": 390, "height": 700, "has_touch": True, "is_mobile": True}
TALL = "() => { document.body.style.paddingBottom = '2000px'; }"  # something to scroll
CENTRE = "(el) => el.scrollIntoView({ block: 'center' })"


class Finger(Panel):
    """Touches a widget as the browser itself is touched, so that it scrolls where a page would."""

    def __init__(self, visit, address: str) -> None:
        super().__init__(visit(address, **PHONE))
        self.page.evaluate(TALL)
        self.session = self.page.context.new_cdp_session(self.page)

    def box(self, canvas) -> dict:
        canvas.evaluate(CENTRE)
        settle(self.page)
        return canvas.bounding_box()

    def send(self, kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y} for x, y in places]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def swipe(self, start: tuple[float, float], across: float, down: float) -> float:
        """How far the page scrolled."""
        before = self.page.evaluate("scrollY")
        self.send("touchStart", start)
        for n in range(1, 6):
            self.send("touchMove", (start[0] + across * n / 5, start[1] + down * n / 5))
            settle(self.page)
        self.send("touchEnd")
        settle(self.page)
        return self.page.evaluate("scrollY") - before


@pytest.mark.parametrize("name", ["points", "mask", "family", "online"])
def test_a_swipe_over_a_picture_scrolls_the_page_and_moves_nothing(visit, bare, name):
    panel = Finger(visit, bare(name))
    said = panel.el.inner_text()
    for canvas in panel.el.locator("canvas:visible").all():
        box = panel.box(canvas)
        if box["height"] >= 40:
            # Between the handles: beside the arrows' ends, and below the points.
            place = box["x"] + 0.93 * box["width"], min(box["y"] + 0.9 * box["height"], 650)
            assert panel.swipe(place, 0, -150) > 60
    assert panel.el.inner_text() == said


def test_the_query_is_taken_by_its_knob_and_the_page_stays(visit, bare):
    panel, widget = Finger(visit, bare("points")), of_points()
    box, query = panel.box(panel.el.locator("canvas").first), panel.control("Query")
    low, high = (float(query.get_attribute(end)) for end in ("min", "max"))
    x = box["x"] + 42 + (widget.query - low) / (high - low) * (box["width"] - 54)
    before = panel.value("Query")
    assert panel.swipe((x, box["y"] + 10), 60, 80) == 0
    moved = 60 / (box["width"] - 54) * (high - low)
    assert panel.value("Query") == pytest.approx(before + moved, abs=0.1)


def test_the_end_of_an_arrow_is_taken_and_the_page_stays(visit, bare):
    panel = Finger(visit, bare("arrows"))
    box = panel.box(panel.el.locator("canvas").first)
    unit = min(box["width"], box["height"]) / 6.4
    x, y = box["x"] + box["width"] / 2 + unit, box["y"] + box["height"] / 2 - 0.6 * unit
    assert panel.swipe((x, y), -unit, unit) == 0
    panel.control("Move").select_option(index=0)
    assert number(panel.output("Arrow x")) == pytest.approx(0.0, abs=0.06)
    assert number(panel.output("Arrow y")) == pytest.approx(-0.4, abs=0.06)


def test_the_other_position_is_sent_by_a_tap(visit, bare):
    panel, widget = Finger(visit, bare("positions")), of_positions()
    box = panel.box(panel.el.get_by_role("img", name="The chosen position with each"))
    for position in (2, 9):
        x = box["x"] + 34 + position / 11 * (box["width"] - 44)
        panel.page.touchscreen.tap(x, box["y"] + 100)
        assert panel.value("Distance to the other") == widget.position - position


def test_a_swipe_that_begins_on_tokens_scrolls_and_a_tap_picks_one(visit, bare):
    panel, picked = Finger(visit, bare("heads")), set()
    links, said = panel.el.locator(".attn-links canvas"), panel.el.locator(".attn-said")
    panel.el.get_by_role("tab", name="links").tap()
    before = said.all_inner_texts()
    for share in (0.15, 0.45, 0.75):
        box = panel.box(links)
        place = box["x"] + share * box["width"], box["y"] + box["height"] - 34
        assert panel.swipe(place, 0, -150) > 60
        assert said.all_inner_texts() == before
        box = panel.box(links)  # where it is after the swipe
        place = box["x"] + share * box["width"], box["y"] + box["height"] - 34
        settle(panel.page)
        panel.page.touchscreen.tap(*place)
        settle(panel.page)
        before = said.all_inner_texts()
        picked.add(str(before))
    assert len(picked) == 3


def test_a_mask_is_painted_by_taps_and_from_the_knob(visit, bare):
    panel, painted = Finger(visit, bare("mask")), of_mask().attn_mask
    panel.table()
    box, found = panel.box(panel.map()), panel.cells()

    def assert_painted() -> None:
        cells = [[cell != "masked" for cell in row[1:]] for row in panel.table()[1:]]
        assert cells == painted.tolist()

    place = box["x"] + found["columns"][3], box["y"] + found["rows"][1]
    panel.page.touchscreen.tap(*place)
    painted[1, 3] ^= True
    assert_painted()
    down = found["rows"][4] - found["rows"][1]
    assert panel.swipe(place, 0, down) == 0  # from the knob: it paints, and closes again
    painted[1:, 3] = False
    assert_painted()


def test_a_tap_reads_a_cell_and_shows_its_number_above_the_finger(visit, bare):
    panel = Finger(visit, bare("scores"))
    number = panel.table()[4][2]
    box, found = panel.box(panel.map()), panel.cells()
    y = box["y"] + found["rows"][3]
    panel.page.touchscreen.tap(box["x"] + found["columns"][1], y)
    assert number in panel.readout()
    tip = panel.el.locator(".attn-tip")
    assert tip.locator("strong").inner_text() == number
    assert tip.bounding_box()["y"] + tip.bounding_box()["height"] <= y


def test_what_is_tapped_is_44_pixels_high_and_no_hint_speaks_of_keys(visit, bare):
    page = visit(bare("all"), **PHONE)
    read = """() => [...document.querySelectorAll(`.attn-control:has(input[type=checkbox]),
        attn-widget :is(button, select, summary, textarea, input:not([type=checkbox]))`)]
      .filter((one) => one.offsetWidth)
      .map((one) => [one.textContent || one.type, one.getBoundingClientRect().height])"""
    assert [one for one in page.evaluate(read) if one[1] < 44] == []
    said = page.locator(".attn-readout").all_inner_texts()
    assert not [text for text in said if "key" in text]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
