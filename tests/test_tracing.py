"""No model reads a tensor's value in `forward`: it can be compiled whole, and exported.

`test_meta` tries the same without values, part by part.
"""

import pytest
import torch

from attn_notes.masks import padding_mask
from attn_notes.transformer import Encoder
from tests.oracles import S, filled
from tests.small_models import (
    BATCH,
    INPUTS,
    LENGTHS,
    SOURCE,
    config,
    decoder_only,
    transformer,
)

REAL = padding_mask(LENGTHS, S)
CALLS = {
    "Transformer": (transformer, BATCH, {"need_weights": True}),
    "DecoderOnly": (decoder_only, (SOURCE,), {}),
    "Encoder": (
        lambda **changes: filled(Encoder(config(**changes))),
        (SOURCE,),
        {"attn_mask": REAL, "is_causal": True},
    ),
}
every_call = pytest.mark.parametrize("call", CALLS)


@every_call
def test_compiled_in_one_graph_a_model_gives_the_same(call):
    make, batch, keywords = CALLS[call]
    model = make(positions="rotary", embed_dim=12).eval()
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")  # traced, without a compiler
    torch.testing.assert_close(compiled(*batch, **keywords), model(*batch, **keywords))


@every_call
def test_an_exported_model_gives_the_same_for_other_lengths_too(call):
    make, batch, keywords = CALLS[call]
    model = make(positions="alibi", embed_dim=12).eval()
    exported = torch.export.export(model, batch, keywords).module()
    others = [batch, (SOURCE.flip(1), *((torch.tensor([2, 6]), INPUTS) if len(batch) > 1 else ()))]
    for other in others:
        torch.testing.assert_close(exported(*other, **keywords), model(*other, **keywords))
