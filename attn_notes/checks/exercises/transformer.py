"""The exercises of chapter 7: norms, a schedule, which check catches which slip, and costs."""

import math
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.checks.exercises.base import CheckFailed, compare, draw, exercise, prediction

__all__ = [
    "add_and_norm",
    "block_flops",
    "linear_work",
    "norm_gradient",
    "two_branches",
    "which_check",
    "who_mixes",
]

MIXES = {
    "residual": ("neither", "an addition meets each number with the one in its own place"),
    "norm": ("features", "mean and spread are those of one position's features"),
    "feed_forward": ("features", "its matrices act on one position's vector at a time"),
    "sinusoid": ("neither", "each number gets a constant that depends on its place alone"),
    "weights": ("positions", "feature j of the output is made of feature j of other positions"),
    "attention": ("both", "the projections mix features, and the weights mix positions"),
}
who_mixes = prediction(MIXES, '"positions", "features", "both" or "neither"')
"""Which parts let positions, and which let features, exchange something?"""
CAUGHT = {
    "a": ("steps", "in training mode it is sound; in evaluation the whole sees a later token"),
    "b": ("steps", "all at once has the right positions, one by one has not"),
    "c": ("none", "it is wrong in every run alike, so no two runs differ"),
    "d": ("batch", "what a sentence reads depends on how much padding its company brings"),
    "e": ("causal", "an output moves when the next input does, in every mode"),
}
which_check = prediction(CAUGHT, '"causal", "steps", "batch" or "none"')
"""Which check catches which slip?"""


@exercise
def norm_gradient(answer: Any) -> None:
    """The gradient at the input of LayerNorm, from the one at its output."""
    x, g, gamma = draw((2, 3, 7), (2, 3, 7), (7,), seed=5)
    size = torch.tensor([[2.0], [2.0], [3e-3]], device=x.device)  # the last feels where eps is
    x, g = size * (x + 0.5), size * g
    leaf = x.clone().requires_grad_()
    (right,) = torch.autograd.grad(F.layer_norm(leaf, (7,), gamma), leaf, g)
    compare(answer(x, gamma, g), right, "the gradient", mistakes=_wrong_gradients(x, gamma, g))


def _wrong_gradients(x: Tensor, gamma: Tensor, g: Tensor) -> dict[str, Tensor]:
    """Gradients that are almost right, by what is wrong with them."""

    def back(u: Tensor, sigma: Tensor, *, centre: float = 1, along: float = 1) -> Tensor:
        hat = (x - x.mean(-1, keepdim=True)) / sigma
        mean, share = u.mean(-1, keepdim=True), (u * hat).mean(-1, keepdim=True)
        return (u - centre * mean - along * share * hat) / sigma

    std = x.std(-1, unbiased=False, keepdim=True)
    sigma, wide = ((s.square() + 1e-5).sqrt() for s in (std, x.std(-1, keepdim=True)))
    u = gamma * g
    return {
        "x moves sigma too: the part along the unit vector is missing": back(u, sigma, along=0),
        "x moves the mean too: the mean of u is missing": back(u, sigma, centre=0),
        "the gain is missing: u is gamma times g": back(g, sigma),
        "the gain comes first: the means are those of gamma times g": gamma * back(g, sigma),
        "the division by sigma is missing": back(u, sigma) * sigma,
        "the variance is divided by E, not by E - 1: unbiased=False": back(u, wide),
        "eps stands under the root, not outside": back(u, std + 1e-5),
        "eps is missing under the root": back(u, std),
    }


