"""The residual stream: what each part writes to it, and what it says of the output (chapter 11)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_broadcast
from attn_notes.inside.activations import Head, Place, walk
from attn_notes.transformer import (
    Decoder,
    DecoderBlock,
    DecoderOnly,
    Encoder,
    EncoderBlock,
    MaskedLanguageModel,
    Transformer,
)


def logit_lens(model: Transformer | DecoderOnly | MaskedLanguageModel, stream: Tensor) -> Tensor:
    """What the model would predict from an earlier stream: its last norm and output projection.

    nostalgebraist (2020); chapter 11. From (..., E), as `record` keeps it at one of `find_streams`
    in the last stack, logits (..., V). The stream after the last block gives the model's own
    logits.
    """
    x = last_stack(model)[1].norm(stream)
    if isinstance(model, MaskedLanguageModel):
        x = model.norm(model.activation(model.transform(x)))
    return model.out_proj(x)


def contributions(model: nn.Module, activations: Mapping[Place, Tensor]) -> dict[Place, Tensor]:
    """What each part adds to the residual stream of a pre-norm model. Chapter 11; Elhage (2021).

    The parts are the embeddings, each head after its slice of `out_proj`, the bias of each
    `out_proj`, and each feed-forward network, (B, L, E) each. Their sum is the stream after the
    last block; of a `Transformer`, the decoder's. The activations are those of one run in
    evaluation mode, all that `record(model)` keeps.

    Example:
        >>> from attn_notes.inside import record
        >>> from attn_notes.transformer import TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, norm="pre"))
        >>> with record(model) as activations:
        ...     logits = model(torch.tensor([[5, 6, 7]])).logits
        >>> parts = contributions(model, activations)
        >>> torch.allclose(sum(parts.values()), activations["body.blocks.1"], atol=1e-6)
        True
        >>> shares = direct_logits(model, parts, model.out_proj.weight[4])
        >>> torch.allclose(sum(shares.values()), logits[..., 4], atol=1e-6)
        True
    """
    name, _ = _pre_norm_stack(model)
    parts: dict[Place, Tensor] = {}
    for place, module in walk(model):
        if not str(place).startswith(name) or isinstance(module, EncoderBlock | DecoderBlock):
            continue
        parts[place] = activations[place]  # (B, L, E), of a head (B, L, D)
        if isinstance(place, Head):
            weight = module.out_proj.weight.unflatten(1, (module.num_heads, -1))[:, place.index]
            parts[place] = parts[place] @ weight.T  # (B, L, E)
            bias = module.out_proj.bias.expand_as(parts[place])
            parts[f"{place.layer}.out_proj.bias"] = bias
    return parts


def direct_logits(
    model: nn.Module, parts: Mapping[Place, Tensor], direction: Tensor
) -> dict[Place, Tensor]:
    """Direct logit attribution: each part's share of a logit, or of a difference. Chapter 11.

    Elhage et al. (2021). The last norm divides by the standard deviation of the whole stream; with
    that number held fixed it is linear, so that the shares (B, L) of `contributions` sum to the
    logit, with one more, "...norm.bias", for the bias of the last norm. They count what a part says
    to the vocabulary itself, and not what later parts make of it. A head's constant can be moved to
    the bias of its layer without changing the model: shares that do not depend on where it stands
    are those of parts from which the mean has been moved there.

    The direction is a row of `model.out_proj.weight`, (E,), for a token's logit; the difference of
    two rows for the difference of two logits; or one for each position: any shape that broadcasts
    to (B, L, E).
    """
    if not isinstance(model, Transformer | DecoderOnly):
        raise TypeError(f"model must be Transformer or DecoderOnly, got {type(model).__name__}")
    name, stack = _pre_norm_stack(model)
    if f"{name}blocks.0" in parts:
        raise ValueError("parts must be what contributions gives, got activations")
    stream = torch.stack([*parts.values()]).sum(0)  # (B, L, E)
    check_broadcast("direction", direction, stream.shape, of="stream")
    scale = (stream.var(-1, correction=0) + stack.norm.eps).sqrt()  # (B, L)
    read = reading_weight(stack.norm, direction)  # (..., E)
    shares = {place: (x * read).sum(-1) / scale for place, x in parts.items()}
    shares[f"{name}norm.bias"] = (direction * stack.norm.bias).sum(-1).expand_as(scale)
    return shares


def _pre_norm_stack(model: nn.Module) -> tuple[str, Any]:
    """The last stack of a model; raise if the norms stand on its residual stream."""
    name, stack = last_stack(model)
    if stack.config.norm != "pre":
        raise ValueError(f"model must be pre-norm, got {stack.config.norm}-norm")
    return name, stack


def last_stack(model: nn.Module) -> tuple[str, Any]:
    """How the names in the last `Encoder` or `Decoder` of a model begin, and the module itself."""
    stacks = [(n, part) for n, part in model.named_modules() if isinstance(part, Encoder | Decoder)]
    if not stacks:
        raise TypeError(f"model must have an Encoder or a Decoder, got {type(model).__name__}")
    name, stack = stacks[-1]
    return f"{name}." if name else "", stack


def reading_weight(norm: nn.Module | None, weight: Tensor) -> Tensor:
    """What a weight (..., E) behind a layer norm makes of the stream before it, up to the scale.

    The gain is multiplied in, and the norm's subtraction of the mean becomes the weight's own.
    """
    if not isinstance(norm, nn.LayerNorm):
        return weight  # post-norm: nothing stands between
    weight = weight * norm.weight.to(weight)
    return weight - weight.mean(-1, keepdim=True)
