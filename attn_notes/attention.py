"""Attention: weights from queries and keys, and the weighted sum (chapters 2 and 3).

The weights and the weighted sum are separate functions, because a heatmap needs the weights.
`attention_weights` is the explicit path, which can be looked at; `scaled_dot_product_attention`
is torch's fused kernel behind the same rules. Both give the same numbers.
"""

import math
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.arguments import check_fractions
from attn_notes.masks import and_causal, check_broadcast, check_mask, masked_softmax

__all__ = [
    "Attention",
    "attention_weights",
    "check_bias",
    "check_query_key",
    "check_value",
    "scaled_dot_product_attention",
]


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

    Raises:
        TypeError: a mask that is not bool, a bias that is not floating point, or queries and keys
            that are not so or of two dtypes.
        ValueError: shapes that do not fit.

    Example:
        >>> query, key = torch.ones(2, 4), torch.ones(3, 4)
        >>> attention_weights(query, key, is_causal=True)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000]])
    """
    check_query_key(query, key)
    # Scores and softmax in 32 bits at least, as in the fused kernel: half precision overflows.
    wide = torch.promote_types(query.dtype, torch.float32)
    # The query is scaled, not the scores: L · D products in place of L · S, and as much memory.
    query_scaled = query.to(wide) * _scale_of(query, scale)
    scores = query_scaled @ key.to(wide).transpose(-2, -1)  # (..., L, S)
    if attn_bias is not None:
        check_bias(attn_bias, scores.shape)
        scores = scores + attn_bias.to(wide)
    mask = _allowed(attn_mask, is_causal, scores.shape, query.device)
    if mask is None and attn_bias is None:  # no key is closed, so no row can be empty
        return _open_softmax(scores).to(query.dtype)
    return masked_softmax(scores, mask).to(query.dtype)


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
    r"""`attention_weights(query, key, …) @ value`, by torch's fused kernel.

    Vaswani et al. (2017), equation 1. The weights are never stored, so memory grows with
    L + S and not with L · S. Differs from `torch.nn.functional.scaled_dot_product_attention`
    in three rules: `is_causal` with `attn_mask` means both, a mask of three axes on queries of
    four is refused, and leading axes do not broadcast.

    Args:
        query: (..., L, D).
        key: (..., S, D), the same leading axes.
        value: (..., S, Dv), the same leading axes and S as `key`.
        attn_mask: as in `attention_weights`.
        attn_bias: as in `attention_weights`, but rounded to the query's dtype first: in float16
            nothing finite in it may be beyond 65504.
        is_causal: as in `attention_weights`.
        scale: as in `attention_weights`.
        dropout_p: the share of weights set to 0, whether anything trains or not.

    Returns:
        (..., L, Dv); 0 where a query may read nothing.

    Raises:
        TypeError: as in `attention_weights`, or a value of another dtype.
        ValueError: shapes that do not fit.

    Example:
        >>> query, key, value = torch.ones(1, 4), torch.ones(2, 4), torch.tensor([[1.0], [3.0]])
        >>> scaled_dot_product_attention(query, key, value)
        tensor([[2.]])
    """
    check_query_key(query, key)
    check_value(key, value)
    fused = partial(
        F.scaled_dot_product_attention, scale=_scale_of(query, scale), dropout_p=dropout_p
    )
    if attn_bias is None and attn_mask is None:
        return fused(query, key, value, is_causal=is_causal)
    shape = torch.Size((*query.shape[:-1], key.shape[-2]))  # of the scores
    mask = _allowed(attn_mask, is_causal, shape, query.device)
    if attn_bias is not None:  # torch takes one argument for both: a float mask
        check_bias(attn_bias, shape)
        attn_bias = attn_bias.to(query.dtype)
        mask = attn_bias if mask is None else attn_bias.masked_fill(~mask, float("-inf"))
    # torch's kernel wants both axes, broadcast or not
    return fused(query, key, value, attn_mask=torch.atleast_2d(mask))


class Attention(nn.Module):
    """Attention with any score: softmax of the scores, then the weighted sum of the values.

    Args:
        score: a module with `score(query, key) -> (..., L, S)`, such as those of
            `attn_notes.scores`.
        dropout: the share of weights set to 0 while training, from 0 to 1.

    Raises:
        TypeError: a dropout that is not a number.
        ValueError: a dropout outside 0 to 1.

    Example:
        >>> from attn_notes.scores import DotProductScore
        >>> attention = Attention(DotProductScore())
        >>> output, weights = attention(torch.zeros(1, 2), torch.ones(2, 2), torch.eye(2))
        >>> output
        tensor([[0.5000, 0.5000]])
    """

    def __init__(self, score: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        check_fractions(dropout=dropout)
        self.score = score
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Read the values with weights softmax(score(query, key)).

        Args:
            query: (..., L, Dq).
            key: (..., S, Dk); what the score accepts.
            value: (..., S, Dv).
            attn_mask: bool, `True` = may attend, broadcastable to (..., L, S).

        Returns:
            Output (..., L, Dv) and weights (..., L, S). The weights returned are those before
            dropout: the ones that a heatmap shows.

        Raises:
            TypeError: a mask that is not bool, a value of another dtype than the key, or what the
                score refuses.
            ValueError: shapes that do not fit.
        """
        check_value(key, value)
        scores = self.score(query, key)  # (..., L, S)
        if scores.shape != (*query.shape[:-1], key.shape[-2]):
            raise ValueError(
                "score must give one number for each query and key, got scores "
                f"{tuple(scores.shape)} for query {tuple(query.shape)} and key {tuple(key.shape)}"
            )
        weights = masked_softmax(scores, attn_mask)  # (..., L, S)
        return self.dropout(weights) @ value, weights  # (..., L, Dv)


