"""Schedules: the factor of the learning rate at each step, as plain functions (chapter 4).

`fit` asks for the factor of step 0, 1, … before it makes that step.
"""

import math
from collections.abc import Callable

__all__ = ["Schedule", "constant", "cosine_decay", "linear_decay"]

Schedule = Callable[[int], float]


def constant() -> Schedule:
    """The same learning rate at every step.

    Returns:
        The schedule: step -> 1.

    Example:
        >>> constant()(1000)
        1.0
    """
    return lambda _: 1.0


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


def _warm(step: int, warmup: int) -> float:
    """Step 0 is not wasted on a rate of 0: it gets 1 / warmup."""
    return min(1.0, (step + 1) / max(1, warmup))


def _progress(step: int, warmup: int, total: int) -> float:
    """How much of the way from `warmup` to `total` lies behind, from 0 to 1."""
    return min(1.0, max(0, step - warmup) / (total - warmup))


def _check_steps(warmup: int, total: int) -> None:
    if not (isinstance(warmup, int) and isinstance(total, int)):
        raise TypeError(
            f"warmup and total must be numbers of steps, integers, got {warmup!r} and {total!r}"
        )
    if not 0 <= warmup < total:
        raise ValueError(
            f"warmup must be 0 or more and below total, got warmup {warmup} and total {total}"
        )
