"""What makes a check into an exercise."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.properties import CheckFailed

__all__ = ["exercise", "expect_tensor"]


def exercise(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make a check that raises into an exercise that prints `Correct` or `Not yet: …`.

    Args:
        check: takes the reader's answer; raises `CheckFailed` with a sentence that names the
            mistake.

    Returns:
        The same check, printing instead of raising, whatever the answer does.

    Example:
        >>> @exercise
        ... def two(answer):
        ...     if answer != 2:
        ...         raise CheckFailed(f"one and one make 2, got {answer}")
        >>> two(3)
        Not yet: one and one make 2, got 3
    """

    @functools.wraps(check)
    def verdict(answer: Any) -> None:
        try:
            check(answer)
        except NotImplementedError:
            print("Not yet: the answer is still to be written")
        except CheckFailed as failure:
            print(f"Not yet: {failure}")
        except Exception as error:  # whatever the reader's code raises is part of the answer
            print(f"Not yet: the answer raises {type(error).__name__}: {error}")
        else:
            print("Correct")

    return verdict


def expect_tensor(got: Any, expected: Tensor, what: str, *, atol: float = 1e-5) -> None:
    """Raise unless `got` is a tensor equal to `expected`.

    Args:
        got: what the reader's code returned.
        expected: what it should be.
        what: names it in the message, such as "the weights".
        atol: the largest difference that passes.

    Raises:
        CheckFailed: no tensor, another shape, or other values: the first that differs is named.

    Example:
        >>> expect_tensor(torch.zeros(2), torch.zeros(3), "the sum")
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: the sum should have shape (3,), got (2,)
    """
    if not isinstance(got, Tensor):
        raise CheckFailed(f"{what} should be a tensor, got {type(got).__name__}")
    if got.shape != expected.shape:
        raise CheckFailed(
            f"{what} should have shape {tuple(expected.shape)}, got {tuple(got.shape)}"
        )
    # On the CPU, since not every device has 64-bit numbers.
    got, expected = (side.detach().cpu().double() for side in (got, expected))
    wrong = ~torch.isclose(got, expected, rtol=0.0, atol=atol)
    if bool(wrong.any()):
        at = tuple(int(i) for i in wrong.nonzero()[0])
        raise CheckFailed(
            f"{what} at {at} should be {expected[at].item():.4g}, got {got[at].item():.4g}"
        )
