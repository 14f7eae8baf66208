"""Stepping through a decoding: by buttons, slider and time, and looking back at earlier words."""

import re

import pytest
import torch
from playwright.sync_api import expect

from attn_notes.data import END, PAD, Vocabulary
from attn_notes.decoding import greedy
from attn_notes.scores import AdditiveScore
from attn_notes.seq2seq import AttentionDecoder, RNNEncoder, Seq2Seq
from attn_widgets import AlignmentSteps, Example
from attn_widgets.encoding import decode
from attn_widgets.packing import pack_seq2seq, unpack_weights
from tests.browser.bare import page_of
from tests.browser.journeys import COLOUR, assert_shown
from tests.browser.modules import assert_close
from tests.browser.panel import (
    PIXELS,
    Panel,
    assert_cells,
    near_cividis,
    recording,
    rgb,
    settle,
    stop_time,
    strengths,
)
from tests.colours import LIGHT
from tests.widgets import of_steps


def test_each_step_adds_its_row_and_leaves_those_to_come_blank(visit, bare):
    panel, widget = Panel(visit(bare("steps"))), of_steps()
    panel.press("Step", "End")
    found = panel.cells()
    for step in (4, 3, 2, 1, 0):
        assert_shown(panel, widget, step=step)
        places = [[x + 4, y + 4] for y in found["rows"] for x in found["columns"]]
        pixels = panel.map().evaluate(PIXELS, places)
        for i in range(5):
            for j in range(5):
                near = near_cividis(float(widget.shown()[i, j])) if i <= step else []
                expected = near or [rgb(LIGHT["surface"])]
                assert pixels[5 * i + j][:3] in expected, (step, i, j)
        panel.press("Step", "ArrowLeft")


def test_links_are_as_strong_as_the_weights_of_the_step(visit, bare):
    page = recording(visit, bare("steps"))
    panel, widget = Panel(page), of_steps()
    for step, shared in ((2, False), (3, True), (4, True)):
        if step == 3:
            panel.press(COLOUR, "Space")
        settle(page)  # no curve of an earlier step comes late
        page.evaluate("curves.splice(0)")
        panel.press("Step", "ArrowRight")
        widget.step = step
        weights = widget.shown()
        whole = decode(widget._now()[1]["weights"])
        top = float(whole.max()) if shared else 1.0
        strong = [float(w) / top for w in weights[step] if w / top > 0.004]
        others = [0.4 * float(w) / top for w in weights[:step].flatten() if w / top > 0.15]
        assert strengths(page, "accent") == pytest.approx(strong, abs=1e-4)
        assert strengths(page, "muted") == pytest.approx(others, abs=1e-4)


def test_play_goes_on_to_the_last_step_and_there_starts_again(visit, bare):
    page = visit(bare("steps"))
    stop_time(page)
    panel = Panel(page)
    play = panel.button(re.compile("Play|Pause"))

    def after(milliseconds: int) -> tuple[float, str]:
        page.clock.run_for(milliseconds)
        return panel.value("Step"), play.inner_text()

    play.press("Enter")
    assert after(10) == (2, "Pause")
    assert after(900) == (3, "Pause")
    play.press("Enter")
    assert after(5000) == (3, "Play")
    play.press("Enter")
    assert after(10) == (4, "Pause")
    assert after(900) == (4, "Play")
    assert after(5000) == (4, "Play")
    play.press("Enter")
    assert after(10) == (0, "Pause")
    assert after(900) == (1, "Pause")
    panel.press("Example", "ArrowDown")
    assert after(5000) == (0, "Play")


def test_a_look_back_at_an_earlier_word_leaves_the_step_where_it_is(visit, bare):
    panel, widget = Panel(visit(bare("steps"))), of_steps()
    panel.press("Step", "End")
    figure, last = panel.el.locator(".attn-links canvas"), panel.said()
    words = dict(enumerate(widget._now()[1]["target"]))
    figure.focus()
    here = panel.picture()
    walk = {"ArrowLeft": 3, "Home": 0, "ArrowRight": 1, "End": 4}
    for key, step in walk.items():
        figure.press(key)
        assert panel.said().startswith(f"Step {step + 1} of 5, \u201c\u2068{words[step]}\u2069")
        assert panel.value("Step") == 4
        assert (panel.picture() == here) == (step == 4)
    panel.map().press("PageUp")
    assert panel.said().startswith("Step 1 of 5")
    panel.press("Step", "ArrowLeft", "ArrowRight")
    assert panel.said() == last
    box, mouse = figure.bounding_box(), panel.page.mouse
    for away in (box["y"] + 4, box["y"] - 60):  # among the words that are read, and outside
        mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 34)
        assert panel.said().startswith("Step 3 of 5")
        mouse.move(box["x"] + box["width"] / 2, away)
        assert panel.said() == last


