r"""Decoding: from a model that gives the next token's probabilities to a whole sequence.

One set of functions for every model of the book, through one protocol: `model.start` reads the
source, `model.step` says one token more, and the state between them can be reordered, so that a
beam can follow several hypotheses (chapter 4; chapters 7 and 8 use it unchanged).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from attn_notes.data import END, PAD, START, Vocabulary, make_batch

__all__ = ["Decodable", "Decoded", "State", "beam_search", "greedy", "translate"]


class State(Protocol):
    """What a model remembers between two steps, a row for each sequence."""

    def select(self, index: Tensor) -> "State":
        """The state whose row n is this one's row `index[n]`.

        Args:
            index: (B',), rows of this state, any of them more than once.

        Returns:
            A new state; this one is not changed.
        """


class Decodable(Protocol):
    """What a model must be able to do to be decoded."""

    def start(self, source: Tensor, lengths: Tensor) -> Any:
        """Read the source.

        Args:
            source: (B, S), token ids.
            lengths: (B,), how many of them are real.

        Returns:
            The state before the first step.
        """

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Say one token more.

        Args:
            tokens: (B,), the ids said last; START at first.
            state: from `start`, or from the step before.

        Returns:
            Logits of the next token (B, V), and the state after it.
        """


class Decoded(NamedTuple):
    """What a search found, and how the model came to it."""

    tokens: Tensor
    """Ids up to END, then PAD, (B, T); no END where the longest length was reached."""
    log_probs: Tensor
    """The sum over the tokens of log p(token | those before it, source), (B,)."""
    state: Any
    """The state after the last step; of a recurrent model, `state.weights` is (B, T, S)."""


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
        ValueError: a `max_length` below 1.

    Example:
        >>> class Counts:  # a model that counts up to END, whatever the source
        ...     def start(self, source, lengths):
        ...         return None
        ...     def step(self, tokens, state):
        ...         after = {START: 5, 5: 4, 4: END, END: END, PAD: END}
        ...         following = torch.tensor([after[int(token)] for token in tokens])
        ...         return 9.0 * nn.functional.one_hot(following, 6), state
        >>> greedy(Counts(), torch.tensor([[4]]), torch.tensor([1]), max_length=9).tokens
        tensor([[5, 4, 2]])
    """
    _check_at_least_one("max_length", max_length)
    tokens = source.new_full((source.shape[0],), START)
    log_probs = torch.zeros(len(tokens), device=source.device)
    done = torch.zeros_like(tokens, dtype=torch.bool)
    said = source[:, :0]  # (B, 0)
    with _evaluating(model):
        state = model.start(source, lengths)
        while said.shape[1] < max_length and not bool(done.all()):
            logits, state = model.step(tokens, state)
            best, tokens = _next_log_probs(logits).max(-1)
            tokens = tokens.masked_fill(done, PAD)
            log_probs = log_probs + best.masked_fill(done, 0.0)
            done = done | (tokens == END)
            said = torch.cat((said, tokens[:, None]), dim=1)  # (B, T + 1)
    return Decoded(said, log_probs, state)


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
        length_penalty: α, 0 or more; 0 ranks by the probability alone.

    Returns:
        The best sequences, T <= `max_length`; `log_probs` are without the penalty.

    Raises:
        ValueError: a `max_length` or `beam_size` below 1, or a negative penalty.

    Example:
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
    _check_at_least_one("max_length", max_length)
    _check_at_least_one("beam_size", beam_size)
    if length_penalty < 0:
        raise ValueError(f"length_penalty must be 0 or more, got {length_penalty}")
    if beam_size == 1:  # not left to the search below, whose sums could tie where the steps do not
        return greedy(model, source, lengths, max_length=max_length)
    beam = _Beam(source, beam_size, length_penalty)
    with _evaluating(model):
        state = model.start(source, lengths).select(beam.rows(beam.parents))
        while beam.length < max_length and not bool(beam.done.all()):
            logits, state = model.step(beam.tokens, state)
            state = state.select(beam.advance(_next_log_probs(logits)))
    best = beam.score.argmax(1, keepdim=True)  # (B, 1)
    tokens, log_probs = beam.said.gather(1, best[..., None].expand(-1, -1, beam.length)), beam.total
    return Decoded(tokens[:, 0], log_probs.gather(1, best)[:, 0], state.select(beam.rows(best)))


def translate(
    model: nn.Module,
    sources: Sequence[Sequence[str]],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    max_length: int,
    beam_size: int = 1,
    length_penalty: float = 1.0,
    batch_size: int = 256,
) -> list[tuple[str, ...]]:
    """Decode many sentences: batched by length, given back in the order they came in.

    Args:
        model: see `Decodable`; a module, whose device is used.
        sources: the sentences, each a sequence of tokens; none empty.
        source_vocab: of the sentences.
        target_vocab: of what comes out.
        max_length: the most tokens a translation may get, END included; 1 or more.
        beam_size: 1 is greedy.
        length_penalty: as in `beam_search`.
        batch_size: how many are decoded at once.

    Returns:
        One tuple of tokens a sentence.

    Raises:
        ValueError: an empty sentence, or a number that is too small.

    Example:
        >>> translate(nn.Linear(1, 1), [], Vocabulary([]), Vocabulary([]), max_length=5)
        []
    """
    _check_at_least_one("batch_size", batch_size)
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda n: len(sources[n]))
    found: dict[int, tuple[str, ...]] = {}
    for first in range(0, len(order), batch_size):
        chunk = order[first : first + batch_size]
        pairs = [(tuple(sources[n]), ()) for n in chunk]
        source, lengths, _ = make_batch(pairs, source_vocab, target_vocab).to(device)
        decoded = beam_search(
            model,  # type: ignore[arg-type]
            source,
            lengths,
            max_length=max_length,
            beam_size=beam_size,
            length_penalty=length_penalty,
        )
        for n, ids in zip(chunk, decoded.tokens.tolist(), strict=True):
            found[n] = tuple(target_vocab.decode(ids))
    return [found[n] for n in range(len(sources))]


class _Beam:
    """K hypotheses for each of B sequences; the rows of the model's state are (B * K)."""

    def __init__(self, source: Tensor, size: int, penalty: float) -> None:
        B, self.size, self.penalty = source.shape[0], size, penalty
        self.first = torch.arange(B, device=source.device)[:, None]  # (B, 1): each one's number
        self.parents = torch.zeros(B, size, dtype=torch.long, device=source.device)
        self.said = source.new_zeros(B, size, 0)
        self.tokens = source.new_full((B * size,), START)
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
        stay[PAD] = 0.0  # what has ended goes on with padding, at no cost
        log_probs = torch.where(self.done[..., None], stay, log_probs)
        lengths = self.lengths + ~self.done
        totals = self.total[..., None] + log_probs  # (B, K, V)
        scores = totals / (((5 + lengths) / 6) ** self.penalty)[..., None]
        self.score, kept = scores.flatten(1).topk(self.size)  # (B, K), of K * V
        parents, tokens = kept // V, kept % V
        self.total = totals.flatten(1).gather(1, kept)
        self.lengths = lengths.gather(1, parents)
        self.done = self.done.gather(1, parents) | (tokens == END)
        said = self.said.gather(1, parents[..., None].expand_as(self.said))
        self.said = torch.cat((said, tokens[..., None]), dim=-1)  # (B, K, T + 1)
        self.tokens = tokens.flatten()
        return self.rows(parents)


def _next_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities of what may come next: never START, and never padding."""
    barred = torch.zeros_like(logits[0], dtype=torch.bool)
    barred[[PAD, START]] = True
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.to(wide).masked_fill(barred, -math.inf).log_softmax(-1)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """No gradients and no dropout inside; the model's mode is as before afterwards."""
    training = getattr(model, "training", False)
    try:
        if training:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        if training:
            model.train()


def _check_at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
