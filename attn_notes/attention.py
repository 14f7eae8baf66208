"""Attention: weights from queries and keys, and the weighted sum (chapters 2 and 3).

The weights and the weighted sum are separate functions, because a heatmap needs the weights.
`attention_weights` is the explicit path, which can be looked at; `scaled_dot_product_attention`
is torch's fused kernel behind the same rules. Both give the same numbers. A dtype that differs
from the others is refused, but under autocast, which reconciles them.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.arguments import check_fractions, check_shapes
from attn_notes.guard import can_look, finite_rows, guarded, is_finite, without_unread
from attn_notes.masks import and_bias, and_causal, masked_softmax, softmax_in_place
from attn_notes.modes import full_precision


@guarded
@full_precision
def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    attn_mask: Tensor | None = None,
    attn_bias: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    r"""The weights of scaled dot-product attention, softmax(Q Kᵀ / √D).

    Vaswani et al. (2017), equation 1, without the value; chapters 2 and 3.

    Args:
        query: (..., L, D).
        key: (..., S, D), the same leading axes.
        attn_mask: bool, `True` = may attend, broadcastable to (..., L, S).
        attn_bias: float, broadcastable to (..., L, S), added to the scores before masking.
        is_causal: query i reads no key after i. Together with `attn_mask` it means both.
        scale: what the dot products are multiplied by; $1/\sqrt D$ by default.

    Returns:
        (..., L, S), rows summing to 1, or to 0 where nothing may be read.

    Example:
        >>> query, key = torch.ones(2, 4), torch.ones(3, 4)
        >>> attention_weights(query, key, is_causal=True)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000]])
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = torch.promote_types(query.dtype, torch.float32)  # scores overflow in half precision
    scores = (query.to(wide) * scale) @ key.to(wide).mT  # (..., L, S)
    if attn_bias is not None:
        scores = scores + attn_bias
        if not can_look(scores):  # then `guarded` cannot see the NaN of a row that it empties
            attn_mask = and_bias(attn_mask, attn_bias, scores.dim())
    mask = attn_mask
    if is_causal:
        mask = and_causal(mask, *scores.shape[-2:], device=scores.device)
    if attn_mask is not None:
        return masked_softmax(scores, mask).to(query.dtype)
    if mask is not None:  # every query may read key 0: no row is empty
        scores.masked_fill_(~mask, -math.inf)
    return softmax_in_place(scores).to(query.dtype)


@guarded
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    attn_bias: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """`attention_weights(query, key, …) @ value`, by torch's fused kernel.

    Vaswani et al. (2017), equation 1. The weights are never stored, so memory grows with L + S and
    not with L · S. Differs from `torch.nn.functional.scaled_dot_product_attention` in three rules:
    `is_causal` with `attn_mask` means both, a mask of three axes on queries of four is refused, and
    leading axes do not broadcast.

    From values (..., S, Dv), (..., L, Dv); 0 where a query may read nothing. `dropout_p` is the
    share of weights set to 0, in training and in evaluation. The other arguments are those of
    `attention_weights`, but a bias is rounded to the query's dtype first: in float16 its finite
    entries must be within ±65504. A masked key or value changes nothing, even if it is NaN or
    infinite. On a GPU and in a compiled graph this holds only for keys that no query may read,
    since checking every number would be too slow.

    Example:
        >>> query, key, value = torch.ones(1, 4), torch.ones(2, 4), torch.tensor([[1.0], [3.0]])
        >>> scaled_dot_product_attention(query, key, value)
        tensor([[2.]])
    """
    check_fractions(dropout_p=dropout_p)
    # Torch's is_causal goes with neither mask nor bias, and gives NaN unless the scale is above 0.
    is_alone = attn_mask is None and attn_bias is None and (scale is None or scale > 0)
    if is_causal and not is_alone:
        L, S = query.shape[-2], key.shape[-2]
        attn_mask, is_causal = and_causal(attn_mask, L, S, device=query.device), False
    if attn_bias is not None:  # torch takes one argument for both: a float mask
        bias = attn_bias.to(query.dtype)
        attn_mask = bias if attn_mask is None else bias.masked_fill(~attn_mask, -math.inf)
    if attn_mask is not None:
        attn_mask = torch.atleast_2d(attn_mask)  # torch's kernel wants both axes
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """`weights @ value`, in which a weight of 0 reads nothing: not even NaN or infinity.

    From weights (..., L, S) and values (..., S, Dv) to (..., L, Dv); NaN where a weight other than
    0 meets a number that is not finite. On a GPU and in a compiled graph, only a value that no
    query reads is sure to change nothing.

    Example:
        >>> weights = torch.tensor([[0.5, 0.5, 0.0]])
        >>> weighted_sum(weights, torch.tensor([[1.0], [3.0], [math.nan]]))
        tensor([[2.]])
    """
    check_shapes(weights=(weights, "... L S"), value=(value, "... S Dv"))
    if not can_look(value):
        return weights @ without_unread(value, weights != 0)
    output = weights @ value  # (..., L, Dv)
    if is_finite(output):
        return output
    lost = weights.isnan().any(-1, keepdim=True)  # (..., L, 1)
    value, spoilt = finite_rows(value, weights != 0)
    return (weights.masked_fill(lost, 0.0) @ value).masked_fill(spoilt | lost, math.nan)


class Attention(nn.Module):
    """Attention with any score: softmax of the scores, then the weighted sum of the values.

    The score is a module with `score(query, key) -> (..., L, S)`, such as those of
    `attn_notes.scores`.

    Example:
        >>> from attn_notes.scores import DotProductScore
        >>> attention = Attention(DotProductScore())
        >>> output, weights = attention(torch.zeros(1, 2), torch.ones(2, 2), torch.eye(2))
        >>> output
        tensor([[0.5000, 0.5000]])
    """

    def __init__(self, score: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = score
        self.dropout = nn.Dropout(dropout)

    @full_precision
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Output (..., L, Dv), and the weights (..., L, S) before dropout; mask as elsewhere."""
        key, spoilt = finite_rows(key, attn_mask)
        weights = masked_softmax(self.score(query, key), attn_mask)  # (..., L, S)
        weights = weights.masked_fill(spoilt.any(-1, keepdim=True), math.nan)
        return weighted_sum(self.dropout(weights), value), weights  # (..., L, Dv)
