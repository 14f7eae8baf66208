"""One diagram, three wirings: lit where torch says, asked where a word is due, picked by hand."""

import re

import pytest
from playwright.sync_api import Locator

from attn_notes import palette
from attn_widgets import FamilyDiagram
from attn_widgets.family import FAMILIES
from tests.browser.journeys import assert_shown, same_move
from tests.browser.panel import PIXELS, Panel, rgb
from tests.colours import LIGHT
from tests.widgets import of_family, wired

ACCENT, PAPER, CROSS = map(rgb, (LIGHT["accent"], LIGHT["paper"], palette.CATEGORICAL[4]))
S = T = 5  # of the widget that is tested


def choose(panel: Panel, widget: FamilyDiagram, family: str) -> None:
    panel.control("Family").select_option(index=FAMILIES.index(family))
    same_move(widget, "Family", FAMILIES.index(family))


def move(panel: Panel, widget: FamilyDiagram, label: str, to: int) -> None:
    panel.control(label).fill(str(to))
    same_move(widget, label, to)


class Drawing:
    """Where the parts lie: columns as wide as there is room for, blocks 82 pixels apart."""

    def __init__(self, panel: Panel, widget: FamilyDiagram) -> None:
        self.canvas: Locator = panel.el.get_by_role("application", name=re.compile("^The network"))
        self.count, self.encoder = len(widget.wiring().inputs), widget.wiring().encoder
        width, self.gap = self.canvas.bounding_box()["width"], 40 if self.encoder else 0
        self.pitch = min(84, (width - 48 - self.gap) / self.count)
        self.start = (width - self.pitch * self.count - self.gap) / 2
        self.top, self.bottom = 58, 58 + 82 * widget.num_layers

    def x(self, column: int) -> float:
        after = self.gap if column >= self.encoder else 0
        return self.start + (column + 0.5) * self.pitch + after

    def y(self, level: int, part: str) -> float:
        return self.bottom - 82 * level + {"feed-forward": 12, "cross": 26, "attention": 40}[part]

    def colours(self, places: list[tuple[float, float]]) -> list[list[int]]:
        pixels = self.canvas.evaluate(PIXELS, [list(place) for place in places])
        return [pixel[:3] for pixel in pixels]

    def lit(self, part: str, level: int, columns: range) -> list[list[int]]:
        return self.colours([(self.x(c), self.y(level, part)) for c in columns])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_part_is_lit_where_the_output_depends_on_it_and_asked_where_a_word_is_due(
    visit, bare, family
):
    panel, widget = Panel(visit(bare("family"), device_scale_factor=2)), of_family()
    choose(panel, widget, family)
    asked = widget.position
    for layers in (1, 3):
        move(panel, widget, "Blocks", layers)
        drawing = Drawing(panel, widget)
        for picked in {0, 2, drawing.encoder, drawing.count - 2, drawing.count - 1}:
            move(panel, widget, "Position", picked)
            _, at = wired(family, S, T, layers, picked)
            assert widget.knows().equal(at[0])
            own = ACCENT if picked < drawing.encoder else CROSS
            for level in range(1, layers + 1):
                lit = [
                    ((own if c < drawing.encoder else ACCENT) if on else PAPER)
                    for c, on in enumerate(at[level].tolist())
                ]
                for part in ("feed-forward", "attention"):
                    assert drawing.lit(part, level, range(drawing.count)) == lit
                if drawing.encoder:
                    reads = [CROSS if on else PAPER for on in at[level, S:].tolist()]
                    assert drawing.lit("cross", level, range(S, drawing.count)) == reads
    move(panel, widget, "Position", asked)
    assert_arrows_to_what_is_asked_for(panel, widget)


def assert_arrows_to_what_is_asked_for(panel: Panel, widget: FamilyDiagram) -> None:
    drawing, says = Drawing(panel, widget), widget.wiring().says
    columns = range(drawing.encoder, drawing.count)  # above an encoder stands its memory
    above = drawing.colours([(drawing.x(c), drawing.top - 3) for c in columns])
    for column, found in zip(columns, above, strict=True):
        assert (found != [0, 0, 0]) == (says[column] is not None)
        is_accent = found == pytest.approx(ACCENT, abs=2)
        assert is_accent == (column == widget.position)


def test_a_press_and_the_arrow_keys_pick_a_position(visit, bare):
    panel, widget = Panel(visit(bare("family"))), of_family()
    for family in FAMILIES:
        choose(panel, widget, family)
        drawing = Drawing(panel, widget)
        last = drawing.count - 1
        for column, y in ((last, 30), (1, 100), (3, drawing.bottom + 20), (0, drawing.top + 40)):
            drawing.canvas.click(position={"x": drawing.x(column) + 8, "y": y})
            assert_shown(panel, widget, position=column)
        drawing.canvas.click(position={"x": drawing.x(2), "y": 100}, button="right")
        assert panel.value("Position") == 0
        for keys, column in (("ArrowRight", 1), ("End", last), ("ArrowRight", last)):
            drawing.canvas.press(keys)
            assert panel.value("Position") == column
        for key in ("Alt+ArrowLeft", "ArrowUp", "Control+Home"):  # the browser's own
            drawing.canvas.press(key)
            assert panel.value("Position") == last
        drawing.canvas.press("Home")
        drawing.canvas.press("ArrowLeft")
        assert_shown(panel, widget, position=0)
