"""Multi-head attention, against torch's layer, a loop over heads, and its own other path."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attn_notes.cache import KVCache
from attn_notes.masks import causal_mask
from attn_notes.multihead import MultiHeadAttention, SelfAttention, merge_heads, split_heads
from attn_notes.positions import apply_rotary, rotary_angles
from tests import oracles
from tests.oracles import DV, B, D, H, L, S, assert_same, coin, filled, gradients, normal
from tests.small_models import on_path

E = H * 17  # a prime for every axis, but for the widths, which heads must divide
KDIM, VDIM = 23, 29
PATHS = pytest.mark.parametrize("path", ["explicit", "fused"])


def layer_of(embed_dim=E, num_heads=H, path="fused", **keywords) -> MultiHeadAttention:
    """A layer that is asked for its weights, and so takes the explicit path, or that is not."""
    layer = on_path(filled(MultiHeadAttention(embed_dim, num_heads, **keywords)), path)
    layer.asks = path == "explicit"
    return layer


def inputs(batch=B, rows=L, columns=S, *, q=E, k=E, v=E, dtype=torch.float64):
    sizes = (rows, q), (columns, k), (columns, v)
    return tuple(normal(batch, *size, seed=n, dtype=dtype) for n, size in enumerate(sizes, 1))


def torchs(layer: MultiHeadAttention, query, key, value):
    """What `nn.MultiheadAttention` computes, with the parameters of our layer."""
    biases = [getattr(layer, f"{name}_proj").bias for name in "qkv"]
    weights = {f"{name}_proj_weight": getattr(layer, f"{name}_proj").weight for name in "qkv"}
    output, read = nn.functional.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (query, key, value)),  # torch's layout: (L, B, E)
        *(layer.out_proj.out_features, layer.num_heads),
        *(None, None if biases[0] is None else torch.cat(biases)),
        *(None, None, False, 0.0),
        *(layer.out_proj.weight, layer.out_proj.bias),
        use_separate_proj_weight=True,
        average_attn_weights=False,
        **weights,
    )
    return output.transpose(0, 1), read


def assert_equals_torch(layer, tensors) -> None:
    """Outputs, weights, and the gradients of inputs and of all parameters."""
    got, need_weights = layer(*tensors), layer.asks
    assert (got[1] is not None) == need_weights
    expected = torchs(layer, *[*tensors, *tensors[-1:] * 2][:3])
    torch.testing.assert_close(got[: 1 + need_weights], expected[: 1 + need_weights])
    leaves = [*tensors, *layer.parameters()]
    torch.testing.assert_close(*(gradients(output, leaves) for output, _ in (got, expected)))


SIZES = st.integers(0, 5)


@given(st.sampled_from([(), (2,), (0,), (2, 3)]), SIZES, st.integers(1, 5), SIZES)
def test_split_and_merge_are_inverses(lead, rows, heads, head_dim):
    x = normal(*lead, rows, heads * head_dim)
    split = split_heads(x, heads)
    assert split.shape == (*lead, heads, rows, head_dim)
    assert merge_heads(split).equal(x)
    for h in range(heads):
        assert split[..., h, :, :].equal(x[..., h * head_dim : (h + 1) * head_dim])


# Against torch's layer


@PATHS
@pytest.mark.parametrize("bias", [True, False])
def test_without_a_mask_it_equals_torchs_layer(path, bias):
    layer = layer_of(path=path, bias=bias)
    for n in (1, 2, 3):  # query; query and key; all three
        assert_equals_torch(layer, inputs()[:n])
    layer = layer_of(path=path, kdim=KDIM, vdim=VDIM, bias=bias)
    assert_equals_torch(layer, inputs(k=KDIM, v=VDIM))


# Against a loop over heads


def by_loop(layer, query, key, value, *, mask, bias):
    """Head by head, each with its own rows of the projections."""
    heads = []
    share = layer.num_heads // layer.num_kv_heads

    def projected(proj, x, head, heads):
        rows = slice(*(n * proj.out_features // heads for n in (head, head + 1)))
        return nn.functional.linear(
            x, proj.weight[rows], None if proj.bias is None else proj.bias[rows]
        )

    for h in range(layer.num_heads):
        q = projected(layer.q_proj, query, h, layer.num_heads)
        k = projected(layer.k_proj, key, h // share, layer.num_kv_heads)
        v = projected(layer.v_proj, value, h // share, layer.num_kv_heads)
        if layer.q_norm is not None:  # one weight for all heads
            q, k = layer.q_norm(q), layer.k_norm(k)
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias[:, h]
        weights = scores.masked_fill(~mask[:, h], -oracles.INF).softmax(-1).nan_to_num()
        heads.append(weights @ v)
    return layer.out_proj(torch.cat(heads, dim=-1))


@st.composite
def any_layer(draw):
    """Sizes, widths and options in any combination, and inputs that fit them."""
    size, few = st.integers(1, 5), st.integers(1, 3)
    kv_heads = draw(few)
    heads = kv_heads * draw(few)
    options = {name: draw(size) for name in ("qdim", "kdim", "vdim")}
    options |= {name: heads * draw(few) for name in ("qk_proj_dim", "v_proj_dim")}
    options["bias"] = draw(st.booleans())
    options["qk_norm_eps"] = draw(st.sampled_from([None, 0.1]))
    options |= {"num_kv_heads": kv_heads, "num_heads": heads, "embed_dim": draw(size)}
    batch, rows, columns = draw(size), draw(st.integers(0, 5)), draw(size)
    tensors = inputs(batch, rows, columns, **{name: options[f"{name}dim"] for name in "qkv"})
    shapes = [(rows, columns), (batch, rows, columns), (batch, heads, rows, columns)]
    shape = draw(st.sampled_from(shapes))
    mask = coin(*shape, seed=draw(st.integers(0, 99))) if draw(st.booleans()) else None
    bias = normal(heads, rows, columns, seed=5).detach() if draw(st.booleans()) else None
    return (
        options,
        tensors,
        {"attn_mask": mask, "attn_bias": bias, "is_causal": draw(st.booleans())},
    )


@given(any_layer(), st.sampled_from(["explicit", "fused"]))
def test_a_layer_of_any_sizes_equals_a_loop_over_its_heads(case, path):
    options, tensors, rules = case
    mask, bias, is_causal = rules.values()
    layer = layer_of(path=path, **options)
    batch, rows, columns = len(tensors[0]), tensors[0].shape[1], tensors[1].shape[1]
    full = (batch, options["num_heads"], rows, columns)
    wide = torch.ones(full, dtype=torch.bool)
    if mask is not None:
        wide = (mask[:, None] if mask.dim() == 3 else mask).expand(full)
    if is_causal:
        wide = wide & causal_mask(rows, columns)
    added = torch.zeros(full) if bias is None else bias.expand(full)
    assert_same(
        lambda *qkv: layer(*qkv, **rules)[0],
        lambda *qkv: by_loop(layer, *qkv, mask=wide, bias=added),
        *tensors,
    )
    assert layer(*tensors)[0].shape == (batch, rows, options["embed_dim"])


@PATHS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kv_heads", [1, 3])
def test_a_packed_layer_is_the_same_with_its_projections_stacked(path, bias, kv_heads):
    options = {"qk_proj_dim": H * D, "v_proj_dim": H * D, "num_kv_heads": kv_heads}
    options |= {"bias": bias, "path": path}
    apart, packed = layer_of(**options), layer_of(packed=True, **options)
    packed.load_state_dict(oracles.stacked(apart.state_dict()))

    def read(layer, rules, x):
        return layer(x, **rules)[0]

    for rules in ({}, {"is_causal": True}, {"attn_mask": oracles.mask_with_empty_row()[:, :L]}):
        assert_same(partial(read, packed, rules), partial(read, apart, rules), normal(B, L, E))
    pairs = zip(packed.qkv_weights(), apart.qkv_weights(), strict=True)
    assert all(a.equal(b) for a, b in pairs)
    caches, x = (KVCache(), KVCache()), normal(B, L, E).detach()
    for step in x.split(1, dim=1):
        both = zip((packed, apart), caches, strict=True)
        torch.testing.assert_close(*(layer(step, cache=cache)[0] for layer, cache in both))


# Dropout


@PATHS
def test_dropout_acts_on_the_weights_in_training_only(path):
    layer, x = layer_of(path=path, dropout=0.5), inputs()[0]
    torch.manual_seed(0)
    assert not layer(x)[0].equal(layer(x)[0])
    layer.eval()
    assert layer(x)[0].equal(layer(x)[0])
    layer = layer_of(path=path, dropout=1.0)  # leaves the bias of the output projection
    bias = layer.out_proj.bias.expand(B, L, E)
    torch.testing.assert_close(layer(x)[0], bias, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("make", [layer_of, lambda **kw: SelfAttention(E, **kw).double()])
def test_returned_weights_are_those_before_dropout(make):
    layer, x = make(dropout=0.5), inputs()[0]
    keywords = {} if isinstance(layer, SelfAttention) else {"need_weights": True}
    torch.manual_seed(0)
    _, weights = layer(x, **keywords)
    assert weights.equal(layer.eval()(x, **keywords)[1])


# Half precision and what is not a number


@PATHS
@oracles.half_precisions
def test_under_autocast_large_scores_give_no_nan_on_either_path(path, dtype):
    layer = MultiHeadAttention(E, H)
    x = 2000 * inputs(dtype=torch.float32)[0].detach()  # scores of some 500,000
    how = {"attn_mask": oracles.mask_with_empty_row()[:, :L], "is_causal": True}
    how["need_weights"] = path == "explicit"
    exact = layer(x, **how)[0]
    with torch.autocast("cpu", dtype):
        got, weights = layer(x, **how)
    assert got.isfinite().all()
    assert weights is None or weights.isfinite().all()
    assert (got - exact).norm() < 0.2 * exact.norm()


@PATHS
@pytest.mark.parametrize("is_causal", [True, False])
def test_tokens_of_nan_reach_no_token_that_may_not_read_them(path, is_causal):
    layer, x = layer_of(path=path), inputs()[0].detach()
    mask = torch.arange(L) < L - 1 + is_causal  # causal, the last token is in the future alone
    how = {"attn_mask": mask.expand(L, L), "is_causal": is_causal}
    expected = layer(x, **how)[0][:, :-1]
    x[:, -1] = math.nan
    got = layer(x, **how)[0]
    torch.testing.assert_close(got[:, :-1], expected)
    assert got[:, -1].isnan().all()


# Rotary and cache


@PATHS
def test_rotary_is_applied_to_queries_and_keys_only(path):
    layer = layer_of(12, 3, path=path)
    rotary = torch.sin  # any function of one vector at a time

    def by_hand(query, key, value):
        projections = (layer.q_proj(query), layer.k_proj(key), layer.v_proj(value))
        q, k, v = (split_heads(x, 3) for x in projections)
        weights = (rotary(q) @ rotary(k).mT / math.sqrt(4)).softmax(-1)
        return layer.out_proj(merge_heads(weights @ v))

    assert_same(lambda *x: layer(*x, rotary=rotary)[0], by_hand, *inputs(q=12, k=12, v=12))


@PATHS
@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("steps", [[5], [1, 1, 1, 1, 1], [3, 2], [2, 1, 2], [4, 1]])
def test_steps_through_a_cache_equal_the_whole_sequence(path, kv_heads, steps):
    layer, x = layer_of(36, 3, num_kv_heads=kv_heads, path=path), normal(B, L, 36)
    angles = rotary_angles(L, 12, dtype=torch.float64)
    whole = layer(x, is_causal=True, rotary=partial(apply_rotary, angles=angles))[0]
    cache, parts = KVCache(), []
    for part in x.split(steps, dim=1):
        positions = slice(cache.length, cache.length + part.shape[1])
        rotary = partial(apply_rotary, angles=angles[positions])
        parts.append(layer(part, is_causal=True, rotary=rotary, cache=cache)[0])
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    assert cache.keys.shape == (B, kv_heads, L, 12)  # the group shares one head


@pytest.mark.parametrize(
    ("name", "value", "got"),
    [
        ("attn_mask", torch.ones(B, 4, 4).bool(), rf"mask \({B}, 4, 4\)"),
        ("attn_mask", torch.ones(4, 4).bool(), r"mask \(4, 4\)"),
        ("attn_bias", torch.ones(4, 4), r"attn_bias \(4, 4\)"),
    ],
)
def test_a_refused_call_leaves_the_cache_unchanged(name, value, got):
    layer, cache, x = MultiHeadAttention(12, 3), KVCache(), torch.ones(B, 3, 12)
    layer(x, cache=cache)
    with pytest.raises(ValueError, match=f"got {got}"):
        layer(x, cache=cache, **{name: value})
    assert cache.length == 3


@PATHS
@pytest.mark.parametrize("queries", [1, 2])
def test_with_a_cache_queries_are_numbered_from_its_end(path, queries):
    layer, x, cache = layer_of(path=path), normal(B, L, E), KVCache()
    later, mask = x[:, 2 : 2 + queries], coin(queries, L, seed=4)
    layer(x[:, :2], cache=cache)
    got = layer(later, x[:, 2:], attn_mask=mask, is_causal=True, cache=cache)[0]  # 3 keys more
    causal = mask & causal_mask(queries, L, offset=2)
    torch.testing.assert_close(got, layer(later, x, attn_mask=causal)[0])


# One head


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_one_head_is_self_attention_packed_or_not(bias, packed):
    widths = {"qk_proj_dim": D, "v_proj_dim": DV, "bias": bias}
    options = widths | {"out_proj": True}
    three, one = filled(SelfAttention(E, **options)), SelfAttention(E, packed=packed, **options)
    state = three.state_dict()
    one.double().load_state_dict(oracles.stacked(state) if packed else state)
    many = MultiHeadAttention(E, 1, **widths).double()
    many.load_state_dict(state)
    x, how = normal(B, L, E), {"attn_mask": coin(B, L, L, seed=4), "is_causal": True}
    for n in (0, 1):  # the output and the weights
        assert_same(
            lambda x, n=n: one(x, **how)[n].view(B, L, -1),
            lambda x, n=n: many(x, need_weights=True, **how)[n].view(B, L, -1),
            x,
        )
    output = one(x)[0]
    assert output.shape == (B, L, E)
    assert SelfAttention(E, **widths).double()(x)[0].shape == (B, L, DV)
    for got, expected in ((one(x[0]), output[0]), (one(x[:, None]), output[:, None])):
        torch.testing.assert_close(got[0], expected)
