"""The exercises of chapter 2: the cosine, the axis of the softmax, what to divide by, entropy."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_exercises.base import compare, draw, of_function
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device


@of_function
def cosine_score(answer: Any) -> None:
    """The cosine of every query with every key; 0 for a zero vector."""
    for lead in ((2,), (), (2, 3)):
        query, key = draw((*lead, 3, 7), (*lead, 5, 7))
        dot = query @ key.mT
        cosines = dot / query.norm(dim=-1)[..., :, None] / key.norm(dim=-1)[..., None, :]
        mistakes = {
            "this is the dot product: divide by both lengths": dot,
            "this divides by the root of the width, not by the two lengths": dot / math.sqrt(7),
            "rows are queries, (..., L, S): swap the last two axes": cosines.mT,
        }
        case = f"for queries {tuple(query.shape)} "
        compare(answer(query, key), cosines, "the cosines", mistakes, case)
        short = "short vectors have the same cosine (treat only zeros apart): "
        compare(answer(1e-6 * query, 1e-6 * key), cosines, "the cosines", case=short)
        some = torch.arange(5, device=dot.device)[:, None] > 0  # the first is a vector of zeros
        for zero, left in (("query", some[:3]), ("key", some.mT)):
            pair = (left * query, key) if zero == "query" else (query, some * key)
            mistakes = {f"a {zero} of zeros gives NaN: score it 0": cosines * left / left}
            compare(answer(*pair), cosines * left, f"with a zero {zero} the cosines", mistakes)
            leaf = pair[zero == "key"].requires_grad_()
            got, (q, k) = answer(*pair), (F.normalize(x, dim=-1) for x in pair)
            if not got.requires_grad:
                raise CheckFailed(f"no gradient reaches the {zero}: stay in tensors")
            pull, wanted = (torch.autograd.grad(one.sum(), leaf)[0] for one in (got, q @ k.mT))
            if not bool(pull.isfinite().all()):
                raise CheckFailed(f"zero {zero}: its gradient is NaN (a root of 0, or 0 / 0)")
            compare(pull[..., 1:, :], wanted[..., 1:, :], f"the {zero}'s gradient (detach nothing)")


@of_function
def softmax_axis(answer: Any) -> None:
    """Scaled dot-product weights whose rows sum to 1, whatever axes stand in front."""
    for lead in ((), (2,), (2, 3)):
        query, key = draw((*lead, 5, 11), (*lead, 7, 11))
        scores = query @ key.mT / math.sqrt(11)
        mistakes = {
            f"the softmax ran over axis {axis}, the {name}": scores.softmax(axis)
            for axis, name in enumerate((*("batch", "heads")[: len(lead)], "queries"))
        }
        case = f"for queries {tuple(query.shape)} "
        try:
            got = answer(query, key)
        except CheckFailed as failure:
            if not isinstance(failure.__cause__, IndexError):
                raise
            words = "an axis is asked for that is not there: count from the end"
            raise CheckFailed(case + words) from failure
        compare(got, scores.softmax(-1), "the weights", mistakes, case)


@of_function
def divide_by_width(answer: Any) -> None:
    """What dividing by d does: a variance of 1/d, and nearly all the entropy there can be."""
    for d in (16, 1024):
        got = answer(d)
        try:
            variance, share = (float(number) for number in got)
        except (TypeError, ValueError):
            raise CheckFailed("return two numbers: the variance, and the entropy's share") from None
        still = "you still divide by the root of d, or the entropy's share stands first"
        for wrong, mistake in ((1.0, still), (d**-0.5, "square it")):
            if math.isclose(variance, wrong, rel_tol=0.2):
                raise CheckFailed(f"at d = {d} the first number is {wrong:g}: {mistake}")
        if not math.isclose(variance, 1 / d, rel_tol=0.2):
            raise CheckFailed(f"at d = {d} the variance should be {1 / d:.2g}, got {variance:.2g}")
        if math.isclose(variance, 1 / d, rel_tol=1e-6):  # a sample never hits it
            raise CheckFailed(f"1/{d} is the prediction: measure both numbers on your scores")
        if share > 1.01:
            rule = "sum over keys; divide nats by ln 64"
            raise CheckFailed(f"the mean share is at most 1, got {share:.2f}: {rule}")
        missing, expected = 1 - share, 1 / (2 * d * math.log(64))  # to second order in the scores
        if not 0.8 * expected < missing < 1.2 * expected:
            least = f"the entropy should fall short of ln 64 by about {expected:.1e} of it"
            raise CheckFailed(f"at d = {d} {least}, got {missing:.1e}")
        scores = _divided(d)  # a formula is off by a hundredth
        entropy = torch.special.entr(scores.softmax(-1)).sum(-1).mean()
        short = 1 - float(entropy) / math.log(64)
        same = math.isclose(variance, float(scores.var()), rel_tol=1e-3)
        if not same or not math.isclose(missing, short, rel_tol=3e-3):
            words = "what the draws of the stub give: measure both numbers, and keep the draws"
            raise CheckFailed(f"at d = {d} this is close to, but not {words}")


def _divided(d: int) -> Tensor:
    """The scores (400, 64) of the queries and keys that the stub draws, divided by d."""
    devices = [device] if (device := get_device()).type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(0)
        drawn = [torch.randn(n, d, device=device).cpu().double() for n in (400, 64)]
    return drawn[0] @ drawn[1].T / d


@of_function
def entropy_to_order(answer: Any) -> None:
    """The temperature at which the softmax of scores of any size has a given entropy."""
    (unit,) = draw((12,), seed=3)
    for size, wanted in itertools.product((1.0, 100.0, 0.01), (0.9, 0.3, 2.4)):  # ln 12 is 2.48
        scores = size * unit
        case = f"for scores of size {size:g} and an entropy of {wanted} "
        temperature = _above_zero(answer(scores, wanted), case)
        got = _entropy(scores / temperature)
        if abs(got - wanted) <= 1e-3:
            continue
        if abs(_entropy(scores * temperature) - wanted) <= 1e-3:
            raise CheckFailed(f"{case}this is 1/T: divide the scores by the answer, don't multiply")
        if abs(got / math.log(2) - wanted) <= 2e-3:
            raise CheckFailed(f"{case}this fits an entropy in bits: use the natural logarithm")
        if abs(got / math.log(12) - wanted) <= 1e-3:
            raise CheckFailed(f"{case}this fits a share of ln 12: the entropy itself is asked for")
        way = "raise" if got < wanted else "lower"
        words = f"the temperature {temperature:.4g} gives {got:.4f}: {way} it"
        raise CheckFailed(case + words)


def _above_zero(got: Any, case: str) -> float:
    """The temperature that an answer gives."""
    try:
        temperature = float(got)
    except (TypeError, ValueError, RuntimeError):
        words = f"return one number, got {type(got).__name__}"
        raise CheckFailed(case + words) from None
    if not 0 < temperature < math.inf:
        raise CheckFailed(f"{case}a temperature is a number above 0, got {temperature:g}")
    return temperature


def _entropy(scores: Tensor) -> float:
    """The entropy of the softmax of scores (m,), in nats."""
    return float(torch.special.entr(scores.cpu().double().softmax(-1)).sum())
