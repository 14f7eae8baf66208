"""Beam search: several hypotheses at once (chapter 4)."""

import math

import torch
from torch import Tensor

from attn_notes.arguments import check_integers
from attn_notes.decoding.generate import greedy, next_log_probs, special_tokens
from attn_notes.decoding.protocol import Decodable, Decoded
from attn_notes.modes import evaluating
from attn_notes.special_tokens import SpecialTokens


def beam_search(
    model: Decodable,
    source: Tensor,
    lengths: Tensor | None = None,
    *,
    max_length: int,
    beam_size: int = 4,
    length_penalty: float = 1.0,
) -> Decoded:
    r"""Keep the `beam_size` best hypotheses at each step, and return the best. Chapter 4.

    Hypotheses are ranked by $\log p\,/\,((5+T)/6)^\alpha$, T their length and α the
    `length_penalty` (Wu et al., 2016, equation 14): a sum of logarithms alone prefers short
    sequences. A hypothesis that has reached END stays in the beam until others outrank it. A beam
    of one is `greedy`.

    `beam_size` is 1 or more; the `length_penalty` is finite, and 0 ranks by the probability alone.
    The other arguments are those of `generate`. `log_probs` are without the penalty.
    """
    check_integers(1, max_length=max_length, beam_size=beam_size)
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"length_penalty must be 0 or more, and finite, got {length_penalty}")
    if beam_size == 1:  # not left to the search below, whose sums could tie where the steps do not
        return greedy(model, source, lengths, max_length=max_length)
    special = special_tokens(model)
    with evaluating(model):
        logits, state = model.start(source, lengths)
        beam = _Beam(logits, special, beam_size, length_penalty)
        copies = torch.arange(len(logits), device=logits.device).repeat_interleave(beam_size)
        logits, state = logits[copies], state.select(copies)  # (B * K, V)
        while True:
            state = state.select(beam.advance(next_log_probs(logits, special)))
            if beam.tokens.shape[-1] == max_length or bool(beam.done.all()):
                break
            logits, state = model.step(beam.tokens[..., -1].flatten(), state)
        state = state.select(best := beam.rows(beam.score.argmax(1, keepdim=True)))  # (B,)
    return Decoded(beam.tokens.flatten(0, 1)[best], beam.total.flatten()[best], state)


class _Beam:
    """K hypotheses for each of B sequences; the rows of the model's state are (B * K)."""

    def __init__(self, logits: Tensor, special: SpecialTokens, size: int, penalty: float) -> None:
        B, self.special, self.size = len(logits), special, size
        self.penalty = min(penalty, 1e30)  # beyond it every shorter hypothesis has lost already
        self.tokens = torch.zeros(B, size, 0, dtype=torch.long, device=logits.device)
        self.lengths = torch.zeros(B, size, dtype=torch.long, device=logits.device)
        self.done = torch.zeros_like(self.lengths, dtype=torch.bool)
        # K equal hypotheses would stay equal: all but the first begin as impossible.
        self.total = torch.full((B, size), -math.inf, device=logits.device)
        self.total[:, 0] = 0.0
        self.score = self.total

    def rows(self, parents: Tensor) -> Tensor:
        """(B * n,): hypotheses (B, n) as rows of the state."""
        first = self.size * torch.arange(len(parents), device=parents.device)
        return (first[:, None] + parents).flatten()

    def advance(self, log_probs: Tensor) -> Tensor:
        """Extend all by all tokens (B * K, V) and keep the best K; return their parents' rows."""
        V = log_probs.shape[-1]
        log_probs = log_probs.view(*self.done.shape, V)  # (B, K, V)
        padding = log_probs.new_full((V,), -math.inf)
        padding[self.special.pad] = 0.0  # a finished hypothesis is padded at no cost
        log_probs = torch.where(self.done[..., None], padding, log_probs)
        lengths = self.lengths + ~self.done
        totals = self.total[..., None] + log_probs  # (B, K, V)
        # Their order is that of log(-score), as no power overflows there. Relative to the longest,
        # so that a large penalty leaves the precision of equally long hypotheses.
        ratio = (5.0 + lengths) / (5 + lengths.amax(1, keepdim=True))  # (B, K)
        scores = self.penalty * ratio.log()[..., None] - (-totals).log()  # (B, K, V)
        self.score, kept = scores.flatten(1).topk(self.size)  # (B, K), of K * V
        parents, tokens = kept // V, kept % V
        self.total = totals.flatten(1).gather(1, kept)
        self.lengths = lengths.gather(1, parents)
        self.done = self.done.gather(1, parents)
        for end in self.special.ends:
            self.done = self.done | (tokens == end)
        earlier = self.tokens.gather(1, parents[..., None].expand_as(self.tokens))
        self.tokens = torch.cat((earlier, tokens[..., None]), dim=-1)  # (B, K, T + 1)
        return self.rows(parents)
