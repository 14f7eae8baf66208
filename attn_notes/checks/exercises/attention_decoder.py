"""The exercises of chapter 4: decoders that read, losses that mask, and searches that end."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor

from attn_notes.attention import Attention
from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed
from attn_notes.data import END, PAD, START
from attn_notes.decoding import beam_search
from attn_notes.device import get_device
from attn_notes.masks import padding_mask
from attn_notes.scores import AdditiveScore
from attn_notes.training import masked_cross_entropy

__all__ = [
    "decoder_shapes",
    "fool_beam",
    "greedy_loop",
    "length_penalty",
    "masked_loss",
    "read_source",
]

_SHAPES = {
    "keys": ((5, 7, 12), "one for each source word, and both directions side by side"),
    "query": ((5, 1, 8), "the top layer's state, one query a step"),
    "weights": ((5, 1, 7), "a row for the one query, a column for each source word"),
    "context": ((5, 12), "an average of keys, so it is as wide as they are"),
    "gru_input": ((1, 5, 16), "one step, and embedding and context end to end: 4 + 12"),
    "logits": ((5, 9, 11), "a score for each word that could follow each of the inputs"),
}


@exercise
def decoder_shapes(answer: Mapping[str, tuple[int, ...] | None]) -> None:
    """Six shapes in a decoder, by name."""
    for name, (shape, why) in _SHAPES.items():
        guess = answer[name]
        if guess is None:
            raise CheckFailed(f"{name} has no guess: write a shape such as (5, 7)")
        if tuple(guess) != shape:
            raise CheckFailed(f"{name} is not of shape {tuple(guess)}: {why}")


@exercise
def read_source(answer: Callable[[Tensor, Tensor, Tensor, Any], tuple[Tensor, Tensor]]) -> None:
    """From hidden (layers, B, H), memory (B, S, C), mask and score: context and weights."""
    hidden, memory, mask, score = _reading()
    expected, weights = Attention(score)(hidden[-1][:, None], memory, memory, mask)
    got = answer(hidden, memory, mask, score)
    if not isinstance(got, tuple) or len(got) != 2:
        raise CheckFailed(f"read should return (context, weights), got {type(got).__name__}")
    if tuple(got[0].shape) == (3, 1, 6):
        raise CheckFailed("the context has shape (3, 1, 6): drop the axis of the one query")
    if got[1].shape == weights[:, 0].shape:
        _name_the_mistake(got[1], hidden, memory, mask, score)
    expect_tensor(got[1], weights[:, 0], "the weights")
    expect_tensor(got[0], expected[:, 0], "the context")


def _reading() -> tuple[Tensor, Tensor, Tensor, AdditiveScore]:
    """Two layers of 5, three sentences of up to 4 words, states 6 wide."""
    generator = torch.Generator().manual_seed(0)
    device = get_device()
    hidden = torch.randn(2, 3, 5, generator=generator).to(device)
    memory = torch.randn(3, 4, 6, generator=generator).to(device)
    score = AdditiveScore(5, 6, 7)
    for weight in score.parameters():
        weight.data = torch.randn(weight.shape, generator=generator).to(weight)
    mask = padding_mask(torch.tensor([4, 2, 3], device=device), 4)
    return hidden, memory, mask, score.to(device).requires_grad_(False)


def _name_the_mistake(
    got: Tensor, hidden: Tensor, memory: Tensor, mask: Tensor, score: AdditiveScore
) -> None:
    """Raise if these weights (B, S) are those of a known wrong way."""
    attention = Attention(score)
    if bool((got.masked_fill(mask[:, 0], 0.0) != 0).any()):
        raise CheckFailed("sentence 1 has two words, and its padding is read: where is the mask?")
    if torch.allclose(got, attention(hidden[0][:, None], memory, memory, mask)[1][:, 0]):
        raise CheckFailed("the query is the state of the bottom layer: it should be the top one's")


@exercise
def masked_loss(answer: Callable[[Tensor, Tensor], Tensor]) -> None:
    """The mean of -log p over the real tokens of a padded batch."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 4, 6, generator=generator).to(get_device())
    labels = torch.tensor([[4, 5, 4, END], [END, PAD, PAD, PAD]], device=get_device())
    got = answer(logits, labels)
    expected = masked_cross_entropy(logits, labels)
    each = -logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]  # (B, L)
    real = labels != PAD
    wrong = {
        "it is negative: the loss is minus the log-probability": -expected,
        "it is the mean over all 8 places: padding counts": each.mean(),
        "padding is left out of the sum but not of the number divided by": (each * real).mean(),
        "it is the sum over the real tokens, not their mean": (each * real).sum(),
        "it is a mean over sentences: END alone counts as much as four tokens": (
            (each * real).sum(-1) / real.sum(-1)
        ).mean(),
    }
    for why, value in wrong.items():
        if isinstance(got, Tensor) and got.shape == () and torch.allclose(got, value):
            raise CheckFailed(why)
    expect_tensor(got, expected, "the loss")


class _Countdown:
    """Says the source's first token, then each one below it down to 4, then END, then nonsense."""

    def __init__(self) -> None:
        self.heard: list[Tensor] = []

    def start(self, source: Tensor, _lengths: Tensor) -> Tensor:
        return source[:, 0]

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.heard.append(tokens)
        following = torch.where(tokens > 4, tokens - 1, END)
        following = torch.where(tokens == START, state, following)
        following = torch.where((tokens == END) | (tokens == PAD), 9, following)
        return 9.0 * torch.nn.functional.one_hot(following, 10), state