# What is typed on a page

MODULE = "alignment"

KNOWN = ["drei", "und", "siebzig", "Millionen"], ["seventy", "-three", "million,"]


def random_seq2seq() -> Seq2Seq:
    torch.manual_seed(3)
    encoder = RNNEncoder(8, 5, 6, bidirectional=True)
    decoder = AttentionDecoder(7, 5, 11, 12, score=AdditiveScore(11, 12, 13))
    model = Seq2Seq(encoder, decoder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return unpack_weights(pack_seq2seq(model), model)


def in_python(model: Seq2Seq, ids: list[int], most: int) -> tuple[list[int], torch.Tensor]:
    """The tokens before END, and the weights of each."""
    found = greedy(model, torch.tensor([ids]), max_length=most)
    tokens = [token for token in found.tokens[0].tolist() if token not in (PAD, END)]
    return tokens, found.state.weights[0, : len(tokens)]


def test_the_page_s_recurrent_network_says_what_torch_says(js):
    model = random_seq2seq()
    read = (
        "(stored, all, most) => all.map((ids) => new RecurrentModel(stored).translate(ids, most))"
    )
    texts = [[4], [6], [4, 5, 6, 7], [7, 7, 6, 5, 4, 3, 7], [6, 5] * 9]
    with torch.no_grad():
        for found, ids in zip(js(read, pack_seq2seq(model), texts, 20), texts, strict=True):
            tokens, weights = in_python(model, ids, 20)
            assert found["tokens"] == tokens
            assert tokens
            assert_close(found["weights"], weights)


def typed_page(folder) -> str:
    vocabs = [Vocabulary(words) for words in KNOWN]
    widget = AlignmentSteps(
        [Example(["drei"], "x", {"early": (["x"], torch.ones(1, 1))})],
        model=(random_seq2seq(), *vocabs),
        asks="a number",
    )
    return page_of(folder, widget.page_html())


def test_a_text_is_translated_on_the_page_and_by_a_link(visit, tmp_path):
    model, address = random_seq2seq(), typed_page(tmp_path)
    ids = [4, 5, 6, 7]
    with torch.no_grad():
        tokens, weights = in_python(model, ids, 60)
    panel = Panel(visit(address))
    panel.unfold()
    panel.el.get_by_label("Type a number").fill("Dreiundsiebzig millionen")
    panel.page.keyboard.press("Enter")
    linked = Panel(visit(f"{address}#alignment?text=dreiundsiebzig%20Millionen"))
    words = [KNOWN[1][token - 4] if token > 3 else "<unk>" for token in tokens]
    for shown in (panel, linked):
        shown.press("Step", "End")
        header, *rows = shown.table()
        assert header[1:] == ["drei", "und", "siebzig", "Millionen"]
        assert [row[0] for row in rows] == words
        assert_cells(rows, weights)
        assert "has no reference" in shown.el.locator(".attn-verdict").inner_text()


def test_what_the_network_cannot_read_is_said_and_changes_nothing(visit, tmp_path):
    panel = Panel(visit(typed_page(tmp_path)))
    before = panel.table()
    panel.unfold()
    for text, words in (
        ("drei vier", "\u201c\u2068vier\u2069\u201d is not made of words that the network knows"),
        ("und", "the network ends at once"),
        ("<img src=x onerror=ran=1>", "is not made of words"),
        ("und " * 41, "at most 40 words, got 41"),
    ):
        panel.el.get_by_label("Type a number").fill(text)
        panel.page.keyboard.press("Enter")
        expect(panel.el.locator(".attn-typing .attn-note")).to_contain_text(words)
        assert panel.table() == before
    assert panel.page.evaluate("window.ran") is None
