"""Models can be compiled whole, and exported."""

from functools import partial

import pytest
import torch

from attn_notes.masks import padding_mask
from attn_notes.transformer import Encoder, MaskedLanguageModel
from tests import small_models as small
from tests.oracles import S, filled
from tests.small_models import BATCH, INPUTS, LENGTHS, SOURCE, decoder_only, transformer

pytestmark = pytest.mark.slow

REAL, WEIGHTS = {"attn_mask": padding_mask(LENGTHS, S)}, {"need_weights": True}


def encoder(kind=Encoder, **changes):
    return filled(kind(small.config(**changes)))


# Tracing takes seconds, so of each model only the call that computes most.
CALLS = {
    "Transformer": (transformer, BATCH, WEIGHTS),
    "DecoderOnly": (decoder_only, (SOURCE,), WEIGHTS),
    "MaskedLanguageModel": (partial(encoder, MaskedLanguageModel), (SOURCE,), REAL),
    "Encoder": (encoder, (SOURCE,), REAL | {"is_causal": True}),
}
traced = pytest.mark.parametrize("call", CALLS)


@traced
def test_compiled_in_one_graph_a_model_gives_the_same(call):
    make, batch, keywords = CALLS[call]
    model = make(positions="rotary", embed_dim=12).eval()
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")  # traced, without a compiler
    torch.testing.assert_close(compiled(*batch, **keywords), model(*batch, **keywords))


@traced
def test_an_exported_model_gives_the_same_for_other_lengths_too(call):
    make, batch, keywords = CALLS[call]
    model = make(positions="alibi", embed_dim=12).eval()
    exported = torch.export.export(model, batch, keywords).module()
    others = [batch, (SOURCE.flip(1), *((torch.tensor([2, 6]), INPUTS) if len(batch) > 1 else ()))]
    for other in others:
        torch.testing.assert_close(exported(*other, **keywords), model(*other, **keywords))
