"""The residual stream: what each part writes to it, and what it says of the output (chapter 11)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_broadcast
from attn_notes.guard import can_look
from attn_notes.inside.activations import Head, Place, default_places
from attn_notes.inside.models import Layer, Stack, find_stacks, weight_of
from attn_notes.transformer import DecoderOnly, MaskedLanguageModel, Transformer

EPS = "eps", "variance_epsilon"  # what a norm calls it
SCALES = "logit_scale", "logits_scaling"  # Cohere's and Granite's, on the logits


def logit_lens(model: Any, stream: Tensor) -> Tensor:
    """What the model would predict from an earlier stream: its last norm and output projection.

    nostalgebraist (2020); chapter 11. From (..., E), as `record` keeps it at one of `find_streams`
    in the last stack, logits (..., V), behind the cap of Gemma 2. The stream after the last block
    gives the model's own logits.

    Example:
        >>> from attn_notes.inside import find_streams, record
        >>> from attn_notes.transformer import TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, norm="pre"))
        >>> with record(model) as activations:
        ...     logits = model(torch.tensor([[5, 6, 7]])).logits
        >>> lens = [logit_lens(model, activations[name]) for name in find_streams(model)]
        >>> [each.shape[-1] for each in lens], torch.equal(lens[-1], logits)
        ([9, 9, 9], True)
    """
    norm = last_stack(model).norm
    x = stream if norm is None else norm(stream)
    if isinstance(model, MaskedLanguageModel):
        return model.out_proj(model.norm(model.activation(model.transform(x))))
    if norm is None and hasattr(model, "cls"):  # BERT
        return model.cls(x)
    logits = unembedding(model)(x)
    cap = getattr(getattr(model, "config", None), "final_logit_softcapping", None)
    return logits if cap is None else cap * (logits / cap).tanh()


def contributions(
    model: nn.Module,
    activations: Mapping[Place, Tensor],
    *,
    means: Mapping[Place, Tensor] | None = None,
) -> dict[Place, Tensor]:
    """What each part adds to the residual stream of a pre-norm model. Chapter 11; Elhage (2021).

    The parts are the embeddings, each head after its slice of the output projection, the bias of
    each projection, and each feed-forward network, (B, L, E) each. Their sum is the stream after
    the last block; of a `Transformer`, the decoder's. Where a norm stands between a sublayer and
    the stream (Gemma 2 and 3), it is divided among the parts with its scale held fixed.

    A head's constant can be moved to the bias of its layer without changing the model. With the
    `means` of heads, each counts by what differs from its mean, and the means count with the bias.

    Args:
        model: pre-norm: of `attn_notes.transformer`, or GPT-2, Llama, Qwen, Gemma and the like.
        activations: of one run in evaluation mode, all that `record(model)` keeps. Parts that do
            not add up to the last of its streams raise a ValueError.
        means: of some heads, each (Dv,), or what broadcasts to (B, L, Dv).

    Example:
        >>> from attn_notes.inside import record
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
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
    stack, means = pre_norm_stack(model), means or {}
    layers = {layer.name: layer for layer in stack.layers}
    own = {*layers, *stack.networks, stack.streams[0]}
    names = [x.layer if isinstance(x, Head) else x for x in default_places(model)]
    parts: dict[Place, Tensor] = {}
    for name in dict.fromkeys(name for name in names if name in own):
        if name in layers:
            written = _of_heads(layers[name], activations, means)
        else:
            written = {name: _activation(activations, name)}
        if after := stack.norm_after(name):
            norm, whole = read_norm(after), torch.stack([*written.values()]).sum(0)
            scaled = norm.gain / norm.scale(whole)[..., None]  # (B, L, E)
            written = {place: x * scaled for place, x in written.items()}
        parts |= written
    if unknown := [str(x) for x in means if x not in parts or not isinstance(x, Head)]:
        raise ValueError(f"means must be of heads that are split, got {unknown[0]}")
    _check_sum(parts, _activation(activations, stack.blocks[-1]))
    return parts


