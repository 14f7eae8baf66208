"""Exercises of chapter 1: what each answer must do, and which mistake it has made instead."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device
from attn_notes.kernels import epanechnikov_kernel, nadaraya_watson, triangular_kernel

__all__ = [
    "epanechnikov",
    "leave_group_out",
    "leave_one_out",
    "local_linear",
    "nearest_neighbours",
    "three_rows",
]

Function = Callable[..., Any]


@exercise
def three_rows(answer: Any) -> None:
    """Chapter 1: weights over the keys 0, 1, 2, 3, 4, a row each for three ways to pool.

    Args:
        answer: (3, 5), a tensor or nested lists: average pooling at query 0, average pooling at
            query 100, the Gaussian kernel of width 1 at query 100.

    Example:
        >>> three_rows([[0.2] * 5, [0.2] * 5, [0.2] * 5])  # doctest: +ELLIPSIS
        Not yet: row 2 is the Gaussian's, and it does look at the query: ...
    """
    if answer is None:
        raise CheckFailed("the answer is still to be written")
    rows = torch.as_tensor(answer, dtype=torch.float32, device=get_device())
    if rows.shape != (3, 5):
        raise CheckFailed(f"the rows should have shape (3, 5), got {tuple(rows.shape)}")
    far = rows[2]
    if _same(far, torch.zeros_like(far)):
        raise CheckFailed(
            "row 2 is the Gaussian's: its support has no end, so its row sums to 1 at any distance"
        )
    for i in range(3):
        if abs(float(rows[i].sum()) - 1) > 1e-3:
            raise CheckFailed(f"row {i} must sum to 1, got {float(rows[i].sum()):.3g}")
    if not _same(rows[0], rows[1]):
        raise CheckFailed("average pooling never looks at the query: rows 0 and 1 must be equal")
    expect_tensor(rows[:2], torch.full_like(rows[:2], 0.2), "the rows of average pooling")
    if _same(far, rows[0]):
        raise CheckFailed(
            "row 2 is the Gaussian's, and it does look at the query: key 4 is nearer than key 3"
        )
    keys = torch.arange(5.0, device=get_device())
    expect_tensor(far, (-(100 - keys).square() / 2).softmax(-1), "the Gaussian's row", atol=1e-3)


@exercise
def epanechnikov(kernel: Function) -> None:
    """Chapter 1: the Epanechnikov kernel.

    Args:
        kernel: maps distances in bandwidths, any shape, to heights of the same shape.

    Example:
        >>> epanechnikov(epanechnikov_kernel)
        Correct
    """
    u = torch.tensor([[-2.0, -1.0, -0.5], [0.0, 0.25, 3.0]], device=get_device())
    given = u.clone()
    heights = kernel(u)
    if not _same(u, given):
        raise CheckFailed("the kernel must not change its argument in place")
    if isinstance(heights, Tensor) and heights.shape == u.shape:
        if bool((heights < 0).any()):
            raise CheckFailed("a kernel is never negative: clamp it at 0 where |u| > 1")
        if _same(heights, triangular_kernel(u)) or _same(heights, 0.75 * triangular_kernel(u)):
            raise CheckFailed("this is the triangular kernel, 1 - |u|: square u")
        if _same(heights, epanechnikov_kernel(u) / 0.75):
            raise CheckFailed("the area under it is 4/3 and must be 1: a factor is missing")
    expect_tensor(heights, epanechnikov_kernel(u), "the kernel")


@exercise
def leave_one_out(error: Function) -> None:
    """Chapter 1: the leave-one-out error from one pass over all keys.

    Args:
        error: maps weights (S, S), each point among its own keys, and values (S,) to the mean
            squared leave-one-out error, a tensor of shape ().

    Example:
        >>> leave_one_out(lambda weights, values: (weights @ values - values).square().mean())
        Not yet: this is the training error: every point still votes for itself
    """
    keys, values = _points(7)
    weights = nadaraya_watson(keys, keys, values, bandwidth=0.8)[1]
    outputs = nadaraya_watson(keys, keys, values, bandwidth=0.8, exclude_self=True)[0]
    residuals = outputs - values
    got = error(weights.clone(), values.clone())
    if isinstance(got, Tensor) and got.shape == ():
        if _same(got, (weights @ values - values).square().mean()):
            raise CheckFailed("this is the training error: every point still votes for itself")
        others = weights - weights.diagonal().diag()
        if _same(got, (others @ values - values).square().mean()):
            raise CheckFailed(
                "with its own weight gone, row 0 sums to "
                f"{float(others[0].sum()):.2f}: the other weights must be brought back to 1"
            )
        if _same(got, residuals.square().sum()):
            raise CheckFailed("this is the sum over the points: take the mean")
        if _same(got, residuals.abs().mean()):
            raise CheckFailed("this is the mean absolute error: square the residuals")
    expect_tensor(got, residuals.square().mean(), "the leave-one-out error")


@exercise
def nearest_neighbours(weigh: Function) -> None:
    """Chapter 1: the average of the k nearest neighbours, written as attention weights.

    Args:
        weigh: maps queries (L,), keys (S,) and k to weights (L, S): 1/k on the k nearest keys.

    Example:
        >>> nearest_neighbours(lambda queries, keys, k: torch.zeros(3, 5))  # doctest: +ELLIPSIS
        Not yet: the weights with k = 1 should have shape (4, 5), got (3, 5)
    """
    queries = torch.tensor([0.1, 2.2, 9.0, -1.0], device=get_device())
    keys = torch.tensor([3.0, 0.0, 1.0, 2.0, 5.0], device=get_device())
    distances = (queries[:, None] - keys).abs()  # (4, 5)
    for k in (1, 3):
        nearest = _on(distances, k, largest=False)
        weights = weigh(queries.clone(), keys.clone(), k)
        if isinstance(weights, Tensor) and weights.shape == nearest.shape:
            if _same(weights, _on(distances, k, largest=True) / k):
                raise CheckFailed(f"with k = {k}, query 0.1 reads the keys farthest from it")
            if _same(weights, nearest) and k > 1:
                raise CheckFailed(f"with k = {k} each row sums to {k}: divide by k")
            row = weights[0]
            if int((row > 0).sum()) != k:
                raise CheckFailed(f"with k = {k}, query 0.1 reads {int((row > 0).sum())} keys")
        expect_tensor(weights, nearest / k, f"the weights with k = {k}")


@exercise
def local_linear(weigh: Function) -> None:
    """Chapter 1: the weights of a straight line fitted around each query.

    Args:
        weigh: maps queries (L,), keys (S,) and a bandwidth to weights (L, S) of the local linear
            fit under the Gaussian kernel.

    Example:
        >>> local_linear(lambda q, k, h: nadaraya_watson(q, k, k, bandwidth=h)[1])
        Not yet: these are Nadaraya-Watson's weights: they are not exact on straight lines
    """
    keys, values = (points.cpu().double() for points in _points(7))
    queries = torch.tensor([0.0, 1.3, 5.0], dtype=torch.float64, device="cpu")
    weights = weigh(queries.clone(), keys.clone(), 0.9)
    if not isinstance(weights, Tensor) or weights.shape != (3, 7):
        expect_tensor(weights, torch.zeros(3, 7, device="cpu"), "the weights")
    if _same(weights, nadaraya_watson(queries, keys, keys, bandwidth=0.9)[1]):
        raise CheckFailed(
            "these are Nadaraya-Watson's weights: they are not exact on straight lines"
        )
    expect_tensor(weights.sum(-1), torch.ones_like(queries), "the sum of each row")
    line = 2 * keys + 1
    expect_tensor(weights @ line, 2 * queries + 1, "the prediction on the line 2x + 1")
    for i, query in enumerate(queries):  # the fit itself, by least squares
        root = torch.exp(-((keys - query) / 0.9).square() / 4)  # the square root of the kernel
        design = torch.stack((torch.ones_like(keys), keys - query), dim=-1)  # (7, 2)
        fitted = torch.linalg.lstsq(root[:, None] * design, (root * values)[:, None]).solution
        expect_tensor(weights[i] @ values, fitted[0, 0], f"the prediction at query {i}")


@exercise
def leave_group_out(predict: Function) -> None:
    """Chapter 1: predict every point without its group.

    Args:
        predict: maps keys (S,), values (S,), groups (S,) of integers and a bandwidth to outputs
            (S,), the Gaussian average over the keys of other groups.

    Example:
        >>> leave_group_out(
        ...     lambda keys, values, groups, h: nadaraya_watson(keys, keys, values, bandwidth=h)[0]
        ... )
        Not yet: output 0 depends on value 0, its own
    """
    keys, values = (points[[0, 1, 2, 3, 4, 0, 2]] for points in _points(5))
    groups = torch.tensor([0, 1, 2, 3, 4, 0, 2], device=get_device())
    outputs = predict(keys, values, groups, 0.5)
    apart = groups[:, None] != groups  # (7, 7): the keys each point may read
    scores = -((keys[:, None] - keys) / 0.5).square() / 2
    right = scores.masked_fill(~apart, float("-inf")).softmax(-1) @ values
    if isinstance(outputs, Tensor) and outputs.shape == right.shape:
        for changed, whose in ((0, "its own"), (5, "the same measurement")):
            moved = values.clone()
            moved[changed] += 1000.0
            if abs(float((predict(keys, moved, groups, 0.5) - outputs)[0])) > 1e-3:
                raise CheckFailed(f"output 0 depends on value {changed}, {whose}")
    expect_tensor(outputs, right, "the predictions", atol=1e-4)


def _points(size: int) -> tuple[Tensor, Tensor]:
    """Keys and values (size,) that no formula fits by chance."""
    keys = torch.arange(size, device=get_device()) * 0.7 + 0.2
    return keys, 3 * (2.3 * keys).sin() + keys.square() / 4


def _same(got: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape are equal up to rounding."""
    return got.shape == other.shape and bool(torch.isclose(got, other.to(got), atol=1e-5).all())


def _on(distances: Tensor, k: int, *, largest: bool) -> Tensor:
    """(L, S): 1 on the k smallest (or largest) of each row, 0 elsewhere."""
    chosen = distances.topk(k, dim=-1, largest=largest).indices
    return torch.zeros_like(distances).scatter(-1, chosen, 1.0)
