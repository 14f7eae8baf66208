"""An explored function: its first slider plays, a curve runs along it."""

import re

import torch

from attn_widgets import explore
from tests.browser.bare import page_of
from tests.browser.panel import Panel, settle, stop_time

WORDS = ["acht", "hundert", "siebzig"]
LOSSES = [4.0, 2.0, 1.5, 1.25]


def of_training(**options: object):
    """A function of a step, with its loss at each."""
    return explore(
        lambda step, head: torch.eye(3)[:, :2] * (step + head) / 40,
        page=True,
        query_tokens=WORDS,
        key_tokens=["8", "7"],
        curve=("loss", LOSSES),
        **{"head": [0, 1], "step": (0, 30, 10), **options},
    )


def test_an_explored_slider_plays_to_its_end_and_stops_where_the_reader_moves_it(visit, tmp_path):
    page = visit(page_of(tmp_path, of_training().page_html()))
    stop_time(page)
    panel = Panel(page)
    play = panel.button(re.compile("Play|Pause"))

    def after(milliseconds: int) -> tuple[str, str]:
        page.clock.run_for(milliseconds)
        return panel.output("step"), play.inner_text()

    assert after(5000) == ("0", "Play")  # nothing moves by itself
    play.press("Enter")
    assert after(10) == ("10", "Pause")
    assert panel.table()[1][1] == "0.250"
    play.press("Enter")
    assert after(5000) == ("10", "Play")
    play.press("Enter")
    assert after(5000) == ("30", "Play")
    play.press("Enter")
    assert after(10) == ("0", "Pause")
    panel.press("step", "ArrowRight")
    assert after(5000) == ("10", "Play")


def test_the_curve_of_an_explored_slider_says_where_it_stands_and_moves_it(visit, tmp_path):
    page = visit(page_of(tmp_path, of_training().page_html()))
    panel = Panel(page)
    curve = panel.el.locator(".attn-curve canvas")
    assert curve.get_attribute("aria-label").endswith("at step 0 it is 4")
    before = curve.evaluate("(canvas) => canvas.toDataURL()")
    panel.press("step", "ArrowRight")
    settle(page)
    assert curve.get_attribute("aria-label").endswith("at step 10 it is 2")
    assert curve.evaluate("(canvas) => canvas.toDataURL()") != before
    assert panel.table(1)[1:] == [["0", "4"], ["10", "2"], ["20", "1.5"], ["30", "1.25"]]
    box = curve.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 24, box["y"] + 150)
    page.mouse.up()
    assert panel.output("step") == "30"
    page.mouse.move(box["x"] + 20, box["y"] + 100)
    assert panel.output("step") == "30"


def test_an_explored_function_that_needs_a_kernel_does_not_play(visit, tmp_path):
    still = explore(lambda step: torch.full((2, 2), step / 9), step=(0, 3, 1))
    assert Panel(visit(page_of(tmp_path, still.page_html()))).button("Play").count() == 0
