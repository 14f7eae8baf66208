"""Activations by name: read them, and change them (chapter 11)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, get_args

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_broadcast
from attn_notes.inside.models import Layer, Part, find_layers, find_stacks, read_layer
from attn_notes.inside.taps import tapped


@dataclass(frozen=True)
class Head:
    """A head by its place: the name of its attention layer in the model, and its number there.

    The activation is what the head passes to the output projection; `head.at("pattern")` is
    another place of the same head. As text, such as `decoder.blocks.1.cross_attn.2`, or
    `decoder.blocks.1.cross_attn.2.pattern`.

    Args:
        layer: the name of the layer.
        index: from 0 to H - 1.
        part: "output" (B, L, Dv); "query" (B, L, D), "key" (B, S, D) and "value" (B, S, Dv), as
            they enter scores and sum, behind norms and rotations and with what a cache holds; or
            "pattern" (B, L, S), the weights. Where heads share a key-value head, key and value
            of one are those of its whole group: a change changes them for all.

    Example:
        >>> print(Head("blocks.0.self_attn", 1), Head("blocks.0.self_attn", 1).at("key"))
        blocks.0.self_attn.1 blocks.0.self_attn.1.key
    """

    layer: str
    index: int
    part: Part = "output"

    def at(self, part: Part) -> "Head":
        """The same head, at another of its parts."""
        return replace(self, part=part)

    def __str__(self) -> str:
        name = f"{self.layer}.{self.index}".lstrip(".")
        return name if self.part == "output" else f"{name}.{self.part}"


Place = Head | str
"""Where an activation is: see `record`."""

Change = float | Tensor | Callable[[Tensor], Tensor]
"""What becomes of an activation: see `patch`."""

Positions = int | slice | Sequence[int] | Tensor
"""Which positions of an activation: see `patch`."""

Visit = Callable[[Tensor], Tensor]


def find_heads(model: nn.Module) -> list[Head]:
    """Every attention head of a model, in the order of computation. Chapter 11.

    The model is one of `attn_notes.transformer`, a block, or any module with `MultiHeadAttention`;
    or one of the reference library, `transformers`: GPT-2, BERT, Llama, Qwen, Gemma, and what is
    built like them. A model in which no attention is known raises a ValueError.

    Example:
        >>> from attn_notes.transformer import Encoder, TransformerConfig
        >>> print(*find_heads(Encoder(TransformerConfig(vocab_size=9, num_heads=2, num_layers=1))))
        blocks.0.self_attn.0 blocks.0.self_attn.1
    """
    layers = find_layers(model).values()
    return [Head(layer.name, index) for layer in layers for index in range(layer.num_heads)]


def find_streams(model: nn.Module) -> list[str]:
    """Every place of the residual stream: after the embeddings, and after each block. Chapter 11.

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> find_streams(DecoderOnly(TransformerConfig(vocab_size=9)))
        ['body.embeddings', 'body.blocks.0', 'body.blocks.1']
    """
    streams = [place for stack in find_stacks(model) for place in stack.streams]
    if not streams:
        raise ValueError(f"model must have blocks that are known, got {type(model).__name__}")
    return streams


@contextmanager
def record(
    model: nn.Module, places: Iterable[Place] | None = None, *, every_call: bool = False
) -> Iterator[dict[Place, Any]]:
    """Keep the activations of whatever the model computes inside the `with`. Chapter 11.

    They are the tensors of the run itself, gradients included: wrap the run in `torch.no_grad()`
    where none are wanted. Changes by a `patch` that was entered before are seen.

    Args:
        model: any that `find_heads` takes; if only modules are named, any.
        places: each a `Head`, at any of its parts, or the name of any module, such as
            "body.blocks.0", (B, L, E), its output or the first of several. By default the outputs
            of all heads, embeddings, blocks and feed-forward networks that are computed. A place
            that the run never visits raises a ValueError at the end; so does a run without any.
        every_call: keep a list of the activations of all calls, such as the steps of a text that is
            generated; else those of the last call.

    Returns:
        A context manager that gives a dictionary, empty at first, from place to activation.

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> head = Head("body.blocks.0.self_attn", 1)
        >>> with record(model, [head, head.at("pattern")]) as activations:
        ...     output = model(torch.tensor([[5, 6, 7]]))
        >>> activations[head].shape, activations[head.at("pattern")].shape
        (torch.Size([1, 3, 4]), torch.Size([1, 3, 3]))
    """
    found: dict[Place, Any] = {}

    def keep(place: Place, x: Tensor) -> Tensor:
        if every_call:
            found.setdefault(place, []).append(x)
        else:
            found[place] = x
        return x

    named = [] if places is None else list(places)
    chosen = default_places(model) if places is None else named
    with visiting(model, {place: partial(keep, place) for place in chosen}):
        yield found
    check_visited(named if found else chosen, found)


@contextmanager
def patch(
    model: nn.Module, changes: Mapping[Place, Change], *, positions: Positions | None = None
) -> Iterator[None]:
    """Change activations while the model computes inside the `with`. Chapter 11.

    Ablation: `{head: 0.0}`, or a mean in place of 0. Activation patching (Vig et al., 2020; Meng et
    al., 2022): an activation that `record` kept of another run. Gradients flow through a change; in
    cached decoding, every step is changed. In nested contexts the inner change is made of what the
    outer one has left. Afterwards, also after an error, the model is as before.

    Args:
        model: as in `record`.
        changes: from places, those of `record`, to what becomes of them. A number multiplies the
            activation, a tensor replaces it (any shape that broadcasts to it), and a function of it
            returns the new one. Key and value belong to a whole group of heads: name one of it.
        positions: where along the second axis (tokens; of a pattern, those that read) to change it,
            counted in each call: a number, several, a slice, or a bool mask (L,) or (B, L).

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> head = Head("body.blocks.0.self_attn", 1)
        >>> with patch(model, {head: 0.0}, positions=-1), record(model) as activations:
        ...     output = model(torch.tensor([[5, 6, 7]]))
        >>> activations[head].any(-1)
        tensor([[ True,  True, False]])
    """
    visited = set()

    def visit(place: Place, change: Change, x: Tensor) -> Tensor:
        visited.add(place)
        return changed(place, change, x, positions)

    visits = {place: partial(visit, place, change) for place, change in changes.items()}
    with visiting(model, visits, once=True):
        yield
    check_visited(changes, visited)


def changed(place: Place, change: Any, x: Tensor, positions: Positions | None = None) -> Tensor:
    """What a change makes of the activation x at a place."""
    if isinstance(change, Real):
        new = x * float(change)
    else:
        new = change(x.clone()) if callable(change) else change  # which may write into it
        if not isinstance(new, Tensor):
            wanted = "a number, a tensor, or a function that returns one"
            raise TypeError(f"the change of {place} must be {wanted}, got {type(new).__name__}")
        check_broadcast(f"the change of {place}", new, x.shape, of="activation")
        new = new.to(x).expand_as(x)
    if positions is None:
        return new
    if x.dim() < 3:
        raise ValueError(
            f"positions need an activation (B, L, ...), got {tuple(x.shape)} at {place}"
        )
    here = positions
    if not (isinstance(here, Tensor) and here.dtype == torch.bool):
        here = torch.zeros(x.shape[1], dtype=torch.bool, device=x.device)  # (L,)
        here[positions] = True
    check_broadcast("positions", here, x.shape[:2], of="activation's batch and positions")
    return torch.where(here.to(x.device)[..., None], new, x)


def default_places(model: nn.Module) -> list[Place]:
    """Every place that `record` keeps by default, in the order of the model's modules."""
    layers, stacks = find_layers(model), find_stacks(model)
    parts = {place for stack in stacks for place in (*stack.streams, *stack.networks)}
    places: list[Place] = []
    for name, _ in model.named_modules():
        if name in parts:
            places.append(name)
        if name in layers:
            places += [Head(name, index) for index in range(layers[name].num_heads)]
    return places


