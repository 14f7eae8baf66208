"""The diagram of the three families: its masks, and what an output can know, as models have it."""

import pytest
import torch
from torch import Tensor

from attn_notes import transformer
from attn_notes.masks import prefix_mask
from attn_notes.widgets import FamilyDiagram
from attn_notes.widgets.family import FAMILIES
from tests.widgets import wired

SOURCE, TARGET = ["time", "flies", "like", "an", "arrow"], ["Zeit", "vergeht", "schnell"]
SIZES = [(1, 1), (1, 4), (5, 1), (5, 3), (7, 11)]
every_family = pytest.mark.parametrize("family", FAMILIES)


def of_size(S: int, T: int, **given: object) -> FamilyDiagram:
    return FamilyDiagram([f"s{n}" for n in range(S)], [f"t{n}" for n in range(T)], **given)


MASKED = ["time", "flies", "[MASK]", "an", "arrow"]
PAIR = [*SOURCE, "<start>", *TARGET], [None] * 5 + [*TARGET, "<end>"]
WIRED = {
    "encoder-only": (MASKED, [None, None, "like", None, None]),
    "decoder-only": (["<start>", *SOURCE], [*SOURCE, "<end>"]),
    "encoder-decoder": PAIR,
    "prefix": PAIR,
}


@every_family
def test_each_family_is_asked_for_its_words_at_their_places(family):
    inputs, says, _, encoder = FamilyDiagram(SOURCE, TARGET, family=family).wiring()
    assert (inputs, says) == WIRED[family]
    assert encoder == 5 * (family == "encoder-decoder")


@every_family
def test_the_place_picked_first_is_asked_for_the_masked_word_or_the_one_beside_it(family):
    for masked, (S, T) in ((2, (5, 3)), (3, (7, 1)), (0, (1, 1))):
        widget = of_size(S, T, family=family)
        asked = widget.wiring().says[widget.position]
        if family in ("encoder-only", "decoder-only"):
            assert asked == f"s{masked}"
        else:
            assert asked == (f"t{masked}" if masked < T else "<end>")


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


KINDS = {"encoder-only": transformer.MaskedLanguageModel, "decoder-only": transformer.DecoderOnly}
KINDS |= {"encoder-decoder": transformer.Transformer, "prefix": transformer.Encoder}


def outputs(model: torch.nn.Module, tokens: Tensor, S: int) -> Tensor:
    """From tokens (C,) to what each position says or hands on, (C, anything)."""
    if isinstance(model, transformer.Encoder):
        return model(tokens[None], attn_mask=prefix_mask(len(tokens), prefix=S)).output[0]
    if not isinstance(model, transformer.Transformer):
        return model(tokens[None]).logits[0]
    source, target = tokens[None, :S], tokens[None, S:]
    memory = model.encoder(source).output[0]
    logits = model(source, torch.tensor([S]), target)[0][0]
    return torch.cat([memory, logits[:, : memory.shape[1]]])


@pytest.mark.parametrize(("family", "kind"), KINDS.items())
@torch.no_grad()
def test_the_package_s_own_models_know_what_the_diagram_says_and_nothing_else(family, kind):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "embed_dim": 8, "num_heads": 2, "num_layers": 2, "ffn_dim": 12}
    model = kind(transformer.TransformerConfig(**sizes))
    widget = FamilyDiagram(SOURCE, TARGET, family=family)
    L, S = len(widget.wiring().inputs), len(SOURCE)
    tokens = torch.arange(L) % 6 + 4
    before = outputs(model, tokens, S)
    for changed in range(L):
        other = tokens.clone()
        other[changed] = 10
        moved = ((outputs(model, other, S) - before).abs() > 1e-9).any(-1)
        for widget.position in range(L):
            assert bool(widget.knows()[changed]) == bool(moved[widget.position])


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
