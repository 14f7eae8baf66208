r"""Transformer blocks, and whole models, from one config (chapters 5, 7 and 8).

A residual stream runs through a block from its input to its output; each sublayer reads from it
and writes to it. The original order is $\mathrm{LayerNorm}(x+f(x))$; pre-norm is
$x+f(\mathrm{LayerNorm}(x))$. In reading order: `config`, `embeddings`, `blocks`, `encoder`,
`language_models` (GPT, BERT), `encoder_decoder`.
"""

from attn_notes.transformer.blocks import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
)
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.embeddings import Embeddings, attention_positions
from attn_notes.transformer.encoder import Encoder, EncoderOutput
from attn_notes.transformer.encoder_decoder import (
    Decoder,
    DecoderOutput,
    Transformer,
    TransformerState,
    TransformerWeights,
)
from attn_notes.transformer.language_models import (
    DecoderOnly,
    DecoderOnlyState,
    LanguageModelOutput,
    MaskedLanguageModel,
)

__all__ = [
    "Decoder", "DecoderBlock", "DecoderOnly", "DecoderOnlyState", "DecoderOutput",
    "Embeddings", "Encoder", "EncoderBlock", "EncoderOutput", "FeedForward",
    "GatedFeedForward", "LanguageModelOutput", "MaskedLanguageModel", "Transformer",
    "TransformerConfig", "TransformerState", "TransformerWeights", "attention_positions",
]  # fmt: skip
