"""The softmax tile by tile on a page: what it computes, what moves, what a pointer does."""

import re

import pytest
import torch
from playwright.sync_api import Browser

from attn_notes.masks import masked_softmax
from attn_notes.widgets import OnlineSoftmax
from tests.browser.journeys import FORGET, MASKED, assert_shown
from tests.browser.modules import assert_close, functions_of
from tests.browser.panel import Panel, stop_time
from tests.oracles import rng
from tests.test_online import ROWS, values_for
from tests.widgets import of_online

STEPS = """(...given) => onlineSoftmax(...given).map((step) => ({ ...step,
  exps: Array.from(step.exps) }))"""
FLOOR, TOP, LABEL = 124, 30, 60  # of the picture: where scores end, and the room for m
RANGE = -4, 3  # the scores that it shows


@pytest.mark.parametrize("tile", [1, 2, 3, 64])
def test_each_step_is_torch_s_at_every_edge(chromium: Browser, tile):
    with functions_of(chromium, "online") as call:
        for row in ROWS.values():
            values, scores = values_for(row), torch.tensor(row, dtype=torch.float64)
            for forget in (False, True):
                steps = call(STEPS, row, values.tolist(), tile, forget)
                widget = OnlineSoftmax(row, values, tile=tile)
                widget.forget = forget
                shown = widget.shown()
                for name, expected in shown._asdict().items():
                    assert_close([step[name] for step in steps], expected)
                sums = torch.tensor([step["sums"] for step in steps], dtype=torch.float64)
                assert_close((shown.total[:, None] * shown.output).tolist(), sums)
                if not forget:
                    assert_close(steps[-1]["output"], masked_softmax(scores) @ values)
                maxima = [-torch.inf, *shown.maximum.tolist()]
                for step, old, new in zip(steps, maxima, maxima[1:], strict=False):
                    factor = 0.0 if old == -torch.inf else torch.tensor(old - new).exp()
                    assert step["rescale"] == pytest.approx(float(factor), abs=1e-6)


class Picture:
    """Where the scores stand in the picture, on the page."""

    def __init__(self, panel: Panel, widget: OnlineSoftmax) -> None:
        self.box = panel.el.locator("canvas").first.bounding_box()
        self.pitch = (self.box["width"] - 4 - LABEL) / len(widget.scores)

    def __call__(self, n: int, score: float) -> tuple[float, float]:
        low, high = RANGE
        down = FLOOR - 4 - (score - low) / (high - low) * (FLOOR - 4 - TOP)
        return self.box["x"] + 4 + (n + 0.5) * self.pitch, self.box["y"] + down


def test_a_score_is_dragged_masked_in_the_strip_and_open_again(visit, bare):
    panel, widget = Panel(visit(bare("online"))), of_online()
    place, mouse = Picture(panel, widget), panel.page.mouse
    mouse.move(*place(2, widget.scores[2]))
    mouse.down()
    mouse.move(*place(2, 1.5))
    widget.key = 2
    widget.scores = [*widget.scores[:2], float(panel.output("its score")), *widget.scores[3:]]
    assert widget.scores[2] == pytest.approx(1.5, abs=0.11)
    assert_shown(panel, widget)
    x, _ = place(2, 0)
    mouse.move(x, place.box["y"] + FLOOR + 8)
    widget.masked = [2]
    assert_shown(panel, widget)
    assert panel.value(MASKED)
    mouse.move(*place(2, -1.0))
    mouse.up()
    widget.masked = []
    widget.scores = [*widget.scores[:2], float(panel.output("its score")), *widget.scores[3:]]
    assert widget.scores[2] == pytest.approx(-1.0, abs=0.11)
    mouse.move(*place(2, 2.0))
    assert_shown(panel, widget)


def test_a_link_opens_a_tile_and_a_step_and_nonsense_changes_nothing(visit, bare):
    address, widget = bare("online"), of_online()
    widget.tile, widget.step, widget.masked, widget.forget = 2, 1, [3], True
    state = "online?tile=2&step=1&masked=[3]&forget=true"
    assert_shown(Panel(visit(f"{address}#{state}")), widget)
    for wrong in ("tile=0.5", "step=-1", "scores=[1]", "scores=[null,1,1,1,1]", "key=65"):
        assert_shown(Panel(visit(f"{address}#online?{wrong}")), of_online())


def test_the_last_of_the_formulas_is_the_softmax_and_forgetting_shows_another(visit, bare):
    panel, widget = Panel(visit(bare("online"))), of_online()
    panel.press("Step", "End")
    scores = torch.tensor(widget.scores, dtype=torch.float64)
    right = masked_softmax(scores) @ torch.tensor(widget.data["values"], dtype=torch.float64)

    def found() -> list[torch.Tensor]:
        said = panel.el.locator("pre").inner_text().replace("\u2212", "-").splitlines()[-2:]
        numbers = (re.search(r"\((\S+), (\S+)\)", line).groups() for line in said)
        return [torch.tensor([float(number) for number in pair]).double() for pair in numbers]

    for output in found():
        torch.testing.assert_close(output, right, rtol=0, atol=6e-4)
    panel.press(FORGET, " ")
    output, softmax = found()
    torch.testing.assert_close(softmax, right, rtol=0, atol=6e-4)
    assert (output - right).norm() > 0.05
    assert "but are not. The output is not the" in panel.el.locator(".attn-said").inner_text()


def test_what_was_summed_shrinks_before_one_s_eyes_unless_motion_is_unwelcome(visit, bare):
    still = Panel(visit(bare("online")))
    still.press("Step", "ArrowRight")
    whole = still.picture()
    page = visit(bare("online"))
    page.emulate_media(reduced_motion="no-preference")
    stop_time(page)
    panel = Panel(page)
    panel.press("Step", "ArrowRight")
    seen = []
    for _ in range(9):
        page.clock.run_for(100)
        seen.append(panel.picture(settled=False))
    assert len(set(seen)) > 4
    assert seen[-2:] == [whole, whole]


def test_the_widget_fits_on_a_screen_and_holds_the_most_keys(visit, tmp_path):
    words = [*"abcd", "when", "the", "hot", "wind", "rose", "old", "mill", "again"]
    values = torch.rand(64, 2, generator=rng(1))
    for count, tokens, tallest in ((12, words, 600), (64, None, 640)):
        widget = OnlineSoftmax(torch.arange(count).sin(), values[:count], tokens=tokens)
        widget.save_html(tmp_path / "saved.html")
        page = visit((tmp_path / "saved.html").as_uri(), width=1280)
        assert page.locator(".attn-root").bounding_box()["height"] <= tallest
        assert_shown(Panel(page), widget)
