"""The exercises of chapter 3: masks, empty rows, and where a layer leaks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attn_exercises.base import compare, draw, exercise, of_function, refuse
from attn_notes.attention import attention_weights
from attn_notes.checks.properties import CheckFailed, influence
from attn_notes.device import get_device
from attn_notes.masks import causal_mask, masked_softmax, padding_mask, sliding_window_mask


@of_function
def mask_from_lengths(answer: Any) -> None:
    """From lengths (B,) the mask (B, 1, S)."""
    lengths = torch.tensor([2, 4, 0], device=get_device())
    right = padding_mask(lengths, 5)
    mistakes = {
        "the mask needs an axis for the queries: (B, S) would line up with (L, S)": right[:, 0],
        "sequence 0 of length 2 may not read key 0: is the mask inverted?": ~right,
        "sequence 0 of length 2 reads key 2, its third: < and not <=": padding_mask([3, 5, 1], 5),
        "sequence 0 of length 2 should read key 1, its second": padding_mask([1, 3, 0], 5),
        "the mask has 4 keys, the longest length, and not size = 5": right[..., :4],
        "the mask is (B, S, 1), but the keys belong on the last axis": right.mT,
    }
    compare(answer(lengths, 5), right, "the mask (True = may attend)", mistakes)
    few = padding_mask(lengths[1:] + 3, 7)  # 7 and 3
    compare(answer(lengths[1:] + 3, 7), few, "the mask", case="for two lengths and size = 7 ")


@of_function
def softmax_with_empty_rows(answer: Any) -> None:
    """Softmax over what may be read, with empty rows of 0."""
    (scores,) = draw((2, 3, 4))
    mask = padding_mask([[1, 4, 0], [2, 3, 4]], 4, device=scores.device)
    closed = scores.masked_fill(~mask, -torch.inf)
    over_queries = masked_softmax(scores.mT, mask.mT).mT
    mistakes = {
        "the empty row is NaN (0/0, or infinity times 0): it should be 0": closed.softmax(-1),
        "the empty row attends to padding: it should be 0": closed.clamp(min=-1e9).softmax(-1),
        "masked keys are read: is the mask inverted?": masked_softmax(scores, ~mask),
        "the softmax runs over the queries and not over the keys": over_queries,
        "rows must sum to 1 again once closed weights are 0": scores.softmax(-1) * mask,
    }
    for case, (x, rule) in _hard_cases(scores, mask).items():
        got = answer(x, rule)
        compare(got, masked_softmax(x, rule), "the weights", mistakes, case)
        if bool((got.masked_select(~rule) != 0).any()):
            raise CheckFailed(f"{case}a closed key has a small weight: it should be exactly 0")
    leaf = scores.masked_fill(~mask, 200.0).requires_grad_()
    both = masked_softmax(leaf, mask), answer(leaf, mask)
    # The last term is 0, and carries a gradient where the answer is detached.
    sums = (weights.square().sum() + 0 * leaf.sum() for weights in both)
    right, got = (torch.autograd.grad(one, leaf)[0] for one in sums)
    if not bool(got.isfinite().all()):
        wanted = "set the row before the division, and closed scores before exp"
        raise CheckFailed(f"the gradient is NaN in an empty row or at a closed score: {wanted}")
    compare(got, right, "the gradient of the sum of squared weights")
    broken = scores.clone()
    broken[1, 0, 0] = torch.nan  # a row with two open keys, and this is one of them
    if not bool(answer(broken, mask)[1, 0].masked_select(mask[1, 0]).isnan().all()):
        wanted = "find the empty rows by the mask, and not by their NaN"
        raise CheckFailed(f"a NaN among the open scores disappears: {wanted}")
    refuse(answer, {"masked_softmax"}, "masked_softmax is the package's own: do without")


def _hard_cases(scores: Tensor, mask: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Scores and masks, by what a softmax that fails on them does wrong."""
    high, low = scores.masked_fill(~mask, 200.0), torch.where(mask, scores - 1e38, 1e38)
    far = torch.cat((scores[..., :1, :] - 300, scores[..., 1:, :]), dim=-2)
    return {
        "": (scores, mask),
        "one mask (4,) for all rows: ": (scores, mask[1, 0]),
        "a mask (2, 1, 4) for scores (2, 3, 4): ": (scores, mask[:, :1] & mask[:, 2:]),
        "scores of four axes, of which the last holds the keys: ": (scores[:, None], mask[:, None]),
        "open scores near 200 overflow (subtract each row's maximum): ": (scores + 200, mask),
        "open scores near -200 vanish (subtract each row's maximum): ": (scores - 200, mask),
        "a closed score of 200 decides its row (mask before the softmax): ": (high, mask),
        "one row lies far below the others (subtract each row's maximum): ": (far, mask),
        "open scores near -1e38 (fill with -inf; divide by a sum, take no log): ": (low, mask),
        "all scores near -1e38 (fill with -inf, and add nothing): ": (scores - 1e38, mask),
        "scores of 1e37 differ too (do not clamp them): ": (1e37 * scores, mask),
    }


@of_function
def dilated_window(answer: Any) -> None:
    """Keys i, i - d, i - 2d, …: as many as `window`."""
    for L, window, d in ((9, 3, 2), (10, 2, 3), (9, 4, 1), (5, 4, 3)):
        positions = torch.arange(L, device=get_device())
        back = positions[:, None] - positions  # (L, L): how far key j lies before query i
        steps, past, near = back % d == 0, back >= 0, back < window * d
        everywhere, few = steps & (back.abs() < window * d), steps & past & (back < window)
        many, right = steps & past & (back <= window * d), steps & past & near
        mistakes = {
            f"query 1 reads key 0: a dilation of {d} steps over it": past & (back < window),
            f"query 1 reads key 0, though 1 is no multiple of {d}": past & near,
            f"query 0 reads key {d}, which is in its future": everywhere,
            f"query {d} should read key 0: the keys span window * dilation": few,
            f"query {window * d} reads key 0, one key too many": many,
            "queries are rows and keys are columns: is the mask transposed?": right.mT,
            "query 0 should read key 0: is the mask inverted?": ~right,
        }
        case = f"L = {L}, window = {window}, dilation = {d}: "
        compare(answer(L, window, d), right, "the mask", mistakes, case)


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
    if not isinstance(answer, Sequence) or len(answer) != 3:
        raise CheckFailed("the answer should be a list of three: (i, t) for a leak, or None")
    (x,) = draw((1, 8, 4), seed=1)
    listed = [one.tolist() if hasattr(one, "tolist") else one for one in answer]
    for n, (layer, pair) in enumerate(zip(suspects(), listed, strict=True)):
        leaks = (influence(layer, x) > 1e-6).triu(1).nonzero().tolist()
        if (pair is None) == bool(leaks):
            words = "leaks: some output moves" if leaks else "is causal: no output moves"
            raise CheckFailed(f"layer {n} {words} when a later input does")
        if leaks and (not isinstance(pair, Sequence) or len(pair) != 2):
            raise CheckFailed(f"layer {n}: a leak should be a pair (i, t), got {pair!r}")
        if leaks and list(pair) not in leaks:
            raise CheckFailed(f"layer {n}: in {pair}, t must be later than i and move output i")
