"""Wrong inputs raise the right exception, whose message names what is wrong.

A row is (the call, the exception, a phrase of the message). Each argument is tried once where it
enters the package; whoever else takes it shares the check.
"""

import datetime as dt
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from attn_notes import arguments as A
from attn_notes import data, inside, training
from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import positions as P
from attn_notes import scores as C
from attn_notes.attention import (
    Attention,
    attention_weights,
    scaled_dot_product_attention,
)
from attn_notes.cache import KVCache
from attn_notes.checks import check_causal, check_weights, influence, share_seen
from attn_notes.data import TextWindows, Vocabulary, make_batch, split_text
from attn_notes.decoding import beam_search, greedy, sample, translate
from attn_notes.flash import online_softmax, tiled_attention
from attn_notes.inside import Head
from attn_notes.multihead import MultiHeadAttention, split_heads
from attn_notes.ngrams import NGramModel
from attn_notes.patterns import pattern_cells, pattern_score
from attn_notes.plotting import plot_attention, plot_band, plot_heads
from attn_notes.pretrained import mean_pooling
from attn_notes.transformer import (
    DecoderBlock,
    DecoderOnly,
    Encoder,
    Transformer,
    TransformerConfig,
)
from attn_train import loop, sources
from tests.oracles import DV, B, D, H, L, S

