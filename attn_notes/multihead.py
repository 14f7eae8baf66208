r"""Self-attention and multi-head attention (chapter 5).

A head is one weighted average with projections of its own; multi-head attention runs several
side by side, in one batch of matrix products, and mixes what they read:
$[\mathrm{head}_1;\dots;\mathrm{head}_H]\,W_o$. Vaswani et al. (2017), section 3.2.2.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_divides, check_mask, check_mask_and_bias
from attn_notes.attention import attention_weights, scaled_dot_product_attention, weighted_sum
from attn_notes.cache import KVCache
from attn_notes.masks import and_causal
from attn_notes.norms import RMSNorm

Rotary = Callable[[Tensor], Tensor]


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Split the last axis into heads: (B, L, E) to (B, H, L, D). Chapter 5.

    A view, then a transpose: nothing is copied. A view straight to (B, H, L, D) has the same shape
    but mixes tokens and heads. Head h holds the features from h · D up to (h + 1) · D.

    Example:
        >>> x = torch.tensor([[11, 12, 13, 14], [21, 22, 23, 24]])  # token 1, token 2
        >>> split_heads(x, num_heads=2).tolist()
        [[[11, 12], [21, 22]], [[13, 14], [23, 24]]]
    """
    check_divides("num_heads", num_heads, "E", x.shape[-1])
    x = x.view(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (..., L, H, D)
    return x.transpose(-3, -2)  # (..., H, L, D)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads side by side again: (B, H, L, D) to (B, L, E). Chapter 5.

    The inverse of `split_heads`. Here numbers are copied: a token's heads lie far apart in memory.

    Example:
        >>> heads = torch.tensor([[[11, 12], [21, 22]], [[13, 14], [23, 24]]])
        >>> merge_heads(heads).tolist()
        [[11, 12, 13, 14], [21, 22, 23, 24]]
    """
    return x.transpose(-3, -2).flatten(-2)  # (..., L, H, D), then (..., L, E)


class SelfAttention(nn.Module):
    """One head: each position reads all positions of its own sequence. Chapter 5.

    Args:
        embed_dim: E, the width of the input.
        qk_proj_dim: the width of queries and keys; `embed_dim` by default.
        v_proj_dim: the width of values; `embed_dim` by default.
        bias: whether the projections add a bias.
        packed: one projection, `qkv_proj`, whose output is split, instead of three. Its weight
            is the weights of `q_proj`, `k_proj` and `v_proj` stacked.
        dropout: the fraction of weights set to 0 in training.
        out_proj: whether to project the output back to E.

    Example:
        >>> layer = SelfAttention(8, qk_proj_dim=3, v_proj_dim=5)
        >>> output, weights = layer(torch.zeros(2, 7, 8))
        >>> output.shape, weights.shape
        (torch.Size([2, 7, 5]), torch.Size([2, 7, 7]))
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        qk_proj_dim: int | None = None,
        v_proj_dim: int | None = None,
        bias: bool = True,
        packed: bool = False,
        dropout: float = 0.0,
        out_proj: bool = False,
    ) -> None:
        super().__init__()
        qk_proj_dim = embed_dim if qk_proj_dim is None else qk_proj_dim
        v_proj_dim = embed_dim if v_proj_dim is None else v_proj_dim
        self.packed = packed
        self.widths = [qk_proj_dim, qk_proj_dim, v_proj_dim]
        if packed:
            self.qkv_proj = nn.Linear(embed_dim, sum(self.widths), bias)
        else:
            self.q_proj = nn.Linear(embed_dim, qk_proj_dim, bias)
            self.k_proj = nn.Linear(embed_dim, qk_proj_dim, bias)
            self.v_proj = nn.Linear(embed_dim, v_proj_dim, bias)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(v_proj_dim, embed_dim, bias) if out_proj else nn.Identity()

    def forward(
        self, x: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Let the positions of x (..., L, E) read one another; rules as in `attention_weights`.

        Output (..., L, v_proj_dim), or (..., L, E) with `out_proj`, and weights (..., L, L), those
        before dropout.
        """
        if self.packed:
            q, k, v = self.qkv_proj(x).split(self.widths, dim=-1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        weights = attention_weights(q, k, attn_mask=attn_mask, is_causal=is_causal)  # (..., L, L)
        return self.out_proj(weighted_sum(self.dropout(weights), v)), weights


class MultiHeadAttention(nn.Module):
    r"""Several heads side by side, and a projection that mixes what they read. Chapter 5.

    $\mathrm{head}_h=\mathrm{softmax}(q_hk_h^\top/\sqrt D)\,v_h$ with projections of its own, and
    $[\mathrm{head}_1;\dots;\mathrm{head}_H]\,W_o$; Vaswani et al. (2017), section 3.2.2. With
    `num_kv_heads` < `num_heads`, groups of query heads share a key-value head, in order: query
    head h reads key-value head h · G // H (Ainslie et al., 2023; G = 1: Shazeer, 2019).

    Args:
        embed_dim: E, the width of the output, and of any input or projection not given below.
        num_heads: H, the number of heads.
        qdim: the width of `query`.
        kdim: the width of `key`.
        vdim: the width of `value`.
        qk_proj_dim: the width of all heads' queries together, and of their keys.
        v_proj_dim: the width of all heads' values together.
        num_kv_heads: G, the number of key-value heads, which must divide H; H by default.
        bias: whether the projections add a bias.
        packed: self-attention alone, with one projection for the three, as in `SelfAttention`;
            queries, keys and values have heads of the same width.
        dropout: the fraction of weights set to 0 in training.
        qk_norm_eps: the eps of an `RMSNorm` on each head's queries, and of another on its keys,
            both with a weight (D,) that all heads share (chapter 12); None for no such norms.

    Example:
        >>> layer = MultiHeadAttention(8, num_heads=2)
        >>> output, weights = layer(torch.zeros(1, 3, 8), is_causal=True, need_weights=True)
        >>> output.shape, weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        qdim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        qk_proj_dim: int | None = None,
        v_proj_dim: int | None = None,
        num_kv_heads: int | None = None,
        bias: bool = True,
        packed: bool = False,
        dropout: float = 0.0,
        qk_norm_eps: float | None = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        qdim, kdim, vdim = (embed_dim if n is None else n for n in (qdim, kdim, vdim))
        qk_dim, v_dim = (embed_dim if n is None else n for n in (qk_proj_dim, v_proj_dim))
        for name, size in (("qk_proj_dim", qk_dim), ("v_proj_dim", v_dim)):
            check_divides("num_heads", num_heads, name, size)
        check_divides("num_kv_heads", num_kv_heads, "num_heads", num_heads)
        if packed and not (qdim == kdim == vdim and qk_dim == v_dim):
            wanted = "equal qdim, kdim and vdim, and equal qk_proj_dim and v_proj_dim"
            got = f"got {qdim}, {kdim}, {vdim}, and {qk_dim}, {v_dim}"
            raise ValueError(f"a packed layer must have {wanted}, {got}")
        self.num_heads, self.num_kv_heads, self.packed = num_heads, num_kv_heads, packed
        self.group = num_heads // num_kv_heads
        self.sizes = [qk_dim, *(n // num_heads * num_kv_heads for n in (qk_dim, v_dim))]
        if packed:
            self.qkv_proj = nn.Linear(qdim, sum(self.sizes), bias)
        else:
            self.q_proj = nn.Linear(qdim, qk_dim, bias)
            self.k_proj = nn.Linear(kdim, self.sizes[1], bias)
            self.v_proj = nn.Linear(vdim, self.sizes[2], bias)
        self.out_proj = nn.Linear(v_dim, embed_dim, bias)
        self.dropout = nn.Dropout(dropout)
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        if qk_norm_eps is not None:
            self.q_norm, self.k_norm = (RMSNorm(qk_dim // num_heads, qk_norm_eps) for _ in "qk")

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, *,
        attn_mask: Tensor | None = None, attn_bias: Tensor | None = None, is_causal: bool = False,
        rotary: Rotary | None = None, need_weights: bool = False, cache: KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Let each query read the values, once per head.

        Args:
            query: (B, L, qdim).
            key: (B, S, kdim); by default the query, which is self-attention.
            value: (B, S, vdim); by default the key.
            attn_mask: bool, `True` = may attend: (L, S), (B, L, S) or (B, H, L, S), any axis
                of which may be 1.
            attn_bias: float, added to the scores before masking, broadcastable to (B, H, L, S).
                Three axes are (H, L, S), one bias a head, and not (B, L, S) as for a mask.
            is_causal: query i reads no key after i + the cached length. Together with `attn_mask`
                it means both.
            rotary: a function of (B, H, L, D) that rotates each vector by its position (chapter 6).
                It is applied to the queries and to the new keys, which are cached rotated; with a
                cache, its positions must start at `cache.length`.
            need_weights: whether to return the weights too.
            cache: earlier keys and values (chapter 7); new ones are appended, and S counts both.

        Returns:
            Output (B, L, E), and the weights (B, H, L, S), those before dropout, or None. A query
            that may read nothing has weights 0, and `out_proj.bias` for its output.
        """
        key = query if key is None else key
        q, k, v = self.project(query, key, key if value is None else value)
        rules = head_rules(q, k, attn_mask, attn_bias, is_causal=is_causal, cache=cache)
        if rotary is not None:
            q, k = rotary(q), rotary(k)
        if cache is not None:
            k, v = cache.update(k, v)  # S counts old and new keys from here on
        if self.group > 1:  # so many query heads read one key-value head
            k, v = (x.repeat_interleave(self.group, dim=1) for x in (k, v))
        if need_weights:
            weights = attention_weights(q, k, **rules)  # (B, H, L, S)
            heads = weighted_sum(self.dropout(weights), v)  # (B, H, L, Dv)
        else:
            weights, p = None, self.dropout.p if self.training else 0.0
            heads = scaled_dot_product_attention(q, k, v, dropout_p=p, **rules)
        return self.out_proj(merge_heads(heads)), weights  # (B, L, E)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, L, D), keys (B, G, S, D) and values (B, G, S, Dv), split and normed."""
        H, G = self.num_heads, self.num_kv_heads
        if self.packed:
            if not query is key is value:
                raise ValueError("key and value must be the query in a packed layer, got others")
            q, k, v = split_heads(self.qkv_proj(query), H + 2 * G).split([H, G, G], dim=-3)
        else:
            q, k = split_heads(self.q_proj(query), H), split_heads(self.k_proj(key), G)
            v = split_heads(self.v_proj(value), G)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        return q, k, v

    def qkv_weights(self) -> tuple[Tensor, ...]:
        """The projections' weights (H · D, E), (G · D, E) and (G · Dv, E), packed or not."""
        if self.packed:
            return self.qkv_proj.weight.split(self.sizes)
        return self.q_proj.weight, self.k_proj.weight, self.v_proj.weight


def head_rules(
    query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, *, is_causal: bool,
    cache: KVCache | None,
) -> dict[str, Any]:  # fmt: skip
    """What each query may read, as the arguments of attention; checked before a cache changes.

    After cached keys the mask itself is causal, since torch's flag counts queries from 0.
    """
    offset = 0 if cache is None else cache.length
    L, S = query.shape[-2], offset + key.shape[-2]
    mask = of_all_heads(mask, query, S)
    if is_causal and offset:
        mask, is_causal = and_causal(mask, L, S, offset=offset, device=query.device), False
    if cache is not None:
        check_mask_and_bias(mask, bias, torch.Size((*query.shape[:-1], S)))
    return {"attn_mask": mask, "attn_bias": bias, "is_causal": is_causal}


def of_all_heads(mask: Tensor | None, query: Tensor, S: int) -> Tensor | None:
    """The mask with an axis of heads, where it has three axes for queries (B, H, L, D)."""
    if mask is not None and mask.dim() == 3 and query.dim() == 4:
        check_mask(mask, torch.Size((len(query), query.shape[-2], S)))
        mask = mask[:, None]
    return mask
