"""What changes do to a measurement: one by one, or all estimated in one run (chapter 11)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.inside.activations import (
    Change,
    Place,
    Positions,
    changed,
    check_visited,
    patch,
    visiting,
)
from attn_notes.modes import evaluating


def effects(
    model: nn.Module,
    measure: Callable[[], Any],
    changes: Mapping[Place, Change],
    *,
    positions: Positions | None = None,
) -> dict[Place, Any]:
    """What each change does alone: the measurement with it, minus the one without. Chapter 11.

    Args:
        model: as in `record`; it is in evaluation mode and without gradients meanwhile.
        measure: runs the model, and returns a number, or a tensor, such as (B,): the same at every
            call, so without a cache that it fills.
        changes: those of `patch`.
        positions: where to make them, as in `patch`; everywhere by default.

    Example:
        >>> from attn_notes.inside import Head, find_heads
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> tokens = torch.tensor([[5, 6, 7]])
        >>> zeros = {head: 0.0 for head in find_heads(model)}
        >>> found = effects(model, lambda: model(tokens).logits[:, -1, 8], zeros)
        >>> len(found), found[Head("body.blocks.1.self_attn", 0)].shape
        (4, torch.Size([1]))
    """
    with evaluating(model):
        untouched = measure()
        found = {}
        for place, change in changes.items():
            with patch(model, {place: change}, positions=positions):
                found[place] = measure() - untouched
    return found


def estimated_effects(
    model: nn.Module,
    measure: Callable[[], Tensor],
    changes: Mapping[Place, Change],
    *,
    positions: Positions | None = None,
) -> dict[Place, Tensor]:
    r"""What `effects` would find, to first order: attribution patching, in one run. Chapter 11.

    Nanda (2023), Syed et al. (2023): the gradient of the measurement at each activation x, times
    the difference that the change makes of it, $\nabla f(x)\cdot(x'-x)$, summed over positions and
    features. One run forward and one back serve all changes; how near it is depends on how
    straight f is between x and x'.

    `measure` returns a tensor with gradients: one number, or (B,) with one for each row of the
    batch, rows independent; the estimates have its shape. The other arguments are those of
    `effects`.

    Example:
        >>> from attn_notes.inside import find_heads
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> tokens = torch.tensor([[5, 6, 7]])
        >>> smaller = {head: 0.99 for head in find_heads(model)}
        >>> len(estimated_effects(model, lambda: model(tokens).logits[:, -1, 8], smaller))
        4
    """
    kept: dict[Place, list[Tensor]] = {place: [] for place in changes}  # of each call

    def keep(place: Place, x: Tensor) -> Tensor:
        kept[place].append(x if x.requires_grad else x.detach().requires_grad_())  # if frozen
        return kept[place][-1]

    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        with visiting(model, {place: partial(keep, place) for place in changes}):
            value = measure()
        check_visited(changes, [place for place in kept if kept[place]])
        if not isinstance(value, Tensor) or value.dim() > 1 or not value.requires_grad:
            got = f"{tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise ValueError(f"measure must return a number or (B,) with gradients, got {got}")
        inputs = [x for place in changes for x in kept[place]]
        slopes = iter(torch.autograd.grad(value.sum(), inputs, materialize_grads=True))

        def moved(place: Place, x: Tensor) -> Tensor:
            if value.dim() and x.shape[:1] != value.shape:
                got = f"got {tuple(x.shape)} at {place} and {tuple(value.shape)}"
                raise ValueError(f"activations and the measurement must share the batch, {got}")
            move = changed(place, changes[place], x.detach(), positions) - x.detach()
            return (move * next(slopes)).flatten(value.dim()).sum(-1)  # one number, or (B,)

        return {
            place: torch.stack([moved(place, x) for x in kept[place]]).sum(0).detach()
            for place in changes
        }
