"""Every wrong input raises the right error, whose words say what must hold and what came.

One line a mistake: (what it is, the call, the exception, words of the message). Whole shapes
are among the words wherever shapes are to blame.
"""

import numpy as np
import pytest
import torch

from attn_notes import arguments as A
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
    check_weights,
    influence,
)
from attn_notes.masks import masked_softmax
from attn_notes.multihead import MultiHeadAttention, SelfAttention, merge_heads, split_heads
from attn_notes.plotting import plot_attention, plot_band, plot_heads
from tests import (
    data_errors,
    decoding_errors,
    inside_errors,
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
    ("a length too long for meta", pad(torch.tensor([2, 6]), device="meta"), V, "from 2 to 6"),
    ("a length beyond it, by query", pad([[1, 9]]), V, "size 5", "to 9"),
    ("float lengths", pad([2.0]), T, "lengths must be integers", "float32"),
    ("bool lengths", pad([True]), T, "lengths must be integers", "bool"),
    ("lengths of three axes", pad([[[1]]]), V, "(B,) or (B, L)", "(1, 1, 1)"),
    ("lengths in words", pad(["two"]), T, "lengths must be integers", "two"),
    ("rows of several lengths", pad([[1, 2], [1]]), T, "as many in each row", "[[1, 2], [1]]"),
    ("a negative size", pad([], -1), V, "size must be at least 0", "-1"),
    ("a negative S", lambda: M.causal_mask(2, -3), V, "S must be at least 0", "got -3"),
    ("a float offset", lambda: M.causal_mask(2, offset=0.5), T, "offset must be an integer", "0.5"),
    ("no window", lambda: M.sliding_window_mask(3, window=0), V, "window must be at least 1", "0"),
    ("a prefix beyond S", lambda: M.prefix_mask(3, 5, prefix=6), V, "from 0 to S = 5", "6"),
    ("a negative prefix", lambda: M.prefix_mask(3, prefix=-1), V, "from 0 to S = 3", "-1"),
    ("float segments", lambda: M.block_mask(zeros(3)), T, "query_segments must be integers"),
    ("bool key segments", lambda: M.block_mask(ints(3), true(3)), T, "key_segments must be int"),
    (
        "segments of two batches",
        lambda: M.block_mask(ints(2, 3), ints(5, 3)),
        V,
        "must have shapes (..., L) and (..., S)",
        "query_segments (2, 3) and key_segments (5, 3)",
    ),
    ("one number for segments", lambda: M.block_mask(ints()), V, "got query_segments ()"),
    ("two batches of lengths", lambda: M.pair_mask([1, 2], [1], 3, 3), V, "both have shape (B,)"),
    ("a query too long", lambda: M.pair_mask([4], [1], 3, 5), V, "size 3, got values from 4 to 4"),
    ("a key too long", lambda: M.pair_mask([1], [6], 3, 5), V, "size 5"),
]

# The checks that all share, on the values that each caller is then tried with once.
NUMBER = {"a string": "2", "a bool": True, "a bool tensor": torch.tensor(True), "a list": [2]}
SHARED = [
    *[
        (f"{what} for an integer", lambda n=n: A.check_integers(1, n=n), T, "n must be an integer")
        for what, n in {**NUMBER, "a float": 2.0, "several": torch.tensor([2])}.items()
    ],
    ("an integer too small", lambda: A.check_integers(1, n=0), V, "n must be at least 1, got 0"),
    *[
        (
            f"{x} for {word}",
            lambda check=check, x=x: check(x=x),
            error,
            f"x must be {word}, got {x!r}",
        )
        for check, word, wrong in (
            (A.check_finite, "a finite number", (NAN, INF, -INF)),
            (A.check_positive, "a positive number", (0, -1.0, NAN, INF)),
            (A.check_fractions, "from 0 to 1", (-0.1, 1.01, NAN)),
        )
        for x, error in ((x, V) for x in wrong)
    ],
    *[
        (f"no number: {check.__name__}", lambda check=check: check(x="a"), T, "x must be a number")
        for check in (A.check_finite, A.check_positive, A.check_fractions)
    ],
    ("a list of numbers", lambda: A.check_tensors(x=[1.0]), T, "x must be a tensor, got list"),
]

