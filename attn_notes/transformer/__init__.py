r"""Transformer blocks from one config (chapters 5, 7 and 8).

A residual stream runs through a block from its input to its output; each sublayer reads from it
and writes to it. Where the norm stands is all that tells the original order,
$\mathrm{LayerNorm}(x+f(x))$, from pre-norm, $x+f(\mathrm{LayerNorm}(x))$.
"""

from attn_notes.transformer.blocks import AddNorm, EncoderBlock, FeedForward
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.models import Embeddings, EncoderOnly, EncoderOutput

__all__ = [
    "AddNorm",
    "Embeddings",
    "EncoderBlock",
    "EncoderOnly",
    "EncoderOutput",
    "FeedForward",
    "TransformerConfig",
]
