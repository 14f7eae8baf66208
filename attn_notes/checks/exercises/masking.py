"""The exercises of chapter 3: masks, empty rows, and where a layer leaks."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from attn_notes.attention import attention_weights
from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed, influence
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


@exercise
def empty_rows(answer: Mapping[str, set[int] | None]) -> None:
    """Which rows of five masks, named a to e, are empty?"""
    for name, (mask, why) in _five_masks().items():
        guess = answer[name]
        if guess is None:
            raise CheckFailed(f"mask {name} has no guess: write a set of rows, or set() for none")
        rows = set((~mask.any(-1)).nonzero().flatten().tolist())
        for row in sorted(rows - guess):
            raise CheckFailed(f"mask {name}: row {row} is empty too: {why}")
        for row in sorted(guess - rows):
            raise CheckFailed(f"mask {name}: row {row} is not empty: {why}")


def _five_masks() -> dict[str, tuple[Tensor, str]]:
    """The masks of the exercise, and the reason for the rows that they leave empty."""
    causal = causal_mask(4, device="cpu")
    right_padded = padding_mask([2], 4, device="cpu")[0]
    left_padded = ~right_padded
    alone = sliding_window_mask(4, window=1, device="cpu")
    return {
        "a": (causal, "every query of a causal mask may read itself"),
        "b": (causal & right_padded, "keys are hidden, not queries, and all may read key 0"),
        "c": (causal & left_padded, "what queries 0 and 1 may read is padding, keys 0 and 1"),
        "d": (causal & ~alone, "query 0 had only itself to read, and the diagonal is forbidden"),
        "e": (alone & right_padded, "each query may read itself alone, and keys 2, 3 are padding"),
    }


@exercise
def mask_from_lengths(answer: Callable[[Tensor, int], Tensor]) -> None:
    """From lengths (B,) the mask (B, 1, S)."""
    lengths = torch.tensor([2, 5, 0], device=get_device())
    expected = padding_mask(lengths, 5)
    got = answer(lengths, 5)
    _expect_bool(got)
    if got.shape == (3, 5):
        raise CheckFailed(
            "the mask has shape (3, 5): without an axis for the queries, (B, S) would line up "
            "with (L, S)"
        )
    if got.shape == expected.shape and bool((got == ~expected).all()):
        raise CheckFailed("sequence 0 of length 2 may not read key 0: is the mask inverted?")
    one_more = torch.arange(5, device=lengths.device) <= lengths[:, None, None]
    if got.shape == expected.shape and bool((got == one_more).all()):
        raise CheckFailed(
            "sequence 0 of length 2 reads key 2, which is its third: keys count from 0, so < and "
            "not <="
        )
    expect_tensor(got, expected, "the mask")


@exercise
def softmax_with_empty_rows(answer: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Softmax over what may be read, with empty rows of 0."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 4, generator=generator).to(get_device())
    mask = padding_mask(torch.tensor([[1, 4, 0], [2, 3, 4]], device=scores.device), 4)
    before = scores.clone()
    got = answer(scores, mask)
    if not torch.equal(scores, before):
        raise CheckFailed("the caller's scores have changed: masked_fill_ works in place")
    if not isinstance(got, Tensor) or got.shape != scores.shape:
        expect_tensor(got, masked_softmax(scores, mask), "the result")
    _check_rows(got, mask)
    expect_tensor(got, masked_softmax(scores, mask), "the weights")
    _check_low_scores(answer(scores - 2e9, mask))
    _check_gradient(answer, scores, mask)


def _check_rows(weights: Tensor, mask: Tensor) -> None:
    """Closed keys first, then the rows with nothing to read, then the sums of the others."""
    empty = ~mask.any(-1)
    stray = ((weights > 0) & ~mask & ~empty[..., None]).nonzero().tolist()
    if stray:
        b, i, j = stray[0]
        raise CheckFailed(
            f"row {i} of sequence {b} attends to key {j}, which is masked: is the mask inverted?"
        )
    if bool(weights[empty].isnan().any()):
        raise CheckFailed("the empty row is NaN, which is 0/0: it should be 0")
    if bool((weights[empty] > 0).any()):
        total = weights[empty].sum(-1).max().item()
        raise CheckFailed(
            f"the empty row sums to {total:.2f}: it attends to padding, and should be 0"
        )
    for b, i in ((weights.sum(-1) < 0.99) & ~empty).nonzero().tolist():
        total = weights[b, i].sum().item()
        raise CheckFailed(
            f"row {i} of sequence {b} sums to {total:.2f}: the softmax still counts masked keys"
        )


def _check_low_scores(weights: Tensor) -> None:
    """The weights where every true score is near -2e9."""
    if not bool((weights[0, 0, 1:] == 0).all()):
        raise CheckFailed(
            "with true scores near -2e9 a masked key wins: a finite number is not low enough"
        )


def _check_gradient(
    answer: Callable[[Tensor, Tensor], Tensor], scores: Tensor, mask: Tensor
) -> None:
    """The gradient of the scores must be a number in every row, the empty one included."""
    scores = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(answer(scores, mask).square().sum(), scores)
    if not bool(gradient.isfinite().all()):
        raise CheckFailed(
            "the weights are right, but the empty row's gradient is NaN: mend the row before the "
            "division, not after"
        )


@exercise
def dilated_window(answer: Callable[[int, int, int], Tensor]) -> None:
    """Keys i, i - d, i - 2d, …: as many as `window`."""
    L, window, dilation = 9, 3, 2
    got = answer(L, window, dilation)
    _expect_bool(got)
    reach = sliding_window_mask(L, window=(window - 1) * dilation + 1, device=get_device())
    even = _steps_back(L) % dilation == 0
    if got.shape == reach.shape:
        for i, j in got.triu(1).nonzero().tolist():
            raise CheckFailed(f"query {i} reads key {j}, which is in its future")
        for i, j in (got & ~even).nonzero().tolist():
            raise CheckFailed(
                f"query {i} reads key {j}, {i - j} back: with a dilation of 2 it steps over that"
            )
        for i, j in (got & ~reach).nonzero().tolist():
            raise CheckFailed(
                f"query {i} reads key {j}, {i - j} back: 3 keys at steps of 2 end 4 back"
            )
    expect_tensor(got, reach & even, "the mask")


def _steps_back(L: int) -> Tensor:
    """(L, L): how far key j lies before query i."""
    positions = torch.arange(L, device=get_device())
    return positions[:, None] - positions


def suspects() -> list[Callable[[Tensor], Tensor]]:
    """Three layers, (1, 8, 4) to (1, 8, 4): some read the future, none says so.

    Returns:
        Layer 0, layer 1 and layer 2 of the exercise.

    Example:
        >>> [layer(torch.zeros(1, 8, 4)).shape for layer in suspects()][0]
        torch.Size([1, 8, 4])
    """

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
def find_leak(answer: Sequence[tuple[int, int] | None]) -> None:
    """For each suspect, an output and a later input that moves it, or None."""
    if answer is None or len(answer) != 3:
        raise CheckFailed("the answer should be a list of three: (i, t) for a leak, or None")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, 8, 4, generator=generator).to(get_device())
    for n, (layer, pair) in enumerate(zip(suspects(), answer, strict=True)):
        moved = influence(layer, x) > 1e-6
        leaks = bool(moved.triu(1).any())
        if pair is None and leaks:
            raise CheckFailed(f"layer {n} leaks: some output moves when a later input does")
        if pair is None:
            continue
        i, t = pair
        if not (0 <= i < 8 and 0 <= t < 8):
            raise CheckFailed(f"layer {n}: there are positions 0 to 7, got {pair}")
        if t <= i:
            raise CheckFailed(f"layer {n}: input {t} is not later than output {i}: no leak")
        if not leaks:
            raise CheckFailed(f"layer {n} is causal: no output moves when a later input does")
        if not bool(moved[i, t]):
            raise CheckFailed(f"layer {n}: output {i} does not move when input {t} does")


def _expect_bool(got: object) -> None:
    """Raise unless `got` is a bool tensor."""
    if not isinstance(got, Tensor) or got.dtype != torch.bool:
        kind = got.dtype if isinstance(got, Tensor) else type(got).__name__
        raise CheckFailed(f"a mask should be a bool tensor (True = may attend), got {kind}")
