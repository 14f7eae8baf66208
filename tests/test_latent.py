"""Latent attention: two forms of one layer, its cache, and the layer of the reference library."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attn_notes.cache import GrowingCache, KVCache
from attn_notes.latent import LatentAttention
from attn_notes.masks import causal_mask, padding_mask
from attn_notes.positions import clock_angles
from tests.oracles import filled, normal

B, L, E, H, C, R, D, DV = 2, 7, 23, 3, 11, 6, 5, 13  # every axis another size


def layer(**options) -> LatentAttention:
    sizes = {"latent_dim": C, "rotary_dim": R, "head_dim": D, "v_head_dim": DV}
    return filled(LatentAttention(E, H, **{**sizes, **options}))


def by_hand(model: LatentAttention, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The formulas, one sequence, head, query and key at a time."""
    heads = torch.zeros(len(x), L, H, DV, dtype=x.dtype)
    width = R // 2
    for b in range(len(x)):
        c = model.kv_norm(model.kv_down(x[b]))
        shared = torch.view_as_complex(model.k_rotary(x[b]).unflatten(-1, (-1, 2)).contiguous())
        for h in range(H):
            q = model.q_proj(x[b]).unflatten(-1, (H, D + R))[:, h]
            turned = torch.view_as_complex(q[:, D:].unflatten(-1, (-1, 2)).contiguous())
            k = c @ model.k_up.weight[D * h : D * (h + 1)].T
            v = c @ model.v_up.weight[DV * h : DV * (h + 1)].T
            for i in range(L):
                scores = []
                for j in range(L):
                    turn = [(i - j) * model.base ** (-m / width) for m in range(width)]
                    turn = torch.polar(torch.ones(width, dtype=x.dtype), x.new_tensor(turn))
                    rotated = (turned[i] * turn * shared[j].conj()).real.sum()
                    scores.append((q[i, :D] @ k[j] + rotated) / (D + R) ** 0.5)
                scores = torch.stack(scores).masked_fill(~mask[b, i], -torch.inf)
                heads[b, i, h] = scores.softmax(0) @ v
    return model.out_proj(heads.flatten(2))


@pytest.mark.parametrize("absorbed", [False, True])
def test_both_forms_are_the_formulas(absorbed):
    model, x = layer(base=100.0), normal(B, L, E).detach()
    mask = causal_mask(L) & padding_mask([L, 4], L)  # (B, L, L)
    got = model(x, attn_mask=mask, absorbed=absorbed)
    torch.testing.assert_close(got, by_hand(model, x, mask), rtol=0, atol=1e-12)


@given(st.data())
def test_explicit_and_absorbed_agree_for_every_mask(data):
    model, x = layer(), normal(B, L, E, seed=data.draw(st.integers(0, 99)))
    shape = data.draw(st.sampled_from([(L, L), (1, L), (B, L, L), (B, 1, L), (B, H, L, L)]))
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.6
    mask = data.draw(st.sampled_from([None, mask]))
    causal = data.draw(st.booleans())
    results = []
    for absorbed in (False, True):
        out = model(x, attn_mask=mask, is_causal=causal, absorbed=absorbed)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x, *model.parameters()])])
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [KVCache, GrowingCache])
@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("pieces", [[1] * L, [3, 1, 3]])
def test_a_text_in_pieces_is_the_whole_text(kind, absorbed, pieces):
    model, x = layer(), normal(B, L, E).detach()
    cache = kind()
    with torch.no_grad():
        whole = model(x, is_causal=True)
        rules = {"is_causal": True, "absorbed": absorbed, "cache": cache}
        parts = [model(piece, **rules) for piece in x.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)
    assert cache.keys.shape == (B, 1, L, C)  # nothing else is kept
    assert cache.values.shape == (B, 1, L, R)


def test_no_query_reads_the_future():
    model, x = layer(), normal(B, L, E).detach()
    other = x.clone()
    other[:, 4] += 1
    for absorbed in (False, True):
        before, after = (model(y, is_causal=True, absorbed=absorbed) for y in (x, other))
        moved = (before - after).abs().amax((0, 2))
        assert moved[:4].max() == 0
        assert moved[4:].min() > 1e-6


def test_only_distances_matter():
    model, x = layer(), normal(B, L, E).detach()
    cache = KVCache(torch.zeros(B, 1, 5, C).double(), torch.zeros(B, 1, 5, R).double())
    late = torch.zeros(L, 5 + L, dtype=torch.bool)
    late[:, 5:] = causal_mask(L)  # five positions later, with nothing before
    for absorbed in (False, True):
        got = model(x, attn_mask=late, cache=cache.fork(), absorbed=absorbed)
        torch.testing.assert_close(got, model(x, is_causal=True), rtol=0, atol=1e-12)