# Whoever takes a mask refuses the same masks, with the same words.
TAKES_A_MASK = {
    "masked_softmax": lambda mask: masked_softmax(zeros(B, H, L, S), mask),
    "attention_weights": lambda mask: attention_weights(Q, KEY, attn_mask=mask),
    "fused": lambda mask: scaled_dot_product_attention(Q, KEY, VALUE, attn_mask=mask),
    "fused causal": lambda mask: scaled_dot_product_attention(
        Q, KEY, VALUE, attn_mask=mask, is_causal=True
    ),
    "Attention": lambda mask: Attention(SCORE)(Q, KEY, VALUE, mask),
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
        "query and key must have shapes (..., L, D) and (..., S, D)",
        f"query ({B}, {H}, {L}, {D}) and key ({B}, {H}, {S}, {DV})",
    ),
    (
        "a batch of one, which would broadcast",
        (zeros(B, L, D), zeros(1, S, D)),
        "(..., L, D) and (..., S, D)",
        f"query ({B}, {L}, {D}) and key (1, {S}, {D})",
    ),
    ("another number of axes", (zeros(B, L, D), zeros(S, D)), "(..., S, D)", f"key ({S}, {D})"),
    ("one axis", (zeros(D), zeros(S, D)), "(..., L, D) and (..., S, D)", f"query ({D},)"),
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
    ("query and key swapped", (zeros(L, 3), zeros(S, 2)), "shapes (..., L, 2) and (..., S, 3)"),
    ("a query of one axis", (zeros(2), zeros(S, 3)), "(..., L, 2)", "query (2,)"),
    ("two batches", (zeros(B, L, 2), zeros(1, S, 3)), "(..., S, 3)", f"key (1, {S}, 3)"),
]


def nw(queries=None, keys=None, values=None, **keywords):
    x = zeros(S)
    return K.nadaraya_watson(
        x if queries is None else queries, x if keys is None else keys,
        x if values is None else values, **keywords,
    )  # fmt: skip


