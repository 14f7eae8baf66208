"""Kernels integrate to 1, and Nadaraya-Watson is the average that it says it is."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_notes import kernels
from attn_notes.kernels import KernelRegression, gaussian_kernel, nadaraya_watson
from tests.oracles import B, L, S, assert_same, every_precision, gradients, normal

# For each kernel its formula at one distance.
FORMULAS = {
    gaussian_kernel: lambda u: math.exp(-u * u / 2) / math.sqrt(2 * math.pi),
    kernels.triangular_kernel: lambda u: max(0.0, 1 - abs(u)),
    kernels.epanechnikov_kernel: lambda u: max(0.0, 0.75 * (1 - u * u)),
    kernels.boxcar_kernel: lambda u: 0.5 if abs(u) <= 1 else 0.0,
}
KERNELS = [*FORMULAS]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def points(*lead):
    """Queries, keys and values."""
    return tuple(normal(*lead, n, seed=seed) for seed, n in enumerate((L, S, S), 1))


@every_kernel
def test_a_kernel_equals_its_formula_and_integrates_to_one(kernel):
    u = torch.linspace(-10, 10, 20_001, dtype=torch.float64)  # -1, 0 and 1 are among them
    expected = torch.tensor([FORMULAS[kernel](x) for x in u.tolist()], dtype=torch.float64)
    torch.testing.assert_close(kernel(u), expected)
    assert torch.trapezoid(kernel(u), u).item() == pytest.approx(1.0, abs=2e-3)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert kernel(torch.zeros(2, 0, 3, dtype=dtype)).dtype == dtype


# Nadaraya-Watson


def by_loop(queries, keys, values, width, *, kernel, exclude_self):
    """The formula, one query at a time, in one dimension; needs a key in reach."""
    outputs = []
    for i, x in enumerate(queries):
        others = [j for j in range(len(keys)) if not (exclude_self and i == j)]
        heights = [kernel((x - keys[j]) / width) for j in others]
        total = sum(heights)
        outputs.append(sum(h / total * values[j] for h, j in zip(heights, others, strict=True)))
    return torch.stack(outputs)


@every_kernel
@pytest.mark.parametrize("exclude_self", [False, True])
def test_the_prediction_equals_the_formula_written_out(kernel, exclude_self):
    queries, keys, values = points()
    width = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    how = {"kernel": kernel, "exclude_self": exclude_self}

    def ours(queries, keys, values, width):
        return nadaraya_watson(queries, keys, values, bandwidth=width, **how)[0]

    inputs = (keys if exclude_self else queries, keys, values, width)
    assert_same(ours, partial(by_loop, **how), *inputs)


@st.composite
def regression(draw):
    """Points of any small size, a kernel and a width."""
    lead = draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    rows, columns, seed = (draw(st.integers(0, most)) for most in (6, 6, 2**16))
    sizes = (rows, columns, columns)
    xyz = [3 * normal(*lead, n, seed=seed + i).detach() for i, n in enumerate(sizes)]
    return xyz, {"kernel": draw(st.sampled_from(KERNELS)), "bandwidth": draw(st.floats(0.01, 100))}


@given(regression())
def test_the_prediction_is_an_average_of_the_values(case):
    (queries, keys, values), keywords = case
    before = [x.clone() for x in (queries, keys, values)]
    outputs, weights = nadaraya_watson(queries, keys, values, **keywords)
    assert outputs.shape == queries.shape
    assert weights.shape == (*queries.shape, keys.shape[-1])
    assert (weights >= 0).all()
    u = (queries[..., None] - keys[..., None, :]) / keywords["bandwidth"]
    reached = (keywords["kernel"](u) > 0).any(-1)
    if keywords["kernel"] is gaussian_kernel:
        reached = torch.full_like(reached, keys.shape[-1] > 0)  # it reaches any distance
    torch.testing.assert_close(weights.sum(-1), reached.to(weights.dtype))
    torch.testing.assert_close(outputs, (weights * values[..., None, :]).sum(-1))
    assert (outputs[~reached] == 0).all()
    assert all(x.equal(old) for x, old in zip((queries, keys, values), before, strict=True))


@every_precision
@pytest.mark.parametrize("distance", [20.0, 200.0])
def test_twenty_widths_from_every_key_the_weights_still_sum_to_one(dtype, distance):
    queries = torch.tensor([distance, -distance], dtype=dtype, requires_grad=True)
    keys, values = torch.tensor([0.0, 8.0], dtype=dtype), torch.tensor([10.0, 20.0], dtype=dtype)
    outputs, weights = nadaraya_watson(queries, keys, values)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, dtype=dtype))
    assert outputs[0] > outputs[1]  # each side leans to its own nearest key
    assert outputs.dtype == dtype
    assert gradients(outputs, [queries])[0].isfinite().all()


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_no_key_in_reach_gives_zero_and_finite_gradients(kernel):
    queries = torch.tensor([0.1, 50.0], dtype=torch.float64, requires_grad=True)
    _, keys, values = points()
    outputs, weights = nadaraya_watson(queries, keys, values, kernel=kernel)
    assert outputs[0] != 0
    assert outputs[1] == 0
    assert (weights[1] == 0).all()
    found = gradients(outputs, (queries, keys, values))
    assert all(x.isfinite().all() for x in found)
    assert found[0][1] == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_a_width_may_be_a_tensor_of_any_dtype_and_differ_by_query(dtype):
    queries, keys, values = points()
    widths = torch.tensor([1, 2, 3, 4, 5], dtype=dtype)
    outputs, weights = nadaraya_watson(queries, keys, values, bandwidth=widths[:, None])
    assert weights.dtype == torch.float64
    for i, width in enumerate(widths.tolist()):
        alone, _ = nadaraya_watson(queries[[i]], keys, values, bandwidth=width)
        torch.testing.assert_close(outputs[[i]], alone)


# The learned width


@pytest.mark.parametrize("w", [-4.0, -0.5, 0.5, 4.0])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_the_model_is_nadaraya_watson_at_the_inverse_of_w(w, exclude_self):
    model = KernelRegression(w).double()
    queries, keys, values = points(B)
    xyz = (keys if exclude_self else queries, keys, values)
    assert model.bandwidth.item() == pytest.approx(1 / abs(w))
    outputs, weights = model(*xyz, exclude_self=exclude_self)
    inverse = torch.tensor(w, dtype=torch.float64, requires_grad=True)
    expected = nadaraya_watson(*xyz, bandwidth=1 / inverse.abs(), exclude_self=exclude_self)
    torch.testing.assert_close((outputs, weights), expected)
    torch.testing.assert_close(gradients(outputs, [model.w]), gradients(expected[0], [inverse]))


def test_at_w_zero_the_model_is_average_pooling():
    model = KernelRegression(0.0).double()
    queries, keys, values = points()
    outputs, _ = model(queries, keys, values)
    torch.testing.assert_close(outputs, values.mean().expand(L))
    assert gradients(outputs, [model.w])[0] == 0  # the prediction is even in w
    assert model.bandwidth == math.inf
