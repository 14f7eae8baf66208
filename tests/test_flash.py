"""Attention tile by tile, against the explicit path and torch: values, gradients, memory."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from attn_notes.flash import online_softmax, tiled_attention
from attn_notes.masks import causal_mask
from tests import oracles
from tests.oracles import DV, INF, B, H, L, S, assert_same, coin, gradients, normal
from tests.oracles import attention_inputs as qkv

# One query


def row(*scores: float):
    scores = torch.tensor(scores, dtype=torch.float64)
    return scores, normal(len(scores), DV, seed=3).detach()


@given(st.data())
def test_every_tile_holds_the_softmax_of_the_keys_so_far(data):
    score = st.one_of(st.floats(-1000, 1000), st.just(-INF))
    scores, values = row(*data.draw(st.lists(score, max_size=12)))
    tiles = list(online_softmax(scores, values, tile=data.draw(st.integers(1, 13))))
    assert [tile.start for tile in tiles] == [0, *(tile.end for tile in tiles)][: len(tiles)]
    for tile in tiles:
        seen = scores[: tile.end]
        assert tile.maximum == seen.max()
        if tile.maximum == -INF:
            assert (tile.total, tile.output.abs().max()) == (0, 0)
        else:
            expected = seen.softmax(0) @ values[: tile.end]
            torch.testing.assert_close(tile.output / tile.total, expected)
            torch.testing.assert_close(tile.maximum + tile.total.log(), seen.logsumexp(0))
    for old, new in pairwise(tiles):
        known = old.maximum > -INF
        assert new.rescale == ((old.maximum - new.maximum).exp() if known else 0)
    assert not tiles or tiles[-1].end == len(scores)


@pytest.mark.parametrize("tile", [1, 3, S, S + 1])
def test_online_softmax_has_the_gradient_of_the_softmax(tile):
    scores, values = normal(S, seed=1), normal(S, DV, seed=2)

    def online(scores, values):
        *_, last = online_softmax(scores, values, tile=tile)
        return last.output / last.total

    assert_same(online, lambda scores, values: scores.softmax(0) @ values, scores, values)
    masked = scores.detach().index_fill(0, torch.arange(4), -INF).requires_grad_()
    assert_same(online, lambda scores, values: scores.softmax(0) @ values, masked, values)


# All queries


@st.composite
def call(draw):
    """Tensors of any small size, a mask that broadcasts to them or none, and a tile."""
    lead = draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    rows, columns = draw(st.integers(0, 6)), draw(st.integers(0, 9))
    shape = [draw(st.sampled_from([1, size])) for size in (*lead, rows, columns)]
    shape = shape[draw(st.sampled_from([0, len(lead), len(shape)])) :]
    mask = draw(st.none() | st.builds(lambda seed: coin(*shape, seed=seed), st.integers(0, 99)))
    how = {"attn_mask": mask, "is_causal": draw(st.booleans())}
    how["scale"] = draw(st.sampled_from([None, 0.3]))
    return qkv(*lead, rows=rows, columns=columns), how, draw(st.integers(1, 10))


@given(call())
def test_any_sizes_any_mask_any_tile(call):
    inputs, how, tile = call
    assert_same(
        partial(tiled_attention, tile=tile, **how), partial(oracles.explicit, **how), *inputs
    )


def test_the_backward_pass_is_the_derivative_of_the_forward_pass():
    mask = coin(L, S, seed=4) & causal_mask(L, S)
    inputs = tuple(x.detach().requires_grad_() for x in qkv(2))
    assert torch.autograd.gradcheck(lambda *x: tiled_attention(*x, attn_mask=mask, tile=3), inputs)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(tiled_attention(*inputs).sum(), inputs, create_graph=True)


@oracles.half_precisions
def test_half_precision_sums_in_single_precision(dtype):
    halves = qkv(B, H, columns=300, dtype=dtype)
    doubles = tuple(x.detach().double().requires_grad_() for x in halves)
    ours, exact = tiled_attention(*halves), oracles.explicit(*doubles)
    assert ours.dtype == dtype
    # One rounding at the end: half a unit in the last place, and a little of 32 bits.
    unit = torch.finfo(dtype).eps / 2
    torch.testing.assert_close(ours.double(), exact, rtol=1.01 * unit, atol=1e-6)
    for a, b in zip(gradients(ours, halves), gradients(exact, doubles), strict=True):
        assert a.dtype == dtype
        assert (a.double() - b).norm() < 4 * unit * b.norm()
    zeros = torch.zeros(4096, dtype=dtype)
    *_, last = online_softmax(zeros, zeros[:, None], tile=1)
    assert last.total == 4096


def test_autocast_lowers_the_precision_of_neither_pass():
    def under_autocast(*inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return tiled_attention(*inputs)

    large = (40 * normal(8, 16, seed=n, dtype=torch.float32) for n in range(3))
    assert_same(under_autocast, tiled_attention, *large)


def test_scores_beyond_half_precision_and_inputs_with_other_strides():
    q, k, v = qkv(dtype=torch.float16)
    assert tiled_attention(q * 100, k * 100, v).isfinite().all()
    strided = [x.detach().mT.contiguous().mT.requires_grad_() for x in qkv(B)]
    assert not strided[0].is_contiguous()
    assert_same(partial(tiled_attention, tile=2), oracles.explicit, *strided)


class Largest(TorchDispatchMode):
    """Notes the most elements in memory that any tensor was made with."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().size() // 8)
        return made


def test_no_tensor_ever_holds_more_weights_than_a_tile_gives():
    rows, columns, tile = 300, 400, 20
    inputs = qkv(rows=rows, columns=columns)
    mask = torch.ones(1, columns, dtype=torch.bool)
    for path, most in (
        (lambda *x: tiled_attention(*x, attn_mask=mask, is_causal=True, tile=tile), rows * tile),
        (oracles.explicit, rows * columns),
    ):
        with Largest() as largest:
            path(*inputs).sum().backward()
        assert largest.elements == most
