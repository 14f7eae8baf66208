"""What a caller's numbers must be, said in one place: what must hold, then what came."""

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "check_divides",
    "check_finite",
    "check_fractions",
    "check_integer_tensors",
    "check_integers",
    "check_positive",
    "look_up",
]


def check_integers(least: int | None = None, /, **numbers: int) -> None:
    """Raise unless all are integers, and none is too small: a size of 2.5 would be rounded.

    Args:
        least: the smallest that will do; by default any will.
        **numbers: each by the name that its caller knows.

    Raises:
        TypeError: a number that is not an integer; True and False are none.
        ValueError: one below `least`.

    Example:
        >>> check_integers(1, beam_size=0)
        Traceback (most recent call last):
        ValueError: beam_size must be at least 1, got 0
    """
    for name, number in numbers.items():
        if not isinstance(number, int | torch.SymInt) or isinstance(number, bool):
            raise TypeError(f"{name} must be an integer, got {number!r}")
        if least is not None and number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def check_finite(**numbers: float) -> None:
    """Raise unless all are numbers, none of them NaN or infinite.

    Args:
        **numbers: each by the name that its caller knows.

    Raises:
        TypeError: something else than a number.
        ValueError: NaN or infinity.

    Example:
        >>> check_finite(w=float("nan"))
        Traceback (most recent call last):
        ValueError: w must be a finite number, got nan
    """
    _check(numbers, math.isfinite, "a finite number")


def check_positive(**numbers: float) -> None:
    """Raise unless all are numbers above 0, and finite.

    Args:
        **numbers: each by the name that its caller knows.

    Raises:
        TypeError: something else than a number.
        ValueError: a number that is 0, negative, NaN or infinite.

    Example:
        >>> check_positive(bandwidth="wide")
        Traceback (most recent call last):
        TypeError: bandwidth must be a number, got 'wide'
    """
    _check(numbers, lambda number: 0 < number < math.inf, "a positive number")


def check_fractions(**numbers: float) -> None:
    """Raise unless all are from 0 to 1.

    Args:
        **numbers: each by the name that its caller knows.

    Raises:
        TypeError: something else than a number.
        ValueError: a number outside 0 to 1, or NaN.

    Example:
        >>> check_fractions(dropout=1.5)
        Traceback (most recent call last):
        ValueError: dropout must be from 0 to 1, got 1.5
    """
    _check(numbers, lambda number: 0 <= number <= 1, "from 0 to 1")


def check_integer_tensors(**tensors: Tensor) -> None:
    """Raise unless all hold integers; their values are not read.

    Args:
        **tensors: of any shape, each by the name that its caller knows.

    Raises:
        TypeError: a tensor of another kind, bool among them.

    Example:
        >>> check_integer_tensors(tokens=torch.zeros(2))
        Traceback (most recent call last):
        TypeError: tokens must be integers, got torch.float32
    """
    for name, tensor in tensors.items():
        if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
            raise TypeError(f"{name} must be integers, got {tensor.dtype}")


def look_up(table: nn.Embedding, ids: Tensor, name: str) -> Tensor:
    """The vectors with these ids; an id that the table does not have is named.

    Args:
        table: (V, E), of vectors.
        ids: of any shape, integers from 0 to V - 1.
        name: what the caller calls the ids.

    Returns:
        The shape of the ids, and E.

    Raises:
        TypeError: ids that are not integers.
        ValueError: an id below 0 or beyond the last. On a GPU torch fails by itself, and later.

    Example:
        >>> look_up(nn.Embedding(9, 2), torch.tensor([4, 9]), "tokens")
        Traceback (most recent call last):
        ValueError: tokens must be ids from 0 to 8, got ids from 4 to 9
    """
    check_integer_tensors(**{name: ids})
    try:
        return table(ids)
    except IndexError:  # "index out of range in self": neither which nor in what
        low, high = (int(bound) for bound in ids.aminmax())
        last = table.num_embeddings - 1
        got = f"got ids from {low} to {high}"
        raise ValueError(f"{name} must be ids from 0 to {last}, {got}") from None


def check_divides(name: str, parts: int, whole: str, size: int) -> None:
    """Raise unless `parts` divides `size`."""
    if size % parts:
        raise ValueError(f"{name} must divide {whole}, got {name} = {parts} and {whole} = {size}")


def _check(numbers: Mapping[str, Any], fits: Callable[[Any], bool], wanted: str) -> None:
    for name, number in numbers.items():
        if not isinstance(number, Real):
            raise TypeError(f"{name} must be a number, got {number!r}")
        if not fits(number):
            raise ValueError(f"{name} must be {wanted}, got {number}")
