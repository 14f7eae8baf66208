"""What the language model in the page makes of a text, in Python."""

import pytest
import torch

from attn_notes.data import END, START, Vocabulary
from attn_notes.decoding import sampling_distribution
from attn_notes.widgets.packing import unpack_transformer
from attn_notes.widgets.player import chance
from attn_notes.widgets.sampler import window_start
from tests.players import next_logits
from tests.widget_errors import writer_of
from tests.widgets import of_writer


def test_a_window_holds_the_position_and_never_more_than_the_context():
    for context in range(1, 12):
        starts = [window_start(i, context) for i in range(60)]
        assert all(start <= i < start + context for i, start in enumerate(starts))
        for i in range(1, 60):
            if starts[i] != starts[i - 1]:  # full, and gone on with from the last half
                assert i - starts[i - 1] == context
                assert i - starts[i] + 1 == max(1, context // 2)
    assert [window_start(i, 4) for i in range(9)] == [0, 0, 0, 0, 3, 3, 3, 6, 6]


@pytest.mark.parametrize("context", [1, 2, 5, 6])
def test_the_probabilities_are_those_after_the_window_and_sampled_as_decoding_does(context):
    widget = of_writer()
    widget.data = {**widget.data, "context": context}
    model, tokens = unpack_transformer(widget.data["model"]), [START, *widget._tokens()]
    logits = next_logits(model, tokens, context)
    for widget.position, row in enumerate(logits):
        own, after = widget.distributions()
        assert own.sum() == pytest.approx(1)
        assert own[: START + 1].eq(0).all()
        torch.testing.assert_close(own, row.softmax(-1))
        cut = sampling_distribution(row, temperature=0.8, top_k=3, top_p=0.9)
        torch.testing.assert_close(after, cut)
        assert 1 <= (after > 0).sum() <= 3


def test_a_seed_says_the_same_one_by_one_and_all_at_once():
    widget, texts = of_writer(), []
    widget.top_k = 19
    for widget.seed, pieces in ((9, [9]), (9, [1] * 9), (10, [9])):
        widget.said = []
        for count in pieces:
            widget.generate(count)
        texts.append(widget.said)
    assert texts[0] == texts[1] != texts[2]
    assert widget._at() == len(widget._tokens())


def test_what_is_said_falls_as_the_shares_do():
    widget = of_writer()
    widget.said, widget.position = [], 99
    shares, drawn = widget.distributions()[1], []
    below = shares.cumsum(0) - shares
    for widget.seed in range(100):
        widget.said = []
        widget.generate()
        drawn += widget.said
        assert 0 <= chance(widget.seed, 0) - below[drawn[-1]] < shares[drawn[-1]]
    counts = torch.bincount(torch.tensor(drawn), minlength=21) / 100
    assert (counts - shares).abs().max() < 0.12


def test_a_text_ends_with_the_token_that_ends_it_or_when_it_is_full():
    widget = of_writer()
    widget.said = [*widget.said, END]
    ended = widget.said
    widget.generate(5)
    assert widget.said == ended
    assert widget._at() == len(widget._tokens()) - 1
    assert widget.text == "4078like8\nlike\ufffd"
    widget.said = [12] * 12
    widget.generate(99)
    assert len(widget._tokens()) == widget.data["most"] == 16
    widget.prompt, widget.said = "", []
    widget.generate(3)
    assert len(widget.said) == 3


def test_lines_are_read_as_one_writes_them_on_any_system():
    widget = of_writer()
    widget.prompt = "4\r\n0\r7"
    assert widget.prompt == "4\n0\n7"
    again = writer_of(vocab=Vocabulary([*"a\n"]), prompt="a\r\na", examples=["\r"])
    assert (again.prompt, again.data["examples"]) == ("a\na", ["\n"])
