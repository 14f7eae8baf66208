"""What enters the first block, and what positions say inside the blocks (chapters 5 and 6)."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import look_up
from attn_notes.positions import (
    LearnedEncoding,
    SinusoidalEncoding,
    alibi_bias,
    apply_rotary,
    rotary_angles,
)
from attn_notes.transformer.config import TransformerConfig

__all__ = ["Embeddings", "attention_positions"]


class Embeddings(nn.Module):
    r"""Token ids to vectors: the token's, its position's and its segment's, added. Chapter 5.

    Devlin et al. (2019), section 3; times $\sqrt E$ if the config says so: Vaswani et al. (2017),
    section 3.4. Positions that act inside attention add nothing here: see `attention_positions`.

    Args:
        config: its `vocab_size`, `embed_dim`, `positions`, `max_length`, `num_token_types`,
            `embed_norm`, `layer_norm_eps`, `scale_embeddings` and `dropout` count.

    Example:
        >>> embeddings = Embeddings(TransformerConfig(vocab_size=100, embed_dim=8))
        >>> embeddings(torch.tensor([[7, 7]])).shape
        torch.Size([1, 2, 8])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        E = config.embed_dim
        self.tokens = nn.Embedding(config.vocab_size, E)
        self.positions: nn.Module | None = None
        if config.positions == "learned":
            self.positions = LearnedEncoding(config.max_length, E)
        if config.positions == "sinusoidal":
            self.positions = SinusoidalEncoding(E)
        if config.num_token_types:
            self.token_types = nn.Embedding(config.num_token_types, E)
        self.norm = nn.LayerNorm(E, config.layer_norm_eps) if config.embed_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.config = config

    def forward(
        self, tokens: Tensor, token_types: Tensor | None = None, *, offset: int = 0
    ) -> Tensor:
        """What enters the first block.

        Args:
            tokens: (B, L), ids from 0 to V - 1.
            token_types: (B, L), ids of segments; all 0 by default.
            offset: the position of the first token: with a cache, the cached length.

        Returns:
            (B, L, E).

        Raises:
            TypeError: ids that are not integers.
            ValueError: tokens that are not (B, L), or longer than the positions reach; token types
                of another shape, or where the config has none; ids out of range.
        """
        _check_tokens(tokens, token_types, self.config)
        x = look_up(self.tokens, tokens, "tokens")  # (B, L, E)
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.embed_dim)
        if self.positions is not None:
            x = self.positions(x, offset=offset)
        if self.config.num_token_types:
            token_types = torch.zeros_like(tokens) if token_types is None else token_types
            x = x + look_up(self.token_types, token_types, "token_types")
        return self.dropout(self.norm(x))


def attention_positions(config: TransformerConfig, x: Tensor, *, offset: int = 0) -> dict[str, Any]:
    """What self-attention is told of positions: once, and the same in every block. Chapter 6.

    Args:
        config: its `positions`, `num_heads` and `embed_dim` count.
        x: (B, L, E), what enters the first block.
        offset: the position of its first vector: with a cache, the cached length.

    Returns:
        What `MultiHeadAttention.forward` takes: `rotary` with rotary positions, `attn_bias`
        (H, L, offset + L) with ALiBi, and nothing with the others.

    Example:
        >>> config = TransformerConfig(vocab_size=1, num_heads=4, positions="alibi")
        >>> attention_positions(config, torch.zeros(1, 1, 128), offset=6)["attn_bias"].shape
        torch.Size([4, 1, 7])
    """
    L, wide = x.shape[1], torch.promote_types(x.dtype, torch.float32)
    here: dict[str, Any] = {"offset": offset, "dtype": wide, "device": x.device}
    if config.positions == "rotary":
        return {"rotary": partial(apply_rotary, angles=rotary_angles(L, config.head_dim, **here))}
    if config.positions == "alibi":
        return {"attn_bias": alibi_bias(config.num_heads, L, offset + L, **here)}
    return {}


def _check_tokens(tokens: Tensor, token_types: Tensor | None, config: TransformerConfig) -> None:
    """Raise unless the shapes of token ids fit the config and each other."""
    shape = tuple(tokens.shape)
    if tokens.dim() != 2:
        raise ValueError(f"tokens must have shape (B, L), got {shape}")
    if token_types is not None and not config.num_token_types:
        raise ValueError(
            "token_types must be None where num_token_types is 0, got token_types "
            f"{tuple(token_types.shape)}"
        )
    if token_types is not None and token_types.shape != tokens.shape:
        raise ValueError(
            "token_types and tokens must have one shape, got token_types "
            f"{tuple(token_types.shape)} and tokens {shape}"
        )
