"""Embeddings, and encoder blocks on top of them (chapters 5, 7 and 8)."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn

from attn_notes.cache import KVCache
from attn_notes.transformer.blocks import EncoderBlock
from attn_notes.transformer.checks import check_caches
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.embeddings import Embeddings, attention_positions

__all__ = ["Encoder", "EncoderOutput"]


class EncoderOutput(NamedTuple):
    """What `Encoder` gives."""

    output: Tensor
    """(B, L, E), after the last block and, with pre-norm, the last norm."""
    hidden_states: tuple[Tensor, ...] | None
    """The residual stream (B, L, E) before the first block and after each, if asked for."""
    weights: tuple[Tensor, ...] | None
    """The attention weights of each block, (B, H, L, L), or, with caches, (B, H, L, all keys)."""


class Encoder(nn.Module):
    """Embeddings and encoder blocks: each output has read the whole sequence. Chapters 5 and 8.

    Devlin et al. (2019). It is also the encoder half of an encoder-decoder.

    Args:
        config: of the embeddings and of every block.

    Example:
        >>> import torch
        >>> model = Encoder(TransformerConfig(vocab_size=100, embed_dim=8, num_heads=2))
        >>> output, hidden_states, weights = model(torch.tensor([[5, 6, 7]]), need_weights=True)
        >>> output.shape, len(weights), weights[0].shape
        (torch.Size([1, 3, 8]), 2, torch.Size([1, 2, 3, 3]))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.num_layers))
        last = nn.LayerNorm(config.embed_dim, config.layer_norm_eps)
        self.norm = last if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        tokens: Tensor,
        token_types: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        caches: Sequence[KVCache] | None = None,
        need_weights: bool = False,
        need_hidden_states: bool = False,
    ) -> EncoderOutput:
        """Encode a batch of sequences.

        Args:
            tokens: (B, L), ids from 0 to V - 1.
            token_types: (B, L), ids of segments; all 0 by default.
            attn_mask: bool, `True` = may attend, such as `padding_mask(lengths, L)`: (L, L),
                (B, L, L) or (B, H, L, L), any axis of which may be 1.
            is_causal: no position reads a later one, which makes a `DecoderOnly` of it. Together
                with `attn_mask` it means both.
            caches: one for each block; the tokens stand after what is held, and are appended to
                it. Only with `is_causal` are the outputs those of one pass over everything.
            need_weights: whether to return the weights of every block too.
            need_hidden_states: whether to return what every block received and gave too.

        Returns:
            Output (B, L, E), and the hidden states and weights asked for.

        Raises:
            TypeError: a mask that is not bool.
            ValueError: shapes or caches that do not fit, or weights asked of the fused backend.
        """
        check_caches(caches, len(self.blocks), "one")
        offset = caches[0].length if caches else 0
        x = self.embeddings(tokens, token_types, offset=offset)  # (B, L, E)
        attention = attention_positions(self.config, x, offset=offset)
        attention |= {"attn_mask": attn_mask, "is_causal": is_causal, "need_weights": need_weights}
        hidden_states = [x] if need_hidden_states else None
        weights = []
        for n, block in enumerate(self.blocks):
            x, read = block(x, cache=caches[n] if caches else None, **attention)
            weights.append(read)
            if hidden_states is not None:
                hidden_states.append(x)
        return EncoderOutput(
            self.norm(x),
            None if hidden_states is None else tuple(hidden_states),
            tuple(weights) if need_weights else None,
        )
