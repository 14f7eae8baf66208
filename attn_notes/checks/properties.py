"""What must hold of an attention layer, tested by changing its input (chapters 3 and on)."""

from collections.abc import Callable

import torch
from torch import Tensor

from attn_notes.arguments import check_mask, shapes_of
from attn_notes.masks import padding_mask

Layer = Callable[[Tensor], Tensor]


class CheckFailed(AssertionError):
    """A property does not hold; the message names the position and the size of the difference."""


def influence(layer: Layer, x: Tensor) -> Tensor:
    """How much each output position changes when one input position becomes noise. Chapter 3.

    The layer maps x (..., L, E) to (..., L, E'). Row i, column t of (L, L): the largest change of
    output i when input t changes.

    Example:
        >>> running_sum = lambda x: x.cumsum(-2)
        >>> (influence(running_sum, torch.zeros(3, 1)) > 0).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    if not x.is_floating_point():
        raise TypeError(f"x must be floating point, got {x.dtype}")
    noise = torch.randn(x[..., 0, :].shape, generator=noise_source(), device="cpu").to(x)
    columns = []
    with torch.no_grad():
        before = _output(layer, x)
        for t in range(x.shape[-2]):
            changed = x.clone()
            changed[..., t, :] = noise
            columns.append(_largest((layer(changed) - before).abs()))
    return torch.stack(columns, dim=-1)  # (L, L): output position, input position


def check_causal(layer: Layer, x: Tensor, *, atol: float = 1e-6) -> None:
    """No output position depends on a later input position. Chapter 3.

    The arguments are those of `influence`; a change up to `atol` is ignored.

    Example:
        >>> check_causal(lambda x: x.cumsum(-2), torch.zeros(3, 1))
    """
    leak = influence(layer, x).triu(1)  # what flows from t to an earlier i
    check_small(leak, atol, "output {} changes by {size} when only the later input {} does")


def check_padding_invariant(
    layer: Callable[[Tensor, Tensor], Tensor], x: Tensor, lengths: Tensor, *, atol: float = 1e-5
) -> None:
    """Neither the content of the padding nor its amount changes a real position. Chapter 3.

    The layer maps x, (B, L, E) or ids (B, L), and lengths (B,) to (B, L, E'), for any L.

    Example:
        >>> def mean(x, lengths):
        ...     real = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        ...     return (x * real).sum(1, keepdim=True) / lengths[:, None, None] * real
        >>> check_padding_invariant(mean, torch.rand(2, 4, 3), torch.tensor([2, 4]))
    """
    real = padding_mask(lengths, x.shape[1], device=x.device)[:, 0]  # (B, L)
    source = noise_source()
    if x.is_floating_point():
        noise = torch.randn(x.shape, generator=source, device="cpu").to(x)
    else:  # token ids: any of them may stand in the padding
        draw = torch.randint(x.numel(), x.shape, generator=source, device="cpu")
        noise = x.flatten()[draw.to(x.device)]
    other = torch.where(real.view(*real.shape, *[1] * (x.dim() - 2)), x, noise)
    longer = torch.cat((x, noise[:, :1]), dim=1)
    with torch.no_grad():
        before = layer(x.clone(), lengths)
        for name, padded in (("other", other), ("more", longer)):
            after = layer(padded, lengths)[:, : x.shape[1]]
            change = (after - before).abs().amax(-1).masked_fill(~real, 0.0)  # (B, L)
            words = "padding, the output of sequence {} changes by {size} at position {}"
            check_small(change, atol, f"with {name} {words}")


def check_weights(weights: Tensor, mask: Tensor | None = None, *, atol: float = 1e-5) -> None:
    """Rows of weights sum to 1, or to 0 where empty; masked keys have exactly 0. Chapter 3.

    Example:
        >>> check_weights(torch.tensor([[0.5, 0.5]]), torch.tensor([[True, False]]))
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: row 0 attends to key 1, which is masked: 0.5
    """
    mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    check_mask(mask, weights.shape, of="weights")
    if not bool((weights >= 0).all()):
        raise CheckFailed("weights must be numbers of 0 or more")
    allowed = mask.expand_as(weights)
    stray = weights.masked_fill(allowed, 0.0)
    check_small(stray, 0.0, "row {} attends to key {}, which is masked: {size}", axes=2)
    target = allowed.any(-1).to(weights.dtype)  # 1, or 0 for an empty row
    off = (weights.sum(-1) - target).abs()
    check_small(off, atol, "row {} must sum to 1 (to 0 if empty), and is off by {size}", axes=1)


def noise_source() -> torch.Generator:
    """One of the CPU, of no seed that a reader has: noise equal to `x` would change nothing."""
    return torch.Generator("cpu").manual_seed(7_919_000)


def check_small(difference: Tensor, atol: float, words: str, *, axes: int = 0) -> None:
    """Raise if an entry is beyond `atol` or NaN, with the largest one's (last) indices and size."""
    # NaN compares false with everything, so ask what is small and not what is large.
    if bool((difference <= atol).all()):
        return
    worst = difference.nan_to_num(nan=float("inf")).argmax()
    at = [int(i) for i in torch.unravel_index(worst, difference.shape)]
    raise CheckFailed(words.format(*at[-axes:], size=f"{difference.flatten()[worst].item():.2g}"))


def _output(layer: Layer, x: Tensor) -> Tensor:
    """The layer's output for a copy of `x`, since a layer may work in place; its length checked."""
    output = layer(x.clone())
    if output.dim() < 2 or output.shape[-2] != x.shape[-2]:
        got = shapes_of(input=x, output=output)
        raise ValueError(f"layer must keep the length (axis -2), got {got}")
    return output


def _largest(change: Tensor) -> Tensor:
    """(L,): the largest entry at each position, over all other axes of (..., L, E)."""
    return change.transpose(-2, 0).flatten(1).amax(1)
