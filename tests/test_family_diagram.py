"""The diagram of the three families: its masks, and what an output can know, as models have it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attn_notes.masks import causal_mask, prefix_mask
from attn_notes.transformer import (
    DecoderOnly,
    Encoder,
    MaskedLanguageModel,
    Transformer,
    TransformerConfig,
)
from attn_notes.widgets import FamilyDiagram
from attn_notes.widgets.family import FAMILIES
from tests.widgets import wired

SOURCE, TARGET = ["time", "flies", "like", "an", "arrow"], ["Zeit", "vergeht", "schnell"]
SIZES = [(1, 1), (1, 4), (5, 1), (5, 3), (7, 11)]
every_family = pytest.mark.parametrize("family", FAMILIES)


def of_size(S: int, T: int, **given: object) -> FamilyDiagram:
    return FamilyDiagram([f"s{n}" for n in range(S)], [f"t{n}" for n in range(T)], **given)


# What goes in, what is asked for


def test_an_encoder_is_asked_for_the_hidden_word_alone():
    inputs, says, mask, encoder = FamilyDiagram(SOURCE, TARGET).wiring()
    assert inputs == ["time", "flies", "[MASK]", "an", "arrow"]
    assert says == [None, None, "like", None, None]
    assert mask.all()
    assert encoder == 0


def test_a_decoder_is_asked_for_the_next_token_everywhere():
    inputs, says, mask, encoder = FamilyDiagram(SOURCE, TARGET, family="decoder-only").wiring()
    assert inputs == ["<start>", *SOURCE]
    assert says == [*SOURCE, "<end>"]
    assert mask.equal(causal_mask(6))
    assert encoder == 0


@pytest.mark.parametrize("family", ["encoder-decoder", "prefix"])
def test_the_target_stands_one_place_later_below_than_above(family):
    inputs, says, mask, encoder = FamilyDiagram(SOURCE, TARGET, family=family).wiring()
    assert inputs == [*SOURCE, "<start>", *TARGET]
    assert says == [None] * 5 + [*TARGET, "<end>"]
    assert encoder == (5 if family == "encoder-decoder" else 0)
    assert mask.equal(prefix_mask(9, prefix=5))
    encoders, hidden, cross, decoders = mask[:5, :5], mask[:5, 5:], mask[5:, :5], mask[5:, 5:]
    assert encoders.all()
    assert not hidden.any()
    assert cross.all()
    assert decoders.equal(causal_mask(4))


@every_family
def test_the_place_picked_first_is_asked_for_the_masked_word_or_the_one_beside_it(family):
    for masked, (S, T) in ((2, (5, 3)), (3, (7, 1)), (0, (1, 1))):
        widget = of_size(S, T, family=family)
        asked = widget.wiring().says[widget.position]
        if family in ("encoder-only", "decoder-only"):
            assert asked == f"s{masked}"
        else:
            assert asked == (f"t{masked}" if masked < T else "<end>")


# What an output can know


@every_family
@pytest.mark.parametrize(("S", "T"), SIZES)
@pytest.mark.parametrize("layers", [1, 2, 6])
def test_what_an_output_can_know_is_a_power_of_the_masks(family, S, T, layers):
    widget = of_size(S, T, family=family)
    widget.num_layers = layers
    columns = len(widget.wiring().inputs)
    for widget.position in range(columns):
        mask, at = wired(family, S, T, layers, widget.position)
        assert widget.wiring().mask.equal(mask)
        assert widget.knows().equal(at[0]), widget


def config(**changes: object) -> TransformerConfig:
    sizes = {"vocab_size": 11, "embed_dim": 8, "num_heads": 2, "num_layers": 2, "ffn_dim": 12}
    return TransformerConfig(**sizes, **changes)


def outputs(family: str, S: int) -> Callable[[Tensor], Tensor]:
    """From tokens (C,) to what each position says or hands on, (C, anything)."""
    if family == "encoder-only":
        masked = MaskedLanguageModel(config())
        return lambda tokens: masked(tokens[None]).logits[0]
    if family == "decoder-only":
        causal = DecoderOnly(config())
        return lambda tokens: causal(tokens[None]).logits[0]
    if family == "prefix":
        body = Encoder(config())
        return lambda tokens: body(
            tokens[None], attn_mask=prefix_mask(len(tokens), prefix=S)
        ).output[0]
    both = Transformer(config(target_vocab_size=11))

    def run(tokens: Tensor) -> Tensor:
        source, lengths = tokens[None, :S], torch.tensor([S])
        memory = both.encoder(source).output[0]
        logits = both(source, lengths, tokens[None, S:])[0][0]
        return torch.cat([memory, logits[:, : memory.shape[1]]])

    return run


@every_family
def test_the_package_s_own_models_know_what_the_diagram_says_and_nothing_else(family):
    torch.manual_seed(0)
    widget = FamilyDiagram(SOURCE, TARGET, family=family)
    L = len(widget.wiring().inputs)
    run = outputs(family, len(SOURCE))
    tokens = torch.arange(L) % 6 + 4
    with torch.no_grad():
        before = run(tokens)
        for changed in range(L):
            other = tokens.clone()
            other[changed] = 10
            moved = ((run(other) - before).abs() > 1e-9).any(-1)
            for widget.position in range(L):
                assert bool(widget.knows()[changed]) == bool(moved[widget.position])


# In words


def test_the_table_says_what_each_reads_and_whether_the_picked_output_can_know_it():
    widget = FamilyDiagram(["a", "b"], ["c"], family="encoder-decoder")
    caption, columns, rows = widget._table()
    assert caption == "encoder-decoder, 2 blocks: what each position reads."
    assert columns == ["reads in each block", "is trained to say", "known at 2"]
    assert rows == [
        ("0 a", "0 to 1", "", "yes"),
        ("1 b", "0 to 1", "", "yes"),
        ("2 <start>", "2; the encoder's 0 to 1", "c", "yes"),
        ("3 c", "2 to 3; the encoder's 0 to 1", "<end>", "no"),
    ]
    widget = FamilyDiagram(["a"], ["c"])
    widget.num_layers = 1
    assert widget._table()[2] == [("0 [MASK]", "0", "a", "yes")]
    assert repr(widget).startswith("FamilyDiagram(encoder-only, 1 block: position 0 knows 1 of 1 t")