@exercise
def add_and_norm(answer: Any) -> None:
    """The stream after a sublayer, pre-norm and post-norm."""
    x, w = draw((2, 5, 5), (5, 5), seed=6)

    def f(x: Tensor) -> Tensor:
        return torch.tanh(x @ w)

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:])

    pre, post = x + f(norm(x)), norm(x + f(x))
    mistakes = {
        "in pre-norm f reads what is normalised": x + f(x),
        "pre-norm adds to the stream itself, not to what was normalised": norm(x) + f(norm(x)),
        "first is true, and that is post-norm": post,
        "that normalises what f writes; in pre-norm f reads what is normalised": x + norm(f(x)),
        "the stream is missing: what f writes is added to it": f(norm(x)),
    }
    compare(answer(x.clone(), f, norm, True), pre, "pre-norm", mistakes=mistakes)
    mistakes = {
        "post-norm normalises the sum, not only what f writes": x + norm(f(x)),
        "post-norm normalises once, after the addition": norm(x + f(norm(x))),
        "the stream is missing: it is added before the norm": norm(f(x)),
        "first is false, and that is pre-norm": pre,
    }
    compare(answer(x.clone(), f, norm, False), post, "post-norm", mistakes=mistakes)


@exercise
def two_branches(answer: Any) -> None:
    """A rate that rises in a line and falls as a root, and the two meet at the peak."""
    for w, peak in ((100, 1.0), (7, 0.02)):
        t = torch.tensor([1.0, w // 2, w, w + 1, 9 * w], dtype=torch.float64, device="cpu")
        rise, fall = peak * t / w, peak * (w / t).sqrt()
        right = torch.minimum(rise, fall)
        mistakes = {
            "that is the larger of the two branches": torch.maximum(rise, fall),
            "the peak is 1 / sqrt(warmup) of what it should be: find b": right / math.sqrt(w),
            "after the peak it falls like the root of t, not like t": rise.minimum(fall**2 / peak),
            "after the peak it stays there: the second branch is missing": rise.clamp(max=peak),
        }
        got = torch.tensor([answer(int(step), w, peak) for step in t], device="cpu")
        case = f"with warmup {w} and peak {peak}, in the steps {t.int().tolist()}: "
        compare(got, right, "the rate", mistakes=mistakes, case=case)


@exercise
def block_flops(answer: Any) -> None:
    """The work of an encoder block from its sizes alone."""
    for (L, E, m), (H, G) in product(((5, 12, 32), (30, 16, 12)), ((4, 4), (4, 1))):
        full, shared, between = 2 * L * E * E, 2 * L * E * E * G // H, 2 * L * L * E
        right = 2 * full + 2 * shared + 2 * between + 4 * L * E * m
        mistakes = {
            "a multiplication and an addition are two operations": right / 2,
            "between positions there are two products, scores and sums": right - between,
            "is out_proj missing?": right - full,
            "the feed-forward network has two matrices": right - 2 * L * E * m,
            "each of the L queries meets all L keys": right - 2 * between + 4 * L * E,
            "keys and values are projected to G heads, not to H": right + 2 * full - 2 * shared,
            "sharing saves no product between positions": right - 2 * between * (1 - G / H),
            "a head has only E / H features": right + 2 * between * (H - 1),
        }
        case = f"with L = {L}, E = {E}, m = {m}, {H} heads, {G} for keys and values: "
        compare(answer(L, E, m, H, G), right, "the work", mistakes=mistakes, case=case)


@exercise
def linear_work(answer: Any) -> None:
    """The FLOPs of every linear layer, by hooks."""
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2))).to("meta")
    x = torch.empty(2, 7, 3, device="meta")
    got = answer(model, lambda: (model(x), model(x[:1])))
    if any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules()):
        raise CheckFailed("a hook is still in the model: each handle has a remove()")
    if {*got} != {"0", "2.0"}:
        raise CheckFailed(f"the names should be '0' and '2.0', as in named_modules: got {[*got]}")
    for name, width, right in (("0", 3, 630), ("2.0", 5, 420)):
        mistakes = {
            "the bias is left out here, as in torch's counter": right + right // (2 * width),
            "a multiplication and an addition are two operations": right // 2,
            "it was called twice, and the calls add up": right // 3,
            "each position of each sequence is a vector of its own": right // 7,
        }
        compare(got[name], right, "the work", mistakes=mistakes, case=f"layer {name}: ")
