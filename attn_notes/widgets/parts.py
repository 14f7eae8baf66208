"""What the heads of a Transformer compute on the way from its input to its output."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.multihead import MultiHeadAttention, split_heads

READ = ("scores", "scale", "mask", "softmax", "values")  # the steps of one head

Part = dict[str, Any]  # of a model: its kind, its block, and of an attention what it computes


def run(stack: Any, ids: Sequence[int], **options: Any) -> tuple[list[Part], Tensor]:
    """The parts of a stack of blocks in order, and its output (1, L, E)."""
    heads: list[Part] = []

    def note(attn: Any, arguments: Any, given: dict[str, Any], _: Any) -> None:
        query = arguments[0]  # (1, L, E)
        key = query if given.get("key") is None else given["key"]  # (1, S, E)
        heads.append(_attend(attn, query[0], key[0], causal=given.get("is_causal", False)))

    attentions = [m for m in stack.blocks.modules() if isinstance(m, MultiHeadAttention)]
    hooks = [attn.register_forward_hook(note, with_kwargs=True) for attn in attentions]
    output = stack(torch.tensor([ids], device="cpu"), **options).output
    for hook in hooks:
        hook.remove()
    parts: list[Part] = []
    each = len(heads) // len(stack.blocks)  # one attention, or two
    for n in range(len(stack.blocks)):
        made = [{"kind": "start"}, *heads[each * n : each * (n + 1)], {"kind": "network"}]
        parts += [{**part, "block": n} for part in made]
    return [*parts, {"kind": "out", "block": n}], output


def _attend(attn: Any, query: Tensor, key: Tensor, *, causal: bool) -> Part:
    """What all heads compute, of the vectors (L, E) that read and those (S, E) that are read."""
    projected = attn.q_proj(query), attn.k_proj(key), attn.v_proj(key)
    q, k, v = (split_heads(y, attn.num_heads) for y in projected)  # (H, L or S, D)
    scores = q @ k.mT  # (H, L, S)
    mask = causal_mask(len(query), device="cpu") if causal else torch.ones_like(scores[0]) > 0
    weights = masked_softmax(scores / math.sqrt(q.shape[-1]), mask)
    z = weights @ v  # (H, L, D)
    found = {"q": q, "k": k, "v": v, "scores": scores, "mask": mask, "weights": weights, "z": z}
    return {"kind": "attention", **found}


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
