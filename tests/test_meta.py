"""Everything whose result does not hang on values runs on the meta device, so on any device.

A tensor made on the CPU inside a function would meet a meta tensor there and raise: these tests
find on a machine without a GPU what would break on one with it. Every public name of the modules
below has a call here, or stands among the exceptions with its reason.
"""

import dataclasses
import importlib

import pytest
import torch
from torch import Tensor

from attn_notes import data
from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import positions as P
from attn_notes import scores as C
from attn_notes import seq2seq as R
from attn_notes import training as T
from attn_notes.attention import (
    Attention,
    attention_weights,
    scaled_dot_product_attention,
)
from attn_notes.cache import KVCache
from attn_notes.decoding import sampling_distribution
from attn_notes.multihead import MultiHeadAttention, SelfAttention, merge_heads, split_heads
from attn_notes.patterns import pattern_cells, pattern_score, without_special
from attn_notes.pretrained import mean_pooling
from attn_notes.transformer import (
    AddNorm,
    Decoder,
    DecoderBlock,
    DecoderOnly,
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    MaskedLanguageModel,
    Transformer,
    TransformerConfig,
    attention_positions,
)
from tests.oracles import DV, B, D, H, L, S

MODULES = (
    "kernels",
    "scores",
    "masks",
    "positions",
    "cache",
    "attention",
    "data",
    "ngrams",
    "seq2seq",
    "decoding",
    "training",
    "multihead",
    "transformer",
    "pretrained",
    "patterns",
)


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)


def allowed(*shape: int) -> Tensor:
    return meta(*shape, dtype=torch.bool)


def integers(*shape: int) -> Tensor:
    return meta(*shape, dtype=torch.int64)


Q, KEY, VALUE = meta(B, H, L, D), meta(B, H, S, D), meta(B, H, S, DV)
KEYWORDS = {"attn_mask": allowed(L, S), "attn_bias": meta(L, S), "is_causal": True}
POINTS = meta(B, L), meta(B, S), meta(B, S)
SELF = meta(B, S), meta(B, S), meta(B, S)
WEIGHTS = (B, H, L, S)


def of_kernel(kernel):
    return [lambda: (kernel(meta(B, L)), (B, L))]


def of_score(score, key_dim=D):
    return [
        lambda: (score.to("meta")(Q, meta(B, H, S, key_dim)), WEIGHTS),
        lambda: (Attention(score, 0.5).to("meta")(Q, meta(B, H, S, key_dim), VALUE)[1], WEIGHTS),
    ]


def of_decoder(decoder):
    """What the encoder would hand over, 6 wide, and one step and four steps on it."""
    decoder = decoder.to("meta")

    def start():
        return decoder.start(meta(B, S, 6), meta(2, B, 6), integers(B))

    return [
        lambda: (decoder(integers(B, 4), start())[0], (B, 4, 11)),
        lambda: (decoder.step(integers(B), start())[0], (B, 11)),
        lambda: (decoder.read(start())[0], (B, 6)),
        lambda: (start().select(integers(4)).hidden, (2, 4, 7)),
    ]


def of_heads(**options):
    """A layer of six heads that reads queries 5 wide and keys 7 wide, with all it can be told."""
    layer = MultiHeadAttention(12, 6, qdim=5, kdim=7, vdim=13, dropout=0.5, **options).to("meta")
    tensors = meta(B, L, 5), meta(B, S, 7), meta(B, S, 13)
    keywords = {**KEYWORDS, "attn_bias": meta(6, L, S), "rotary": lambda x: 2 * x}
    calls = [
        lambda: (layer(*tensors)[0], (B, L, 12)),
        lambda: (layer(*tensors, **keywords)[0], (B, L, 12)),
    ]
    if layer.backend != "fused":
        calls.append(lambda: (layer(*tensors, need_weights=True, **keywords)[1], (B, 6, L, S)))
    return calls


class Cached:
    """A cache of three keys and values that keeps nothing of what it is given."""

    length = 3

    def update(self, key, value):
        return tuple(torch.cat((x[..., :1, :].expand(-1, -1, 3, -1), x), -2) for x in (key, value))


def a_batch():
    words = data.Vocabulary(["a"])
    return data.make_batch([(("a", "a"), ("a",))], words, words)


CONFIG = TransformerConfig(vocab_size=17, embed_dim=6, num_heads=3, ffn_dim=19, norm="pre")
SEGMENTED = dataclasses.replace(CONFIG, num_token_types=2)
STREAM, MEMORY = meta(B, L, 6), meta(B, S, 6)


