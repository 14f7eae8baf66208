"""Attention weights as models return them: what kinds there are, and the layers of each."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn_widgets.encoding import check_weights, on_one_thread

# The kinds of attention, by the names that outputs have for them: the reference library's, ours.
NAMES = {
    "encoder": ("encoder_attentions", "encoder"),
    "decoder": ("decoder_attentions", "decoder", "attentions", "weights"),
    "cross": ("cross_attentions", "cross"),
}
ASK = "load the model with attn_implementation='eager', or give show_attention the model itself"


def as_kinds(outputs: Any) -> dict[str, list[Tensor]]:
    """The layers of each kind of attention: of a model's outputs, or of weights alone.

    An encoder-decoder has the kinds "encoder", "decoder" and "cross", a decoder that reads an
    encoder the last two; any other weights are "".
    """
    return {kind: as_layers(one) for kind, one in find_kinds(outputs).items()}


def find_kinds(outputs: Any) -> dict[str, Any]:
    """The same kinds, each with its layers as they came."""
    if isinstance(outputs, Tensor) or type(outputs) in (list, tuple):
        return {"": outputs}
    read = outputs.get if isinstance(outputs, Mapping) else partial(getattr, outputs)
    found: dict[str, Any] = {}
    for kind, name in ((kind, name) for kind, names in NAMES.items() for name in names):
        kept = read(name, None)
        if kept is not None and len(kept):
            found.setdefault(kind, kept)
    if not found and (isinstance(outputs, Mapping) or hasattr(outputs, "_fields")):
        raise ValueError(f"the outputs hold no attention weights: {ASK}")
    if len(found) < 2 and "cross" not in found:
        return {"": found.get("decoder", found.get("encoder", outputs))}
    return found


@on_one_thread()
def as_layers(weights: Any, *, layered: bool = False) -> list[Tensor]:
    """Layers (H, L, S) on the CPU, checked: of a list of layers, or of a tensor, array or lists.

    A layer may begin with a batch of one. A single tensor of four axes could be layers or a batch:
    it is refused, unless it is `layered` or the first axis is 1.
    """
    parts = list(weights) if isinstance(weights, list | tuple) else []
    if any(one is None for one in parts):
        raise ValueError(f"the weights of some layers are None: {ASK}")
    if (
        parts
        and isinstance(parts[0], list | tuple)
        and hasattr(next(iter(parts[0]), None), "shape")
    ):
        steps = "the weights are of several steps, a tuple for each, as generate() returns them"
        raise ValueError(f"{steps}: run the model once on the whole text instead")
    if not parts or not hasattr(parts[0], "shape"):
        whole = torch.as_tensor(weights, device="cpu")
        got = tuple(whole.shape)
        if whole.dim() == 4 and len(whole) > 1 and not layered:
            either = f"of {got[0]} layers or of a batch of {got[0]} texts"
            hint = "pass layers as a list, list(weights), or one text of a batch, weights[:1]"
            raise ValueError(f"weights of shape {got} may be {either}: {hint}")
        parts = list(whole) if whole.dim() > 3 else [whole]
    layers = [_as_layer(part) for part in parts]
    if len(shapes := {tuple(layer.shape) for layer in layers}) > 1:
        raise ValueError(f"all layers must have the same shape (H, L, S), got {sorted(shapes)}")
    return [check_weights("weights", layer) for layer in layers]


def _as_layer(weights: Any) -> Tensor:
    """A layer (H, L, S), also of (1, H, L, S) or (L, S), in 32 bits or more."""
    layer = torch.as_tensor(weights, device="cpu").detach()
    got = tuple(layer.shape)
    if layer.is_complex():
        raise TypeError(f"weights must be real numbers, got {layer.dtype}")
    if len(got) == 4 and got[0] > 1:
        batch = f"a batch of {got[0]} in a layer of shape {got}"
        hint = "pass one of them, such as [layer[:1] for layer in weights]"
        raise ValueError(f"weights must be of one text, got {batch}: {hint}")
    if len(got) not in (2, 3, 4) or not layer.numel():
        wanted = "a map (L, S), a layer (H, L, S) or layers (1, H, L, S), and not be empty"
        raise ValueError(f"weights must be {wanted}, got shape {got}")
    layer = layer[None] if len(got) == 2 else layer.flatten(0, -3)
    return layer.to(torch.promote_types(layer.dtype, torch.float32))
