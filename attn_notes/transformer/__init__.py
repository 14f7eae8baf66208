r"""Transformer blocks, and whole models, from one config (chapters 5, 7 and 8).

A residual stream runs through a block from its input to its output; each sublayer reads from it
and writes to it. Where the norm stands is all that tells the original order,
$\mathrm{LayerNorm}(x+f(x))$, from pre-norm, $x+f(\mathrm{LayerNorm}(x))$.
"""

from attn_notes.transformer.blocks import AddNorm, DecoderBlock, EncoderBlock, FeedForward
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.decoder import Decoder, DecoderOutput
from attn_notes.transformer.embeddings import Embeddings, attention_positions
from attn_notes.transformer.encoder import Encoder, EncoderOutput
from attn_notes.transformer.families import (
    DecoderOnly,
    DecoderOnlyState,
    LanguageModelOutput,
    MaskedLanguageModel,
)
from attn_notes.transformer.transformer import Transformer, TransformerState, TransformerWeights

__all__ = [
    "AddNorm",
    "Decoder",
    "DecoderBlock",
    "DecoderOnly",
    "DecoderOnlyState",
    "DecoderOutput",
    "Embeddings",
    "Encoder",
    "EncoderBlock",
    "EncoderOutput",
    "FeedForward",
    "LanguageModelOutput",
    "MaskedLanguageModel",
    "Transformer",
    "TransformerConfig",
    "TransformerState",
    "TransformerWeights",
    "attention_positions",
]
