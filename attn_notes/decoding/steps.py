"""What every way of decoding does at each step (chapters 4 and 8)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_integers
from attn_notes.data import SpecialTokens
from attn_notes.decoding.protocol import Decodable, Decoded

__all__ = [
    "evaluating",
    "first_tokens",
    "next_log_probs",
    "say",
    "special_tokens",
]


def say(
    model: Decodable,
    source: Tensor,
    lengths: Tensor,
    *,
    max_length: int,
    choose: Callable[[Tensor], Tensor],
) -> Decoded:
    """One token after the other, until END: the loop of `greedy` and of `sample`.

    Args:
        model: see `Decodable`; in evaluation mode while this runs.
        source: (B, S), token ids.
        lengths: (B,), how many of them are real.
        max_length: the most tokens a sequence may get, END included; 1 or more.
        choose: maps the log-probabilities of the next token, (B, V), to the ids to say, (B,).

    Returns:
        The sequences, T <= `max_length`.

    Raises:
        TypeError: a `max_length` that is not an integer.
        ValueError: a `max_length` below 1, or logits that are not numbers.

    Example:
        >>> class Same:  # a model to which all five tokens are equal, whatever the source
        ...     def start(self, source, lengths):
        ...         return None
        ...     def step(self, tokens, state):
        ...         return torch.zeros(len(tokens), 5), state
        >>> last = lambda log_probs: torch.full(log_probs.shape[:1], 4)
        >>> say(Same(), torch.tensor([[4]]), torch.tensor([1]), max_length=3, choose=last).tokens
        tensor([[4, 4, 4]])
    """
    check_integers(1, max_length=max_length)
    special = special_tokens(model)
    tokens = first_tokens(special, source)  # (B,)
    total = torch.zeros(len(tokens), device=source.device)
    done = torch.zeros_like(tokens, dtype=torch.bool)
    with evaluating(model):
        state = model.start(source, lengths)
        said = source[:, :0]  # (B, 0)
        while said.shape[1] < max_length and not bool(done.all()):
            logits, state = model.step(tokens, state)
            log_probs = next_log_probs(logits, special)  # (B, V)
            tokens = choose(log_probs)
            total = total + log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(done, 0.0)
            tokens = tokens.masked_fill(done, special.pad)
            said = torch.cat((said, tokens[:, None]), dim=1)  # (B, T + 1)
            if special.end is not None:
                done = done | (tokens == special.end)
    return Decoded(said.clone(), total.clone(), state)  # tensors that may be trained on


def special_tokens(model: Any) -> SpecialTokens:
    """The model's own special ids, or those of the book's vocabularies.

    Args:
        model: any; its `special_tokens` count if it has them.

    Returns:
        Padding, start and end.

    Example:
        >>> special_tokens("a model that says nothing of it")
        SpecialTokens(pad=0, start=1, end=2)
    """
    return getattr(model, "special_tokens", SpecialTokens())


def first_tokens(special: SpecialTokens, source: Tensor) -> Tensor:
    """What stands before all that is said: START, or padding where the model has no such token.

    Args:
        special: the model's special ids.
        source: (B, S), token ids.

    Returns:
        (B,), on the source's device.

    Example:
        >>> first_tokens(SpecialTokens(), torch.tensor([[7, 8], [9, 0]]))
        tensor([1, 1])
    """
    return source.new_full(
        source.shape[:1], special.pad if special.start is None else special.start
    )


def next_log_probs(logits: Tensor, special: SpecialTokens) -> Tensor:
    """Log-probabilities of what may come next: neither START nor padding, unless that ends too.

    Args:
        logits: (B, V), any floating dtype.
        special: the model's special ids.

    Returns:
        (B, V), float32 at least; minus infinity for what is never said.

    Raises:
        ValueError: logits that are NaN or infinite, such as those of a training that diverged.

    Example:
        >>> next_log_probs(torch.zeros(1, 5), SpecialTokens()).exp()
        tensor([[0.0000, 0.0000, 0.3333, 0.3333, 0.3333]])
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
    for token in {special.pad, special.start} - {special.end, None}:
        logits[:, token] = -math.inf
    log_probs = logits.log_softmax(-1)
    if bool(log_probs.isnan().any()):
        raise ValueError("the model's logits must be numbers, got NaN or infinity among them")
    return log_probs


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """No gradients and no dropout inside; every module's mode is as before afterwards.

    Args:
        model: any; if it is a module, it and all its parts are in evaluation mode inside.

    Returns:
        A context, which gives nothing to `as`.

    Example:
        >>> layer = torch.nn.Dropout(0.5)
        >>> with evaluating(layer):
        ...     layer(torch.ones(3))
        tensor([1., 1., 1.])
        >>> layer.training
        True
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]  # a part may be frozen, and the rest not
    try:
        for module in modules:
            module.training = False
        with torch.inference_mode():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
