"""Both paths of attention against loops, against torch, and against each other."""

import math
from functools import partial

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as torchs

from attn_notes import attention, guard, scores
from attn_notes.attention import (
    Attention,
    attention_weights,
    scaled_dot_product_attention,
    weighted_sum,
)
from attn_notes.flash import tiled_attention
from attn_notes.masks import causal_mask
from tests import oracles
from tests.oracles import DV, B, D, H, L, S, assert_same, coin, gradients, normal
from tests.oracles import attention_inputs as qkv


def by_module(q, k, v, **keywords):
    """The module that takes any score, where it takes the same keywords."""
    return Attention(scores.ScaledDotProductScore())(q, k, v, **keywords)[0]


PATHS = pytest.mark.parametrize("path", [oracles.explicit, scaled_dot_product_attention])
ALL_PATHS = pytest.mark.parametrize(
    "path", [oracles.explicit, scaled_dot_product_attention, by_module]
)

# Against loops, and against torch


@PATHS
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_equals_a_triple_loop(path, masked, biased, is_causal, scale):
    mask = oracles.mask_with_empty_row() if masked else None
    both = torch.ones(L, S).bool() if mask is None else mask
    both = both & torch.tensor([[j <= i or not is_causal for j in range(S)] for i in range(L)])

    def ours(q, k, v, bias=None):
        how = {"attn_mask": mask, "attn_bias": bias, "is_causal": is_causal, "scale": scale}
        return path(q, k, v, **how)

    def loop(q, k, v, bias=None):
        return oracles.attention_by_loop(q, k, v, both, bias, scale)

    assert_same(ours, loop, *qkv(), *[normal(L, S, seed=5)] * biased)


@ALL_PATHS
def test_attention_equals_torchs_kernel(path):
    mask = coin(B, 1, L, S, seed=4) | causal_mask(L, S)  # no row empty
    assert_same(partial(path, attn_mask=mask), partial(torchs, attn_mask=mask), *qkv(B, H))


@st.composite
def call(draw):
    """A query, key, value, a bias or none, and keywords, of any small size and combination."""
    lead = draw(st.sampled_from([(), (2,), (0,), (2, 3), (2, 1, 3)]))
    size, seed = st.integers(0, 5), draw(st.integers(0, 2**16))
    rows, columns, width = draw(size), draw(size), draw(st.integers(1, 5))
    sizes = (rows, width), (columns, width), (columns, draw(size))
    tensors = [normal(*lead, *each, seed=seed + n) for n, each in enumerate(sizes)]
    shape = (*lead, rows, columns)

    def broadcast_shape():
        kept = [n for n in range(len(shape) + 1) if (n, len(shape)) != (3, 4)]
        kept = draw(st.sampled_from(kept))
        return [n if draw(st.booleans()) else 1 for n in shape[len(shape) - kept :]]

    keywords = {"is_causal": draw(st.booleans()), "scale": draw(st.sampled_from([None, -1, 0, 2]))}
    if draw(st.booleans()):
        keywords["attn_mask"] = coin(*broadcast_shape(), seed=seed + 3)
    bias = [normal(*broadcast_shape(), seed=seed + 4)] * draw(st.booleans())
    return [*tensors, *bias], keywords


@given(call())
# Of a scale of 0 torch's own flag makes NaN.
@example(([normal(2, 3, L, D, seed=n) for n in (1, 2, 3)], {"is_causal": True, "scale": 0.0}))
def test_both_paths_give_the_same_values_and_gradients(case):
    tensors, keywords = case
    mask = keywords.get("attn_mask", torch.ones(1))
    before = mask.clone()

    def explicit(q, k, v, bias=None):
        return oracles.explicit(q, k, v, attn_bias=bias, **keywords)

    def fused(q, k, v, bias=None):
        return scaled_dot_product_attention(q, k, v, attn_bias=bias, **keywords)

    assert_same(explicit, fused, *tensors)
    assert mask.equal(before)


