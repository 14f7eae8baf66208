"""The Transformer: encoder, decoder, and what is kept between two steps (chapter 7)."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor, nn

from attn_notes.cache import KVCache
from attn_notes.masks import padding_mask
from attn_notes.positions import LearnedEncoding
from attn_notes.transformer.checks import check_source, check_step
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.decoder import Decoder, DecoderCaches, DecoderOutput, join_weights
from attn_notes.transformer.encoder import Encoder

__all__ = ["Transformer", "TransformerState", "TransformerWeights"]


class TransformerWeights(NamedTuple):
    """The attention weights of every layer and head, a tensor for each layer."""

    encoder: tuple[Tensor, ...]
    """Source tokens reading one another, (B, H, S, S)."""
    decoder: tuple[Tensor, ...]
    """Target tokens reading those up to themselves, (B, H, L, L)."""
    cross: tuple[Tensor, ...]
    """Target tokens reading the source, (B, H, L, S)."""


@dataclass(frozen=True)
class TransformerState:
    """What a `Transformer` remembers between two steps. A step leaves the old state as it was."""

    memory: Tensor
    """What the encoder gave, (B, S, E). From the second step on S is 0: the caches hold it."""
    memory_mask: Tensor
    """Which of it is real, (B, 1, S), bool."""
    caches: DecoderCaches
    """The keys and values of each block: of the target so far, and of the memory."""
    weights: TransformerWeights | None = None
    """The weights of the L steps so far, if `start` was asked for them."""

    def select(self, index: Tensor) -> "TransformerState":
        """The state whose row n is this one's row `index[n]`: how a beam reorders hypotheses.

        Args:
            index: (B',), rows of this state, any of them more than once.

        Returns:
            A new state.
        """
        weights = self.weights
        if weights is not None:
            weights = TransformerWeights(*(tuple(x[index] for x in kind) for kind in weights))
        return TransformerState(
            self.memory[index],
            self.memory_mask[index],
            tuple((own.select(index), cross.select(index)) for own, cross in self.caches),
            weights,
        )


class Transformer(nn.Module):
    r"""An encoder reads the source; a decoder, reading it, predicts the target token by token.

    Vaswani et al. (2017); chapter 7. Matrices begin as Glorot and Bengio (2010) draw them, biases
    as 0, and embeddings as N(0, 1), or, where they are scaled or tied, as N(0, 1/E): multiplied by
    $\sqrt E$ they weigh as much as positions do, and as a map to the logits they begin no louder
    than another matrix.

    Args:
        config: of the encoder and its vocabulary, and, but for `target_vocab_size` and
            `num_decoder_layers`, of the decoder.

    Raises:
        ValueError: a config with token types.

    Example:
        >>> import torch
        >>> model = Transformer(TransformerConfig(vocab_size=9, target_vocab_size=7, embed_dim=8))
        >>> source, lengths = torch.tensor([[4, 5, 6], [8, 4, 0]]), torch.tensor([3, 2])
        >>> inputs = torch.tensor([[1, 5], [1, 6]])
        >>> logits, weights = model(source, lengths, inputs, need_weights=True)
        >>> logits.shape, weights.cross[0].shape
        (torch.Size([2, 2, 7]), torch.Size([2, 4, 2, 3]))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        vocab_size = config.target_vocab_size or config.vocab_size
        self.encoder = Encoder(config)
        self.decoder = Decoder(
            replace(
                config,
                vocab_size=vocab_size,
                num_layers=config.num_decoder_layers or config.num_layers,
            )
        )
        self.out_proj = nn.Linear(config.embed_dim, vocab_size, bias=False)
        if config.tie_embeddings:
            self.out_proj.weight = self.decoder.embeddings.tokens.weight
            if config.target_vocab_size is None:
                self.encoder.embeddings.tokens.weight = self.out_proj.weight
        self._initialise()

    def forward(
        self, source: Tensor, lengths: Tensor, inputs: Tensor, *, need_weights: bool = False
    ) -> tuple[Tensor, TransformerWeights | None]:
        """Teacher forcing: all positions at once, none of which reads a later one.

        Args:
            source: (B, S), token ids.
            lengths: (B,), integers from 0 to S: how many of them are real.
            inputs: (B, L), START and the target's tokens but for the last.
            need_weights: whether to return the weights of every layer too.

        Returns:
            Logits (B, L, V), those at i predicting token i + 1, and the weights or None.

        Raises:
            TypeError: lengths that are not integers.
            ValueError: shapes that do not fit, lengths beyond S, or weights asked of the fused
                backend.
        """
        state = self.start(source, lengths, need_weights=need_weights)
        read = self.decoder(
            inputs, state.memory, memory_mask=state.memory_mask, need_weights=need_weights
        )
        return self.out_proj(read.output), _joined(state.weights, read)  # (B, L, V)

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        """What the decoder reads.

        Args:
            source: (B, S), token ids.
            lengths: (B,), integers from 0 to S.

        Returns:
            (B, S, E); what stands at padding is not to be read.

        Raises:
            TypeError: lengths that are not integers.
            ValueError: shapes that do not fit, or lengths beyond S.
        """
        return self.start(source, lengths).memory

    def start(
        self, source: Tensor, lengths: Tensor, *, need_weights: bool = False
    ) -> TransformerState:
        """Read the source.

        Args:
            source: (B, S), token ids.
            lengths: (B,), integers from 0 to S.
            need_weights: whether this state and those that follow keep the weights.

        Returns:
            The state before the first step.

        Raises:
            TypeError: lengths that are not integers.
            ValueError: shapes that do not fit, lengths beyond S, or weights asked of the fused
                backend.
        """
        check_source(source, lengths)
        mask = padding_mask(lengths, source.shape[-1], device=source.device)  # (B, 1, S)
        read = self.encoder(source, attn_mask=mask, need_weights=need_weights)
        caches = tuple((KVCache(), KVCache()) for _ in self.decoder.blocks)
        weights = TransformerWeights(read.weights, (), ()) if need_weights else None
        return TransformerState(read.output, mask, caches, weights)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """One token more: what `forward` says at this position, at the cost of one position.

        Args:
            tokens: (B,), the ids said last; START at first.
            state: before the step.

        Returns:
            Logits of the next token (B, V), and the state after the step.

        Raises:
            ValueError: another number of tokens than of rows, or a step beyond the last of learned
                positions.
        """
        check_step(tokens, len(state.memory))
        caches = tuple((own.fork(), cross.fork()) for own, cross in state.caches)
        read = self.decoder(
            tokens[:, None],  # (B, 1)
            state.memory,
            memory_mask=state.memory_mask,
            caches=caches,
            need_weights=state.weights is not None,
        )
        weights = _joined(state.weights, read)
        memory = state.memory[:, :0]  # from now on it is in the caches
        return self.out_proj(read.output[:, 0]), TransformerState(
            memory, state.memory_mask, caches, weights
        )

    def _initialise(self) -> None:
        """Draw the parameters: see above."""
        config, root = self.config, self.config.embed_dim**0.5
        tokens = 1 / root if config.scale_embeddings or config.tie_embeddings else 1.0
        positions = tokens * root if config.scale_embeddings else tokens  # as what they join
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():  # after the maps: one of them may be an embedding
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=tokens)
            elif isinstance(module, LearnedEncoding):
                nn.init.normal_(module.weight, std=positions)


def _joined(weights: TransformerWeights | None, read: DecoderOutput) -> TransformerWeights | None:
    """The weights of the steps so far and of those that were read now."""
    if weights is None or read.weights is None or read.cross_weights is None:
        return None
    if not weights.cross:
        return weights._replace(decoder=read.weights, cross=read.cross_weights)
    return weights._replace(
        decoder=join_weights(weights.decoder, read.weights),
        cross=join_weights(weights.cross, read.cross_weights),
    )
