r"""Encoder-decoder with recurrent networks, without and with attention (chapter 4).

The two decoders differ in one method: where the context of the next step comes from.
`RNNDecoder` has one vector for the whole source, $s_i = g(y_{i-1}, c, s_{i-1})$;
`AttentionDecoder` reads the source anew at each step, $s_i = g(y_{i-1}, c_i, s_{i-1})$.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attn_notes.arguments import check_shapes, check_source, check_step, look_up
from attn_notes.attention import Attention
from attn_notes.masks import padding_mask
from attn_notes.special_tokens import PAD, START


class RNNEncoder(nn.Module):
    """A GRU over the source, $h_t = f(x_t, h_{t-1})$, in one direction or in both. Chapter 4.

    Cho et al. (2014); in both directions as in Bahdanau et al. (2015), section 3.2, each of them
    `hidden_dim` wide. The sequences are packed by their lengths, best on the CPU: padding is never
    read, and the backward direction begins at each sequence's last real token.

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
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=PAD)
        self.rnn = nn.GRU(
            embed_dim,
            hidden_dim,
            num_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout,
        )
        self.output_dim = hidden_dim * (2 if bidirectional else 1)

    def forward(self, source: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read the source (B, S), of which `lengths` (B,) tokens are real, by default S.

        Gives the outputs (B, S, output_dim), 0 at padding, and the final states of every layer
        (num_layers, B, output_dim): forward at the last token, backward at the first.
        """
        lengths, S = check_source(source, lengths).cpu(), source.shape[1]
        if bool((lengths > S).any()):  # torch names neither
            raise ValueError(f"lengths must be from 1 to {S}, got {lengths.tolist()}")
        x = look_up(self.embedding, source, "source")  # (B, S, E)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, final = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=S)
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
        """The weights of the T steps so far, (B, T, S); T is 1 or more."""
        return torch.stack(self.steps, dim=1)

    def select(self, index: Tensor) -> "DecoderState":
        """A new state whose row n is this state's row `index[n]`; `index` has shape (B',)."""
        return DecoderState(
            self.hidden[:, index],
            self.memory[index],
            self.mask[index],
            tuple(weights[index] for weights in self.steps),
        )


class RNNDecoder(nn.Module):
    """A GRU that reads one vector of the source, the same at every step. Chapter 4.

    $s_i = g(y_{i-1}, c, s_{i-1})$ with $c = h_S$, the encoder's final state: Cho et al. (2014). A
    source of any length must pass through that one vector. `context_dim` is the encoder's
    `output_dim`, and `num_layers` its number.
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
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=PAD)
        self.bridge = nn.Linear(context_dim, hidden_dim)  # the two states may differ in width
        self.rnn = nn.GRU(embed_dim + context_dim, hidden_dim, num_layers, dropout=dropout)
        self.out_proj = nn.Linear(hidden_dim, vocab_size)

    def initial_state(self, _outputs: Tensor, final: Tensor, lengths: Tensor) -> DecoderState:
        """The state before START, whose memory is the encoder's final state alone.

        Of the encoder come its outputs (B, S, context_dim) and final (num_layers, B, context_dim).
        """
        mask = padding_mask(torch.ones_like(lengths), 1, device=final.device)
        return DecoderState(self.first_hidden(final), final[-1][:, None], mask)

    def first_hidden(self, final: Tensor) -> Tensor:
        """The first state of each layer, (num_layers, B, hidden_dim), from the encoder's last."""
        layers, width = self.rnn.num_layers, self.bridge.in_features
        check_shapes(**{"the encoder's final states": (final, f"{layers} B {width}")})
        return torch.tanh(self.bridge(final))

    def read(self, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Context (B, context_dim) of the next step, and the weights (B, S) it was read with."""
        return state.memory[:, 0], torch.ones_like(state.memory[..., 0])

    def advance(self, x: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """From an embedded token (B, E) to the top layer's new state (B, hidden_dim)."""
        context, weights = self.read(state)
        x = torch.cat((x, context), dim=-1)[None]  # (1, B, E + context_dim)
        output, hidden = self.rnn(x, state.hidden)
        return output[0], replace(state, hidden=hidden, steps=(*state.steps, weights))

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Append one token (B,): logits of the next (B, V), and the state after the step."""
        check_step(tokens, state.hidden.shape[1])
        output, state = self.advance(look_up(self.embedding, tokens, "tokens"), state)
        return self.out_proj(output), state

    def forward(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Teacher forcing: from inputs (B, L), the first START, logits (B, L, V) of the next."""
        check_shapes(inputs=(inputs, f"{state.hidden.shape[1]} L"))
        outputs = []
        for embedded in look_up(self.embedding, inputs, "inputs").unbind(1):  # L times (B, E)
            output, state = self.advance(embedded, state)
            outputs.append(output)
        return self.out_proj(torch.stack(outputs, dim=1)), state  # (B, L, V)


class AttentionDecoder(RNNDecoder):
    r"""A GRU that reads the source anew at each step. Chapter 4.

    $c_i = \sum_t \alpha(s_{i-1}, h_t)\,h_t$: the query is the top layer's previous state, keys and
    values are the encoder's outputs. Bahdanau et al. (2015), section 3.1, with their additive
    score or any other of chapter 2. (They compute the keys' part of the score once; here it is
    computed at each step.)

    Beside the arguments of `RNNDecoder`, `score(query, key) -> (B, 1, S)` is one of
    `attn_notes.scores`, for queries `hidden_dim` wide and keys `context_dim` wide.

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
        return DecoderState(self.first_hidden(final), outputs, mask)

    def read(self, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Context (B, context_dim) of the next step, and the weights (B, S) it was read with."""
        query = state.hidden[-1][:, None]  # (B, 1, hidden_dim)
        memory = state.memory  # (B, S, context_dim), keys and values alike
        context, weights = self.attention(query, memory, memory, state.mask)
        return context[:, 0], weights[:, 0]


class Seq2Seq(nn.Module):
    """An encoder, such as `RNNEncoder`, and a decoder, trained as one. Chapter 4.

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
        """Read the source (B, S) and START: logits (B, V) of the first token, and the state."""
        state = self.initial_state(source, lengths)
        return self.step(source.new_full(source.shape[:1], START), state)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Append one token (B,): logits of the next (B, V), and the state after the step."""
        return self.decoder.step(tokens, state)

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing: logits (B, L, V), and the weights of every step (B, L, S).

        The inputs (B, L), START and the target's tokens but for the last, are read whatever the
        model would have predicted. For a fixed context S is 1.
        """
        logits, state = self.decoder(inputs, self.initial_state(source, lengths))
        return logits, state.weights
