r"""Encoder-decoder with recurrent networks, without and with attention (chapter 4).

The two decoders differ in one method: where the context of the next step comes from.
`RNNDecoder` has one vector for the whole source, $s_i = g(y_{i-1}, c, s_{i-1})$;
`AttentionDecoder` reads the source anew at each step, $s_i = g(y_{i-1}, c_i, s_{i-1})$.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attn_notes.arguments import (
    check_fractions,
    check_integer_tensors,
    check_integers,
    check_shapes,
    check_source,
    check_step,
    look_up,
)
from attn_notes.attention import Attention
from attn_notes.masks import padding_mask
from attn_notes.special_tokens import PAD, START


class RNNEncoder(nn.Module):
    r"""A GRU over the source, $h_t = f(x_t, h_{t-1})$, in one direction or in both. Chapter 4.

    Cho et al. (2014); in both directions as in Bahdanau et al. (2015), section 3.2. The sequences
    are packed: padding is never read, and the backward direction begins at each sequence's last
    real token.

    Args:
        vocab_size: V, of the source.
        embed_dim: E, the width of its embeddings.
        hidden_dim: width of the state in each direction.
        num_layers: the number of stacked GRUs.
        bidirectional: whether a second GRU reads from the end.
        dropout: the fraction set to 0 between layers in training.

    Example:
        >>> encoder = RNNEncoder(10, 8, 16, bidirectional=True)
        >>> outputs, final = encoder(torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1]))
        >>> outputs.shape, final.shape
        (torch.Size([2, 3, 32]), torch.Size([1, 2, 32]))
    """

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        hidden_dim: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_integers(1, vocab_size=vocab_size, embed_dim=embed_dim)
        check_integers(1, hidden_dim=hidden_dim, num_layers=num_layers)
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=PAD)
        self.rnn = nn.GRU(
            embed_dim,
            hidden_dim,
            num_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=_between_layers(dropout, num_layers),
        )
        self.output_dim = hidden_dim * (2 if bidirectional else 1)

    def forward(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read the source.

        Args:
            source: (B, S), token ids; those beyond a length are not read.
            lengths: (B,), integers from 1 to S, best on the CPU, where torch packs by them; all of
                the source by default.

        Returns:
            Outputs (B, S, output_dim), 0 at padding, and the final states of every layer
            (num_layers, B, output_dim): forward at the last token, backward at the first.
        """
        lengths = check_source(source, lengths).cpu()
        _check_lengths(lengths, source.shape[1])
        packed = pack_padded_sequence(
            look_up(self.embedding, source, "source"),
            lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        outputs, final = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
        final = final.unflatten(0, (self.rnn.num_layers, -1))  # (layers, directions, B, hidden)
        return outputs, final.transpose(1, 2).flatten(2)  # (layers, B, output_dim)


@dataclass(frozen=True)
class DecoderState:
    """What a decoder keeps between two steps. For a fixed context S is 1."""

    hidden: Tensor  # (num_layers, B, hidden_dim), the state of each layer
    memory: Tensor  # (B, S, context_dim), what may be read
    mask: Tensor  # (B, 1, S), bool, which of it is real
    steps: tuple[Tensor, ...] = ()  # (B, S), the weights of each step so far

    @property
    def weights(self) -> Tensor:
        """The weights of the T steps so far, (B, T, S)."""
        if not self.steps:
            B, S, _ = self.memory.shape
            return self.memory.new_zeros(B, 0, S)
        return torch.stack(self.steps, dim=1)  # (B, T, S)

    def select(self, index: Tensor) -> "DecoderState":
        """A new state whose row n is this state's row `index[n]`; `index` has shape (B',)."""
        return DecoderState(
            self.hidden[:, index],
            self.memory[index],
            self.mask[index],
            tuple(weights[index] for weights in self.steps),
        )


class RNNDecoder(nn.Module):
    r"""A GRU that reads one vector of the source, the same at every step. Chapter 4.

    $s_i = g(y_{i-1}, c, s_{i-1})$ with $c = h_S$, the encoder's final state: Cho et al. (2014).
    A source of any length must pass through that one vector.

    Args:
        vocab_size: V, of the target.
        embed_dim: E, the width of its embeddings.
        hidden_dim: width of the decoder's state.
        context_dim: width of what is read: the encoder's `output_dim`.
        num_layers: the number of stacked GRUs; the encoder's number.
        dropout: the fraction set to 0 between layers in training.

    Example:
        >>> decoder = RNNDecoder(10, 8, 16, context_dim=32)
        >>> encoded = torch.zeros(1, 3, 32), torch.zeros(1, 1, 32), torch.tensor([3])
        >>> logits, state = decoder.step(torch.tensor([1]), decoder.initial_state(*encoded))
        >>> logits.shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        hidden_dim: int,
        context_dim: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_integers(1, vocab_size=vocab_size, embed_dim=embed_dim, hidden_dim=hidden_dim)
        check_integers(1, context_dim=context_dim, num_layers=num_layers)
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=PAD)
        self.bridge = nn.Linear(context_dim, hidden_dim)  # the two states may differ in width
        dropout = _between_layers(dropout, num_layers)
        self.rnn = nn.GRU(embed_dim + context_dim, hidden_dim, num_layers, dropout=dropout)
        self.out_proj = nn.Linear(hidden_dim, vocab_size)

    def initial_state(self, _outputs: Tensor, final: Tensor, lengths: Tensor) -> DecoderState:
        """The state before START, whose memory is the encoder's final state alone.

        Of the encoder come its outputs (B, S, context_dim) and final (num_layers, B, context_dim).
        """
        mask = padding_mask(torch.ones_like(lengths), 1, device=final.device)
        return DecoderState(self._first_hidden(final), final[-1][:, None], mask)

    def read(self, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Context (B, context_dim) of the next step, and the weights (B, S) it was read with."""
        return state.memory[:, 0], torch.ones_like(state.memory[..., 0])

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Append one token (B,): logits of the next (B, V), and the state after the step."""
        check_step(tokens, state.hidden.shape[1])
        output, state = self._advance(look_up(self.embedding, tokens, "tokens"), state)
        return self.out_proj(output), state

    def forward(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Teacher forcing: from inputs (B, L), the first START, logits (B, L, V) of the next."""
        check_integer_tensors(inputs=inputs)
        B = state.hidden.shape[1]
        if inputs.dim() != 2 or len(inputs) != B or not inputs.shape[1]:
            got = f"got {tuple(inputs.shape)}"
            raise ValueError(f"inputs must have shape ({B}, L), L of 1 or more, {got}")
        outputs = []
        for embedded in look_up(self.embedding, inputs, "inputs").unbind(1):  # L times (B, E)
            output, state = self._advance(embedded, state)
            outputs.append(output)
        return self.out_proj(torch.stack(outputs, dim=1)), state  # (B, L, V)

    def _advance(
        self,
        x: Tensor,
        state: DecoderState,
    ) -> tuple[Tensor, DecoderState]:
        """From (B, E) to the top layer's new state (B, hidden_dim)."""
        context, weights = self.read(state)
        x = torch.cat((x, context), dim=-1)[None]  # (1, B, E + context_dim)
        output, hidden = self.rnn(x, state.hidden)
        steps = (*state.steps, weights)
        return output[0], replace(state, hidden=hidden, steps=steps)

    def _first_hidden(self, final: Tensor) -> Tensor:
        layers, width = self.rnn.num_layers, self.bridge.in_features
        check_shapes(**{"the encoder's final states": (final, f"{layers} B {width}")})
        return torch.tanh(self.bridge(final))  # (num_layers, B, hidden_dim)


class AttentionDecoder(RNNDecoder):
    r"""A GRU that reads the source anew at each step. Chapter 4.

    $c_i = \sum_t \alpha(s_{i-1}, h_t)\,h_t$: the query is the top layer's previous state, keys and
    values are the encoder's outputs. Bahdanau et al. (2015), section 3.1, with their additive
    score or any other of chapter 2. (They compute the keys' part of the score once; here it is
    computed at each step.)

    Args:
        vocab_size: V, of the target.
        embed_dim: E, the width of its embeddings.
        hidden_dim: width of the decoder's state, which is the query.
        context_dim: width of what is read: the encoder's `output_dim`.
        num_layers: the number of stacked GRUs; the encoder's number.
        score: `score(query, key) -> (B, 1, S)` for queries `hidden_dim` wide and keys
            `context_dim` wide, such as those of `attn_notes.scores`.
        dropout: the fraction set to 0 between layers in training.

    Example:
        >>> from attn_notes.scores import AdditiveScore
        >>> decoder = AttentionDecoder(10, 8, 16, 32, score=AdditiveScore(16, 32, 8))
        >>> encoded = torch.zeros(1, 3, 32), torch.zeros(1, 1, 32), torch.tensor([2])
        >>> state = decoder.initial_state(*encoded)
        >>> decoder.step(torch.tensor([1]), state)[1].weights
        tensor([[[0.5000, 0.5000, 0.0000]]], grad_fn=<StackBackward0>)
    """

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        hidden_dim: int,
        context_dim: int,
        num_layers: int = 1,
        *,
        score: nn.Module,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            vocab_size, embed_dim, hidden_dim, context_dim, num_layers, dropout=dropout
        )
        self.attention = Attention(score)

    def initial_state(self, outputs: Tensor, final: Tensor, lengths: Tensor) -> DecoderState:
        """The state before START, whose memory is every output of the encoder."""
        mask = padding_mask(lengths, outputs.shape[1], device=outputs.device)
        return DecoderState(self._first_hidden(final), outputs, mask)

    def read(self, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Context (B, context_dim) of the next step, and the weights (B, S) it was read with."""
        query = state.hidden[-1][:, None]  # (B, 1, hidden_dim)
        memory = state.memory  # (B, S, context_dim), keys and values alike
        context, weights = self.attention(query, memory, memory, state.mask)
        return context[:, 0], weights[:, 0]


class Seq2Seq(nn.Module):
    """An encoder and a decoder, trained as one. Chapter 4.

    Args:
        encoder: `encoder(source, lengths) -> (outputs, final)`, such as `RNNEncoder`.
        decoder: `RNNDecoder` or `AttentionDecoder`.

    Example:
        >>> model = Seq2Seq(RNNEncoder(10, 8, 16), RNNDecoder(12, 8, 16, 16))
        >>> inputs = torch.tensor([[1, 4]])
        >>> logits, weights = model(torch.tensor([[4, 5, 6]]), torch.tensor([3]), inputs)
        >>> logits.shape
        torch.Size([1, 2, 12])
    """

    def __init__(self, encoder: nn.Module, decoder: RNNDecoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def initial_state(self, source: Tensor, lengths: Tensor | None = None) -> DecoderState:
        """Read the source: the state before START; the arguments are those of `start`."""
        lengths = check_source(source, lengths)
        outputs, final = self.encoder(source, lengths)
        return self.decoder.initial_state(outputs, final, lengths)

    def start(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, DecoderState]:
        """Read the source (B, S) and START: logits (B, V) of the first token, and the state.

        The lengths (B,) are from 1 to S, best on the CPU; by default S.
        """
        state = self.initial_state(source, lengths)
        return self.step(source.new_full(source.shape[:1], START), state)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Append one token (B,): logits of the next (B, V), and the state after the step."""
        return self.decoder.step(tokens, state)

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing: the given tokens are read, whatever the model would have predicted.

        Args:
            source: (B, S), token ids.
            lengths: (B,), how many of them are real.
            inputs: (B, L), START and the target's tokens but for the last.

        Returns:
            Logits (B, L, V), and the weights of every step (B, L, S). For a fixed context S is 1.
        """
        logits, state = self.decoder(inputs, self.initial_state(source, lengths))
        return logits, state.weights


def _between_layers(dropout: float, num_layers: int) -> float:
    """The dropout between layers: torch warns of dropout with one layer."""
    check_fractions(dropout=dropout)
    return dropout if num_layers > 1 else 0.0


def _check_lengths(lengths: Tensor, size: int) -> None:
    """Raise unless every source has a token, and no length exceeds the padded size."""
    check_integer_tensors(lengths=lengths)
    if not len(lengths):
        raise ValueError("source and lengths must have one row or more, got none")
    low, high = (int(bound) for bound in lengths.aminmax())
    if low < 1 or high > size:
        raise ValueError(f"lengths must be from 1 to {size}, got {low} to {high}")
