"""Schedules: the factor of the learning rate at each step (chapters 4 and 7).

`fit` asks for the factor of step 0, 1, … before it takes that step.
"""

import math
from collections.abc import Callable

from attn_notes.arguments import check_integers

__all__ = ["Schedule", "constant", "cosine_decay", "inverse_sqrt", "linear_decay", "noam"]

Schedule = Callable[[int], float]


def constant(warmup: int = 0) -> Schedule:
    """Rise linearly over `warmup` steps, then stay.

    Args:
        warmup: steps before the peak; with 0 the peak comes first.

    Returns:
        The schedule: step -> factor of the learning rate, above 0 and at most 1.

    Example:
        >>> constant()(1000), constant(4)(0)
        (1.0, 0.25)
    """
    check_integers(0, warmup=warmup)
    return lambda step: _warm(step, warmup)


def linear_decay(warmup: int, total: int) -> Schedule:
    """Rise linearly over `warmup` steps, then fall linearly to 0 at step `total`.

    Args:
        warmup: steps before the peak, from 0 to `total` - 1.
        total: the number of steps of the training; no step before it has factor 0.

    Returns:
        The schedule: step -> factor of the learning rate, from 0 to 1.

    Example:
        >>> schedule = linear_decay(2, 6)
        >>> [schedule(step) for step in range(7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    _check_steps(warmup, total)
    return lambda step: _warm(step, warmup) * (1.0 - _progress(step, warmup, total))


def cosine_decay(warmup: int, total: int) -> Schedule:
    """Rise linearly over `warmup` steps, then fall along half a cosine to 0 at step `total`.

    Loshchilov and Hutter (2017), equation 5, one period.

    Args:
        warmup: steps before the peak, from 0 to `total` - 1.
        total: the number of steps of the training; no step before it has factor 0.

    Returns:
        The schedule: step -> factor of the learning rate, from 0 to 1.

    Example:
        >>> schedule = cosine_decay(0, 4)
        >>> [round(schedule(step), 2) for step in range(5)]
        [1.0, 0.85, 0.5, 0.15, 0.0]
    """
    _check_steps(warmup, total)
    return lambda step: (
        _warm(step, warmup) * 0.5 * (1.0 + math.cos(math.pi * _progress(step, warmup, total)))
    )


def inverse_sqrt(warmup: int) -> Schedule:
    r"""Rise linearly over `warmup` steps, then fall as $1/\sqrt{\text{step}}$. Chapter 7.

    The shape of `noam` with its peak at 1, whatever the width and the warm-up. It needs no last
    step and never reaches 0.

    Args:
        warmup: steps before the peak; with 0 the peak comes first.

    Returns:
        The schedule: step -> factor of the learning rate, above 0 and at most 1.

    Example:
        >>> schedule = inverse_sqrt(4)
        >>> [schedule(step) for step in (0, 1, 2, 3, 15, 63)]
        [0.25, 0.5, 0.75, 1.0, 0.5, 0.25]
    """
    check_integers(0, warmup=warmup)
    return lambda step: min(_warm(step, warmup), math.sqrt(max(1, warmup) / (step + 1)))


def noam(embed_dim: int, warmup: int) -> Schedule:
    r"""The first Transformer's learning rate, $d^{-1/2}\min(n^{-1/2},\,n\,w^{-3/2})$. Chapter 7.

    Vaswani et al. (2017), equation 3, with n = step + 1, because they count from 1. The branches
    meet at n = w, the peak, $1/\sqrt{d\,w}$. This is a rate, not a factor: use it with `lr=1`.

    Args:
        embed_dim: d, the width of the model; 1 or more.
        warmup: w, steps before the peak; 1 or more.

    Returns:
        The schedule: step -> learning rate, above 0.

    Example:
        >>> schedule = noam(4, 25)
        >>> [round(schedule(step), 3) for step in (0, 24, 99)]
        [0.004, 0.1, 0.05]
    """
    check_integers(1, embed_dim=embed_dim, warmup=warmup)
    shape = inverse_sqrt(warmup)
    return lambda step: shape(step) / math.sqrt(embed_dim * warmup)


def _warm(step: int, warmup: int) -> float:
    """Step 0 is not wasted on a rate of 0: its factor is 1 / warmup."""
    return min(1.0, (step + 1) / max(1, warmup))


def _progress(step: int, warmup: int, total: int) -> float:
    """The fraction of the way from `warmup` to `total` at a step, from 0 to 1."""
    return min(1.0, max(0, step - warmup) / (total - warmup))


def _check_steps(warmup: int, total: int) -> None:
    check_integers(warmup=warmup, total=total)
    if not 0 <= warmup < total:
        raise ValueError(
            f"warmup must be 0 or more and below total, got warmup {warmup} and total {total}"
        )
