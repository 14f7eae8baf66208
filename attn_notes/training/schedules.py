r"""Schedules: the factor of the learning rate at each step (chapters 4 and 8).

A schedule maps step 0, 1, … to a factor, and `fit` asks for it before it takes that step. All
rise linearly over `warmup` steps, 0 or more; a decay ends at step `total`, above `warmup`.
"""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(warmup: int = 0) -> Schedule:
    """After the warm-up, the same factor at every step.

    Example:
        >>> constant()(1000), constant(4)(0)
        (1.0, 0.25)
    """
    return lambda step: _warm(step, warmup)


def linear_decay(warmup: int, total: int) -> Schedule:
    """After the warm-up, fall linearly; no step before `total` has factor 0.

    Example:
        >>> schedule = linear_decay(2, 6)
        >>> [schedule(step) for step in range(7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    left = _fraction_left(warmup, total)
    return lambda step: _warm(step, warmup) * left(step)


def cosine_decay(warmup: int, total: int) -> Schedule:
    """After the warm-up, fall along half a cosine: Loshchilov and Hutter (2017), equation 5.

    Example:
        >>> schedule = cosine_decay(0, 4)
        >>> [round(schedule(step), 2) for step in range(5)]
        [1.0, 0.85, 0.5, 0.15, 0.0]
    """
    left = _fraction_left(warmup, total)
    return lambda step: _warm(step, warmup) * 0.5 * (1.0 - math.cos(math.pi * left(step)))


def inverse_sqrt(warmup: int) -> Schedule:
    r"""After the warm-up, fall as $1/\sqrt{\text{step}}$: the shape of `noam`, its peak at 1.

    Example:
        >>> schedule = inverse_sqrt(4)
        >>> [schedule(step) for step in (0, 1, 2, 3, 15, 63)]
        [0.25, 0.5, 0.75, 1.0, 0.5, 0.25]
    """
    return lambda step: min(_warm(step, warmup), math.sqrt(max(1, warmup) / (step + 1)))


def noam(embed_dim: int, warmup: int) -> Schedule:
    r"""The first Transformer's learning rate, $d^{-1/2}\min(n^{-1/2},\,n\,w^{-3/2})$. Chapter 8.

    Vaswani et al. (2017), equation 3, with n = step + 1, because they count from 1, d = `embed_dim`
    and w = `warmup`, 1 or more each. The branches meet at n = w, the peak, $1/\sqrt{d\,w}$. This is
    a rate, not a factor: use it with `lr=1`.

    Example:
        >>> schedule = noam(4, 25)
        >>> [round(schedule(step), 3) for step in (0, 24, 99)]
        [0.004, 0.1, 0.05]
    """
    shape = inverse_sqrt(warmup)
    return lambda step: shape(step) / math.sqrt(embed_dim * warmup)


def _warm(step: int, warmup: int) -> float:
    """Step 0 is not wasted on a rate of 0: its factor is 1 / warmup."""
    return min(1.0, (step + 1) / max(1, warmup))


def _fraction_left(warmup: int, total: int) -> Schedule:
    """From 1 at the end of the warm-up to 0 at step `total`."""
    if not 0 <= warmup < total:
        raise ValueError(f"warmup must be from 0 to below total, got {warmup} and {total}")
    return lambda step: 1.0 - min(1.0, max(0, step - warmup) / (total - warmup))
