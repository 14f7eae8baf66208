"""The exercises of page 12b: a window that keeps its sink, and a step that is absorbed."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from attn_exercises.base import compare, draw, of_function
from attn_notes.checks.properties import CheckFailed


@of_function
def window_with_sink(answer: Any) -> None:
    """The mask of a window that keeps the first tokens of the text."""
    for L, window, first in ((9, 3, 2), (6, 1, 0), (5, 2, 4), (4, 9, 1)):
        places = torch.arange(L, device="cpu")
        back = places[:, None] - places
        causal, last, start = back >= 0, back < window, places < first
        right = causal & (last | start)
        mistakes = {
            "the first tokens must be read by every later query, not by none": causal & last,
            "the last keys must be read as well as the first": causal & start,
            "query i may not read the future, not even a first token": (causal & last) | start,
            "the window counts the query's own key: it ends at i - window + 1": (
                causal & ((back <= window) | start)
            ),
            "query i reads back from its own place: rows are queries, columns keys": right.mT,
            "the first tokens stand beside the window, not inside it": (
                causal & ((back < window - first) | start)
            ),
            "True is where a query may read": ~right,
            "the window looks back, and not in both directions": (back.abs() < window) | start,
        }
        case = f"for L = {L}, window = {window} and first = {first} "
        compare(answer(L, window, first), right, "the mask", mistakes, case=case)


@of_function
def absorbed_step(answer: Any) -> None:
    """One query of each head, read against the latents themselves."""
    H, S, C, D, Dv = 3, 11, 5, 7, 6
    q, c, W_k, W_v = draw((H, D), (S, C), (H, D, C), (H, Dv, C), seed=12)

    def read(scores: torch.Tensor) -> torch.Tensor:
        return torch.einsum("hc,hvc->hv", scores.softmax(-1) @ c, W_v)

    scores = torch.einsum("hd,hdc->hc", q, W_k) @ c.mT  # (H, S)
    mistakes = {
        "divide the scores by the root of D, the width of a query, not of C": read(scores / C**0.5),
        "divide the scores by the root of D": read(scores),
        "the softmax runs over the keys, not over the heads": (
            torch.einsum("hc,hvc->hv", (scores / D**0.5).softmax(0) @ c, W_v)
        ),
        "the average of the latents must still become a value, by W_v": (
            (scores / D**0.5).softmax(-1) @ c
        ),
        "the scores must become weights first": (
            torch.einsum("hc,hvc->hv", scores / D**0.5 @ c, W_v)
        ),
    }
    compare(answer(q, c, W_k, W_v), read(scores / D**0.5), "the output", mistakes)
    enough = 2 * H * C * (D + 2 * S + Dv)
    with FlopCounterMode(display=False) as counter:
        answer(q, c, W_k, W_v)
    if (made := counter.get_total_flops()) > 2 * enough:
        got = f"yours computes {made} floating-point operations where {enough} are enough"
        raise CheckFailed(f"make no keys and no values: {got}")
