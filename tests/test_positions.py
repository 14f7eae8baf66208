"""Positions: against loops over single numbers, a library that computes them otherwise, and theory.

The library, `transformers`, has Llama's rotary (halves) and Bloom's slopes.
"""

import cmath
import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from attn_notes import positions as P
from attn_notes.positions import alibi_bias, alibi_slopes, apply_rotary, rotary_angles
from attn_notes.positions import sinusoidal_encoding as sinusoid
from tests.oracles import B, H, L, every_precision, gradients, half_precisions, normal

D = 22  # even, unlike the widths of the other tests
LENGTH = st.integers(0, 6)
EVEN = st.integers(1, 9).map(lambda half: 2 * half)
OFFSET = st.integers(-(10**8), 10**8)
BASE = st.sampled_from([2.0, 100.0, 10000.0, 500000.0])
LAYOUTS = pytest.mark.parametrize("layout", ["pairs", "halves"])
double = {"dtype": torch.float64}


def same(got, expected, tolerance=1e-9):
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


# The sinusoid


@given(LENGTH, EVEN, OFFSET, BASE)
@example(4, 2, 10**8, 10000.0)  # float32 counts to 16,777,216 without a gap
def test_every_entry_is_its_formula(length, width, offset, base):
    encoding = sinusoid(length, width, offset=offset, base=base, **double)
    assert encoding.shape == (length, width)
    for i in range(length):
        for j in range(width // 2):
            angle = (i + offset) / base ** (2 * j / width)
            assert encoding[i, 2 * j].item() == pytest.approx(math.sin(angle), abs=1e-7)
            assert encoding[i, 2 * j + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


@every_precision
@pytest.mark.parametrize("offset", [0, 100_000, 10_000_000])
def test_a_late_position_is_as_exact_as_an_early_one(dtype, offset):
    encoding = sinusoid(300, 64, offset=offset, dtype=dtype)
    assert encoding.dtype == dtype
    assert encoding.equal(sinusoid(300, 64, offset=offset, **double).to(dtype))
    exact = rotary_angles(300, 64, offset=offset, **double)
    same(rotary_angles(300, 64, offset=offset).double(), exact, 1e-6)


@pytest.mark.parametrize("offset", [0, 1, 17, 5000, 123_456, -300])
@pytest.mark.parametrize("base", [10000.0, 30.0])
def test_one_rotation_carries_every_position_on(offset, base):
    here = sinusoid(5000, 32, base=base, **double)
    there = sinusoid(5000, 32, offset=offset, base=base, **double)
    same(here @ P.rotation_between(offset, 32, base=base, **double).T, there)


# The two modules


@every_precision
@pytest.mark.parametrize("lead", [(), (B,), (B, H), (0,)])
def test_the_sinusoid_is_added_at_any_offset_and_in_any_precision(lead, dtype):
    x = normal(*lead, L, D, dtype=dtype)
    before = x.detach().clone()
    output = P.SinusoidalEncoding(D)(x, offset=9)
    assert output.dtype == dtype
    assert output.equal(x + sinusoid(L, D, offset=9, dtype=dtype))
    assert x.equal(before)


@pytest.mark.parametrize("offset", [0, 1, 6])
def test_learned_positions_are_torchs_embedding_of_the_positions(offset):
    module, reference = P.LearnedEncoding(11, D).double(), nn.Embedding(11, D).double()
    module.load_state_dict(reference.state_dict())
    x, read = normal(B, L, D), range(offset, offset + L)
    output, expected = module(x, offset=offset), x + reference(torch.tensor(read))
    torch.testing.assert_close(output, expected)
    got = gradients(output, [x, module.weight])
    torch.testing.assert_close(got, gradients(expected, [x, reference.weight]))
    assert (got[1][[i for i in range(11) if i not in read]] == 0).all()


def test_learned_positions_reach_to_their_last_and_no_further():
    module = P.LearnedEncoding(8, 4)
    for length, offset in ((8, 0), (1, 7), (0, 8)):
        assert module(torch.zeros(length, 4), offset=offset).equal(module.weight[offset:])
    for length, offset in ((9, 0), (1, 8), (8, 1), (0, 9), (1, -1), (8, -8)):
        with pytest.raises(ValueError, match=f"offset = {offset} and length = {length}"):
            module(torch.zeros(length, 4), offset=offset)


# Rotary


@given(LENGTH, EVEN, st.integers(-1000, 1000), BASE, st.sampled_from([0.5, 1.0, 2.0, 8.0]))
def test_the_angles_are_position_over_scale_times_frequency(length, width, offset, base, scale):
    angles = rotary_angles(length, width, offset=offset, base=base, scale=scale, **double)
    assert angles.shape == (length, width // 2)
    assert ((angles >= 0) & (angles < 2 * math.pi)).all()
    for i in range(length):
        for j in range(width // 2):
            expected = (i + offset) / scale * base ** (-2 * j / width)
            assert cmath.exp(1j * (angles[i, j].item() - expected)) == pytest.approx(1, abs=1e-10)


def rotary_of_llama(x, *, offset, base, scale):
    from transformers.models.llama import modeling_llama as llama

    rope = {"rope_type": "linear", "factor": scale, "rope_theta": base}
    sizes = {"hidden_size": D * H, "num_attention_heads": H, "head_dim": D}
    embedding = llama.LlamaRotaryEmbedding(llama.LlamaConfig(**sizes, rope_parameters=rope))
    cos, sin = embedding(x, torch.arange(offset, offset + x.shape[-2])[None])
    return llama.apply_rotary_pos_emb(x, x, cos, sin)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("base", "scale"), [(10000.0, 1.0), (500000.0, 1.0), (10000.0, 4.0)])
@pytest.mark.parametrize("offset", [0, 13])
def test_halves_are_the_librarys_llama(offset, base, scale):
    x, how = normal(B, H, 60, D, dtype=torch.float32), {"base": base, "scale": scale}
    angles = rotary_angles(60, D, offset=offset, **how)
    same(apply_rotary(x, angles, layout="halves"), rotary_of_llama(x, offset=offset, **how), 3e-5)


# The library's kind of rotation, its parameters, and ours; the first and third as published.
BY_TURNS = [
    ("llama3", {"low_freq_factor": 1.0, "high_freq_factor": 4.0}, 128, 500000.0, 8.0, 8192, {}),
    ("llama3", {"low_freq_factor": 2.0, "high_freq_factor": 3.0}, 22, 50.0, 3.0, 300,
     {"turns": (2.0, 3.0)}),
    ("yarn", {}, 128, 1e6, 4.0, 32768, {"turns": (1, 32), "ramp": "hands"}),
    ("yarn", {"beta_fast": 9, "beta_slow": 2}, 22, 50.0, 3.0, 300,
     {"turns": (2, 9), "ramp": "hands"}),
    ("yarn", {}, 22, 50.0, 3.0, 4, {"turns": (1, 32), "ramp": "hands"}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", BY_TURNS)
def test_hands_are_slowed_as_in_the_library(case):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind, rope, width, base, factor, length, ours = case
    rope = rope | {"rope_type": kind, "rope_theta": base, "factor": factor}
    rope |= {"original_max_position_embeddings": length}
    sizes = {"hidden_size": 2 * width, "num_attention_heads": 2, "head_dim": width}
    reach = int(factor * length)
    config = LlamaConfig(**sizes, max_position_embeddings=reach, rope_parameters=rope)
    expected, _ = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    how = {"base": base, "factor": factor, "trained_length": length, **ours}
    scale = P.scale_by_turns(width, **how)
    (speeds,) = P.clock_angles(1, width, offset=1, base=base, scale=scale)
    torch.testing.assert_close(speeds.float(), expected, rtol=1e-5, atol=0)


def test_a_slow_hand_is_slowed_and_a_fast_one_is_not():
    how = {"base": 10000.0, "factor": 8.0, "trained_length": 100}
    for ramp in ("turns", "hands"):
        scale = torch.tensor(P.scale_by_turns(64, **how, ramp=ramp))
        turns = 100 * P.clock_angles(1, 64, offset=1)[0] / (2 * math.pi)
        assert (scale[turns > 8] == 1).all()
        assert (scale[turns < 0.5] == 8).all()
        assert ((scale > 1) & (scale < 8)).sum() > 1
        assert (scale.diff() >= 0).all()


def test_a_scale_is_one_number_or_one_for_each_hand():
    scale = [1.0, 2.0, 5.0]
    angles = rotary_angles(4, 6, offset=3, scale=scale, **double)
    for j, one in enumerate(scale):
        assert angles[:, j].equal(rotary_angles(4, 6, offset=3, scale=one, **double)[:, j])
    with pytest.raises(ValueError, match="one for each of the 3 hands, got 2"):
        rotary_angles(4, 6, scale=[1.0, 2.0])
    with pytest.raises(ValueError, match="scale must be a positive number, got 0"):
        rotary_angles(4, 6, scale=[1.0, 0.0, 2.0])


@LAYOUTS
def test_a_pair_is_a_complex_number_times_a_turn(layout):
    x, angles = normal(L, D), rotary_angles(L, D, offset=3, **double)
    output = apply_rotary(x, angles, layout=layout)
    for i in range(L):
        for j in range(D // 2):
            at = (2 * j, 2 * j + 1) if layout == "pairs" else (j, j + D // 2)
            number = complex(*(x[i, d].item() for d in at))
            number *= cmath.exp(1j * (i + 3) * 10000 ** (-2 * j / D))
            assert complex(*(output[i, d].item() for d in at)) == pytest.approx(number, abs=1e-12)


@LAYOUTS
@half_precisions
def test_half_precision_is_turned_in_float32_and_rounded_once(layout, dtype):
    x, angles = normal(B, H, 300, D, dtype=dtype), rotary_angles(300, D, offset=5000)
    output = apply_rotary(x, angles, layout=layout)
    assert output.dtype == dtype
    assert output.equal(apply_rotary(x.float(), angles, layout=layout).to(dtype))
    exact = apply_rotary(x.double(), angles.double(), layout=layout)
    torch.testing.assert_close(output.double(), exact, rtol=torch.finfo(dtype).eps / 2, atol=1e-6)


# ALiBi


@pytest.mark.slow
@pytest.mark.parametrize("heads", [*range(1, 41), 64, 100, 112, 128])
def test_the_slopes_are_the_librarys(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.int64), heads, torch.float32)
    same(alibi_slopes(heads), bias[:, 0, 1], 1e-6)


@given(st.integers(1, 9), LENGTH, LENGTH, st.integers(-8, 8))
def test_the_bias_is_minus_slope_times_distance_entry_by_entry(heads, rows, columns, offset):
    bias = alibi_bias(heads, rows, columns, offset=offset, **double)
    slopes = alibi_slopes(heads, **double).tolist()
    assert bias.shape == (heads, rows, columns)
    for h in range(heads):
        for i in range(rows):
            for j in range(columns):
                assert bias[h, i, j].item() == -slopes[h] * abs(i + offset - j)
    assert not bias[bias == 0].signbit().any()


@every_precision
def test_the_bias_is_rounded_once(dtype):
    bias = alibi_bias(12, 1, 70_000, dtype=dtype)  # farther than float16 counts
    assert bias.dtype == dtype
    wide = torch.promote_types(dtype, torch.float32)
    assert bias.equal(alibi_bias(12, 1, 70_000, dtype=wide).to(dtype))
    exact = alibi_bias(12, 1, 70_000, **double)
    torch.testing.assert_close(bias.double(), exact, rtol=torch.finfo(dtype).eps, atol=0)


# Where they are made


def test_where_a_device_has_no_float64_the_angles_are_those_of_the_cpu():
    angles, expected = (P.clock_angles(L, D, offset=10**6, device=x) for x in ("mps", "cpu"))
    assert angles.equal(expected)
    assert sinusoid(L, D, device="meta").is_meta


@pytest.mark.slow  # torch.export takes seconds
def test_a_graph_of_any_length_is_exported_whole():
    class Turned(nn.Module):
        def forward(self, x):
            rotated = apply_rotary(x, rotary_angles(x.shape[-2], D, offset=2))
            return P.SinusoidalEncoding(D)(rotated), alibi_bias(H, x.shape[-2], offset=1)

    length = torch.export.Dim("length", min=2, max=64)
    program = torch.export.export(Turned(), (torch.ones(B, 5, D),), dynamic_shapes=({1: length},))
    x = normal(B, 9, D, dtype=torch.float32)
    torch.testing.assert_close(program.module()(x), Turned()(x))
