"""The exercises of chapter 4: decoders that read, losses that mask, and searches that end."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.checks.exercises.base import CheckFailed, compare, draw, exercise, prediction
from attn_notes.data import END, PAD, START
from attn_notes.decoding import beam_search
from attn_notes.device import get_device
from attn_notes.masks import masked_softmax, padding_mask

__all__ = [
    "decoder_shapes",
    "fool_beam",
    "greedy_loop",
    "length_penalty",
    "masked_loss",
    "read_source",
]

SHAPES = {
    "keys": ((5, 7, 12), "one for each source word, and both directions side by side"),
    "query": ((5, 1, 8), "the top layer's state, one query a step"),
    "weights": ((5, 1, 7), "a row for the one query, a column for each source word"),
    "context": ((5, 12), "an average of keys, so it is as wide as they are"),
    "gru_input": ((1, 5, 16), "one step, and embedding and context end to end: 4 + 12"),
    "logits": ((5, 9, 11), "a score for each word that could follow each of the inputs"),
}
decoder_shapes = prediction(SHAPES, "a shape such as (5, 7)")
"""Six shapes in a decoder, by name."""


@exercise
def read_source(answer: Any) -> None:
    """From hidden (layers, B, H), memory (B, S, C), mask and score: context and weights."""
    hidden, memory, matrix = draw((2, 3, 5), (3, 4, 6), (5, 6))
    mask = padding_mask([4, 2, 3], 4, device=hidden.device)
    got = answer(hidden, memory, mask, lambda query, key: query @ matrix @ key.mT)
    bottom, scores = hidden[:, :, None] @ matrix @ memory.mT  # (B, 1, S) each
    weights = masked_softmax(scores, mask)
    mistakes = {
        "the padding is read: where is the mask?": scores.softmax(-1)[:, 0],
        "the query is the bottom layer's state, not the top's": masked_softmax(bottom, mask)[:, 0],
    }
    compare(got[1], weights[:, 0], "the weights", mistakes=mistakes)
    mistakes = {"the context has three axes: drop the axis of the one query": weights @ memory}
    compare(got[0], (weights @ memory)[:, 0], "the context", mistakes=mistakes)


@exercise
def masked_loss(answer: Any) -> None:
    """The mean of -log p over the real tokens of a padded batch."""
    (logits,) = draw((2, 4, 6))
    labels = torch.tensor([[4, 5, 4, END], [END, PAD, PAD, PAD]], device=logits.device)
    each = -logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]  # (B, L)
    real = labels != PAD
    right, by_sentence = each[real].mean(), (each * real).sum(-1) / real.sum(-1)
    mistakes = {
        "it is negative: the loss is minus the log-probability": -right,
        "it is the mean over all 8 places: padding counts": each.mean(),
        "it is a mean over sentences: END alone counts as much as four": by_sentence.mean(),
    }
    compare(answer(logits, labels), right, "the loss", mistakes=mistakes)


class _Table:
    """A model that knows one word: it chooses the row of the logits, the source's word first."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def start(self, source: Tensor, *_: Any) -> tuple[Tensor, "_Table"]:
        return self.logits[source[:, 0]], self

    def step(self, tokens: Tensor, _: "_Table") -> tuple[Tensor, "_Table"]:
        return self.logits[tokens], self

    def select(self, _: Tensor) -> "_Table":
        return self


@exercise
def greedy_loop(answer: Any) -> None:
    """From a model the most probable words, one at a time, until END."""
    word = torch.arange(10, device=get_device())
    following = torch.where(word > 4, word - 1, END)  # counts down to 4, then END
    following[[PAD, END]] = 9  # nonsense
    source = torch.tensor([[7], [5], [6]], device=get_device())
    lengths = torch.ones(3, dtype=torch.long, device="cpu")
    right = torch.tensor([[6, 5, 4, 2], [4, 2, 0, 0], [5, 4, 2, 0]], device="cpu")
    after_end = torch.tensor([[6, 5, 4, 2], [4, 2, 9, 8], [5, 4, 2, 9]], device="cpu")
    mistakes = {
        "it stops when the first sentence has ended: the others had not": right[:, :2],
        "a sentence goes on after END: what follows should be PAD": after_end,
        "each step should be given the words that were chosen last": source.expand(3, 8) - 1,
    }
    got = answer(_Table(F.one_hot(following).float()), source, lengths, 8)
    compare(got, right, "the tokens", mistakes=mistakes)


@exercise
def length_penalty(answer: Any) -> None:
    """The index of the best of K hypotheses, by their log-probabilities and lengths."""
    log_probs = torch.tensor([-2.0, -2.2, -3.0], device=get_device())
    lengths = torch.tensor([2, 4, 9], device=get_device())
    for alpha, best in ((0.0, 0), (0.5, 1), (1.0, 2)):
        got = int(answer(log_probs, lengths, alpha))
        shown = ", ".join(f"{p:.2f}" for p in log_probs / ((5 + lengths) / 6) ** alpha)
        mistakes = {"multiplied, the penalty favours the short": 0} if alpha else {}
        case = f"with α = {alpha} the scores are {shown}: "
        what = "the best, by log p / ((5 + T) / 6)^α,"
        compare(got, best, what, mistakes=mistakes, case=case)


@exercise
def fool_beam(answer: Any) -> None:
    """A table (4, 4) of probabilities in which a beam of two misses the best sentence."""
    table = torch.as_tensor(answer, dtype=torch.float32, device="cpu")
    if table.shape != (4, 4):
        raise CheckFailed(f"the table should have shape (4, 4), got {tuple(table.shape)}")
    sums = table.sum(-1)
    if bool((table < 0).any()) or not torch.allclose(sums, torch.ones_like(sums)):
        raise CheckFailed(f"the rows should be 0 or more and sum to 1, got sums {sums.tolist()}")
    best, p = _found(table, 40)  # wide enough for every sentence of three words
    for width, name in ((1, "greedy"), (2, "a beam of two")):
        if abs(_found(table, width)[1] - p) < 1e-6:
            raise CheckFailed(f"{name} finds the best sentence, {best!r} with p = {p:.3f}")


def _found(table: Tensor, width: int) -> tuple[str, float]:
    """The sentence that a beam of this width finds, ranked by probability alone, if it ends."""
    logits = torch.full((7, 7), -1e9, device="cpu")
    for row, last in zip(table, (START, 4, 5, 6), strict=True):  # the words a, b, c are 4, 5, 6
        logits[last, [4, 5, 6, END]] = row.clamp(min=1e-12).log()
    model, one = _Table(logits), torch.tensor([[START]], device="cpu")
    found = beam_search(model, one, one[0], max_length=4, beam_size=width, length_penalty=0.0)
    tokens = found.tokens[0].tolist()
    words = " ".join("abc"[token - 4] for token in tokens if token > 3)
    return words, float(found.log_probs.exp()) if END in tokens else 0.0
