"""Schedules: the factor of the learning rate at each step, as plain functions (chapters 4 and 7).

`fit` asks for the factor of step 0, 1, … before it makes that step.
"""

import math
from collections.abc import Callable

from attn_notes.arguments import check_integers

__all__ = ["Schedule", "constant", "cosine_decay", "inverse_sqrt", "linear_decay", "noam"]

Schedule = Callable[[int], float]


def constant(warmup: int = 0) -> Schedule:
    """Up in a straight line over `warmup` steps, then the same learning rate at every step.

    Args:
        warmup: steps before the highest rate is reached; 0 begins with it.

    Returns:
        The schedule: step -> factor, above 0 and at most 1.

    Raises:
        TypeError: a number of steps that is not an integer.
        ValueError: a negative `warmup`.

    Example:
        >>> constant()(1000), constant(4)(0)
        (1.0, 0.25)
    """
    check_integers(0, warmup=warmup)
    return lambda step: _warm(step, warmup)


def linear_decay(warmup: int, total: int) -> Schedule:
    """Up in a straight line over `warmup` steps, then down in one, to reach 0 at step `total`.

    Args:
        warmup: steps before the highest rate is reached; 0 begins with it.
        total: the number of steps of the training; no step before it has factor 0.

    Returns:
        The schedule: step -> factor, from 0 to 1.

    Raises:
        TypeError: a number of steps that is not an integer.
        ValueError: unless 0 <= `warmup` < `total`.

    Example:
        >>> schedule = linear_decay(2, 6)
        >>> [schedule(step) for step in range(7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    _check_steps(warmup, total)
    return lambda step: _warm(step, warmup) * (1.0 - _progress(step, warmup, total))


def cosine_decay(warmup: int, total: int) -> Schedule:
    """Up in a straight line over `warmup` steps, then down half a cosine, to 0 at step `total`.

    Loshchilov and Hutter (2017), equation 5, one period.

    Args:
        warmup: steps before the highest rate is reached; 0 begins with it.
        total: the number of steps of the training; no step before it has factor 0.

    Returns:
        The schedule: step -> factor, from 0 to 1.

    Raises:
        TypeError: a number of steps that is not an integer.
        ValueError: unless 0 <= `warmup` < `total`.

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
    r"""Up in a straight line over `warmup` steps, then down as $1/\sqrt{\text{step}}$. Chapter 7.

    The shape of `noam` with its peak at 1, so that the learning rate is that of the peak, whatever
    the width and the warm-up. It needs no last step, and never reaches 0.

    Args:
        warmup: steps before the highest rate is reached; 0 begins with it.

    Returns:
        The schedule: step -> factor, above 0 and at most 1.

    Raises:
        TypeError: a number of steps that is not an integer.
        ValueError: a negative `warmup`.

    Example:
        >>> schedule = inverse_sqrt(4)
        >>> [schedule(step) for step in (0, 1, 2, 3, 15, 63)]
        [0.25, 0.5, 0.75, 1.0, 0.5, 0.25]
    """
    check_integers(0, warmup=warmup)
    return lambda step: min(_warm(step, warmup), math.sqrt(max(1, warmup) / (step + 1)))


def noam(embed_dim: int, warmup: int) -> Schedule:
    r"""The first Transformer's learning rate, $d^{-1/2}\min(n^{-1/2},\,n\,w^{-3/2})$. Chapter 7.

    Vaswani et al. (2017), equation 3, with n = step + 1, for they count from 1. The two branches
    meet at n = w, the peak, $1/\sqrt{d\,w}$. A rate and no mere factor: to be used with `lr=1`.

    Args:
        embed_dim: d, the width of the model; 1 or more.
        warmup: w, steps before the highest rate is reached; 1 or more.

    Returns:
        The schedule: step -> learning rate, above 0.

    Raises:
        TypeError: a width or a number of steps that is not an integer.
        ValueError: one below 1.

    Example:
        >>> schedule = noam(4, 25)
        >>> [round(schedule(step), 3) for step in (0, 24, 99)]
        [0.004, 0.1, 0.05]
    """
    check_integers(1, embed_dim=embed_dim, warmup=warmup)
    peak = 1.0 / math.sqrt(embed_dim * warmup)
    shape = inverse_sqrt(warmup)
    return lambda step: peak * shape(step)


def _warm(step: int, warmup: int) -> float:
    """Step 0 is not wasted on a rate of 0: it gets 1 / warmup."""
    return min(1.0, (step + 1) / max(1, warmup))


def _progress(step: int, warmup: int, total: int) -> float:
    """How much of the way from `warmup` to `total` lies behind, from 0 to 1."""
    return min(1.0, max(0, step - warmup) / (total - warmup))


def _check_steps(warmup: int, total: int) -> None:
    check_integers(warmup=warmup, total=total)
    if not 0 <= warmup < total:
        raise ValueError(
            f"warmup must be 0 or more and below total, got warmup {warmup} and total {total}"
        )
