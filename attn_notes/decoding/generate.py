"""One token after another until END, and greedy decoding (chapter 4)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_notes.arguments import check_integers
from attn_notes.decoding.protocol import Decodable, Decoded
from attn_notes.modes import evaluating
from attn_notes.special_tokens import SpecialTokens


def generate(
    model: Decodable,
    source: Tensor,
    lengths: Tensor | None = None,
    *,
    max_length: int,
    choose: Callable[[Tensor], Tensor],
) -> Decoded:
    """Choose one token after another until END: the loop of `greedy` and of `sample`. Chapter 4.

    Args:
        model: see `Decodable`; in evaluation mode while this runs.
        source: (B, S), token ids; for a model without an encoder, the prompts.
        lengths: (B,), how many of them are real; all by default.
        max_length: the maximum number of new tokens, END included; 1 or more.
        choose: maps the log-probabilities of the next token, (B, V), to ids (B,).

    Example:
        >>> class Uniform:  # five tokens, all equally likely, whatever the source
        ...     def start(self, source, lengths=None):
        ...         return torch.zeros(len(source), 5), None
        ...     def step(self, tokens, state):
        ...         return torch.zeros(len(tokens), 5), state
        >>> last = lambda log_probs: torch.full(log_probs.shape[:1], 4)
        >>> generate(Uniform(), torch.tensor([[4]]), max_length=3, choose=last).tokens
        tensor([[4, 4, 4]])
    """
    check_integers(1, max_length=max_length)
    special = special_tokens(model)
    chosen: list[Tensor] = []
    with evaluating(model):
        logits, state = model.start(source, lengths)
        total, done = logits.new_zeros(len(logits)), source.new_zeros(len(logits)).bool()
        while True:
            log_probs = next_log_probs(logits, special)  # (B, V)
            tokens = choose(log_probs)  # (B,)
            total = total + log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(done, 0.0)
            tokens = tokens.masked_fill(done, special.pad)
            chosen.append(tokens)
            for end in special.ends:
                done = done | (tokens == end)
            if len(chosen) == max_length or bool(done.all()):
                break
            logits, state = model.step(tokens, state)
    return Decoded(torch.stack(chosen, dim=1), total.clone(), state)  # clone: gradients may follow


def greedy(
    model: Decodable, source: Tensor, lengths: Tensor | None = None, *, max_length: int
) -> Decoded:
    """At each step the most probable token, until END. Chapter 4.

    The arguments are those of `generate`.
    """
    return generate(
        model, source, lengths, max_length=max_length, choose=lambda log_probs: log_probs.argmax(-1)
    )


def special_tokens(model: Any) -> SpecialTokens:
    """The model's own special ids, or those of the book's vocabularies."""
    return getattr(model, "special_tokens", SpecialTokens())


def next_log_probs(logits: Tensor, special: SpecialTokens) -> Tensor:
    """Log-probabilities (B, V) of the next token, float32 at least.

    Minus infinity for START and padding, unless the same id is END too. Raises a ValueError for
    logits that are NaN or infinite, such as those of a training that diverged.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
    for token in {special.pad, special.start} - {*special.ends, None}:
        logits[:, token] = -math.inf
    log_probs = logits.log_softmax(-1)
    if math.isnan(log_probs.sum()):  # it is if one of them is: none is above 0
        raise ValueError("the model's logits must be numbers, got NaN or infinity among them")
    return log_probs