@PATHS
@pytest.mark.parametrize("can_look", [True, False])  # False as on a GPU, or compiled
def test_a_bias_of_minus_infinity_masks_and_masking_comes_after_the_bias(
    path, can_look, monkeypatch
):
    for module in (attention, guard):
        monkeypatch.setattr(module, "can_look", lambda _: can_look)
    mask, bias = oracles.mask_with_empty_row(), normal(L, S, seed=5).detach()
    hiding = bias.masked_fill(~mask, -oracles.INF)
    expected = partial(path, attn_bias=bias, attn_mask=mask)
    assert_same(partial(path, attn_bias=hiding), expected, *qkv(B))
    wild = bias.masked_fill(~mask, oracles.INF)  # only where nothing may be read
    found = path(*qkv(B), attn_bias=wild, attn_mask=mask)
    torch.testing.assert_close(found, expected(*qkv(B)))


# Empty rows, half precision, huge numbers


@ALL_PATHS
@pytest.mark.parametrize("lead", [(), (B,), (B, H)])
@oracles.every_precision
def test_a_query_that_may_read_nothing_gives_zero_and_finite_gradients(path, lead, dtype):
    inputs = qkv(*lead, dtype=dtype)
    output = path(*inputs, attn_mask=oracles.mask_with_empty_row())
    found = gradients(output, inputs)
    assert output.dtype == dtype
    assert (output[..., 2, :] == 0).all()
    assert (found[0][..., 2, :] == 0).all()
    assert all(x.isfinite().all() for x in (output, *found))
    assert all((x != 0).any() for x in found)


@ALL_PATHS
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_half_precision_stays_half_and_close(path, dtype, atol):
    inputs, mask = qkv(B, H), oracles.mask_with_empty_row()
    got = path(*(x.to(dtype) for x in inputs), attn_mask=mask)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), path(*inputs, attn_mask=mask), atol=atol, rtol=0.0)


@ALL_PATHS
def test_half_precision_scales_before_a_dot_product_overflows(path):
    q = torch.full((1, 64), 60.0, dtype=torch.float16)
    k = torch.cat((q, -q))  # dot products of 230,400, beyond the 65,504 of float16
    v = torch.tensor([[1.0], [2.0]], dtype=torch.float16)
    assert path(q, k, v).tolist() == [[1.0]]


@PATHS
def test_scores_beyond_half_precision_are_summed_in_single_precision(path):
    q = torch.full((1, 64), 200.0, dtype=torch.float16)
    k = torch.cat((q, q + 2))  # scores of 320,000 and 323,200
    v = torch.tensor([[1.0], [2.0]], dtype=torch.float16)
    assert path(q, k, v).tolist() == [[2.0]]


# Masked keys and values that are not numbers


def masked(path, q, k, v, *, mask, is_causal):
    """The module that takes any score has no flag."""
    if path is by_module:
        return path(q, k, v, attn_mask=mask & causal_mask(L, S) if is_causal else mask)
    return path(q, k, v, attn_mask=mask, is_causal=is_causal)


@pytest.mark.parametrize(
    "path", [oracles.explicit, scaled_dot_product_attention, tiled_attention, by_module]
)
@pytest.mark.parametrize("bad", [float("nan"), oracles.INF, -oracles.INF])
@pytest.mark.parametrize("where", ["key", "value"])
@pytest.mark.parametrize("rule", ["padding", "mask", "causal", "causal mask"])
def test_what_a_masked_key_or_value_holds_changes_nothing(path, bad, where, rule):
    mask = {
        "padding": torch.arange(S) < S - 2,
        "mask": oracles.mask_with_empty_row(),
        "causal": None if path is not by_module else torch.ones(L, S).bool(),
        "causal mask": torch.arange(S) != 1,
    }[rule]
    at = {"padding": [5, 6], "mask": [3], "causal": [3], "causal mask": [1, 3]}[rule]
    is_causal = "causal" in rule
    allowed = torch.ones(L, S).bool() if mask is None else mask.expand(L, S)
    allowed = allowed & causal_mask(L, S) if is_causal else allowed
    rows = ~allowed[:, at].any(-1)  # the queries that read none of the bad keys
    assert rows.any()
    q, k, v = (x.detach() for x in qkv(B, H))
    spoilt = {"key": k.clone(), "value": v.clone()}
    spoilt[where][..., at, 0] = bad
    results = []
    for key, value in ((k, v), (spoilt["key"], spoilt["value"])):
        inputs = [x.clone().requires_grad_() for x in (q, key, value)]
        output = masked(path, *inputs, mask=mask, is_causal=is_causal)
        kept = output[..., rows, :]
        if key is spoilt["key"] and math.isnan(bad):  # whoever reads NaN shows it
            assert output[..., ~rows, :].isnan().any(-1).all()
        results.append((kept, *gradients(kept, inputs)))
    torch.testing.assert_close(*results)
    assert (results[1][0][..., ~allowed[rows].any(-1), :] == 0).all()


