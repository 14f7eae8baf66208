"""The exercises of chapter 7: norms and costs."""

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


@exercise
def norm_gradient(answer: Any) -> None:
    """The gradient at the input of LayerNorm, from the one at its output."""
    x, g, gamma = draw((2, 3, 7), (2, 3, 7), (7,), seed=5)
    size = torch.tensor([[2.0], [2.0], [3e-3]], device=x.device)  # the last feels where eps is
    x, g = size * (x + 0.5), size * g
    leaf = x.clone().requires_grad_()
    (right,) = torch.autograd.grad(F.layer_norm(leaf, (7,), gamma), leaf, g)
    sigma = (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    hat, u = (x - x.mean(-1, keepdim=True)) / sigma, gamma * g
    along = (u * hat).mean(-1, keepdim=True) * hat
    bare = (g - g.mean(-1, keepdim=True) - (g * hat).mean(-1, keepdim=True) * hat) / sigma
    mistakes = {
        "x moves sigma too: the part along the unit vector is missing": right + along / sigma,
        "x moves the mean too: the mean of u is missing": (u - along) / sigma,
        "the gain is missing: u is gamma times g": bare,
    }
    compare(answer(x, gamma, g), right, "the gradient", mistakes=mistakes)


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
        "pre-norm adds to the stream itself, not to what was normalised": norm(x) + f(norm(x)),
        "first is true, and that is post-norm": post,
        "the stream is missing: what f writes is added to it": f(norm(x)),
    }
    compare(answer(x.clone(), f, norm, True), pre, "pre-norm", mistakes=mistakes)
    mistakes = {"post-norm normalises the sum, not only what f writes": x + norm(f(x))}
    compare(answer(x.clone(), f, norm, False), post, "post-norm", mistakes=mistakes)


@exercise
def block_flops(answer: Any) -> None:
    """The work of an encoder block from its sizes alone."""
    for (L, E, m), (H, G) in product(((5, 12, 32), (30, 16, 12)), ((4, 4), (4, 1))):
        full, shared, between = 2 * L * E * E, 2 * L * E * E * G // H, 2 * L * L * E
        right = 2 * full + 2 * shared + 2 * between + 4 * L * E * m
        mistakes = {
            "a multiplication and an addition are two operations": right / 2,
            "the feed-forward network has two matrices": right - 2 * L * E * m,
            "keys and values are projected to G heads, not to H": right + 2 * full - 2 * shared,
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
            "each position of each sequence is a vector of its own": right // 7,
        }
        compare(got[name], right, "the work", mistakes=mistakes, case=f"layer {name}: ")