def encoded(**keywords):
    keywords |= {"token_types": integers(B, L), "attn_mask": allowed(B, 1, L)}
    return Encoder(SEGMENTED).to("meta")(integers(B, L), **keywords)


def of_transformer(**changes):
    """All at once, and two steps, the second after a reordering."""
    config = dataclasses.replace(CONFIG, target_vocab_size=11, embed_dim=12, **changes)
    model = Transformer(config).to("meta")
    batch = integers(B, S), integers(B)

    def two_steps():
        _, state = model.step(integers(B), model.start(*batch, need_weights=True))
        return model.step(integers(4), state.select(integers(4)))

    return [
        lambda: (model(*batch, integers(B, L))[0], (B, L, 11)),
        lambda: (model(*batch, integers(B, L), need_weights=True)[1].cross[0], (B, 3, L, S)),
        lambda: (model.encode(*batch), (B, S, 12)),
        lambda: (two_steps()[0], (4, 11)),
        lambda: (two_steps()[1].weights.decoder[1], (4, 3, 2, 2)),
    ]


def of_decoder_only(**changes):
    """All at once, and two steps after a prompt, the second after a reordering."""
    config = dataclasses.replace(CONFIG, embed_dim=12, tie_embeddings=True, **changes)
    model = DecoderOnly(config).to("meta")

    def two_steps():
        state = model.start(integers(B, S), torch.full((B,), S), need_weights=True)
        _, state = model.step(integers(B), state)
        return model.step(integers(4), state.select(integers(4)))

    return [
        lambda: (model(integers(B, L)).logits, (B, L, 17)),
        lambda: (model(integers(B, L), need_weights=True).weights[1], (B, 3, L, L)),
        lambda: (model(integers(B, L), need_hidden_states=True).hidden_states[2], (B, L, 12)),
        lambda: (two_steps()[0], (4, 17)),
        lambda: (two_steps()[1].weights[1], (4, 3, S + 1, S + 1)),
    ]


def masked_model(**keywords):
    keywords |= {"token_types": integers(B, L), "attn_mask": allowed(B, 1, L)}
    return MaskedLanguageModel(SEGMENTED).to("meta")(integers(B, L), **keywords)


def in_cache(grad):
    """Keys of a cache that grew twice and was branched."""
    cache = KVCache()
    with torch.set_grad_enabled(grad):
        for _ in range(2):
            cache.update(KEY, VALUE)
            cache = cache.fork()
        return cache.select(integers(4)).update(meta(4, H, 1, D), meta(4, H, 1, DV))[0]


