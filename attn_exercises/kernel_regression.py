"""The exercises of chapter 1: kernels, leaving points out, and weights that need no kernel."""

import math
from typing import Any

import torch
from torch import Tensor

from attn_exercises.base import compare, draw, of_function
from attn_notes.device import get_device
from attn_notes.kernels import epanechnikov_kernel
from attn_notes.masks import masked_softmax


@of_function
def biweight(kernel: Any) -> None:
    """The biweight kernel, 15/16 of a squared parabola."""
    u = torch.tensor([[-2.0, -1.0, -0.5, 0.0], [0.25, 0.9, 1.1, 3.0]], device=get_device())
    parabola = (1 - u.square()).clamp(min=0)
    right = 15 / 16 * parabola.square()
    mistakes = {
        "clamp the parabola at 0 before you square it": 15 / 16 * (1 - u.square()).square(),
        "its area is 16/15, and must be 1": parabola.square(),
        "3/4 is the constant of another kernel: integrate the square": 0.8 * right,
        "this is Epanechnikov's kernel: square the parabola": epanechnikov_kernel(u),
    }
    compare(kernel(u), right, "the kernel", mistakes)
    compare(kernel(u[1, 0]), right[1, 0], "the kernel", case="for a tensor without axes ")


@of_function
def leave_one_out(error: Any) -> None:
    """The leave-one-out error from one pass over all keys."""
    for size in (7, 5):
        values, (scores,) = _points(size)[1], draw((size, size))  # own weights are not the largest
        own, weights = torch.eye(size, device=scores.device) == 1, scores.softmax(-1)
        training = weights @ values - values
        others = training - weights.diagonal() * values
        right = masked_softmax(scores, ~own) @ values - values
        mistakes = {
            "this is the training error: every point still reads itself": training.square().mean(),
            "without its own weight a row sums to less than 1: divide": others.square().mean(),
            "square the residuals before you average them": -right.mean(),
            "this is the sum of the squares: take their mean": right.square().sum(),
        }
        compare(error(weights, values), right.square().mean(), "the leave-one-out error", mistakes)


@of_function
def nearest_neighbours(weigh: Any) -> None:
    """The average of the k nearest neighbours, written as attention weights."""
    queries = torch.tensor([0.1, 2.2, 9.0, -1.0], device=get_device())
    keys = torch.tensor([3.0, 0.0, 1.0, 2.0, 5.0], device=get_device())
    signed = queries[:, None] - keys  # (4, 5)

    def table(distances: Tensor, k: int) -> Tensor:
        return torch.zeros_like(signed).scatter(-1, distances.argsort(-1)[:, :k], 1.0)

    for k in (1, 3, 5):
        near = table(signed.abs(), k)
        mistakes = {
            f"each row sums to {k}: divide by k": near,
            "differences with their sign are not distances: take abs()": table(signed, k) / k,
            "these are the keys farthest away": table(-signed.abs(), k) / k,
        }
        compare(weigh(queries, keys, k), near / k, "the weights", mistakes, f"with k = {k} ")


@of_function
def local_linear(weigh: Any) -> None:
    """The weights of a straight line fitted around each query."""
    keys = _points(7)[0].cpu().double()
    queries = torch.tensor([0.0, 1.3, 5.0], dtype=torch.float64, device="cpu")
    for x, at, width in ((keys, queries, 0.9), (keys, queries, 2.0), (keys / 4, queries - 40, 1.0)):
        u = x - at[:, None]  # (3, 7)
        average = (-(u / width).square() / 2).softmax(-1)
        root = average.sqrt()[..., None]
        design = root * torch.stack((torch.ones_like(u), u), dim=-1)  # (3, 7, 2)
        lines = torch.linalg.pinv(design) * root.mT  # weighted least squares: (3, 2, 7)
        mistakes = {
            "these are Nadaraya-Watson's weights: they are not exact on lines": average,
            "these weights give the slope b: return those of a": lines[:, 1],
            "far from the keys the heights underflow: work on the scores": average * math.nan,
        }
        compare(weigh(at, x, width), lines[:, 0], "the weights", mistakes)


@of_function
def leave_group_out(predict: Any) -> None:
    """The Gaussian average over the keys of other groups."""
    device = get_device()
    spread, differing = (points[[0, 1, 2, 3, 4, 2, 2]] for points in _points(5))
    shared = torch.tensor([0.2, 0.9, 0.9, 1.6, 0.2, 2.3, 1.6], device=device)
    groups = torch.tensor([0, 1, 2, 3, 4, 2, 2], device=device)
    alike = differing[[0, 1, 2, 3, 4, 0, 1]]  # groups 1 and 2 share a value
    distant = spread + 300 * (groups == 4)
    cases = (spread, differing, 0.5), (shared, differing, 0.8), (spread, alike, 0.5)
    for keys, values, width in (*cases, (distant, differing, 0.5)):
        scores = -((keys[:, None] - keys) / width).square() / 2  # (7, 7)
        other = groups[:, None] != groups
        own = torch.eye(7, dtype=torch.bool, device=device)
        differ, unlike = (x[:, None] != x for x in (keys, values))
        late = scores.softmax(-1) * other
        late = late / late.sum(-1, keepdim=True)
        finite = scores.masked_fill(~other, -1e4).softmax(-1)
        mistakes = {
            "far from all other groups the heights underflow: mask the scores": late @ values,
            "far from all others the heights are 0: mask the scores": late.nan_to_num() @ values,
            "fill with -inf: a finite number can still win": finite @ values,
            "output 0 depends on value 0, its own": scores.softmax(-1) @ values,
            "without the group a row sums to less than 1": scores.softmax(-1) * other @ values,
            "this leaves out the point and keeps its copy": masked_softmax(scores, ~own) @ values,
            "two groups may share a key: compare groups": masked_softmax(scores, differ) @ values,
            "two groups may share a value: compare groups": masked_softmax(scores, unlike) @ values,
            "the mask is inverted": masked_softmax(scores, ~other) @ values,
        }
        right = masked_softmax(scores, other) @ values
        compare(predict(keys, values, groups, width), right, "the predictions", mistakes)


def _points(size: int) -> tuple[Tensor, Tensor]:
    """Keys and values (size,) that no formula fits by chance."""
    keys = torch.arange(size, device=get_device()) * 0.7 + 0.2
    return keys, 3 * (2.3 * keys).sin() + keys.square() / 4
