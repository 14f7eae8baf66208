"""A model on its way to a page: what is rounded, by how much, and what travels once."""

import json
from base64 import b64decode
from functools import partial

import pytest
import torch

from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_widgets.packing import pack_transformer, unpack_transformer
from tests.widgets import random_decoder, random_transformer

TYING = {
    "one for all": {"target_vocab_size": None},
    "target and output": {},
    "none": {"tie_embeddings": False},
}
LEARNED = {"positions": "learned", "max_length": 5}
MODELS = {
    **{f"tied: {what}": partial(random_transformer, **tying) for what, tying in TYING.items()},
    "learned positions": partial(random_transformer, **LEARNED),
    "decoder": partial(random_decoder, **LEARNED),
    "decoder, untied": partial(random_decoder, **LEARNED, tie_embeddings=False),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@every_model
def test_a_weight_moves_by_half_a_step_of_its_row_at_most_and_a_vector_by_none(make):
    model = make()
    rounded = unpack_transformer(json.loads(json.dumps(pack_transformer(model))))
    assert type(rounded) is type(model)
    assert not rounded.training
    assert rounded.config == model.config
    given = model.state_dict()
    assert [*given] == [*rounded.state_dict()]
    for name, weight in rounded.state_dict().items():
        exact = given[name].double()
        if exact.dim() == 2:
            step = exact.abs().amax(1, keepdim=True) / 127
            assert ((weight - exact).abs() <= 0.5001 * step).all()
            assert ((weight / step).round() - weight / step).abs().max() < 1e-4
        else:
            assert weight.equal(exact)


@pytest.mark.parametrize(
    "later",
    [
        {"norm_kind": "rms"}, {"norm": "both"}, {"qk_norm": True}, {"gated": True},
        {"activation": "silu"}, {"bias": False}, {"head_dim": 6}, {"windows": (2, None)},
    ],
    ids=str,
)  # fmt: skip
def test_a_page_that_cannot_compute_the_blocks_of_today_refuses_them(later):
    sizes = {"vocab_size": 9, "embed_dim": 4, "num_heads": 2, "positions": "none"}
    with pytest.raises(ValueError, match="norms before or after a sublayer"):
        pack_transformer(DecoderOnly(TransformerConfig(**sizes, **later)))


def test_tied_weights_travel_once():
    sizes = {}
    for name, changes in TYING.items():
        model = random_transformer(**changes)
        packed = pack_transformer(model)
        sizes[name] = len(b64decode(packed["bytes"]["b64"]))
        matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
        assert sizes[name] == sum(matrix.numel() for matrix in matrices)
        rows = sum(p.numel() if p.dim() == 1 else len(p) for p in model.parameters())
        assert len(b64decode(packed["floats"]["b64"])) == 4 * rows
    assert sizes["one for all"] < sizes["target and output"] < sizes["none"]


@every_model
def test_what_was_rounded_rounds_to_itself_and_the_given_model_stays_as_it_was(make):
    model, as_given = make().train(), make().state_dict()
    packed = pack_transformer(model)
    assert pack_transformer(unpack_transformer(packed)) == packed
    assert model.training
    torch.testing.assert_close(model.state_dict(), as_given, rtol=0, atol=0)