# For each public name its calls: what it gives, and the shape that must have.
CALLS = {
    "kernels": {
        "gaussian_kernel": of_kernel(K.gaussian_kernel),
        "boxcar_kernel": of_kernel(K.boxcar_kernel),
        "triangular_kernel": of_kernel(K.triangular_kernel),
        "epanechnikov_kernel": of_kernel(K.epanechnikov_kernel),
        "nadaraya_watson": [
            lambda: (K.nadaraya_watson(*POINTS)[0], (B, L)),
            lambda: (K.nadaraya_watson(*POINTS, bandwidth=meta())[1], (B, L, S)),
            lambda: (K.nadaraya_watson(*SELF, exclude_self=True)[0], (B, S)),
            lambda: (
                K.nadaraya_watson(*SELF, kernel=K.boxcar_kernel, exclude_self=True)[1],
                (B, S, S),
            ),
        ],
        "KernelRegression": [
            lambda: (K.KernelRegression().to("meta")(*POINTS)[0], (B, L)),
            lambda: (K.KernelRegression().to("meta")(*SELF, exclude_self=True)[1], (B, S, S)),
            lambda: (K.KernelRegression().to("meta").bandwidth, ()),
        ],
    },
    "scores": {
        "GaussianScore": of_score(C.GaussianScore()),
        "DotProductScore": of_score(C.DotProductScore()),
        "ScaledDotProductScore": of_score(C.ScaledDotProductScore()),
        "BilinearScore": of_score(C.BilinearScore(D, 17), 17),
        "AdditiveScore": of_score(C.AdditiveScore(D, 17, 19), 17),
        "ConcatScore": of_score(C.ConcatScore(D, 17, 19), 17),
    },
    "masks": {
        "padding_mask": [
            lambda: (M.padding_mask(integers(B), S), (B, 1, S)),
            lambda: (M.padding_mask(integers(B, L), S), (B, L, S)),
        ],
        "pair_mask": [lambda: (M.pair_mask(integers(B), integers(B), L, S), (B, L, S))],
        "block_mask": [lambda: (M.block_mask(integers(B, L), integers(B, S)), (B, L, S))],
        "causal_mask": [lambda: (M.causal_mask(L, S, offset=2, device="meta"), (L, S))],
        "and_causal": [
            lambda: (M.and_causal(None, L, S, device="meta"), (L, S)),
            lambda: (M.and_causal(allowed(B, 1, S), L, S, device="meta"), (B, L, S)),
        ],
        "relative_positions": [
            lambda: (M.relative_positions(L, S, offset=2, device="meta"), (L, S))
        ],
        "sliding_window_mask": [
            lambda: (M.sliding_window_mask(L, S, window=2, device="meta"), (L, S))
        ],
        "prefix_mask": [lambda: (M.prefix_mask(L, S, prefix=2, device="meta"), (L, S))],
        "masked_softmax": [
            lambda: (M.masked_softmax(meta(*WEIGHTS)), WEIGHTS),
            lambda: (M.masked_softmax(meta(*WEIGHTS), allowed(L, S)), WEIGHTS),
        ],
    },
    "positions": {
        "sinusoidal_encoding": [
            lambda: (P.sinusoidal_encoding(L, 6, offset=2, device="meta"), (L, 6))
        ],
        "rotation_between": [lambda: (P.rotation_between(2, 6, device="meta"), (6, 6))],
        "SinusoidalEncoding": [
            lambda: (P.SinusoidalEncoding(6)(STREAM, offset=2), (B, L, 6)),
        ],
        "LearnedEncoding": [
            lambda: (P.LearnedEncoding(17, 6).to("meta")(STREAM, offset=2), (B, L, 6)),
        ],
        "rotary_angles": [lambda: (P.rotary_angles(L, 6, offset=2, device="meta"), (L, 3))],
        "apply_rotary": [
            lambda: (P.apply_rotary(meta(B, H, L, 6), meta(L, 3)), (B, H, L, 6)),
            lambda: (P.apply_rotary(meta(B, H, L, 6), meta(L, 3), layout="halves"), (B, H, L, 6)),
        ],
        "alibi_slopes": [lambda: (P.alibi_slopes(H, device="meta"), (H,))],
        "alibi_bias": [lambda: (P.alibi_bias(H, L, S, offset=2, device="meta"), (H, L, S))],
    },
    "cache": {
        "KVCache": [
            lambda: (in_cache(grad=True), (4, H, 2 * S + 1, D)),
            lambda: (in_cache(grad=False), (4, H, 2 * S + 1, D)),
        ],
    },
    "attention": {
        "attention_weights": [
            lambda: (attention_weights(Q, KEY), WEIGHTS),
            lambda: (attention_weights(Q, KEY, **KEYWORDS), WEIGHTS),
        ],
        "scaled_dot_product_attention": [
            lambda: (scaled_dot_product_attention(Q, KEY, VALUE), (B, H, L, DV)),
            lambda: (scaled_dot_product_attention(Q, KEY, VALUE, is_causal=True), (B, H, L, DV)),
            lambda: (scaled_dot_product_attention(Q, KEY, VALUE, **KEYWORDS), (B, H, L, DV)),
        ],
        "Attention": [
            lambda: (
                Attention(C.DotProductScore(), 0.5)(Q, KEY, VALUE, allowed(L, S))[0],
                (B, H, L, DV),
            )
        ],
    },
    "data": {
        "Batch": [
            lambda: (a_batch().to("meta").source, (1, 2)),
            lambda: (a_batch().to("meta").target, (1, 3)),
        ],
    },
    "decoding": {
        "sampling_distribution": [
            lambda: (sampling_distribution(meta(B, 11)), (B, 11)),
            lambda: (
                sampling_distribution(meta(B, L, 11), temperature=0.5, top_k=3, top_p=0.9),
                (B, L, 11),
            ),
        ],
    },
    "seq2seq": {
        "RNNDecoder": of_decoder(R.RNNDecoder(11, 5, 7, 6, 2)),
        "AttentionDecoder": of_decoder(
            R.AttentionDecoder(11, 5, 7, 6, 2, score=C.AdditiveScore(7, 6, 3))
        ),
    },
    "training": {
        "masked_cross_entropy": [
            lambda: (T.masked_cross_entropy(meta(B, L, 11), integers(B, L)), ()),
            lambda: (
                T.masked_cross_entropy(meta(B, L, 11), integers(B, L), label_smoothing=0.1),
                (),
            ),
        ],
        "language_model_loss": [
            lambda: (
                T.language_model_loss(
                    lambda inputs: (meta(*inputs.shape, 11),), integers(B, L + 1)
                ),
                (),
            )
        ],
        "translation_loss": [
            lambda: (
                T.translation_loss(
                    lambda source, lengths, inputs: (meta(*inputs.shape, 11), None),
                    a_batch().to("meta"),
                ),
                (),
            )
        ],
    },
    "patterns": {
        "pattern_cells": [lambda: (pattern_cells("same", "abcab", device="meta"), (5, 5))],
        "pattern_score": [lambda: (pattern_score(meta(*WEIGHTS), allowed(L, S)), (B, H))],
        "without_special": [lambda: (without_special(["[CLS]", "a"], meta(B, 2, 2))[1], (B, 1, 1))],
    },
    "pretrained": {
        "mean_pooling": [lambda: (mean_pooling(STREAM, allowed(B, L)), (B, 6))],
    },
    "multihead": {
        "split_heads": [lambda: (split_heads(meta(B, L, 12), 3), (B, 3, L, 4))],
        "merge_heads": [lambda: (merge_heads(Q), (B, L, H * D))],
        "SelfAttention": [
            lambda: (SelfAttention(D, dropout=0.5).to("meta")(meta(B, L, D))[0], (B, L, D)),
            lambda: (
                SelfAttention(D, packed=True).to("meta")(meta(B, L, D), is_causal=True)[1],
                (B, L, L),
            ),
        ],
        "MultiHeadAttention": [
            *of_heads(),
            *of_heads(backend="explicit", num_kv_heads=2),
            *of_heads(backend="fused", num_kv_heads=2, out_proj=False),
            lambda: (
                MultiHeadAttention(D, 1).to("meta")(meta(B, L, D), is_causal=True, cache=Cached())[
                    0
                ],
                (B, L, D),
            ),
        ],
    },
    "transformer": {
        "AddNorm": [
            lambda: (AddNorm(CONFIG).to("meta").read(STREAM), (B, L, 6)),
            lambda: (AddNorm(CONFIG).to("meta")(STREAM, STREAM), (B, L, 6)),
        ],
        "FeedForward": [lambda: (FeedForward(CONFIG).to("meta")(STREAM), (B, L, 6))],
        "Embeddings": [lambda: (Embeddings(SEGMENTED).to("meta")(integers(B, L)), (B, L, 6))],
        "EncoderBlock": [
            lambda: (EncoderBlock(CONFIG).to("meta")(STREAM, is_causal=True)[0], (B, L, 6)),
            lambda: (EncoderBlock(CONFIG).to("meta")(STREAM, need_weights=True)[1], (B, 3, L, L)),
        ],
        "Encoder": [
            lambda: (encoded().output, (B, L, 6)),
            lambda: (encoded(need_weights=True).weights[1], (B, 3, L, L)),
            lambda: (encoded(need_hidden_states=True).hidden_states[2], (B, L, 6)),
        ],
        "attention_positions": [
            lambda: (
                attention_positions(
                    dataclasses.replace(CONFIG, positions="alibi"), STREAM, offset=2
                )["attn_bias"],
                (3, L, L + 2),
            ),
            lambda: (
                attention_positions(dataclasses.replace(CONFIG, positions="rotary"), STREAM)[
                    "rotary"
                ](meta(B, 3, L, 2)),
                (B, 3, L, 2),
            ),
        ],
        "DecoderBlock": [
            lambda: (DecoderBlock(CONFIG).to("meta")(STREAM, MEMORY)[0], (B, L, 6)),
            lambda: (
                DecoderBlock(CONFIG).to("meta")(STREAM, MEMORY, need_weights=True)[2],
                (B, 3, L, S),
            ),
        ],
        "Decoder": [
            lambda: (Decoder(CONFIG).to("meta")(integers(B, L), MEMORY).output, (B, L, 6)),
        ],
        "DecoderOnly": [
            call
            for positions in ("none", "learned", "sinusoidal", "rotary", "alibi")
            for call in of_decoder_only(positions=positions)
        ],
        "MaskedLanguageModel": [
            lambda: (masked_model().logits, (B, L, 17)),
            lambda: (masked_model(need_weights=True).weights[1], (B, 3, L, L)),
            lambda: (masked_model(need_hidden_states=True).hidden_states[2], (B, L, 6)),
        ],
        "Transformer": [
            call
            for positions in ("none", "learned", "sinusoidal", "rotary", "alibi")
            for call in of_transformer(positions=positions)
        ],
    },
}

