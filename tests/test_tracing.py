"""Models can be compiled whole and exported, and read no value on a GPU, which would wait."""

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attn_notes import attention, guard, positions
from attn_notes.masks import padding_mask
from attn_notes.transformer import Encoder, MaskedLanguageModel
from tests import small_models as small
from tests.oracles import S, filled
from tests.small_models import BATCH, INPUTS, LENGTHS, SOURCE, decoder_only, transformer

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


class NoValueIsRead(TorchDispatchMode):
    """Refuses the operations by which Python learns what a tensor holds."""

    READ = frozenset(
        getattr(torch.ops.aten, name)
        for name in ("_local_scalar_dense", "equal", "is_nonzero", "item", "nonzero")
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in self.READ:
            raise AssertionError(f"{func} reads a value")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_forward_reads_no_value_where_a_gpu_would_wait(call, need_weights, monkeypatch):
    for module in (attention, guard):  # as on a GPU
        monkeypatch.setattr(module, "can_look", lambda tensor: False)
    make, batch, keywords = CALLS[call]
    model = make(positions="alibi", embed_dim=12, dropout=0.1)
    with NoValueIsRead():
        model(*batch, **keywords | {"need_weights": need_weights})


def test_a_value_that_is_read_is_noticed():
    with NoValueIsRead(), pytest.raises(AssertionError, match="reads a value"):
        bool(torch.zeros(1))


@pytest.mark.slow
@traced
def test_compiled_in_one_graph_a_model_gives_the_same(call):
    make, batch, keywords = CALLS[call]
    model = make(positions="rotary", embed_dim=12).eval()
    torch.compiler.reset()
    torch.set_default_device("cpu")  # as in a page's first cell, after which not all is traced
    compiled = torch.compile(model, fullgraph=True, backend="eager")  # traced, without a compiler
    torch.testing.assert_close(compiled(*batch, **keywords), model(*batch, **keywords))


@pytest.mark.parametrize("make", [
    lambda: positions.sinusoidal_encoding(3, 4),
    lambda: positions.rotary_angles(3, 4),
    lambda: positions.rotation_between(3, 4),
    lambda: positions.alibi_bias(2, 3),
    lambda: padding_mask([1, 2], 3),
])  # fmt: skip
def test_what_names_no_device_can_be_compiled_too(make):
    torch.set_default_device("cpu")  # as in a page's first cell
    compiled = torch.compile(make, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(), make())


@pytest.mark.slow
@traced
def test_an_exported_model_gives_the_same_for_other_lengths_too(call):
    make, batch, keywords = CALLS[call]
    model = make(positions="alibi", embed_dim=12).eval()
    exported = torch.export.export(model, batch, keywords).module()
    others = [batch, (SOURCE.flip(1), *((torch.tensor([2, 6]), INPUTS) if len(batch) > 1 else ()))]
    for other in others:
        torch.testing.assert_close(exported(*other, **keywords), model(*other, **keywords))
