"""Every wrong input raises the right error, whose words say what must hold and what came.

A row is (what it is, the call, the exception, words of the message). Whole shapes are among the
words wherever shapes are to blame.
"""

import numpy as np
import pytest
import torch

from attn_notes import arguments as A
from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import scores as C
from attn_notes.attention import Attention, attention_weights, scaled_dot_product_attention
from attn_notes.cache import KVCache
from attn_notes.checks import (
    check_causal,
    check_padding_invariant,
    check_permutation_equivariant,
    check_weights,
    influence,
)
from attn_notes.flash import online_softmax, tiled_attention
from attn_notes.masks import masked_softmax
from attn_notes.multihead import MultiHeadAttention, SelfAttention, merge_heads, split_heads
from attn_notes.patterns import pattern_cells, pattern_score
from attn_notes.plotting import plot_attention, plot_band, plot_heads
from tests import data_errors, inside_errors, models_errors, text_errors
from tests.oracles import DV, B, D, H, L, S

NAN, INF = float("nan"), float("inf")
T, V = TypeError, ValueError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def ints(*shape: int) -> torch.Tensor:
    return zeros(*shape).long()


def true(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


def each(callers: dict, cases: list[tuple]) -> list[tuple]:
    """Every case for every caller: (what it is, the arguments, the exception, words)."""
    return [
        (f"{what}: {name}", lambda call=call, given=given: call(*given), error, *words)
        for name, call in callers.items()
        for what, given, error, *words in cases
    ]


def pad(lengths, size=5, **keywords):
    return lambda: M.padding_mask(lengths, size, **keywords)


MASKS = [
    ("a negative length", pad([2, -1]), V, "from 0 to the size 5", "from -1 to 2"),
    ("a length too long for meta", pad(torch.tensor([2, 6]), device="meta"), V, "from 2 to 6"),
    ("float lengths", pad([2.0]), T, "lengths must be integers", "float32"),
    ("lengths of three axes", pad([[[1]]]), V, "(B,) or (B, L)", "(1, 1, 1)"),
    ("lengths in words", pad(["two"]), T, "lengths must be integers", "two"),
    ("rows of several lengths", pad([[1, 2], [1]]), T, "as many in each row", "[[1, 2], [1]]"),
    ("a negative size", pad([], -1), V, "size must be at least 0", "-1"),
    ("a float offset", lambda: M.causal_mask(2, offset=0.5), T, "offset must be an integer", "0.5"),
    ("no window", lambda: M.sliding_window_mask(3, window=0), V, "window must be at least 1", "0"),
    ("a prefix beyond S", lambda: M.prefix_mask(3, 5, prefix=6), V, "from 0 to S = 5", "6"),
    ("a negative prefix", lambda: M.prefix_mask(3, prefix=-1), V, "from 0 to S = 3", "-1"),
    ("bool key segments", lambda: M.block_mask(ints(3), true(3)), T, "key_segments must be int"),
    ("two batches", lambda: M.block_mask(ints(2, 3), ints(5, 3)), V, "and (..., S)", "(5, 3)"),
    ("one number for segments", lambda: M.block_mask(ints()), V, "got query_segments ()"),
    ("two batches of lengths", lambda: M.pair_mask([1, 2], [1], 3, 3), V, "both have shape (B,)"),
    ("a query too long", lambda: M.pair_mask([4], [1], 3, 5), V, "size 3, got values from 4 to 4"),
]

# The checks that all share, on the values that each caller is then tried with once.
NO_INTEGERS = ("2", True, torch.tensor(True), [2], 2.0, torch.tensor([2]))
OF_NUMBERS = {
    "a finite number": (A.check_finite, (NAN, INF, -INF)),
    "a positive number": (A.check_positive, (0, -1.0, NAN, INF)),
    "from 0 to 1": (A.check_fractions, (-0.1, 1.01, NAN)),
}
SHARED = [
    *(
        (f"{n!r} for an integer", lambda n=n: A.check_integers(1, n=n), T, "n must be an integer")
        for n in NO_INTEGERS
    ),
    ("an integer too small", lambda: A.check_integers(1, n=0), V, "n must be at least 1, got 0"),
    *(
        (f"{x} for {must}", lambda f=f, x=x: f(x=x), V, f"x must be {must}, got {x!r}")
        for must, (f, wrong) in OF_NUMBERS.items()
        for x in wrong
    ),
    *(
        (f"no number for {must}", lambda f=f: f(x="a"), T, "x must be a number")
        for must, (f, _) in OF_NUMBERS.items()
    ),
    ("a list of numbers", lambda: A.check_tensors(x=[1.0]), T, "x must be a tensor, got list"),
]

SCORE = C.DotProductScore()
Q, KEY, VALUE = zeros(B, H, L, D), zeros(B, H, S, D), zeros(B, H, S, DV)

# Whoever takes a mask refuses the same masks, with the same words.
TAKES_A_MASK = {
    "masked_softmax": lambda mask: masked_softmax(zeros(B, H, L, S), mask),
    "attention_weights": lambda mask: attention_weights(Q, KEY, attn_mask=mask),
    "fused": lambda mask: scaled_dot_product_attention(Q, KEY, VALUE, attn_mask=mask),
    "fused causal": lambda mask: scaled_dot_product_attention(
        Q, KEY, VALUE, attn_mask=mask, is_causal=True
    ),
    "tiled": lambda mask: tiled_attention(Q, KEY, VALUE, attn_mask=mask),
    "Attention": lambda mask: Attention(SCORE)(Q, KEY, VALUE, mask),
    "check_weights": lambda mask: check_weights(torch.full((B, H, L, S), 1 / S), mask),
}
FITS = "must broadcast to the "
WRONG_MASKS = [
    ("a float mask", (zeros(L, S),), T, "mask must be a bool tensor (True = may", "float32"),
    ("an integer mask", (ints(L, S),), T, "must be a bool tensor", "int64"),
    ("a list for a mask", ([[True] * S] * L,), T, "must be a bool tensor", "list"),
    ("a mask of other sizes", (true(S, L),), V, FITS, f"({S}, {L})"),
    ("a mask of five axes", (true(1, B, H, L, S),), V, FITS, f"(1, {B}, {H}, {L}, {S})"),
    ("a mask of three axes", (true(B, L, S),), V, "mask[:, None]", f"({B}, {L}, {S})"),
    # Three heads and a batch of three: it would broadcast, and mean something else.
    ("three axes that would fit", (true(H, L, S),), V, "mask[:, None]", f"({B}, {H}, {L}, {S})"),
]

TAKES_A_BIAS = {
    "attention_weights": lambda bias: attention_weights(Q, KEY, attn_bias=bias),
    "fused": lambda bias: scaled_dot_product_attention(Q, KEY, VALUE, attn_bias=bias),
}
WRONG_BIASES = [
    ("a bool bias", (true(L, S),), T, "attn_bias must be floating point, got torch.bool"),
    ("a number for a bias", (1.0,), T, "attn_bias must be a tensor, got float"),
    ("a bias of other sizes", (zeros(S, L),), V, "attn_bias must broadcast", f"({S}, {L})"),
]

TAKES_QUERY_AND_KEY = {
    "attention_weights": attention_weights,
    "fused": lambda q, k: scaled_dot_product_attention(q, k, zeros(*k.shape[:-1], DV).to(k.dtype)),
    "tiled": lambda q, k: tiled_attention(q, k, zeros(*k.shape[:-1], DV).to(k.dtype)),
    "GaussianScore": C.GaussianScore(),
    "DotProductScore": C.DotProductScore(),
    "ScaledDotProductScore": C.ScaledDotProductScore(),
}
PAIR = "query and key must have shapes (..., L, D) and (..., S, D)"
WRONG_PAIRS = [
    ("two widths", (Q, VALUE), V, PAIR, f"({B}, {H}, {L}, {D}) and key ({B}, {H}, {S}, {DV})"),
    ("a batch of one", (zeros(B, L, D), zeros(1, S, D)), V, PAIR, f"key (1, {S}, {D})"),
    ("another number of axes", (zeros(B, L, D), zeros(S, D)), V, PAIR, f"key ({S}, {D})"),
    ("one axis", (zeros(D), zeros(S, D)), V, PAIR, f"query ({D},)"),
    ("no width", (zeros(L, 0), zeros(S, 0)), V, "head_dim of at least 1", f"query ({L}, 0)"),
    ("two dtypes", (zeros(L, D), zeros(S, D).double()), T, "and of the same dtype"),
    ("ids", (ints(L, D), ints(S, D)), T, "floating point", "got torch.int64 and torch.int64"),
]

TAKES_A_VALUE = {
    "fused": lambda k, v: scaled_dot_product_attention(zeros(*k.shape[:-2], L, D), k, v),
    "tiled": lambda k, v: tiled_attention(zeros(*k.shape[:-2], L, D), k, v),
    "Attention": lambda k, v: Attention(SCORE)(zeros(*k.shape[:-2], L, D), k, v),
}
BUT_LAST = "key and value must have shapes (..., S, D) and (..., S, Dv)"
WRONG_VALUES = [
    ("fewer values", (zeros(B, S, D), zeros(B, L, DV)), V, BUT_LAST, f"({B}, {L}, {DV})"),
    ("values of another batch", (zeros(B, S, D), zeros(1, S, DV)), V, BUT_LAST, f"(1, {S}, {DV})"),
    ("double values", (zeros(S, D), zeros(S, DV).double()), T, "of the same dtype", "float64"),
]

WIDE_SCORES = {
    "BilinearScore": C.BilinearScore(2, 3),
    "AdditiveScore": C.AdditiveScore(2, 3, 5),
    "ConcatScore": C.ConcatScore(2, 3, 5),
}
WRONG_WIDTHS = [
    ("query and key swapped", (zeros(L, 3), zeros(S, 2)), V, "shapes (..., L, 2) and (..., S, 3)"),
    ("a query of one axis", (zeros(2), zeros(S, 3)), V, "(..., L, 2)", "query (2,)"),
    ("two batches", (zeros(B, L, 2), zeros(1, S, 3)), V, "(..., S, 3)", f"key (1, {S}, 3)"),
]

WITH_A_SIZE = {
    "BilinearScore": lambda size: C.BilinearScore(size, 3),
    "AdditiveScore": lambda size: C.AdditiveScore(2, 3, size),
    "ConcatScore": lambda size: C.ConcatScore(2, size, 5),
    "split_heads": lambda size: split_heads(zeros(L, 12), size),
    "causal_mask": M.causal_mask,
}
HEAD_SIZES = (
    "embed_dim", "num_heads", "num_kv_heads", "qdim", "kdim", "vdim", "qk_proj_dim", "v_proj_dim",
)  # fmt: skip


def nw(queries=None, keys=None, values=None, **keywords):
    given = (zeros(S) if x is None else x for x in (queries, keys, values))
    return lambda: K.nadaraya_watson(*given, **keywords)


def turned(query, key):
    return key @ query.mT


def summed(query, key=None):
    return query.sum(-1)


def shorter(x):
    return x[..., :2, :]


X, KEEPS = zeros(B, L, 12), "layer must keep the length"
OTHERS = [
    ("a bandwidth of 0", nw(bandwidth=0), V, "bandwidth must be a positive number, got 0"),
    ("three bandwidths", nw(bandwidth=zeros(3, 1, 1) + 1), V, f"{FITS}weights", "(3, 1, 1)"),
    ("keys without values", nw(values=zeros(L)), V, "(..., S) and (..., S)", f"({L},)"),
    ("values of two axes", nw(values=zeros(S, 1)), V, "(..., S)", f"values ({S}, 1)"),
    ("values of another dtype", nw(values=zeros(S).double()), T, "float32 and torch.float64"),
    ("a batch of queries alone", nw(zeros(B, L)), V, "(..., L)", f"queries ({B}, {L})"),
    ("the self of other queries", nw(zeros(L), exclude_self=True), V, f"({L},), keys ({S},)"),
    ("a model from NaN", lambda: K.KernelRegression(NAN), V, "w must be a finite number", "nan"),
    ("integer scores", lambda: masked_softmax(ints(L, S)), T, "scores must be floating", "int64"),
    ("a word for a score", lambda: Attention("dot"), T, "such as", "'dot'"),
    ("a class for a score", lambda: Attention(C.DotProductScore), T, "such as", "DotProductScore"),
    ("a dropout above 1", lambda: Attention(SCORE, 1.5), V, "dropout must be from 0 to 1", "1.5"),
    ("turned scores", lambda: Attention(turned)(Q, KEY, VALUE), V, f"scores ({B}, {H}, {S}, {L})"),
    ("one score a query", lambda: Attention(summed)(Q, KEY, VALUE), V, f"scores ({B}, {H}, {L}),"),
    # Tiles and patterns
    ("a tile of no key", lambda: tiled_attention(Q, KEY, VALUE, tile=0), V, "tile must be at"),
    ("scores of two axes", lambda: [*online_softmax(X[0], X[0], tile=1)], V, "scores (5, 12)"),
    ("fewer scores", lambda: [*online_softmax(zeros(3), X[0], tile=1)], V, "scores (3,)"),
    ("scores of bools", lambda: [*online_softmax(true(5), X[0], tile=1)], T, "floating"),
    ("no such pattern", lambda: pattern_cells("before", ["a"]), V, "one of previous, next, same"),
    ("float cells", lambda: pattern_score(zeros(2, 2), zeros(2, 2)), T, "bool tensor"),
    ("cells of each head", lambda: pattern_score(X, true(B, L, 12)), V, "cells (2, 5, 12)"),
    # Checks
    ("no noise for integers", lambda: influence(len, ints(3, 2)), T, "x must be floating", "int64"),
    ("a place lost", lambda: check_permutation_equivariant(shorter, zeros(3, 2)), V, KEEPS),
    ("a length beyond x", lambda: check_padding_invariant(len, X, ints(B) + 9), V, f"the size {L}"),
    ("a layer that shortens", lambda: influence(shorter, X), V, KEEPS, f"output ({B}, 2, 12)"),
    ("a layer that drops an axis", lambda: check_causal(summed, X), V, KEEPS, f"({B}, {L})"),
]

HEADS = MultiHeadAttention(12, 3)
PACKED = MultiHeadAttention(12, 3, packed=True)
FUSED = MultiHeadAttention(12, 3, backend="fused")
MEMORY, OTHER = zeros(B, S, 12), zeros(B, S, 11)


def cached() -> KVCache:
    """A cache that holds two keys and values."""
    cache = KVCache()
    HEADS(X[:, :2], cache=cache)
    return cache


def new(embed_dim=12, num_heads=3, **options):
    return lambda: MultiHeadAttention(embed_dim, num_heads, **options)


def call(*tensors, heads=HEADS, **keywords):
    return lambda: heads(*tensors, **keywords)


SHAPES = "shapes (B, L, 12), (B, S, 12) and (B, S, 12)"
MULTIHEAD = [
    ("3 heads of 16", new(16), V, "divide embed_dim, got num_heads = 3 and embed_dim = 16"),
    ("3 heads of qk 7", new(qk_proj_dim=7), V, "divide qk_proj_dim, got num_heads = 3 and", "= 7"),
    ("4 for 6 heads", new(12, 6, num_kv_heads=4), V, "num_heads, got num_kv_heads = 4 and", "= 6"),
    *(
        (f"{name} of 0", new(**{name: 0}), V, f"{name} must be at least 1, got 0")
        for name in HEAD_SIZES
    ),
    ("one head of no width", lambda: SelfAttention(12, v_proj_dim=0), V, "v_proj_dim must be at"),
    ("an unknown backend", new(backend="flash"), V, '"explicit" or "fused", got \'flash\''),
    ("a dropout of 2", new(dropout=2.0), V, "dropout must be from 0 to 1, got 2.0"),
    ("weights of the fused backend", call(X, heads=FUSED, need_weights=True), V, "for weights"),
    ("a packed layer of two widths", new(packed=True, kdim=11), V, "got 12, 11, 12, and 12, 12"),
    ("packed heads of two widths", new(packed=True, v_proj_dim=24), V, "12, 12, and 12, 24"),
    ("a key in a packed layer", call(X, X + 1, heads=PACKED), V, "must be the query in a packed"),
    ("a value without a key", call(X, value=X), V, "key must be given where value is"),
    ("a query of two axes", call(X[0]), V, SHAPES, f"({L}, 12)"),
    ("a key of another width", call(X, OTHER), V, SHAPES, "key (2, 7, 11)"),
    ("values of another length", call(X, MEMORY, X), V, SHAPES, f"({B}, {L}, 12)"),
    ("a float mask of heads", call(X, MEMORY, attn_mask=zeros(L, S)), T, "must be a bool tensor"),
    ("a mask of heads", call(X, MEMORY, attn_mask=true(H, L, S)), V, FITS, f"({H}, {L}, {S})"),
    ("a bias of each text", call(X, MEMORY, attn_bias=zeros(B, L, S)), V, FITS, f"({B}, {L}, {S})"),
    (
        "a mask of other sizes with a cache",
        lambda: HEADS(X, attn_mask=true(L, L), is_causal=True, cache=cached()),
        V,
        f"{FITS}scores, got mask ({L}, {L}) and scores ({B}, 3, {L}, {L + 2})",
    ),
    ("one head of another width", lambda: SelfAttention(11)(X), V, "(..., L, 11)", f"{L}, 12)"),
    ("a split into five", lambda: split_heads(X, 5), V, f"x ({B}, {L}, 12) and num_heads = 5"),
    ("a split of one axis", lambda: split_heads(zeros(12), 3), V, "(..., L, E)", "(12,)"),
    ("a merge of two axes", lambda: merge_heads(zeros(L, D)), V, "(..., H, L, D)", f"({L}, {D})"),
]


def plot(*shape, fill=0.0, draw=plot_attention, **keywords):
    return lambda: draw(torch.full(shape, fill), **keywords)


def heads(*shape, **keywords):
    return plot(*shape, draw=plot_heads, **keywords)


PLOTS = [
    ("NaN", plot(L, S, fill=NAN), V, "weights must be finite", "NaN"),
    ("three axes", plot(H, L, S), V, "shape (L, S)", f"({H}, {L}, {S})"),
    ("too few query tokens", plot(L, S, query_tokens=["a"]), V, f"tokens must be {L}", "got 1"),
    ("a float mask", plot(L, S, mask=zeros(L, S)), T, "bool", "float32"),
    ("a mask of other sizes", plot(L, S, mask=true(S, L)), V, f"{FITS}weights", f"({S}, {L})"),
    ("heads of two axes", heads(L, S), V, "(H, L, S)", f"({L}, {S})"),
    ("no head", heads(0, L, S), V, "(H, L, S)", f"(0, {L}, {S})"),
    ("masks of other heads", heads(3, L, S, mask=true(2, L, S)), V, FITS, f"(2, {L}, {S})"),
    ("runs of one axis", lambda: plot_band([1, 2], zeros(2)), V, "must have shape (R, 2)", "(2,)"),
    ("runs of another length", lambda: plot_band([1, 2], zeros(5, 3)), V, "(R, 2)", "(5, 3)"),
]

TABLE = [
    *data_errors.TABLE,
    *inside_errors.TABLE,
    *models_errors.TABLE,
    *text_errors.TABLE,
    *MASKS,
    *OTHERS,
    *MULTIHEAD,
    *SHARED,
    *PLOTS,
    *each(TAKES_A_MASK, WRONG_MASKS),
    *each(TAKES_A_BIAS, WRONG_BIASES),
    *each(TAKES_QUERY_AND_KEY, WRONG_PAIRS),
    *each(TAKES_A_VALUE, WRONG_VALUES),
    *each(WIDE_SCORES, WRONG_WIDTHS),
    *each(WITH_A_SIZE, [("a size of -2", (-2,), V, "must be at least")]),
]


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case[0].replace(" ", "_"))
def test_a_wrong_input_is_named(case):
    _, call, error, *words = case
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is error
    missing = [word for word in words if word not in message]
    assert not missing, f"{message!r} does not say {missing}"
    assert "\n" not in message


def test_a_refused_plot_leaves_the_figure_it_was_given_alone():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    with pytest.raises(ValueError, match="finite"):
        plot_attention(torch.tensor([[NAN]]), ax=ax)
    assert not ax.images
    plt.close(figure)


def test_integers_of_numpy_and_torch_are_integers():
    A.check_integers(4, of_numpy=np.int64(4), of_torch=torch.tensor(4))
