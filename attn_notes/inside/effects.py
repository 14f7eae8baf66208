"""What changes do to a measurement: one by one, many at once, or estimated (chapter 11)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from attn_notes.arguments import check_integers
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

PLAIN = bool | int | float | str | None


def effects(
    model: nn.Module,
    measure: Callable[[], Any],
    changes: Mapping[Place, Change],
    *,
    positions: Positions | None = None,
    at_once: int = 1,
) -> dict[Place, Any]:
    """What each change does alone: the measurement with it, minus the one without. Chapter 11.

    Args:
        model: as in `record`; it is in evaluation mode and without gradients meanwhile.
        measure: runs the model, and returns a number, or a tensor, such as (B,): the same at every
            call, so without a cache that it fills.
        changes: those of `patch`.
        positions: where to make them, as in `patch`; everywhere by default.
        at_once: how many changes share one run of the model, in which the batch stands once for
            each; the results are the same up to rounding. `measure` must then call the model once,
            with tensors whose first axis is the batch.

    Example:
        >>> from attn_notes.inside import Head, find_heads
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> tokens = torch.tensor([[5, 6, 7]])
        >>> zeros = {head: 0.0 for head in find_heads(model)}
        >>> found = effects(model, lambda: model(tokens).logits[:, -1, 8], zeros, at_once=4)
        >>> len(found), found[Head("body.blocks.1.self_attn", 0)].shape
        (4, torch.Size([1]))
    """
    check_integers(1, at_once=at_once)
    with evaluating(model):
        if at_once > 1:
            return _in_batches(model, measure, changes, positions, at_once)
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
        >>> found = estimated_effects(model, lambda: model(tokens).logits[:, -1, 8], smaller)
        >>> exact = effects(model, lambda: model(tokens).logits[:, -1, 8], smaller)
        >>> all(torch.allclose(found[head], exact[head], atol=1e-4) for head in exact)
        True
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


def _in_batches(
    model: nn.Module,
    measure: Callable[[], Any],
    changes: Mapping[Place, Change],
    positions: Positions | None,
    at_once: int,
) -> dict[Place, Any]:
    """The effects, several in one run: then `measure` meets each part of its output in turn."""
    calls: list[tuple[Any, Any]] = []
    forward = model.forward

    def listening(*args: Any, **options: Any) -> Any:
        calls.append((args, options))
        return forward(*args, **options)

    with _forward(model, listening):
        untouched = measure()
    if len(calls) != 1:
        raise ValueError(f"with at_once, measure must call the model once, got {len(calls)} calls")
    sizes = [len(x) for x in tree_leaves(calls[0]) if isinstance(x, Tensor)]
    if not sizes:
        raise ValueError("with at_once, measure must give the model tensors, got none")
    B = sizes[0]
    rest, found = iter(changes.items()), {}
    while group := dict(islice(rest, at_once)):
        output = _together(model, calls[0], B, group, positions)
        for row, place in enumerate(group):
            own = tree_map(partial(_rows, row, B, len(group)), output)
            with _forward(model, lambda *_, own=own, **__: own):
                found[place] = measure() - untouched
    return found


def _together(
    model: nn.Module,
    call: tuple[Any, Any],
    B: int,
    changes: Mapping[Place, Change],
    positions: Positions | None,
) -> Any:
    """The output for a batch that stands once for each change, each made in its own rows."""
    size, visited = len(changes) * B, set()

    def visit(row: int, place: Place, x: Tensor) -> Tensor:
        visited.add(place)
        _check_batch(f"the activation of {place}", x, size)
        start, end = row * B, (row + 1) * B
        new = changed(place, changes[place], x[start:end], positions)
        return torch.cat([x[:start], new, x[end:]])

    visits = {place: partial(visit, row, place) for row, place in enumerate(changes)}
    args, options = tree_map(partial(_repeated, B, len(changes)), call)
    with visiting(model, visits):
        output = model(*args, **options)
    check_visited(changes, visited)
    return output


@contextmanager
def _forward(model: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Let the model compute something else for a while."""
    before = model.__dict__.get("forward")
    model.forward = forward
    try:
        yield
    finally:
        del model.forward
        if before is not None:
            model.forward = before


def _repeated(B: int, n: int, x: Any) -> Any:
    """An argument n times, if its first axis is the batch."""
    if not isinstance(x, Tensor | PLAIN):
        got = f"got {type(x).__name__}"
        raise TypeError(f"with at_once, the model's arguments must be tensors or plain, {got}")
    if not isinstance(x, Tensor) or x.shape[:1] != (B,):
        return x
    return torch.cat([x] * n)


def _rows(row: int, B: int, n: int, x: Any) -> Any:
    """The rows of one change in the output for n of them."""
    if not isinstance(x, Tensor):
        return x if isinstance(x, PLAIN) else None  # a cache would hold all n
    _check_batch("whatever the model returns", x, n * B)
    return x[row * B : (row + 1) * B]


def _check_batch(name: str, x: Tensor, size: int) -> None:
    """Raise unless the first axis is the batch, once for each change."""
    if x.shape[:1] != (size,):
        got = f"got {tuple(x.shape)} for {size} rows"
        raise ValueError(f"with at_once, {name} must have the batch as its first axis, {got}")
