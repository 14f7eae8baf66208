"""The exercises of chapter 7 but for the costs: norms, a schedule, which check sees which slip."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device

__all__ = [
    "add_and_norm",
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
CAUGHT = {
    "a": (
        "steps",
        "training mode is sound, and in evaluation all at once sees what one by one cannot",
    ),
    "b": ("steps", "all at once has the right positions, one by one has not"),
    "c": ("none", "it is wrong in every run alike, so no two runs differ"),
    "d": ("batch", "what a sentence reads depends on how much padding its company brings"),
    "e": ("causal", "an output moves when the next input does, in every mode"),
}


WRONG_RATES: dict[str, Callable[[int, int], float]] = {
    "that is the larger of the two branches": lambda t, w: max(t / w, math.sqrt(w / t)),
    "the peak is 1 / sqrt(warmup) times what it should be: find b": (
        lambda t, w: min(t / w**1.5, 1 / math.sqrt(t))
    ),
    "after the peak it falls like the root of t, not like t": lambda t, w: min(t / w, w / t),
    "after the peak it stays there: the second branch is missing": lambda t, w: min(t / w, 1.0),
}


@exercise
def who_mixes(answer: Mapping[str, str | None]) -> None:
    """Which parts let positions, and which let features, exchange something?"""
    _compare_choices(answer, MIXES, ("positions", "features", "both", "neither"))


@exercise
def which_check(answer: Mapping[str, str | None]) -> None:
    """Which check catches which slip?"""
    _compare_choices(answer, CAUGHT, ("causal", "steps", "batch", "none"))


def _compare_choices(
    answer: Mapping[str, str | None], truths: Mapping[str, tuple[str, str]], names: tuple[str, ...]
) -> None:
    """Hold each choice against the truth, and say why it is one."""
    for part, (truth, why) in truths.items():
        guess = answer[part]
        if guess not in names:
            offered = ", ".join(f'"{name}"' for name in names[:-1])
            raise CheckFailed(f'{part} has no guess: write {offered} or "{names[-1]}"')
        if guess != truth:
            raise CheckFailed(f'{part} is not "{guess}": {why}')


@exercise
def norm_gradient(answer: Callable[..., Tensor]) -> None:
    """The gradient at the input of LayerNorm, from the one at its output."""
    generator = torch.Generator().manual_seed(5)
    x, g = torch.randn(2, 3, 7, generator=generator).to(get_device())
    gamma = torch.randn(7, generator=generator).to(get_device())
    size = torch.tensor([[2.0], [2.0], [3e-3]], device=x.device)  # the last feels where eps is
    x, g = size * (x + 0.5), size * g
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(F.layer_norm(leaf, (7,), gamma), leaf, g)
    got = answer(x, gamma, g)
    for mistake, wrong in _wrong_gradients(x, gamma, g).items():
        if _same(got, wrong):
            raise CheckFailed(mistake)
    expect_tensor(got, expected, "the gradient", atol=1e-4)


def _wrong_gradients(x: Tensor, gamma: Tensor, g: Tensor) -> dict[str, Tensor]:
    """Gradients that are almost right, by what is wrong with them."""

    def back(u: Tensor, sigma: Tensor, *, centre: float = 1, along: float = 1) -> Tensor:
        hat = (x - x.mean(-1, keepdim=True)) / sigma
        mean, share = u.mean(-1, keepdim=True), (u * hat).mean(-1, keepdim=True)
        return (u - centre * mean - along * share * hat) / sigma

    std = x.std(-1, unbiased=False, keepdim=True)
    sigma = (std.square() + 1e-5).sqrt()
    wide = (x.var(-1, keepdim=True) + 1e-5).sqrt()
    u = gamma * g
    return {
        "x moves sigma too: the part along the normalised vector is missing": back(
            u, sigma, along=0
        ),
        "x moves the mean too: the mean of u is missing": back(u, sigma, centre=0),
        "the gain is missing: u is gamma times g": back(g, sigma),
        "the gain comes first: the means are those of gamma times g": gamma * back(g, sigma),
        "the division by sigma is missing": back(u, sigma) * sigma,
        "the variance is divided by E, not by E - 1: unbiased=False": back(u, wide),
        "eps stands under the root, not outside": back(u, std + 1e-5),
        "eps is missing under the root": back(u, std),
        "both parts are taken away, that along the normalised vector too": back(u, sigma, along=-1),
        "the part along the normalised vector has the mean of the products, not their sum": back(
            u, sigma, along=x.shape[-1]
        ),
    }


@exercise
def add_and_norm(answer: Callable[..., Tensor]) -> None:
    """The stream after a sublayer, pre-norm and post-norm."""
    generator = torch.Generator().manual_seed(6)
    x, w = torch.randn(2, 5, 5, generator=generator).to(get_device())

    def f(x: Tensor) -> Tensor:
        return torch.tanh(x @ w)

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:])

    pre, post = x + f(norm(x)), norm(x + f(x))
    known = {
        True: {
            "in pre-norm f reads what is normalised": x + f(x),
            "pre-norm adds to the stream itself, not to what was normalised": norm(x) + f(norm(x)),
            "first is true, and that is post-norm": post,
            "that normalises what f writes; in pre-norm f reads what is normalised": x + norm(f(x)),
            "the stream is missing: what f writes is added to it": f(norm(x)),
        },
        False: {
            "post-norm normalises the sum, not only what f writes": x + norm(f(x)),
            "post-norm normalises once, after the addition": norm(x + f(norm(x))),
            "the stream is missing: it is added before the norm": norm(f(x)),
            "first is false, and that is pre-norm": pre,
        },
    }
    for first, expected in ((True, pre), (False, post)):
        got = answer(x.clone(), f, norm, first)
        for mistake, wrong in known[first].items():
            if _same(got, wrong):
                raise CheckFailed(mistake)
        expect_tensor(got, expected, f"the stream with first={first}")


@exercise
def two_branches(answer: Callable[[int, int, float], float]) -> None:
    """A rate that rises in a line and falls as a root, and the two meet at the peak."""
    for w, peak in ((100, 1.0), (7, 0.02)):
        steps = (1, w // 2, w, w + 1, 9 * w)
        got = [answer(t, w, peak) for t in steps]
        for mistake, rate in WRONG_RATES.items():
            if all(math.isclose(one, peak * rate(t, w)) for one, t in zip(got, steps, strict=True)):
                raise CheckFailed(mistake)
        for one, t in zip(got, steps, strict=True):
            expected = peak * min(t / w, math.sqrt(w / t))
            if not math.isclose(one, expected, rel_tol=1e-6):
                raise CheckFailed(
                    f"in step {t} of warmup {w} and peak {peak} the rate is {expected:.4g}, "
                    f"got {one:.4g}"
                )


def _same(got: Any, expected: Tensor) -> bool:
    return (
        isinstance(got, Tensor)
        and got.shape == expected.shape
        and torch.allclose(got.detach().cpu().double(), expected.cpu().double(), atol=1e-4)
    )
