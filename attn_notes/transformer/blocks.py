"""Sublayers and the blocks that are made of them (chapters 5 and 7)."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.multihead import Cache, MultiHeadAttention
from attn_notes.transformer.config import Activation, TransformerConfig

__all__ = ["ACTIVATIONS", "AddNorm", "DecoderBlock", "EncoderBlock", "FeedForward"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}
"""The functions inside a feed-forward network, by the config's names."""


class AddNorm(nn.Module):
    r"""The road past a sublayer $f$: $\mathrm{LayerNorm}(x+f(x))$ or $x+f(\mathrm{LayerNorm}(x))$.

    `x = add(x, f(add.read(x)))` is either of the two, as the config says. Post-norm: Vaswani et
    al. (2017), section 3.1; pre-norm: Xiong et al. (2020). Chapter 7.

    Args:
        config: its `embed_dim`, `norm`, `dropout` and `layer_norm_eps` count.

    Example:
        >>> import torch
        >>> add = AddNorm(TransformerConfig(vocab_size=1, embed_dim=4, norm="pre"))
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> add(x, torch.ones(4))
        tensor([2., 3., 4., 5.])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def read(self, x: Tensor) -> Tensor:
        """What the sublayer reads.

        Args:
            x: (..., E), the residual stream before it.

        Returns:
            (..., E), normalised if the norm comes first.
        """
        return self.norm(x) if self.norm_first else x

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Add what the sublayer writes.

        Args:
            x: (..., E), the residual stream before it.
            y: (..., E), the sublayer's output.

        Returns:
            (..., E), the residual stream after it, normalised if the norm comes last.
        """
        if self.dropout.training:  # else a call less, which decoding has many of
            y = self.dropout(y)
        x = x + y
        return x if self.norm_first else self.norm(x)


class FeedForward(nn.Module):
    r"""$f(x)=W_2\,\sigma(W_1x+b_1)+b_2$, the same at every position. Chapter 7.

    Vaswani et al. (2017), equation 2, with torch's dropout after the activation.

    Args:
        config: its `embed_dim`, `ffn_dim`, `activation` and `dropout` count.

    Example:
        >>> import torch
        >>> network = FeedForward(TransformerConfig(vocab_size=1, embed_dim=4, ffn_dim=16))
        >>> network(torch.zeros(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.linear1 = nn.Linear(config.embed_dim, config.ffn_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.linear2 = nn.Linear(config.ffn_dim, config.embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Each position by itself.

        Args:
            x: (..., E).

        Returns:
            (..., E).
        """
        x = self.activation(self.linear1(x))  # (..., ffn_dim)
        if self.dropout.training:
            x = self.dropout(x)
        return self.linear2(x)  # (..., E)


class EncoderBlock(nn.Module):
    """Positions read one another, then each thinks by itself. Chapter 7.

    Vaswani et al. (2017), section 3.1; with the weights copied, `torch.nn.TransformerEncoderLayer`.

    Args:
        config: all but its `vocab_size`, `num_layers` and embeddings count.

    Example:
        >>> import torch
        >>> block = EncoderBlock(TransformerConfig(vocab_size=1, embed_dim=8, num_heads=2))
        >>> x, weights = block(torch.zeros(1, 3, 8), need_weights=True)
        >>> x.shape, weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attn = _attention(config)
        self.add1 = AddNorm(config)
        self.feed_forward = FeedForward(config)
        self.add2 = AddNorm(config)

    def forward(self, x: Tensor, **attention: Any) -> tuple[Tensor, Tensor | None]:
        """One step along the residual stream.

        Args:
            x: (B, L, E).
            **attention: what `MultiHeadAttention.forward` takes by name: `attn_mask`,
                `need_weights` and the others.

        Returns:
            (B, L, E), and the weights (B, H, L, L) or None.

        Raises:
            TypeError: as in `MultiHeadAttention`.
            ValueError: as in `MultiHeadAttention`.
        """
        y, weights = self.self_attn(self.add1.read(x), **attention)
        x = self.add1(x, y)
        x = self.add2(x, self.feed_forward(self.add2.read(x)))
        return x, weights


class DecoderBlock(nn.Module):
    """Positions read those before them, then the memory, then each thinks by itself. Chapter 7.

    Vaswani et al. (2017), section 3.1; with the weights copied, `torch.nn.TransformerDecoderLayer`
    under a causal mask. The block itself is causal, and always: there is no mask to forget.

    Args:
        config: all but its vocabulary, numbers of layers and embeddings count.

    Example:
        >>> import torch
        >>> block = DecoderBlock(TransformerConfig(vocab_size=1, embed_dim=8, num_heads=2))
        >>> x, memory = torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)
        >>> x, weights, cross_weights = block(x, memory, need_weights=True)
        >>> x.shape, weights.shape, cross_weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]), torch.Size([1, 2, 3, 5]))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attn = _attention(config)
        self.add1 = AddNorm(config)
        self.cross_attn = _attention(config)
        self.add2 = AddNorm(config)
        self.feed_forward = FeedForward(config)
        self.add3 = AddNorm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        memory_mask: Tensor | None = None,
        cache: tuple[Cache | None, Cache | None] = (None, None),
        need_weights: bool = False,
        **attention: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One step along the residual stream.

        Args:
            x: (B, L, E).
            memory: (B, S, E), what the encoder gave. With a cache that holds it already, S = 0.
            memory_mask: bool, `True` = may attend: what `MultiHeadAttention` takes as `attn_mask`,
                for all of the memory, such as `padding_mask(lengths, S)`.
            cache: of the self-attention, and of the attention to the memory.
            need_weights: whether to return the weights too.
            **attention: what the self-attention takes besides: `attn_mask`, which further
                restricts the causal rule, `attn_bias` and `rotary`.

        Returns:
            (B, L, E), the weights of the self-attention (B, H, L, L), with a cache (B, H, L, all
            keys), and those of the attention to the memory (B, H, L, S), or None and None.

        Raises:
            TypeError: as in `MultiHeadAttention`.
            ValueError: as in `MultiHeadAttention`.
        """
        y, weights = self.self_attn(
            self.add1.read(x),
            is_causal=True,  # in training, in evaluation and with a cache: one rule
            cache=cache[0],
            need_weights=need_weights,
            **attention,
        )
        x = self.add1(x, y)
        y, cross_weights = self.cross_attn(
            self.add2.read(x),
            memory,
            attn_mask=memory_mask,
            cache=cache[1],
            need_weights=need_weights,
        )
        x = self.add2(x, y)
        x = self.add3(x, self.feed_forward(self.add3.read(x)))
        return x, weights, cross_weights


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    """The attention of a block, to its own sequence or to another."""
    return MultiHeadAttention(
        config.embed_dim,
        config.num_heads,
        num_kv_heads=config.num_kv_heads,
        dropout=config.dropout,
        backend=config.backend,
    )
