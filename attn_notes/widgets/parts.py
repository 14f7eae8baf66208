"""What each part of a Transformer computes on the way from its input to its output."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.multihead import merge_heads, split_heads

READ = ("scores", "scale", "mask", "softmax", "values")  # the steps of one head

Part = dict[str, Any]  # of a model: its kind, its block, and what it computes at all positions


def run(
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
        made = [_attend(block.self_attn, block.norm1, x, block, causal=causal)]
        if memory is not None:
            x = made[0]["after"]
            made.append(_attend(block.cross_attn, block.norm2, x, block, memory=memory))
        norm = block.norm2 if memory is None else block.norm3
        made.append(_think(norm, made[-1]["after"], block))
        x = made[-1]["after"]
        parts += [{**part, "block": n} for part in made]
        if n + 1 < len(stack.blocks):
            parts.append({"kind": "start", "block": n + 1, "x": x})
    return [*parts, {"kind": "out", "block": n, "x": x, "output": stack.norm(x)}]


def _attend(
    attn: Any,
    norm: Any,
    x: Tensor,
    block: Any,
    *,
    memory: Tensor | None = None,
    causal: bool = False,
) -> Part:
    """Attention of all heads, from the stream before it to the stream after it."""
    read = norm(x) if block.norm_first else x
    memory = read if memory is None else memory
    projected = attn.q_proj(read), attn.k_proj(memory), attn.v_proj(memory)
    q, k, v = (split_heads(y, attn.num_heads) for y in projected)  # (H, L or S, D)
    scores = q @ k.mT  # (H, L, S)
    mask = causal_mask(len(x), device="cpu") if causal else torch.ones_like(scores[0]) > 0
    weights = masked_softmax(scores / math.sqrt(q.shape[-1]), mask)
    z = weights @ v  # (H, L, D)
    found = {"q": q, "k": k, "v": v, "scores": scores, "mask": mask, "weights": weights, "z": z}
    return {"kind": "attention", **found, **_write(x, attn.out_proj(merge_heads(z)), norm, block)}


def _think(norm: Any, x: Tensor, block: Any) -> Part:
    """The feed-forward network, from the stream before it to the stream after it."""
    network = block.feed_forward
    hidden = network.linear1(norm(x) if block.norm_first else x)
    active = network.activation(hidden)
    found = {"kind": "network", "hidden": hidden, "active": active}
    return {**found, **_write(x, network.linear2(active), norm, block)}


def _write(x: Tensor, y: Tensor, norm: Any, block: Any) -> Part:
    """What a sublayer reads and writes, and the stream after it."""
    both, read = x + y, norm(x) if block.norm_first else x
    after = both if block.norm_first else norm(both)
    return {"x": x, "input": read, "y": y, "sum": both, "after": after}


def of_head(name: str, part: Part, at: int, head: int) -> dict[str, Tensor]:
    """The numbers of one of the steps of one head, of the query at one position."""
    q, scores, weights, z = (part[key][head, at] for key in ("q", "scores", "weights", "z"))
    keys, values, mask = part["k"][head], part["v"][head], part["mask"][at]
    if name == "scores":
        found = {"q": q}
        for j, key in enumerate(keys):
            found |= {f"k {j}": key, f"q \u00d7 k {j}": q * key}
        return {**found, "q \u00b7 k": scores}
    if name == "values":
        found = {"weight": weights.masked_fill(~mask, math.nan)}
        for j, (weight, value) in enumerate(zip(weights, values, strict=True)):
            found |= {f"v {j}": value, f"weight \u00d7 v {j}": weight * value}
        return {**found, f"z {head}": z}
    scaled = scores / math.sqrt(len(q))
    closed = scaled.masked_fill(~mask, math.nan)
    found = {"q \u00b7 k": scores, "\u00f7 \u221aD": scaled, "mask": closed}
    found |= {"e^s": (closed - scaled[mask].max()).exp(), "weight": weights}
    found["weight"] = weights.masked_fill(~mask, math.nan)
    return dict(list(found.items())[: {"scale": 2, "mask": 3, "softmax": 5}[name]])