@exercise
def greedy_loop(answer: Callable[[Any, Tensor, Tensor, int], Tensor]) -> None:
    """From a model the most probable words, one at a time, until END."""
    source = torch.tensor([[6], [4], [5]], device=get_device())
    lengths = torch.ones(3, dtype=torch.long, device="cpu")
    model = _Countdown()
    got = answer(model, source, lengths, 8)
    if not model.heard or bool((model.heard[0] != START).any()):
        raise CheckFailed("the first word that the model hears should be START")
    if any(bool((heard == START).all()) for heard in model.heard[1:]):
        raise CheckFailed("after the first step the model should hear what it has said itself")
    expected = [[6, 5, 4, END], [4, END, PAD, PAD], [5, 4, END, PAD]]
    if isinstance(got, Tensor) and got.shape == (3, 2):
        raise CheckFailed("it stops when the first sentence has ended: the others had not")
    if isinstance(got, Tensor) and got.shape == (3, 8):
        raise CheckFailed("it goes on to the longest length although every sentence has ended")
    if isinstance(got, Tensor) and got.shape == (3, 4) and bool((got == 9).any()):
        raise CheckFailed("a sentence goes on after END: what follows should be PAD")
    expect_tensor(got, torch.tensor(expected, device=get_device()), "the tokens")
    shortened = answer(_Countdown(), source, lengths, 2)
    if shortened.shape[-1] != 2:
        raise CheckFailed(f"at most 2 words were asked for, got {shortened.shape[-1]}")


@exercise
def length_penalty(answer: Callable[[Tensor, Tensor, float], Tensor]) -> None:
    """The index of the best of K hypotheses, by their log-probabilities and lengths."""
    log_probs = torch.tensor([-2.0, -2.2, -3.0], device=get_device())
    lengths = torch.tensor([2, 4, 9], device=get_device())
    for alpha, best in ((0.0, 0), (0.5, 1), (1.0, 2)):
        got = int(answer(log_probs, lengths, alpha))
        if got == best:
            continue
        if alpha == 0.0:
            raise CheckFailed(f"with α = 0 the most probable wins, which is 0, got {got}")
        scores = (log_probs / ((5 + lengths) / 6) ** alpha).tolist()
        shown = ", ".join(f"{score:.2f}" for score in scores)
        why = "multiplied, the penalty favours the short" if got == 0 else "is it ((5 + T) / 6)^α?"
        raise CheckFailed(f"with α = {alpha} the scores are {shown}, so {best} wins: {why}")


@exercise
def fool_beam(answer: Tensor | None) -> None:
    """A table (4, 4) of probabilities in which a beam of two misses the best sentence."""
    if answer is None:
        raise CheckFailed("the table is still to be filled in: four rows, each summing to 1")
    table = torch.as_tensor(answer, dtype=torch.float32, device="cpu")
    if table.shape != (4, 4):
        raise CheckFailed(f"the table should have shape (4, 4), got {tuple(table.shape)}")
    if bool((table < 0).any()) or not torch.allclose(table.sum(-1), torch.ones(4, device="cpu")):
        sums = [round(total, 3) for total in table.sum(-1).tolist()]
        raise CheckFailed(f"the rows should be 0 or more and sum to 1, got sums {sums}")
    sentence, p = _most_probable(table)
    for width in (1, 2):
        if abs(_found(table, width) - p) < 1e-6:
            name = "greedy" if width == 1 else "a beam of two"
            raise CheckFailed(f"{name} finds the best sentence, {sentence!r} with p = {p:.3f}")


def _most_probable(table: Tensor) -> tuple[str, float]:
    """Of all sentences of up to three words, and END."""
    best = ("", float(table[0, 3]))
    for words in (w for n in (1, 2, 3) for w in product(range(3), repeat=n)):
        rows = [0, *(word + 1 for word in words)]
        p = float(torch.stack([table[r, c] for r, c in zip(rows, [*words, 3], strict=True)]).prod())
        best = max(best, (" ".join("abc"[word] for word in words), p), key=lambda item: item[1])
    return best


class _Table:
    """The words a, b, c are tokens 4, 5, 6; the last one said chooses the row."""

    def __init__(self, table: Tensor) -> None:
        self.logits = torch.full((7, 7), -1e9, device="cpu")
        for row, said in enumerate((START, 4, 5, 6)):
            self.logits[said, [4, 5, 6, END]] = table[row].clamp(min=1e-12).log()

    def start(self, *_: Tensor) -> "_Table":
        return self

    def step(self, tokens: Tensor, _: "_Table") -> tuple[Tensor, "_Table"]:
        return self.logits[tokens], self

    def select(self, _: Tensor) -> "_Table":
        return self


def _found(table: Tensor, width: int) -> float:
    """The probability of what a beam of this width finds, ranked by probability alone."""
    one = torch.ones(1, 1, dtype=torch.long, device="cpu")
    found = beam_search(
        _Table(table), one, one[0], max_length=4, beam_size=width, length_penalty=0.0
    )
    return float(found.log_probs.exp()) if int(found.tokens[0, -1]) in (END, PAD) else 0.0
