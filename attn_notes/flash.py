"""Attention tile by tile: the softmax while its scores arrive (chapter 10).

`online_softmax` reads the scores of one query in tiles and shows every step. `tiled_attention` does
the same for all queries at once, forward and backward, and stores no more weights than one tile of
keys gives: memory grows with L + S and not with L · S. Here the tiles are a loop in Python, to be
read; `attn_notes.triton_attention` is the same loop as a kernel for a GPU.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attn_notes.arguments import check_floating, check_integers, check_shapes
from attn_notes.guard import guarded
from attn_notes.masks import and_causal
from attn_notes.modes import full_precision

INF = math.inf


class Tile(NamedTuple):
    """What is known of one query after the keys from `start` to `end`.

    `output / total` is the attention to the keys so far.
    """

    start: int  # the first key of the tile last read
    end: int  # the key after its last
    maximum: Tensor  # the largest score so far; -inf if all were masked
    rescale: Tensor  # exp(old maximum - new maximum), which multiplied the old total and output
    total: Tensor  # the sum of exp(score - maximum) so far
    output: Tensor  # (Dv,), the sum of exp(score - maximum) times the value, not yet divided


def online_softmax(scores: Tensor, values: Tensor, *, tile: int) -> Iterator[Tile]:
    """The softmax-weighted sum of values (S, Dv), from one query's scores (S,) a tile at a time.

    Milakov and Gimelshein (2018) for the sum; chapter 10. A `Tile` after each step, the last of
    which may be shorter. A masked score is -inf. The first rescale is 0, as there is nothing to
    keep. While every score was -inf, the total and the output are 0.

    Example:
        >>> scores, values = torch.tensor([0.0, 1.0, 3.0]), torch.eye(3)
        >>> *_, last = online_softmax(scores, values, tile=2)
        >>> last.output / last.total
        tensor([0.0420, 0.1142, 0.8438])
    """
    check_floating(scores=scores, values=values)
    check_integers(1, tile=tile)
    check_shapes(scores=(scores, "S"), values=(values, "S Dv"))
    wide = torch.promote_types(scores.dtype, torch.float32)
    scores, values = scores.to(wide), values.to(wide)
    maximum = scores.new_full((), -INF)
    total, output = scores.new_zeros(()), values.new_zeros(values.shape[1])
    for start in range(0, len(scores), tile):
        end = min(start + tile, len(scores))
        arrived = scores[start:end]  # (tile,)
        old, maximum = maximum, torch.maximum(maximum, arrived.max())
        rescale = (old - finite(maximum)).exp()
        weights = (arrived - finite(maximum)).exp()  # (tile,)
        total = rescale * total + weights.sum()
        output = rescale * output + weights @ values[start:end]  # (Dv,)
        yield Tile(start, end, maximum, rescale, total, output)


@guarded
@full_precision
def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    tile: int = 64,
) -> Tensor:
    """`attention_weights(query, key, …) @ value`, `tile` keys at a time.

    FlashAttention (Dao et al., 2022) in torch, with the rows of queries kept whole; chapter 10. The
    backward pass computes the weights again from the saved output and log-sum-exp of each row. It
    has no second derivative. The other arguments and the result are those of
    `scaled_dot_product_attention`.

    Example:
        >>> query, key, value = torch.ones(1, 4), torch.ones(2, 4), torch.tensor([[1.0], [3.0]])
        >>> tiled_attention(query, key, value, tile=1)
        tensor([[2.]])
    """
    check_integers(1, tile=tile)
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*attn_mask.shape[:-1], key.shape[-2])  # a view
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide) * scale, key.to(wide), value.to(wide)
    return TiledAttention.apply(q, k, v, attn_mask, is_causal, tile)[0].to(query.dtype)


class TiledAttention(torch.autograd.Function):
    """The two passes of `tiled_attention`, in at least 32 bits; the query is scaled already."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        """The output; for the way back, the log-sum-exp of each row."""
        q, k, v, mask, is_causal, tile = inputs
        maximum = q.new_full((*q.shape[:-1], 1), -INF)  # (..., L, 1)
        total = torch.zeros_like(maximum)
        output = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (..., L, Dv)
        for keys, scores in score_tiles(q, k, mask, is_causal, tile):
            old = maximum
            maximum = torch.maximum(old, scores.amax(-1, keepdim=True))
            rescale = (old - finite(maximum)).exp()
            weights = (scores - finite(maximum)).exp()  # (..., L, tile)
            total = rescale * total + weights.sum(-1, keepdim=True)
            output = rescale * output + weights @ v[..., keys, :]
        # The largest score adds exp(0) = 1: below 1 are only empty rows.
        total = total.clamp(min=1)
        return output / total, maximum + total.log()  # ln of the sum of exp(scores)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """What the way back needs."""
        ctx.save_for_backward(*inputs[:4], *output)
        ctx.options = inputs[4:]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, d_output: Tensor, _: Tensor) -> Any:
        """The gradients, from weights that are computed again."""
        if torch.is_grad_enabled():
            must = "create_graph must be False: no second derivative"
            raise RuntimeError(f"{must} of tiled_attention is known")
        q, k, v, mask, output, log_sum_exp = ctx.saved_tensors
        dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
        mean = (d_output * output).sum(-1, keepdim=True)  # (..., L, 1)
        for keys, scores in score_tiles(q, k, mask, *ctx.options):
            weights = (scores - finite(log_sum_exp)).exp()  # (..., L, tile)
            d_weights = d_output @ v[..., keys, :].mT
            d_scores = weights * (d_weights - mean)
            dq += d_scores @ k[..., keys, :]
            dk[..., keys, :] = d_scores.mT @ q
            dv[..., keys, :] = weights.mT @ d_output
        return dq, dk, dv, None, None, None


def score_tiles(
    q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, tile: int
) -> Iterator[tuple[slice, Tensor]]:
    """Some keys at a time, and their scores (..., L, tile), -inf if masked."""
    L, S = q.shape[-2], k.shape[-2]
    for start in range(0, S, tile):
        keys = slice(start, min(start + tile, S))
        scores = q @ k[..., keys, :].mT  # (..., L, tile)
        may = None if mask is None else mask[..., keys]
        if is_causal:  # query 0 comes `start` before the tile's first key
            size, device = scores.shape[-1], scores.device
            may = and_causal(may, L, size, offset=-start, device=device)
        if may is not None:
            scores = scores.masked_fill(~may, -INF)
        yield keys, scores


def finite(maximum: Tensor) -> Tensor:
    """What to subtract: any number will do where every score is -inf."""
    return maximum.masked_fill(maximum == -INF, 0.0)