def test_under_autocast_both_forms_agree_and_torch_warns_of_nothing():
    model, x = layer().float(), normal(B, L, E).detach().float()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        explicit, absorbed = (model(x, is_causal=True, absorbed=how) for how in (False, True))
    assert explicit.dtype == absorbed.dtype == torch.bfloat16
    torch.testing.assert_close(explicit, absorbed, rtol=0.05, atol=0.05)


def test_a_query_that_may_read_nothing_gets_zero():
    model, x = layer(), normal(B, L, E)
    mask = causal_mask(L).clone()
    mask[2] = False
    for absorbed in (False, True):
        out = model(x, attn_mask=mask, absorbed=absorbed)
        assert out[:, 2].abs().max() == 0
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert gradient.isfinite().all()


# The reference library


def reference():
    library = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    from transformers import DeepseekV3Config

    config = DeepseekV3Config(
        hidden_size=E + 1,
        num_attention_heads=H,
        num_key_value_heads=H,
        q_lora_rank=None,
        kv_lora_rank=C,
        qk_rope_head_dim=R,
        qk_nope_head_dim=D,
        v_head_dim=DV,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
    )
    config._attn_implementation = "sdpa"  # its explicit path takes the softmax in float32
    theirs = filled(library.DeepseekV3Attention(config, layer_idx=0))
    ours = LatentAttention(
        E + 1,
        H,
        latent_dim=C,
        rotary_dim=R,
        head_dim=D,
        v_head_dim=DV,
        base=100.0,
    ).double()
    return theirs, load(ours, theirs)


def load(ours: LatentAttention, theirs: nn.Module) -> LatentAttention:
    """Their weights under our names: two of their matrices hold two of ours each."""
    state = theirs.state_dict()
    down, rotary = state["kv_a_proj_with_mqa.weight"].split([C, R])
    up = state["kv_b_proj.weight"].unflatten(0, (H, D + DV))
    named = {"kv_down.weight": down, "k_rotary.weight": rotary}
    named["kv_norm.weight"] = state["kv_a_layernorm.weight"]
    named["k_up.weight"], named["v_up.weight"] = up[:, :D].flatten(0, 1), up[:, D:].flatten(0, 1)
    named["out_proj.weight"] = state["o_proj.weight"]
    named["q_proj.weight"] = state["q_proj.weight"]
    ours.load_state_dict(named)
    return ours


def in_float64(theirs: nn.Module) -> nn.Module:
    """Their norms compute in float32 whatever comes; this puts torch's, with their weights."""
    norm = theirs.kv_a_layernorm
    wide = nn.RMSNorm(norm.weight.shape, eps=norm.variance_epsilon).double()
    wide.load_state_dict(norm.state_dict())
    theirs.kv_a_layernorm = wide
    return theirs


@pytest.mark.parametrize(("change", "bar"), [(in_float64, 1e-12), (nn.Identity(), 2e-6)])
def test_it_is_the_layer_of_the_reference_library(change, bar):
    theirs, ours = reference()
    theirs, x = change(theirs), normal(B, L, E + 1).detach()
    angles = clock_angles(L, R, base=100.0).repeat(1, 2)[None]  # (1, L, R)
    mask = torch.zeros(L, L, dtype=x.dtype).masked_fill(~causal_mask(L), -torch.inf)[None, None]
    wanted, _ = theirs(x, (angles.cos(), angles.sin()), mask)
    for absorbed in (False, True):
        got = ours(x, is_causal=True, absorbed=absorbed)
        torch.testing.assert_close(got, wanted, rtol=0, atol=bar)
    theirs.config.rope_interleave = False  # the control: another pairing is seen
    wrong, _ = theirs(x, (angles.cos(), angles.sin()), mask)
    assert (wrong - wanted).abs().max() > 1e-2


# At the boundary


def test_inputs_that_do_not_fit():
    model, x = layer(), normal(B, L, E).detach()
    with pytest.raises(ValueError, match=r"x must have shape \(B, L, 23\), got x \(2, 7, 22\)"):
        model(x[..., 1:])
    cache = KVCache(torch.zeros(B, 1, 5, C + 1), torch.zeros(B, 1, 5, R))
    with pytest.raises(ValueError, match=r"latents \(2, 1, 5, 12\) and keys \(2, 1, 5, 6\)"):
        model(x, cache=cache)
    cache = KVCache(torch.zeros(B, 1, 5, C).double(), torch.zeros(B, 1, 5, R).double())
    for mask in (torch.ones(L, L).bool(), torch.ones(B + 1, L, 5 + L).bool()):
        for absorbed in (False, True):
            with pytest.raises(ValueError, match="mask must broadcast"):
                model(x, attn_mask=mask, absorbed=absorbed, cache=cache)
    assert cache.length == 5  # a call that is refused leaves the cache as it was
