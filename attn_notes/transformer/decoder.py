"""Embeddings, and decoder blocks that read a memory on top of them (chapter 7)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.cache import KVCache
from attn_notes.transformer.blocks import DecoderBlock
from attn_notes.transformer.checks import check_caches, check_no_segments
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.embeddings import Embeddings, attention_positions

__all__ = ["Decoder", "DecoderCaches", "DecoderOutput", "join_weights"]

DecoderCaches = Sequence[tuple[KVCache, KVCache]]
"""For each block its cache of the target so far, and its cache of the memory."""


class DecoderOutput(NamedTuple):
    """What `Decoder` gives."""

    output: Tensor
    """(B, L, E), after the last block and, with pre-norm, the last norm."""
    weights: tuple[Tensor, ...] | None
    """The weights (B, H, L, L) of each block's self-attention, if asked for."""
    cross_weights: tuple[Tensor, ...] | None
    """The weights (B, H, L, S) of each block's attention to the memory, if asked for."""


class Decoder(nn.Module):
    """Embeddings and decoder blocks: each output has read the memory and the tokens before it.

    Vaswani et al. (2017), section 3.1; chapter 7.

    Args:
        config: of the embeddings, with `vocab_size` the target's, and of all `num_layers` blocks.

    Raises:
        ValueError: a config with token types.

    Example:
        >>> import torch
        >>> decoder = Decoder(TransformerConfig(vocab_size=100, embed_dim=8, num_heads=2))
        >>> output, weights, cross_weights = decoder(
        ...     torch.tensor([[1, 5, 6]]), torch.zeros(1, 4, 8), need_weights=True
        ... )
        >>> output.shape, weights[0].shape, cross_weights[0].shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]), torch.Size([1, 2, 3, 4]))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_no_segments(config)
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.num_layers))
        last = nn.LayerNorm(config.embed_dim, config.layer_norm_eps)
        self.norm = last if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor,
        *,
        memory_mask: Tensor | None = None,
        caches: DecoderCaches | None = None,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Read tokens, all at once or those that follow what is in the caches.

        Args:
            tokens: (B, L), ids from 0 to V - 1.
            memory: (B, S, E), what the encoder gave; S = 0 once the caches hold it.
            memory_mask: bool, `True` = may attend, for all of the memory: (B, 1, S).
            caches: a pair for each block; the new tokens stand after what is held, and are
                appended to it.
            need_weights: whether to return the weights of every block too.

        Returns:
            Output (B, L, E), and the weights asked for, over all keys that are held.

        Raises:
            TypeError: a mask that is not bool.
            ValueError: shapes or caches that do not fit, or weights asked of the fused backend.
        """
        check_caches(caches, len(self.blocks), "a pair")
        offset = caches[0][0].length if caches else 0
        x = self.embeddings(tokens, offset=offset)  # (B, L, E)
        positions = attention_positions(self.config, x, offset=offset)
        weights, cross_weights = [], []
        for n, block in enumerate(self.blocks):
            x, read, cross_read = block(
                x,
                memory,
                memory_mask=memory_mask,
                cache=caches[n] if caches else (None, None),
                need_weights=need_weights,
                **positions,
            )
            weights.append(read)
            cross_weights.append(cross_read)
        if not need_weights:
            return DecoderOutput(self.norm(x), None, None)
        return DecoderOutput(self.norm(x), tuple(weights), tuple(cross_weights))


def join_weights(old: Sequence[Tensor], new: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The attention weights of the steps so far, and below them those of one step more.

    Args:
        old: (B, H, L, S), for each block.
        new: (B, H, 1, S + 1), for each block; or S, of keys that do not grow.

    Returns:
        (B, H, L + 1, S + 1), or S, for each block: an earlier query had no key for what came
        later, and its weight there is 0.

    Example:
        >>> import torch
        >>> join_weights([torch.ones(1, 1, 1, 1)], [torch.full((1, 1, 1, 2), 0.5)])
        (tensor([[[[1.0000, 0.0000],
                  [0.5000, 0.5000]]]]),)
    """
    return tuple(
        torch.cat((F.pad(above, (0, below.shape[-1] - above.shape[-1])), below), dim=2)
        for above, below in zip(old, new, strict=True)
    )
