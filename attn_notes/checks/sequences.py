"""What must hold of a model of sequences: alone or in a batch, step by step or at once.

Chapters 4, 6 and 7. The models are those of `attn_notes.decoding`: `model(source, lengths, inputs)`
is teacher forcing and gives logits (B, L, V) first; `model.start` and `model.step` go one token at
a time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_notes.arguments import check_integers
from attn_notes.cache import KVCache
from attn_notes.checks.properties import CheckFailed, Describe, check_small, noise_source
from attn_notes.data import PAD

__all__ = [
    "check_batch_invariant",
    "check_cache_matches_parallel",
    "check_masked_loss",
    "check_pieces_match_whole",
    "check_step_matches_parallel",
]


def check_batch_invariant(
    model: Callable[..., Any],
    source: Tensor,
    lengths: Tensor,
    inputs: Tensor,
    *,
    atol: float = 1e-5,
) -> None:
    """A sequence gets the same logits alone, without padding, as among others. Chapter 4.

    Args:
        model: maps (source, lengths, inputs) to (logits (B, L, V), …), without randomness.
        source: (B, S), token ids.
        lengths: (B,), how many of them are real.
        inputs: (B, L), token ids; what stands from the first padding on is not compared.
        atol: the largest difference that passes for none.

    Raises:
        CheckFailed: a sequence whose logits depend on its neighbours or on its padding.

    Example:
        >>> def count(source, lengths, inputs):  # padding included: wrong
        ...     return inputs[..., None] * 0.0 + source.shape[1], None
        >>> check_batch_invariant(
        ...     count, torch.tensor([[4, 5], [6, 0]]), torch.tensor([2, 1]), torch.ones(2, 1)
        ... )
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: alone, sequence 1 gets other logits at \
position 0: by 1
    """
    with torch.no_grad():
        together = model(source, lengths, inputs)[0]
        for n, length in enumerate(lengths.tolist()):
            one = slice(n, n + 1)
            alone = model(source[one, :length], lengths[one], inputs[one])[0]
            change = (alone - together[one]).abs().amax(-1)[0]  # (L,)
            ended = (inputs[n] == PAD).cumsum(0) > 0  # (L,)
            check_small(change.masked_fill(ended, 0.0), atol, _alone(n))


def check_step_matches_parallel(
    model: Any, source: Tensor, lengths: Tensor, inputs: Tensor, *, atol: float = 1e-5
) -> None:
    """One token at a time, the model says what it says of the whole sequence at once. Chapter 4.

    Args:
        model: maps (source, lengths, inputs) to (logits (B, L, V), …), and has `start` and `step`.
        source: (B, S), token ids.
        lengths: (B,), how many of them are real.
        inputs: (B, L), token ids, the first of them START.
        atol: the largest difference that passes for none.

    Raises:
        CheckFailed: a step whose logits differ from the parallel ones.

    Example:
        >>> class Sum:  # of the tokens so far, START, which is 1, among them
        ...     def __call__(self, source, lengths, inputs):
        ...         return inputs.cumsum(1)[..., None], None
        ...     def start(self, source, lengths):
        ...         return torch.ones(len(source), 1), 1
        ...     def step(self, tokens, state):
        ...         return (tokens + state)[:, None], tokens + state
        >>> tokens = torch.tensor([[1, 4, 5]])
        >>> check_step_matches_parallel(Sum(), tokens, torch.tensor([3]), tokens)
    """
    with torch.no_grad():
        parallel = model(source, lengths, inputs)[0]
        logits, state = model.start(source, lengths)
        steps = [logits]
        for tokens in inputs[:, 1:].unbind(1):
            logits, state = model.step(tokens, state)
            steps.append(logits)
    check_small(
        (torch.stack(steps, dim=1) - parallel).abs().amax(-1),  # (B, L)
        atol,
        lambda at, size: f"at step {at[1]} the logits of sequence {at[0]} differ by {size}",
    )


def check_cache_matches_parallel(
    model: Any, source: Tensor, lengths: Tensor, inputs: Tensor, *, atol: float = 1e-5
) -> None:
    """`check_step_matches_parallel` as a beam would have it: reordered and branched. Chapter 7.

    Before each step the rows of the state are reversed, and the same state is continued with
    another token, which must leave no trace in it.

    Args:
        model: as in `check_step_matches_parallel`; its states have `select`.
        source: (B, S), token ids; of several lengths, so that a mask left behind is noticed.
        lengths: (B,), how many of them are real.
        inputs: (B, L), token ids, the first of them START.
        atol: the largest difference that passes for none.

    Raises:
        CheckFailed: a step whose logits differ from the parallel ones.

    Example:
        >>> class Sum:  # of the tokens so far, START, which is 1, among them
        ...     def __init__(self, total=1):
        ...         self.total = total
        ...     def __call__(self, source, lengths, inputs):
        ...         return inputs.cumsum(1)[..., None], None
        ...     def start(self, source, lengths):
        ...         return torch.ones(len(source), 1), Sum()
        ...     def select(self, index):
        ...         return self  # wrong: the rows stay where they are
        ...     def step(self, tokens, state):
        ...         return (state.total + tokens)[:, None], Sum(state.total + tokens)
        >>> tokens = torch.tensor([[1, 4, 5], [1, 6, 5]])
        >>> check_cache_matches_parallel(Sum(), tokens, torch.tensor([3, 3]), tokens)
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: step by step, the logits of sequence 0 at \
position 2 differ by 2
    """
    order = torch.arange(len(source), device=source.device)  # which sequence each row holds
    backwards = order.flip(0)
    with torch.no_grad():
        parallel = model(source, lengths, inputs)[0]  # (B, L, V)
        logits, state = model.start(source, lengths)
        steps = [logits]
        for n in range(1, inputs.shape[1]):
            order, state = order[backwards], state.select(backwards)
            model.step(inputs[order, n - 1], state)  # a branch that is not followed
            logits, state = model.step(inputs[order, n], state)
            steps.append(logits[order])  # the order is its own inverse
    check_small(
        (torch.stack(steps, dim=1) - parallel).abs().amax(-1),  # (B, L)
        atol,
        lambda at, size: (
            f"step by step, the logits of sequence {at[0]} at position {at[1]} differ by {size}"
        ),
    )


def check_pieces_match_whole(
    layer: Callable[[Tensor, KVCache | None], Tensor], x: Tensor, *, atol: float = 1e-5
) -> None:
    """Fed in pieces through a cache, a layer says what it says of the whole. Chapter 6.

    Args:
        layer: maps x (B, L, ...) and a cache to (B, L, ...); the cache is None for the whole, and
            otherwise holds what came before x.
        x: (B, L, ...), L of 2 or more; cut into single positions, in two halves, and before the
            last.
        atol: the largest difference that passes for none.

    Raises:
        CheckFailed: a position whose output hangs on where the sequence was cut.
        ValueError: a sequence of fewer than two positions, which can't be cut.

    Example:
        >>> def place(x, cache):  # counts its positions from 0 again in each piece
        ...     return x + torch.arange(x.shape[1])
        >>> check_pieces_match_whole(place, torch.zeros(1, 4))
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: in pieces of 1, 1, 1, 1 the output at position \
3 of sequence 0 differs by 3
    """
    if x.dim() < 2 or x.shape[1] < 2:
        raise ValueError(f"x must have shape (B, L, ...), L of 2 or more, got {tuple(x.shape)}")
    L = x.shape[1]
    with torch.no_grad():
        whole = layer(x, None)
        for pieces in ([1] * L, [L // 2, L - L // 2], [L - 1, 1]):
            cache = KVCache()
            outputs = torch.cat([layer(piece, cache) for piece in x.split(pieces, dim=1)], dim=1)
            change = (outputs - whole).abs()  # (B, L, ...)
            check_small(change.reshape(*x.shape[:2], -1).amax(-1), atol, _in_pieces(pieces))


def check_masked_loss(
    loss: Callable[[Tensor, Tensor], Tensor], *, vocab_size: int = 7, seed: int = 0
) -> None:
    """A loss reads the real tokens, all of them, and no padding. Chapter 4.

    A sum over the real tokens passes as their mean does: neither reads the padding.

    Args:
        loss: maps logits (B, L, V) and labels (B, L), padded with PAD, to ().
        vocab_size: V of the logits that are tried; 5 or more, for a word beside the special ids.
        seed: of those logits.

    Raises:
        CheckFailed: padding that counts, pulls at the model, or hides real tokens; or a loss
            through which no gradient flows.
        TypeError: a `vocab_size` that is not an integer.
        ValueError: a `vocab_size` below 5.

    Example:
        >>> def mean_of_all(logits, labels):
        ...     return torch.nn.functional.cross_entropy(logits.mT, labels)
        >>> check_masked_loss(mean_of_all)
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: the gradient of the loss at padding \
(sequence 0, position 4) is 0.096: must be 0
    """
    check_integers(5, vocab_size=vocab_size)
    generator = noise_source(seed)
    labels = torch.randint(4, vocab_size, (2, 5), generator=generator, device="cpu")
    labels[0, 2:] = PAD
    logits = torch.randn(2, 5, vocab_size, generator=generator, device="cpu").requires_grad_()
    padding = labels == PAD
    value = loss(logits, labels)
    if not value.requires_grad:
        raise CheckFailed("no gradient flows from the loss to the logits")
    (gradient,) = torch.autograd.grad(value, logits)
    pull = gradient.abs().amax(-1)  # (B, L)
    check_small(
        pull * padding,
        0.0,
        lambda at, size: (
            f"the gradient of the loss at padding (sequence {at[0]}, position {at[1]}) is {size}: "
            "must be 0"
        ),
    )
    if bool((pull[~padding] == 0).any()):
        n, at = ((pull == 0) & ~padding).nonzero()[0].tolist()
        raise CheckFailed(f"the loss does not read the real token {at} of sequence {n}")
    longer = torch.cat((logits, logits[:, :1]), dim=1), torch.nn.functional.pad(labels, (0, 1))
    change = float((loss(*longer) - value).detach().abs())
    if not change <= 1e-6:
        raise CheckFailed(f"one column more of padding changes the loss by {change:.2g}")


def _alone(n: int) -> Describe:
    """Describe a change of sequence n when it is alone."""
    return lambda at, size: f"alone, sequence {n} gets other logits at position {at[0]}: by {size}"


def _in_pieces(pieces: list[int]) -> Describe:
    """Describe a difference that comes of cutting the sequence so."""
    cut = ", ".join(map(str, pieces))
    return lambda at, size: (
        f"in pieces of {cut} the output at position {at[1]} of sequence {at[0]} differs by {size}"
    )
