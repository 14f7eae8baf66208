"""Embeddings, and encoder blocks on top of them (chapters 5, 7 and 8)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from attn_notes.cache import KVCache
from attn_notes.transformer.blocks import EncoderBlock, last_norm
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.embeddings import Embeddings, and_window, attention_positions


class EncoderOutput(NamedTuple):
    """The output of `Encoder`; the second and third are there if asked for."""

    output: Tensor  # (B, L, E), after the last block and, with pre-norm, the last norm
    hidden_states: tuple[Tensor, ...] | None  # (B, L, E), before the first block and after each
    weights: tuple[Tensor, ...] | None  # of each block, (B, H, L, all keys)


class Encoder(nn.Module):
    """Embeddings and encoder blocks: each output has read the whole sequence. Chapters 5 and 8.

    Devlin et al. (2019). It is also the encoder half of an encoder-decoder and, under a causal
    mask, the body of a language model.

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
        self.norm = last_norm(config)

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
            token_types: (B, L), ids of segments, which are 0 by default.
            attn_mask: bool, `True` = may attend, such as `padding_mask(lengths, L)`: (L, L),
                (B, L, L) or (B, H, L, L), any axis of which may be 1.
            is_causal: no position reads a later one, as in `DecoderOnly`. Together with
                `attn_mask` it means both.
            caches: one per block; the tokens follow the cached ones, and are appended. Only with
                `is_causal` are the outputs those of one pass over all tokens.
            need_weights: whether to return the weights of every block.
            need_hidden_states: whether to return the residual stream around every block.

        Returns:
            Output (B, L, E), and the hidden states and weights asked for.
        """
        check_caches(caches, len(self.blocks))
        offset = caches[0].length if caches else 0
        x = self.embeddings(tokens, token_types, offset=offset)  # (B, L, E)
        windows = self.config.windows or (None,) * len(self.blocks)
        rules = {w: self._rules(x, attn_mask, w, offset) for w in dict.fromkeys(windows)}
        hidden_states, weights = [x], []
        for n, block in enumerate(self.blocks):
            x, read = block(
                x,
                is_causal=is_causal,
                need_weights=need_weights,
                cache=caches[n] if caches else None,
                **rules[windows[n]],
            )
            hidden_states.append(x)
            weights.append(read)
        return EncoderOutput(
            self.norm(x),
            tuple(hidden_states) if need_hidden_states else None,
            tuple(weights) if need_weights else None,
        )

    def _rules(
        self, x: Tensor, mask: Tensor | None, window: int | None, offset: int
    ) -> dict[str, Any]:
        """The mask and the positions of every block with this window."""
        positions = attention_positions(self.config, x, offset=offset, window=window)
        return {"attn_mask": and_window(mask, window, x, offset=offset), **positions}


def check_caches(caches: Sequence[object] | None, blocks: int) -> None:
    """Raise unless there is one entry per block, or no caches at all."""
    if caches is not None and len(caches) != blocks:
        raise ValueError(f"caches must be one for each of the {blocks} blocks, got {len(caches)}")
