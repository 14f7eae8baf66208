"""Attention weights as models return them: what kinds there are, and the layers of each."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn_notes.widgets.encoding import check_weights

# The kinds of attention, by the names that outputs have for them: the reference library's, ours.
NAMES = {
    "encoder": ("encoder_attentions", "encoder"),
    "decoder": ("decoder_attentions", "decoder"),
    "cross": ("cross_attentions", "cross"),
}
ONE = ("attentions", "weights")
ASK = "load the model with attn_implementation='eager', or give show_attention the model itself"


def as_kinds(outputs: Any) -> dict[str, list[Tensor]]:
    """The layers of each kind of attention: of a model's outputs, or of weights alone.

    An encoder-decoder has the kinds "encoder", "decoder" and "cross"; any other weights are "".
    """

    def first(names: tuple[str, ...]) -> Any:
        """What the outputs hold under one of these names, None where nothing was kept."""
        read = outputs.get if isinstance(outputs, Mapping) else partial(getattr, outputs)
        found = (read(name, None) for name in names)
        return next((one for one in found if one is not None and len(one)), None)

    if isinstance(outputs, Tensor) or type(outputs) in (list, tuple):
        return {"": as_layers(outputs)}
    if (own := first(ONE)) is not None and first(NAMES["encoder"]) is None:
        # A decoder that reads an encoder: its own attention, and what it reads of the encoder's.
        cross = first(NAMES["cross"])
        if cross is None:
            return {"": as_layers(own)}
        return {"decoder": as_layers(own), "cross": as_layers(cross)}
    found = {kind: first(names) for kind, names in NAMES.items()}
    kinds = {kind: as_layers(one) for kind, one in found.items() if one is not None}
    if not kinds and (isinstance(outputs, Mapping) or hasattr(outputs, "_fields")):
        raise ValueError(f"the outputs hold no attention weights: {ASK}")
    return kinds or {"": as_layers(outputs)}


def as_layers(weights: Any, *, layered: bool = False) -> list[Tensor]:
    """Layers (H, L, S) on the CPU, checked: of a list of layers, or of a tensor, array or lists.

    A layer may begin with a batch of one. A single tensor of four axes could be layers or a batch:
    it is refused, unless it is `layered` or the first axis is 1.
    """
    if isinstance(weights, list | tuple) and any(one is None for one in weights):
        raise ValueError(f"the weights of some layers are None: {ASK}")
    if isinstance(weights, list | tuple) and weights and hasattr(weights[0], "shape"):
        layers = [_as_tensor(one) for one in weights]
        if all(layer.dim() == 2 for layer in layers):  # the heads of one layer
            layers = [torch.stack(layers)]
    elif isinstance(weights, list | tuple) and weights and _has_tensors(weights[0]):
        steps = "the weights are of several steps, a tuple for each, as generate() returns them"
        raise ValueError(f"{steps}: run the model once on the whole text instead")
    else:
        whole = _as_tensor(weights)
        got = tuple(whole.shape)
        if whole.dim() == 4 and len(whole) > 1 and not layered:
            either = f"of {got[0]} layers or of a batch of {got[0]} texts"
            hint = "pass layers as a list, list(weights), or one text of a batch, weights[:1]"
            raise ValueError(f"weights of shape {got} may be {either}: {hint}")
        layers = list(whole) if whole.dim() > 3 else [whole]
        layers = [x[(None,) * (3 - x.dim())] if x.dim() == 2 else x for x in layers]
    layers = [_of_one_text(layer) for layer in layers]
    if len(shapes := {tuple(layer.shape) for layer in layers}) > 1:
        raise ValueError(f"all layers must have the same shape (H, L, S), got {sorted(shapes)}")
    return [check_weights("weights", layer) for layer in layers]


def _has_tensors(one: Any) -> bool:
    return isinstance(one, list | tuple) and bool(one) and hasattr(one[0], "shape")


def _as_tensor(numbers: Any) -> Tensor:
    """The numbers on the CPU, in 32 bits or more, without their gradient."""
    tensor = torch.as_tensor(numbers, device="cpu").detach()
    if tensor.is_complex():
        raise TypeError(f"weights must be real numbers, got {tensor.dtype}")
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _of_one_text(layer: Tensor) -> Tensor:
    """A layer (H, L, S), also of (1, H, L, S)."""
    got = tuple(layer.shape)
    if len(got) == 4 and got[0] > 1:
        batch = f"a batch of {got[0]} in a layer of shape {got}"
        hint = "pass one of them, such as [layer[:1] for layer in weights]"
        raise ValueError(f"weights must be of one text, got {batch}: {hint}")
    if len(got) not in (3, 4) or not layer.numel():
        wanted = "a map (L, S), a layer (H, L, S) or layers (1, H, L, S), and not be empty"
        raise ValueError(f"weights must be {wanted}, got shape {got}")
    return layer[0] if len(got) == 4 else layer
