"""Every wrong input raises the right error, whose words say what must hold and what came.

One line a mistake: (what it is, the call, the exception, words of the message). Whole shapes
are among the words wherever shapes are to blame.
"""

import pytest
import torch

from attn_notes import kernels as K
from attn_notes import masks as M
from attn_notes import scores as C
from attn_notes.attention import (
    Attention,
    attention_weights,
    scaled_dot_product_attention,
)
from attn_notes.cache import KVCache
from attn_notes.checks import (
    check_causal,
    check_padding_invariant,
    check_permutation_equivariant,
    check_pieces_match_whole,
    check_weights,
    influence,
)
from attn_notes.masks import masked_softmax
from attn_notes.multihead import MultiHeadAttention, SelfAttention, merge_heads, split_heads
from attn_notes.plotting import plot_attention, plot_band, plot_heads
from tests import (
    data_errors,
    decoding_errors,
    positions_errors,
    pretrained_errors,
    text_errors,
    transformer_errors,
)
from tests.oracles import DV, B, D, H, L, S

NAN, INF = float("nan"), float("inf")
T, V = TypeError, ValueError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def true(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


SCORE = C.DotProductScore()
Q, KEY, VALUE = zeros(B, H, L, D), zeros(B, H, S, D), zeros(B, H, S, DV)


def pad(lengths, size=5, **keywords):
    return lambda: M.padding_mask(lengths, size, **keywords)


def ints(*shape: int) -> torch.Tensor:
    return zeros(*shape).long()


MASKS = [
    ("a negative length", pad([2, -1]), V, "from 0 to the size 5", "from -1 to 2"),
    ("a length beyond the size", pad([2, 6]), V, "size 5", "from 2 to 6"),
    (
        "a length beyond the size, on its way to a device whose values are not read",
        pad(torch.tensor([2, 6]), device="meta"),
        V,
        "from 2 to 6",
    ),
    ("a length beyond it, by query", pad([[1, 9]]), V, "size 5", "to 9"),
    ("float lengths", pad([2.0]), T, "lengths must be integers", "float32"),
    ("bool lengths", pad([True]), T, "lengths must be integers", "bool"),
    ("lengths of three axes", pad([[[1]]]), V, "(B,) or (B, L)", "(1, 1, 1)"),
    ("lengths in words", pad(["two"]), T, "lengths must be integers", "two"),
    ("no lengths", pad(None), T, "lengths must be integers", "got None"),
    ("rows of several lengths", pad([[1, 2], [1]]), T, "as many in each row", "[[1, 2], [1]]"),
    ("one number for lengths", pad(3), V, "(B,) or (B, L)", "()"),
    ("a negative size", pad([], -1), V, "size must be at least 0", "-1"),
    ("a float size", pad([1], 2.5), T, "size must be an integer", "2.5"),
    ("a bool tensor for a size", pad([1], torch.tensor(True)), T, "size must be an integer"),
    ("a float tensor for a size", pad([1], torch.tensor(2.0)), T, "size must be an integer"),
    ("several sizes", pad([1], torch.tensor([2])), T, "size must be an integer"),
    ("a negative S", lambda: M.causal_mask(2, -3), V, "S must be at least 0", "got -3"),
    ("a float S", lambda: M.causal_mask(2, 3.0), T, "S must be an integer", "3.0"),
    ("a float offset", lambda: M.causal_mask(2, offset=0.5), T, "offset must be an integer", "0.5"),
    ("no window", lambda: M.sliding_window_mask(3, window=0), V, "window must be at least 1", "0"),
    ("a prefix beyond S", lambda: M.prefix_mask(3, 5, prefix=6), V, "from 0 to S = 5", "6"),
    ("a negative prefix", lambda: M.prefix_mask(3, prefix=-1), V, "from 0 to S = 3", "-1"),
    ("a float prefix", lambda: M.prefix_mask(3, prefix=1.0), T, "prefix must be an integer", "1.0"),
    ("float segments", lambda: M.block_mask(zeros(3)), T, "query_segments must be integers"),
    ("a list of segments", lambda: M.block_mask([0, 1]), T, "must be a tensor, got list"),
    ("bool key segments", lambda: M.block_mask(ints(3), true(3)), T, "key_segments must be int"),
    (
        "segments of two batches",
        lambda: M.block_mask(ints(2, 3), ints(5, 3)),
        V,
        "share their leading axes",
        "query_segments (2, 3) and key_segments (5, 3)",
    ),
    ("one number for segments", lambda: M.block_mask(ints()), V, "query_segments (..., L)"),
    ("two batches of lengths", lambda: M.pair_mask([1, 2], [1], 3, 3), V, "both have shape (B,)"),
    (
        "lengths by query for a pair",
        lambda: M.pair_mask([[1, 1]], [[1, 1]], 3, 3),
        V,
        "both have shape (B,)",
    ),
    ("a query too long", lambda: M.pair_mask([4], [1], 3, 5), V, "size 3, got values from 4 to 4"),
    ("a key too long", lambda: M.pair_mask([1], [6], 3, 5), V, "size 5"),
]

# Whoever takes a mask refuses the same masks, with the same words.
TAKES_A_MASK = {
    "masked_softmax": lambda mask: masked_softmax(zeros(B, H, L, S), mask),
    "attention_weights": lambda mask: attention_weights(Q, KEY, attn_mask=mask),
    "fused": lambda mask: scaled_dot_product_attention(Q, KEY, VALUE, attn_mask=mask),
    "fused causal": lambda mask: scaled_dot_product_attention(
        Q, KEY, VALUE, attn_mask=mask, is_causal=True
    ),
    "Attention": lambda mask: Attention(C.DotProductScore())(Q, KEY, VALUE, mask),
}
WRONG_MASKS = [
    ("a float mask", zeros(L, S), T, "mask must be a bool tensor (True = may attend)", "float32"),
    ("an integer mask", zeros(L, S).long(), T, "must be a bool tensor", "int64"),
    ("a list for a mask", [[True] * S] * L, T, "must be a bool tensor", "list"),
    ("a mask of other sizes", true(S, L), V, "must broadcast to the scores", f"({S}, {L})"),
    ("a mask for other queries", true(S, S), V, "must broadcast to the scores", f"({S}, {S})"),
    (
        "a mask of another batch",
        true(B + 1, 1, L, S),
        V,
        "must broadcast",
        f"({B + 1}, 1, {L}, {S})",
    ),
    ("a mask of five axes", true(1, B, H, L, S), V, "must broadcast", f"(1, {B}, {H}, {L}, {S})"),
    ("a mask of three axes", true(B, L, S), V, "mask[:, None]", f"({B}, {L}, {S})"),
    # Three heads and a batch of three: it would broadcast, and mean something else.
    ("three axes that would fit", true(H, L, S), V, "mask[:, None]", f"({B}, {H}, {L}, {S})"),
]

TAKES_A_BIAS = {
    "attention_weights": lambda bias: attention_weights(Q, KEY, attn_bias=bias),
    "fused": lambda bias: scaled_dot_product_attention(Q, KEY, VALUE, attn_bias=bias),
}
WRONG_BIASES = [
    ("a bool bias", true(L, S), T, "attn_bias must be floating point, got torch.bool"),
    ("a number for a bias", 1.0, T, "attn_bias must be a tensor, got float"),
    ("a bias of other sizes", zeros(S, L), V, "attn_bias must broadcast", f"({S}, {L})"),
    ("a bias of five axes", zeros(1, 1, 1, L, S), V, "must broadcast", f"(1, 1, 1, {L}, {S})"),
]

TAKES_QUERY_AND_KEY = {
    "attention_weights": attention_weights,
    "fused": lambda q, k: scaled_dot_product_attention(q, k, zeros(*k.shape[:-1], DV).to(k.dtype)),
    "GaussianScore": C.GaussianScore(),
    "DotProductScore": C.DotProductScore(),
    "ScaledDotProductScore": C.ScaledDotProductScore(),
}
WRONG_PAIRS = [
    (
        "two widths",
        (zeros(B, H, L, D), zeros(B, H, S, DV)),
        "share head_dim (last axis)",
        f"query ({B}, {H}, {L}, {D}) and key ({B}, {H}, {S}, {DV})",
    ),
    (
        "two batches",
        (zeros(B, L, D), zeros(H, S, D)),
        "share their leading axes",
        f"query ({B}, {L}, {D}) and key ({H}, {S}, {D})",
    ),
    (
        "a batch of one, which would broadcast",
        (zeros(B, L, D), zeros(1, S, D)),
        "share their leading axes",
        f"query ({B}, {L}, {D}) and key (1, {S}, {D})",
    ),
    (
        "another number of axes",
        (zeros(B, L, D), zeros(S, D)),
        "share their leading axes",
        f"query ({B}, {L}, {D}) and key ({S}, {D})",
    ),
    ("one axis", (zeros(D), zeros(S, D)), "(..., L, D) and (..., S, D)", f"query ({D},)"),
    ("no axis", (zeros(), zeros(S, D)), "(..., L, D) and (..., S, D)", "query ()"),
    ("no width", (zeros(L, 0), zeros(S, 0)), "head_dim of at least 1", f"query ({L}, 0)"),
]

TAKES_A_VALUE = {
    "fused": lambda k, v: scaled_dot_product_attention(zeros(*k.shape[:-2], L, D), k, v),
    "Attention": lambda k, v: Attention(C.DotProductScore())(zeros(*k.shape[:-2], L, D), k, v),
}
WRONG_VALUES = [
    ("fewer values than keys", (zeros(B, S, D), zeros(B, L, DV)), f"({B}, {L}, {DV})"),
    ("values of another batch", (zeros(B, S, D), zeros(1, S, DV)), f"(1, {S}, {DV})"),
    ("values of one axis", (zeros(S, D), zeros(S)), f"value ({S},)"),
]

WRONG_SIZES = {
    "BilinearScore": lambda size: C.BilinearScore(size, 3),
    "AdditiveScore": lambda size: C.AdditiveScore(2, 3, size),
    "ConcatScore": lambda size: C.ConcatScore(2, size, 5),
    "SelfAttention": lambda size: SelfAttention(12, qk_proj_dim=size),
    "MultiHeadAttention": lambda size: MultiHeadAttention(12, size),
    "split_heads": lambda size: split_heads(zeros(L, 12), size),
    "causal_mask": M.causal_mask,
}
WIDE_SCORES = {
    "BilinearScore": C.BilinearScore(2, 3),
    "AdditiveScore": C.AdditiveScore(2, 3, 5),
    "ConcatScore": C.ConcatScore(2, 3, 5),
}
WRONG_WIDTHS = [
    (
        "query and key swapped",
        (zeros(L, 3), zeros(S, 2)),
        "query_dim = 2 and key_dim = 3",
        f"({L}, 3)",
    ),
    ("a key as wide as the query", (zeros(L, 2), zeros(S, 2)), "key_dim = 3", f"({S}, 2)"),
    ("a query of one axis", (zeros(2), zeros(S, 3)), "(..., L, D)", "query (2,)"),
    ("two batches", (zeros(B, L, 2), zeros(1, S, 3)), "leading axes", f"key (1, {S}, 3)"),
]


def nw(queries=None, keys=None, values=None, **keywords):
    x = zeros(S)
    return K.nadaraya_watson(
        x if queries is None else queries, x if keys is None else keys,
        x if values is None else values, **keywords,
    )  # fmt: skip


OTHERS = [
    *[
        (
            f"a bandwidth of {h}",
            lambda h=h: nw(bandwidth=h),
            V,
            "bandwidth must be a positive number",
            str(h),
        )
        for h in (0.0, 0, -1.0, NAN, INF, -INF)
    ],
    (
        "a bandwidth that would widen the weights",
        lambda: nw(bandwidth=zeros(3, 1, 1) + 1),
        V,
        "bandwidth must broadcast to the weights",
        "bandwidth (3, 1, 1) and weights",
    ),
    ("a bandwidth in words", lambda: nw(bandwidth="wide"), T, "must be a number, got 'wide'"),
    ("no bandwidth", lambda: nw(bandwidth=None), T, "bandwidth must be a number, got None"),
    ("queries in a list", lambda: nw([1.0, 2.0]), T, "queries must be a tensor, got list"),
    (
        "values in a list",
        lambda: K.KernelRegression()(zeros(L), zeros(S), [0.0] * S),
        T,
        "values must be a tensor, got list",
    ),
    ("a query in a list", lambda: C.DotProductScore()([[1.0]], KEY), T, "query must be a tensor"),
    ("scores in a list", lambda: masked_softmax([[1.0]]), T, "scores must be a tensor, got list"),
    *[
        (
            f"{score!r} for a score",
            lambda score=score: Attention(score),
            T,
            "such as ScaledDotProductScore(), got",
            str(score),
        )
        for score in ("dot", None, C.DotProductScore)
    ],
    ("a model from words", lambda: K.KernelRegression("w"), T, "w must be a number, got 'w'"),
    ("a dropout in words", lambda: Attention(SCORE, "half"), T, "dropout must be a number", "half"),
    (
        "an input of whole numbers, which no noise can change",
        lambda: influence(lambda x: x, zeros(3, 2).long()),
        T,
        "x must be floating point, got torch.int64",
    ),
    (
        "a permutation of one axis",
        lambda: check_permutation_equivariant(lambda x: x, zeros(3)),
        V,
        "(..., L, E)",
        "(3,)",
    ),
    (
        "a permutation that loses a position",
        lambda: check_permutation_equivariant(lambda x: x[:2], zeros(3, 2)),
        V,
        "layer must keep the length",
        "output (2, 2)",
    ),
    *[
        (
            f"pieces of {length}",
            lambda length=length: check_pieces_match_whole(lambda x, _: x, zeros(B, length)),
            V,
            "L of 2 or more",
            f"got ({B}, {length})",
        )
        for length in (0, 1)
    ],
    (
        "keys without values",
        lambda: nw(values=zeros(L)),
        V,
        "same shape (..., S)",
        f"values ({L},)",
    ),
    ("values of two axes", lambda: nw(values=zeros(S, 1)), V, "same shape", f"values ({S}, 1)"),
    (
        "points in whole numbers",
        lambda: nw(*(torch.arange(S),) * 3),
        T,
        "must be floating point and of the same dtype",
        "got torch.int64, torch.int64 and torch.int64",
    ),
    (
        "values of another dtype",
        lambda: K.KernelRegression()(zeros(L), zeros(S), zeros(S).double()),
        T,
        "must be floating point and of the same dtype",
        "got torch.float32, torch.float32 and torch.float64",
    ),
    ("a query with no axis", lambda: nw(zeros()), V, "leading axes", "queries ()"),
    ("a batch of queries alone", lambda: nw(zeros(B, L)), V, "leading axes", f"queries ({B}, {L})"),
    (
        "leaving out the self of other queries",
        lambda: nw(zeros(L), exclude_self=True),
        V,
        "with exclude_self the queries must be the keys",
        f"queries ({L},), keys ({S},)",
    ),
    *[
        (
            f"a model from w = {w}",
            lambda w=w: K.KernelRegression(w),
            V,
            "w must be a finite number",
            str(w),
        )
        for w in (NAN, INF)
    ],
    (
        "integer scores",
        lambda: masked_softmax(zeros(L, S).long()),
        T,
        "scores must be floating point",
        "int64",
    ),
    (
        "a dropout above 1",
        lambda: Attention(C.DotProductScore(), 1.5),
        V,
        "dropout must be from 0 to 1",
        "1.5",
    ),
    (
        "a score that turns queries into keys",
        lambda: Attention(lambda q, k: k @ q.mT)(Q, KEY, VALUE),
        V,
        "one number for each query and key",
        f"scores ({B}, {H}, {S}, {L})",
    ),
    # Checks
    (
        "lengths of another batch",
        lambda: check_padding_invariant(lambda x, _: x, zeros(3, L, D), torch.tensor([1, 2])),
        V,
        "lengths must have shape (B,)",
        f"got (2,) and x (3, {L}, {D})",
    ),
    (
        "a length beyond the input",
        lambda: check_padding_invariant(lambda x, _: x, zeros(1, L, D), torch.tensor([9])),
        V,
        f"from 0 to the size {L}",
    ),
    (
        "float lengths of a check",
        lambda: check_padding_invariant(lambda x, _: x, zeros(1, L, D), torch.tensor([1.0])),
        T,
        "lengths must be integers",
    ),
    ("an input of one axis", lambda: influence(lambda x: x, zeros(3)), V, "(..., L, E)", "(3,)"),
    ("an empty input", lambda: influence(lambda x: x, zeros(0, 3)), V, "none of them 0", "(0, 3)"),
    (
        "a layer that changes the length",
        lambda: influence(lambda x: x[..., :2, :], zeros(B, 3, D)),
        V,
        "layer must keep the length",
        f"input ({B}, 3, {D}) and output ({B}, 2, {D})",
    ),
    (
        "a layer that drops an axis",
        lambda: check_causal(lambda x: x.sum((0, 2)), zeros(B, 3, D)),
        V,
        "layer must keep the length",
        "output (3,)",
    ),
]

HEADS = MultiHeadAttention(12, 3)
X, MEMORY = zeros(B, L, 12), zeros(B, S, 12)


def cached() -> KVCache:
    """A cache that holds two keys and values."""
    cache = KVCache()
    HEADS(X[:, :2], cache=cache)
    return cache


def heads_with(mask, backend):
    return MultiHeadAttention(12, H, backend=backend)(X, MEMORY, attn_mask=mask)


def new_heads(*sizes, **options):
    return lambda: MultiHeadAttention(*sizes, **options)


def call(*tensors, heads=HEADS, **keywords):
    return lambda: heads(*tensors, **keywords)


HEAD_SIZES = (
    "embed_dim", "num_heads", "num_kv_heads", "qdim", "kdim", "vdim", "qk_proj_dim", "v_proj_dim",
)  # fmt: skip
OTHER = zeros(B, S, 11)
WEIGHTS_OF_FUSED = call(X, heads=MultiHeadAttention(12, 3, backend="fused"), need_weights=True)
MULTIHEAD = [
    (
        "heads that do not divide embed_dim, the width of the projections by default",
        new_heads(16, 3),
        V,
        "num_heads must divide embed_dim, got num_heads = 3 and embed_dim = 16",
    ),
    (
        "heads that do not divide the queries",
        new_heads(6, 3, qk_proj_dim=7),
        V,
        "num_heads must divide qk_proj_dim, got num_heads = 3 and qk_proj_dim = 7",
    ),
    (
        "heads that do not divide the values",
        new_heads(6, 3, v_proj_dim=7),
        V,
        "num_heads must divide v_proj_dim, got num_heads = 3 and v_proj_dim = 7",
    ),
    *[
        (
            f"{groups} key-value heads of 6",
            new_heads(12, 6, num_kv_heads=groups),
            V,
            f"num_kv_heads must divide num_heads, got num_kv_heads = {groups} and num_heads = 6",
        )
        for groups in (4, 12)
    ],
    *[
        (
            f"{name} of {size!r}",
            new_heads(**({"embed_dim": 12, "num_heads": 3} | {name: size})),
            error,
            f"{name} must be {words}",
        )
        for name in HEAD_SIZES
        for size, error, words in ((0, V, "at least 1, got 0"), (True, T, "an integer, got True"))
    ],
    *[
        (
            f"{name} of 0 in one head",
            lambda name=name: SelfAttention(**({"embed_dim": 12} | {name: 0})),
            V,
            f"{name} must be at least 1, got 0",
        )
        for name in ("embed_dim", "qk_proj_dim", "v_proj_dim")
    ],
    ("an unknown backend", new_heads(12, 3, backend="flash"), V, '"explicit" or "fused", got \'fl'),
    ("a dropout of 2", new_heads(12, 3, dropout=2.0), V, "dropout must be from 0 to 1, got 2.0"),
    ("weights of the fused backend", WEIGHTS_OF_FUSED, V, '"auto" or "explicit" for weights'),
    ("a value without a key", call(X, value=X), V, "key must be given where value is"),
    ("a query of two axes", call(X[0]), V, "query must have shape (B, L, 12)", f"({L}, 12)"),
    ("a query of another width", call(OTHER), V, "query must", f"12), got ({B}, {S}, 11)"),
    ("a key of another width", call(X, OTHER), V, "key must have shape (B, S, 12)"),
    ("a value of another width", call(X, MEMORY, OTHER), V, "value must have shape (B, S, 12)"),
    (
        "keys of another batch",
        call(X, zeros(1, S, 12)),
        V,
        "share B",
        f"query ({B}, {L}, 12), key (1, {S}, 12)",
    ),
    (
        "values of another length",
        call(X, MEMORY, X),
        V,
        "key and value S",
        f"key ({B}, {S}, 12) and value ({B}, {L}, 12)",
    ),
    (
        "a mask of the heads alone",
        call(X, MEMORY, attn_mask=true(H, L, S)),
        V,
        "must broadcast to the scores",
        f"({H}, {L}, {S})",
    ),
    (
        "a bias of the batch alone",
        call(X, MEMORY, attn_bias=zeros(B, L, S)),
        V,
        "attn_bias must broadcast",
        f"({B}, {L}, {S})",
    ),
    (
        "a mask of other sizes with a cache",
        lambda: HEADS(X, attn_mask=true(L, L), is_causal=True, cache=cached()),
        V,
        f"must broadcast to the scores, got mask ({L}, {L}) and scores ({B}, 3, {L}, {L + 2})",
    ),
    ("one head of another width", lambda: SelfAttention(11)(X), V, "(..., L, 11)", f"{L}, 12)"),
    ("one head of one axis", lambda: SelfAttention(12)(zeros(12)), V, "(..., L, 12)", "(12,)"),
    ("a split into five", lambda: split_heads(X, 5), V, f"x ({B}, {L}, 12) and num_heads = 5"),
    ("a split into no head", lambda: split_heads(X, 0), V, "num_heads must be at least 1, got 0"),
    ("a split of one axis", lambda: split_heads(zeros(12), 3), V, "(..., L, E)", "(12,)"),
    ("a merge of two axes", lambda: merge_heads(zeros(L, D)), V, "(..., H, L, D)", f"({L}, {D})"),
]

PLOTS = [
    ("NaN", lambda: plot_attention(torch.tensor([[NAN]])), V, "weights must be finite", "NaN"),
    ("infinity", lambda: plot_attention(torch.tensor([[INF]])), V, "weights must be finite"),
    ("three axes", lambda: plot_attention(zeros(H, L, S)), V, "shape (L, S)", f"({H}, {L}, {S})"),
    (
        "too few query tokens",
        lambda: plot_attention(zeros(L, S), query_tokens=["a"]),
        V,
        f"query_tokens must be {L}",
        "got 1",
    ),
    (
        "too many key tokens",
        lambda: plot_attention(zeros(L, S), key_tokens=["a"] * 9),
        V,
        f"key_tokens must be {S}",
        "got 9",
    ),
    (
        "tokens that are no strings",
        lambda: plot_attention(zeros(2, 2), query_tokens=[3, 5]),
        T,
        "query_tokens must be strings",
        "[3, 5]",
    ),
    ("a float mask", lambda: plot_attention(zeros(L, S), mask=zeros(L, S)), T, "bool", "float32"),
    ("a list for a mask", lambda: plot_attention(zeros(1, 1), mask=[[True]]), T, "bool", "list"),
    (
        "a mask of other sizes",
        lambda: plot_attention(zeros(L, S), mask=true(S, L)),
        V,
        "mask must broadcast to the weights",
        f"({S}, {L})",
    ),
    (
        "a mask of more axes",
        lambda: plot_attention(zeros(L, S), mask=true(H, L, S)),
        V,
        "mask must broadcast",
        f"({H}, {L}, {S})",
    ),
    ("heads of two axes", lambda: plot_heads(zeros(L, S)), V, "(H, L, S)", f"({L}, {S})"),
    ("no head", lambda: plot_heads(zeros(0, L, S)), V, "(H, L, S)", f"(0, {L}, {S})"),
    ("NaN in a head", lambda: plot_heads(torch.full((H, L, S), NAN)), V, "weights must be finite"),
    (
        "too few titles",
        lambda: plot_heads(zeros(3, L, S), titles=["a"]),
        V,
        "titles must be 3",
        "got 1",
    ),
    (
        "masks of other heads",
        lambda: plot_heads(zeros(3, L, S), mask=true(2, L, S)),
        V,
        "mask must broadcast",
        f"(2, {L}, {S})",
    ),
    (
        "runs of one axis",
        lambda: plot_band([1, 2], zeros(2)),
        V,
        "runs must have shape (R, 2)",
        "(2,)",
    ),
    ("runs of another length", lambda: plot_band([1, 2], zeros(5, 3)), V, "(R, 2)", "(5, 3)"),
    ("no run", lambda: plot_band([1, 2], zeros(0, 2)), V, "R at least 1", "(0, 2)"),
    ("one number to vary", lambda: plot_band(3.0, zeros(5, 1)), V, "x must have shape (N,)", "()"),
    ("NaN in a run", lambda: plot_band([1], torch.tensor([[NAN]])), V, "runs must be finite"),
]

TABLE = [
    *data_errors.TABLE,
    *decoding_errors.TABLE,
    *positions_errors.TABLE,
    *pretrained_errors.TABLE,
    *text_errors.TABLE,
    *transformer_errors.TABLE,
    *MASKS,
    *OTHERS,
    *MULTIHEAD,
    *[
        (f"{what}: {backend} heads", lambda call=call, mask=mask: call(mask), error, *words)
        for backend in ("auto", "explicit")
        for call in [lambda mask, backend=backend: heads_with(mask, backend)]
        for what, mask, error, *words in WRONG_MASKS
        if getattr(mask, "ndim", 0) != 3
    ],
    *PLOTS,
    *[
        (f"a size of {size!r}: {name}", lambda call=call, size=size: call(size), error, words)
        for name, call in WRONG_SIZES.items()
        for size, error, words in (
            (2.0, T, "must be an integer, got 2.0"),
            ("2", T, "must be an integer, got '2'"),
            (True, T, "must be an integer, got True"),
            (-2, V, "must be at least"),
        )
    ],
    *[
        (f"{what}: {name}", lambda call=call, mask=mask: call(mask), error, *words)
        for name, call in TAKES_A_MASK.items()
        for what, mask, error, *words in WRONG_MASKS
    ],
    *[
        (
            f"{what}: check_weights",
            lambda mask=mask: check_weights(torch.full((B, H, L, S), 1 / S), mask),
            error,
            *[word.replace("scores", "weights") for word in words],
        )
        for what, mask, error, *words in WRONG_MASKS
    ],
    *[
        (f"{what}: {name}", lambda call=call, bias=bias: call(bias), error, *words)
        for name, call in TAKES_A_BIAS.items()
        for what, bias, error, *words in WRONG_BIASES
    ],
    *[
        (f"{what}: {name}", lambda call=call, pair=pair: call(*pair), V, *words)
        for name, call in TAKES_QUERY_AND_KEY.items()
        for what, pair, *words in WRONG_PAIRS
    ],
    *[
        (
            f"{what}: {name}",
            lambda call=call, pair=pair: call(*pair),
            V,
            "all axes but the last",
            *words,
        )
        for name, call in TAKES_A_VALUE.items()
        for what, pair, *words in WRONG_VALUES
    ],
    *[
        (f"{what}: {name}", lambda call=call, pair=pair: call(*pair), V, *words)
        for name, call in WIDE_SCORES.items()
        for what, pair, *words in WRONG_WIDTHS
    ],
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


def test_every_mistake_of_the_table_is_there_once():
    names = [case[0] for case in TABLE]
    assert len(names) == len(set(names))


def test_a_refused_plot_leaves_the_figure_it_was_given_alone():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    with pytest.raises(ValueError, match="finite"):
        plot_attention(torch.tensor([[NAN]]), ax=ax)
    assert not ax.images
    plt.close(figure)


@pytest.mark.parametrize("take", TAKES_QUERY_AND_KEY.values(), ids=TAKES_QUERY_AND_KEY)
@pytest.mark.parametrize("key", [zeros(S, D).double(), zeros(S, D).long()], ids=["wider", "int"])
def test_query_and_key_of_two_dtypes_are_refused(take, key):
    with pytest.raises(TypeError, match="and of the same dtype"):
        take(zeros(L, D), key)


@pytest.mark.parametrize("take", TAKES_QUERY_AND_KEY.values(), ids=TAKES_QUERY_AND_KEY)
def test_whole_numbers_are_named_as_they_came(take):
    with pytest.raises(TypeError, match=r"floating point .* got torch\.int64 and torch\.int64"):
        take(zeros(L, D).long(), zeros(S, D).long())


@pytest.mark.parametrize("take", [TAKES_A_VALUE["fused"], TAKES_A_VALUE["Attention"]])
def test_values_of_another_dtype_are_refused(take):
    with pytest.raises(
        TypeError, match=r"of the same dtype, got torch\.float32 and torch\.float64"
    ):
        take(zeros(S, D), zeros(S, DV).double())


def test_a_score_that_does_not_give_one_number_a_pair_is_refused():
    with pytest.raises(ValueError, match=rf"got scores \({L},\)"):
        Attention(lambda query, key: query.sum(-1))(zeros(L, D), zeros(S, D), zeros(S, DV))
