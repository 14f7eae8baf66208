"""Sampling: drawing the next token from the model's distribution (chapter 9)."""

import math

import torch
from torch import Tensor

from attn_notes.arguments import check_fractions, check_integers, check_positive
from attn_notes.decoding.generate import generate
from attn_notes.decoding.protocol import Decodable, Decoded
from attn_notes.device import known_number


def sampling_distribution(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    r"""The distribution that the next token is drawn from. Chapter 9.

    $\mathrm{softmax}(\text{logits}/\tau)$; of it the `top_k` most probable tokens (Fan et al.,
    2018); of those the fewest, the most probable first, whose share of what was kept reaches
    `top_p` (nucleus sampling: Holtzman et al., 2020). The other tokens get 0, and the rest sums to
    1. Ties are broken in favour of the lower id, so exactly `top_k` tokens are kept.

    Args:
        logits: (..., V), floating point; minus infinity for tokens that are never drawn.
        temperature: τ, above 0: near 0 the most probable token alone, 1 the model's own
            distribution, larger a flatter one.
        top_k: 1 or more, or None to keep all.
        top_p: from 0 to 1, or None to keep all. The most probable token always stays.

    Returns:
        (..., V), float32 at least.

    Example:
        >>> logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
        >>> sampling_distribution(logits, top_k=2)
        tensor([0.0000, 0.0000, 0.4286, 0.5714])
    """
    check_positive(temperature=temperature)  # in place of 0, use `greedy`
    if top_k is not None:
        check_integers(1, top_k=top_k)
    if top_p is not None:
        check_fractions(top_p=top_p)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # Differences to the best are never above 0, so no small τ makes them inf.
    below_best = logits - logits.amax(-1, keepdim=True)
    limits = torch.finfo(logits.dtype)  # beyond them 0 / τ, -inf / τ are NaN
    temperature = min(max(temperature, limits.tiny), limits.max)
    probabilities = (below_best / temperature).softmax(-1)
    if math.isnan(known_number(probabilities.sum()) or 0.0):
        must = "logits must be numbers, and finite for at least one token"
        raise ValueError(f"{must}, got NaN or infinity")
    if top_k is None and top_p is None:
        return probabilities
    # Sort by the logits, since rounding can make any two probabilities equal.
    ids = logits.argsort(dim=-1, descending=True, stable=True)
    kept = probabilities.gather(-1, ids)
    if top_k is not None:
        rank = torch.arange(kept.shape[-1], device=kept.device)  # (V,)
        kept = _renormalised(kept, rank < min(top_k, len(rank)))
    if top_p is not None:
        # Keep a token if those before it do not reach p, that is, if it and
        # those after it exceed 1 - p: their sum is exact where it is small.
        rest = kept.flip(-1).cumsum(-1).flip(-1)  # (..., V)
        needed = rest > 1 - top_p
        needed[..., :1] = True
        kept = _renormalised(kept, needed)
    return torch.zeros_like(kept).scatter(-1, ids, kept)


def sample(
    model: Decodable,
    source: Tensor,
    lengths: Tensor | None = None,
    *,
    max_length: int,
    generator: torch.Generator | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Decoded:
    """At each step a token drawn from `sampling_distribution`, until END. Chapter 9.

    A uniform number for each row selects the first token, in the order of the ids, at which the
    cumulative probability exceeds it. The numbers are drawn on the CPU, one per row and step, so a
    seed gives the same text on every device; a row's text depends on its place in the batch.

    The arguments are those of `generate` and of `sampling_distribution`; the generator is one of
    the CPU, by default torch's own. `log_probs` are the model's own, whatever the temperature and
    the cuts.
    """

    def draw(log_probs: Tensor) -> Tensor:
        probabilities = sampling_distribution(
            log_probs, temperature=temperature, top_k=top_k, top_p=top_p
        )
        uniform = torch.rand(len(log_probs), 1, generator=generator, device="cpu")
        return _at_quantile(probabilities, uniform.to(log_probs.device))

    return generate(model, source, lengths, max_length=max_length, choose=draw)


def _at_quantile(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The first id at which the cumulative probability (B, V) exceeds a number (B, 1) below 1."""
    reached = probabilities.cumsum(-1).masked_fill(probabilities == 0, 0.0)
    # Times the sum, which rounding can move away from 1: an id is always found.
    return (reached > uniform * reached.amax(-1, keepdim=True)).byte().argmax(-1)


def _renormalised(probabilities: Tensor, keep: Tensor) -> Tensor:
    """The kept probabilities (..., V), rescaled to sum to 1."""
    kept = probabilities * keep
    return kept / kept.sum(-1, keepdim=True)
