"""The architecture of a Transformer in one dataclass (chapters 5, 7 and 8)."""

from dataclasses import dataclass
from typing import Literal

from attn_notes.arguments import (
    check_choices,
    check_divides,
    check_fractions,
    check_integers,
    check_positive,
)

Norm = Literal["post", "pre"]
Activation = Literal["gelu", "gelu_tanh", "relu"]
Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The architecture of a Transformer: every block and every model is built from one of these.

    Args:
        vocab_size: V, the number of token ids; in an encoder-decoder, of the source.
        embed_dim: E, the width of the residual stream.
        num_heads: H, which must divide E.
        num_layers: the number of blocks; in an encoder-decoder, of the encoder.
        ffn_dim: the width inside the feed-forward network.
        num_kv_heads: G, the key-value heads that the query heads share; H by default.
        norm: "post" (Vaswani et al., 2017), or "pre", where one more norm follows the last block.
        activation: of the feed-forward network: "gelu", "relu", or "gelu_tanh", GPT-2's
            approximation of the first (Hendrycks and Gimpel, 2016).
        positions: "none"; "learned" or "sinusoidal", a vector added to each token; or "rotary" or
            "alibi", which act in self-attention alone (chapter 6).
        max_length: the longest sequence that learned positions reach.
        num_token_types: how many kinds of segment an encoder distinguishes; 0 for none. The
            models that generate text have no token types: for them it must be 0.
        embed_norm: whether the sum of the embeddings is normalised, as in BERT.
        dropout: the fraction set to 0 in training: of the attention weights, of the feed-forward
            network's activations, of the embeddings, and of the output of each sublayer.
        layer_norm_eps: added to the variance in every layer norm.
        packed: whether self-attention has one projection for query, key and value.
        target_vocab_size: the number of the target's token ids in an encoder-decoder; None where
            source and target share a vocabulary.
        num_decoder_layers: the number of the decoder's blocks; `num_layers` by default.
        tie_embeddings: whether the output projection is the target's embedding, and in an
            encoder-decoder with a shared vocabulary the source's too: Vaswani et al. (2017),
            section 3.4.
        scale_embeddings: whether token embeddings are multiplied by the root of E: ibid.

    Example:
        >>> TransformerConfig(vocab_size=100, embed_dim=8, num_heads=3)
        Traceback (most recent call last):
        ValueError: num_heads must divide embed_dim, got num_heads = 3 and embed_dim = 8
    """

    vocab_size: int
    embed_dim: int = 128
    num_heads: int = 4
    num_layers: int = 2
    ffn_dim: int = 512
    num_kv_heads: int | None = None
    norm: Norm = "post"
    activation: Activation = "gelu"
    positions: Positions = "learned"
    max_length: int = 512
    num_token_types: int = 0
    embed_norm: bool = False
    dropout: float = 0.0
    layer_norm_eps: float = 1e-5
    packed: bool = False
    target_vocab_size: int | None = None
    num_decoder_layers: int | None = None
    tie_embeddings: bool = False
    scale_embeddings: bool = False

    def __post_init__(self) -> None:
        check_integers(1, **{name: getattr(self, name) for name in SIZES})
        optional = {name: getattr(self, name) for name in OPTIONAL_SIZES}
        check_integers(1, **{name: n for name, n in optional.items() if n is not None})
        check_integers(0, num_token_types=self.num_token_types)
        check_fractions(dropout=self.dropout)
        check_positive(layer_norm_eps=self.layer_norm_eps)
        check_choices(self)
        check_divides("num_heads", self.num_heads, "embed_dim", self.embed_dim)
        check_divides("num_kv_heads", self.num_kv_heads or 1, "num_heads", self.num_heads)
        rotated = {"sinusoidal": "embed_dim", "rotary": "head_dim"}.get(self.positions)
        if rotated and (size := getattr(self, rotated)) % 2:
            wanted = f"even for {self.positions} positions"
            raise ValueError(f"{rotated} must be {wanted}, got {rotated} = {size}")

    @property
    def head_dim(self) -> int:
        """D = E / H, the width of a head."""
        return self.embed_dim // self.num_heads


SIZES = ("vocab_size", "embed_dim", "num_heads", "num_layers", "ffn_dim", "max_length")
OPTIONAL_SIZES = ("num_kv_heads", "target_vocab_size", "num_decoder_layers")
