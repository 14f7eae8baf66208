"""What must hold of a sequence model: alone or in a batch, step by step or all at once.

The models are those of `attn_notes.decoding` (chapters 4, 6, 7): `model(source, lengths, inputs)`
gives logits (B, L, V) first; `model.start` and `model.step` go one token at a time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn_notes.cache import KVCache
from attn_notes.checks.properties import CheckFailed, check_small, noise_source
from attn_notes.special_tokens import END, PAD


def check_batch_invariant(
    model: Any, source: Tensor, lengths: Tensor, inputs: Tensor, *, atol: float = 1e-5
) -> None:
    """A sequence gets the same logits alone, without padding, as in a batch. Chapter 4.

    The model, without randomness, reads token ids: sources (B, S), of which `lengths` (B,) are
    real, and inputs (B, L), compared up to the padding.
    """
    with torch.no_grad():
        together = model(source, lengths, inputs)[0]
        for n, length in enumerate(lengths.tolist()):
            one = slice(n, n + 1)
            alone = model(source[one, :length], lengths[one], inputs[one])[0]
            change = (alone - together[one]).abs().amax(-1)[0]  # (L,)
            ended = (inputs[n] == PAD).cumsum(0) > 0  # (L,)
            words = f"alone, sequence {n} gets other logits at position {{}}: by {{size}}"
            check_small(change.masked_fill(ended, 0.0), atol, words)


def check_step_matches_parallel(
    model: Any, source: Tensor, lengths: Tensor, inputs: Tensor, *, atol: float = 1e-5
) -> None:
    """One token at a time, a model gives the logits of the parallel pass. Chapters 4 and 7.

    Also under what beam search does: before each step the states branch and change places. The
    arguments are those of `check_batch_invariant`; inputs begin with START, and sources of several
    lengths show a mask left behind.
    """
    order = torch.arange(len(source), device=source.device)  # which sequence each row holds
    backwards = order.flip(0)
    with torch.no_grad():
        parallel = model(source, lengths, inputs)[0]  # (B, L, V)
        logits, state = model.start(source, lengths)
        steps = [logits]
        for n in range(1, inputs.shape[1]):
            model.step(inputs[order, n - 1], state)  # a branch that must leave no trace
            order, state = order[backwards], state.select(backwards)
            logits, state = model.step(inputs[order, n], state)
            steps.append(logits[order])  # the order is its own inverse
    change = (torch.stack(steps, dim=1) - parallel).abs().amax(-1)  # (B, L)
    check_small(change.T, atol, "at step {} the logits of sequence {} differ by {size}")


def check_pieces_match_whole(
    layer: Callable[[Tensor, KVCache | None], Tensor], x: Tensor, *, atol: float = 1e-5
) -> None:
    """Fed in pieces through a cache, a layer gives the same output as for the whole. Chapter 7.

    The layer maps x (B, L, ...), L of 2 or more, and a cache, None for the whole, to (B, L, ...).
    """
    L = x.shape[1]
    with torch.no_grad():
        whole = layer(x, None)
        for pieces in ([1] * L, [L // 2, L - L // 2], [L - 1, 1]):
            cache = KVCache()
            outputs = torch.cat([layer(piece, cache) for piece in x.split(pieces, dim=1)], dim=1)
            change = (outputs - whole).abs().reshape(*x.shape[:2], -1).amax(-1)  # (B, L)
            words = "the output at position {} of sequence {} differs by {size}"
            check_small(change.T, atol, f"in pieces of {', '.join(map(str, pieces))} {words}")


def check_masked_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    """A loss of logits (B, L, V) and labels (B, L) reads all real tokens and no padding. Chapter 4.

    Example:
        >>> def mean_of_all(logits, labels):
        ...     return torch.nn.functional.cross_entropy(logits.mT, labels)
        >>> check_masked_loss(mean_of_all)
        Traceback (most recent call last):
        attn_notes.checks.properties.CheckFailed: the gradient of the loss at padding \
(sequence 0, position 4) is 0.096: must be 0
    """
    generator, device = noise_source(), torch.get_default_device()  # where the loss may work
    labels = torch.randint(4, 7, (2, 5), generator=generator, device="cpu")
    labels[0, 1] = labels[1, 4] = END
    labels[0, 2:] = PAD
    logits = torch.randn(2, 5, 7, generator=generator, device="cpu").to(device).requires_grad_()
    labels = labels.to(device)
    value = loss(logits, labels)
    if not value.requires_grad:
        raise CheckFailed("no gradient flows from the loss to the logits")
    (gradient,) = torch.autograd.grad(value, logits)
    pull, padding = gradient.abs().amax(-1), labels == PAD  # (B, L) each
    place = "padding (sequence {}, position {})"
    check_small(pull * padding, 0.0, f"the gradient of the loss at {place} is {{size}}: must be 0")
    for n, at in ((pull == 0) & ~padding).nonzero().tolist():
        raise CheckFailed(f"the loss does not read the real token {at} of sequence {n}")
    longer = torch.cat((logits, logits[:, :1]), dim=1), torch.nn.functional.pad(labels, (0, 1))
    change = (loss(*longer) - value).detach().abs()
    check_small(change, 1e-6, "one column more of padding changes the loss by {size}")
