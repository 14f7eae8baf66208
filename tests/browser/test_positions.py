"""Positions: hands, curve, matrix and the turned pair drawn where torch says, and moved by hand."""

import itertools
import math
import re
from collections.abc import Sequence

import pytest
import torch
from playwright.sync_api import Locator

from attn_notes import palette
from attn_notes.widgets import PositionExplorer
from tests.browser.journeys import DISTANCE, PAIR, UNLIKE, assert_shown
from tests.browser.panel import PIXELS, Panel
from tests.colours import LIGHT
from tests.widgets import of_positions

SHARP = {"device_scale_factor": 4}  # so that a line is more than its edges
SCHEMES = ["none", "sinusoidal", "rotary", "alibi"]


def rgb(colour: str) -> list[int]:
    return [int(colour[n : n + 2], 16) for n in (1, 3, 5)]


ACCENT, OTHER, LINE = (
    rgb(c) for c in (LIGHT["accent"], palette.CATEGORICAL[1], palette.CATEGORICAL[0])
)


def open_at(visit, bare, scheme: str, **options) -> tuple[Panel, PositionExplorer]:
    """The widget with this scheme, in the browser and in Python."""
    panel, widget = Panel(visit(bare("positions"), **options)), of_positions()
    choose(panel, widget, scheme)
    return panel, widget


def choose(panel: Panel, widget: PositionExplorer, scheme: str) -> None:
    panel.control("Scheme").select_option(index=SCHEMES.index(scheme))
    widget.scheme = scheme


def move(panel: Panel, widget: PositionExplorer, position: int, distance: int) -> None:
    """Both sliders, as a hand moves them."""
    for label, to in (("Position", position), (DISTANCE, distance)):
        panel.control(label).fill(str(to))
    widget.position, widget.distance = position, distance


def canvas_of(panel: Panel, start: str) -> Locator:
    return panel.el.get_by_role("img", name=re.compile(f"^{start}"))


def colours(canvas: Locator, *places: Sequence[float]) -> list[list[int]]:
    return [pixel[:3] for pixel in canvas.evaluate(PIXELS, [list(place) for place in places])]


def ends(widget: PositionExplorer) -> tuple[torch.Tensor, torch.Tensor]:
    """(pairs, 2) twice: where the pairs of the two positions point."""
    here, there = widget.position, widget.position - widget.distance
    mine, theirs = widget._vectors(here, 1), widget._vectors(there, 1, key=True)
    return mine.view(-1, 2), theirs.view(-1, 2)


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """The angle between two vectors of the plane."""
    turn = math.atan2(float(a[0] * b[1] - a[1] * b[0]), float(a @ b))
    return abs(turn)


