"""Masks: which key a query may read (chapter 3).

A mask is a boolean tensor, `True` = may attend, that broadcasts to the scores (..., L, S). Masks
combine with `&`. Lengths are checked where a mask is made from them, and no value is read after
that: reading one makes a GPU wait.
"""

import math
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from attn_notes.arguments import (
    Device,
    check_bool,
    check_floating,
    check_integer_tensors,
    check_integers,
    check_mask,
    check_shapes,
)
from attn_notes.device import device_or_default, known_number

Lengths = Tensor | Sequence[int] | Sequence[Sequence[int]]


def padding_mask(lengths: Lengths, size: int, *, device: Device = None) -> Tensor:
    """True where a key is real, False where it is padding.

    Args:
        lengths: (B,), one length a sequence, or (B, L), one length a query; integers from 0 to
            `size`. A length of 0 gives an empty row. The values of a tensor are not checked in a
            compiled or exported graph, under `vmap` or on the meta device.
        size: S, the padded length of the keys.
        device: where the mask is made; by default where `lengths` is.

    Returns:
        (B, 1, S) for lengths (B,), or (B, L, S) for lengths (B, L), bool.

    Example:
        >>> padding_mask([2, 3], size=3)[:, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    lengths = _checked_lengths(lengths, size, device)
    if lengths.dim() == 1:
        lengths = lengths[:, None]  # (B, 1): the same length for every query
    keys = torch.arange(size, device=lengths.device)
    return keys < lengths[..., None]  # (B, 1 or L, S)


def causal_mask(L: int, S: int | None = None, *, offset: int = 0, device: Device = None) -> Tensor:
    """True where key j is not in the future of query i: j <= i + offset.

    Args:
        L: the number of queries.
        S: the number of keys; L by default.
        offset: how many keys came before query 0. With a cache it is the cached length, so
            that one new query sees all the old keys.
        device: where the mask is made; torch's default device by default.

    Returns:
        (L, S), bool.

    Example:
        >>> causal_mask(2, 4, offset=2).int()
        tensor([[1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)
    """
    return relative_positions(L, S, offset=offset, device=device) >= 0


def and_causal(
    mask: Tensor | None, L: int, S: int, *, offset: int = 0, device: Device = None
) -> Tensor | None:
    """What both the mask (None: everything) and `causal_mask` allow; None is everything again."""
    if mask is not None:
        check_bool(mask)
    if offset + 1 >= S:  # a decoding step: not even the first query has a later key
        return mask
    causal = causal_mask(L, S, offset=offset, device=device)  # (L, S)
    return causal if mask is None else mask & causal


def and_bias(mask: Tensor | None, bias: Tensor, axes: int) -> Tensor:
    """What the mask (None: everything) and a bias above minus infinity allow, of so many axes."""
    is_open = (bias != -math.inf).view((1,) * (axes - bias.dim()) + bias.shape)
    return is_open if mask is None else mask & is_open


def relative_positions(
    L: int, S: int | None = None, *, offset: int = 0, device: Device = None
) -> Tensor:
    """How many positions key j lies before query i, i + offset - j: (L, S), int64."""
    S = L if S is None else S
    check_integers(0, L=L, S=S)
    check_integers(offset=offset)
    queries = torch.arange(L, device=device) + offset
    return queries[:, None] - torch.arange(S, device=device)


def sliding_window_mask(
    L: int, S: int | None = None, *, window: int, offset: int = 0, device: Device = None
) -> Tensor:
    """True where key j is one of the last `window` keys up to query i's own position.

    Chapter 3; the window of Longformer (Beltagy et al., 2020), one-sided. A window is 1 or more: a
    query sees itself. The other arguments are those of `causal_mask`.

    Example:
        >>> sliding_window_mask(3, window=2).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)
    """
    check_integers(1, window=window)  # a query sees itself
    distance = relative_positions(L, S, offset=offset, device=device)
    return (distance >= 0) & (distance < window)


def prefix_mask(
    L: int, S: int | None = None, *, prefix: int, offset: int = 0, device: Device = None
) -> Tensor:
    """Causal, but for the first `prefix` keys, which every query sees.

    Chapter 3; the prefix language model of T5 (Raffel et al., 2020). A prefix of 0 is causal, one
    of S or more masks nothing. The other arguments are those of `causal_mask`.

    Example:
        >>> prefix_mask(3, prefix=2).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    check_integers(0, prefix=prefix)
    mask = causal_mask(L, S, offset=offset, device=device)
    mask[:, :prefix] = True
    return mask


def block_mask(query_segments: Tensor, key_segments: Tensor | None = None) -> Tensor:
    """True where query and key belong to the same segment, as in packed sequences.

    Integers name each position's segment: (..., L), and (..., S), by default the queries' own.

    Example:
        >>> block_mask(torch.tensor([0, 0, 1])).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """
    if key_segments is None:
        key_segments = query_segments
    check_integer_tensors(query_segments=query_segments, key_segments=key_segments)
    check_shapes(query_segments=(query_segments, "... L"), key_segments=(key_segments, "... S"))
    return query_segments[..., :, None] == key_segments[..., None, :]


def pair_mask(
    query_lengths: Lengths, key_lengths: Lengths, L: int, S: int, *, device: Device = None
) -> Tensor:
    """True where query and key are real: the outer product of two padding masks, (B, L, S).

    The lengths (B,) are as in `padding_mask`. A padded query has an empty row, and its output is 0.

    Example:
        >>> pair_mask([1], [2], L=2, S=3).int()
        tensor([[[1, 1, 0],
                 [0, 0, 0]]], dtype=torch.int32)
    """
    queries = padding_mask(query_lengths, L, device=device)  # (B, 1, L)
    keys = padding_mask(key_lengths, S, device=device)  # (B, 1, S)
    if queries.shape[:-1] != keys.shape[:-1] or keys.shape[1] != 1:
        got = f"masks {tuple(queries.shape)} and {tuple(keys.shape)}"
        raise ValueError(f"query_lengths and key_lengths must both have shape (B,), got {got}")
    return queries.transpose(-2, -1) & keys  # (B, L, S)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Softmax over the keys that may be read: masked keys get 0, empty rows are all 0.

    A masked score becomes $-\infty$, whose exponential is exactly 0 in every dtype. A row with
    nothing left would be 0/0, which is NaN; it is defined as 0 here, and its gradient as 0.

    Args:
        scores: (..., L, S), floating point.
        mask: bool, `True` = may attend, broadcastable to the scores; without one, scores of
            $-\infty$ are masked. Three axes on scores of four are refused: they would line the
            batch up with the heads.

    Returns:
        Weights of the scores' shape and dtype. Each row sums to 1, or to 0 where it is empty.

    Example:
        >>> scores = torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]])
        >>> masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    check_floating(scores=scores)
    mask = scores != -math.inf if mask is None else mask
    check_mask(mask, scores.shape)
    some = mask.any(-1, keepdim=True)  # (..., L, 1), whether a row has a key
    # In an empty row any finite scores will do: its weights become 0.
    masked = torch.where(some, -math.inf, 0.0).to(scores.dtype)
    return torch.where(mask, scores, masked).softmax(-1) * some  # (..., L, S)


def softmax_in_place(scores: Tensor) -> Tensor:
    """Softmax over all keys, in the memory of the scores where no gradient is recorded."""
    if not torch.is_grad_enabled():
        with suppress(RuntimeError):  # vmap and forward differentiation know no `out`
            return torch.softmax(scores, -1, out=scores)
    return scores.softmax(-1)


def _checked_lengths(lengths: Lengths, size: int, device: Device) -> Tensor:
    """The lengths as an integer tensor of one or two axes, their values checked if readable."""
    check_integers(0, size=size)
    if not isinstance(lengths, Tensor):
        device = device_or_default(device)
        # On the CPU, where their values are read without waiting for a GPU.
        lengths = torch.as_tensor(lengths, device="cpu")
    if lengths.dim() not in (1, 2):
        raise ValueError(f"lengths must have shape (B,) or (B, L), got {tuple(lengths.shape)}")
    if lengths.numel():  # an empty list has become floating point
        check_integer_tensors(lengths=lengths)
        low, high = map(known_number, lengths.aminmax())
        if low is not None and high is not None and (low < 0 or high > size):
            got = f"got values from {low} to {high}"
            raise ValueError(f"lengths must be from 0 to the size {size}, {got}")
    return lengths if device is None else lengths.to(device)