def check_bias(attn_bias: Tensor, shape: torch.Size) -> None:
    """Raise unless `attn_bias` is floating point and broadcasts to scores of this shape.

    Args:
        attn_bias: what is to be added to the scores.
        shape: (..., L, S), the shape of the scores.

    Raises:
        TypeError: a bias that is not floating point.
        ValueError: a shape that does not broadcast to the scores.

    Example:
        >>> check_bias(torch.tensor([[1, 2]]), torch.Size([4, 2]))
        Traceback (most recent call last):
        TypeError: attn_bias must be a floating-point tensor, got torch.int64
    """
    if not isinstance(attn_bias, Tensor) or not attn_bias.is_floating_point():
        got = attn_bias.dtype if isinstance(attn_bias, Tensor) else type(attn_bias).__name__
        raise TypeError(f"attn_bias must be a floating-point tensor, got {got}")
    check_broadcast("attn_bias", attn_bias, shape)


def check_query_key(query: Tensor, key: Tensor, *, same_width: bool = True) -> None:
    """Raise unless `query` (..., L, D) and `key` (..., S, D) fit each other.

    Args:
        query: (..., L, D).
        key: (..., S, D).
        same_width: whether the last axes must agree too; scores with a projection of their own
            take queries and keys of different widths.

    Raises:
        TypeError: dtypes that differ, or are not floating point.
        ValueError: fewer than two axes, other leading axes, or a head_dim that differs or is 0.

    Example:
        >>> check_query_key(torch.ones(2, 3, 5, 8), torch.ones(2, 3, 7, 4))
        Traceback (most recent call last):
        ValueError: query and key must share head_dim (last axis), got query (2, 3, 5, 8) and \
key (2, 3, 7, 4)
    """
    if query.dim() < 2 or key.dim() < 2:
        raise ValueError(
            f"query and key must have shapes (..., L, D) and (..., S, D), {_got(query, key)}"
        )
    if query.shape[:-2] != key.shape[:-2]:
        raise ValueError(f"query and key must share their leading axes, {_got(query, key)}")
    if same_width and query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key must share head_dim (last axis), {_got(query, key)}")
    if query.dtype != key.dtype or not query.is_floating_point():
        raise TypeError(
            "query and key must be floating point and of one dtype, got "
            f"{query.dtype} and {key.dtype}"
        )
    if query.shape[-1] == 0 or key.shape[-1] == 0:
        raise ValueError(f"query and key must have a head_dim of at least 1, {_got(query, key)}")


def check_value(key: Tensor, value: Tensor) -> None:
    """Raise unless each row of `key` (..., S, D) has a row of `value` (..., S, Dv), of one dtype.

    Args:
        key: (..., S, D).
        value: (..., S, Dv).

    Raises:
        TypeError: two dtypes.
        ValueError: another number of keys than of values, or other leading axes.

    Example:
        >>> check_value(torch.ones(3, 4), torch.ones(2, 4))
        Traceback (most recent call last):
        ValueError: key and value must share all axes but the last, got key (3, 4) and value (2, 4)
    """
    if key.dim() < 2 or key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            "key and value must share all axes but the last, got key "
            f"{tuple(key.shape)} and value {tuple(value.shape)}"
        )
    if key.dtype != value.dtype:
        raise TypeError(f"key and value must be of one dtype, got {key.dtype} and {value.dtype}")


def _got(query: Tensor, key: Tensor) -> str:
    """The shapes that came, for an error's words."""
    return f"got query {tuple(query.shape)} and key {tuple(key.shape)}"


def _open_softmax(scores: Tensor) -> Tensor:
    """Softmax over all keys, written over the scores where nobody will ask for a gradient.

    A fresh tensor of their size costs more than the softmax itself: its memory has to be fetched
    page by page.
    """
    if not torch.is_grad_enabled():
        with suppress(RuntimeError):  # vmap and forward differentiation know no `out`
            return torch.softmax(scores, -1, out=scores)
    return scores.softmax(-1)


def _scale_of(query: Tensor, scale: float | None) -> float:
    """`scale`, or 1/√D."""
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _allowed(
    mask: Tensor | None, is_causal: bool, shape: torch.Size, device: torch.device
) -> Tensor | None:
    """What both `attn_mask` and `is_causal` allow, for scores of this shape; None for all."""
    if mask is not None:
        check_mask(mask, shape)
    return and_causal(mask, *shape[-2:], device=device) if is_causal else mask