def direct_logits(
    model: nn.Module, parts: Mapping[Place, Tensor], direction: Tensor
) -> dict[Place, Tensor]:
    """Direct logit attribution: each part's share of a logit, or of a difference. Chapter 11.

    Elhage et al. (2021). The last norm divides by the standard deviation of the whole stream, or by
    its root mean square; with that number held fixed it is linear, so that the shares (B, L) of
    `contributions` sum to the logit, with one more, "...norm.bias", for the bias of the last norm
    if it has one. They count what a part says to the vocabulary itself, and not what later parts
    make of it. Where the model caps its logits (Gemma 2), they sum to the logit before that.

    The direction is a row of the output projection's weight (`model.out_proj.weight`, in the
    reference library `model.lm_head.weight`), (E,), for a token's logit; the difference of two rows
    for the difference of two logits; or one for each position: any shape that broadcasts to
    (B, L, E).
    """
    stack = pre_norm_stack(model)
    unembedding(model)  # raises where something else makes the logits
    if stack.blocks[0] in parts:
        raise ValueError("parts must be what contributions gives, got activations")
    heads = [Head(layer.name, n) for layer in stack.layers for n in range(layer.num_heads)]
    for place in (stack.streams[0], *heads, *stack.networks):  # all, for the scale of their sum
        if place not in parts:
            raise ValueError(f"parts must be all that contributions gives, got none of {place}")
    stream, norm = torch.stack([*parts.values()]).sum(0), read_norm(stack.norm)  # (B, L, E)
    check_broadcast("direction", direction, stream.shape, of="stream")
    scale = norm.scale(stream)  # (B, L)
    read = reading_weight(stack.norm, direction)  # (..., E)
    shares = {place: (x * read).sum(-1) / scale for place, x in parts.items()}
    if norm.bias is not None:
        name = f"{stack.name}{stack.family.norm}.bias"
        shares[name] = (direction * norm.bias).sum(-1).expand_as(scale)
    return shares


def last_stack(model: nn.Module) -> Stack:
    """The last stack of blocks in a model; raise if none is known."""
    if stacks := [stack for stack in find_stacks(model) if len(stack.streams) > len(stack.blocks)]:
        return stacks[-1]
    raise TypeError(f"model must have embeddings and blocks, got {type(model).__name__}")


def pre_norm_stack(model: nn.Module) -> Stack:
    """The last stack of a model; raise if the norms stand on its residual stream."""
    stack = last_stack(model)
    if stack.norm is None:
        got = f"{type(model).__name__}, which is post-norm: its norms stand on the stream itself"
        raise ValueError(f"model must be pre-norm, got {got}")
    return stack


def unembedding(model: nn.Module) -> Any:
    """The projection from the last norm to the logits; raise if something else makes them."""
    config = getattr(model, "config", None)
    if scales := [name for name in SCALES if getattr(config, name, 1) != 1]:
        got = f"{type(model).__name__}, whose logits are scaled ({scales[0]})"
        raise TypeError(f"model must have logits of its output projection, got {got}")
    if isinstance(model, Transformer | DecoderOnly):
        return model.out_proj
    if isinstance(head := getattr(model, "lm_head", None), nn.Linear):
        return head
    wanted = "Transformer or DecoderOnly, or one for causal language modelling in transformers"
    raise TypeError(f"model must be {wanted}, got {type(model).__name__}")


class Norm(NamedTuple):
    """A layer norm, or a root-mean-square norm."""

    gain: Tensor  # (E,), what it really multiplies by
    bias: Tensor | None
    eps: float
    is_centred: bool

    def scale(self, x: Tensor) -> Tensor:
        """What it divides a stream (..., E) by, (...,)."""
        square = x.var(-1, correction=0) if self.is_centred else x.square().mean(-1)
        return (square + self.eps).sqrt()


