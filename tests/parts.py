"""What each step of a followed token shows beside its head, read from the model itself."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.inside import Head, find_heads, record
from attn_notes.transformer import DecoderOnly, TransformerConfig
from attn_widgets import FollowToken
from attn_widgets.follow import READ

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
            parts = walk(model.decoder, target, memory=parts[-1]["output"])
    norm = ("norm",) * (model.config.norm == "pre")
    names = {"attention": (*norm, *READ, "heads", "add"), "network": (*norm, "think", "add")}
    steps = [(part, one) for part in parts for one in names.get(part["kind"], (part["kind"],))]
    part, named = steps[number]
    assert named == name
    return of_output(widget, part, at) if name == "out" else of_stream(name, part, at, model.config)


def walk(
    stack: Any, ids: Sequence[int], *, causal: bool = False, memory: Tensor | None = None
) -> list[Part]:
    """The parts of a stack of blocks in order, each with all that it computes at all positions."""
    given = {"is_causal": causal} if memory is None else {"memory": memory[None]}
    parts = [
        name for name, module in stack.named_modules() if not isinstance(module, nn.ModuleList)
    ]
    names = [name for name in parts if not name.endswith("attn.dropout")]  # part of the kernel
    with record(stack, [*names, *find_heads(stack)]) as activations:
        stack(torch.tensor([ids], device="cpu"), **given)
    found = {place: x[0] for place, x in activations.items()}  # of the one sentence
    x = found["embeddings"]  # (L, E)
    parts: list[Part] = [{"kind": "start", "block": 0, "x": x}]
    if stack.embeddings.positions is not None:
        embedding = found["embeddings.tokens"] * stack.embeddings.scale
        parts[0] |= {"embedding": embedding, "position": x - embedding}
    layers = ["self_attn", *["cross_attn"] * (memory is not None), "feed_forward"]
    for n, block in enumerate(stack.blocks):
        if n:
            parts.append({"kind": "start", "block": n, "x": x})
        for number, layer in enumerate(layers, start=1):
            y, norm = found[f"blocks.{n}.{layer}"], found[f"blocks.{n}.norm{number}"]
            part = {"block": n, "x": x, "input": x, "y": y, "sum": x + y, "after": norm}
            if block.norm_first:
                part |= {"input": norm, "after": x + y}
            if layer == "feed_forward":
                hidden = found[f"blocks.{n}.{layer}.linear1"]
                active = block.feed_forward.activation(hidden)
                part |= {"kind": "network", "hidden": hidden, "active": active}
            else:
                heads = [Head(f"blocks.{n}.{layer}", h) for h in range(stack.config.num_heads)]
                z = torch.stack([found[head] for head in heads])  # (H, L, D)
                part |= {"kind": "attention", "z": z}
            parts.append(part)
            x = part["after"]
    return [*parts, {"kind": "out", "block": n, "x": x, "output": found["norm"]}]


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