class Clocks:
    """Where the dials lie: as many in a row as fit at 42 pixels, in rows of like length."""

    def __init__(self, panel: Panel, count: int) -> None:
        self.canvas = canvas_of(panel, "A clock for each pair")
        self.box = self.canvas.bounding_box()
        rows = math.ceil(count / max(1, self.box["width"] // 42))
        self.per = math.ceil(count / rows)
        self.side = min(64, self.box["width"] / self.per)

    def place(self, n: int, x: float = 0.0, y: float = 0.0) -> tuple[float, float]:
        """A place on a dial: from -1 to 1 each way, up being positive."""
        down, across = divmod(n, self.per)
        r = self.side / 2 - 4
        middle = (across + 0.5) * self.side, down * (self.side + 14) + self.side / 2 + 1
        return middle[0] + r * x, middle[1] - r * y


# What is drawn


@pytest.mark.parametrize(("scheme", "unlike"), [("sinusoidal", False), ("rotary", True)])
def test_every_hand_points_where_its_pair_does(visit, bare, scheme, unlike):
    panel, widget = open_at(visit, bare, scheme, **SHARP)
    if unlike:
        panel.press(UNLIKE, "Space")
        widget.unlike = True
    seen = 0
    for position, distance in ((7, 5), (2, 1), (11, 7)):
        move(panel, widget, position, distance)
        mine, theirs = ends(widget)
        longest = float(widget._vectors(0, 12).view(-1, 2).norm(dim=-1).max())
        clocks = Clocks(panel, len(mine))
        for n, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            if apart(a, b) < 0.3 or min(a.norm(), b.norm()) < 0.25 * longest:
                continue  # one hand lies on the other, or is too short to look at
            places = [clocks.place(n, *(0.88 * 0.7 * end / longest).tolist()) for end in (a, b)]
            assert colours(clocks.canvas, *places) == [ACCENT, OTHER]
            seen += 1
    assert seen >= 4


class Curve:
    """The plot of the curve: 34 pixels on its left, 10 on its right, from 16 to 176 in height."""

    def __init__(self, panel: Panel, widget: PositionExplorer) -> None:
        self.canvas = canvas_of(panel, "The chosen position with each")
        self.box = self.canvas.bounding_box()
        self.last = widget.data["length"] - 1
        if widget.scheme == "alibi":
            self.low, self.high = 0.0, 1 / sum(math.exp(-d / 2) for d in range(self.last + 1))
        else:
            rows = widget.shown()
            self.high = float((rows * rows).sum(-1).max())
            self.low = -self.high

    def x(self, p: float) -> float:
        return 34 + p / self.last * (self.box["width"] - 44)

    def place(self, p: int, value: float) -> tuple[float, float]:
        return self.x(p), 176 - (value - self.low) / (self.high - self.low) * 160


def test_the_curve_runs_through_what_torch_says_and_marks_both_positions(visit, bare):
    panel, widget = open_at(visit, bare, "none", **SHARP)
    places = ((7, 5), (2, -4), (11, 0))
    for scheme, (position, distance) in itertools.product(SCHEMES, places):
        choose(panel, widget, scheme)
        move(panel, widget, position, distance)
        curve, values = Curve(panel, widget), widget.similarity().tolist()
        other = position - distance
        lone = [p for p in range(1, 11) if p not in (position, other)]  # a line ends at its ends
        for pixel in colours(curve.canvas, *(curve.place(p, values[p]) for p in lone)):
            assert pixel == pytest.approx(LINE, abs=1)
        marked = [curve.place(p, values[p]) for p in (position, other)]
        assert colours(curve.canvas, *marked) == ([ACCENT, OTHER] if distance else [OTHER] * 2)


NEUTRAL = rgb("#e9e6df")


def diverging(value: float, top: float) -> list[list[int]]:
    """The colours of the levels next to a value's, from blue through the neutral one to orange."""
    level = 255 * (value + top) / (2 * top)
    found = []
    for n in {math.floor(level), math.ceil(level), round(level)}:
        t = n / 127.5 - 1
        end = rgb(palette.POSITIVE if t > 0 else palette.NEGATIVE)
        found.append([a + (b - a) * abs(t) for a, b in zip(NEUTRAL, end, strict=True)])
    return found


@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary", "alibi"])
def test_every_number_of_the_matrix_has_its_colour_and_the_row_is_framed(visit, bare, scheme):
    panel, widget = open_at(visit, bare, scheme)
    move(panel, widget, 6, 2)
    found, numbers = panel.cells(), widget.shown()
    top = float(numbers.abs().max())
    for i in (0, 4, 8, 11):
        places = [(x, found["rows"][i]) for x in found["columns"]]
        for pixel, value in zip(colours(panel.map(), *places), numbers[i].tolist(), strict=True):
            assert any(pixel == pytest.approx(near, abs=1) for near in diverging(value, top))
    pitch = found["rows"][1] - found["rows"][0]
    x = found["columns"][1]
    for row in (6, 9):
        edges = [(x, found["rows"][row] + side * pitch / 2) for side in (-1, 1)]
        near = [pixel == pytest.approx(ACCENT, abs=12) for pixel in colours(panel.map(), *edges)]
        assert near == [row == 6] * 2


# By hand


def test_a_press_on_a_clock_chooses_its_pair(visit, bare):
    panel, widget = open_at(visit, bare, "sinusoidal")
    for count, scheme in ((4, "sinusoidal"), (8, "alibi"), (4, "rotary")):
        choose(panel, widget, scheme)
        clocks = Clocks(panel, count)
        for widget.pair in (count - 1, 0, 1):
            x, y = clocks.place(widget.pair)
            clocks.canvas.click(position={"x": x, "y": y})
            assert panel.output(PAIR) == str(widget.pair)
            assert_shown(panel, widget)
    clocks.canvas.click(position={"x": clocks.box["width"] - 4, "y": clocks.side / 2})
    clocks.canvas.click(position=dict(zip("xy", clocks.place(2), strict=True)), button="right")
    assert panel.value(PAIR) == 1


def test_a_cell_that_is_pressed_or_walked_to_is_the_position_and_the_pair(visit, bare):
    panel, widget = open_at(visit, bare, "sinusoidal")
    found, box = panel.cells(), panel.map().bounding_box()
    for row, column in ((9, 5), (0, 2), (11, 7)):
        place = {"x": found["columns"][column], "y": found["rows"][row]}
        panel.map().click(position=place)
        widget.position, widget.pair = row, column // 2
        assert (panel.value("Position"), panel.value(PAIR)) == (row, column // 2)
        assert_shown(panel, widget)
        assert panel.readout().startswith(f"position {row}, dimension {column}: ")
    for key, row, pair in (("ArrowUp", 10, 3), ("Home", 10, 0), ("PageUp", 0, 0)):
        panel.map().press(key)
        assert (panel.value("Position"), panel.value(PAIR)) == (row, pair)
    assert box["width"] == panel.map().bounding_box()["width"]


# Edges


@pytest.mark.parametrize("name", ["positions-small", "positions-large"])
def test_every_corner_is_told_in_numbers(visit, bare, name):
    panel = Panel(visit(bare(name), width=320))
    for scheme in panel.control("Scheme").locator("option").all_inner_texts():
        panel.control("Scheme").select_option(label=scheme)
        for dimensions in (0, -1):
            choices = panel.control("Dimensions").locator("option").count()
            panel.control("Dimensions").select_option(index=dimensions % choices)
            for keys in ("Home Home Home", "Home End End", "End Home Home", "End End End"):
                for label, key in zip(("Position", DISTANCE, PAIR), keys.split(), strict=True):
                    panel.press(label, key)
                text = panel.el.inner_text()
                assert not re.search(r"undefined|null|NaN|Infinity|\[object|e[+-]\d", text)
    assert panel.page.evaluate("document.scrollingElement.scrollWidth") == 320