@contextmanager
def visiting(
    model: nn.Module, visits: Mapping[Place, Visit], *, once: bool = False
) -> Iterator[None]:
    """Pass the activation at each place through its function whenever the model computes it.

    With `once`, two places that are the same key or value raise a ValueError.
    """
    modules = dict(model.named_modules())
    if any(x.training and getattr(x, "gradient_checkpointing", False) for x in modules.values()):
        wanted = "turn gradient checkpointing off, which computes again what a change has left"
        raise ValueError(f"to look inside a model that trains, {wanted}")
    heads: dict[str, tuple[Layer, dict[Part, list[tuple[int, Visit]]]]] = {}
    with ExitStack() as undo:
        for place, visit in visits.items():
            if isinstance(place, str) and place in modules:
                hook = partial(_after_module, visit)
                undo.callback(modules[place].register_forward_hook(hook).remove)
                continue
            layer = None if isinstance(place, str) else _layer_of(modules, place)
            if isinstance(place, str) or layer is None:
                wanted = "a head of find_heads(model) at one of its parts, or the name of a module"
                raise ValueError(f"a place must be {wanted}, got {place!r}")
            _, parts = heads.setdefault(place.layer, (layer, {}))
            number = layer.head_of(place.part, place.index)
            if once and number in [other for other, _ in parts.get(place.part, [])]:
                got = f"got {place} beside another of its group"
                raise ValueError(f"changes must name one head of each key-value head, {got}")
            parts.setdefault(place.part, []).append((number, visit))
        for layer, parts in heads.values():
            undo.enter_context(tapped(layer, [*parts], partial(_through, parts)))
        yield


def _layer_of(modules: Mapping[str, nn.Module], head: Head) -> Layer | None:
    """The layer of a head, or None if there is no such head."""
    layer = read_layer(head.layer, modules.get(head.layer))
    is_head = layer and head.index in range(layer.num_heads) and head.part in get_args(Part)
    return layer if is_head else None


def _through(visits: Mapping[Part, Any], part: Part, x: Tensor) -> Tensor:
    """Pass some of the heads (B, H, L, ...) of a part through their functions."""
    if part not in visits:
        return x
    heads = [*x.unbind(-3)]
    for index, visit in visits[part]:
        heads[index] = visit(heads[index])
    return torch.stack(heads, -3)  # through which gradients reach what was kept


def _after_module(visit: Visit, _module: nn.Module, _args: Any, output: Any) -> Any:
    """Pass the output of a module, or the first of several, through a function."""
    if isinstance(output, Mapping):  # of the reference library
        first = next(iter(output))
        return type(output)(**{**output, first: visit(output[first])})
    if isinstance(output, tuple):  # with weights, or named
        return getattr(output, "_make", tuple)([visit(output[0]), *output[1:]])
    return visit(output)


def check_visited(places: Iterable[Place], visited: Collection[Place]) -> None:
    """Raise for the first place at which no activation was computed."""
    for place in places:
        if place not in visited:
            wanted = "name a module that it calls, and run the model, not compiled, in the `with`"
            raise ValueError(f"the run never visits {str(place)!r}: {wanted}")
