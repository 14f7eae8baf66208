r"""Self-attention and multi-head attention (chapter 5).

A head is one weighted average with projections of its own; multi-head attention runs several
side by side, in one batch of matrix products, and mixes what they read:
$[\mathrm{head}_1;\dots;\mathrm{head}_H]\,W_o$. Vaswani et al. (2017), section 3.2.2.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_bias, check_fractions, check_integers, check_mask
from attn_notes.attention import attention_weights, scaled_dot_product_attention
from attn_notes.masks import and_causal

__all__ = [
    "Backend",
    "Cache",
    "MultiHeadAttention",
    "Rotary",
    "SelfAttention",
    "merge_heads",
    "split_heads",
]

Backend = Literal["auto", "explicit", "fused"]
Rotary = Callable[[Tensor], Tensor]


class Cache(Protocol):
    """What `MultiHeadAttention` asks of a cache: how long it is, and to be appended to."""

    @property
    def length(self) -> int:
        """How many keys it holds."""

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values, and give back all that it holds now.

        Args:
            key: (B, G, L, D), the new keys, already turned by `rotary`.
            value: (B, G, L, Dv), their values.

        Returns:
            Keys (B, G, S, D) and values (B, G, S, Dv), S being the old length plus L.
        """


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the last axis into heads and set them beside the batch: (B, L, E) to (B, H, L, D).

    A view, then a transpose: nothing is copied. A view to (B, H, L, D) straight away has the
    same shape and other numbers in it: it would mix tokens and heads. Chapter 5.

    Args:
        x: (..., L, E).
        num_heads: H, which must divide E.

    Returns:
        (..., H, L, D) with D = E / H. Head h holds the features from h · D up to (h + 1) · D.

    Raises:
        TypeError: an H that is not an integer.
        ValueError: a last axis that does not fall into `num_heads` equal parts.

    Example:
        >>> x = torch.tensor([[11, 12, 13, 14], [21, 22, 23, 24]])  # token 1, token 2
        >>> split_heads(x, num_heads=2).tolist()
        [[[11, 12], [21, 22]], [[13, 14], [23, 24]]]
    """
    check_integers(1, num_heads=num_heads)
    if x.dim() < 2 or x.shape[-1] % num_heads:
        raise ValueError(
            "x must have shape (..., L, E) with num_heads dividing E, got "
            f"x {tuple(x.shape)} and num_heads = {num_heads}"
        )
    x = x.view(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (..., L, H, D)
    return x.transpose(-3, -2)  # (..., H, L, D)


def merge_heads(x: Tensor) -> Tensor:
    """Set the heads side by side again: (B, H, L, D) to (B, L, E), the inverse of `split_heads`.

    Chapter 5. Here the numbers are copied: in memory a token's heads lie far apart.

    Args:
        x: (..., H, L, D).

    Returns:
        (..., L, E) with E = H · D.

    Raises:
        ValueError: fewer than three axes.

    Example:
        >>> heads = torch.tensor([[[11, 12], [21, 22]], [[13, 14], [23, 24]]])
        >>> merge_heads(heads).tolist()
        [[11, 12, 13, 14], [21, 22, 23, 24]]
    """
    if x.dim() < 3:
        raise ValueError(f"x must have shape (..., H, L, D), got {tuple(x.shape)}")
    return x.transpose(-3, -2).flatten(-2)  # (..., L, H, D), then (..., L, E)


class SelfAttention(nn.Module):
    """One head: each position reads all positions of its own sequence. Chapter 5.

    Args:
        embed_dim: E, the width of the input.
        qk_proj_dim: the width of queries and keys; `embed_dim` by default.
        v_proj_dim: the width of values and, without `out_proj`, of the output; `embed_dim` by
            default.
        bias: whether the projections add a bias.
        packed: one projection, `qkv_proj`, whose output is split, in place of three. The same
            model: its weight is those of `q_proj`, `k_proj` and `v_proj`, one above the other.
        dropout: the share of weights set to 0 while training, from 0 to 1.
        out_proj: whether to project the output back to E.

    Raises:
        TypeError: a width that is not an integer, or a dropout that is not a number.
        ValueError: a width below 1, or a dropout outside 0 to 1.

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
        qk_proj_dim, v_proj_dim = (embed_dim if n is None else n for n in (qk_proj_dim, v_proj_dim))
        check_integers(1, embed_dim=embed_dim, qk_proj_dim=qk_proj_dim, v_proj_dim=v_proj_dim)
        check_fractions(dropout=dropout)
        self.embed_dim, self.packed = embed_dim, packed
        self.qk_proj_dim, self.v_proj_dim = qk_proj_dim, v_proj_dim
        if packed:
            self.qkv_proj = nn.Linear(embed_dim, qk_proj_dim + qk_proj_dim + v_proj_dim, bias)
        else:
            self.q_proj = nn.Linear(embed_dim, qk_proj_dim, bias)
            self.k_proj = nn.Linear(embed_dim, qk_proj_dim, bias)
            self.v_proj = nn.Linear(embed_dim, v_proj_dim, bias)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(v_proj_dim, embed_dim, bias) if out_proj else nn.Identity()

    def forward(
        self, x: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Let the positions of `x` read one another.

        Args:
            x: (..., L, E).
            attn_mask: bool, `True` = may attend, broadcastable to (..., L, L).
            is_causal: no position reads a later one. Together with `attn_mask` it means both.

        Returns:
            Output (..., L, v_proj_dim), or (..., L, E) with `out_proj`, and weights (..., L, L),
            those before dropout.

        Raises:
            TypeError: a mask that is not bool.
            ValueError: shapes that do not fit.
        """
        if x.dim() < 2 or x.shape[-1] != self.embed_dim:
            raise ValueError(f"x must have shape (..., L, {self.embed_dim}), got {tuple(x.shape)}")
        if self.packed:
            q, k, v = self.qkv_proj(x).split(
                [self.qk_proj_dim, self.qk_proj_dim, self.v_proj_dim], dim=-1
            )
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        weights = attention_weights(q, k, attn_mask=attn_mask, is_causal=is_causal)  # (..., L, L)
        return self.out_proj(self.dropout(weights) @ v), weights


class MultiHeadAttention(nn.Module):
    r"""Several heads side by side, and a projection that mixes what they read. Chapter 5.

    $\mathrm{head}_h=\mathrm{softmax}(q_hk_h^\top/\sqrt D)\,v_h$ with projections of its own, and
    $[\mathrm{head}_1;\dots;\mathrm{head}_H]\,W_o$; Vaswani et al. (2017), section 3.2.2. With
    `num_kv_heads` < `num_heads`, groups of query heads share a key-value head, in order: query
    head h reads key-value head h · G // H (Ainslie et al., 2023; G = 1: Shazeer, 2019).

    Args:
        embed_dim: E, the width of the output, and of any input or projection not given below.
        num_heads: H.
        qdim: the width of `query`.
        kdim: the width of `key`.
        vdim: the width of `value`.
        qk_proj_dim: the width of all heads' queries together: H times `head_dim`.
        v_proj_dim: the width of all heads' values together.
        num_kv_heads: G, the number of key-value heads, which must divide H; H by default.
        bias: whether the projections add a bias.
        out_proj: whether to project the heads to E; without it the output is (B, L, v_proj_dim).
        dropout: the share of weights set to 0 while training, from 0 to 1.
        backend: "explicit" computes the weights, "fused" calls torch's kernel, which never stores
            them, and "auto" is explicit where weights are asked for. The numbers are the same.

    Raises:
        TypeError: a width that is not an integer, or a dropout that is not a number.
        ValueError: a width below 1, heads that do not divide the widths, key-value heads that do
            not divide the heads, a dropout outside 0 to 1, or an unknown backend.

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
        out_proj: bool = True,
        dropout: float = 0.0,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        widths = (qdim, kdim, vdim, qk_proj_dim, v_proj_dim)
        qdim, kdim, vdim, qk_proj_dim, v_proj_dim = (embed_dim if n is None else n for n in widths)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_integers(
            1, embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=num_kv_heads,
            qdim=qdim, kdim=kdim, vdim=vdim, qk_proj_dim=qk_proj_dim, v_proj_dim=v_proj_dim,
        )  # fmt: skip
        check_fractions(dropout=dropout)
        _check_divides("num_heads", num_heads, qk_proj_dim=qk_proj_dim, v_proj_dim=v_proj_dim)
        _check_divides("num_kv_heads", num_kv_heads, num_heads=num_heads)
        if backend not in {"auto", "explicit", "fused"}:
            raise ValueError(f'backend must be "auto", "explicit" or "fused", got {backend!r}')
        self.num_heads, self.num_kv_heads, self.backend = num_heads, num_kv_heads, backend
        self.q_proj = nn.Linear(qdim, qk_proj_dim, bias)
        self.k_proj = nn.Linear(kdim, qk_proj_dim // num_heads * num_kv_heads, bias)
        self.v_proj = nn.Linear(vdim, v_proj_dim // num_heads * num_kv_heads, bias)
        self.out_proj = nn.Linear(v_proj_dim, embed_dim, bias) if out_proj else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        is_causal: bool = False,
        rotary: Rotary | None = None,
        need_weights: bool = False,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Let each query read the values, once a head.

        Args:
            query: (B, L, qdim).
            key: (B, S, kdim); `query` by default, which is self-attention.
            value: (B, S, vdim); `key` by default.
            attn_mask: bool, `True` = may attend: (L, S), (B, L, S) or (B, H, L, S), any axis
                of which may be 1.
            attn_bias: float, added to the scores before masking, broadcastable to (B, H, L, S).
                Three axes are (H, L, S), one bias a head, and not (B, L, S) as for a mask.
            is_causal: query i reads no key after i + the cached length. Together with `attn_mask`
                it means both.
            rotary: a function of (B, H, L, D) that turns each vector by its position (chapter 6).
                It is called on the queries and on the new keys, which are cached turned; with a
                cache, positions count from `cache.length`, and the caller sees to that.
            need_weights: whether to return the weights too.
            cache: earlier keys and values (chapter 7). The new ones are appended, and S counts
                both.

        Returns:
            Output (B, L, E), and the weights (B, H, L, S), those before dropout, or None. A query
            that may read nothing has weights 0, and `out_proj.bias` for its output.

        Raises:
            TypeError: a mask that is not bool, or a bias that is not floating point.
            ValueError: shapes that do not fit, a value without a key, or weights asked of the
                fused backend.
        """
        if need_weights and self.backend == "fused":
            raise ValueError('backend must be "auto" or "explicit" for weights, got "fused"')
        key, value = self._check_inputs(query, key, value)
        q = split_heads(self.q_proj(query), self.num_heads)  # (B, H, L, D)
        k = split_heads(self.k_proj(key), self.num_kv_heads)  # (B, G, S, D)
        v = split_heads(self.v_proj(value), self.num_kv_heads)  # (B, G, S, Dv)
        if rotary is not None:
            q, k = rotary(q), rotary(k)
        offset = 0 if cache is None else cache.length
        shape = torch.Size((*q.shape[:-1], offset + k.shape[-2]))  # of the scores: (B, H, L, S)
        attn_mask = _check_allowed(attn_mask, attn_bias, shape)  # before the cache is changed
        if cache is not None:
            k, v = cache.update(k, v)  # S is all keys from here on, old and new
        if is_causal and offset:  # the flag alone would count the queries from key 0
            attn_mask = and_causal(attn_mask, *shape[-2:], offset=offset, device=q.device)
            is_causal = False
        heads, weights = self._attend(
            q, k, v, need_weights, attn_mask=attn_mask, attn_bias=attn_bias, is_causal=is_causal
        )
        return self.out_proj(merge_heads(heads)), weights  # (B, L, E)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, need_weights: bool, **keywords: Any
    ) -> tuple[Tensor, Tensor | None]:
        """What each head reads, (B, H, L, Dv), by the path that the backend says."""
        if self.num_kv_heads < self.num_heads:
            share = self.num_heads // self.num_kv_heads  # query heads to a key-value head
            k, v = (x.repeat_interleave(share, dim=1) for x in (k, v))  # (B, H, S, ...)
        if self.backend == "explicit" or need_weights:
            weights = attention_weights(q, k, **keywords)  # (B, H, L, S)
            return self.dropout(weights) @ v, weights if need_weights else None
        dropout_p = self.dropout.p if self.training else 0.0
        return scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, **keywords), None

    def _check_inputs(
        self, query: Tensor, key: Tensor | None, value: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The key and the value, by default the query and the key; all three checked."""
        if key is None and value is not None:
            raise ValueError("key must be given where value is, got key None")
        key = query if key is None else key
        value = key if value is None else value
        for name, x, length, proj in (
            ("query", query, "L", self.q_proj),
            ("key", key, "S", self.k_proj),
            ("value", value, "S", self.v_proj),
        ):
            if x.dim() != 3 or x.shape[-1] != proj.in_features:
                wanted = f"(B, {length}, {proj.in_features})"
                raise ValueError(f"{name} must have shape {wanted}, got {tuple(x.shape)}")
        if query.shape[0] != key.shape[0] or key.shape[:2] != value.shape[:2]:
            raise ValueError(
                "query, key and value must share B, and key and value S, got query "
                f"{tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)}"
            )
        return key, value


def _check_allowed(mask: Tensor | None, bias: Tensor | None, shape: torch.Size) -> Tensor | None:
    """The mask with the axis of the heads, once mask and bias fit scores of this shape."""
    if bias is not None:
        check_bias(bias, shape)
    if mask is None:
        return None
    B, _, L, S = shape
    if isinstance(mask, Tensor) and mask.dim() == 3:
        check_mask(mask, torch.Size((B, L, S)))
        return mask[:, None]  # (B, 1, L, S)
    check_mask(mask, shape)
    return mask


def _check_divides(name: str, parts: int, **sizes: int) -> None:
    """Raise unless every size falls into so many equal parts."""
    for whole, size in sizes.items():
        if size % parts:
            raise ValueError(
                f"{name} must divide {whole}, got {name} = {parts} and {whole} = {size}"
            )
