"""The softmax tile by tile on a page: what it computes, what moves, what a pointer does."""

import re

import pytest
import torch

from attn_notes.masks import masked_softmax
from attn_widgets import OnlineSoftmax
from tests.browser.journeys import FORGET, MASKED, assert_shown
from tests.browser.modules import assert_close
from tests.browser.panel import Panel, number
from tests.oracles import rng
from tests.test_online import ROWS, values_for
from tests.widgets import of_online

MODULE = "online"
STEPS = """(...given) => onlineSoftmax(...given).map((step) => ({ ...step,
  exps: Array.from(step.exps) }))"""
FLOOR, TOP, LABEL = 124, 30, 60  # of the picture: where scores end, and the room for m
RANGE = -4, 3  # the scores that it shows


@pytest.mark.parametrize("tile", [1, 2, 3, 64])
def test_each_step_is_torch_s_at_every_edge(js, tile):
    for row in ROWS.values():
        values, scores = values_for(row), torch.tensor(row, dtype=torch.float64)
        for forget in (False, True):
            steps = js(STEPS, row, values.tolist(), tile, forget)
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


def test_a_score_is_dragged_masked_in_the_strip_and_open_again(visit, bare):
    panel, widget = Panel(visit(bare("online"))), of_online()
    mouse, box = panel.page.mouse, panel.el.locator("canvas").first.bounding_box()
    pitch, (low, high) = (box["width"] - 4 - LABEL) / len(widget.scores), RANGE
    x = box["x"] + 4 + 2.5 * pitch

    def move_to(score: float) -> None:
        down = FLOOR - 4 - (score - low) / (high - low) * (FLOOR - 4 - TOP)
        mouse.move(x, box["y"] + down)

    def assert_moved_to(score: float) -> None:
        widget.scores = [*widget.scores[:2], number(panel.output("its score")), *widget.scores[3:]]
        assert widget.scores[2] == pytest.approx(score, abs=0.11)
        assert_shown(panel, widget)

    move_to(widget.scores[2])
    mouse.down()
    move_to(1.5)
    widget.key = 2
    assert_moved_to(1.5)
    mouse.move(x, box["y"] + FLOOR + 8)
    assert_shown(panel, widget, masked=[2])
    assert panel.value(MASKED)
    move_to(-1.0)
    mouse.up()
    widget.masked = []
    assert_moved_to(-1.0)
    move_to(2.0)
    assert_shown(panel, widget)


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
    assert "but are not. The output is not the" in panel.said()


def test_the_formulas_that_change_are_lit_until_others_do(visit, bare):
    panel = Panel(visit(bare("online")))
    lines = panel.el.locator("pre span")

    def found() -> tuple[list[str], list[bool]]:
        lit = "(all) => all.map((one) => one.classList.contains('attn-lit'))"
        return lines.all_inner_texts(), lines.evaluate_all(lit)

    before, lit = found()
    assert len(before) == 8
    assert not any(lit)
    for label, key in (("Step", "ArrowRight"), ("Step", "End"), (FORGET, " "), ("Key", "End")):
        panel.press(label, key)
        after, now = found()
        changes = [a != b for a, b in zip(before, after, strict=True)]
        assert any(changes) == (label != "Key")  # another key changes no formula
        lit = changes if any(changes) else lit
        assert now == lit
        before = after
    assert 0 < sum(lit) < 8


def test_the_widget_fits_on_a_screen_and_holds_the_most_keys(visit, tmp_path):
    words = [*"abcd", "when", "the", "hot", "wind", "rose", "old", "mill", "again"]
    values = torch.rand(64, 2, generator=rng(1))
    for count, tokens, tallest in ((12, words, 640), (64, None, 680)):
        widget = OnlineSoftmax(torch.arange(count).sin(), values[:count], tokens=tokens)
        widget.save_html(tmp_path / "saved.html")
        page = visit((tmp_path / "saved.html").as_uri(), width=1280)
        assert page.locator(".attn-root").bounding_box()["height"] <= tallest
        assert_shown(Panel(page), widget)
