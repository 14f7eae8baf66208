"""The architecture of a Transformer in one dataclass (chapters 5, 7 and 8)."""

from dataclasses import dataclass
from typing import Literal

from attn_notes.arguments import check_choices, check_divides, check_integers, check_positive
from attn_notes.positions import RotaryLayout

Norm = Literal["post", "pre", "both"]
NormKind = Literal["layer", "rms"]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
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
        head_dim: D, the width of a head; E / H by default.
        norm: "post" (Vaswani et al., 2017); "pre", where one more norm follows the last block; or
            "both", which is "pre" with another norm on what each sublayer writes (Gemma 2 and 3).
        norm_kind: "layer", or "rms" (`RMSNorm`), of every norm but those on queries and keys.
        qk_norm: whether self-attention has an RMSNorm on each head's queries and keys.
        activation: of the feed-forward network: "gelu", "relu", "silu", or "gelu_tanh", GPT-2's
            approximation of the first (Hendrycks and Gimpel, 2016).
        gated: whether the feed-forward network is a `GatedFeedForward`.
        bias: whether projections, feed-forward networks and layer norms add a bias.
        positions: "none"; "learned" or "sinusoidal", a vector added to each token; or "rotary" or
            "alibi", which act in self-attention alone (chapter 6).
        rotary_base: as in `rotary_angles`.
        rotary_scale: as in `rotary_angles`: one number, or one for each of the D/2 pairs.
        rotary_layout: as in `apply_rotary`.
        windows: for each block, how far a position reads: itself and the window - 1 before it
            (without a causal mask, as many after it); None for all. Not in an encoder-decoder.
        local_rotary_base: in blocks with a window, the rotary base, with a scale of 1; by default
            base and scale are those of the other blocks.
        max_length: the longest sequence that learned positions reach.
        num_token_types: how many kinds of segment an encoder distinguishes; 0 for none. The
            models that generate text have no token types: for them it must be 0.
        embed_norm: whether the sum of the embeddings is normalised, as in BERT.
        dropout: the fraction set to 0 in training: of the attention weights, of the feed-forward
            network's activations, of the embeddings, and of the output of each sublayer.
        layer_norm_eps: added to the variance in every layer norm, to the mean square in an RMSNorm.
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
    head_dim: int | None = None
    norm: Norm = "post"
    norm_kind: NormKind = "layer"
    qk_norm: bool = False
    activation: Activation = "gelu"
    gated: bool = False
    bias: bool = True
    positions: Positions = "learned"
    rotary_base: float = 10000.0
    rotary_scale: float | tuple[float, ...] = 1.0
    rotary_layout: RotaryLayout = "pairs"
    windows: tuple[int | None, ...] | None = None
    local_rotary_base: float | None = None
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
        check_choices(self)
        check_positive(layer_norm_eps=self.layer_norm_eps)  # else the norm gives NaN
        if self.head_dim is None:
            check_divides("num_heads", self.num_heads, "embed_dim", self.embed_dim)
        check_divides("num_kv_heads", self.num_kv_heads or 1, "num_heads", self.num_heads)
        rotated = {"sinusoidal": "embed_dim", "rotary": "head_dim"}.get(self.positions)
        sizes = {"embed_dim": self.embed_dim, "head_dim": self.proj_dim // self.num_heads}
        if rotated and sizes[rotated] % 2:
            wanted = f"even for {self.positions} positions"
            raise ValueError(f"{rotated} must be {wanted}, got {rotated} = {sizes[rotated]}")
        for window in self.windows or ():
            check_integers(1, window=1 if window is None else window)
        if self.windows is not None and len(self.windows) != self.num_layers:
            wanted = f"one for each of the {self.num_layers} blocks"
            raise ValueError(f"windows must be {wanted}, got {len(self.windows)}")

    @property
    def proj_dim(self) -> int:
        """H · D, the width of all heads together."""
        return self.embed_dim if self.head_dim is None else self.num_heads * self.head_dim


SIZES = ("vocab_size", "embed_dim", "num_heads", "num_layers", "ffn_dim", "max_length")
OPTIONAL_SIZES = ("num_kv_heads", "head_dim", "target_vocab_size", "num_decoder_layers")
