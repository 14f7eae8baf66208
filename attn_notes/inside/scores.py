"""What a head does, in one number: from its map, or from its weights alone (chapter 11)."""

import re
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_shapes
from attn_notes.inside.activations import Head, find_module
from attn_notes.inside.streams import last_stack, reading_weight
from attn_notes.patterns import pattern_score
from attn_notes.transformer import DecoderOnly, Transformer


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
    if not isinstance(model, Transformer | DecoderOnly):
        raise TypeError(f"model must be Transformer or DecoderOnly, got {type(model).__name__}")
    name, stack = last_stack(model)
    own = head_weights(model, head)
    if not head.layer.startswith(name):
        raise ValueError(f"head must be one of the {type(stack).__name__}'s, got {head}")
    embedded = own.value @ _exact(stack.embeddings.tokens.weight).T  # (D, V)
    unembedding = reading_weight(stack.norm, _exact(model.out_proj.weight))  # (V, E)
    values = torch.linalg.eigvals(embedded @ unembedding @ own.output)  # (D,), the others are 0
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
    places = [re.fullmatch(r"(.*)blocks\.(\d+)\.self_attn", x.layer) for x in (earlier, later)]
    stacks, blocks = zip(*[(p[1], int(p[2])) if p else (None, 0) for p in places], strict=True)
    if None in stacks or stacks[0] != stacks[1] or blocks[0] >= blocks[1]:
        wanted = "in the self-attention of an earlier and a later block of one stack"
        raise ValueError(f"heads must be {wanted}, got {earlier} and {later}")
    a, b = head_weights(model, earlier), head_weights(model, later)
    written, scored = a.output @ a.value, b.query.T @ b.key  # (E, E)
    norm = torch.linalg.matrix_norm
    readers = {"q": scored.T, "k": scored, "v": b.output @ b.value}
    return {n: float(norm(x @ written) / norm(x) / norm(written)) for n, x in readers.items()}


class HeadWeights(NamedTuple):
    """The matrices of one head, in float64 on the CPU, with the gains of the norm before it."""

    query: Tensor  # (D, E)
    key: Tensor  # (D, E), shared where G < H
    value: Tensor  # (D, E)
    output: Tensor  # (E, D)


def head_weights(model: nn.Module, head: Head) -> HeadWeights:
    """The matrices of a head of a block's self-attention; raise if the head is another."""
    layer = find_module(model, head)
    block = find_module(model, head.layer.rpartition(".")[0])
    is_own = getattr(block, "self_attn", None) is layer
    if not is_own:
        raise ValueError(f"head must be one of a block's self-attention, got {head}")
    norm = block.norm1 if block.norm_first else None
    shared = head.index * layer.num_kv_heads // layer.num_heads  # the key-value head it reads

    def rows(weight: Tensor, heads: int, index: int) -> Tensor:
        return reading_weight(norm, _exact(weight).unflatten(0, (heads, -1))[index])  # (D, E)

    query, key, value = layer.qkv_weights()
    return HeadWeights(
        rows(query, layer.num_heads, head.index),
        rows(key, layer.num_kv_heads, shared),
        rows(value, layer.num_kv_heads, shared),
        _exact(layer.out_proj.weight).unflatten(1, (layer.num_heads, -1))[:, head.index],
    )


def _exact(weight: Tensor) -> Tensor:
    """A weight in float64 on the CPU, since not every device has float64."""
    return weight.cpu().double()
