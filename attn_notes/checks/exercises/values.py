"""What an answer's values are compared with: the right one, and those that mistakes give.

A table of mistakes maps a sentence to the value that this mistake gives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device

Value = Tensor | float | Sequence[Any]


def compare(
    got: Any, right: Value, what: str, mistakes: Mapping[str, Any] | None = None, case: str = ""
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


def pair(got: Any, what: str) -> tuple[Any, Any]:
    """The two things that an answer returns."""
    if not isinstance(got, tuple | list) or len(got) != 2:
        raise CheckFailed(f"return {what}, got {type(got).__name__}")
    return got[0], got[1]


def numbers(answer: Any, refusal: str) -> Tensor:
    """A table of numbers that the reader wrote as lists or as a tensor."""
    try:
        return torch.as_tensor(answer, dtype=torch.float32, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise CheckFailed(refusal) from None


def draw(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """One normal tensor for each shape, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(get_device()) for shape in shapes]
