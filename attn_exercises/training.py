"""The exercises of chapter 8: a schedule, a smoothed loss, Adam, and a ceiling."""

import math
from itertools import permutations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_exercises.base import AUTOGRAD, compare, draw, of_function, refuse


@of_function
def three_pieces(answer: Any) -> None:
    """A rate that rises in a line, falls as a root, and ends in a line to 0."""
    for w, cool, total, peak in ((100, 200, 1000, 1.0), (7, 30, 80, 2.0)):
        start = total - cool
        joint = peak * math.sqrt(w / start)
        for t in (total, 1, w // 2, w, w + 1, start - 1, start, start + 1, total - 1):
            left = min(1.0, (total - t) / cool)
            root = peak * min(t / w, math.sqrt(w / t))
            right = root if t <= start else joint * left
            mistakes = {
                "the rate is too low by the root of warmup: what is b?": right / math.sqrt(w),
                "after the peak the rate falls like 1 / √t, not like 1 / t": peak * w / t,
                "the last piece begins at the rate of that step, not at the peak": (
                    peak * left if t >= start else -1
                ),
                "the last piece is a straight line from the rate at its first step": root * left,
                "the rate does not stay at the peak: it falls like a root": peak
                if t < start
                else -1,
                f"the last piece {'is missing' if t == total else 'begins too late'}": root,
            }
            case = f"step {t} of {total}, with warmup {w}, cooldown {cool} and peak {peak}: "
            compare(answer(t, w, cool, total, peak), right, "the rate", mistakes, case)


@of_function
def smoothed_gradient(answer: Any) -> None:
    """The gradient of the smoothed cross-entropy at the logits."""
    for (N, V), eps, size in (((3, 5), 0.1, 1.0), ((4, 7), 0.4, 1.0), ((2, 6), 0.2, 300.0)):
        (z,) = draw((N, V), seed=8)
        labels = torch.tensor([3, 1, 3, 0], device=z.device)[:N]
        leaf = (size * z).requires_grad_()
        loss = F.cross_entropy(leaf, labels, label_smoothing=eps)
        (right,) = torch.autograd.grad(loss, leaf)
        p, label = leaf.detach().softmax(-1), F.one_hot(labels, V).to(z.dtype)
        others = (1 - eps) * label + eps / (V - 1) * (1 - label)
        alone = (1 - eps) * label + eps / V * (1 - label)
        mistakes = {
            "the loss is the mean over the tokens: divide by their number": N * right,
            "the sign is wrong: the label's logit should rise when we go against it": -right,
            "the smoothing is missing: this is the gradient for eps = 0": (p - label) / N,
            "eps is spread over all V tokens, and the label is one of them": (p - others) / N,
            "the label keeps 1 - eps and gets its share of eps too": (p - alone) / N,
        }
        hint = ", where exp overflows" if size > 100 else ""
        case = f"with {N} tokens, V = {V}, eps = {eps}, logits of size {size:.0f}{hint}: "
        compare(answer(leaf.detach(), labels, eps), right, "the gradient", mistakes, case)
    refuse(answer, AUTOGRAD, "do without autograd")


@of_function
def adam_written(answer: Any) -> None:
    """The parameters after some steps of Adam from 0."""
    for steps, lr in ((1, 0.5), (2, 1.0), (6, 1.0)):
        gradients = draw(*[(2, 3)] * steps, seed=steps)
        gradients[0] = gradients[0].abs() + 0.5  # so that no first step is lost in rounding
        right = _adam(gradients, lr)
        mistakes = {
            "the sign is wrong: a step goes against the gradient": -right,
            "divide both means by their correction, 1 - β to the power t": _adam(
                gradients, lr, correct=(False, False)
            ),
            "the running mean of the gradient is not corrected": _adam(
                gradients, lr, correct=(False, True)
            ),
            "the running mean of the squares is not corrected": _adam(
                gradients, lr, correct=(True, False)
            ),
            "correct by the number of this step: 1 - β to the power t": _adam(
                gradients, lr, first=True
            ),
            "divide by the root of the mean square, not by the mean square": _adam(
                gradients, lr, power=1.0
            ),
            "keep a running mean of the squares, not the square of the mean": _adam(
                gradients, lr, of_mean=True
            ),
            "this is the last step alone: add up the steps": right - _adam(gradients[:-1], lr),
        }
        case = f"after {steps} step{'s' if steps > 1 else ''} with lr = {lr}: "
        compare(answer(gradients, lr), right, "the parameters", mistakes, case)


def _adam(
    gradients: list[Tensor],
    lr: float,
    *,
    correct: tuple[bool, bool] = (True, True),
    first: bool = False,
    power: float = 0.5,
    of_mean: bool = False,
) -> Tensor:
    """Equation (eq-tf-adam), or with one of its usual mistakes."""
    mean: Any = 0.0
    square: Any = 0.0
    total: Any = 0.0
    for t, g in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * g
        square = mean**2 if of_mean else 0.999 * square + 0.001 * g**2
        times = 1 if first else t
        by_mean, by_square = 1 - 0.9**times, (1 - 0.999**times if not of_mean else 1.0)
        up = mean / (by_mean if correct[0] else 1.0)
        down = (square / (by_square if correct[1] else 1.0)) ** power
        total = total - lr * up / (down + 1e-8)
    return total


@of_function
def ceiling_without_order(answer: Any) -> None:
    """The best exact match of a translator that sees the digits of a number in no order."""
    for asked in ([112, 121, 211, 333], [7, 70, 700], [1, 11, 22], [12, 21, 34], range(90, 2000)):
        texts = [str(number) for number in asked]
        groups = len({tuple(sorted(text)) for text in texts})
        as_distinct = sum(1 / math.factorial(len(text)) for text in texts)
        with_all = sum(1 / len(set(permutations(text))) for text in texts)
        mistakes = {
            "11 is not 1: count how often each digit occurs": len(set(map(frozenset, texts))),
            "equal digits give no new order: 112 has three orders, not six": as_distinct,
            "zeros count: 7, 70 and 700 have different digits": len(
                {int("".join(sorted(text))) for text in texts}
            ),
            "only the numbers that are asked compete: 07 is not one of them": with_all,
            "this is the number of groups: divide it by that of the numbers": groups * len(texts),
        }
        shares = {mistake: wrong / len(texts) for mistake, wrong in mistakes.items()}
        case = f"for {len(texts)} numbers from {asked[0]} to {asked[-1]}: "
        compare(answer(list(asked)), groups / len(texts), "the ceiling", shares, case)