EXCEPTIONS = {
    "patterns.PATTERNS": "names",
    "patterns.SPECIAL": "names",
    "positions.RotaryLayout": "the names of the two layouts",
    "multihead.Backend": "the names of the two paths",
    "multihead.Cache": "what a cache must have: there is nothing to call",
    "multihead.Rotary": "the type of a function: there is nothing to call",
    "transformer.TransformerConfig": "numbers and words",
    "transformer.DecoderOutput": "a tuple",
    "transformer.DecoderOnlyState": "what `DecoderOnly` calls give and take",
    "transformer.EncoderOutput": "a tuple",
    "transformer.LanguageModelOutput": "a tuple",
    "transformer.TransformerState": "what `Transformer` calls give and take",
    "transformer.TransformerWeights": "a tuple",
    "pretrained.SentenceEncoder": "words",
    "pretrained.WeightsNotFound": "an error",
    "pretrained.load_decoder": "reads values",
    "pretrained.load_encoder": "reads values",
    "pretrained.load_masked_language_model": "reads values",
    "pretrained.minilm_folder": "a path",
    "training.process_group": "joins processes",
    "training.Schedule": "the type of a schedule: there is nothing to call",
    "training.constant": "a number for a number",
    "training.linear_decay": "a number for a number",
    "training.cosine_decay": "a number for a number",
    "training.inverse_sqrt": "a number for a number",
    "training.noam": "a number for a number",
    "training.bits_per_character": "a number",
    "training.bleu": "words",
    "training.exact_match": "words",
    "training.fit": "reads its losses",
    "training.load_checkpoint": "reads values",
    "training.save_weights": "writes values",
    "training.load_weights": "reads values",
    "kernels.Kernel": "the type of a kernel: there is nothing to call",
    "data.make_batch": "makes its tensors on the CPU; Batch.to moves them",
    "data.Batches": "makes its tensors on the CPU; Batch.to moves them",
    "data.PAD": "a number",
    "data.START": "a number",
    "data.END": "a number",
    "data.UNKNOWN": "a number",
    "data.SpecialTokens": "numbers",
    "data.Pair": "a type: there is nothing to call",
    "data.Vocabulary": "tokens and lists of ids: there is no tensor in it",
    "data.number_words": "words",
    "data.split_number": "words",
    "data.join_words": "words",
    "data.number_pairs": "words",
    "data.date_characters": "characters",
    "data.date_pairs": "characters",
    "data.is_held_out": "a yes or a no",
    "data.split_pairs": "words",
    "data.read_pairs": "words",
    "data.read_text": "characters",
    "data.python_documentation": "characters",
    "data.split_text": "characters",
    "data.encode_text": "a list",
    "data.TextWindows": "makes its tensors on the CPU; fit moves them",
    "ngrams.NGramModel": "counts characters",
    "seq2seq.RNNEncoder": "torch packs by the lengths, so the result hangs on their values",
    "seq2seq.Seq2Seq": "begins with the encoder",
    "seq2seq.DecoderState": "made by the decoders' start, and reordered there",
    "decoding.State": "a protocol: there is nothing to call",
    "decoding.Decodable": "a protocol: there is nothing to call",
    "decoding.Decoded": "a tuple",
    "decoding.greedy": "stops when all have said END: its length hangs on values",
    "decoding.beam_search": "stops when all have said END: its length hangs on values",
    "decoding.sample": "stops when all have said END: its length hangs on values",
    "decoding.translate": "gives words",
}


def public_names() -> set[str]:
    found = set()
    for module in MODULES:
        names = importlib.import_module(f"attn_notes.{module}").__all__
        found |= {f"{module}.{name}" for name in names}
    return found


def test_every_public_name_has_a_call_or_a_reason():
    called = {f"{module}.{name}" for module, calls in CALLS.items() for name in calls}
    assert called | set(EXCEPTIONS) == public_names()
    assert not called & set(EXCEPTIONS)


CASES = [
    pytest.param(call, id=f"{module}.{name}[{n}]")
    for module, calls in CALLS.items()
    for name, several in calls.items()
    for n, call in enumerate(several)
]


@pytest.mark.parametrize("call", CASES)
def test_it_runs_on_a_device_that_holds_no_values(call):
    result, shape = call()
    assert (None if result is None else tuple(result.shape)) == shape
    assert result is None or result.is_meta


@pytest.mark.parametrize("call", CASES)
def test_its_gradient_runs_there_too(call):
    result, _ = call()
    if result is not None and result.requires_grad:
        result.sum().backward()
