"""The Transformer of 2017: an encoder, and a decoder that reads its output (chapter 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_integer_tensors, check_source, check_step
from attn_notes.cache import GrowingCache, KVCache
from attn_notes.positions import LearnedEncoding
from attn_notes.special_tokens import START
from attn_notes.transformer.blocks import DecoderBlock, last_norm
from attn_notes.transformer.config import TransformerConfig
from attn_notes.transformer.embeddings import Embeddings, attention_positions
from attn_notes.transformer.encoder import Encoder, EncoderOutput, check_caches
from attn_notes.transformer.language_models import check_no_token_types

DecoderCaches = Sequence[tuple[KVCache, KVCache]]  # of the target so far, and of the memory


class DecoderOutput(NamedTuple):
    """Output (B, L, E), and the weights (B, H, L, L) and (B, H, L, S) of each block, or None."""

    output: Tensor
    weights: tuple[Tensor, ...] | None
    cross_weights: tuple[Tensor, ...] | None


class Decoder(nn.Module):
    """Embeddings and decoder blocks: each output has read the memory and the tokens before it.

    Vaswani et al. (2017), section 3.1; chapter 7. The config has the target's `vocab_size`.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_no_token_types(config)
        if config.windows is not None:
            raise ValueError(f"windows must be None in an encoder-decoder, got {config.windows}")
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.num_layers))
        self.norm = last_norm(config)

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor,
        *,
        memory_mask: Tensor | None = None,
        caches: DecoderCaches | None = None,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Read tokens (B, L), all at once or those that follow the cached ones.

        The memory (B, S, E) is the encoder's output, S = 0 once the caches hold it; `memory_mask`
        (B, 1, S) is for all of it. The caches are a pair per block. The weights are over old and
        new keys.
        """
        check_caches(caches, len(self.blocks))
        offset = caches[0][0].length if caches else 0
        x = self.embeddings(tokens, offset=offset)  # (B, L, E)
        positions = attention_positions(self.config, x, offset=offset)
        weights, cross_weights = [], []
        for n, block in enumerate(self.blocks):
            x, read, cross_read = block(
                x,
                memory,
                memory_mask=memory_mask,
                need_weights=need_weights,
                cache=caches[n] if caches else (None, None),
                **positions,
            )
            weights.append(read)
            cross_weights.append(cross_read)
        if not need_weights:
            return DecoderOutput(self.norm(x), None, None)
        return DecoderOutput(self.norm(x), tuple(weights), tuple(cross_weights))


class TransformerWeights(NamedTuple):
    """The attention weights of every layer and head, one tensor per layer."""

    encoder: tuple[Tensor, ...]  # source tokens reading one another, (B, H, S, S)
    decoder: tuple[Tensor, ...]  # target tokens reading those up to themselves, (B, H, L, L)
    cross: tuple[Tensor, ...]  # target tokens reading the source, (B, H, L, S)


@dataclass(frozen=True)
class TransformerState:
    """What a `Transformer` keeps between two steps. A step leaves the old state unchanged."""

    memory: Tensor  # (B, S, E), the encoder's output; S = 0 once the caches hold it
    memory_mask: Tensor  # (B, 1, S), bool, which of it is real
    caches: DecoderCaches  # keys and values of each block

    def select(self, index: Tensor) -> "TransformerState":
        """A new state whose row n is this state's row `index[n]`; `index` has shape (B',)."""
        return TransformerState(
            self.memory[index],
            self.memory_mask[index],
            tuple((own.select(index), cross.select(index)) for own, cross in self.caches),
        )


class Transformer(nn.Module):
    r"""An encoder reads the source; a decoder reads it and predicts the target token by token.

    Vaswani et al. (2017); chapter 7. Matrices are initialised as in Glorot and Bengio (2010),
    biases as 0, and embeddings from N(0, 1), or, where they are scaled or tied, from N(0, 1/E):
    multiplied by $\sqrt E$ they are then as large as positions, and as an output projection they
    are no larger than another matrix. The config is of both sides, but for `target_vocab_size` and
    `num_decoder_layers`.

    Example:
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
        num_layers = config.num_decoder_layers or config.num_layers
        self.encoder = Encoder(config)
        self.decoder = Decoder(replace(config, vocab_size=vocab_size, num_layers=num_layers))
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

        From ids of sources (B, S), of which `lengths` (B,) are real, from 0 to S (their values are
        not read, so that nothing waits for a GPU), and inputs (B, L), START and the target's tokens
        but for the last, logits (B, L, V), those at i predicting token i + 1; and the weights of
        every layer or None.
        """
        read, mask = self._read_source(source, lengths, need_weights=need_weights)
        output, weights, cross_weights = self.decoder(
            inputs, read.output, memory_mask=mask, need_weights=need_weights
        )
        logits = self.out_proj(output)  # (B, L, V)
        if read.weights is None or weights is None or cross_weights is None:
            return logits, None
        return logits, TransformerWeights(read.weights, weights, cross_weights)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, S, E), the memory that the decoder reads, of a source (B, S)."""
        return self.initial_state(source, lengths).memory

    def initial_state(self, source: Tensor, lengths: Tensor | None = None) -> TransformerState:
        """Read the source: the state before START; the arguments are those of `start`."""
        read, mask = self._read_source(source, lengths)
        caches = tuple((GrowingCache(), GrowingCache()) for _ in self.decoder.blocks)
        return TransformerState(read.output, mask, caches)

    def start(
        self, source: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, TransformerState]:
        """Read the source (B, S) and START: logits (B, V) of the first token, and the state.

        The lengths (B,) are from 0 to S, by default S.
        """
        state = self.initial_state(source, lengths)
        return self.step(source.new_full(source.shape[:1], START), state)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Append one token (B,): logits of the next (B, V), for the cost of one position."""
        check_step(tokens, len(state.memory))
        caches = tuple((own.fork(), cross.fork()) for own, cross in state.caches)
        memory, mask = state.memory, state.memory_mask
        read = self.decoder(tokens[:, None], memory, memory_mask=mask, caches=caches)
        state = TransformerState(memory[:, :0], mask, caches)  # whose caches hold the memory now
        return self.out_proj(read.output[:, 0]), state

    def _read_source(
        self, source: Tensor, lengths: Tensor | None, *, need_weights: bool = False
    ) -> tuple[EncoderOutput, Tensor]:
        """The encoder's output, and which of the source is real, (B, 1, S)."""
        lengths = check_source(source, lengths)
        check_integer_tensors(lengths=lengths)
        # padding_mask without its check of the values, which would make a GPU wait
        positions = torch.arange(source.shape[1], device=source.device)
        mask = positions < lengths.to(source.device)[:, None, None]  # (B, 1, S)
        return self.encoder(source, attn_mask=mask, need_weights=need_weights), mask

    def _initialise(self) -> None:
        """Draw the parameters: see the class."""
        config, root = self.config, self.config.embed_dim**0.5
        tokens = 1 / root if config.scale_embeddings or config.tie_embeddings else 1.0
        positions = tokens * root if config.scale_embeddings else tokens  # as large as the tokens
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():  # last, since a projection may share an embedding's weight
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=tokens)
            elif isinstance(module, LearnedEncoding):
                nn.init.normal_(module.weight, std=positions)
