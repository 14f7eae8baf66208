"""The exercise of chapter 11, in depth, that asks for the gradients along a path."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_exercises.base import compare, draw, of_function


@of_function
def integrated_by_hand(answer: Any) -> None:
    """The integrated gradients of a scalar function."""
    x, start, w = draw((3, 4), (3, 4), (3, 4))
    way, zero = x - start, torch.zeros_like(x)

    def f(x: Tensor) -> Tensor:  # its gradient is curved: where and how many it is taken matters
        return (w * x).sum() ** 2 + (x[0] * x[1]).sum() + (x**3).sum()

    for steps in (4, 1, 50):
        mean = _gradients(f, start, way, steps)
        begins, ends = (_gradients(f, start, way, steps, at) * way for at in (0.0, 1.0))
        mistakes = {
            "this is the mean gradient: multiply it by x - baseline": mean,
            "multiply by x - baseline, and not by x": mean * x,
            "the sign is wrong: go from the baseline to x": -mean * way,
            "the gradients are added: take their mean": steps * mean * way,
            "this is the gradient at x alone": _gradients(f, start, way, 1, 1.0) * way,
            "this is the gradient at the baseline alone": _gradients(f, start, way, 1, 0.0) * way,
            "the path begins at 0: begin it at the baseline": _gradients(f, zero, x, steps) * x,
            "the path is that from 0 to x - baseline": _gradients(f, zero, way, steps) * way,
            "take the gradients at middles, not at beginnings": begins,
            "take the gradients at middles, not at ends": ends,
            "take the gradients at middles: these are trapezia": (begins + ends) / 2,
            "this is the gradient halfway alone": _gradients(f, start, way, 1) * way,
            "return one number for each entry of x, and not their sum": (mean * way).sum(),
        }
        case = f"steps = {steps}: " if steps > 1 else "with one step: "
        compare(answer(f, x, start, steps), mean * way, "the attribution", mistakes, case)


def _gradients(
    f: Callable[[Tensor], Tensor], start: Tensor, way: Tensor, steps: int, at: float = 0.5
) -> Tensor:
    """The mean gradient of f at one place of each step of the way: 0 its beginning, 1 its end."""
    points = [(start + (n + at) / steps * way).requires_grad_() for n in range(steps)]
    return torch.stack([torch.autograd.grad(f(point), point)[0] for point in points]).mean(0)
