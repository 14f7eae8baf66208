"""Saying what is probable, rather than what is most probable (chapter 8)."""

import math

import torch
from torch import Tensor

from attn_notes.decoding.protocol import Decodable, Decoded
from attn_notes.decoding.steps import say

__all__ = ["sample", "sampling_distribution"]


def sampling_distribution(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    r"""The probabilities that the next token is drawn with.

    $\mathrm{softmax}(\text{logits}/\tau)$; of it the `top_k` most probable tokens (Fan et al.,
    2018); of those the fewest, the most probable first, whose share of what was kept reaches
    `top_p` (nucleus sampling: Holtzman et al., 2020). What is cut gets 0, and the rest sums to 1.
    Among equals the lower id goes first: exactly `top_k` are kept, and no token more than the
    nucleus needs. Chapter 8.

    Args:
        logits: (..., V), floating point; minus infinity for what is never to be said.
        temperature: τ, above 0: towards 0 the most probable token alone, 1 as the model says,
            larger all tokens alike.
        top_k: 1 or more, or None to keep all; so does any number from V on.
        top_p: above 0 and at most 1, or None to keep all. The most probable token always stays.

    Returns:
        (..., V), float32 at least; NaN where the logits hold NaN or infinity, or no token may be
        said.

    Raises:
        TypeError: logits that are not floating point, or a setting that is no such number.
        ValueError: a temperature that is 0, negative or not finite, a `top_k` below 1, a `top_p`
            outside its range, or logits of no token.

    Example:
        >>> logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
        >>> sampling_distribution(logits, top_k=2)
        tensor([0.0000, 0.0000, 0.4286, 0.5714])
        >>> sampling_distribution(logits, top_p=0.65)
        tensor([0.0000, 0.0000, 0.4286, 0.5714])
    """
    _check_choices(temperature, top_k, top_p)
    _check_logits(logits)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    limits = torch.finfo(logits.dtype)  # outside them 0 / τ and -inf / τ would not be numbers
    below_best = logits - logits.amax(-1, keepdim=True)  # a small τ makes it -inf, but never inf
    probabilities = (below_best / min(max(temperature, limits.tiny), limits.max)).softmax(-1)
    if top_k is None and top_p is None:
        return probabilities
    # In the order of the logits: among probabilities rounding can make equals of any two.
    ids = logits.argsort(dim=-1, descending=True, stable=True)
    kept = probabilities.gather(-1, ids)
    if top_k is not None:
        kept = _renormalised(kept, torch.arange(kept.shape[-1], device=kept.device) < top_k)
    if top_p is not None:
        # A token is needed if those before it do not reach p: if it and the rest exceed 1 - p.
        rest = kept.flip(-1).cumsum(-1).flip(-1)  # (..., V), exact where it is small
        needed = rest > 1 - top_p
        needed[..., :1] = True
        kept = _renormalised(kept, needed)
    return torch.zeros_like(kept).scatter(-1, ids, kept)


def sample(
    model: Decodable,
    source: Tensor,
    lengths: Tensor,
    *,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Decoded:
    """At each step a token drawn at random from `sampling_distribution`, until END. Chapter 8.

    A uniform number for each row picks the token at which the cumulative probability, in the
    order of the ids, passes it. The numbers are drawn on the CPU, one for every row at every
    step, so that a seed gives the same text wherever the model is; but to a row among others it
    gives other numbers than to that row alone.

    Args:
        model: see `Decodable`; in evaluation mode while this runs.
        source: (B, S), token ids.
        lengths: (B,), how many of them are real.
        max_length: the most tokens a sequence may get, END included; 1 or more.
        temperature: as in `sampling_distribution`.
        top_k: as in `sampling_distribution`.
        top_p: as in `sampling_distribution`.
        generator: of the CPU; torch's own by default.

    Returns:
        The sequences, T <= `max_length`; `log_probs` are those of the model itself, as in `greedy`:
        temperature and cuts change what is said, and not what the model thinks of it.

    Raises:
        TypeError: as in `sampling_distribution`.
        ValueError: as in `sampling_distribution`, a `max_length` below 1, a generator of another
            device, or logits that are not numbers.

    Example:
        >>> class Same:  # a model to which all five tokens are equal, whatever the source
        ...     def start(self, source, lengths):
        ...         return None
        ...     def step(self, tokens, state):
        ...         return torch.zeros(len(tokens), 5), state
        >>> source, lengths = torch.tensor([[4]]), torch.tensor([1])
        >>> generator = torch.Generator().manual_seed(0)
        >>> sample(Same(), source, lengths, max_length=9, generator=generator).tokens
        tensor([[3, 4, 2]])
    """
    _check_choices(temperature, top_k, top_p)
    if generator is not None and generator.device.type != "cpu":
        raise ValueError(f"generator must be of the CPU, got one of {generator.device}")

    def draw(log_probs: Tensor) -> Tensor:
        probabilities = sampling_distribution(
            log_probs, temperature=temperature, top_k=top_k, top_p=top_p
        )
        uniform = torch.rand(len(log_probs), 1, generator=generator, device="cpu")
        return _at_quantile(probabilities, uniform.to(log_probs.device))

    return say(model, source, lengths, max_length=max_length, choose=draw)


def _at_quantile(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The first id at which the cumulative probability (B, V) exceeds a number (B, 1) below 1."""
    reached = probabilities.cumsum(-1).masked_fill(probabilities == 0, 0.0)
    # Times the sum, which rounding may have left a little beside 1: an id is always found.
    return (reached > uniform * reached.amax(-1, keepdim=True)).byte().argmax(-1)


def _renormalised(probabilities: Tensor, keep: Tensor) -> Tensor:
    """The probabilities (..., V) of what is kept, which sum to 1 again."""
    kept = probabilities * keep
    return kept / kept.sum(-1, keepdim=True)


def _check_choices(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raise unless these say from what to draw."""
    if not isinstance(temperature, int | float):
        raise TypeError(f"temperature must be a number, got {temperature!r}")
    if not (temperature > 0 and math.isfinite(temperature)):
        zero = ": 0 would be greedy" if temperature == 0 else ""
        raise ValueError(f"temperature must be a finite number above 0, got {temperature}{zero}")
    if not isinstance(top_k, int | None) or isinstance(top_k, bool):
        raise TypeError(f"top_k must be an integer or None, got {top_k!r}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, or None to keep all, got {top_k}")
    if not isinstance(top_p, int | float | None):
        raise TypeError(f"top_p must be a number or None, got {top_p!r}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, or None to keep all, got {top_p}")


def _check_logits(logits: Tensor) -> None:
    """Raise unless there is a number for each token, and a token."""
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating point, got {logits.dtype}")
    if logits.dim() < 1 or not logits.shape[-1]:
        shape = tuple(logits.shape)
        raise ValueError(f"logits must have shape (..., V) with V of 1 or more, got {shape}")
