"""The exercises of chapter 1: kernels, leaving points out, and weights that need no kernel."""

from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.exercises.base import compare, exercise
from attn_notes.device import get_device
from attn_notes.kernels import epanechnikov_kernel, nadaraya_watson, triangular_kernel
from attn_notes.masks import masked_softmax

__all__ = [
    "epanechnikov",
    "leave_group_out",
    "leave_one_out",
    "local_linear",
    "nearest_neighbours",
    "three_rows",
]


@exercise
def three_rows(answer: Any) -> None:
    """Average pooling at the queries 0 and 100, and the Gaussian of width 1 at 100."""
    rows = torch.as_tensor(answer, dtype=torch.float32, device="cpu")
    even, last = [0.2] * 5, [0.0, 0.0, 0.0, 0.0, 1.0]
    mistakes = {
        "average pooling never looks at the query: rows 0 and 1 must be equal": [even, last, last],
        "each row must sum to 1": [[1.0] * 5, [1.0] * 5, last],
    }
    compare(rows, [even, even, last], "the table", mistakes=mistakes)


@exercise
def epanechnikov(kernel: Any) -> None:
    """The Epanechnikov kernel."""
    u = torch.tensor([[-2.0, -1.0, -0.5], [0.0, 0.25, 3.0]], device=get_device())
    right = epanechnikov_kernel(u)
    mistakes = {
        "this is the triangular kernel, 1 - |u|: square u": triangular_kernel(u),
        "a kernel is never negative: clamp it at 0 where |u| > 1": 0.75 * (1 - u.square()),
    }
    compare(kernel(u.clone()), right, "the kernel", mistakes=mistakes)


@exercise
def leave_one_out(error: Any) -> None:
    """The leave-one-out error from one pass over all keys."""
    keys, values = _points(7)
    weights = nadaraya_watson(keys, keys, values, bandwidth=0.8)[1]
    training = weights @ values - values
    others = training - weights.diagonal() * values
    right = nadaraya_watson(keys, keys, values, bandwidth=0.8, exclude_self=True)[0] - values
    mistakes = {
        "this is the training error: every point still votes for itself": training.square().mean(),
        "without its own weight a row sums to less than 1: divide by it": others.square().mean(),
    }
    got = error(weights.clone(), values.clone())
    compare(got, right.square().mean(), "the leave-one-out error", mistakes=mistakes)


@exercise
def nearest_neighbours(weigh: Any) -> None:
    """The average of the k nearest neighbours, written as attention weights."""
    queries = torch.tensor([0.1, 2.2, 9.0, -1.0], device=get_device())
    keys = torch.tensor([3.0, 0.0, 1.0, 2.0, 5.0], device=get_device())
    distances = (queries[:, None] - keys).abs()  # (4, 5)
    for k in (1, 3):
        nearest = distances.argsort(-1)[:, :k]
        near = torch.zeros_like(distances).scatter(-1, nearest, 1.0)  # (4, 5)
        mistakes = {f"each row sums to {k}: divide by k": near}
        got = weigh(queries.clone(), keys.clone(), k)
        compare(got, near / k, "the weights", mistakes=mistakes, case=f"with k = {k} ")


@exercise
def local_linear(weigh: Any) -> None:
    """The weights of a straight line fitted around each query."""
    keys = _points(7)[0].cpu().double()
    queries = torch.tensor([0.0, 1.3, 5.0], dtype=torch.float64, device="cpu")
    u = keys - queries[:, None]  # (3, 7)
    root = torch.exp(-(u / 0.9).square() / 4)[..., None]  # the square root of the kernel
    design = torch.stack((torch.ones_like(u), u), dim=-1)  # (3, 7, 2)
    right = torch.linalg.pinv(root * design)[:, 0] * root[..., 0]  # weighted least squares
    average = (-(u / 0.9).square() / 2).softmax(-1)
    mistakes = {"these are Nadaraya-Watson's weights: they are not exact on lines": average}
    compare(weigh(queries.clone(), keys.clone(), 0.9), right, "the weights", mistakes=mistakes)


@exercise
def leave_group_out(predict: Any) -> None:
    """The Gaussian average over the keys of other groups."""
    keys, values = (points[[0, 1, 2, 3, 4, 0, 2]] for points in _points(5))
    groups = torch.tensor([0, 1, 2, 3, 4, 0, 2], device=get_device())
    scores = -((keys[:, None] - keys) / 0.5).square() / 2  # (7, 7)
    other = groups[:, None] != groups
    mistakes = {
        "output 0 depends on value 0, its own": scores.softmax(-1) @ values,
        "without the group a row sums to less than 1": scores.softmax(-1) * other @ values,
    }
    right = masked_softmax(scores, other) @ values
    compare(predict(keys, values, groups, 0.5), right, "the predictions", mistakes=mistakes)


def _points(size: int) -> tuple[Tensor, Tensor]:
    """Keys and values (size,) that no formula fits by chance."""
    keys = torch.arange(size, device=get_device()) * 0.7 + 0.2
    return keys, 3 * (2.3 * keys).sin() + keys.square() / 4
