"""Whatever does not depend on values runs on the meta device, and so on any device.

A tensor that a function makes on the CPU would meet a meta tensor there and raise, and so would
reading a value. So these tests find on a machine without a GPU what would fail on one with it.
"""

import importlib
import inspect
import pkgutil
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import attn_notes
from attn_notes import attention as A
from attn_notes import data, flash, multihead
from attn_notes import inside as I
from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import patterns as W
from attn_notes import positions as P
from attn_notes import scores as C
from attn_notes import seq2seq as R
from attn_notes import training as T
from attn_notes import transformer as X
from attn_notes.cache import KVCache
from attn_notes.decoding import sampling_distribution
from attn_notes.pretrained import mean_pooling
from tests.oracles import DV, B, D, H, L, S
from tests.small_models import SCHEMES, config
from tools.notebook_rules import names_of

# These compute with no tensors, or are tested with what they show.
ELSEWHERE = {"__main__", "arguments", "checks", "cli", "device", "palette", "plotting", "source"}
ELSEWHERE |= {"triton_attention", "widgets"}
MODULES = {module.name for module in pkgutil.iter_modules(attn_notes.__path__)} - ELSEWHERE

# An encoder packs by the values of lengths, decoding ends at END, and training reads its losses.
VALUES_MATTER = {"RNNEncoder", "Seq2Seq", "beam_search", "generate", "greedy", "sample", "fit"}


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)


allowed, integers = partial(meta, dtype=torch.bool), partial(meta, dtype=torch.int64)
MASK, SCORES, TOKENS = allowed(L, S), (B, H, L, S), integers(B, L)
Q, KEY, VALUE = meta(B, H, L, D), meta(B, H, S, D), meta(B, H, S, DV)
KEYWORDS = {"attn_mask": MASK, "attn_bias": meta(L, S), "is_causal": True}
POINTS, SELF = (meta(B, L), meta(B, S), meta(B, S)), (meta(B, S),) * 3
STREAM, MEMORY = meta(B, L, 12), meta(B, S, 12)
EVERYTHING = {"need_weights": True, "need_hidden_states": True}
CONFIG, SEGMENTED = config(embed_dim=12), config(embed_dim=12, num_token_types=2)
SEGMENTS = {"token_types": integers(B, L), "attn_mask": allowed(B, 1, L)}


def of(kind, *options, **keywords) -> nn.Module:
    return kind(*options, **keywords).to("meta")


def of_score(score, key_dim=D):
    key = meta(B, H, S, key_dim)
    return [
        lambda: of(lambda: score)(Q, key),
        lambda: of(A.Attention, score, 0.5)(Q, key, VALUE, MASK),
    ]


def of_rnn(decoder):
    """All steps at once, and one after another, from outputs of an encoder."""

    def start():
        decoder.to("meta")
        return decoder.initial_state(meta(B, S, 6), meta(2, B, 6), integers(B))

    return [
        lambda: decoder(TOKENS, start())[0],
        lambda: decoder.step(integers(B), start())[0],
        lambda: decoder.step(integers(4), start().select(integers(4)))[1].weights,
    ]


def steps(model, *source):
    """Two steps, the second after a reordering."""
    _, state = model.start(*source)
    _, state = model.step(integers(B), state)
    return model.step(integers(4), state.select(integers(4)))[0]


def of_transformer(positions):
    model = of(X.Transformer, config(embed_dim=12, positions=positions))
    source = integers(B, S), integers(B)
    return *model(*source, TOKENS, need_weights=True), model.encode(*source), steps(model, *source)


def of_decoder_only(positions):
    model = of(X.DecoderOnly, config(embed_dim=12, positions=positions))
    return model(TOKENS, **EVERYTHING), steps(model, TOKENS)


def of_heads(**options):
    """Six heads that read queries of width 5 and keys of width 7, with all keywords."""
    layer = of(multihead.MultiHeadAttention, 12, 6, qdim=5, kdim=7, vdim=13, dropout=0.5, **options)
    tensors = meta(B, L, 5), meta(B, S, 7), meta(B, S, 13)
    keywords = {**KEYWORDS, "attn_bias": meta(6, L, S), "rotary": lambda x: 2 * x}
    asked = {"need_weights": options.get("backend") != "fused"}
    return [lambda: layer(*tensors), lambda: layer(*tensors, **keywords, **asked)]


def in_cache():
    """Keys of a cache that was updated, forked, selected from and attended to."""
    cache, layer = KVCache(), of(multihead.MultiHeadAttention, 12, 3)
    for _ in range(2):
        layer(STREAM, is_causal=True, cache=cache)
        cache = cache.fork()
    return cache.select(integers(B)).update(meta(B, 3, 1, 4), meta(B, 3, 1, 4))


def a_batch():
    words = data.Vocabulary(["a"])
    return data.make_batch([(("a", "a"), ("a",))], words, words).to("meta")


def next_tokens(*tensors):
    return (meta(*tensors[-1].shape, 11),)


def attention_keywords(positions):
    found = X.attention_positions(config(embed_dim=12, positions=positions), STREAM, offset=2)
    return [value(meta(B, 3, L, 4)) if callable(value) else value for value in found.values()]