OTHERS = [
    ("a bandwidth of 0", lambda: nw(bandwidth=0), V, "bandwidth must be a positive number, got 0"),
    (
        "a bandwidth that would widen the weights",
        lambda: nw(bandwidth=zeros(3, 1, 1) + 1),
        V,
        "bandwidth must broadcast to the weights",
        "bandwidth (3, 1, 1) and weights",
    ),
    ("no bandwidth", lambda: nw(bandwidth=None), T, "bandwidth must be a number, got None"),
    ("queries in a list", lambda: nw([1.0, 2.0]), T, "queries must be a tensor, got list"),
    ("a query in a list", lambda: C.DotProductScore()([[1.0]], KEY), T, "query must be a tensor"),
    ("scores in a list", lambda: masked_softmax([[1.0]]), T, "scores must be a tensor, got list"),
    *[
        (f"{score!r} for a score", lambda score=score: Attention(score), T, "such as", str(score))
        for score in ("dot", C.DotProductScore)
    ],
    ("a dropout in words", lambda: Attention(SCORE, "half"), T, "dropout must be a number", "half"),
    ("a dropout above 1", lambda: Attention(SCORE, 1.5), V, "dropout must be from 0 to 1", "1.5"),
    ("no noise for integers", lambda: influence(len, ints(3, 2)), T, "x must be floating", "int64"),
    (
        "a permutation that loses a position",
        lambda: check_permutation_equivariant(lambda x: x[:2], zeros(3, 2)),
        V,
        "layer must keep the length",
        "output (2, 2)",
    ),
    ("keys without values", lambda: nw(values=zeros(L)), V, "(..., S) and (..., S)", f"({L},)"),
    ("values of two axes", lambda: nw(values=zeros(S, 1)), V, "(..., S)", f"values ({S}, 1)"),
    (
        "values of another dtype",
        lambda: K.KernelRegression()(zeros(L), zeros(S), zeros(S).double()),
        T,
        "must be floating point and of the same dtype",
        "got torch.float32, torch.float32 and torch.float64",
    ),
    ("a query with no axis", lambda: nw(zeros()), V, "(..., L)", "queries ()"),
    ("a batch of queries alone", lambda: nw(zeros(B, L)), V, "(..., L)", f"queries ({B}, {L})"),
    (
        "leaving out the self of other queries",
        lambda: nw(zeros(L), exclude_self=True),
        V,
        "queries, keys and values must have shapes (..., S), (..., S) and (..., S)",
        f"queries ({L},), keys ({S},)",
    ),
    ("a model from NaN", lambda: K.KernelRegression(NAN), V, "w must be a finite number", "nan"),
    ("integer scores", lambda: masked_softmax(ints(L, S)), T, "scores must be floating", "int64"),
    (
        "a score that turns queries into keys",
        lambda: Attention(lambda q, k: k @ q.mT)(Q, KEY, VALUE),
        V,
        "scores, query and key must have shapes (..., L, S)",
        f"scores ({B}, {H}, {S}, {L})",
    ),
    # Checks
    (
        "a length beyond the input",
        lambda: check_padding_invariant(lambda x, _: x, zeros(1, L, D), torch.tensor([9])),
        V,
        f"from 0 to the size {L}",
    ),
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
    *[
        (
            f"heads that do not divide: {words}",
            new_heads(*sizes, **options),
            V,
            f"must divide {words}",
        )
        for sizes, options, words in (
            ((16, 3), {}, "embed_dim, got num_heads = 3 and embed_dim = 16"),
            ((6, 3), {"qk_proj_dim": 7}, "qk_proj_dim, got num_heads = 3 and qk_proj_dim = 7"),
            ((6, 3), {"v_proj_dim": 7}, "v_proj_dim, got num_heads = 3 and v_proj_dim = 7"),
            ((12, 6), {"num_kv_heads": 4}, "num_heads, got num_kv_heads = 4 and num_heads = 6"),
        )
    ],
    *[
        (
            f"{name} of 0",
            new_heads(**({"embed_dim": 12, "num_heads": 3} | {name: 0})),
            V,
            f"{name} must be at least 1, got 0",
        )
        for name in HEAD_SIZES
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
    (
        "a packed layer of several widths",
        new_heads(12, 3, packed=True, kdim=11),
        V,
        "must be equal in a packed layer, got 12, 11 and 12",
    ),
    (
        "a key in a packed layer",
        call(X, X + 1, heads=MultiHeadAttention(12, 3, packed=True)),
        V,
        "key and value must be the query in a packed layer, got others",
    ),
    ("a value without a key", call(X, value=X), V, "key must be given where value is"),
    ("a query of two axes", call(X[0]), V, "shapes (B, L, 12), (B, S, 12)", f"({L}, 12)"),
    (
        "a key of another width",
        call(X, OTHER),
        V,
        "shapes (B, L, 12), (B, S, 12)",
        "key (2, 7, 11)",
    ),
    (
        "a value of another width",
        call(X, MEMORY, OTHER),
        V,
        "and (B, S, 12), got",
        "value (2, 7, 11)",
    ),
    ("keys of another batch", call(X, zeros(1, S, 12)), V, "(B, S, 12)", f"key (1, {S}, 12)"),
    ("values of another length", call(X, MEMORY, X), V, "(B, S, 12)", f"({B}, {L}, 12)"),
    ("a float mask of heads", call(X, MEMORY, attn_mask=zeros(L, S)), T, "must be a bool tensor"),
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
    ("a split into five", lambda: split_heads(X, 5), V, f"x ({B}, {L}, 12) and num_heads = 5"),
    ("a split into no head", lambda: split_heads(X, 0), V, "num_heads must be at least 1, got 0"),
    ("a split of one axis", lambda: split_heads(zeros(12), 3), V, "(..., L, E)", "(12,)"),
    ("a merge of two axes", lambda: merge_heads(zeros(L, D)), V, "(..., H, L, D)", f"({L}, {D})"),
]

PLOTS = [
    ("NaN", lambda: plot_attention(torch.tensor([[NAN]])), V, "weights must be finite", "NaN"),
    ("three axes", lambda: plot_attention(zeros(H, L, S)), V, "shape (L, S)", f"({H}, {L}, {S})"),
    (
        "too few query tokens",
        lambda: plot_attention(zeros(L, S), query_tokens=["a"]),
        V,
        f"tokens must be {L}",
        "got 1",
    ),
    ("a float mask", lambda: plot_attention(zeros(L, S), mask=zeros(L, S)), T, "bool", "float32"),
    (
        "a mask of other sizes",
        lambda: plot_attention(zeros(L, S), mask=true(S, L)),
        V,
        "mask must broadcast to the weights",
        f"({S}, {L})",
    ),
    ("heads of two axes", lambda: plot_heads(zeros(L, S)), V, "(H, L, S)", f"({L}, {S})"),
    ("no head", lambda: plot_heads(zeros(0, L, S)), V, "(H, L, S)", f"(0, {L}, {S})"),
    ("NaN in a head", lambda: plot_heads(torch.full((H, L, S), NAN)), V, "weights must be finite"),
    (
        "masks of other heads",
        lambda: plot_heads(zeros(3, L, S), mask=true(2, L, S)),
        V,
        "mask must broadcast",
        f"(2, {L}, {S})",
    ),
    ("runs of one axis", lambda: plot_band([1, 2], zeros(2)), V, "must have shape (R, 2)", "(2,)"),
    ("runs of another length", lambda: plot_band([1, 2], zeros(5, 3)), V, "(R, 2)", "(5, 3)"),
]


def each(callers: dict, cases: list[tuple]) -> list[tuple]:
    """Every case for every caller: (what it is, the arguments, the exception, words)."""
    return [
        (f"{what}: {name}", lambda call=call, given=given: call(*given), error, *words)
        for name, call in callers.items()
        for what, given, error, *words in cases
    ]


BUT_LAST = "key and value must have shapes (..., S, D) and (..., S, Dv)"
TABLE = [
    *data_errors.TABLE,
    *decoding_errors.TABLE,
    *inside_errors.TABLE,
    *positions_errors.TABLE,
    *pretrained_errors.TABLE,
    *text_errors.TABLE,
    *transformer_errors.TABLE,
    *MASKS,
    *OTHERS,
    *MULTIHEAD,
    *SHARED,
    *PLOTS,
    *[
        (f"a size of -2: {name}", lambda call=call: call(-2), V, "must be at least")
        for name, call in WRONG_SIZES.items()
    ],
    *each(TAKES_A_MASK, [(what, (mask,), *rest) for what, mask, *rest in WRONG_MASKS]),
    *[
        (
            f"{what}: check_weights",
            lambda mask=mask: check_weights(torch.full((B, H, L, S), 1 / S), mask),
            error,
            *[word.replace("scores", "weights") for word in words],
        )
        for what, mask, error, *words in WRONG_MASKS
    ],
    *each(TAKES_A_BIAS, [(what, (bias,), *rest) for what, bias, *rest in WRONG_BIASES]),
    *each(TAKES_QUERY_AND_KEY, [(what, pair, V, *words) for what, pair, *words in WRONG_PAIRS]),
    *each(TAKES_A_VALUE, [(what, pair, V, BUT_LAST, *w) for what, pair, *w in WRONG_VALUES]),
    *each(WIDE_SCORES, [(what, pair, V, *words) for what, pair, *words in WRONG_WIDTHS]),
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


def test_integers_of_numpy_and_torch_are_integers():
    A.check_integers(4, of_numpy=np.int64(4), of_torch=torch.tensor(4))
