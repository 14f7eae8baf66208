"""The input of the first block, and positions inside attention (chapters 5 and 6)."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_bool, check_shapes, look_up
from attn_notes.masks import relative_positions
from attn_notes.positions import (
    LearnedEncoding,
    SinusoidalEncoding,
    alibi_bias,
    apply_rotary,
    rotary_angles,
)
from attn_notes.transformer.blocks import make_norm
from attn_notes.transformer.config import TransformerConfig


class Embeddings(nn.Module):
    r"""Token ids to vectors: embeddings of token, position and segment, added. Chapter 5.

    Devlin et al. (2019), section 3; token embeddings times $\sqrt E$ if the config says so: Vaswani
    et al. (2017), section 3.4. Positions that act inside attention add nothing here: see
    `attention_positions`.
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
        self.token_types: nn.Embedding | None = None
        if config.num_token_types:
            self.token_types = nn.Embedding(config.num_token_types, E)
        self.norm = make_norm(config) if config.embed_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.scale = math.sqrt(E) if config.scale_embeddings else 1.0

    def forward(
        self, tokens: Tensor, token_types: Tensor | None = None, *, offset: int = 0
    ) -> Tensor:
        """The input of the first block (B, L, E), of ids (B, L) and ids of segments, by default 0.

        The offset is the position of the first token: with a cache, the cached length.
        """
        check_shapes(tokens=(tokens, "B L"))
        x = look_up(self.tokens, tokens, "tokens")  # (B, L, E)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = self.positions(x, offset=offset)
        if self.token_types is not None:
            types = torch.zeros_like(tokens) if token_types is None else token_types
            x = x + look_up(self.token_types, types, "token_types")
        elif token_types is not None:
            raise ValueError("token_types must be None where num_token_types is 0")
        return self.dropout(self.norm(x))


def attention_positions(
    config: TransformerConfig, x: Tensor, *, offset: int = 0, window: int | None = None
) -> dict[str, Any]:
    """The positional arguments of self-attention, the same in all blocks of one window. Chapter 6.

    Of `MultiHeadAttention.forward`: `rotary` with rotary positions, `attn_bias` (H, L, offset + L)
    with ALiBi, and none with the others. Of x (B, L, E), `offset` is the position of the first
    vector: with a cache, the cached length. The `window` only chooses the rotary base.

    Example:
        >>> config = TransformerConfig(vocab_size=1, num_heads=4, positions="alibi")
        >>> attention_positions(config, torch.zeros(1, 1, 128), offset=6)["attn_bias"].shape
        torch.Size([4, 1, 7])
    """
    L, dtype = x.shape[1], torch.promote_types(x.dtype, torch.float32)
    if config.positions == "rotary":
        D = config.proj_dim // config.num_heads
        base, scale = config.rotary_base, config.rotary_scale
        if window is not None and config.local_rotary_base is not None:
            base, scale = config.local_rotary_base, 1.0
        how: Any = {"base": base, "scale": scale, "dtype": dtype, "device": x.device}
        angles = rotary_angles(L, D, offset=offset, **how)
        return {"rotary": partial(apply_rotary, angles=angles, layout=config.rotary_layout)}
    if config.positions == "alibi":
        S = offset + L
        bias = alibi_bias(config.num_heads, L, S, offset=offset, dtype=dtype, device=x.device)
        return {"attn_bias": bias}
    return {}


def and_window(
    mask: Tensor | None, window: int | None, x: Tensor, *, offset: int = 0
) -> Tensor | None:
    """What the mask (None: everything) and the window (None: all) allow vectors x (B, L, E).

    A window of w allows distances below w, before and after: under a causal mask it is that of
    `sliding_window_mask`.
    """
    S = offset + x.shape[1]
    if window is None or window >= S:
        return mask
    near = relative_positions(x.shape[1], S, offset=offset, device=x.device).abs() < window
    if mask is None:
        return near  # (L, S)
    check_bool(mask)
    return mask & near