@pytest.mark.parametrize(("rows", "columns"), [(700, 700), (300, 700), (700, 300)])
@pytest.mark.parametrize("at", [0, 290, -1])
def test_later_values_of_nan_change_nothing_in_a_kernel_of_many_tiles(rows, columns, at):
    q, k, v = (x.detach() for x in qkv(rows=rows, columns=columns, dtype=torch.float32))
    expected = scaled_dot_product_attention(q, k, v, is_causal=True)
    v[at, 0] = float("nan")
    got = scaled_dot_product_attention(q, k, v, is_causal=True)
    before = at % columns
    torch.testing.assert_close(got[:before], expected[:before])
    assert got[before:].isnan().any(-1).all()


@pytest.mark.parametrize("how", [{"attn_mask": torch.arange(S) < L}, {"is_causal": True}])
def test_keys_of_nan_that_none_may_read_change_nothing_in_a_compiled_graph(how):
    q, k, v = (x.detach() for x in qkv(B, H))
    fused = partial(scaled_dot_product_attention, **how)
    expected = fused(q, k, v)
    k[..., L:, :] = v[..., -1:, :] = float("nan")  # in the future of every query
    compiled = torch.compile(fused, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(q, k, v), expected)


def test_a_weight_of_0_reads_nothing_and_any_other_weight_shows_what_is_wrong(monkeypatch):
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    value = torch.tensor([[1.0, 2.0], [3.0, 4.0], [float("nan"), 6.0]])
    got = weighted_sum(weights, value)
    assert got[0].tolist() == [2.0, 3.0]
    assert got[1].isnan().tolist() == [True, False]
    assert got[2].tolist() == [0.0, 0.0]
    monkeypatch.setattr(attention, "can_look", lambda _: False)  # as on a GPU, or compiled
    assert weighted_sum(weights[[0, 2]], value).equal(got[[0, 2]])


@pytest.mark.parametrize("axes", [(), (H,)])
def test_a_bias_of_minus_infinity_closes_a_key_as_a_mask_does(axes):
    q, k, v = (x.detach().requires_grad_() for x in qkv(B, H))
    bias = normal(*axes, L, S, seed=4).detach()
    bias[..., 3] = -oracles.INF
    spoilt = k.detach().clone()
    spoilt[..., 3, :] = float("nan")
    for path in (oracles.explicit, scaled_dot_product_attention):
        got = path(q, spoilt, v, attn_bias=bias)
        torch.testing.assert_close(got, path(q, k, v, attn_bias=bias))
        assert all(x.isfinite().all() for x in gradients(got, (q, v)))


@pytest.mark.parametrize("path", [oracles.explicit, scaled_dot_product_attention])
def test_an_infinite_value_spoils_its_own_channel_alone(path):
    q, k, v = (x.detach() for x in qkv())
    allowed = torch.ones(L, S, dtype=torch.bool)
    expected = path(q, k, v, attn_mask=allowed)
    v[0, 0] = oracles.INF
    torch.testing.assert_close(path(q, k, v, attn_mask=allowed)[:, 1:], expected[:, 1:])


def test_an_infinite_weight_stays_infinite():
    got = weighted_sum(torch.tensor([[oracles.INF, 0.0]]), torch.tensor([[1.0], [2.0]]))
    assert got.tolist() == [[oracles.INF]]


# Attention with any score


def test_the_module_takes_any_score():
    score = scores.AdditiveScore(D, 2, hidden_dim=17).double()
    q, k, v = normal(B, L, D, seed=1), normal(B, S, 2, seed=2), normal(B, S, DV, seed=3)
    mask = oracles.mask_with_empty_row()
    output, weights = Attention(score)(q, k, v, mask)
    expected = score(q, k).masked_fill(~mask, -oracles.INF).softmax(-1).nan_to_num(0.0)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, weights @ v)


