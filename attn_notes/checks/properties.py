"""What must hold of an attention layer, tried out by changing its input (chapters 3 and on).

A shape test passes on a layer that reads the future. These checks change one thing that must
not matter and look at the output.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from attn_notes.arguments import check_mask
from attn_notes.masks import padding_mask

__all__ = [
    "CheckFailed",
    "check_causal",
    "check_padding_invariant",
    "check_permutation_equivariant",
    "check_small",
    "check_weights",
    "influence",
    "noise_source",
]

Layer = Callable[[Tensor], Tensor]
Describe = Callable[[tuple[int, ...], str], str]


class CheckFailed(AssertionError):
    """A property does not hold; the message names the position and the size of the difference."""


def influence(layer: Layer, x: Tensor, *, seed: int = 0) -> Tensor:
    """How much each output position moves when one input position is changed.

    Chapter 3. Row i, column t: the largest change of output i when input t, and nothing else,
    is replaced by noise. Read like a heatmap of weights, but measured: it also shows what a
    picture of the weights hides.

    Args:
        layer: maps (..., L, E) to (..., L, E'), without randomness of its own.
        x: (..., L, E), the input to start from; it is not changed.
        seed: of the noise.

    Returns:
        (L, L), 0 or more; exactly 0 where nothing flows from t to i.

    Raises:
        TypeError: an input that is not floating point, such as token ids: noise has no integers.
        ValueError: an input of fewer than two axes or without an entry, or a layer that changes
            the length.

    Example:
        >>> running_sum = lambda x: x.cumsum(-2)
        >>> (influence(running_sum, torch.zeros(3, 1)) > 0).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    if x.dim() < 2 or x.numel() == 0:
        raise ValueError(f"x must have shape (..., L, E), none of them 0, got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"x must be floating point, got {x.dtype}")
    with torch.no_grad():
        before = _output(layer, x)
        columns = [
            _largest((layer(_with_noise(x, t, seed)) - before).abs()) for t in range(x.shape[-2])
        ]
    return torch.stack(columns, dim=-1)  # (L, L): output position, input position


def check_causal(layer: Layer, x: Tensor, *, atol: float = 1e-6, seed: int = 0) -> None:
    """No output position depends on a later input position. Chapter 3.

    Args:
        layer: maps (..., L, E) to (..., L, E').
        x: (..., L, E).
        atol: the largest change that passes for none.
        seed: of the noise.

    Raises:
        CheckFailed: an earlier output moved when a later input was changed.

    Example:
        >>> check_causal(lambda x: x.cumsum(-2), torch.zeros(3, 1))
    """
    leak = influence(layer, x, seed=seed).triu(1)  # what flows from t to an earlier i
    check_small(
        leak,
        atol,
        lambda at, size: f"output {at[0]} changes by {size} when only the later input {at[1]} does",
    )


def check_permutation_equivariant(
    layer: Layer, x: Tensor, *, atol: float = 1e-5, seed: int = 0
) -> None:
    """Permuting the input permutes the output alike: the layer knows no order. Chapter 6.

    Args:
        layer: maps (..., L, E) to (..., L, E').
        x: (..., L, E).
        atol: the largest difference that passes for none.
        seed: of the permutation.

    Raises:
        CheckFailed: the permuted output differs from the output of the permuted input.
        ValueError: an input of fewer than two axes, or a layer that changes the length.

    Example:
        >>> check_permutation_equivariant(lambda x: x - x.mean(-2, keepdim=True), torch.rand(5, 2))
    """
    if x.dim() < 2:
        raise ValueError(f"x must have shape (..., L, E), got {tuple(x.shape)}")
    cycle = torch.randperm(x.shape[-2], generator=noise_source(seed)).to(x.device)
    order = cycle.roll(1)[cycle.argsort()]  # one cycle: every position moves
    with torch.no_grad():
        before = _output(layer, x)
        difference = _largest((layer(x[..., order, :]) - before[..., order, :]).abs())
    check_small(
        difference,
        atol,
        lambda at, size: f"permuting the input changes the output at position {at[0]} by {size}",
    )


def check_padding_invariant(
    layer: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    lengths: Tensor,
    *,
    atol: float = 1e-5,
    seed: int = 0,
) -> None:
    """What stands in the padding, and how much of it there is, does not matter. Chapter 3.

    Args:
        layer: maps (B, L, E) and lengths (B,) to (B, L, E'), for any padded length L.
        x: (B, L, E), or token ids (B, L), whose padding is replaced by other ids among them.
        lengths: (B,), how many positions of each sequence are real.
        atol: the largest change that passes for none.
        seed: of the noise.

    Raises:
        CheckFailed: a real position's output moved.
        TypeError: lengths that are not integers.
        ValueError: lengths that are not (B,), or not from 0 to L.

    Example:
        >>> def mean(x, lengths):
        ...     real = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        ...     return (x * real).sum(1, keepdim=True) / lengths[:, None, None] * real
        >>> check_padding_invariant(mean, torch.rand(2, 4, 3), torch.tensor([2, 4]))
    """
    real = padding_mask(lengths, x.shape[1], device=x.device)[:, 0]  # (B, L)
    if real.shape != x.shape[:2]:
        raise ValueError(
            f"lengths must have shape (B,), got {tuple(lengths.shape)} and x {tuple(x.shape)}"
        )
    if x.is_floating_point():
        noise = torch.randn(x.shape, generator=noise_source(seed)).to(x)
    else:  # token ids: any of them may stand in the padding
        draw = torch.randint(x.numel(), x.shape, generator=noise_source(seed)).to(x.device)
        noise = x.flatten()[draw]
    other = torch.where(real.view(*real.shape, *[1] * (x.dim() - 2)), x, noise)
    longer = torch.cat((x, noise[:, :1]), dim=1)
    with torch.no_grad():
        before = layer(x.clone(), lengths)
        for name, padded in (("other", other), ("more", longer)):
            after = layer(padded, lengths)[:, : x.shape[1]]
            change = (after - before).abs().amax(-1).masked_fill(~real, 0.0)  # (B, L)
            check_small(change, atol, _at_sequence(name))


def check_weights(weights: Tensor, mask: Tensor | None = None, *, atol: float = 1e-5) -> None:
    """Rows of weights sum to 1, or to 0 where empty; masked keys have exactly 0. Chapter 3.

    Args:
        weights: (..., L, S).
        mask: bool, `True` = may attend, broadcastable to the weights.
        atol: how far from 1 a sum may be.

    Raises:
        CheckFailed: a weight that is negative or not a number, a masked key with a weight, or
            a row with another sum.
        TypeError: a mask that is not bool.
        ValueError: a mask that does not broadcast to the weights.

    Example:
        >>> check_weights(torch.tensor([[0.5, 0.5]]), torch.tensor([[True, False]]))
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: row 0 attends to key 1, which is masked: 0.5
    """
    if mask is None:
        mask = torch.ones_like(weights, dtype=torch.bool)
    check_mask(mask, weights.shape, of="weights")
    if not bool((weights >= 0).all()):
        raise CheckFailed("weights must be numbers of 0 or more")
    allowed = mask.expand_as(weights)
    check_small(
        weights.masked_fill(allowed, 0.0),
        0.0,
        lambda at, size: f"row {at[-2]} attends to key {at[-1]}, which is masked: {size}",
    )
    target = allowed.any(-1).to(weights.dtype)  # 1, or 0 for an empty row
    check_small(
        (weights.sum(-1) - target).abs(),
        atol,
        lambda at, size: f"row {at[-1]} must sum to 1 (to 0 if empty), and is off by {size}",
    )


def noise_source(seed: int) -> torch.Generator:
    """A generator that shares no seed with the reader: noise equal to `x` would change nothing.

    Args:
        seed: any.

    Returns:
        A generator of the CPU.

    Example:
        >>> torch.rand(1, generator=noise_source(0)) == torch.rand(1, generator=noise_source(0))
        tensor([True])
    """
    return torch.Generator().manual_seed(seed + 7_919_000)


def _output(layer: Layer, x: Tensor) -> Tensor:
    """What the layer makes of `x`: as many positions, or there is nothing to compare."""
    output = layer(x.clone())  # a layer may work in place
    if output.dim() < 2 or output.shape[-2] != x.shape[-2]:
        raise ValueError(
            "layer must keep the length (axis -2), got input "
            f"{tuple(x.shape)} and output {tuple(output.shape)}"
        )
    return output


def _with_noise(x: Tensor, position: int, seed: int) -> Tensor:
    """A copy of `x` whose row `position` is noise; the same noise at every position."""
    changed, generator = x.clone(), noise_source(seed)
    changed[..., position, :] = torch.randn(x[..., 0, :].shape, generator=generator).to(x)
    return changed


def _largest(change: Tensor) -> Tensor:
    """(L,): the largest entry at each position, over all other axes of (..., L, E)."""
    return change.transpose(-2, 0).flatten(1).amax(1)


def _at_sequence(name: str) -> Describe:
    """Describe a change of a real position under `name` padding."""
    return lambda at, size: (
        f"with {name} padding, the output of sequence {at[0]} changes by {size} at position {at[1]}"
    )


def check_small(difference: Tensor, atol: float, describe: Describe) -> None:
    """Raise at the largest entry of `difference` if it is beyond `atol`, or not a number.

    Args:
        difference: any shape, 0 or more.
        atol: the largest entry that passes.
        describe: makes the message of the entry's index and its size, in two digits.

    Raises:
        CheckFailed: an entry beyond `atol`, or NaN.

    Example:
        >>> check_small(torch.zeros(3), 0.0, lambda at, size: f"{at} is {size}")
    """
    if difference.numel() == 0:
        return
    # NaN compares false with everything, so ask what is small and not what is large.
    if bool((difference <= atol).all()):
        return
    worst = difference.nan_to_num(nan=float("inf")).argmax()
    at = tuple(int(i) for i in torch.unravel_index(worst, difference.shape))
    raise CheckFailed(describe(at, f"{difference[at].item():.2g}"))
