"""What a head does, in one number: from its map, or from its weights alone (chapter 11)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_shapes
from attn_notes.inside.activations import Head
from attn_notes.inside.models import Part, Stack, find_stacks
from attn_notes.inside.streams import last_stack, read_norm, reading_weight, unembedding
from attn_notes.patterns import pattern_score


def prefix_matching_score(weights: Tensor, tokens: Tensor) -> Tensor:
    """How much of a head's weight goes to tokens that followed the same token. Chapter 11.

    Olsson et al. (2022): in A B ... A, the second A should read B. It is the mean, over the tokens
    (B, L) that have occurred before, of the weight on the tokens after those occurrences: from one
    layer's weights (B, H, L, L), (B, H) from 0 to 1; NaN where no token has an earlier twin whose
    next token it can read.

    Example:
        >>> tokens = torch.tensor([[5, 6, 7, 5]])
        >>> weights = torch.eye(4)[None, None].clone()
        >>> weights[0, 0, 3] = torch.tensor([0.0, 0.75, 0.25, 0.0])
        >>> prefix_matching_score(weights, tokens)
        tensor([[0.7500]])
    """
    check_shapes(weights=(weights, "B H L L"), tokens=(tokens, "B L"))
    i = torch.arange(tokens.shape[1], device=tokens.device)  # (L,), of the keys
    same = tokens[:, :, None] == tokens.roll(1, dims=1)[:, None]  # (B, L, L): i - 1 is like t
    cells = same & (i > 0) & (i < i[:, None])
    return torch.stack([pattern_score(w, c) for w, c in zip(weights, cells, strict=True)])


@torch.no_grad()
def copying_score(model: nn.Module, head: Head) -> float:
    r"""Whether a head that reads a token makes that token likelier: from its weights. Chapter 11.

    Elhage et al. (2021): $\sum\lambda/\sum|\lambda|$ over the eigenvalues of $W_U W_O W_V W_E$,
    from token to logit, with the gains of the norms before $W_V$ and $W_U$ multiplied in, and
    biases left out. A positive eigenvalue raises the logits of the very tokens that are read. From
    -1 to 1, about 0 for random weights; the head is one of the self-attention of a `DecoderOnly`,
    or of a `Transformer`'s decoder.
    """
    stack, projection = last_stack(model), unembedding(model)
    own = head_weights(model, head)
    if head.layer not in [layer.name for layer in stack.layers]:
        raise ValueError(f"head must be one of the last stack's, {stack.name[:-1]}, got {head}")
    embedded = own.value @ _exact(stack.token_weight).T  # (D, V)
    unembedded = reading_weight(stack.norm, _exact(projection.weight))  # (V, E)
    values = torch.linalg.eigvals(embedded @ unembedded @ own.output)  # (D,), the others are 0
    return float(values.real.sum() / values.abs().sum())


@torch.no_grad()
def composition(model: nn.Module, earlier: Head, later: Head) -> dict[str, float]:
    r"""How far a later head reads what an earlier one writes: from the weights alone. Chapter 11.

    Elhage et al. (2021): $\lVert AB\rVert/(\lVert A\rVert\lVert B\rVert)$, in Frobenius norms, of
    $B=W_OW_V$ of the earlier head and A of the later: $W_Q^\top W_K$ transposed for its queries, as
    it is for its keys, $W_OW_V$ for its values: "q", "k" and "v", each from 0 to 1. The gains of
    the norms before the projections are multiplied in; biases, positions and post-norms are left
    out. If the stream between the two heads, self-attention of one stack, is rotated at random, the
    root mean square is $1/\sqrt E$: compare with that.
    """
    places = [_block(model, head) for head in (earlier, later)]
    if places[0][0] != places[1][0] or places[0][1] >= places[1][1]:
        wanted = "in the self-attention of an earlier and a later block of one stack"
        raise ValueError(f"heads must be {wanted}, got {earlier} and {later}")
    a, b = head_weights(model, earlier), head_weights(model, later)
    written, scored = a.output @ a.value, b.query.T @ b.key  # (E, E)
    norm = torch.linalg.matrix_norm
    readers = {"q": scored.T, "k": scored, "v": b.output @ b.value}
    return {n: float(norm(x @ written) / norm(x) / norm(written)) for n, x in readers.items()}


class HeadWeights(NamedTuple):
    """The matrices of one head, in float64 on the CPU, with the gains of the norms around it."""

    query: Tensor  # (D, E)
    key: Tensor  # (D, E), shared where G < H
    value: Tensor  # (D, E)
    output: Tensor  # (E, D)


def head_weights(model: nn.Module, head: Head) -> HeadWeights:
    """The matrices of a head of a block's self-attention; raise if the head is another.

    The gains of norms on queries and keys are multiplied in, and those between attention and
    stream; rotations and biases are left out.
    """
    stack, _ = _block(model, head)
    layer = next(layer for layer in stack.layers if layer.name == head.layer)
    if unknown := layer.unknown_norms(model.get_submodule(layer.block)):
        raise ValueError(f"head must have norms that are known, got {unknown[0]}")
    before, after = stack.norm_before(layer), stack.norm_after(layer.name)
    query, key, value, output = (_exact(weight) for weight in layer.weights())

    def rows(part: Part, weight: Tensor) -> Tensor:
        heads = layer.num_heads if part == "query" else layer.num_kv_heads
        own = weight.unflatten(0, (heads, -1))[layer.head_of(part, head.index)]  # (D, E)
        norm = getattr(layer.module, name := f"{part[0]}_norm", None)
        has_none = norm is None or isinstance(norm, nn.Identity)
        gain = own.new_ones(len(own)) if has_none else _exact(read_norm(norm).gain)
        if gain.shape != own.shape[:1]:
            got = f"{name} over {len(gain)} numbers for a head of {len(own)}"
            raise ValueError(f"head must have norms that are known, got {got}")
        return reading_weight(before, own * gain[:, None])

    output = output.unflatten(1, (layer.num_heads, -1))[:, head.index]  # (E, D)
    gain = 1.0 if after is None else _exact(read_norm(after).gain)[:, None]
    read = rows("query", query), rows("key", key), rows("value", value)
    return HeadWeights(*read, output * gain)


def _block(model: nn.Module, head: Head) -> tuple[Stack, int]:
    """The stack and the number of the block whose self-attention a head is in; raise if none."""
    for stack in find_stacks(model):
        for layer in stack.layers:
            is_own = layer.name == f"{layer.block}.{layer.family.own}".lstrip(".")
            if is_own and layer.name == head.layer and head.index in range(layer.num_heads):
                return stack, stack.blocks.index(layer.block)
    raise ValueError(f"head must be one of a block's self-attention, got {head}")


def _exact(weight: Tensor) -> Tensor:
    """A weight in float64 on the CPU, since not every device has float64."""
    return weight.cpu().double()