def read_norm(norm: Any) -> Norm:
    """What a norm does; one that is neither a layer norm nor an RMSNorm raises a ValueError.

    The gain of an RMSNorm is measured, since some hold it less 1 (Gemma's `1 + weight`).
    """
    if type(norm) is nn.LayerNorm:  # Nemotron's, one that is derived, adds 1 to its weight
        own = torch.ones((), device="cpu") if norm.weight is None else norm.weight
        return Norm(own, norm.bias, norm.eps, True)
    weight = next(norm.parameters(), torch.ones(0, device="cpu"))
    wide = torch.promote_types(weight.dtype, torch.float32)
    eps = next((x for x in (getattr(norm, n, None) for n in EPS) if x), torch.finfo(wide).eps)
    ones = torch.ones_like(weight, dtype=wide)
    gain = norm(ones) * (1 + eps) ** 0.5 if len(ones) else ones  # (E,)
    x = 2 * ones.cumsum(0) / max(len(ones), 1) - 0.5
    expected = gain * x / (x.square().mean() + eps).sqrt()
    if not len(ones) or (can_look(x) and not torch.allclose(norm(x), expected, rtol=1e-3)):
        raise ValueError(f"a norm must be LayerNorm or RMSNorm, got {type(norm).__name__}")
    return Norm(gain, None, eps, False)


def reading_weight(norm: Any, weight: Tensor) -> Tensor:
    """What a weight (..., E) behind a norm makes of the stream before it, up to the scale.

    The gain is multiplied in, and a layer norm's subtraction of the mean becomes the weight's own.
    """
    if norm is None:
        return weight  # post-norm: nothing stands between
    found = read_norm(norm)
    weight = weight * found.gain.to(weight)
    return weight - weight.mean(-1, keepdim=True) if found.is_centred else weight


def _of_heads(
    layer: Layer, activations: Mapping[Place, Tensor], means: Mapping[Place, Tensor]
) -> dict[Place, Tensor]:
    """What each head passes through its slice of the projection, and last all constants."""
    written: dict[Place, Tensor] = {}
    weights = weight_of(layer.out_proj).unflatten(1, (layer.num_heads, -1))  # (E, H, D)
    constant = getattr(layer.out_proj, "bias", None)
    for index in range(layer.num_heads):
        head, weight = Head(layer.name, index), weights[:, index]
        x = _activation(activations, head)  # (B, L, D)
        if head in means:
            x = x - means[head]
            moved = means[head] @ weight.T
            constant = moved if constant is None else constant + moved
        written[head] = x @ weight.T  # (B, L, E)
    if constant is not None:
        place = f"{layer.name}.{layer.output}.bias".lstrip(".")
        written[place] = constant.expand_as(written[head])
    return written


def _activation(activations: Mapping[Place, Tensor], place: Place) -> Tensor:
    """The activation at a place; raise if it was not kept."""
    x: Tensor | list[Tensor] | None = activations.get(place)
    if x is None or isinstance(x, list):  # a list: of every call
        wanted, got = "all that record(model) keeps of one run", "none" if x is None else "several"
        raise ValueError(f"activations must be {wanted}, got {got} of {place}")
    return x


def _check_sum(parts: Mapping[Place, Tensor], stream: Tensor) -> None:
    """Raise unless the parts sum to the stream, up to the rounding of its dtype."""
    if not can_look(stream):
        return
    error = (torch.stack([*parts.values()]).sum(0) - stream).abs().max().item()
    size = torch.stack([x.abs().max() for x in (*parts.values(), stream)]).max().item()
    if error > size * max(torch.finfo(stream.dtype).eps, 1e-7) ** 0.5:
        wanted = "sum to the stream after the last block, in evaluation mode without autocast"
        raise ValueError(f"what the parts write must {wanted}, got {error:.2g} beside it")
