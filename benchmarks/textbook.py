"""A plain Transformer block as tutorials write it: no checks, cache, dropout or fused kernel.

The parameters have the names of ours, so that `load_state_dict` copies them.
"""

import math

from torch import Tensor, nn


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Equation 1 of Vaswani et al. (2017), and the weights."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1)
    return weights @ value, weights


class MultiHead(nn.Module):
    """Section 3.2.2 of the same."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(width, width) for _ in range(4)
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (
            project(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
            for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        heads, weights = attention(q, k, v, mask)
        return self.out_proj(heads.transpose(1, 2).contiguous().view(query.shape)), weights


class Block(nn.Module):
    """Section 3.1 of the same: an encoder's block or, with a memory to read, a decoder's."""

    def __init__(self, width: int, num_heads: int, hidden: int, *, is_decoder: bool) -> None:
        super().__init__()
        self.self_attn = MultiHead(width, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        if is_decoder:
            self.cross_attn = MultiHead(width, num_heads)
            self.norm3 = nn.LayerNorm(width)
        self.feed_forward = nn.ModuleDict(
            {"linear1": nn.Linear(width, hidden), "linear2": nn.Linear(hidden, width)}
        )

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.self_attn(x, x, x, mask)[0])
        last = self.norm2
        if memory is not None:
            x = self.norm2(x + self.cross_attn(x, memory, memory)[0])
            last = self.norm3
        hidden = self.feed_forward["linear1"](x).relu()
        return last(x + self.feed_forward["linear2"](hidden))
