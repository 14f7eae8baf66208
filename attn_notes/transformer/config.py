"""What a Transformer is made of, in one place (chapters 5, 7 and 8)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from attn_notes.multihead import Backend

__all__ = ["Activation", "Norm", "Positions", "TransformerConfig"]

Norm = Literal["post", "pre"]
Activation = Literal["gelu", "gelu_tanh", "relu"]
Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What a Transformer is made of: every block and every model here is built from one of these.

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
        positions: "none", so that order says nothing; "learned" or "sinusoidal", a vector added to
            each token; or "rotary" or "alibi", which act in self-attention alone (chapter 6).
        max_length: the longest sequence that learned positions reach.
        num_token_types: how many kinds of segment an encoder can tell apart; 0 for no such vectors.
            The models that write are told of no segments: for them it must be 0.
        embed_norm: whether the sum of the embeddings is normalised, as in BERT.
        dropout: the share set to 0 while training, from 0 to 1: of the attention weights, of the
            feed-forward network's activations, of the embeddings, and of what a sublayer writes.
        layer_norm_eps: added to the variance under the root of every norm.
        backend: of the attention: "auto", "explicit" or "fused", as in `MultiHeadAttention`.
        target_vocab_size: the number of the target's token ids in an encoder-decoder; None where
            source and target have one vocabulary.
        num_decoder_layers: the number of the decoder's blocks; as many as the encoder's by default.
        tie_embeddings: whether the map to the logits is the embedding of what is said, and in an
            encoder-decoder with one vocabulary the source's too: Vaswani et al. (2017), section
            3.4.
        scale_embeddings: whether token embeddings are multiplied by the root of E: ibid.

    Raises:
        ValueError: a size that is too small, heads that do not divide the width, an odd width
            where positions turn pairs, an unknown choice, or a number outside its range.

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
    backend: Backend = "auto"
    target_vocab_size: int | None = None
    num_decoder_layers: int | None = None
    tie_embeddings: bool = False
    scale_embeddings: bool = False

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            size = getattr(self, name)
            if size is None and name in OPTIONAL:
                continue
            if not isinstance(size, int) or size < least:
                raise ValueError(f"{name} must be a whole number, {least} or more, got {size!r}")
        for name, choices in CHOICES.items():
            if (choice := getattr(self, name)) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {choice!r}")
        for name, (fits, wanted) in RANGES.items():
            number = getattr(self, name)
            if not isinstance(number, int | float) or not fits(number):
                raise ValueError(f"{name} must be a number {wanted}, got {number!r}")
        self._check_heads()

    def _check_heads(self) -> None:
        """Raise unless heads divide the width, groups the heads, and pairs what turns in pairs."""
        heads, groups = self.num_heads, self.num_kv_heads
        if self.embed_dim % heads:
            got = f"got num_heads = {heads} and embed_dim = {self.embed_dim}"
            raise ValueError(f"num_heads must divide embed_dim, {got}")
        if groups is not None and heads % groups:
            got = f"got num_kv_heads = {groups} and num_heads = {heads}"
            raise ValueError(f"num_kv_heads must divide num_heads, {got}")
        turned = {"sinusoidal": "embed_dim", "rotary": "head_dim"}.get(self.positions)
        if turned and getattr(self, turned) % 2:
            got = f"got {turned} = {getattr(self, turned)}"
            raise ValueError(f"{turned} must be even for {self.positions} positions, {got}")

    @property
    def head_dim(self) -> int:
        """D = E / H, the width of a head."""
        return self.embed_dim // self.num_heads


OPTIONAL = ("num_kv_heads", "target_vocab_size", "num_decoder_layers")
LEAST = dict.fromkeys(
    ("vocab_size", "embed_dim", "num_heads", "num_layers", "ffn_dim", "max_length", *OPTIONAL), 1
) | {"num_token_types": 0}
CHOICES = {
    "norm": get_args(Norm),
    "activation": get_args(Activation),
    "positions": get_args(Positions),
    "backend": get_args(Backend),
    **dict.fromkeys(("embed_norm", "tie_embeddings", "scale_embeddings"), (False, True)),
}
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "dropout": (lambda share: 0 <= share <= 1, "from 0 to 1"),
    "layer_norm_eps": (lambda eps: 0 < eps < math.inf, "above 0"),
}
