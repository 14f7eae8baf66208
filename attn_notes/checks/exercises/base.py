"""What every exercise uses: the verdict that is printed, and the comparison that names mistakes.

A table of mistakes maps a sentence to the value that this mistake gives.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device

__all__ = ["CheckFailed", "compare", "difference", "draw", "exercise", "prediction"]

Value = Tensor | float | Sequence[Any]


def exercise(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make a check that raises into an exercise that prints `Correct` or `Not yet: …`."""

    @functools.wraps(check)
    def verdict(answer: Any) -> None:
        words = "Not yet: the answer is still to be written"
        try:
            if answer is not None:
                check(answer)
                words = "Correct"
        except NotImplementedError:
            pass
        except CheckFailed as failure:
            words = f"Not yet: {failure}"
        except Exception as error:  # whatever the reader's code raises is part of the answer
            words = f"Not yet: the answer raises {type(error).__name__}: {error}"
        print(words)

    return verdict


def compare(
    got: Any,
    right: Value,
    what: str,
    *,
    mistakes: Mapping[str, Value] | None = None,
    case: str = "",
) -> None:
    """Raise unless `got` is right; say which of the `mistakes` it is, or how it differs."""
    if not (words := difference(got, right)):
        return
    for mistake, wrong in (mistakes or {}).items():
        if not difference(got, wrong):
            raise CheckFailed(f"{case}{mistake}")
    raise CheckFailed(f"{case}{what} should {words}")


def difference(got: Any, expected: Value) -> str:
    """How a tensor or number should differ: in type, shape, dtype or value; "" if within 1e-4."""
    if not isinstance(got, Tensor | int | float):
        kind = "tensor" if isinstance(expected, Tensor) else "number"
        return f"be a {kind}, got {type(got).__name__}"
    # On the CPU, since not every device has 64-bit numbers.
    answer, right = (torch.as_tensor(x, device="cpu").detach() for x in (got, expected))
    if answer.shape != right.shape:
        return f"have shape {tuple(right.shape)}, got {tuple(answer.shape)}"
    if (answer.dtype == torch.bool) != (right.dtype == torch.bool):
        return f"have dtype {right.dtype}, got {answer.dtype}"
    answer, right = answer.double(), right.double()
    close = torch.isclose(answer, right, rtol=1e-6, atol=1e-4, equal_nan=True)
    if bool(close.all()):
        return ""
    at = tuple((~close).nonzero()[0].tolist())  # the first
    place = f" at {at}" if at else ""
    return f"be {right[at].item():.6g}{place}, got {answer[at].item():.6g}"


def prediction(truths: Mapping[str, tuple[Any, str]], options: str) -> Callable[[Any], None]:
    """An exercise that asks for a guess for each part; `truths` holds the guess and its reason."""

    @exercise
    def check(answer: Mapping[str, Any]) -> None:
        if not isinstance(answer, Mapping):
            raise CheckFailed(f"the answer must be a dictionary, got {type(answer).__name__}")
        for part, (truth, why) in truths.items():
            guess = answer.get(part)
            if guess is None:
                raise CheckFailed(f"{part} has no guess: write {options}")
            if guess != truth:
                raise CheckFailed(f"{part} is not {guess!r}: {why}")

    return check


def draw(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """One normal tensor for each shape, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(get_device()) for shape in shapes]
