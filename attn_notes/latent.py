r"""Latent attention: the heads' keys and values made from one short vector a token (chapter 12).

A token $x_j$ is compressed to a latent $c_j$ of width C, far narrower than the keys and values of
all heads. Head h reads $k_j=W^{K}_hc_j$ and $v_j=W^{V}_hc_j$, so a cache needs to hold only $c_j$.
Positions need a part of their own: R further numbers of each query, and one key of width R that
all heads share, are rotated. DeepSeek-AI (2024), section 2.1.
"""

import math

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_mask, check_shapes
from attn_notes.attention import scaled_dot_product_attention
from attn_notes.cache import KVCache
from attn_notes.masks import and_causal
from attn_notes.multihead import merge_heads, of_all_heads, split_heads
from attn_notes.norms import RMSNorm
from attn_notes.positions import apply_rotary, rotary_angles


class LatentAttention(nn.Module):
    r"""Multi-head latent attention, explicit or absorbed, with a cache of C + R numbers a token.

    Head h gives query i and key j the score
    $\bigl(q_i^\top W^K_hc_j+(R_iq^R_i)^\top R_jk^R_j\bigr)/\sqrt{D+R}$ and reads the values
    $W^V_hc_j$. *Explicit*: make the keys and values of all heads, then attend as usual.
    *Absorbed*: since $q^\top(W^K_hc)=(W^{K\top}_hq)^\top c$, move the query to the latents
    instead, and all heads read the same C + R numbers a token: the same result, with less work
    where one query reads many keys. DeepSeek-AI (2024), equations 9 to 19; chapter 12.

    Args:
        embed_dim: E, the width of the input and of the output.
        num_heads: H, the number of heads.
        latent_dim: C, the width of the latent from which keys and values are made.
        rotary_dim: R, the width of the rotated part of a query and of the shared key; even.
        head_dim: D, the width of a head's query and key without the rotated part.
        v_head_dim: Dv, the width of a head's value; D by default.
        base: b of the rotary angles.
        eps: what the RMS norm of the latents adds to the mean square.

    Example:
        >>> layer = LatentAttention(8, num_heads=2, latent_dim=3, rotary_dim=2, head_dim=4)
        >>> cache = KVCache()
        >>> output = layer(torch.zeros(1, 5, 8), is_causal=True, cache=cache)
        >>> output.shape, cache.keys.shape, cache.values.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 1, 5, 3]), torch.Size([1, 1, 5, 2]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        latent_dim: int,
        rotary_dim: int,
        head_dim: int,
        v_head_dim: int | None = None,
        base: float = 10000.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        H, C, R = num_heads, latent_dim, rotary_dim
        D, Dv = head_dim, head_dim if v_head_dim is None else v_head_dim
        self.num_heads, self.rotary_dim, self.base = H, R, base
        self.scale = 1 / math.sqrt(D + R)
        self.q_proj = nn.Linear(embed_dim, H * (D + R), bias=False)
        self.kv_down = nn.Linear(embed_dim, C, bias=False)
        self.kv_norm = RMSNorm(C, eps)
        self.k_rotary = nn.Linear(embed_dim, R, bias=False)
        self.k_up = nn.Linear(C, H * D, bias=False)
        self.v_up = nn.Linear(C, H * Dv, bias=False)
        self.out_proj = nn.Linear(H * Dv, embed_dim, bias=False)

    def forward(
        self,
        x: Tensor,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        absorbed: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Let the tokens of x (B, L, E) read one another, and those of the cache: (B, L, E).

        Args:
            x: (B, L, E), a batch of sequences.
            attn_mask: bool, `True` = may attend: (L, S), (B, L, S) or (B, H, L, S), any axis
                of which may be 1. A query that may read nothing has output 0.
            is_causal: query i reads no key after i + the cached length. Together with `attn_mask`
                it means both.
            absorbed: whether to read the latents themselves; the result is the same.
            cache: earlier latents (B, 1, S, C), as its keys, and rotated keys (B, 1, S, R), as its
                values; new ones are appended, and S counts both. Positions go on from its length.
        """
        check_shapes(x=(x, f"B L {self.kv_down.in_features}"))
        offset = 0 if cache is None else cache.length
        q, q_rotary = self.queries(x, offset)  # (B, H, L, D), (B, H, L, R)
        c, k_rotary = self.compress(x, offset)  # (B, 1, L, C), (B, 1, L, R)
        L, S = x.shape[1], offset + x.shape[1]
        mask = of_all_heads(attn_mask, q, S)
        if mask is not None:
            check_mask(mask, torch.Size((*q.shape[:3], S)))
        if is_causal:
            mask = and_causal(mask, L, S, offset=offset, device=x.device)
        if cache is not None:
            if cache.keys is not None and cache.values is not None:
                wanted = [f"{len(x)} 1 S {width}" for width in (c.shape[-1], self.rotary_dim)]
                check_shapes(latents=(cache.keys, wanted[0]), keys=(cache.values, wanted[1]))
            c, k_rotary = cache.update(c, k_rotary)  # (B, 1, S, C), (B, 1, S, R)
        attend = self.absorbed if absorbed else self.explicit
        heads = attend(q, q_rotary, c, k_rotary, mask)  # (B, H, L, Dv)
        return self.out_proj(merge_heads(heads))  # (B, L, E)

    def queries(self, x: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        """Queries (B, H, L, D), and their other part (B, H, L, R), rotated."""
        q = split_heads(self.q_proj(x), self.num_heads)  # (B, H, L, D + R)
        q, q_rotary = q.split([q.shape[-1] - self.rotary_dim, self.rotary_dim], dim=-1)
        return q, self.rotate(q_rotary, offset)

    def compress(self, x: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        """What a cache keeps of each token: the latent (B, 1, L, C) and a key (B, 1, L, R)."""
        c = self.kv_norm(self.kv_down(x))  # (B, L, C)
        return c[:, None], self.rotate(self.k_rotary(x)[:, None], offset)

    def explicit(
        self, q: Tensor, q_rotary: Tensor, c: Tensor, k_rotary: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Make the keys and values of all heads, then attend as usual: (B, H, L, Dv)."""
        k = c @ self.of_heads(self.k_up).mT  # (B, 1, S, C) to (B, H, S, D)
        v = c @ self.of_heads(self.v_up).mT  # (B, H, S, Dv)
        k_rotary = k_rotary.expand(-1, self.num_heads, -1, -1)  # (B, H, S, R)
        q, k = torch.cat((q, q_rotary), dim=-1), torch.cat((k, k_rotary), dim=-1)
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)

    def absorbed(
        self, q: Tensor, q_rotary: Tensor, c: Tensor, k_rotary: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Let queries and values meet the latents themselves: (B, H, L, Dv) again."""
        H, L = q.shape[1:3]
        q = q @ self.of_heads(self.k_up)  # (B, H, L, D) to (B, H, L, C)
        q, k = torch.cat((q, q_rotary), dim=-1), torch.cat((c, k_rotary), dim=-1)
        rows = q.flatten(1, 2)[:, None]  # (B, 1, H · L, C + R): all heads share these keys
        if mask is not None:
            mask = mask.expand(len(q), H, L, -1).flatten(1, 2)[:, None]  # (B, 1, H · L, S)
        read = scaled_dot_product_attention(rows, k, c, attn_mask=mask, scale=self.scale)
        read = read[:, 0].unflatten(1, (H, L))  # (B, H, L, C), averages of latents
        return read @ self.of_heads(self.v_up).mT  # (B, H, L, Dv)

    def of_heads(self, projection: nn.Linear) -> Tensor:
        """The weight of `k_up` (H, D, C) or `v_up` (H, Dv, C), a matrix for each head."""
        return projection.weight.unflatten(0, (self.num_heads, -1))

    def rotate(self, x: Tensor, offset: int) -> Tensor:
        """Turn x (..., L, R) by its positions, which start at `offset`."""
        L, R, wide = *x.shape[-2:], torch.promote_types(x.dtype, torch.float32)
        angles = rotary_angles(L, R, offset=offset, base=self.base, dtype=wide, device=x.device)
        return apply_rotary(x, angles)
