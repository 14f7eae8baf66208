"""Attention: weights from queries and keys, and the weighted sum (chapters 2 and 3).

The weights and the weighted sum are separate functions, because a heatmap needs the weights.
`attention_weights` is the explicit path, which can be looked at; `scaled_dot_product_attention`
is torch's fused kernel behind the same rules. Both give the same numbers. A dtype that differs
from the others is refused, but under autocast, which reconciles them.
"""

import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.arguments import (
    check_bias,
    check_fractions,
    check_mask,
    check_query_key,
    check_shapes,
    check_tensors,
    check_value,
)
from attn_notes.device import known_number
from attn_notes.masks import and_causal, masked_softmax
from attn_notes.modes import is_autocast, without_autocast


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
    mask = _check_inputs(query, key, attn_mask, attn_bias, is_causal)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    # At least 32 bits, as in the fused kernel: scores overflow in half precision.
    wide = torch.promote_types(query.dtype, torch.float32)
    if attn_bias is not None:  # -inf closes a key as a mask does
        is_open = (attn_bias != -math.inf).expand(*query.shape[:-1], key.shape[-2])
        mask = is_open if mask is None else mask & is_open
    lost = None
    if query.requires_grad or key.requires_grad:
        key, lost = _finite_key(key, mask)
    # To scale the query takes L · D products; to scale the scores, L · S.
    with without_autocast(query):
        scores = (query.to(wide) * scale) @ key.to(wide).transpose(-2, -1)  # (..., L, S)
    if attn_bias is not None:
        scores = scores + attn_bias.to(wide)
    if attn_mask is not None or attn_bias is not None:
        weights = masked_softmax(scores, mask)
    else:  # each query may read key 0, so no row is empty
        if mask is not None:  # the causal one
            scores.masked_fill_(~mask, -math.inf)
        weights = _plain_softmax(scores)
    weights = weights if lost is None else weights.masked_fill(lost, math.nan)
    return weights.to(query.dtype)


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
        value: (..., S, Dv), the same leading axes.
        attn_mask: bool, `True` = may attend, broadcastable to (..., L, S).
        attn_bias: as in `attention_weights`, but rounded to the query's dtype first: in float16
            its finite entries must be within ±65504.
        is_causal: query i reads no key after i. Together with `attn_mask` it means both.
        scale: what the dot products are multiplied by; $1/\sqrt D$ by default.
        dropout_p: the share of weights set to 0, from 0 to 1, in training and in evaluation.

    Returns:
        (..., L, Dv); 0 where a query may read nothing. A masked key or value changes nothing, even
        if it is NaN or infinite. On a GPU and in a compiled graph this holds only for keys that no
        query may read, since checking every number would be too slow.

    Example:
        >>> query, key, value = torch.ones(1, 4), torch.ones(2, 4), torch.tensor([[1.0], [3.0]])
        >>> scaled_dot_product_attention(query, key, value)
        tensor([[2.]])
    """
    check_value(key, value)
    check_fractions(dropout_p=dropout_p)
    # Torch's is_causal goes with neither, and gives NaN unless the scale is above 0.
    is_positive = scale is None or scale > 0
    alone = attn_mask is None and attn_bias is None and is_positive
    mask = _check_inputs(query, key, attn_mask, attn_bias, is_causal and not alone)
    if attn_bias is not None:  # torch takes one argument for both: a float mask
        bias = attn_bias.to(query.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    if mask is not None:
        mask = torch.atleast_2d(mask)  # torch's kernel wants both axes
    is_causal = is_causal and alone

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            query, key, value, mask, dropout_p, is_causal, scale=scale
        )

    return hiding_unread(attend, query, key, value, mask=mask, is_causal=is_causal)


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """`weights @ value`, in which a weight of 0 reads nothing: not even NaN or infinity.

    Args:
        weights: (..., L, S), such as those of `attention_weights`.
        value: (..., S, Dv), the same leading axes.

    Returns:
        (..., L, Dv); NaN where a weight other than 0 meets a number that is not finite. On a GPU
        and in a compiled graph, only a value that no query reads is sure to change nothing.

    Example:
        >>> weights = torch.tensor([[0.5, 0.5, 0.0]])
        >>> weighted_sum(weights, torch.tensor([[1.0], [3.0], [math.nan]]))
        tensor([[2.]])
    """
    check_shapes(weights=(weights, "... L S"), value=(value, "... S Dv"))
    if not _is_cheap_to_read(value):
        unread = (weights == 0).all(-2).unsqueeze(-1)  # (..., S, 1)
        return weights @ value.masked_fill(unread, 0.0)
    output = weights @ value  # (..., L, Dv)
    if _is_finite(output):
        return output
    spoilt = ~value.isfinite()
    reads = (weights != 0).to(value.dtype) @ spoilt.to(value.dtype) > 0  # (..., L, Dv)
    reads = reads | weights.isnan().any(-1, keepdim=True)
    weights = weights.masked_fill(weights.isnan(), 0.0)
    output = weights @ value.masked_fill(spoilt, 0.0)
    return output.masked_fill(reads, math.nan)


def hiding_unread(
    attend: Callable[[Tensor, Tensor, Tensor], Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    """Call `attend` so that the contents of masked keys and values have no effect.

    Its weight is 0, but 0 · NaN is NaN. To replace what is not finite beforehand took 6 to 160 %
    more time on a CPU; to look at the output takes about 20 µs. A GPU would wait for that, and a
    compiled graph cannot: there only what no query may read is replaced, before it is read.
    """
    if mask is None and not is_causal:
        return attend(query, key, value)
    if mask is not None:
        mask = torch.atleast_2d(mask != -math.inf if mask.is_floating_point() else mask)
    L, S = query.shape[-2], key.shape[-2]
    if not _is_cheap_to_read(query):
        if mask is None and S > L:
            mask = torch.arange(S, device=key.device).lt(L)[None]  # what the last query reads
        if mask is not None:
            unread = ~mask.any(-2).unsqueeze(-1)  # (..., S, 1)
            key, value = (x.masked_fill(unread, 0.0) for x in (key, value))
        return attend(query, key, value)
    output = attend(query, key, value)
    read = output if mask is not None else output[..., -1:, :]  # the last query reads all keys
    if _is_finite(read) and not (output.requires_grad and not _is_finite(key)):
        return output
    mask = and_causal(mask, L, S, device=query.device) if is_causal else mask
    mask = query.new_ones(1, S, dtype=torch.bool) if mask is None else mask
    key, lost = _finite_key(key, mask)
    spoilt = ~value.isfinite()
    read = mask.expand(*mask.shape[:-1], S).to(value.dtype) @ spoilt.to(value.dtype) > 0
    lost = read if lost is None else lost | read  # (..., L, Dv)
    return attend(query, key, value.masked_fill(spoilt, 0.0)).masked_fill(lost, math.nan)


class Attention(nn.Module):
    """Attention with any score: softmax of the scores, then the weighted sum of the values.

    Args:
        score: a module with `score(query, key) -> (..., L, S)`, such as those of
            `attn_notes.scores`.
        dropout: the share of weights set to 0 while training, from 0 to 1.

    Example:
        >>> from attn_notes.scores import DotProductScore
        >>> attention = Attention(DotProductScore())
        >>> output, weights = attention(torch.zeros(1, 2), torch.ones(2, 2), torch.eye(2))
        >>> output
        tensor([[0.5000, 0.5000]])
    """

    def __init__(self, score: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        if not callable(score) or isinstance(score, type):
            wanted = "a module such as ScaledDotProductScore()"
            raise TypeError(f"score must be {wanted}, got {score!r}")
        check_fractions(dropout=dropout)
        self.score = score
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Output (..., L, Dv), and the weights (..., L, S) before dropout; mask as elsewhere."""
        check_tensors(query=query)
        check_value(key, value)
        scores = self._scores(query, key, attn_mask)  # (..., L, S)
        weights = masked_softmax(scores, attn_mask)  # (..., L, S)
        return weighted_sum(self.dropout(weights), value), weights  # (..., L, Dv)

    def _scores(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """The scores (..., L, S), in at least 32 bits under autocast; NaN where NaN is read."""
        lost = None
        if torch.is_grad_enabled():
            key, lost = _finite_key(key, mask)
        if is_autocast(query):
            query, key = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (query, key))
        with without_autocast(query):
            scores = self.score(query, key)
        check_shapes(scores=(scores, "... L S"), query=(query, "... L D"), key=(key, "... S Dk"))
        return scores if lost is None else scores.masked_fill(lost, math.nan)


