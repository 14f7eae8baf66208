"""Kernels integrate to 1, and Nadaraya-Watson is the average that it says it is."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.kernels import (
    KernelRegression,
    boxcar_kernel,
    epanechnikov_kernel,
    gaussian_kernel,
    nadaraya_watson,
    triangular_kernel,
)
from tests.oracles import B, L, S, assert_same, gradients, normal

KERNELS = {
    "gaussian": gaussian_kernel,
    "boxcar": boxcar_kernel,
    "triangular": triangular_kernel,
    "epanechnikov": epanechnikov_kernel,
}
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
BOUNDED = pytest.mark.parametrize(
    "kernel", [k for name, k in KERNELS.items() if name != "gaussian"], ids=lambda k: k.__name__
)
SMOOTH = pytest.mark.parametrize(
    "kernel", [gaussian_kernel, triangular_kernel, epanechnikov_kernel], ids=lambda k: k.__name__
)
SEED = st.integers(0, 2**16)


# The kernels themselves


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (gaussian_kernel, lambda u: math.exp(-u * u / 2) / math.sqrt(2 * math.pi)),
        (boxcar_kernel, lambda u: 0.5 if abs(u) <= 1 else 0.0),
        (triangular_kernel, lambda u: max(0.0, 1 - abs(u))),
        (epanechnikov_kernel, lambda u: max(0.0, 0.75 * (1 - u * u))),
    ],
)
def test_a_kernel_equals_its_formula_and_integrates_to_one(kernel, formula):
    u = torch.linspace(-10, 10, 20_001, dtype=torch.float64)  # -1, 0 and 1 are among them
    expected = torch.tensor([formula(x) for x in u.tolist()], dtype=torch.float64)
    torch.testing.assert_close(kernel(u), expected)
    assert torch.trapezoid(kernel(u), u).item() == pytest.approx(1.0, abs=2e-3)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert kernel(torch.zeros(2, 0, 3, dtype=dtype)).dtype == dtype


# Nadaraya-Watson


def by_loop(queries, keys, values, *, kernel, bandwidth, exclude_self):
    """The formula, one query at a time, in one dimension; needs a key in reach."""
    outputs = []
    for i, x in enumerate(queries):
        others = [j for j in range(len(keys)) if not (exclude_self and i == j)]
        heights = [kernel((x - keys[j]) / bandwidth) for j in others]
        total = sum(heights)
        outputs.append(sum(h / total * values[j] for h, j in zip(heights, others, strict=True)))
    return torch.stack(outputs)


@EVERY_KERNEL
@pytest.mark.parametrize("exclude_self", [False, True])
def test_the_prediction_equals_the_formula_written_out(kernel, exclude_self):
    keys, values = normal(S, seed=2), normal(S, seed=3)
    queries = keys if exclude_self else normal(L, seed=1)
    inputs = (queries, keys, values)
    keywords = {"kernel": kernel, "bandwidth": 3.0, "exclude_self": exclude_self}
    assert_same(
        lambda *points: nadaraya_watson(*points, **keywords)[0],
        lambda *points: by_loop(*points, **keywords),
        *inputs,
    )


@st.composite
def regression(draw):
    """Points of any small size, a kernel and a width."""
    lead = draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    rows, columns, seed = draw(st.integers(0, 6)), draw(st.integers(0, 6)), draw(SEED)
    points = (
        3 * normal(*lead, rows, seed=seed).detach(),
        3 * normal(*lead, columns, seed=seed + 1).detach(),
        normal(*lead, columns, seed=seed + 2).detach(),
    )
    kernel = draw(st.sampled_from(list(KERNELS.values())))
    return points, {"kernel": kernel, "bandwidth": draw(st.floats(0.01, 100))}


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


@EVERY_KERNEL
def test_a_wide_kernel_is_average_pooling(kernel):
    queries, keys, values = normal(L, seed=1), normal(S, seed=2), normal(S, seed=3)
    outputs, weights = nadaraya_watson(queries, keys, values, kernel=kernel, bandwidth=1e6)
    torch.testing.assert_close(outputs, values.mean().expand(L), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / S), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("distance", [20.0, 200.0])
def test_twenty_widths_from_every_key_the_weights_still_sum_to_one(dtype, distance):
    queries = torch.tensor([distance, -distance], dtype=dtype, requires_grad=True)
    keys, values = torch.tensor([0.0, 8.0], dtype=dtype), torch.tensor([10.0, 20.0], dtype=dtype)
    outputs, weights = nadaraya_watson(queries, keys, values)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, dtype=dtype))
    assert outputs[0] > outputs[1]  # each side leans to its own nearest key
    assert outputs.dtype == dtype
    assert gradients(outputs, [queries])[0].isfinite().all()


@BOUNDED
def test_no_key_in_reach_gives_zero_and_finite_gradients(kernel):
    queries = torch.tensor([0.1, 50.0], dtype=torch.float64, requires_grad=True)
    keys, values = normal(S, seed=2), normal(S, seed=3)
    outputs, weights = nadaraya_watson(queries, keys, values, kernel=kernel)
    assert outputs[0] != 0
    assert outputs[1] == 0
    assert (weights[1] == 0).all()
    found = gradients(outputs, (queries, keys, values))
    assert all(x.isfinite().all() for x in found)
    assert found[0][1] == 0


@SMOOTH
def test_the_prediction_has_the_gradients_of_finite_differences(kernel):
    queries, keys, values = normal(3, seed=1), normal(5, seed=2), normal(5, seed=3)
    width = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)

    def predict(queries, keys, values, width):
        return nadaraya_watson(queries, keys, values, kernel=kernel, bandwidth=width)

    assert torch.autograd.gradcheck(predict, (queries, keys, values, width))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_a_width_may_be_a_tensor_of_any_dtype_and_differ_by_query(dtype):
    queries, keys, values = normal(L, seed=1), normal(S, seed=2), normal(S, seed=3)
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
    keys, values = normal(B, S, seed=2), normal(B, S, seed=3)
    queries = keys if exclude_self else normal(B, L, seed=1)
    assert model.bandwidth.item() == pytest.approx(1 / abs(w))
    torch.testing.assert_close(
        model(queries, keys, values, exclude_self=exclude_self),
        nadaraya_watson(queries, keys, values, bandwidth=1 / abs(w), exclude_self=exclude_self),
    )


def test_at_w_zero_the_model_is_average_pooling():
    model = KernelRegression(0.0).double()
    queries, keys, values = normal(L, seed=1), normal(S, seed=2), normal(S, seed=3)
    outputs, _ = model(queries, keys, values)
    torch.testing.assert_close(outputs, values.mean().expand(L))
    assert gradients(outputs, [model.w])[0] == 0  # the prediction is even in w
    assert model.bandwidth == math.inf


def test_the_gradient_in_w_is_the_covariance_of_values_and_squared_distances():
    model = KernelRegression(1.5).double()
    queries, keys, values = (normal(n, seed=n).detach() for n in (L, S, S))
    outputs, weights = model(queries, keys, values)
    squared = (queries[:, None] - keys).square()
    for i in range(L):
        (got,) = torch.autograd.grad(outputs[i], model.w, retain_graph=True)
        mean = (weights[i] * squared[i]).sum()
        covariance = (weights[i] * (squared[i] - mean) * values).sum()
        torch.testing.assert_close(got, (-model.w * covariance).detach())
