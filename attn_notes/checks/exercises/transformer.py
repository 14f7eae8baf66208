"""The exercises of chapter 7: norms, costs, a schedule, and which check sees which slip."""

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device
from attn_notes.multihead import MultiHeadAttention

__all__ = [
    "add_and_norm",
    "block_flops",
    "linear_work",
    "norm_gradient",
    "two_branches",
    "which_check",
    "who_mixes",
]

Run = Callable[[], Any]

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
    x, gamma = 2 * x + 1, torch.randn(7, generator=generator).to(get_device())
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(F.layer_norm(leaf, (7,), gamma), leaf, g)
    got = answer(x, gamma, g)
    for mistake, wrong in _wrong_gradients(x, gamma, g).items():
        if _same(got, wrong):
            raise CheckFailed(mistake)
    expect_tensor(got, expected, "the gradient", atol=1e-4)


def _wrong_gradients(x: Tensor, gamma: Tensor, g: Tensor) -> dict[str, Tensor]:
    """Gradients that are almost right, by what is wrong with them."""

    def back(u: Tensor, sigma: Tensor, *, centre: bool = True, along: bool = True) -> Tensor:
        hat = (x - x.mean(-1, keepdim=True)) / sigma
        mean = u.mean(-1, keepdim=True) if centre else torch.zeros_like(u)
        share = (u * hat).mean(-1, keepdim=True) if along else torch.zeros_like(u)
        return (u - mean - share * hat) / sigma

    sigma = (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    wide = (x.var(-1, keepdim=True) + 1e-5).sqrt()
    u = gamma * g
    return {
        "x moves sigma too: the part along the normalised vector is missing": back(
            u, sigma, along=False
        ),
        "x moves the mean too: the mean of u is missing": back(u, sigma, centre=False),
        "the gain is missing: u is gamma times g": back(g, sigma),
        "the gain comes first: the means are those of gamma times g": gamma * back(g, sigma),
        "the division by sigma is missing": back(u, sigma) * sigma,
        "the variance is divided by E, not by E - 1: unbiased=False": back(u, wide),
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
            "pre-norm adds to the stream itself, not to what was normalised": norm(x) + f(norm(x)),
            "first is true, and that is post-norm": post,
            "that normalises what f writes; in pre-norm f reads what is normalised": x + norm(f(x)),
            "the stream is missing: what f writes is added to it": f(norm(x)),
        },
        False: {
            "post-norm normalises the sum, not only what f writes": x + norm(f(x)),
            "first is false, and that is pre-norm": pre,
        },
    }
    for first, expected in ((True, pre), (False, post)):
        got = answer(x, f, norm, first)
        for mistake, wrong in known[first].items():
            if _same(got, wrong):
                raise CheckFailed(mistake)
        expect_tensor(got, expected, f"the stream with first={first}")


@exercise
def block_flops(answer: Callable[..., float]) -> None:
    """The work of an encoder block from its sizes alone."""
    for (L, E, m), (H, G) in product(((5, 12, 32), (30, 16, 12)), ((4, 4), (4, 1))):
        expected = _counted(L, E, m, H, G)
        got = answer(L, E, m, H, G)
        if got == expected:
            continue
        hint = _flops_hint(got, expected, L=L, E=E, m=m, H=H, G=G)
        case = f"L = {L}, E = {E}, m = {m}, {H} heads, {G} for keys and values"
        raise CheckFailed(f"with {case}: {expected:,} FLOPs, got {got:,}{hint}")


def _counted(L: int, E: int, m: int, H: int, G: int) -> int:
    """What torch counts when the sublayers of a block run."""
    attention = MultiHeadAttention(E, H, num_kv_heads=G).to("meta")
    up, down = (nn.Linear(*sizes, device="meta") for sizes in ((E, m), (m, E)))
    x = torch.empty(1, L, E, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        down(up(attention(x, need_weights=True)[0]))
    return int(counter.get_total_flops())


def _flops_hint(got: float, expected: int, *, L: int, E: int, m: int, H: int, G: int) -> str:
    """What a wrong count looks like."""
    shared = 2 * L * E * E * G // H  # one projection of keys or values
    hints = {
        expected / 2: "a multiplication and an addition are two operations",
        expected - 2 * L * L * E: "between positions there are two products, scores and sums",
        expected - 2 * L * E * E: "is out_proj missing?",
        expected - 2 * L * E * m: "the feed-forward network has two matrices",
        expected - 4 * L * L * E + 4 * L * E: "each of the L queries meets all L keys",
        expected + 4 * L * E * E - 2 * shared: "keys and values are projected to G heads, not to H",
        expected - 4 * L * L * E * (H - G) / H: (
            "shared keys are read by all H heads: sharing saves no product between positions"
        ),
        expected + 4 * L * L * E * (H - 1): "a head has only E / H features",
    }
    return f"; {hints[got]}" if got in hints else ""


@exercise
def linear_work(answer: Callable[[nn.Module, Run], Mapping[str, int]]) -> None:
    """The FLOPs of every linear layer, by hooks."""
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2))).to("meta")
    x = torch.empty(2, 7, 3, device="meta")

    def twice() -> None:
        model(x)
        model(x[:1])

    expected = {"0": 2 * 21 * 3 * 5, "2.0": 2 * 21 * 5 * 2}
    got = answer(model, twice)
    if any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules()):
        raise CheckFailed("a hook is still in the model: each handle has a remove()")
    if set(got) != set(expected):
        hint = "; does every hook see the loop's last name?" if len(got) == 1 else ""
        raise CheckFailed(f"the names should be {[*expected]}, got {[*got]}{hint}")
    for name, work in expected.items():
        _compare_work(name, got[name], work)


def _compare_work(name: str, got: int, work: int) -> None:
    """Raise where the FLOPs of a layer are not what they should be."""
    hints = {
        work // 2: "; a multiplication and an addition are two operations",
        work // 3: "; it was called twice, and the calls add up",
        work * 2 // 3: "; it was called twice, and the calls add up",
        work // 7: "; each position of each sequence is a vector of its own",
    }
    if got != work:
        raise CheckFailed(f"layer {name} does {work} FLOPs, got {got}{hints.get(got, '')}")


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
        and torch.allclose(got, expected, atol=1e-4)
    )
