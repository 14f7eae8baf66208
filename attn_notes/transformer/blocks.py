"""The blocks of a Transformer (chapters 5 and 7)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.cache import KVCache
from attn_notes.multihead import MultiHeadAttention, Rotary
from attn_notes.norms import RMSNorm
from attn_notes.transformer.config import Activation, TransformerConfig

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}
"""The functions inside a feed-forward network, by the config's names."""


class FeedForward(nn.Module):
    r"""$f(x)=W_2\,\sigma(W_1x+b_1)+b_2$, the same at every position. Chapter 7.

    Vaswani et al. (2017), equation 2, with torch's dropout after the activation.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.linear1 = nn.Linear(config.embed_dim, config.ffn_dim, config.bias)
        self.dropout = nn.Dropout(config.dropout)
        self.linear2 = nn.Linear(config.ffn_dim, config.embed_dim, config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) to (..., E), each position independently of the others."""
        x = self.activation(self.linear1(x))  # (..., ffn_dim)
        return self.linear2(self.dropout(x))  # (..., E)


class GatedFeedForward(nn.Module):
    r"""$f(x)=W_{down}\bigl(\sigma(W_{gate}x)\odot W_{up}x\bigr)$: gated features. Chapter 12.

    Shazeer (2020): SwiGLU with "silu", GeGLU with "gelu_tanh". Three matrices take the place of
    two: at `ffn_dim` 8/3 E it has as many parameters as a `FeedForward` at 4 E.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.gate_proj = nn.Linear(config.embed_dim, config.ffn_dim, config.bias)
        self.up_proj = nn.Linear(config.embed_dim, config.ffn_dim, config.bias)
        self.dropout = nn.Dropout(config.dropout)
        self.down_proj = nn.Linear(config.ffn_dim, config.embed_dim, config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) to (..., E), each position independently of the others."""
        x = self.activation(self.gate_proj(x)) * self.up_proj(x)  # (..., ffn_dim)
        return self.down_proj(self.dropout(x))  # (..., E)


class Block(nn.Module):
    """Where a block's norms stand: before each sublayer (pre-norm), or after its residual sum.

    The norms on what a sublayer writes, `out_norm1` and so on, are None except with "both".
    """

    norm_first: bool
    dropout: nn.Dropout

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What the sublayer reads of the stream (B, L, E)."""
        return norm(x) if self.norm_first else x

    def add(self, x: Tensor, y: Tensor, norm: nn.Module, out_norm: nn.Module | None) -> Tensor:
        """The stream x (B, L, E) after what a sublayer writes, y, has been added."""
        y = self.dropout(y if out_norm is None else out_norm(y))
        return x + y if self.norm_first else norm(x + y)


class EncoderBlock(Block):
    """Self-attention, then the position-wise feed-forward network. Chapter 7.

    Post-norm: Vaswani et al. (2017), section 3.1; pre-norm: Xiong et al. (2020). With the weights
    copied it equals `torch.nn.TransformerEncoderLayer`.

    Example:
        >>> import torch
        >>> block = EncoderBlock(TransformerConfig(vocab_size=1, embed_dim=8, num_heads=2))
        >>> x, weights = block(torch.zeros(1, 3, 8), need_weights=True)
        >>> x.shape, weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first = config.norm != "post"
        self.self_attn = _self_attention(config)
        self.norm1, self.out_norm1 = make_norm(config), _out_norm(config)
        self.feed_forward = _feed_forward(config)
        self.norm2, self.out_norm2 = make_norm(config), _out_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        *,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        is_causal: bool = False,
        rotary: Rotary | None = None,
        need_weights: bool = False,
        cache: KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """From the residual stream (B, L, E) before the block to the one after it; weights or None.

        The other arguments are those of `MultiHeadAttention`.
        """
        rules = {"attn_mask": attn_mask, "attn_bias": attn_bias, "is_causal": is_causal}
        options = {"rotary": rotary, "need_weights": need_weights, "cache": cache}
        y, weights = self.self_attn(self.before(self.norm1, x), **rules, **options)
        x = self.add(x, y, self.norm1, self.out_norm1)
        y = self.feed_forward(self.before(self.norm2, x))
        return self.add(x, y, self.norm2, self.out_norm2), weights


class DecoderBlock(Block):
    """Causal self-attention, cross-attention, then the feed-forward network. Chapter 7.

    Vaswani et al. (2017), section 3.1; with the weights copied, `torch.nn.TransformerDecoderLayer`
    under a causal mask. The block is always causal: there is no mask to forget.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first = config.norm != "post"
        self.self_attn = _self_attention(config)
        self.norm1, self.out_norm1 = make_norm(config), _out_norm(config)
        self.cross_attn = _attention(config)
        self.norm2, self.out_norm2 = make_norm(config), _out_norm(config)
        self.feed_forward = _feed_forward(config)
        self.norm3, self.out_norm3 = make_norm(config), _out_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        attn_bias: Tensor | None = None,
        rotary: Rotary | None = None,
        cache: tuple[KVCache | None, KVCache | None] = (None, None),
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """From the residual stream (B, L, E) before the block to the residual stream after it.

        The memory is the encoder's output (B, S, E); with a cache that holds it already, S = 0.
        `memory_mask` is for all of it, such as `padding_mask(lengths, S)`. `cache` is a pair, of
        the self-attention and of the cross-attention; the other arguments belong to the
        self-attention, which is causal besides.

        Returns:
            (B, L, E), the weights of the self-attention (B, H, L, L), with a cache (B, H, L, all
            keys), and those of the cross-attention (B, H, L, S), or None and None.
        """
        own = {"attn_mask": attn_mask, "attn_bias": attn_bias, "rotary": rotary, "cache": cache[0]}
        q = self.before(self.norm1, x)
        # Causal in training, in evaluation and with a cache.
        y, weights = self.self_attn(q, is_causal=True, need_weights=need_weights, **own)
        x = self.add(x, y, self.norm1, self.out_norm1)
        q = self.before(self.norm2, x)
        across = {"attn_mask": memory_mask, "need_weights": need_weights, "cache": cache[1]}
        y, cross_weights = self.cross_attn(q, memory, **across)
        x = self.add(x, y, self.norm2, self.out_norm2)
        y = self.feed_forward(self.before(self.norm3, x))
        return self.add(x, y, self.norm3, self.out_norm3), weights, cross_weights


def make_norm(config: TransformerConfig) -> nn.Module:
    """A norm of the residual stream, of the config's kind."""
    if config.norm_kind == "rms":
        return RMSNorm(config.embed_dim, config.layer_norm_eps)
    return nn.LayerNorm(config.embed_dim, config.layer_norm_eps, bias=config.bias)


def last_norm(config: TransformerConfig) -> nn.Module:
    """The norm after the last block, which post-norm alone does not need."""
    return nn.Identity() if config.norm == "post" else make_norm(config)


def _out_norm(config: TransformerConfig) -> nn.Module | None:
    return make_norm(config) if config.norm == "both" else None


def _feed_forward(config: TransformerConfig) -> nn.Module:
    return GatedFeedForward(config) if config.gated else FeedForward(config)


def _self_attention(config: TransformerConfig) -> MultiHeadAttention:
    eps = config.layer_norm_eps if config.qk_norm else None
    return _attention(config, packed=config.packed, qk_norm_eps=eps)


def _attention(config: TransformerConfig, **own: Any) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.embed_dim,
        config.num_heads,
        qk_proj_dim=config.proj_dim,
        v_proj_dim=config.proj_dim,
        num_kv_heads=config.num_kv_heads,
        bias=config.bias,
        dropout=config.dropout,
        **own,
    )