def test_dropout_drops_weights_in_training_and_enlarges_the_rest():
    torch.manual_seed(0)
    q, k, _ = (x.detach() for x in qkv(B))
    module = Attention(scores.ScaledDotProductScore(), dropout=0.5)
    once = torch.eye(S, dtype=torch.float64).expand(B, S, S)
    output, weights = module(q, k, torch.cat((once, once), dim=-1))
    used, again = output.split(S, dim=-1)  # the weights that were used, shown twice
    kept = used != 0
    assert used.equal(again)  # a key is dropped whole, not number by number of its value
    assert 0 < kept.sum() < kept.numel()
    torch.testing.assert_close(used[kept], 2 * weights[kept])
    torch.testing.assert_close(weights, attention_weights(q, k))  # those before dropout
    torch.testing.assert_close(module.eval()(q, k, once)[0], weights)


# Autocast, which reconciles dtypes, and torch's function transforms


@pytest.mark.parametrize("name", oracles.SCORES)
def test_every_score_trains_under_autocast_on_what_layers_give(name):
    score = oracles.SCORES[name](D, D)
    layer, attention, mask = nn.Linear(D, D), Attention(score), oracles.mask_with_empty_row()
    x, memory = normal(B, L, D, dtype=torch.float32), normal(B, S, D, seed=1, dtype=torch.float32)

    def attend(x, memory):  # under autocast the query is bfloat16, key and value float32
        output, weights = attention(layer(x), memory, memory, mask)
        return torch.cat((output, weights), dim=-1).float()

    wanted = attend(x, memory)
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(x, memory)
    torch.testing.assert_close(got, wanted, rtol=0.05, atol=0.05)
    inputs = (x, memory, *attention.parameters())
    for a, b in zip(gradients(got, inputs), gradients(wanted, inputs), strict=True):
        assert (a - b).norm() <= 0.05 * b.norm() + 1e-3


@ALL_PATHS
@oracles.half_precisions
def test_autocast_costs_no_path_more_than_the_rounding_of_its_output(path, dtype):
    # Scores of some 300 that differ by about 1: 8 bits would keep none of the differences. The
    # inputs are rounded before, so that nothing but the scores, weights and output can be.
    q, k, v = (x.detach() for x in qkv(B, H))
    q[..., 0] = k[..., 0] = 32
    inputs = [x.to(dtype).float() for x in (q, k, v)]
    mask = oracles.mask_with_empty_row()
    exact = oracles.explicit(*(x.double() for x in inputs), attn_mask=mask)
    with torch.autocast("cpu", dtype):
        got = path(*inputs, attn_mask=mask)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(got.double(), exact, rtol=unit, atol=2 * unit)


@PATHS
def test_both_paths_mix_dtypes_under_autocast_alone(path):
    q, k, v = qkv(B, H, dtype=torch.float32)
    bias = normal(L, S, seed=5, dtype=torch.float32)
    attend = partial(path, attn_mask=oracles.mask_with_empty_row(), attn_bias=bias)
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(q.bfloat16(), k, v)
    torch.testing.assert_close(got.float(), attend(q, k, v), rtol=0.05, atol=0.05)
    assert all(x.isfinite().all() for x in gradients(got, (q, k, v)))
    with pytest.raises(TypeError, match="of the same dtype"):
        path(q.bfloat16(), k, v)


@pytest.mark.parametrize("path", [oracles.explicit, scaled_dot_product_attention, tiled_attention])
@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"attn_mask": torch.arange(S) < 5}])
def test_every_path_can_be_mapped_over_a_batch(path, how):
    q, k, v = qkv(3, B)
    mapped = torch.vmap(partial(path, **how))
    assert_same(mapped, partial(path, **how), q, k, v)


# Torch itself still calls what it has deprecated, the first time it differentiates forward.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("mask", [None, causal_mask(L, S)], ids=["open", "causal"])
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_weights_are_the_same_without_a_graph_mapped_and_differentiated_forward(mask, grad):
    queries, keys = normal(3, L, D).detach(), normal(3, S, D, seed=1).detach()
    weigh = partial(attention_weights, attn_mask=mask)
    expected = weigh(queries, keys)
    with torch.set_grad_enabled(grad):  # without it the softmax overwrites the scores
        torch.testing.assert_close(weigh(queries, keys), expected)
        torch.testing.assert_close(torch.vmap(weigh)(queries, keys), expected)
        tangents = torch.ones_like(queries), torch.zeros_like(keys)
        weights, change = torch.func.jvp(weigh, (queries, keys), tangents)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(change.sum(-1), torch.zeros_like(change[..., 0]))