def looked_into(kind, look=lambda model, found: [*found.values()], changes=None):
    """What `look` makes of a pre-norm model on the meta device and of its activations."""
    model = of(kind, config(embed_dim=12, norm="pre"))
    source = (integers(B, S), integers(B)) if kind is X.Transformer else ()
    with I.patch(model, changes or {}), I.record(model) as found:
        model(*source, TOKENS)
    return look(model, found)


def in_segments(kind):
    return of(kind, SEGMENTED)(TOKENS, **SEGMENTS, **EVERYTHING)


def effects(model, found):
    return [*I.effects(model, lambda: model(TOKENS).logits, {"body": 0.0}).values()]


def shares(model, found):
    parts = I.contributions(model, found)
    return [*I.direct_logits(model, parts, meta(B, L, 12)).values()]


CALLS = {
    # kernels, scores, masks
    **{
        f"{name}_kernel": [partial(getattr(K, f"{name}_kernel"), meta(B, L))]
        for name in ("gaussian", "boxcar", "triangular", "epanechnikov")
    },
    "nadaraya_watson": [
        lambda: K.nadaraya_watson(*POINTS, bandwidth=meta()),
        lambda: K.nadaraya_watson(*SELF, kernel=K.boxcar_kernel, exclude_self=True),
    ],
    "KernelRegression": [
        lambda: (*of(K.KernelRegression)(*POINTS), of(K.KernelRegression).bandwidth),
        lambda: of(K.KernelRegression)(*SELF, exclude_self=True),
    ],
    "GaussianScore": of_score(C.GaussianScore()),
    "DotProductScore": of_score(C.DotProductScore()),
    "ScaledDotProductScore": of_score(C.ScaledDotProductScore()),
    "BilinearScore": of_score(C.BilinearScore(D, 17), 17),
    "AdditiveScore": of_score(C.AdditiveScore(D, 17, 19), 17),
    "ConcatScore": of_score(C.ConcatScore(D, 17, 19), 17),
    "padding_mask": [partial(M.padding_mask, x, S) for x in (integers(B), integers(B, L))],
    "pair_mask": [lambda: M.pair_mask(integers(B), integers(B), L, S)],
    "block_mask": [lambda: M.block_mask(integers(B, L), integers(B, S))],
    "causal_mask": [lambda: M.causal_mask(L, S, offset=2, device="meta")],
    "and_causal": [
        partial(M.and_causal, mask, L, S, device="meta") for mask in (None, allowed(B, 1, S))
    ],
    "relative_positions": [lambda: M.relative_positions(L, S, offset=2, device="meta")],
    "sliding_window_mask": [lambda: M.sliding_window_mask(L, S, window=2, device="meta")],
    "prefix_mask": [lambda: M.prefix_mask(L, S, prefix=2, device="meta")],
    "masked_softmax": [partial(M.masked_softmax, meta(*SCORES), mask) for mask in (None, MASK)],
    # positions, attention, heads, cache
    "sinusoidal_encoding": [lambda: P.sinusoidal_encoding(L, 6, offset=2, device="meta")],
    "rotation_between": [lambda: P.rotation_between(2, 6, device="meta")],
    "SinusoidalEncoding": [lambda: P.SinusoidalEncoding(12)(STREAM, offset=2)],
    "LearnedEncoding": [lambda: of(P.LearnedEncoding, 17, 12)(STREAM, offset=2)],
    "rotary_angles": [lambda: P.rotary_angles(L, 6, offset=2, device="meta")],
    "apply_rotary": [
        partial(P.apply_rotary, meta(B, H, L, 6), meta(L, 3), layout=layout)
        for layout in ("pairs", "halves")
    ],
    "alibi_slopes": [lambda: P.alibi_slopes(H, device="meta")],
    "alibi_bias": [lambda: P.alibi_bias(H, L, S, offset=2, device="meta")],
    "attention_weights": [partial(A.attention_weights, Q, KEY, **how) for how in ({}, KEYWORDS)],
    "scaled_dot_product_attention": [
        partial(A.scaled_dot_product_attention, Q, KEY, VALUE, **how)
        for how in ({}, {"is_causal": True}, KEYWORDS)
    ],
    "tiled_attention": [
        lambda: flash.tiled_attention(Q, KEY, VALUE, attn_mask=MASK, is_causal=True)
    ],
    "online_softmax": [lambda: [*flash.online_softmax(meta(S), meta(S, DV), tile=2)]],
    "merge_tiles": [lambda: flash.merge_tiles(*flash.online_softmax(meta(4), meta(4, 2), tile=2))],
    "Attention": of_score(C.DotProductScore()),
    "split_heads": [lambda: multihead.split_heads(STREAM, 3)],
    "merge_heads": [lambda: multihead.merge_heads(Q)],
    "SelfAttention": [
        lambda: of(multihead.SelfAttention, 12, dropout=0.5)(STREAM),
        lambda: of(multihead.SelfAttention, 12, packed=True)(STREAM, is_causal=True),
    ],
    "MultiHeadAttention": [
        *of_heads(),
        *of_heads(backend="explicit", num_kv_heads=2),
        *of_heads(backend="fused", num_kv_heads=2, out_proj=False),
    ],
    "KVCache": [in_cache],
    "pattern_cells": [lambda: W.pattern_cells("same", "abcab", device="meta")],
    "pattern_score": [lambda: W.pattern_score(meta(*SCORES), MASK)],
    "select_cells": [lambda: W.select_cells(meta(B, 2, 3), [1], [0, 2])],
    # data, training, decoding, models
    "Batch": [lambda: (a_batch().source, a_batch().target)],
    "masked_cross_entropy": [
        partial(T.masked_cross_entropy, meta(B, L, 11), TOKENS, label_smoothing=share)
        for share in (0.0, 0.1)
    ],
    "language_model_loss": [lambda: T.language_model_loss(next_tokens, TOKENS)],
    "translation_loss": [lambda: T.translation_loss(lambda *x: (*next_tokens(*x), 0), a_batch())],
    "sampling_distribution": [
        lambda: sampling_distribution(meta(B, 11)),
        lambda: sampling_distribution(meta(B, L, 11), temperature=0.5, top_k=3, top_p=0.9),
    ],
    "RNNDecoder": of_rnn(R.RNNDecoder(11, 5, 7, 6, 2)),
    "AttentionDecoder": of_rnn(R.AttentionDecoder(11, 5, 7, 6, 2, score=C.AdditiveScore(7, 6, 3))),
    "mean_pooling": [lambda: mean_pooling(STREAM, allowed(B, L))],
    "FeedForward": [lambda: of(X.FeedForward, CONFIG)(STREAM)],
    "Embeddings": [lambda: of(X.Embeddings, SEGMENTED)(TOKENS, integers(B, L))],
    "EncoderBlock": [lambda: of(X.EncoderBlock, CONFIG)(STREAM, need_weights=True)],
    "DecoderBlock": [lambda: of(X.DecoderBlock, CONFIG)(STREAM, MEMORY, need_weights=True)],
    **{kind.__name__: [partial(in_segments, kind)] for kind in (X.Encoder, X.MaskedLanguageModel)},
    "Decoder": [lambda: of(X.Decoder, CONFIG)(TOKENS, MEMORY, need_weights=True)],
    "attention_positions": [partial(attention_keywords, positions) for positions in SCHEMES],
    "Transformer": [partial(of_transformer, positions) for positions in ("learned", "rotary")],
    "DecoderOnly": [partial(of_decoder_only, positions) for positions in SCHEMES],
    # looking inside
    "record": [partial(looked_into, kind) for kind in (X.DecoderOnly, X.Transformer)],
    "patch": [
        partial(looked_into, X.DecoderOnly, changes={"body.blocks.1": change})
        for change in (0.5, meta(B, L, 12), lambda x: x.cos())
    ],
    "effects": [partial(looked_into, X.DecoderOnly, effects)],
    "logit_lens": [
        partial(looked_into, kind, lambda model, found: I.logit_lens(model, STREAM))
        for kind in (X.DecoderOnly, X.MaskedLanguageModel, X.Transformer)
    ],
    "contributions": [
        partial(looked_into, kind, lambda *run: [*I.contributions(*run).values()])
        for kind in (X.Encoder, X.Transformer)
    ],
    "direct_logits": [
        partial(looked_into, kind, shares) for kind in (X.DecoderOnly, X.Transformer)
    ],
    "prefix_matching_score": [lambda: I.prefix_matching_score(meta(B, H, L, L), TOKENS)],
    "rollout": [lambda: I.rollout([meta(B, H, L, L)] * 2)],
    "integrated_gradients": [lambda: I.integrated_gradients(torch.sin, meta(B, L), meta(L))],
}


