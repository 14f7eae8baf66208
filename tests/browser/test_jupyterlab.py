"""A real JupyterLab: the widgets live, from slider to Python and back."""

from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, expect

from tests.browser.lab import Lab, open_lab
from tests.browser.panel import assert_cells, drawn
from tests.hostile import HOSTILE, SCRIPTS

pytestmark = pytest.mark.xdist_group("lab")  # one server for all of them

CELLS = (
    """
import torch
from attn_notes.masks import masked_softmax
from attn_notes.widgets import AttentionHeatmap, explore

calls, heard = [], []

def falling(width):
    calls.append(width)
    places = torch.arange(4.0)
    return masked_softmax(-((places[:, None] - places) / width) ** 2)

scores = torch.tensor([[0.0, 2.0], [1.0, -1.0]])
live = AttentionHeatmap(scores=scores, query_tokens=["a", "b"])
live.observe(lambda change: heard.append(change["new"]), "temperature")
explorer = explore(falling, width=(0.5, 2.0, 0.5))
at_start = len(calls)
""",
    "live",
    "explorer",
    "print('temperature', live.temperature, 'heard', heard[-1:], 'row', live.row)",
    "live.temperature = 4.0",
    "print('width', explorer.values['width'], 'answered', len(calls) - at_start, explorer.error)",
    "explorer.values = {'width': 2.0}",
    f"AttentionHeatmap(torch.eye({len(HOSTILE)}), query_tokens={HOSTILE!a}, title={SCRIPTS[1]!r})",
)
HEATMAP, EXPLORER, TEMPERATURE, SET, WIDTH, SET_WIDTH, TOKENS = range(1, 8)


@pytest.fixture(scope="module")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(chromium, tmp_path_factory.mktemp("lab"), CELLS) as lab:
        for cell in (0, HEATMAP, EXPLORER):
            lab.run(cell)
        lab.page.locator(".attn-root").nth(1).wait_for()
        yield lab


def test_a_slider_moved_by_keyboard_changes_the_trait_in_python(lab: Lab):
    panel = lab.panel(HEATMAP)
    panel.press("Temperature", "End")
    expect(panel.control("Temperature").locator("xpath=../output")).to_have_text("20.00")
    assert "temperature 20.0 heard [20.0]" in lab.printed(TEMPERATURE)


def test_a_trait_set_in_python_moves_the_slider_and_the_numbers(lab: Lab):
    panel = lab.panel(HEATMAP)
    lab.run(SET)
    expect(panel.control("Temperature").locator("xpath=../output")).to_have_text("4.00")
    panel.el.locator("summary").click()
    # softmax of 0 and 2 over the temperature 4: 1 / (1 + e^0.5)
    expect(panel.el.locator("tbody td").first).to_have_text("0.378")


def test_arrow_keys_walk_the_heatmap_and_not_the_notebook(lab: Lab):
    panel = lab.panel(HEATMAP)
    panel.el.locator("canvas[tabindex]").focus()
    lab.page.keyboard.press("ArrowDown")
    expect(panel.el.locator(".attn-readout")).to_contain_text("(row 1)")
    assert "row 1" in lab.printed(TEMPERATURE)


def test_explore_is_answered_by_torch_as_the_reader_moves(lab: Lab):
    panel = lab.panel(EXPLORER)
    panel.el.locator("summary").click()
    before = panel.el.locator("tbody td").first.inner_text()
    panel.press("width", "ArrowRight")
    expect(panel.el.locator("tbody td").first).not_to_have_text(before)
    assert lab.printed(WIDTH) == "width 1.0 answered 1"


def test_an_explorer_set_in_python_moves_its_slider_and_its_map(lab: Lab):
    panel = lab.panel(EXPLORER)
    lab.run(SET_WIDTH)
    expect(panel.control("width").locator("xpath=../output")).to_have_text("2")
    rows = panel.table()[1:]
    places = torch.arange(4.0)
    weights = (-(((places[:, None] - places) / 2.0) ** 2)).softmax(-1)
    assert_cells(rows, weights)


def test_hostile_tokens_are_data_in_a_live_notebook(lab: Lab):
    lab.run(TOKENS)
    panel = lab.panel(TOKENS)
    expect(panel.el.locator(".attn-title")).to_have_text(SCRIPTS[1])
    assert panel.table()[0][1:] == [drawn(token) for token in HOSTILE]
    assert lab.page.evaluate("window.ran") is None
    assert panel.el.locator("img, script, iframe, svg, a").count() == 0
