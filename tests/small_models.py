"""Small Transformers with random parameters, and their batches."""

from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from attn_notes.data import END, PAD, START
from attn_notes.multihead import MultiHeadAttention
from attn_notes.transformer import DecoderOnly, Transformer, TransformerConfig
from attn_notes.transformer.config import Positions
from tests.oracles import B, L, S, filled, rng

V, E, H, F, N = 23, 6, 3, 17, 3  # vocabulary, width, heads, feed-forward width, layers
VT, M = 19, 2  # the target's vocabulary, the decoder's layers
SCHEMES = get_args(Positions)

every_scheme = pytest.mark.parametrize("positions", SCHEMES)
both_norms = pytest.mark.parametrize("norm", ["post", "pre"])
both_paths = pytest.mark.parametrize("path", ["fused", "explicit"])


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": V, "embed_dim": E, "num_heads": H, "ffn_dim": F, "num_layers": N}
    return TransformerConfig(**sizes | {"max_length": 11} | changes)


def transformer(**changes) -> Transformer:
    sizes = {"target_vocab_size": VT, "num_decoder_layers": M}
    return filled(Transformer(config(**sizes | changes)))


def decoder_only(**changes) -> DecoderOnly:
    return filled(DecoderOnly(config(**{"norm": "pre", "embed_dim": 12} | changes)))


def ids(*shape: int, below: int = V, seed: int = 3) -> Tensor:
    """Ids of words: none of them special."""
    return torch.randint(4, below, shape, generator=rng(seed))


LENGTHS = torch.tensor([S, 3])
SOURCE, INPUTS = ids(B, S), ids(B, L, below=VT, seed=4)
INPUTS[:, 0] = START
INPUTS[1, 2:] = torch.tensor([END, PAD, START])  # to a step no token is special
BATCH = SOURCE, LENGTHS, INPUTS


def on_path(model: nn.Module, path: str) -> nn.Module:
    """Ask every attention for its weights, so that it takes the explicit path, or leave it."""
    for layer in model.modules() if path == "explicit" else ():
        if isinstance(layer, MultiHeadAttention):
            layer.register_forward_pre_hook(
                lambda _, inputs, options: (inputs, {**options, "need_weights": True}),
                with_kwargs=True,
            )
    return model
