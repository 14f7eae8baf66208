"""A plain Transformer block, written as tutorials write it: no check, no cache, no fused kernel.

The parameters have the names of ours, so that `load_state_dict` copies them.
"""

import math

from torch import Tensor, nn


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: nn.Module | None = None,
) -> tuple[Tensor, Tensor]:
    """Equation 1 of Vaswani et al. (2017), and the weights before dropout."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ value, weights


class MultiHead(nn.Module):
    """Section 3.2.2 of the same."""

    def __init__(self, width: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(width, width) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (
            project(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
            for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        heads, weights = attention(q, k, v, mask, self.dropout)
        return self.out_proj(heads.transpose(1, 2).contiguous().view(query.shape)), weights


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.linear1(x).relu()))


class Block(nn.Module):
    """Section 3.1 of the same: an encoder's block or, with a memory to read, a decoder's."""

    def __init__(
        self, width: int, num_heads: int, hidden: int, *, is_decoder: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.self_attn = MultiHead(width, num_heads, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        if is_decoder:
            self.cross_attn = MultiHead(width, num_heads, dropout)
            self.norm3 = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, mask)[0]))
        last = self.norm2
        if memory is not None:
            x = self.norm2(x + self.dropout(self.cross_attn(x, memory, memory)[0]))
            last = self.norm3
        return last(x + self.dropout(self.feed_forward(x)))