def _check_inputs(
    query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, is_causal: bool
) -> Tensor | None:
    """Raise unless all fit; what `mask` and `is_causal` allow, None for all."""
    check_query_key(query, key)
    if mask is None and bias is None and not is_causal:
        return None
    L, S = query.shape[-2], key.shape[-2]
    shape = torch.Size((*query.shape[:-2], L, S))  # of the scores
    if bias is not None:
        check_bias(bias, shape)
    if mask is not None:
        check_mask(mask, shape)
    return and_causal(mask, L, S, device=query.device) if is_causal else mask


def _finite_key(key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The key, 0 where it is not finite, and the queries (..., L, 1) that read such a key, if any.

    A mask hides the key from the weights, but the gradient of the query would be 0 · NaN.
    """
    if mask is None or not _is_cheap_to_read(key) or _is_finite(key):
        return key, None
    spoilt = ~key.isfinite().all(-1, keepdim=True)  # (..., S, 1)
    return key.masked_fill(spoilt, 0.0), (spoilt.mT & mask).any(-1, keepdim=True)


def _is_cheap_to_read(tensor: Tensor) -> bool:
    """Whether a number can be read without waiting for a GPU or leaving a compiled graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def _is_finite(tensor: Tensor) -> bool:
    """Whether no entry is NaN or infinite; False where none can be read, as under vmap."""
    half = tensor.dtype in (torch.float16, torch.bfloat16)  # their sums could overflow
    total = known_number(tensor.detach().sum(dtype=torch.float32 if half else None))
    return total is not None and math.isfinite(total)


def _plain_softmax(scores: Tensor) -> Tensor:
    """Softmax over all keys, in place where no gradient is recorded: fresh memory costs time."""
    if not torch.is_grad_enabled():
        with suppress(RuntimeError):  # vmap and forward differentiation know no `out`
            return torch.softmax(scores, -1, out=scores)
    return scores.softmax(-1)
