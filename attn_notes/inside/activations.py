"""Activations by name: read them, change them, and measure what a change does (chapter 11)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attn_notes.arguments import check_broadcast
from attn_notes.modes import evaluating
from attn_notes.multihead import MultiHeadAttention
from attn_notes.transformer import DecoderBlock, Embeddings, EncoderBlock, FeedForward

STREAMS = (Embeddings, EncoderBlock, DecoderBlock)  # their outputs are the residual stream


@dataclass(frozen=True)
class Head:
    """A head by its place: the name of its `MultiHeadAttention` in the model, and its number there.

    As text, such as `decoder.blocks.1.cross_attn.2`.
    """

    layer: str
    index: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.index}".lstrip(".")


Place = Head | str
"""Where an activation is: see `record`."""

Change = float | Tensor | Callable[[Tensor], Tensor]
"""What becomes of an activation: see `patch`."""


def find_heads(model: nn.Module) -> list[Head]:
    """Every attention head of a model, in the order of computation. Chapter 11.

    The model is one of `attn_notes.transformer`, a block, or any module with `MultiHeadAttention`;
    other libraries' parts are not recognised, and a model without ours raises a ValueError.

    Example:
        >>> from attn_notes.transformer import Encoder, TransformerConfig
        >>> print(*find_heads(Encoder(TransformerConfig(vocab_size=9, num_heads=2, num_layers=1))))
        blocks.0.self_attn.0 blocks.0.self_attn.1
    """
    return [place for place, _ in walk(model) if isinstance(place, Head)]


def find_streams(model: nn.Module) -> list[str]:
    """Every place of the residual stream: after the embeddings, and after each block. Chapter 11.

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> find_streams(DecoderOnly(TransformerConfig(vocab_size=9)))
        ['body.embeddings', 'body.blocks.0', 'body.blocks.1']
    """
    return [str(place) for place, module in walk(model) if isinstance(module, STREAMS)]


@contextmanager
def record(
    model: nn.Module, places: Iterable[Place] | None = None
) -> Iterator[dict[Place, Tensor]]:
    """Keep the activations of whatever the model computes inside the `with`. Chapter 11.

    They are the tensors of the run itself, gradients included: wrap the run in `torch.no_grad()`
    where none are wanted. Of several calls the last one's are kept. Changes by a `patch` that was
    entered before are seen.

    Args:
        model: any that `find_heads` takes.
        places: each a `Head`, whose activation (B, L, D) is what it passes to `out_proj`, or the
            name of any module, such as "body.blocks.0", (B, L, E), its output or the first of
            several. By default those of all heads, embeddings, blocks and feed-forward networks
            that are computed. A place that the run never visits raises a ValueError at the end.

    Returns:
        A context manager that gives a dictionary, empty at first, from place to activation.

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> with record(model) as activations:
        ...     output = model(torch.tensor([[5, 6, 7]]))
        >>> activations[Head("body.blocks.0.self_attn", 1)].shape
        torch.Size([1, 3, 4])
    """
    found: dict[Place, Tensor] = {}

    def keep(place: Place, x: Tensor) -> Tensor:
        found[place] = x
        return x

    named = [] if places is None else list(places)
    with ExitStack() as hooks:
        for place in [place for place, _ in walk(model)] if places is None else named:
            hooks.callback(_hook(model, place, partial(keep, place)).remove)
        yield found
    _check_visited(named, found)


@contextmanager
def patch(model: nn.Module, changes: Mapping[Place, Change]) -> Iterator[None]:
    """Change activations while the model computes inside the `with`. Chapter 11.

    Ablation: `{head: 0.0}`, or a mean in place of 0. Activation patching (Vig et al., 2020; Meng et
    al., 2022): an activation that `record` kept of another run. Places are those of `record`. A
    number multiplies the activation, a tensor replaces it (any shape that broadcasts to it), and a
    function of it returns the new one. Gradients flow through a change; in cached decoding, every
    step is changed. In nested contexts the inner change is made of what the outer one has left.
    Afterwards, also after an error, the model is as before.

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> head = Head("body.blocks.0.self_attn", 1)
        >>> with patch(model, {head: 0.0}), record(model) as activations:
        ...     output = model(torch.tensor([[5, 6, 7]]))
        >>> bool(activations[head].any())
        False
    """
    visited = set()

    def visit(place: Place, change: Any, x: Tensor) -> Tensor:
        visited.add(place)
        if isinstance(change, Real):
            return x * float(change)
        new = change(x) if callable(change) else change
        check_broadcast(f"the change of {place}", new, x.shape, of="activation")
        return new.to(x).expand_as(x)

    with ExitStack() as hooks:
        for place, change in changes.items():
            hooks.callback(_hook(model, place, partial(visit, place, change)).remove)
        yield
    _check_visited(changes, visited)


def effects(
    model: nn.Module, measure: Callable[[], Any], changes: Mapping[Place, Change]
) -> dict[Place, Any]:
    """What each change does alone: the measurement with it, minus the one without. Chapter 11.

    `measure` runs the model, in evaluation mode and without gradients meanwhile, and returns a
    number, or a tensor, such as (B,). The changes are those of `patch`.

    Example:
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
            with patch(model, {place: change}):
                found[place] = measure() - untouched
    return found


def walk(model: nn.Module) -> Iterator[tuple[Place, Any]]:
    """Every place that `record` keeps by default, and its module, in the order of computation."""
    parts = (MultiHeadAttention, FeedForward, *STREAMS)
    if not any(isinstance(module, parts) for module in model.modules()):
        wanted = "attention, blocks or embeddings of attn_notes"
        raise ValueError(f"model must have {wanted}, got {type(model).__name__}")
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            yield from ((Head(name, index), module) for index in range(module.num_heads))
        elif isinstance(module, (*STREAMS, FeedForward)):
            yield name, module


def _hook(model: nn.Module, place: Place, visit: Callable[[Tensor], Tensor]) -> RemovableHandle:
    """Pass the activation at a place through `visit` whenever the model computes it."""
    module = find_module(model, place)
    index = place.index if isinstance(place, Head) else -1

    def before_projection(_: nn.Module, args: tuple[Tensor]) -> Tensor:
        heads = [*args[0].unflatten(-1, (module.num_heads, -1)).unbind(-2)]  # H of (B, L, D)
        heads[index] = visit(heads[index])
        return torch.cat(heads, dim=-1)  # (B, L, E), through which gradients reach what was kept

    def after_module(_: nn.Module, _args: Any, output: Any) -> Any:
        if isinstance(output, tuple):  # with weights, or named
            return getattr(output, "_make", tuple)([visit(output[0]), *output[1:]])
        return visit(output)

    if isinstance(place, Head):
        return module.out_proj.register_forward_pre_hook(before_projection)
    return module.register_forward_hook(after_module)


def find_module(model: nn.Module, place: Place) -> Any:
    """The module of a place, a head's attention layer; raise if the model has no such place."""
    name, index = (place.layer, place.index) if isinstance(place, Head) else (place, None)
    module = dict(model.named_modules()).get(name)
    is_head = isinstance(module, MultiHeadAttention) and index in range(module.num_heads)
    if module is None or (index is not None and not is_head):
        wanted = "a head of find_heads(model), or the name of a module"
        raise ValueError(f"a place must be {wanted}, got {place!r}")
    return module


def _check_visited(places: Iterable[Place], visited: Collection[Place]) -> None:
    """Raise for the first place at which no activation was computed."""
    for place in places:
        if place not in visited:
            wanted = "name a module that it calls, and run the model inside the `with`"
            raise ValueError(f"the run never visits {str(place)!r}: {wanted}")
