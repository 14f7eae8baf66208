"""Masks: which key a query may read (chapter 3).

A mask is a boolean tensor, `True` = may attend, that broadcasts to the scores (..., L, S).
Masks combine with `&`. Their values are checked here, where they are made, and never inside
an attention call: reading a value there would make a GPU wait.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_notes.arguments import check_integer_tensors, check_integers

__all__ = [
    "and_causal",
    "block_mask",
    "causal_mask",
    "check_broadcast",
    "check_mask",
    "masked_softmax",
    "padding_mask",
    "pair_mask",
    "prefix_mask",
    "relative_positions",
    "sliding_window_mask",
]

Lengths = Tensor | Sequence[int] | Sequence[Sequence[int]]


def padding_mask(
    lengths: Lengths, size: int, *, device: torch.device | str | None = None
) -> Tensor:
    """True where a key is real, False where it is padding.

    Args:
        lengths: (B,), one length a sequence, or (B, L), one length a query; integers from 0 to
            `size`. A length of 0 gives an empty row.
        size: S, the padded length of the keys.
        device: where the mask is made; by default where `lengths` is.

    Returns:
        (B, 1, S) for lengths (B,), or (B, L, S) for lengths (B, L), bool.

    Raises:
        TypeError: lengths, or a size, that are not integers.
        ValueError: a negative length, one beyond `size`, or another number of axes.

    Example:
        >>> padding_mask([2, 3], size=3).int()
        tensor([[[1, 1, 0]],
        <BLANKLINE>
                [[1, 1, 1]]], dtype=torch.int32)
    """
    lengths = _check_lengths(lengths, size, "lengths", device)
    if lengths.dim() not in (1, 2):
        raise ValueError(f"lengths must have shape (B,) or (B, L), got {tuple(lengths.shape)}")
    if lengths.dim() == 1:
        lengths = lengths[:, None]  # (B, 1): the same length for every query
    return torch.arange(size, device=lengths.device) < lengths[..., None]  # (B, 1 or L, S)


def causal_mask(
    L: int, S: int | None = None, *, offset: int = 0, device: torch.device | str | None = None
) -> Tensor:
    """True where key j is not in the future of query i: j <= i + offset.

    Args:
        L: number of queries.
        S: number of keys; `L` by default.
        offset: how many keys came before query 0. With a cache it is the cached length, so
            that one new query sees all the old keys.
        device: where the mask is made; torch's default device by default.

    Returns:
        (L, S), bool.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: a negative size.

    Example:
        >>> causal_mask(2, 4, offset=2).int()
        tensor([[1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)
    """
    return relative_positions(L, S, offset=offset, device=device) >= 0


def and_causal(
    mask: Tensor | None,
    L: int,
    S: int,
    *,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Tensor | None:
    """What `mask` allows, and of that no key in the future of its query.

    Args:
        mask: bool, `True` = may attend, broadcastable to (..., L, S); None allows everything.
        L: number of queries.
        S: number of keys.
        offset: as in `causal_mask`.
        device: as in `causal_mask`; where `mask` is.

    Returns:
        A mask that broadcasts to (..., L, S); None where nothing is left to forbid.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: a negative size.

    Example:
        >>> and_causal(torch.tensor([True, False, True]), 2, 3, offset=1).int()
        tensor([[1, 0, 0],
                [1, 0, 1]], dtype=torch.int32)
    """
    if offset + 1 >= S:  # not even the first query has a later key: a step of decoding
        return mask
    causal = causal_mask(L, S, offset=offset, device=device)  # (L, S)
    return causal if mask is None else mask & causal


def relative_positions(
    L: int, S: int | None = None, *, offset: int = 0, device: torch.device | str | None = None
) -> Tensor:
    """How many positions key j lies before query i: i + offset - j, negative where after it.

    Args:
        L: number of queries.
        S: number of keys; `L` by default.
        offset: as in `causal_mask`: the position of query 0.
        device: as in `causal_mask`.

    Returns:
        (L, S), int64.

    Raises:
        TypeError: a size or an offset that is not an integer.
        ValueError: a negative size.

    Example:
        >>> relative_positions(2, 3, offset=1)
        tensor([[ 1,  0, -1],
                [ 2,  1,  0]])
    """
    S = L if S is None else S
    check_integers(0, L=L, S=S)
    check_integers(offset=offset)
    queries = torch.arange(L, device=device) + offset
    return queries[:, None] - torch.arange(S, device=device)


def sliding_window_mask(
    L: int,
    S: int | None = None,
    *,
    window: int,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """True where key j is one of the last `window` keys up to query i's own position.

    Chapter 3; the window of Longformer (Beltagy et al., 2020), one-sided.

    Args:
        L: number of queries.
        S: number of keys; `L` by default.
        window: how many keys a query sees, its own included; 1 or more.
        offset: as in `causal_mask`.
        device: as in `causal_mask`.

    Returns:
        (L, S), bool.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: a negative size, or a window below 1.

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
    L: int,
    S: int | None = None,
    *,
    prefix: int,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Causal, but for the first `prefix` keys, which every query sees.

    Chapter 3; the prefix language model of T5 (Raffel et al., 2020).

    Args:
        L: number of queries.
        S: number of keys; `L` by default.
        prefix: how many keys are open to all; from 0 (causal) to S (no mask).
        offset: as in `causal_mask`.
        device: as in `causal_mask`.

    Returns:
        (L, S), bool.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: a negative size, or a prefix outside 0 to S.

    Example:
        >>> prefix_mask(3, prefix=2).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    check_integers(prefix=prefix)
    mask = causal_mask(L, S, offset=offset, device=device)
    if not 0 <= prefix <= mask.shape[-1]:
        raise ValueError(f"prefix must be from 0 to S = {mask.shape[-1]}, got {prefix}")
    mask[:, :prefix] = True
    return mask


def block_mask(query_segments: Tensor, key_segments: Tensor | None = None) -> Tensor:
    """True where query and key belong to the same segment, as in packed sequences.

    Args:
        query_segments: (..., L), integers that name each position's segment.
        key_segments: (..., S); the queries' own by default.

    Returns:
        (..., L, S), bool.

    Raises:
        TypeError: segments that are not integers.
        ValueError: leading axes that differ, or no axis at all.

    Example:
        >>> block_mask(torch.tensor([0, 0, 1])).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """
    if key_segments is None:
        key_segments = query_segments
    check_integer_tensors(query_segments=query_segments, key_segments=key_segments)
    shapes = tuple(query_segments.shape), tuple(key_segments.shape)
    if () in shapes or query_segments.shape[:-1] != key_segments.shape[:-1]:
        raise ValueError(
            "query_segments (..., L) and key_segments (..., S) must share their leading axes, got "
            f"{shapes[0]} and {shapes[1]}"
        )
    return query_segments[..., :, None] == key_segments[..., None, :]


def pair_mask(
    query_lengths: Lengths,
    key_lengths: Lengths,
    L: int,
    S: int,
    *,
    device: torch.device | str | None = None,
) -> Tensor:
    """True where both the query and the key are real: the outer product of two padding masks.

    Args:
        query_lengths: (B,), integers from 0 to `L`.
        key_lengths: (B,), integers from 0 to `S`.
        L: padded number of queries.
        S: padded number of keys.
        device: where the mask is made; by default where the lengths are.

    Returns:
        (B, L, S), bool. A padded query has an empty row, and its output is 0.

    Raises:
        TypeError: lengths, or a size, that are not integers.
        ValueError: lengths out of range, or of different batches.

    Example:
        >>> pair_mask([1], [2], L=2, S=3).int()
        tensor([[[1, 1, 0],
                 [0, 0, 0]]], dtype=torch.int32)
    """
    check_integers(0, L=L, S=S)
    query_lengths = _check_lengths(query_lengths, L, "query_lengths", device)
    key_lengths = _check_lengths(key_lengths, S, "key_lengths", device)
    if query_lengths.dim() != 1 or query_lengths.shape != key_lengths.shape:
        raise ValueError(
            "query_lengths and key_lengths must both have shape (B,), got "
            f"{tuple(query_lengths.shape)} and {tuple(key_lengths.shape)}"
        )
    queries = padding_mask(query_lengths, L)  # (B, 1, L)
    keys = padding_mask(key_lengths, S)  # (B, 1, S)
    return queries.transpose(-2, -1) & keys  # (B, L, S)


def masked_softmax(scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
    r"""Softmax over the keys that may be read: masked keys get 0, empty rows are all 0.

    A masked score becomes $-\infty$, whose exponential is exactly 0 in every dtype. A row with
    nothing left would be 0/0, which is NaN; it is defined as 0 here, and its gradient as 0.

    Args:
        scores: (..., L, S), floating point. A score of $-\infty$ counts as masked.
        mask: bool, `True` = may attend, broadcastable to the scores; None masks nothing.
        dim: the axis of the keys.

    Returns:
        Weights of the scores' shape and dtype: every row sums to 1, or to 0 where it is empty.

    Raises:
        TypeError: a mask that is not bool, or scores that are not floating point.
        ValueError: a mask that does not broadcast to the scores, or one of three axes on
            scores of four (it would line the batch up with the heads).

    Example:
        >>> scores = torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]])
        >>> masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating point, got {scores.dtype}")
    if mask is not None:
        check_mask(mask, scores.shape)
        scores = scores.masked_fill(~mask, float("-inf"))
    if scores.numel() == 0:
        return scores  # no weight to give, and no largest score
    empty = scores.amax(dim, keepdim=True) == float("-inf")
    # Any finite row will do for an empty one: the second fill throws its weights away, and
    # stops its gradient too.
    return scores.masked_fill(empty, 0.0).softmax(dim).masked_fill(empty, 0.0)


def check_mask(mask: Tensor, shape: torch.Size, *, of: str = "scores") -> None:
    """Raise unless `mask` is a bool tensor that broadcasts to scores of this shape.

    Args:
        mask: what a caller handed in as `mask` or `attn_mask`.
        shape: (..., L, S), the shape of the scores.
        of: what the message calls them, where the caller handed in something else.

    Raises:
        TypeError: a mask that is not a bool tensor.
        ValueError: a mask that does not broadcast, or three axes against four.

    Example:
        >>> check_mask(torch.ones(3, 4), torch.Size([3, 4]))
        Traceback (most recent call last):
        TypeError: mask must be a bool tensor (True = may attend), got torch.float32
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a bool tensor (True = may attend), got {got}")
    if mask.dim() == 3 and len(shape) == 4:
        raise ValueError(
            f"mask must have its head axis beside {of} (B, H, L, S): index it with "
            f"mask[:, None]; got mask {tuple(mask.shape)} and {of} {tuple(shape)}"
        )
    check_broadcast("mask", mask, shape, of=of)


def check_broadcast(name: str, tensor: Tensor, shape: torch.Size, *, of: str = "scores") -> None:
    """Raise unless `tensor` broadcasts to scores of this shape without widening them.

    Args:
        name: what the message calls the tensor.
        tensor: a mask or a bias.
        shape: (..., L, S), the shape of the scores.
        of: what the message calls them, where the caller handed in something else.

    Raises:
        ValueError: more axes than the scores, or an axis that is neither 1 nor theirs.

    Example:
        >>> check_broadcast("attn_bias", torch.zeros(2, 3), torch.Size([4, 3]))
        Traceback (most recent call last):
        ValueError: attn_bias must broadcast to the scores, got attn_bias (2, 3) and scores (4, 3)
    """
    sizes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    if tensor.dim() > len(shape) or any(t not in (1, s) for t, s in sizes):
        raise ValueError(
            f"{name} must broadcast to the {of}, got {name} {tuple(tensor.shape)} "
            f"and {of} {tuple(shape)}"
        )


def _check_lengths(
    lengths: Lengths, size: int, name: str, device: torch.device | str | None
) -> Tensor:
    """`lengths` as an integer tensor, its values checked (unless it is a meta tensor).

    They are checked where they come from, and moved then: to read them back from a GPU would make
    it wait.
    """
    check_integers(0, size=size)
    if not isinstance(lengths, Tensor):
        device = torch.get_default_device() if device is None else device
        try:
            lengths = torch.as_tensor(lengths, device="cpu")
        except (TypeError, ValueError, RuntimeError):  # strings, None, rows of several lengths
            raise TypeError(
                f"{name} must be integers, as many in each row, got {lengths}"
            ) from None
    if lengths.numel():  # an empty list has become floating point
        check_integer_tensors(**{name: lengths})
    if lengths.numel() and not lengths.is_meta:
        low, high = (int(bound) for bound in lengths.aminmax())
        if low < 0 or high > size:
            raise ValueError(
                f"{name} must be from 0 to the size {size}, got values from {low} to {high}"
            )
    return lengths if device is None else lengths.to(device)
