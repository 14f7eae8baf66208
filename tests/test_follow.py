"""A token followed in Python: its numbers are those of the model's own forward pass."""

import itertools
import json

import pytest
import torch
from torch.testing import assert_close

from attn_notes.data import START, Vocabulary
from attn_notes.transformer import DecoderOnly, Encoder, Transformer
from attn_notes.widgets import FollowToken
from attn_notes.widgets.packing import checksum
from tests.parts import shown
from tests.widgets import WORDS, of_follow, of_player, random_decoder, random_transformer

KINDS = {
    "pre-norm": {"norm": "pre"},
    "post-norm, gelu": {"norm": "post", "activation": "gelu"},
    "no positions, one head": {"positions": "none", "num_heads": 1},
    "one block": {"num_layers": 1, "num_decoder_layers": 3},
}
every_kind = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)


def random_encoder(**changes: object) -> Encoder:
    return random_transformer(Encoder, target_vocab_size=None, **changes).eval()


def every_step(widget: FollowToken) -> list[tuple[str, dict[str, torch.Tensor]]]:
    """Name and numbers of each step."""
    steps = [name for name, *_ in widget._steps()]
    return [(name, shown(widget)) for widget.step, name in enumerate(steps)]


def numbers(widget: FollowToken, name: str, strip: str) -> torch.Tensor:
    """A strip of all steps with this name, one below the other."""
    steps = [n for n, (one, *_) in enumerate(widget._steps()) if one == name]
    return torch.stack([shown(widget)[strip] for widget.step in steps])


@every_kind
@pytest.mark.parametrize("make", [random_encoder, random_decoder])
def test_streams_weights_and_outputs_are_those_of_the_model(make, changes):
    widget = FollowToken(make(**changes), WORDS)
    model = widget._model
    body = getattr(model, "body", model)
    causal = isinstance(model, DecoderOnly)
    ids = torch.tensor([[0, 1, 2, 3, 4]])
    options = {"need_weights": True, "need_hidden_states": True, "is_causal": causal}
    with torch.no_grad():
        read = body(ids, **options)
    last = "LN(x)" if body.config.norm == "pre" else "x"
    for widget.token in range(5):
        t = widget.token
        before = torch.stack(read.hidden_states)[:-1, 0, t]
        assert_close(numbers(widget, "start", "x"), before)
        assert_close(numbers(widget, "out", last)[0], read.output[0, t])
        for widget.head in range(body.config.num_heads):
            weights = torch.stack(read.weights)[:, 0, widget.head, t]
            found = numbers(widget, "softmax", "weight")
            assert_close(found.nan_to_num(), weights)
            assert found.isnan().equal((torch.arange(5) > t).expand_as(found) & causal)


def test_a_decoder_s_last_step_gives_the_model_s_probabilities_in_order():
    widget = of_follow()
    ids = torch.tensor([[START, 4, 5, 6, 7, 8]])
    with torch.no_grad():
        logits = widget._model(ids).logits[0]
    for widget.token in range(6):
        widget.step = len(widget._steps()) - 1
        last_step = shown(widget)
        best = logits[widget.token].topk(6)
        assert_close(last_step["logit"], best.values)
        assert_close(last_step["probability"], logits[widget.token].softmax(-1)[best.indices])


@every_kind
def test_a_translation_is_followed_on_both_sides(changes):
    sizes = {"vocab_size": 14, "target_vocab_size": 9, "tie_embeddings": False}
    model = random_transformer(**sizes, noise=0.9, seed=13, **changes)
    player = of_player()
    digits, words = Vocabulary([*"0123456789"]), Vocabulary(WORDS)
    player = type(player).__mro__[1](model, digits, words, examples=("407",), most=5)
    widget, made = FollowToken(player, "19"), player.translation("19")
    assert isinstance(widget._model, Transformer)
    source = torch.tensor([digits.encode([*"19"])])
    inputs = torch.tensor([[START, *made.tokens[:-1]]])
    with torch.no_grad():
        logits, weights = widget._model(source, torch.tensor([2]), inputs, need_weights=True)
    assert_close(torch.stack(weights.cross), torch.stack(made.weights.cross))
    for widget.token in range(2):
        expected = torch.stack(weights.encoder)[:, 0, 0, widget.token]
        assert_close(numbers(widget, "softmax", "weight"), expected)
    for t in range(len(made.tokens)):
        widget.token = 2 + t
        softmax = [n for n, (name, *_) in enumerate(widget._steps()) if name == "softmax"]
        found = [shown(widget)["weight"] for widget.step in softmax]
        assert_close(torch.stack(found[::2]).nan_to_num(), torch.stack(weights.decoder)[:, 0, 0, t])
        assert_close(torch.stack(found[1::2]), torch.stack(weights.cross)[:, 0, 0, t])
        expected = logits[0, t].softmax(-1).topk(6).values
        assert_close(numbers(widget, "out", "probability")[0], expected)


def test_the_numbers_of_a_step_add_up_to_those_of_the_next():
    widget = of_follow()
    for widget.token in range(6):
        steps = every_step(widget)
        for (name, here), (_, after) in itertools.pairwise(steps):
            if name == "scores":
                sums = torch.stack([here[f"q \u00d7 k {j}"].sum() for j in range(6)])
                assert_close(sums, here["q \u00b7 k"])
                assert_close(after["\u00f7 \u221aD"], sums / 2)  # D = 4
            if name == "values":
                assert_close(sum(here[f"weight \u00d7 v {j}"] for j in range(6)), after["z 0"])
            if name == "add":
                assert_close(after["x"], here["x"] + here["y"])


def test_the_model_of_a_player_stands_in_a_page_once_and_is_named_by_its_checksum():
    player = of_player()
    widget = FollowToken(player, "407", "19")
    state = json.loads(json.dumps(widget.page_state()))
    assert state["data"]["model"] == {"same": checksum(player.data["model"])}
    assert widget.data["model"] is player.data["model"]
    assert len(widget.page_html()) < 5000
    other = FollowToken(random_encoder(seed=4), ["a"])
    assert checksum(player.data["model"]) != checksum(other.data["model"])


def test_the_table_says_what_the_head_reads_in_the_block_of_the_step():
    widget = of_follow()
    widget.step, widget.head = 14, 1
    caption, columns, rows = widget._table()
    assert caption.startswith("\u201cflies\u201d in block 1, head 1; step 15 of 25: scores. ")
    assert columns == ["<start>", *WORDS]
    assert [row[0] for row in rows] == ["q \u00b7 k", "\u00f7 \u221aD", "mask", "e^s", "weight"]
    assert rows[-1][4:] == ["masked"] * 3
    assert sum(float(cell) for cell in rows[-1][1:4]) == pytest.approx(1, abs=0.002)


def test_a_vocabulary_gives_the_ids_and_a_decoder_reads_start_first():
    for make, first in ((random_decoder, [1]), (random_encoder, [])):
        widget = FollowToken(make(vocab_size=9), ["like", "?", "an"], vocab=Vocabulary(WORDS))
        ids, tokens = widget.data["sentences"][0]["source"]
        assert ids == [*first, 6, 3, 7]
        assert tokens == [*["<start>"][: len(first)], "like", "<unk>", "an"]
