"""The most probable sequence: greedily, or along several hypotheses at once (chapter 4)."""

import math

import torch
from torch import Tensor

from attn_notes.arguments import check_finite, check_integers
from attn_notes.data import SpecialTokens
from attn_notes.decoding.protocol import Decodable, Decoded
from attn_notes.decoding.steps import (
    evaluating,
    first_tokens,
    next_log_probs,
    say,
    special_tokens,
)

__all__ = ["beam_search", "greedy"]


def greedy(model: Decodable, source: Tensor, lengths: Tensor, *, max_length: int) -> Decoded:
    """At each step the most probable token, until END. Chapter 4.

    Args:
        model: see `Decodable`; in evaluation mode while this runs.
        source: (B, S), token ids.
        lengths: (B,), how many of them are real.
        max_length: the most tokens a sequence may get, END included; 1 or more.

    Returns:
        The sequences, T <= `max_length`.

    Raises:
        TypeError: a `max_length` that is not an integer.
        ValueError: a `max_length` below 1, or logits that are not numbers.

    Example:
        >>> from attn_notes.data import END, PAD, START
        >>> class Counts:  # a model that counts up to END, whatever the source
        ...     def start(self, source, lengths):
        ...         return None
        ...     def step(self, tokens, state):
        ...         after = {START: 5, 5: 4, 4: END, END: END, PAD: END}
        ...         following = torch.tensor([after[int(token)] for token in tokens])
        ...         return 9.0 * torch.nn.functional.one_hot(following, 6), state
        >>> greedy(Counts(), torch.tensor([[4]]), torch.tensor([1]), max_length=9).tokens
        tensor([[5, 4, 2]])
    """
    return say(
        model,
        source,
        lengths,
        max_length=max_length,
        choose=lambda log_probs: log_probs.argmax(-1),
    )


def beam_search(
    model: Decodable,
    source: Tensor,
    lengths: Tensor,
    *,
    max_length: int,
    beam_size: int = 4,
    length_penalty: float = 1.0,
) -> Decoded:
    r"""Keep the `beam_size` best hypotheses at each step, and give the best in the end. Chapter 4.

    Hypotheses are ranked by $\log p\,/\,((5+T)/6)^\alpha$, T their length and α the
    `length_penalty` (Wu et al., 2016, equation 14): a sum of logarithms alone prefers the short.
    A hypothesis that has said END stays in the beam as it is, and must be outranked to leave it.
    A beam of one is `greedy`.

    Args:
        model: see `Decodable`; in evaluation mode while this runs.
        source: (B, S), token ids.
        lengths: (B,), how many of them are real.
        max_length: the most tokens a sequence may get, END included; 1 or more.
        beam_size: K, how many hypotheses are followed; 1 or more.
        length_penalty: α, 0 or more, and finite; 0 ranks by the probability alone.

    Returns:
        The best sequences, T <= `max_length`; `log_probs` are without the penalty.

    Raises:
        TypeError: a `max_length` or `beam_size` that is not an integer, or a penalty that is not a
            number.
        ValueError: a `max_length` or `beam_size` below 1, a penalty that is negative or not
            finite, or logits that are not numbers.

    Example:
        >>> from attn_notes.data import END, START
        >>> class Tempting:  # 4 looks better at first, 5 is better to the end
        ...     def start(self, source, lengths):
        ...         return self
        ...     def select(self, index):
        ...         return self
        ...     def step(self, tokens, state):
        ...         p = torch.full((6, 6), 1e-9)
        ...         p[START, 4], p[START, 5], p[4, END], p[4, 4], p[4, 5] = 0.6, 0.4, 0.4, 0.3, 0.3
        ...         p[5, END] = 1.0
        ...         return p.log()[tokens], state
        >>> one = torch.tensor([[4]]), torch.tensor([1])
        >>> greedy(Tempting(), *one, max_length=3).tokens[0].tolist()
        [4, 2]
        >>> beam_search(Tempting(), *one, max_length=3, beam_size=2).tokens[0].tolist()
        [5, 2]
    """
    check_integers(1, max_length=max_length, beam_size=beam_size)
    check_finite(length_penalty=length_penalty)
    if length_penalty < 0:
        raise ValueError(f"length_penalty must be a finite number, 0 or more, got {length_penalty}")
    if beam_size == 1:  # not left to the search below, whose sums could tie where the steps do not
        return greedy(model, source, lengths, max_length=max_length)
    special = special_tokens(model)
    beam = _Beam(source, special, beam_size, length_penalty)
    with evaluating(model):
        state = model.start(source, lengths).select(beam.rows(beam.parents))
        while beam.length < max_length and not bool(beam.done.all()):
            logits, state = model.step(beam.tokens, state)
            state = state.select(beam.advance(next_log_probs(logits, special)))
    best = beam.score.argmax(1, keepdim=True)  # (B, 1)
    tokens, log_probs = beam.said.gather(1, best[..., None].expand(-1, -1, beam.length)), beam.total
    return Decoded(tokens[:, 0], log_probs.gather(1, best)[:, 0], state.select(beam.rows(best)))


class _Beam:
    """K hypotheses for each of B sequences; the rows of the model's state are (B * K)."""

    def __init__(self, source: Tensor, special: SpecialTokens, size: int, penalty: float) -> None:
        B, self.special, self.size, self.penalty = source.shape[0], special, size, penalty
        self.first = torch.arange(B, device=source.device)[:, None]  # (B, 1): each one's number
        self.parents = torch.zeros(B, size, dtype=torch.long, device=source.device)
        self.said = source.new_zeros(B, size, 0)
        self.tokens = first_tokens(special, source).repeat_interleave(size)  # (B * K,)
        self.done = torch.zeros_like(self.parents, dtype=torch.bool)
        self.lengths = torch.zeros_like(self.parents)
        # K equal hypotheses would stay equal: all but the first begin as impossible.
        self.total = torch.full(self.parents.shape, -math.inf, device=source.device)
        self.total[:, 0] = 0.0
        self.score = self.total

    @property
    def length(self) -> int:
        return self.said.shape[-1]

    def rows(self, parents: Tensor) -> Tensor:
        """(B * n,): hypotheses (B, n) as rows of a state that has as many rows a sequence."""
        width = 1 if self.length == 0 else self.size
        return (self.first * width + parents).flatten()

    def advance(self, log_probs: Tensor) -> Tensor:
        """Extend all hypotheses by all tokens (B * K, V), keep K; the rows that they came from."""
        V = log_probs.shape[-1]
        log_probs = log_probs.view(*self.done.shape, V)  # (B, K, V)
        stay = torch.full_like(log_probs[0, 0], -math.inf)
        stay[self.special.pad] = 0.0  # what has ended goes on with padding, at no cost
        log_probs = torch.where(self.done[..., None], stay, log_probs)
        lengths = self.lengths + ~self.done
        totals = self.total[..., None] + log_probs  # (B, K, V)
        scores = totals / (((5 + lengths) / 6) ** self.penalty)[..., None]
        self.score, kept = scores.flatten(1).topk(self.size)  # (B, K), of K * V
        parents, tokens = kept // V, kept % V
        self.total = totals.flatten(1).gather(1, kept)
        self.lengths = lengths.gather(1, parents)
        self.done = self.done.gather(1, parents)
        if self.special.end is not None:
            self.done = self.done | (tokens == self.special.end)
        said = self.said.gather(1, parents[..., None].expand_as(self.said))
        self.said = torch.cat((said, tokens[..., None]), dim=-1)  # (B, K, T + 1)
        self.tokens = tokens.flatten()
        return self.rows(parents)
