"""Large heatmaps: their colours, labels, zoom, table, and how little is drawn while one points."""

import pytest
import torch

from attn_widgets import AttentionHeatmap
from attn_widgets.encoding import decode
from tests.browser.journeys import COLOUR, COLOURS, OVERVIEW
from tests.browser.panel import PIXELS, Panel, near_cividis, rgb, settle, watched
from tests.colours import LIGHT
from tests.widgets import of_many

# Colours


def test_a_cell_is_coloured_by_its_scale_and_zero_and_masked_have_colours_of_their_own(visit, bare):
    panel, widget = Panel(visit(bare("large"))), of_many()
    assert widget.scale == "root"
    found = panel.cells()
    for index, scale in enumerate(("linear", "root", "row")):
        panel.control(COLOURS).select_option(index=index)
        assert_coloured(panel, widget, found, scale)
        assert panel.control(COLOUR).is_disabled() == (scale == "row")


def assert_coloured(panel: Panel, widget: AttentionHeatmap, found: dict, scale: str) -> None:
    weights, mask, seen = widget.shown(), decode(widget.data["mask"]), set()
    for i in (0, 9, 40, 71):
        columns = range(0, 150, 5)
        places = [[found["columns"][j], found["rows"][i]] for j in columns]
        row_top = float(weights[i][mask[i]].max())
        for j, pixel in zip(columns, panel.map().evaluate(PIXELS, places), strict=True):
            weight = float(weights[i, j])
            if not mask[i, j]:
                seen.add("masked")
                assert pixel[3] < 255
            elif weight == 0:
                seen.add("zero")
                assert pixel[:3] == rgb(LIGHT["surface"])
            else:
                seen.add("weight")
                share = {"linear": weight, "root": weight ** (1 / 3), "row": weight / row_top}
                assert pixel[:3] in near_cividis(share[scale]), (i, j)
    assert seen == {"masked", "zero", "weight"}


def test_the_overview_has_the_colours_of_the_map(visit, bare):
    panel, widget = Panel(visit(bare("large"), device_scale_factor=4)), of_many()
    panel.press(OVERVIEW, "Space")
    grid = panel.el.get_by_role("application", name="All 2 heads")
    width = grid.evaluate("(canvas) => parseFloat(canvas.style.width)") - 26
    pitch = min(width, 160) / (2 * 151)
    mask = decode(widget.data["mask"])
    for head in (0, 1):
        widget.head = head
        weights = widget.shown()
        cells = [(i, j) for i in range(10, 60, 9) for j in range(10, 140, 11)]
        places = [[22 + (head * 151 + j + 0.5) * pitch, (i + 0.5) * pitch] for i, j in cells]
        for (i, j), pixel in zip(cells, grid.evaluate(PIXELS, places), strict=True):
            if not mask[i, j]:
                assert pixel[:3] == rgb(LIGHT["rule"])
            elif weights[i, j] == 0:
                assert pixel[:3] == rgb(LIGHT["surface"])
            else:
                assert pixel[:3] in near_cividis(float(weights[i, j]) ** (1 / 3))


# Pointing


def test_the_number_stands_beside_the_pointer_until_it_leaves_or_escape_is_pressed(visit, bare):
    panel, found = Panel(visit(bare("scores"))), None
    tip, rows = panel.el.locator(".attn-tip"), panel.table()[1:]
    assert not tip.is_visible()
    found = panel.cells()
    for row, column in ((0, 0), (2, 3), (4, 4)):
        panel.point_at(0, row, column, found)
        assert tip.locator("strong").inner_text() == rows[row][1 + column]
        box, at = tip.bounding_box(), panel.map().bounding_box()
        x, y = at["x"] + found["columns"][column], at["y"] + found["rows"][row]
        away = max(box["x"] - x, x - box["x"] - box["width"])
        assert 0 < away < 40
        assert abs(box["y"] - y) < 40
    panel.map().focus()
    panel.page.keyboard.press("Escape")
    assert not tip.is_visible()
    panel.point_at(0, 1, 1, found)
    assert tip.is_visible()
    panel.page.mouse.move(1, 1)
    assert not tip.is_visible()


# Zoom


def test_a_large_map_is_zoomed_into_by_keyboard_and_walked(visit, bare):
    panel, widget = Panel(visit(bare("large"))), of_many()
    assert panel.output("Zoom") == "all 150"
    panel.map().press("PageUp")
    panel.map().press("Home")
    before = panel.cells()["size"]
    panel.press("Zoom", *["ArrowRight"] * 4)
    assert panel.output("Zoom") == "48 of 150"
    settle(panel.page)
    after = panel.cells()
    assert len(after["columns"]) == 48
    assert len(after["rows"]) == 48
    assert after["size"] > before
    panel.map().press("End")  # out of what is on show, which goes along
    settle(panel.page)
    panel.point_at(0, 0, 149)
    assert "(row 0)" in panel.readout()
    assert "key 149 (column 149)" in panel.readout()
    assert f"weight {float(widget.shown()[0, 149]):.3f}" in panel.readout()
    panel.map().press("-")
    assert panel.output("Zoom") == "64 of 150"
    for _ in range(9):
        panel.map().press("-")
    assert panel.output("Zoom") == "all 150"
    panel.map().press("+")
    assert panel.output("Zoom") != "all 150"


# The table


def test_a_large_table_names_the_strongest_of_each_row_and_says_so(visit, bare):
    panel, widget = Panel(visit(bare("large"))), of_many()
    _, *rows = panel.table()
    note = panel.el.locator(".attn-root caption").inner_text()
    assert note.startswith("Of each row the 5 strongest of 150 columns")
    weights = widget.shown().masked_fill(~decode(widget.data["mask"]), -1)
    top = weights.topk(5)
    assert len(rows) == 72
    for i, (_, *cells) in enumerate(rows):
        values = [float(cell.split()[1]) for cell in cells]
        torch.testing.assert_close(torch.tensor(values).double(), top.values[i], atol=6e-4, rtol=0)
        assert int(cells[0].split()[0]) == int(top.indices[i][0])


# Room, light and paper


def test_a_sharp_screen_gets_a_sharp_canvas(visit, bare):
    panel = Panel(visit(bare("scores"), device_scale_factor=2))
    drawn = panel.map().evaluate("(canvas) => canvas.width")
    assert drawn == pytest.approx(2 * panel.map().bounding_box()["width"], abs=2)


def test_a_dark_page_is_printed_light(visit, bare):
    light = Panel(visit(bare("arrows"), color_scheme="light")).picture()
    panel = Panel(visit(bare("arrows"), color_scheme="dark"))
    assert panel.picture() != light
    panel.page.emulate_media(media="print")
    assert panel.picture() == light
    panel.page.emulate_media(media="screen")
    assert panel.picture() != light


def test_forced_colours_are_the_ones_that_are_drawn_in(visit, bare):
    page = watched(visit, bare("scores"), color_scheme="dark", forced_colors="active").page
    ink = page.evaluate("""() => {
      const probe = document.body.appendChild(document.createElement("span"));
      probe.style.color = "CanvasText";
      const parts = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
      probe.remove();
      return "#" + parts.map((part) => part.toString(16).padStart(2, "0")).join("");
    }""")
    found = page.evaluate("written.map(({ text, colour }) => [text, colour])")
    labels = {colour for text, colour in found if text in ("time", "flies")}
    assert labels == {ink}