def takes_tensors(thing) -> bool:
    """Whether it computes with tensors: a module, or a function of tensors or of a device."""
    if inspect.isclass(thing):
        return issubclass(thing, nn.Module)
    if not inspect.isfunction(thing):
        return False
    parameters = inspect.signature(thing).parameters
    return "device" in parameters or any("Tensor" in str(p.annotation) for p in parameters.values())


def test_everything_public_that_takes_tensors_has_a_call_or_a_reason():
    modules = [importlib.import_module(f"attn_notes.{name}") for name in MODULES]
    public = {name: getattr(module, name) for module in modules for name in names_of(module)}
    tensors = {name for name, thing in public.items() if takes_tensors(thing)}
    assert tensors - {*CALLS, *VALUES_MATTER} == set()
    assert {*CALLS, *VALUES_MATTER} <= {*public}


def tensors_in(result) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    parts = result if isinstance(result, tuple | list) else []
    return [tensor for part in parts for tensor in tensors_in(part)]


CASES = [
    pytest.param(call, id=f"{name}[{n}]")
    for name, calls in CALLS.items()
    for n, call in enumerate(calls)
]


@pytest.mark.parametrize("call", CASES)
def test_it_runs_forward_and_backward_without_values(call):
    results = tensors_in(call())
    assert all(result.is_meta for result in results)
    losses = [result.sum() for result in results if result.requires_grad]
    if losses:
        sum(losses).backward()
