"""Wrong inputs to the tools that look inside a model: a part of the table of `test_errors`.

A row is (what it is, the call, the exception, words of the message).
"""

import torch
from torch import nn

from attn_notes import inside, transformer
from attn_notes.inside import Head, patch, record
from attn_notes.transformer import DecoderOnly, Encoder, Transformer, TransformerConfig

T, V = TypeError, ValueError

SIZES = {"vocab_size": 13, "embed_dim": 6, "num_heads": 3, "max_length": 5}
PRE, POST = TransformerConfig(**SIZES, norm="pre"), TransformerConfig(**SIZES)
BERT = transformer.MaskedLanguageModel(PRE)
MODEL, TOKENS = DecoderOnly(PRE), torch.ones(2, 5, dtype=torch.int64)
NAME = "body.blocks.0.self_attn"
HEAD = Head(NAME, 2)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def patched(place, change):
    def call():
        with patch(MODEL, {place: change}):
            MODEL(TOKENS)

    return call


def recorded(*places):
    def call():
        with record(MODEL, places):
            pass

    return call


def split(model=MODEL, left_out=None):
    """The contributions of a run, of which one activation is forgotten."""

    def call():
        with record(model) as found:
            model(TOKENS)
        found.pop(left_out, None)
        inside.contributions(model, found)

    return call


def direct(*shape: int, model=MODEL, split=True):
    def call():
        with record(model) as found:
            model(TOKENS)
        parts = inside.contributions(model, found)
        inside.direct_logits(model, parts if split else found, zeros(*shape))

    return call


PLACE, FIT = "a place must be a head of find_heads(model)", "must broadcast to the activation"
ACTIVATIONS = [
    ("a head beyond the last", patched(Head(NAME, 3), 0.0), V, PLACE, f"'{NAME}', index=3"),
    ("a head before the first", patched(Head(NAME, -1), 0.0), V, PLACE, "index=-1"),
    ("a head of no attention", patched(Head("body.blocks.0", 0), 0.0), V, PLACE, "'body.blocks.0'"),
    ("a head of no module", recorded(HEAD, Head("blocks.0", 0)), V, PLACE, "'blocks.0'"),
    ("a module that is not there", recorded("body.blocks.2"), V, PLACE, "'body.blocks.2'"),
    ("no place", lambda: inside.effects(MODEL, float, {"": 0, "x": 0}), V, PLACE, "'x'"),
    ("a change too wide", patched(HEAD, zeros(3)), V, f"{HEAD} {FIT}", "(3,)", "(2, 5, 2)"),
    ("a change with an axis more", patched("body", zeros(1, 1, 1, 1)), V, FIT, "(1, 1, 1, 1)"),
    ("a change in words", patched(HEAD, "zero"), T, f"of {HEAD} must be a number", "str"),
    ("a function of nothing", patched(HEAD, lambda x: None), T, "a function", "got NoneType"),
]

SHARES = "model must be Transformer or DecoderOnly"
STREAMS = [
    ("a lens without words", lambda: inside.logit_lens(Encoder(PRE), zeros(6)), T, "got Encoder"),
    ("parts of a post-norm model", split(DecoderOnly(POST)), V, "must be pre-norm", "post-norm"),
    ("parts without a head", split(left_out=HEAD), V, "all that record(model)", f"no {HEAD}"),
    ("parts of one layer", lambda: inside.contributions(nn.Linear(2, 2), {}), T, "got Linear"),
    ("a direction too wide", direct(7), V, "direction must broadcast", "(7,)", "(2, 5, 6)"),
    ("a direction of ids", direct(2, 5), V, "direction must broadcast", "(2, 5) and", "(2, 5, 6)"),
    ("shares of activations", direct(6, split=False), V, "contributions", "got activations"),
    ("shares in BERT", direct(6, model=BERT), T, SHARES, "MaskedLanguageModel"),
]

SECOND, OTHER = Head("body.blocks.1.self_attn", 0), Transformer(PRE)
CROSS, ENCODED = Head("decoder.blocks.0.cross_attn", 0), Head("encoder.blocks.0.self_attn", 0)
ORDER = "in the self-attention of an earlier and a later block"
MAPS = "weights and tokens must have shapes (B, H, L, L) and (B, L)"


def matching(weights, tokens, kind=torch.long):
    return lambda: inside.prefix_matching_score(zeros(*weights), zeros(*tokens).to(kind))


def copies(model, head):
    return lambda: inside.copying_score(model, head)


def composed(model, earlier, later):
    return lambda: inside.composition(model, earlier, later)


def rolled(*shapes):
    return lambda: inside.rollout([zeros(*shape) for shape in shapes])


def integrated(*options, **keywords):
    return lambda: inside.integrated_gradients(torch.sin, zeros(2, 3), *options, **keywords)


SCORES = [
    ("a map without a batch", matching((3, 5, 5), (2, 5)), V, MAPS, "(3, 5, 5)", "(2, 5)"),
    ("a map of other rows", matching((2, 3, 5, 5), (1, 5)), V, MAPS, "tokens (1, 5)"),
    ("a map of float tokens", matching((2, 3, 5, 5), (2, 5), torch.float), T, "tokens must be int"),
    ("copies of an encoder", copies(Encoder(PRE), HEAD), T, SHARES, "Encoder"),
    ("copies from a memory", copies(OTHER, CROSS), V, "self-attention", "cross"),
    ("copies of a source", copies(OTHER, ENCODED), V, "the Decoder's", "encoder"),
    ("a later head first", composed(MODEL, SECOND, HEAD), V, ORDER, "1.self_attn.0 and"),
    ("heads of one layer", composed(MODEL, HEAD, Head(NAME, 0)), V, ORDER, f"{NAME}.0"),
    ("heads of two stacks", composed(OTHER, ENCODED, CROSS), V, ORDER, "cross_attn.0"),
]

SQUARE = "weights must be (..., H, L, L) of each layer"
ATTRIBUTION = [
    ("a rollout of nothing", rolled(), V, SQUARE, "got []"),
    ("a rollout of one map", rolled((5, 5)), V, SQUARE, "[(5, 5)]"),
    ("a rollout across", rolled((3, 5, 7)), V, SQUARE, "[(3, 5, 7)]"),
    ("a rollout of two lengths", rolled((1, 3, 3), (1, 2, 2)), V, SQUARE, "3), (1, 2, 2)]"),
    ("no step", integrated(steps=0), V, "steps must be at least 1", "0"),
    ("a baseline too wide", integrated(zeros(2, 4)), V, "must broadcast to the x", "(2, 4)"),
    ("a baseline of ids", integrated(torch.ones(2, 3).long()), T, "x and baseline", "int64"),
]

TABLE = [*ACTIVATIONS, *STREAMS, *SCORES, *ATTRIBUTION]
