"""What stands before an attention function: its checks, and what a masked row may not do.

A masked weight is 0, but 0 · NaN is NaN, in the weighted sum and in its gradient. So whatever is
not finite in a masked row of the key or the value is replaced before it is multiplied.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attn_notes.arguments import check_attention
from attn_notes.device import known_number
from attn_notes.masks import and_bias, and_causal


def guarded(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Check the arguments of an attention function, and let it read nothing of a masked row.

    It is called as `attend(query, key, …, attn_mask=…, is_causal=…, …)`, with queries (..., L, D),
    keys (..., S, D) and perhaps values (..., S, Dv). A query that may read a key or a value that is
    not finite gets NaN; the others get what they would without that row. On a GPU and in a compiled
    graph only rows that no query may read are replaced, since looking at every number would be too
    slow.
    """

    @wraps(attend)
    def call(
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        **options: Any,
    ) -> Tensor:
        bias = options.get("attn_bias")
        check_attention(query, key, value, attn_mask=attn_mask, attn_bias=bias)
        rows = (key,) if value is None else (key, value)
        rules = {"attn_mask": attn_mask, "is_causal": is_causal, **options}
        if attn_mask is None and bias is None and not is_causal:
            return attend(query, *rows, **rules)
        L, S, device = query.shape[-2], key.shape[-2], key.device
        if not can_look(query):
            cut = is_causal and S > L  # no query reads a key after L
            mask = and_causal(attn_mask, L, S, device=device) if cut else attn_mask
            clean = [x if mask is None else without_unread(x, mask) for x in rows]
            return attend(query, *clean, **rules)
        output = attend(query, *rows, **rules)
        if is_finite(output) and not (output.requires_grad and not is_finite(key)):
            return output
        mask = and_causal(attn_mask, L, S, device=device) if is_causal else attn_mask
        mask = mask if bias is None else and_bias(mask, bias, query.dim())
        (key, spoilt), *values = (finite_rows(x, mask) for x in rows)
        spoilt = spoilt.any(-1, keepdim=True)  # such a key spoils all features
        for _, lost in values:
            spoilt = spoilt | lost
        rules |= {"attn_mask": mask, "is_causal": False}
        output = attend(query, key, *(x for x, _ in values), **rules)
        return output.masked_fill(spoilt, math.nan)

    return call


def finite_rows(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Put 0 in place of what is not finite in x (..., S, D), and say which queries may read it.

    For each query and feature, (..., L, D), or () if nobody does. Without a mask x stays as it is.
    """
    if mask is None or not can_look(x) or is_finite(x):
        return x, torch.zeros((), dtype=torch.bool, device=x.device)
    spoilt = ~x.isfinite()
    mask = mask.expand(*torch.atleast_2d(mask).shape[:-1], x.shape[-2])
    return x.masked_fill(spoilt, 0.0), mask.to(x.dtype) @ spoilt.to(x.dtype) > 0


def without_unread(x: Tensor, mask: Tensor) -> Tensor:
    """Put 0 in place of the rows of x (..., S, D) that no query may read, unseen."""
    return x.masked_fill(~torch.atleast_2d(mask).any(-2)[..., None], 0.0)


def can_look(tensor: Tensor) -> bool:
    """Whether a number can be read without waiting for a GPU or leaving a compiled graph."""
    return tensor.is_cpu and not torch.compiler.is_compiling()


def is_finite(tensor: Tensor) -> bool:
    """Whether no entry is NaN or infinite; False where none can be read, as under vmap."""
    wide = torch.promote_types(tensor.dtype, torch.float32)  # a sum of 16 bits could overflow
    total = known_number(tensor.detach().sum(dtype=wide))
    return total is not None and math.isfinite(total)
