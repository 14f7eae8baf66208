"""Small Transformers with random parameters, their batches, and the checks that they share."""

from collections.abc import Callable, Sequence
from typing import get_args

import pytest
import torch
from torch import Tensor

from attn_notes.data import PAD, START
from attn_notes.transformer import DecoderOnly, Transformer, TransformerConfig
from attn_notes.transformer.config import Positions
from tests.oracles import B, L, S, filled, rng

V, E, H, F, N = 23, 6, 3, 17, 3  # vocabulary, width, heads, feed-forward width, layers
VT, M = 19, 2  # the target's vocabulary, the decoder's layers
SCHEMES, SPECIAL = get_args(Positions), torch.tensor([PAD, START])

every_scheme = pytest.mark.parametrize("positions", SCHEMES)
both_norms = pytest.mark.parametrize("norm", ["post", "pre"])
both_backends = pytest.mark.parametrize("backend", ["fused", "explicit"])


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
BATCH = SOURCE, LENGTHS, INPUTS


def assert_causal(read: Callable[[Tensor], Sequence[Tensor]], tokens: Tensor) -> None:
    """Other tokens from position n on change what is computed from n on, and nothing before it.

    Each tensor that `read` returns has shape (B, L, ...); the first is the logits.
    """
    whole = read(tokens)
    for n in range(1, tokens.shape[1]):
        other = tokens.clone()
        other[:, n:] = 4 + (other[:, n:] - 3) % (VT - 4)
        changed = read(other)
        for a, b in zip(whole, changed, strict=True):
            torch.testing.assert_close(a[:, :n], b[:, :n], atol=1e-12, rtol=0.0)
        assert not torch.allclose(whole[0][:, n:], changed[0][:, n:])


def assert_log_probs(log_probs: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
    """The log-probability of each text is that of its tokens, START and PAD being impossible.

    Returns the logits (B, T, V) of the parallel pass, without these two.
    """
    logits = logits.masked_fill(torch.isin(torch.arange(logits.shape[-1]), SPECIAL), -torch.inf)
    each = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    total = each.masked_fill(tokens == PAD, 0.0).sum(1)
    torch.testing.assert_close(log_probs.double(), total, atol=1e-5, rtol=0.0)
    return logits
