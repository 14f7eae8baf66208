"""What each step of a followed token shows beside its head, computed part by part."""

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.multihead import merge_heads, split_heads
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_notes.widgets import FollowToken
from attn_notes.widgets.follow import READ

Part = dict[str, Any]  # of a model: its kind, its block, and what it computes
NAMES = {
    "scores": r"q|k \d+|q \u00d7 k \d+|q \u00b7 k",
    "scale": r"q \u00b7 k|\u00f7 \u221aD",
    "mask": r"q \u00b7 k|\u00f7 \u221aD|mask",
    "softmax": r"q \u00b7 k|\u00f7 \u221aD|mask|e\^s|weight",
    "values": r"weight|v \d+|weight \u00d7 v \d+|z",
}
"""What each step of one head shows."""
LIKELY = 6  # tokens whose probabilities the last step shows


def shown(widget: FollowToken) -> dict[str, Tensor]:
    """The numbers of the step by name, in float64; NaN where the mask closes a score."""
    (number, name, *_), (_, at, _) = widget._here(), widget._now()
    if name in READ:
        numbers = re.compile(NAMES[name])
        head = min(widget.head, widget._model.config.num_heads - 1)
        found = {key: x for key, x in widget.shown().items() if numbers.fullmatch(key)}
        return {f"z {head}" if key == "z" else key: x for key, x in found.items()}
    read, model = widget.data["sentences"][widget.sentence], widget._model
    source, target = read["source"][0], read["target"][0]
    stack = getattr(model, "encoder", getattr(model, "body", model))
    with torch.no_grad():
        parts = walk(stack, source, causal=isinstance(model, DecoderOnly))
        if widget.token >= len(source) and target:
            parts = walk(model.decoder, target, causal=True, memory=parts[-1]["output"])
    norm = ("norm",) * (model.config.norm == "pre")
    names = {"attention": (*norm, *READ, "heads", "add"), "network": (*norm, "think", "add")}
    steps = [(part, one) for part in parts for one in names.get(part["kind"], (part["kind"],))]
    part, named = steps[number]
    assert named == name
    return of_output(widget, part, at) if name == "out" else of_stream(name, part, at, model.config)


def walk(
    stack: Any, ids: Sequence[int], *, causal: bool, memory: Tensor | None = None
) -> list[Part]:
    """The parts of a stack of blocks in order, each with all that it computes at all positions."""
    tokens = torch.tensor([ids], device="cpu")
    x = stack.embeddings(tokens)[0]  # (L, E)
    parts: list[Part] = [{"kind": "start", "block": 0, "x": x}]
    if stack.embeddings.positions is not None:
        embedding = stack.embeddings.tokens(tokens)[0] * stack.embeddings.scale
        parts[0] |= {"embedding": embedding, "position": x - embedding}
    for n, block in enumerate(stack.blocks):
        made = [_attend((block.self_attn, block.norm1, block), x, causal=causal)]
        if memory is not None:
            across = block.cross_attn, block.norm2, block
            made.append(_attend(across, made[0]["after"], memory=memory))
        norm = block.norm2 if memory is None else block.norm3
        made.append(_think(norm, made[-1]["after"], block))
        x = made[-1]["after"]
        parts += [{**part, "block": n} for part in made]
        if n + 1 < len(stack.blocks):
            parts.append({"kind": "start", "block": n + 1, "x": x})
    return [*parts, {"kind": "out", "block": n, "x": x, "output": stack.norm(x)}]


def _attend(layers: Any, x: Tensor, *, memory: Tensor | None = None, causal: bool = False) -> Part:
    """Attention, with its norm and their block: from the stream before it to that after it."""
    attn, norm, block = layers
    read = norm(x) if block.norm_first else x
    memory = read if memory is None else memory
    projected = attn.q_proj(read), attn.k_proj(memory), attn.v_proj(memory)
    q, k, v = (split_heads(y, attn.num_heads) for y in projected)  # (H, L or S, D)
    mask = causal_mask(len(x), device="cpu") if causal else None
    z = masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask) @ v  # (H, L, D)
    written = _write(x, attn.out_proj(merge_heads(z)), norm, block)
    return {"kind": "attention", "z": z, **written}


def _think(norm: Any, x: Tensor, block: Any) -> Part:
    """The feed-forward network, from the stream before it to the stream after it."""
    network = block.feed_forward
    hidden = network.linear1(norm(x) if block.norm_first else x)
    found = {"kind": "network", "hidden": hidden, "active": network.activation(hidden)}
    return {**found, **_write(x, network.linear2(found["active"]), norm, block)}


def _write(x: Tensor, y: Tensor, norm: Any, block: Any) -> Part:
    """What a sublayer reads and writes, and the stream after it."""
    both, read = x + y, norm(x) if block.norm_first else x
    after = both if block.norm_first else norm(both)
    return {"x": x, "input": read, "y": y, "sum": both, "after": after}


def of_output(widget: FollowToken, part: Part, at: int) -> dict[str, Tensor]:
    """The last norm, and the likeliest of the tokens that may follow."""
    found, model = {"x": part["x"][at]}, widget._model
    if model.config.norm == "pre":
        found["LN(x)"] = part["output"][at]
    source = widget.data["sentences"][widget.sentence]["source"][0]
    in_target = hasattr(model, "decoder") and widget.token >= len(source)
    if in_target or isinstance(model, DecoderOnly):
        logits = model.out_proj(part["output"][at]).detach()  # (V,)
        best = logits.sort(descending=True, stable=True).indices[:LIKELY]
        found |= {"logit": logits[best], "probability": logits.softmax(-1)[best]}
    return found


def of_stream(name: str, part: Part, at: int, config: TransformerConfig) -> dict[str, Tensor]:
    """The numbers of one of the other steps, at one position."""
    if name == "start":
        return {key: part[key][at] for key in ("embedding", "position", "x") if key in part}
    if name == "heads":
        return {f"z {h}": z[at] for h, z in enumerate(part["z"])} | {"y": part["y"][at]}
    x, read, y, both, after = (part[key][at] for key in ("x", "input", "y", "sum", "after"))
    if name == "norm":
        return {"x": x, "LN(x)": read}
    if name == "think":
        hidden, active = part["hidden"][at], part["active"][at]
        return {"input": read, "hidden": hidden, config.activation: active, "y": y}
    added = {"x": x, "y": y, "x + y": both}
    return added if config.norm == "pre" else {**added, "LN(x + y)": after}
