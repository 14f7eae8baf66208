"""The exercises of chapter 3: masks, empty rows, and where a layer leaks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_notes.attention import attention_weights
from attn_notes.checks.exercises.base import CheckFailed, compare, draw, exercise, prediction
from attn_notes.checks.properties import influence
from attn_notes.device import get_device
from attn_notes.masks import causal_mask, masked_softmax, padding_mask, sliding_window_mask

__all__ = [
    "dilated_window",
    "empty_rows",
    "find_leak",
    "mask_from_lengths",
    "softmax_with_empty_rows",
    "suspects",
]

EMPTY_ROWS: dict[str, tuple[set[int], str]] = {
    "a": (set(), "every query of a causal mask may read itself"),
    "b": (set(), "keys are hidden, not queries, and all may read key 0"),
    "c": ({0, 1}, "what queries 0 and 1 may read is padding, keys 0 and 1"),
    "d": ({0}, "query 0 had only itself to read, and the diagonal is forbidden"),
    "e": ({2, 3}, "each query may read itself alone, and keys 2, 3 are padding"),
}
empty_rows = prediction(EMPTY_ROWS, "a set of rows, or set() for none")
"""Which rows of five masks, named a to e, are empty?"""


@exercise
def mask_from_lengths(answer: Any) -> None:
    """From lengths (B,) the mask (B, 1, S)."""
    lengths = torch.tensor([2, 5, 0], device=get_device())
    right, one_more = padding_mask(lengths, 5), padding_mask(lengths + 1, 6)[..., :5]
    mistakes = {
        "the mask needs an axis for the queries: (B, S) would line up with (L, S)": right[:, 0],
        "sequence 0 of length 2 may not read key 0: is the mask inverted?": ~right,
        "sequence 0 of length 2 reads key 2, its third: < and not <=": one_more,
    }
    compare(answer(lengths, 5), right, "the mask (True = may attend)", mistakes=mistakes)


@exercise
def softmax_with_empty_rows(answer: Any) -> None:
    """Softmax over what may be read, with empty rows of 0."""
    (scores,) = draw((2, 3, 4))
    mask = padding_mask([[1, 4, 0], [2, 3, 4]], 4, device=scores.device)
    closed = scores.masked_fill(~mask, -torch.inf)
    mistakes = {
        "the empty row is NaN, which is 0/0: it should be 0": closed.softmax(-1),
        "the empty row attends to padding: it should be 0": closed.clamp(min=-1e9).softmax(-1),
        "masked keys are read: is the mask inverted?": masked_softmax(scores, ~mask),
    }
    got = answer(scores.clone(), mask)
    compare(got, masked_softmax(scores, mask), "the weights", mistakes=mistakes)
    leaf = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(answer(leaf, mask).square().sum(), leaf)
    if not bool(gradient.isfinite().all()):
        raise CheckFailed("the empty row's gradient is NaN: set the row before the division")


@exercise
def dilated_window(answer: Any) -> None:
    """Keys i, i - d, i - 2d, …: as many as `window`."""
    positions = torch.arange(9, device=get_device())
    back = positions[:, None] - positions  # (9, 9): how far key j lies before query i
    even, past = back % 2 == 0, back >= 0
    mistakes = {
        "query 1 reads key 0: with a dilation of 2 it steps over that": past & (back < 3),
        "query 0 reads key 2, which is in its future": even & (back.abs() < 6),
    }
    right = even & past & (back <= 4)
    compare(answer(9, 3, 2), right, "the mask (True = may attend)", mistakes=mistakes)


def suspects() -> list[Callable[[Tensor], Tensor]]:
    """Three layers, (1, 8, 4) to (1, 8, 4): some read the future, and none says so."""

    def attend(x: Tensor, mask: Tensor) -> Tensor:
        return attention_weights(x, x, attn_mask=mask) @ x

    def first(x: Tensor) -> Tensor:
        return attend(x, causal_mask(x.shape[-2], offset=1, device=x.device))

    def second(x: Tensor) -> Tensor:
        return attend(x, sliding_window_mask(x.shape[-2], window=3, device=x.device)).roll(1, -1)

    def third(x: Tensor) -> Tensor:
        y = attend(x, causal_mask(x.shape[-2], device=x.device))
        return y - y.mean(-2, keepdim=True)

    return [first, second, third]


@exercise
def find_leak(answer: Any) -> None:
    """For each suspect, an output and a later input that moves it, or None."""
    if len(answer) != 3:
        raise CheckFailed("the answer should be a list of three: (i, t) for a leak, or None")
    (x,) = draw((1, 8, 4), seed=1)
    for n, (layer, pair) in enumerate(zip(suspects(), answer, strict=True)):
        leaks = (influence(layer, x) > 1e-6).triu(1).nonzero().tolist()
        if (pair is None) == bool(leaks):
            words = "leaks: some output moves" if leaks else "is causal: no output moves"
            raise CheckFailed(f"layer {n} {words} when a later input does")
        if leaks and list(pair) not in leaks:
            raise CheckFailed(f"layer {n}: in {pair}, t must be later than i and move output i")
