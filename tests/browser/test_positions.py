"""Positions: hands, curve, matrix and the turned pair drawn where torch says, and moved by hand."""

import itertools
import math
import re
from collections.abc import Sequence

import pytest
import torch
from playwright.sync_api import Locator, Page

from attn_notes import palette
from attn_widgets import PositionExplorer
from tests.browser.journeys import DISTANCE, PAIR, UNLIKE, assert_shown
from tests.browser.panel import PIXELS, Panel, rgb
from tests.colours import LIGHT
from tests.widgets import of_positions

SHARP = {"device_scale_factor": 4}  # so that a line is more than its edges
SCHEMES = ["none", "sinusoidal", "rotary", "alibi"]


QUERY, KEY, LINE, ACCENT = (
    rgb(c) for c in (palette.QUERY, palette.KEY, LIGHT["ink"], LIGHT["accent"])
)


class Explorer(Panel):
    """The widget in the browser, moved with the same in Python."""

    def __init__(self, page: Page, scheme: str) -> None:
        super().__init__(page)
        self.widget = of_positions()
        self.choose(scheme)

    def choose(self, scheme: str) -> None:
        self.control("Scheme").select_option(index=SCHEMES.index(scheme))
        self.widget.scheme = scheme

    def move(self, position: int, distance: int) -> None:
        self.control("Position").fill(str(position))
        self.control(DISTANCE).fill(str(distance))
        self.widget.position, self.widget.distance = position, distance

    def canvas(self, start: str) -> Locator:
        return self.el.get_by_role("img", name=re.compile(f"^{start}"))


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
    """Where the dials lie: as many in a row as fit at 38 pixels, in rows of like length."""

    def __init__(self, panel: Explorer, count: int) -> None:
        self.canvas = panel.canvas("A clock for each pair")
        self.width = self.canvas.bounding_box()["width"]
        rows = math.ceil(count / max(1, self.width // 38))
        self.per = math.ceil(count / rows)
        self.side = min(64, self.width / self.per)

    def place(self, n: int, x: float = 0.0, y: float = 0.0) -> tuple[float, float]:
        """A place on a dial: from -1 to 1 each way, up being positive."""
        down, across = divmod(n, self.per)
        r = self.side / 2 - 4
        middle = (across + 0.5) * self.side, down * (self.side + 14) + self.side / 2 + 1
        return middle[0] + r * x, middle[1] - r * y


# What is drawn

SIGNED = {-1: palette.NEGATIVE, 0: "#e9e6df", 1: palette.POSITIVE}


@pytest.mark.parametrize(("scheme", "unlike"), [("sinusoidal", False), ("rotary", True)])
def test_every_hand_points_where_its_pair_does(visit, bare, scheme, unlike):
    panel = Explorer(visit(bare("positions"), **SHARP), scheme)
    if unlike:
        panel.press(UNLIKE, "Space")
        panel.widget.unlike = True
    longest = float(panel.widget._vectors(0, 12).view(-1, 2).norm(dim=-1).max())
    seen = 0
    for position, distance in ((7, 5), (2, 1), (11, 7)):
        panel.move(position, distance)
        mine, theirs = ends(panel.widget)
        clocks = Clocks(panel, len(mine))
        for n, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            if apart(a, b) < 0.3 or min(a.norm(), b.norm()) < 0.25 * longest:
                continue  # one hand lies on the other, or is too short to look at
            places = [clocks.place(n, *(0.88 * 0.7 * end / longest).tolist()) for end in (a, b)]
            assert colours(clocks.canvas, *places) == [QUERY, KEY]
            seen += 1
    assert seen >= 4


def test_the_curve_runs_through_what_torch_says_and_marks_both_positions(visit, bare):
    panel = Explorer(visit(bare("positions"), **SHARP), "none")
    canvas, widget = panel.canvas("The chosen position with each"), panel.widget
    places = ((7, 5), (2, -4), (11, 0))
    for scheme, (position, distance) in itertools.product(SCHEMES, places):
        panel.choose(scheme)
        panel.move(position, distance)
        low, high = 0.0, 1 / sum(math.exp(-d / 2) for d in range(12))  # of ALiBi's weights
        if scheme != "alibi":
            high = float(widget.shown().square().sum(-1).max())
            low = -high
        # 34 pixels on its left, 10 on its right, from 16 to 176 in height
        wide, values = canvas.bounding_box()["width"] - 44, widget.similarity().tolist()
        at = [
            (34 + p / 11 * wide, 176 - 160 * (y - low) / (high - low)) for p, y in enumerate(values)
        ]
        both = [position, position - distance]
        lone = [at[p] for p in range(1, 11) if p not in both]  # a line ends at its ends
        for pixel in colours(canvas, *lone):
            assert pixel == pytest.approx(LINE, abs=1)
        marked = colours(canvas, *(at[p] for p in both))
        assert marked == ([QUERY, KEY] if distance else [KEY] * 2)


@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary", "alibi"])
def test_every_number_of_the_matrix_has_its_colour_and_the_row_is_framed(visit, bare, scheme):
    panel = Explorer(visit(bare("positions")), scheme)
    panel.move(6, 2)
    found, shares = panel.cells(), panel.widget.shown() / panel.widget.shown().abs().max()
    ends = {sign: torch.tensor(rgb(colour)).double() for sign, colour in SIGNED.items()}
    for i in (0, 4, 8, 11):
        pixels = colours(panel.map(), *((x, found["rows"][i]) for x in found["columns"]))
        for pixel, share in zip(pixels, shares[i].tolist(), strict=True):
            expected = torch.lerp(
                ends[0].double(), ends[math.copysign(1, share)].double(), abs(share)
            )
            assert pixel == pytest.approx(expected.tolist(), abs=2)
    pitch = found["rows"][1] - found["rows"][0]
    for row in (6, 9):
        edges = [(found["columns"][1], found["rows"][row] + side * pitch / 2) for side in (-1, 1)]
        near = [pixel == pytest.approx(ACCENT, abs=12) for pixel in colours(panel.map(), *edges)]
        assert near == [row == 6] * 2


# By hand


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_control_is_shown_where_what_it_sets_changes_something(visit, bare, scheme):
    panel = Explorer(visit(bare("positions")), scheme)
    panel.move(7, 3)
    if scheme == "rotary":  # else the curve, not the numbers, shows it
        panel.press(UNLIKE, "Space")
    moves = {"Dimensions": ("embed_dim", [4, 8]), "Base": ("base", [100.0, 1e4])}
    moves |= {UNLIKE: ("unlike", [False, True]), PAIR: ("pair", [1, 2])}
    for label, (trait, values) in moves.items():
        pictures = set()
        for value in values:
            panel.page.evaluate(
                "([name, x]) => document.querySelector('attn-widget').model.set(name, x)",
                [trait, value],
            )
            pictures.add(panel.picture() + panel.said(0) + panel.said(1))
        named = "Head" if (label, scheme) == (PAIR, "alibi") else label
        assert (named in panel.labels()) == (len(pictures) > 1), label
    assert (PAIR in panel.labels()) != ("Head" in panel.labels())


def test_a_press_on_a_clock_chooses_its_pair(visit, bare):
    panel = Explorer(visit(bare("positions")), "sinusoidal")
    for count, scheme in ((4, "sinusoidal"), (8, "alibi"), (4, "rotary")):
        panel.choose(scheme)
        label = "Head" if scheme == "alibi" else PAIR
        clocks = Clocks(panel, count)
        for pair in (count - 1, 0, 1):
            clocks.canvas.click(position=dict(zip("xy", clocks.place(pair), strict=True)))
            assert panel.output(label) == str(pair)
            assert_shown(panel, panel.widget, pair=pair)
    clocks.canvas.click(position={"x": clocks.width - 4, "y": clocks.side / 2})
    clocks.canvas.click(position=dict(zip("xy", clocks.place(2), strict=True)), button="right")
    assert panel.value(PAIR) == 1


def test_a_cell_that_is_pressed_or_walked_to_is_the_position_and_the_pair(visit, bare):
    panel = Explorer(visit(bare("positions")), "sinusoidal")
    found = panel.cells()
    for row, column in ((9, 5), (0, 2), (11, 7)):
        panel.map().click(position={"x": found["columns"][column], "y": found["rows"][row]})
        assert (panel.value("Position"), panel.value(PAIR)) == (row, column // 2)
        assert_shown(panel, panel.widget, position=row, pair=column // 2)
        assert panel.readout().startswith(f"position {row}, dimension {column}: ")
    for key, row, pair in (("ArrowUp", 10, 3), ("Home", 10, 0), ("PageUp", 0, 0)):
        panel.map().press(key)
        assert (panel.value("Position"), panel.value(PAIR)) == (row, pair)


def test_a_phone_keeps_clocks_and_curve_in_view_and_one_more_view_under_tabs(visit, bare):
    panel = Explorer(visit(bare("positions"), width=390, height=844), "sinusoidal")
    picture = panel.el.locator(".attn-picture")
    assert picture.bounding_box()["height"] < 0.55 * 844
    pair = panel.canvas("The chosen pair")
    assert (panel.map().is_visible(), pair.is_visible()) == (True, False)
    panel.el.get_by_role("tab", name="The two positions").click()
    assert (panel.map().is_visible(), pair.is_visible()) == (False, True)
    panel.page.set_viewport_size({"width": 900, "height": 844})
    assert panel.map().is_visible()
    assert pair.is_visible()
    assert not panel.el.get_by_role("tab").first.is_visible()