NAN, INF = float("nan"), float("inf")
T, V = TypeError, ValueError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def true(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


def rows(call, *cases: tuple) -> list[tuple]:
    """(arguments, exception, phrase) for one callable."""
    return [(partial(call, *given), error, phrase) for given, error, phrase in cases]


# The checks that all share

CHECKS = [
    *(
        (partial(A.check_integers, 1, n=n), T, "n must be an integer")
        for n in ("2", True, [2], 2.0, torch.tensor([2]))
    ),
    (partial(A.check_integers, 1, n=0), V, "n must be at least 1, got 0"),
    *((partial(A.check_positive, x=x), V, "x must be a positive") for x in (0, -1.0, NAN, INF)),
    *((partial(A.check_fractions, x=x), V, "x must be from 0 to 1") for x in (-0.1, 1.01, NAN)),
    (partial(A.check_tensors, x=[1.0]), T, "x must be a tensor"),
]

# Attention: masks, biases, widths

Q, KEY, VALUE = zeros(B, H, L, D), zeros(B, H, S, D), zeros(B, H, S, DV)
TAKE_A_MASK = [
    lambda mask: M.masked_softmax(zeros(B, H, L, S), mask),
    lambda mask: attention_weights(Q, KEY, attn_mask=mask),
    lambda mask: scaled_dot_product_attention(Q, KEY, VALUE, attn_mask=mask),
    lambda mask: tiled_attention(Q, KEY, VALUE, attn_mask=mask),
    lambda mask: Attention(C.DotProductScore())(Q, KEY, VALUE, mask),
    lambda mask: check_weights(torch.full((B, H, L, S), 1 / S), mask),
]
WRONG_MASKS = [
    ((zeros(L, S),), T, "mask must be a bool tensor"),
    (([[True] * S] * L,), T, "mask must be a bool tensor"),
    ((true(S, L),), V, f"({S}, {L})"),
    ((true(1, B, H, L, S),), V, f"(1, {B}, {H}, {L}, {S})"),
    ((true(B, L, S),), V, "mask[:, None]"),
    ((true(H, L, S),), V, "mask[:, None]"),  # it would broadcast, and mean something else
]
TAKE_A_PAIR = [
    attention_weights,
    lambda q, k: scaled_dot_product_attention(q, k, zeros(*k.shape[:-1], DV).to(k.dtype)),
    lambda q, k: tiled_attention(q, k, zeros(*k.shape[:-1], DV).to(k.dtype)),
    C.GaussianScore(),
    C.DotProductScore(),
    C.ScaledDotProductScore(),
]
PAIR = "got query"
WRONG_PAIRS = [
    ((Q, VALUE), V, PAIR),
    ((zeros(B, L, D), zeros(1, S, D)), V, PAIR),
    ((zeros(B, L, D), zeros(S, D)), V, PAIR),
    ((zeros(D), zeros(S, D)), V, PAIR),
    ((zeros(L, 0), zeros(S, 0)), V, "head_dim"),
    ((zeros(L, D), zeros(S, D).double()), T, "of the same dtype"),
    ((ids(L, D), ids(S, D)), T, "floating point"),
]
TAKE_A_VALUE = [
    lambda k, v: scaled_dot_product_attention(zeros(*k.shape[:-2], L, D), k, v),
    lambda k, v: tiled_attention(zeros(*k.shape[:-2], L, D), k, v),
]
WRONG_VALUES = [
    ((zeros(B, S, D), zeros(B, L, DV)), V, "key and value must"),
    ((zeros(B, S, D), zeros(1, S, DV)), V, "key and value must"),
    ((zeros(S, D), zeros(S, DV).double()), T, "of the same dtype"),
]
ATTENTION = [
    *(row for take in TAKE_A_MASK for row in rows(take, *WRONG_MASKS)),
    *(row for take in TAKE_A_PAIR for row in rows(take, *WRONG_PAIRS)),
    *(row for take in TAKE_A_VALUE for row in rows(take, *WRONG_VALUES)),
    *rows(
        lambda bias: scaled_dot_product_attention(Q, KEY, VALUE, attn_bias=bias),
        ((true(L, S),), T, "attn_bias must be floating point"),
        ((1.0,), T, "attn_bias must be a tensor"),
        ((zeros(S, L),), V, "attn_bias must broadcast"),
    ),
    *(
        (lambda p=p: scaled_dot_product_attention(Q, KEY, VALUE, dropout_p=p), V, "dropout_p must")
        for p in (-0.1, 1.5, NAN)
    ),
    (lambda: M.and_causal(ids(L, S), L, S), T, "mask must be a bool tensor"),
    (lambda: M.and_causal([True], 1, 1), T, "mask must be a bool tensor"),
    (lambda: tiled_attention(Q, KEY, VALUE, tile=0), V, "tile must"),
    (lambda: [*online_softmax(zeros(L, S), zeros(L, S), tile=1)], V, "scores"),
    (lambda: [*online_softmax(true(5), zeros(5, 2), tile=1)], T, "floating"),
    (lambda: M.masked_softmax(ids(L, S)), T, "scores must be floating"),
    (lambda: Attention(lambda q, k: k @ q.mT)(Q, KEY, VALUE), V, f"({B}, {H}, {S}, {L})"),
    (lambda: Attention(C.DotProductScore())(Q, KEY, Q), V, "weights and value"),
]

MASKS = [
    *rows(
        M.padding_mask,
        (([2, -1], 5), V, "from 0 to the size 5"),
        (([2.0], 5), T, "lengths must be integers"),
        (([[[1]]], 5), V, "(B,) or (B, L)"),
        (([], -1), V, "size must be at least 0"),
    ),
    (lambda: M.causal_mask(2, offset=0.5), T, "offset must be an integer"),
    (lambda: M.causal_mask(-2), V, "L must be at least 0"),
    (lambda: M.sliding_window_mask(3, window=0), V, "window must be at least 1"),
    (lambda: M.prefix_mask(3, prefix=-1), V, "prefix must be at least 0"),
    (lambda: M.block_mask(true(3)), T, "query_segments"),
    (lambda: M.block_mask(ids(3), true(3)), T, "key_segments"),
    (lambda: M.block_mask(ids(2, 3), ids(5, 3)), V, "(5, 3)"),
    (lambda: M.pair_mask([1, 2], [1], 3, 3), V, "(B,)"),
]


def nw(queries=None, keys=None, values=None, **keywords):
    given = [zeros(S) if x is None else x for x in (queries, keys, values)]
    return lambda: K.nadaraya_watson(*given, **keywords)


KERNELS = [
    (nw(bandwidth=0), V, "bandwidth must be a positive number"),
    (nw(values=zeros(L)), V, "values"),
    (nw(values=zeros(S).double()), T, "float64"),
    (nw(zeros(L), exclude_self=True), V, f"queries ({L},)"),
]

# Heads, positions, caches

X, MEMORY = zeros(B, L, 12), zeros(B, S, 12)
HEADS = MultiHeadAttention(12, 3)


def new(embed_dim=12, num_heads=3, **options):
    return lambda: MultiHeadAttention(embed_dim, num_heads, **options)


def call(*tensors, heads=HEADS, **keywords):
    return lambda: heads(*tensors, **keywords)


def rotate(x=(5, 4), angles=(5, 2), **layout):
    return lambda: P.apply_rotary(zeros(*x), zeros(*angles), **layout)


PARTS = [
    (new(16), V, "num_heads = 3"),
    (new(qk_proj_dim=7), V, "qk_proj_dim"),
    (new(12, 6, num_kv_heads=4), V, "num_kv_heads"),
    (new(packed=True, kdim=11), V, "packed"),
    (call(X, X + 1, heads=new(packed=True)()), V, "packed"),
    (call(X, MEMORY, attn_mask=zeros(L, S)), T, "must be a bool tensor"),
    (call(X, MEMORY, attn_mask=true(H, L, S)), V, f"({H}, {L}, {S})"),
    (call(X, MEMORY, attn_bias=zeros(B, L, S)), V, f"({B}, {L}, {S})"),
    (lambda: split_heads(X, 5), V, "num_heads = 5"),
    (lambda: P.rotary_angles(3, 5), V, "even"),
    (lambda: P.sinusoidal_encoding(3, 4, base=0), V, "base must be a positive number"),
    (lambda: P.sinusoidal_encoding(3, 4, dtype=torch.int64), T, "dtype must be floating point"),
    (lambda: KVCache().update(zeros(B, H, 1, D), zeros(B, H, 2, D)), V, f"({B}, {H}, 2, {D})"),
    (lambda: P.alibi_bias(2, 3, offset=0.5), T, "offset must be an integer"),
    (lambda: P.rotary_angles(3, 4, scale=0.0), V, "scale must be a positive"),
    (rotate(angles=(3, 2)), V, "angles (3, 2)"),
    (rotate(layout="half"), V, "layout must be"),
]

# Models and decoding


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": 13, "embed_dim": 6, "num_heads": 3, "max_length": 5, "norm": "pre"}
    return TransformerConfig(**sizes | changes)


LENGTHS, WRITER = torch.tensor([4, 2]), DecoderOnly(config())


def model(source=(2, 4), lengths=LENGTHS, inputs=(2, 3), *, weights=False, **changes):
    whole = Transformer(config(**changes))
    return lambda: whole(ids(*source), lengths, ids(*inputs), need_weights=weights)


def step(*shape):
    def call():
        _, state = WRITER.start(ids(2, 3))
        WRITER.step(ids(*shape), state)

    return call


def of(family, *tensors, caches=None, **changes):
    return lambda: family(config(**changes))(*tensors, caches=caches)


def decode(search=sample, max_length=2, **choices):
    return lambda: search(WRITER, ids(2, 3), max_length=max_length, **choices)


NOTHING = Vocabulary([])
MODELS = [
    (model(lengths=ids(3)), V, "lengths (3,)"),
    (model(lengths=LENGTHS.float()), T, "must be integers"),
    (model(inputs=(3,)), V, "tokens must have shape (B, L)"),
    (step(3), V, "(3,)"),
    (of(Encoder, ids(2, 3), caches=()), V, "got 0"),
    (of(Encoder, zeros(2, 3)), T, "tokens must be integers"),
    (of(Encoder, 13 * ids(1, 2)), V, "tokens must be ids from 0 to 12"),
    (of(Encoder, ids(2, 3), ids(2, 3)), V, "num_token_types is 0"),
    (of(Encoder, ids(1, 1), 2 * ids(1, 1), num_token_types=2), V, "be ids from 0 to 1"),
    (lambda: DecoderBlock(config())(zeros(2, 5, 6), zeros(3, 4, 6)), V, "(3, 3, 4, 2)"),
    (of(DecoderOnly, num_token_types=2), V, "num_token_types must be 0"),
    (lambda: WRITER.start(ids(3)), V, "source must have shape (B, S)"),
    (lambda: WRITER.start(ids(2, 3), torch.tensor([3, 2])), V, "prompts must have the same length"),
    (partial(config, num_heads=4), V, "num_heads must divide embed_dim"),
    (partial(config, norm="first"), V, "norm must be one of"),
    (partial(config, tie_embeddings="no"), V, "tie_embeddings must be one of"),
    (partial(config, embed_dim=9, positions="rotary"), V, "must be even"),
    (decode(temperature=0), V, "temperature"),
    (decode(top_k=0), V, "top_k must be at least 1"),
    (decode(top_p=1.01), V, "top_p must be from 0 to 1"),
    (decode(greedy, max_length=0), V, "max_length must be at least 1"),
    (decode(beam_search, beam_size=0), V, "beam_size must be at least 1"),
    (decode(beam_search, length_penalty=-0.5), V, "length_penalty"),
    (lambda: translate(WRITER, ["ab"], NOTHING, NOTHING, max_length=2), T, "sequence of strings"),
    (lambda: mean_pooling(zeros(2, 3, 4), zeros(2, 3)), T, "bool"),
    (lambda: mean_pooling(zeros(2, 3, 4), true(2, 1, 3)), V, "mask must broadcast"),
]

# Looking inside

NAME = "body.blocks.0.self_attn"
HEAD, CROSS = Head(NAME, 2), Head("decoder.blocks.0.cross_attn", 0)
TOKENS = ids(2, 5)


def patched(place, change):
    def call():
        with inside.patch(WRITER, {place: change}):
            WRITER(TOKENS)

    return call


def parts(model):
    """The contributions of a run."""

    def call():
        with inside.record(model) as found:
            model(TOKENS)
        inside.contributions(model, found)

    return call


INSIDE = [
    (patched(Head(NAME, 3), 0.0), V, "a place must be a head"),
    (patched("body.blocks.2", 0.0), V, "a place must be a head"),
    (patched(HEAD, zeros(3)), V, "must broadcast to the activation"),
    (parts(DecoderOnly(config(norm="post"))), V, "pre-norm"),
    (lambda: inside.prefix_matching_score(zeros(3, 5, 5), TOKENS), V, "weights and tokens"),
    (lambda: inside.copying_score(Transformer(config()), CROSS), V, "self-attention"),
    (lambda: inside.composition(WRITER, HEAD, Head(NAME, 0)), V, "an earlier and a later block"),
    (lambda: inside.rollout([zeros(1, 3, 2)]), V, "(..., H, L, L)"),
    (lambda: inside.integrated_gradients(torch.sin, zeros(2), steps=0), V, "steps must be"),
    (lambda: inside.integrated_gradients(torch.sin, zeros(2), zeros(4)), V, "baseline"),
]

# Data, texts and training

WORDS, LINEAR = Vocabulary([*"abcdef"]), nn.Linear(1, 1)
numbers = partial(data.number_pairs, "de", "en")


def windows(texts=("abcdef", "abc"), **changes):
    return lambda: TextWindows([*texts], WORDS, **{"length": 4, "batch_size": 6} | changes)


def fit(model=LINEAR, by=training.fit, **how):
    square = lambda model, x: model(x).square().sum()  # noqa: E731
    how = {"loss": square, "steps": 1} | how
    return lambda: by(model, lambda n: torch.ones(1, 1), **how)


DATA = [
    (lambda: Vocabulary(["a", "b", "a"]), V, "distinct"),
    (lambda: Vocabulary("drei"), T, "sequence of strings"),
    (lambda: WORDS.encode("ab"), T, "sequence of strings"),
    (lambda: WORDS.decode([4, 60]), V, "ids must be from 0"),
    (lambda: data.number_words(1, "xx"), V, "language must be one of"),
    (lambda: data.number_words(-1, "de"), V, "-1"),
    (partial(numbers, count=101, digits=(1, 2)), V, "count must be at most 100"),
    (partial(numbers, count=1, balance=1.1), V, "balance must be from 0 to 1"),
    (lambda: data.date_characters(dt.date(1969, 7, 21), "tlh"), V, "locale must be one of"),
    (lambda: make_batch([], WORDS, WORDS), V, "at least one pair"),
    (lambda: make_batch([((), ("a",))], WORDS, WORDS), V, "source must have a token"),
    (lambda: sources.read_pairs("no-such-file"), FileNotFoundError, "no-such-file"),
    (lambda: data.read_text(__file__, encoding="utf-9"), V, "utf-9"),
    (partial(split_text, "ab"), T, "must be a list of texts"),
    (partial(split_text, []), V, "either side"),
    (windows(length=13), V, "at least length + 1 = 14 ids"),
    (windows(batch_size=0), V, "batch_size must be at least 1"),
    (lambda: NGramModel(0, ["ab"], WORDS), V, "order must be at least 1"),
    (lambda: NGramModel(2, ["ab"], WORDS, discount=0), V, "discount must be a positive"),
    (lambda: NGramModel(2, ["ab"], WORDS, discount=1.1), V, "discount must be from 0 to 1"),
    (lambda: share_seen(["a"], [""]), V, "must hold a character"),
]
TRAINING = [
    (lambda: training.masked_cross_entropy(zeros(2, 5, 11), ids(2, 6)), V, "labels (2, 6)"),
    (lambda: training.exact_match([], []), V, "got 0 and 0"),
    (lambda: training.bleu("abc", "abc"), T, "must be lists"),
    (lambda: training.bleu(["a"], ["a", "b"]), V, "got 1 and 2"),
    (fit(lr=0.0), V, "lr must be a positive number"),
    (fit(max_norm=-1.0), V, "max_norm must be a positive number"),
    (fit(by=loop.fit, precision="int8"), V, "'int8'"),
    (fit(steps=-1), V, "steps must be at least 0"),
    (fit(nn.Linear(1, 1).requires_grad_(False)), V, "parameters that require a gradient"),
    (lambda: training.linear_decay(10, 10), V, "below total, got 10 and 10"),
]


# What shows and checks


def plot(*shape, fill=0.0, draw=plot_attention, **keywords):
    return lambda: draw(torch.full(shape, fill), **keywords)


SHOWN = [
    (plot(L, S, fill=NAN), V, "weights must be finite"),
    (plot(H, L, S), V, "shape (L, S)"),
    (plot(L, S, query_tokens=["a"]), V, "tokens must be"),
    (plot(L, S, mask=zeros(L, S)), T, "bool"),
    (plot(L, S, draw=plot_heads), V, "(H, L, S)"),
    (lambda: plot_band([1, 2], zeros(5, 3)), V, "(R, N), got x (2,) and runs (5, 3)"),
    (lambda: pattern_cells("before", ["a"]), V, "one of previous"),
    (lambda: pattern_score(X, true(B, L, 12)), V, f"cells ({B}, {L}, 12)"),
    (lambda: influence(len, ids(3, 2)), T, "x must be floating"),
    (lambda: check_causal(lambda x: x.sum(-1), X), V, "layer must keep the length"),
]

TABLE = [
    *CHECKS,
    *ATTENTION,
    *MASKS,
    *KERNELS,
    *PARTS,
    *MODELS,
    *INSIDE,
    *DATA,
    *TRAINING,
    *SHOWN,
]


@pytest.mark.parametrize(("call", "error", "phrase"), TABLE)
def test_a_wrong_input_is_named(call, error, phrase):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert phrase in str(caught.value)


def test_a_refused_plot_leaves_the_figure_it_was_given_alone():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    with pytest.raises(ValueError, match="finite"):
        plot_attention(torch.tensor([[NAN]]), ax=ax)
    assert not ax.images
    plt.close(figure)


def test_integers_of_numpy_are_integers():
    A.check_integers(4, of_numpy=np.int64(4))
