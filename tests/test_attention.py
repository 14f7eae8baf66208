"""Both paths of attention against loops, against torch, and against each other."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attn_notes.attention import Attention, attention_weights, scaled_dot_product_attention
from attn_notes.checks import check_padding_invariant, check_permutation_equivariant
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.scores import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    DotProductScore,
    GaussianScore,
    ScaledDotProductScore,
)
from tests.oracles import (
    DV,
    B,
    D,
    H,
    L,
    S,
    assert_same,
    average_by_loop,
    coin,
    gradients,
    normal,
    weights_by_loop,
)

INF = float("inf")
EVERY_PRECISION = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def explicit(q, k, v, **keywords):
    """The path that stores the weights."""
    return attention_weights(q, k, **keywords) @ v


def by_module(q, k, v, **keywords):
    """The module that takes any score, where it takes the same keywords."""
    return Attention(ScaledDotProductScore())(q, k, v, **keywords)[0]


PATHS = pytest.mark.parametrize("path", [explicit, scaled_dot_product_attention])
ALL_PATHS = pytest.mark.parametrize("path", [explicit, scaled_dot_product_attention, by_module])


def qkv(*lead: int, dtype: torch.dtype = torch.float64, rows: int = L, columns: int = S):
    """A query, a key and a value of the usual sizes."""
    return (
        normal(*lead, rows, D, seed=1, dtype=dtype),
        normal(*lead, columns, D, seed=2, dtype=dtype),
        normal(*lead, columns, DV, seed=3, dtype=dtype),
    )


def mask_with_empty_row(*lead: int, empty: int = 2):
    mask = coin(*lead, L, S, seed=4)
    mask[..., empty, :] = False
    return mask


# Against loops, and against torch


@PATHS
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_equals_a_triple_loop(path, masked, biased, is_causal, scale):
    q, k, v = qkv()
    mask = mask_with_empty_row() if masked else None
    bias = normal(L, S, seed=5) if biased else None
    both = torch.tensor([[j <= i or not is_causal for j in range(S)] for i in range(L)]) & (
        torch.tensor(True) if mask is None else mask
    )

    def ours(q, k, v, *bias):
        keywords = {"attn_bias": bias[0]} if bias else {}
        return path(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale, **keywords)

    def loop(q, k, v, *bias):
        return average_by_loop(weights_by_loop(q, k, both, *bias, scale=scale), v)

    assert_same(ours, loop, q, k, v, *(() if bias is None else (bias,)))


@ALL_PATHS
def test_attention_equals_torchs_kernel(path):
    q, k, v = qkv(B, H)
    mask = coin(B, 1, L, S, seed=4) | causal_mask(L, S)  # no row empty
    assert_same(
        lambda *qkv: path(*qkv, attn_mask=mask),
        lambda *qkv: F.scaled_dot_product_attention(*qkv, attn_mask=mask),
        q,
        k,
        v,
    )


@PATHS
def test_is_causal_is_torchs_is_causal_when_the_lengths_differ(path):
    for rows, columns in ((L, S), (S, L)):
        assert_same(
            lambda *qkv: path(*qkv, is_causal=True),
            lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True),
            *qkv(B, H, rows=rows, columns=columns),
        )


@st.composite
def call(draw):
    """A query, key, value and keywords of any small size and any combination."""
    lead = draw(st.sampled_from([(), (2,), (0,), (2, 3), (2, 1, 3)]))
    size = st.integers(0, 5)
    rows, columns = draw(size), draw(size)
    width, value_width = draw(st.integers(1, 5)), draw(size)
    seed = draw(st.integers(0, 2**16))
    q = normal(*lead, rows, width, seed=seed)
    k = normal(*lead, columns, width, seed=seed + 1)
    v = normal(*lead, columns, value_width, seed=seed + 2)
    shape = (*lead, rows, columns)

    def broadcast_shape():
        kept = draw(
            st.sampled_from([n for n in range(len(shape) + 1) if (n, len(shape)) != (3, 4)])
        )
        return [n if draw(st.booleans()) else 1 for n in shape[len(shape) - kept :]]

    keywords = {"is_causal": draw(st.booleans()), "scale": draw(st.sampled_from([None, 0.0, 2.0]))}
    if draw(st.booleans()):
        keywords["attn_mask"] = coin(*broadcast_shape(), seed=seed + 3)
    if draw(st.booleans()):
        keywords["attn_bias"] = normal(*broadcast_shape(), seed=seed + 4).detach()
    return (q, k, v), keywords


@given(call())
def test_both_paths_give_the_same_values_and_gradients(case):
    tensors, keywords = case
    before = [x.detach().clone() for x in (*tensors, *_tensors(keywords))]
    assert_same(
        lambda *qkv: explicit(*qkv, **keywords),
        lambda *qkv: scaled_dot_product_attention(*qkv, **keywords),
        *tensors,
    )
    for x, old in zip((*tensors, *_tensors(keywords)), before, strict=True):
        assert x.equal(old)


def _tensors(keywords):
    return [x for x in keywords.values() if isinstance(x, torch.Tensor)]


# Properties


@ALL_PATHS
def test_what_stands_in_the_padding_does_not_matter(path):
    def layer(x, lengths):
        return path(x, x, x, attn_mask=padding_mask(lengths, x.shape[-2]))

    x = normal(3, L, D).detach()
    check_padding_invariant(layer, x, torch.tensor([1, 3, 5]))


@ALL_PATHS
def test_attention_knows_no_order(path):
    check_permutation_equivariant(lambda x: path(x, x, x), normal(B, L, D).detach())


@PATHS
@pytest.mark.parametrize("shape", [(), (S,), (1,), (1, S), (L, 1), (L, S), (H, L, S), (B, 1, 1, S)])
def test_a_bias_is_added_to_the_scores_wherever_it_broadcasts(path, shape):
    q, k, v = qkv(B, H)
    bias = normal(*shape, seed=5)

    def by_hand(q, k, v, bias):
        return (q @ k.mT / math.sqrt(D) + bias).softmax(-1) @ v

    assert_same(lambda q, k, v, bias: path(q, k, v, attn_bias=bias), by_hand, q, k, v, bias)


@PATHS
def test_a_bias_of_minus_infinity_masks(path):
    q, k, v = qkv(B)
    mask = mask_with_empty_row()
    bias = torch.zeros(L, S, dtype=torch.float64).masked_fill(~mask, -INF)
    assert_same(
        lambda *qkv: path(*qkv, attn_bias=bias), lambda *qkv: path(*qkv, attn_mask=mask), q, k, v
    )


@PATHS
def test_masking_comes_after_the_bias(path):
    q, k, v = qkv(B)
    mask = mask_with_empty_row()
    bias = normal(L, S, seed=5).detach()
    wild = bias.masked_fill(~mask, INF)  # only where nothing may be read
    torch.testing.assert_close(
        path(q, k, v, attn_bias=wild, attn_mask=mask), path(q, k, v, attn_bias=bias, attn_mask=mask)
    )


# Empty rows, half precision, huge numbers


@ALL_PATHS
@pytest.mark.parametrize("lead", [(), (B,), (B, H)])
@pytest.mark.parametrize("dtype", EVERY_PRECISION)
def test_a_query_that_may_read_nothing_gives_zero_and_finite_gradients(path, lead, dtype):
    q, k, v = qkv(*lead, dtype=dtype)
    output = path(q, k, v, attn_mask=mask_with_empty_row())
    found = gradients(output, (q, k, v))
    assert output.dtype == dtype
    assert (output[..., 2, :] == 0).all()
    assert (found[0][..., 2, :] == 0).all()
    assert all(x.isfinite().all() for x in (output, *found))
    assert all((x != 0).any() for x in found)


@ALL_PATHS
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_half_precision_stays_half_and_close(path, dtype, atol):
    q, k, v = qkv(B, H)
    mask = mask_with_empty_row()
    got = path(q.to(dtype), k.to(dtype), v.to(dtype), attn_mask=mask)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), path(q, k, v, attn_mask=mask), atol=atol, rtol=0.0)


@ALL_PATHS
def test_half_precision_scales_before_a_dot_product_overflows(path):
    size = 64
    q = torch.full((1, size), 60.0, dtype=torch.float16)
    k = torch.cat((q, -q))  # dot products of 230,400, beyond the 65,504 of float16
    v = torch.tensor([[1.0], [2.0]], dtype=torch.float16)
    assert path(q, k, v).tolist() == [[1.0]]


# Attention with any score


def test_the_module_takes_any_score():
    score = AdditiveScore(D, 2, hidden_dim=17).double()
    q, k, v = normal(B, L, D, seed=1), normal(B, S, 2, seed=2), normal(B, S, DV, seed=3)
    mask = mask_with_empty_row()
    output, weights = Attention(score)(q, k, v, mask)
    scores = score(q, k).masked_fill(~mask, -INF)
    torch.testing.assert_close(weights, scores.softmax(-1).nan_to_num(0.0))
    torch.testing.assert_close(output, weights @ v)


def test_dropout_drops_weights_in_training_and_enlarges_the_rest():
    torch.manual_seed(0)
    q, k, _ = (x.detach() for x in qkv(B))
    module = Attention(ScaledDotProductScore(), dropout=0.5)
    once = torch.eye(S, dtype=torch.float64).expand(B, S, S)
    output, weights = module(q, k, torch.cat((once, once), dim=-1))
    used, again = output.split(S, dim=-1)  # the weights that were used, shown twice
    kept = used != 0
    assert used.equal(again)  # a key is dropped whole, not number by number of its value
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(used[kept], 2 * weights[kept])
    torch.testing.assert_close(weights, attention_weights(q, k))  # those before dropout
    output, _ = module.eval()(q, k, once)
    torch.testing.assert_close(output, weights)


# Autocast, which reconciles dtypes, and torch's function transforms

SCORES = [
    GaussianScore(),
    DotProductScore(),
    ScaledDotProductScore(),
    BilinearScore(D, D),
    AdditiveScore(D, D, 17),
    ConcatScore(D, D, 17),
]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_every_score_trains_under_autocast_on_what_layers_give(score):
    layer, attention = nn.Linear(D, D), Attention(score)
    x, memory = normal(B, L, D, dtype=torch.float32), normal(B, S, D, seed=1, dtype=torch.float32)
    mask = mask_with_empty_row()

    def attend(x, memory):  # under autocast the query is bfloat16, key and value float32
        output, weights = attention(layer(x), memory, memory, mask)
        return torch.cat((output, weights), dim=-1).float()

    wanted = attend(x, memory)
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(x, memory)
    close = {"rtol": 0.05, "atol": 0.05}
    torch.testing.assert_close(got, wanted, **close)
    inputs = (x, memory, *attention.parameters())
    found, expected = gradients(got, inputs), gradients(wanted, inputs)
    for a, b in zip(found, expected, strict=True):
        assert (a - b).norm() <= 0.05 * b.norm() + 1e-3


@PATHS
def test_both_paths_mix_dtypes_under_autocast_alone(path):
    q, k, v = qkv(B, H, dtype=torch.float32)
    mask, bias = mask_with_empty_row(), normal(L, S, seed=5, dtype=torch.float32)
    wanted = path(q, k, v, attn_mask=mask, attn_bias=bias)
    with torch.autocast("cpu", torch.bfloat16):
        got = path(q.bfloat16(), k, v, attn_mask=mask, attn_bias=bias)
    torch.testing.assert_close(got.float(), wanted, rtol=0.05, atol=0.05)
    assert all(x.isfinite().all() for x in gradients(got, (q, k, v)))
    with pytest.raises(TypeError, match="of the same dtype"):
        path(q.bfloat16(), k, v)


QUERIES, KEYS = normal(3, L, D).detach(), normal(3, S, D, seed=1).detach()


# Torch itself still calls what it has deprecated, the first time it differentiates forward.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("mask", [None, causal_mask(L, S)], ids=["open", "causal"])
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_weights_can_be_mapped_and_differentiated_forward(mask, grad):
    def weigh(query, key):
        return attention_weights(query, key, attn_mask=mask)

    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(torch.vmap(weigh)(QUERIES, KEYS), weigh(QUERIES, KEYS))
        weights, change = torch.func.jvp(
            lambda query: weigh(query, KEYS), (QUERIES,), (torch.ones_like(QUERIES),)
        )
    torch.testing.assert_close(weights, weigh(QUERIES, KEYS))
    torch.testing.assert_close(change.sum(-1), torch.zeros_like(change[..., 0]))
