"""Whatever does not depend on values runs on the meta device, and so on any device.

A tensor that a layer makes on the CPU would meet a meta tensor there and raise, and so would
reading a value. So these tests find on a machine without a GPU what would fail on one with it.
What a model is made of runs with the model.
"""

from functools import partial

import pytest
import torch
from torch import Tensor

from attn_notes import attention as A
from attn_notes import inside as I
from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import positions as P
from attn_notes import training as T
from attn_notes import transformer as X
from attn_notes.cache import KVCache
from attn_notes.decoding import sampling_distribution
from attn_notes.flash import online_softmax, tiled_attention
from attn_notes.multihead import MultiHeadAttention
from attn_notes.scores import AdditiveScore
from attn_notes.seq2seq import AttentionDecoder
from tests.oracles import DV, B, D, H, L, S
from tests.small_models import SCHEMES, config


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)


allowed, integers = partial(meta, dtype=torch.bool), partial(meta, dtype=torch.int64)
MASK, TOKENS = allowed(L, S), integers(B, L)
Q, KEY, VALUE = meta(B, H, L, D), meta(B, H, S, D), meta(B, H, S, DV)
KEYWORDS = {"attn_mask": MASK, "attn_bias": meta(L, S), "is_causal": True}
STREAM, MEMORY = meta(B, L, 12), meta(B, S, 12)


def heads(need_weights=True, **options):
    """Six heads that read queries of width 5 and keys of width 7, with all keywords."""
    layer = MultiHeadAttention(12, 6, qdim=5, kdim=7, vdim=13, dropout=0.5, **options).to("meta")
    keywords = {**KEYWORDS, "attn_bias": meta(6, L, S), "rotary": lambda x: 2 * x}
    return layer(
        meta(B, L, 5), meta(B, S, 7), meta(B, S, 13), **keywords, need_weights=need_weights
    )


def cached():
    """Keys of a cache that was updated, forked, selected from and attended to."""
    cache, layer = KVCache(), MultiHeadAttention(12, 3).to("meta")
    for _ in range(2):
        layer(STREAM, is_causal=True, cache=cache)
        cache = cache.fork()
    return cache.select(integers(B)).update(meta(B, 3, 1, 4), meta(B, 3, 1, 4))


def steps(model, *source):
    """Two steps, the second after a reordering."""
    _, state = model.start(*source)
    _, state = model.step(integers(B), state)
    return model.step(integers(4), state.select(integers(4)))[0]


def recurrent():
    decoder = AttentionDecoder(11, 5, 7, 6, 2, score=AdditiveScore(7, 6, 3)).to("meta")
    start = partial(decoder.initial_state, meta(B, S, 6), meta(2, B, 6), integers(B))
    return decoder(TOKENS, start())[0], decoder.step(integers(B), start())[0]


def transformer(positions):
    model = X.Transformer(config(embed_dim=12, positions=positions)).to("meta")
    source = integers(B, S), integers(B)
    return *model(*source, TOKENS, need_weights=True), steps(model, *source)


def decoder_only(positions):
    model = X.DecoderOnly(config(embed_dim=12, positions=positions)).to("meta")
    return model(TOKENS, need_weights=True, need_hidden_states=True), steps(model, TOKENS)


def encoder():
    model = X.MaskedLanguageModel(config(embed_dim=12, num_token_types=2)).to("meta")
    return model(TOKENS, token_types=integers(B, L), attn_mask=allowed(B, 1, L))


def looked_into(**changes):
    """The shares of a pre-norm model's activations in its logits, some of which are changed."""
    model = X.DecoderOnly(config(embed_dim=12, norm="pre")).to("meta")
    with I.patch(model, changes), I.record(model) as found:
        model(TOKENS)
    parts = I.contributions(model, found)
    return [*I.direct_logits(model, parts, meta(B, L, 12)).values(), I.logit_lens(model, STREAM)]


CALLS = {
    "kernel": lambda: K.nadaraya_watson(meta(B, L), meta(B, S), meta(B, S), bandwidth=meta()),
    "masks": lambda: [M.padding_mask(integers(B), S), M.pair_mask(integers(B), integers(B), L, S)],
    "pairs": lambda: M.pair_mask([1, 2], [2, 1], L, S, device="meta"),
    "causal": lambda: M.causal_mask(L, S, offset=2, device="meta"),
    "window": lambda: M.sliding_window_mask(L, S, window=2, device="meta"),
    "prefix": lambda: M.prefix_mask(L, S, prefix=2, device="meta"),
    "blocks": lambda: M.block_mask(integers(B, L), integers(B, S)),
    "softmax": lambda: M.masked_softmax(meta(B, H, L, S), MASK),
    "weights": lambda: A.attention_weights(Q, KEY, **KEYWORDS),
    "fused": lambda: A.scaled_dot_product_attention(Q, KEY, VALUE, **KEYWORDS),
    "tiled": lambda: tiled_attention(Q, KEY, VALUE, attn_mask=MASK, is_causal=True),
    "online": lambda: [*online_softmax(meta(S), meta(S, DV), tile=2)],
    "positions": lambda: P.SinusoidalEncoding(12)(STREAM, offset=2),
    "alibi": lambda: P.alibi_bias(H, L, S, offset=2, device="meta"),
    "rotary": lambda: P.apply_rotary(meta(B, H, L, 6), meta(L, 3), layout="halves"),
    "heads": heads,
    "fused heads": partial(heads, need_weights=False, num_kv_heads=2),
    "cache": cached,
    "recurrent": recurrent,
    "encoder": encoder,
    **{f"transformer, {one}": partial(transformer, one) for one in ("learned", "rotary")},
    **{f"decoder, {one}": partial(decoder_only, one) for one in SCHEMES},
    "inside": partial(looked_into, **{"body.blocks.1": lambda x: x.cos()}),
    "scores": lambda: I.prefix_matching_score(meta(B, H, L, L), TOKENS),
    "gradients": lambda: I.integrated_gradients(torch.sin, meta(B, L), meta(L)),
    "loss": lambda: T.masked_cross_entropy(meta(B, L, 11), TOKENS, label_smoothing=0.1),
    "sampling": lambda: sampling_distribution(meta(B, 11), temperature=0.5, top_k=3, top_p=0.9),
}


def tensors_in(result) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    parts = result if isinstance(result, tuple | list) else []
    return [tensor for part in parts for tensor in tensors_in(part)]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_it_runs_forward_and_backward_without_values(call):
    results = tensors_in(call())
    assert results
    assert all(result.is_meta for result in results)
    losses = [result.sum() for result in results if result.requires_grad]
    if losses:
        sum(losses).backward()
