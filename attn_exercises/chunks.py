"""The exercises of chapter 13 in depth: a gate for each row, and a quotient that breaks."""

from typing import Any

import torch
from torch import Tensor

from attn_exercises.base import compare, draw, exercise, numbers, of_function
from attn_notes.checks.properties import CheckFailed


@of_function
def row_gates(answer: Any) -> None:
    """The recurrence with a gate for each row of the state, at all tokens at once."""
    for L, D, Dv in ((6, 3, 2), (16, 4, 4), (1, 2, 3)):
        q, k, v, raw = draw((L, D), (L, D), (L, Dv), (L, D), seed=131)
        gates = 0.5 + 0.5 * raw.sigmoid()
        running = gates.cumprod(0)
        shifted = running / gates  # the product without the token's own gate
        mistakes = {
            "the gate comes before the write: a token's own gate leaves its own value alone": _read(
                q, k, v, running, shifted
            ),
            "a token's own gate acts on the state before it, not only the earlier gates": _read(
                q, k, v, shifted, shifted
            ),
            "a query may read no key after it": (q * running) @ (k / running).mT @ v,
            "divide the keys by their running product: they fade from where they were written": (
                _read(q, k, v, running, torch.ones_like(k))
            ),
            "a gate acts on all later tokens: take the running product": _read(
                q, k, v, gates, gates
            ),
            "everything fades, by the gates": _read(
                q, k, v, torch.ones_like(k), torch.ones_like(k)
            ),
            "each row has a gate of its own, not the mean of a token's gates": _read(
                q, k, v, *[gates.mean(-1, keepdim=True).cumprod(0)] * 2
            ),
            "a query reads its own key, too": ((q * running) @ (k / running).mT).tril(-1) @ v,
        }
        case = f"with {L} tokens: "
        right = _read(q, k, v, running, running)
        compare(answer(q, k, v, gates), right, "the outputs", mistakes, case)


def _read(q: Tensor, k: Tensor, v: Tensor, late: Tensor, early: Tensor) -> Tensor:
    """The outputs, with the shares `late` for the queries and `early` for the keys."""
    return ((q * late) @ (k / early).mT).tril() @ v


@exercise
def lost_quotient(answer: Any) -> None:
    """Gates for which the quotient of running products is not finite in 32 bits."""
    gates = numbers(answer, "the gates must be numbers").to(torch.float32)
    if gates.shape != (64,):
        raise CheckFailed(f"the gates must have shape (64,), got {tuple(gates.shape)}")
    if not ((gates >= 0.01) & (gates <= 1)).all():
        raise CheckFailed("each gate must be from 0.01 to 1")
    if (open_gates := int((gates == 1).sum())) <= 32:
        raise CheckFailed(f"more than half of the 64 gates must be 1, got {open_gates}")
    running = gates.cumprod(0)
    weights = (running[:, None] * (1 / running)).tril()
    if weights.isfinite().all():
        least = running.min().item()
        words = "its inverse is still finite"
        raise CheckFailed(f"the running product ends at {least:.1g}: {words}")
