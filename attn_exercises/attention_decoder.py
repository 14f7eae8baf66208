"""The checks of chapter 4's exercises: the shift, reading, the loss, greedy decoding and beams."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_exercises.base import (
    compare,
    difference,
    draw,
    exercise,
    numbers,
    of_function,
    pair,
)
from attn_notes.checks.properties import CheckFailed
from attn_notes.checks.sequences import check_masked_loss
from attn_notes.device import get_device
from attn_notes.masks import masked_softmax, padding_mask
from attn_notes.special_tokens import END, PAD, START


@of_function
def shifted_by_one(answer: Any) -> None:
    """From lists of ids the decoder's inputs and the labels of its loss, both (B, L)."""
    for rows in ([[5, 7, 6], [8], [9, 4]], [[6, 5]], [[4, 6], []]):
        given = [row[:] for row in rows]
        got = pair(answer(given), "two tensors, inputs and labels")
        if given != rows:
            raise CheckFailed("the answer changes the lists that it is given: make new ones")
        _compare_shifted(*got, rows, case=f"for the sentences {rows} ")


def _compare_shifted(read: Any, wanted: Any, rows: list[list[int]], case: str) -> None:
    """The labels, then the inputs where there is a label: elsewhere the loss ignores them."""
    target = _padded([[START, *row, END] for row in rows])  # (B, L + 1)
    inputs, labels, words = target[:, :-1], target[:, 1:], _padded(rows)
    real = labels != PAD
    if isinstance(read, Tensor) and read.shape == real.shape:
        read = torch.where(real, read.cpu(), inputs)
    swapped = not difference(read, labels.where(real, inputs))
    unshifted = "the labels are the inputs: what is wanted is the word after the one that is read"
    unshifted = "inputs and labels are swapped: return the inputs first" if swapped else unshifted
    mistakes = {
        unshifted: inputs,
        f"{unshifted}; and where is END?": F.pad(words, (1, 0), value=START),
        "END is missing from the labels: the decoder would never learn to stop": words,
        "END stands behind the padding: put END first, then the padding": F.pad(
            words, (0, 1), value=END
        ),
        "the labels are shifted by two: nobody asks for the word after START": target[:, 2:],
        "the padding stands in front: it belongs behind END": _padded(
            [[*row, END] for row in rows], in_front=True
        ),
        "the loss ignores PAD: pad the labels with it": labels.where(real, -100),
        "START is among the labels: it is read and never predicted": target,
    }
    compare(wanted, labels, "the labels", mistakes, case)
    mistakes = {
        "the inputs are the labels: each word is read where it should be said": torch.where(
            real, labels, inputs
        ),
        "START is missing from the inputs: what is read before the first word?": words,
        "the inputs are one place too long: END is the last label, and no input": target,
    }
    compare(read, inputs, "the inputs", mistakes, case)


def _padded(rows: list[list[int]], *, in_front: bool = False) -> Tensor:
    """The rows as one tensor on the CPU, with padding behind them or in front."""
    width = max(map(len, rows))
    pads = [[PAD] * (width - len(row)) for row in rows]
    both = zip(rows, pads, strict=True)
    return torch.tensor([pad + row if in_front else row + pad for row, pad in both], device="cpu")


@of_function
def read_source(answer: Any) -> None:
    """From hidden (layers, B, H), memory (B, S, C), mask and score: context and weights."""
    hidden, memory, matrix = draw((3, 2, 5), (2, 4, 6), (5, 6))
    mask = padding_mask([4, 2], 4, device=hidden.device)

    def score(query: Tensor, key: Tensor) -> Tensor:
        return query @ matrix @ key.mT

    got = answer(hidden, memory, mask, score)
    got = pair(got, "two tensors, context and weights")
    scores = hidden[:, :, None] @ matrix @ memory.mT  # (layers, B, 1, S)
    weights = masked_softmax(scores[-1], mask)  # (B, 1, S)
    bottom, second = (masked_softmax(layer, mask)[:, 0] for layer in scores[:2])
    open_to_all, context = scores[-1].softmax(-1)[:, 0], (weights @ memory)[:, 0]
    mistakes = {
        "the padding is read: where is the mask?": open_to_all,
        "masked after the softmax, a row no longer sums to 1": open_to_all * mask[:, 0],
        "the query is the bottom layer's state, not the top's": bottom,
        "the query is the second layer's state, not the top's": second,
        "the weights have three axes: drop the axis of the one query": weights,
        "context and weights are swapped: return the context first": context,
    }
    compare(got[1], weights[:, 0], "the weights", mistakes)
    mistakes = {
        "the context has three axes: drop the axis of the one query": weights @ memory,
        "the context is a plain mean: use the weights": memory.mean(1),
    }
    compare(got[0], context, "the context", mistakes)
    low = answer(hidden, memory, mask, lambda query, key: score(query, key) - 40)[1]
    compare(low, weights[:, 0], "the weights", case="for scores near -40 (padding is -inf) ")
    one = answer(hidden[1:, 1:], memory[1:], mask[1:], score)
    for got, right in zip(one, (context, weights[:, 0]), strict=True):
        compare(got, right[1:], "the answer", case="for one sequence and two layers ")


@of_function
def masked_loss(answer: Any) -> None:
    """The mean of -log p over the real tokens of a padded batch."""
    logits = (60 * draw((2, 4, 6))[0]).requires_grad_()
    labels = torch.tensor([[4, 5, 4, END], [END, PAD, PAD, PAD]], device=logits.device)
    at = labels[..., None]  # (B, L, 1)
    each, across = (-logits.log_softmax(axis).gather(-1, at)[..., 0] for axis in (-1, 1))  # (B, L)
    real = labels != PAD
    right, by_sentence = each[real].mean(), (each * real).sum(-1) / real.sum(-1)
    mistakes = {
        "it is negative: the loss is minus the log-probability": -right,
        "it is the mean over all 8 places: padding counts": each.mean(),
        "padding adds nothing, but the sum is divided by all 8 places": (each * real).mean(),
        "it is a mean over sentences: END alone counts as much as four": by_sentence.mean(),
        "it is the sum over the real tokens: divide by their number": each[real].sum(),
        "END is left out: it is a real token, to be learned": each[labels > END].mean(),
        "the softmax runs over positions, not the vocabulary": across[real].mean(),
        "a small softmax is 0, and its logarithm -inf: take log_softmax": torch.inf,
    }
    got = answer(logits, labels)
    compare(got, right, "the loss", mistakes)
    if not isinstance(got, Tensor) or not got.requires_grad:
        raise CheckFailed("the value is right, but no gradient flows: return the tensor")
    pull, gradient = (torch.autograd.grad(loss, logits)[0] for loss in (got, right))
    compare(pull, gradient, "the gradient of the loss")
    small = logits.detach() / 60
    closed = small.where(torch.arange(6, device=small.device) != PAD, -torch.inf)
    right, without = (F.cross_entropy(z.mT, labels, ignore_index=PAD) for z in (small, closed))
    compare(answer(small, labels), right, "the loss", {"leave PAD in the softmax": without})
    check_masked_loss(answer)


class _Countdown:
    """Counts down from the source's word: by 1 at first, by 2 once its state holds two words."""

    def __init__(self, said: int = -1, most: int = 9) -> None:
        self.said, self.most = said, most  # words appended, without the source's; and at most

    def start(self, source: Tensor, lengths: Any = None) -> tuple[Tensor, "_Countdown"]:
        if lengths is None:
            raise CheckFailed("`start` was not given the lengths: model.start(source, lengths)")
        return self.step(source[:, 0], self)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, "_Countdown"]:
        if not isinstance(state, _Countdown):
            kind = type(state).__name__
            raise CheckFailed(f"`step` takes the words, then the state; its second was a {kind}")
        after = _Countdown(state.said + 1, self.most)
        if after.said > self.most:
            raise CheckFailed(f"it says more than {self.most} words: stop earlier")
        down = (tokens - (2 if after.said > 1 else 1)).clamp(min=4)
        down = torch.where(tokens == 4, END, torch.where(tokens < 4, 9, down))  # 9: nonsense
        return F.one_hot(down, 12).float(), after


@of_function
def greedy_loop(answer: Any) -> None:
    """From a model the most probable words, one at a time, until END."""
    source = torch.tensor([[9], [5], [7]], device=get_device())
    lengths = torch.ones(3, dtype=torch.long, device="cpu")
    unfilled = [[8, 7, 5, 4, 2], [4, 2, 9, 7, 5], [6, 5, 4, 2, 9]]
    endless = torch.tensor([[9, 7, 5, 4], [4, 2, 9, 7], [7, 5, 4, 2]], device="cpu")
    endless = torch.cat((torch.tensor(unfilled, device="cpu"), endless), dim=1)
    stale = [[8, 7, 6, 5, 4, 2], [4, 2, 0, 0, 0, 0], [6, 5, 4, 2, 0, 0]]
    right = torch.tensor([[8, 7, 5, 4, 2], [4, 2, 0, 0, 0], [6, 5, 4, 2, 0]], device="cpu")
    same_word = torch.tensor([[1, 1] + 7 * [2]], device="cpu")
    mistakes = {
        "it stops when the first sentence has ended: the others had not": right[:, :2],
        "a sentence goes on after END: what follows should be PAD": unfilled,
        "END has become PAD: fill first, then note which sentences have ended": right * (right > 2),
        "each step gets the same state: pass on the one that the last step returned": stale,
        "it goes on after every sentence has ended": F.pad(right, (0, 4)),
        "it never stops: stop when all sentences have ended": endless,
        "each step should be given the words chosen last": (source.cpu() - same_word).clamp(min=4),
    }
    compare(answer(_Countdown(), source, lengths, 9), right, "the tokens", mistakes)
    first = torch.cat((source[1:2] - 1, source[1:2]))  # 4, which END follows, and 5
    ended, case = torch.tensor([[2, 0], [4, 2]], device="cpu"), "one sentence begins with END: "
    compare(answer(_Countdown(), first, lengths[:2], 9), ended, "the tokens", case=case)
    for most, length in ((5, 9), (3, 3)):
        brief = _Countdown(most=most)
        compare(answer(brief, source, lengths, length), right[:, :most], "the tokens")


@of_function
def length_penalty(answer: Any) -> None:
    """The index of the best of K hypotheses, by their log-probabilities and lengths."""
    few, many = ([-2.0, -2.2, -3.0], [2, 4, 9]), ([-3.6, -5.2, -3.3, -3.6, -7.5], [2, 3, 7, 9, 22])
    named = {
        "this favours the short: divide log p by the penalty": 0,
        "this is the least score: the largest is the best": 1,
        "the lengths hardly count: the penalty is ((5 + T) / 6)^α": 2,
        "log p is divided by T^α: the penalty is ((5 + T) / 6)^α": 4,
    }
    near = "the penalty is ((5 + T) / 6)^α, and T counts END once"
    with_4, with_6 = ([-1.92, -4.0], [1, 7]), ([-2.08, -4.0], [1, 7])  # turn the order
    cases: Any = (
        *((many, 1.0, 3, named), (few, 0.5, 1, {"α should be an exponent": 2}), (many, 0.0, 2, {})),
        *((with_4, 1.0, 0, {near: 1}), (with_6, 1.0, 1, {near: 0}), (with_4, 2.0, 1, {})),
    )
    for hypotheses, alpha, best, mistakes in cases:
        log_probs, lengths = (torch.tensor(row, device=get_device()) for row in hypotheses)
        scores = log_probs / ((5 + lengths) / 6) ** alpha
        wrong = {**mistakes, "this is the best score: return its index": scores[best]}
        case = f"with α = {alpha} the scores are {', '.join(f'{x:.2f}' for x in scores)}: "
        compare(answer(log_probs, lengths, alpha), best, "the index of the best", wrong, case)


@exercise
def fool_beam(answer: Any) -> None:
    """A table (4, 4) of probabilities in which a beam of two misses the best sentence."""
    table = numbers(answer, "the table should hold 4 rows of 4 numbers")
    if table.shape != (4, 4):
        raise CheckFailed(f"the table should have shape (4, 4), got {tuple(table.shape)}")
    for name, row in zip(("START", "a", "b", "c"), table, strict=True):
        if not bool((row >= 0).all()) or abs(float(row.sum()) - 1) > 1e-4:
            shown = ", ".join(f"{p:.4g}" for p in row)
            raise CheckFailed(f"the row of {name} should be 0 or more and sum to 1, got {shown}")
    best, p = _best(table)
    if p == 0:
        raise CheckFailed("no sentence ends: some row should give END a probability")
    # In every order of the words: a tie that one of them wins is no miss.
    for order in itertools.permutations(range(3)):
        turned = table[[0, *(n + 1 for n in order)]][:, [*order, 3]]
        for width, search in ((1, "greedy"), (2, "a beam of two")):
            if abs(_found(turned, width) - p) < 1e-6:
                raise CheckFailed(f"{search} finds the best sentence, {best}, with p = {p:.3f}")


def _best(table: Tensor) -> tuple[str, float]:
    """The most probable sentence of three words at most, of all 40, and its probability."""
    found = {}
    for count in range(4):
        for words in itertools.product((1, 2, 3), repeat=count):
            steps = zip((0, *words), (*words, 4), strict=True)
            name = " ".join(" abc"[word] for word in words) or "the empty one"
            found[name] = math.prod(float(table[last, word - 1]) for last, word in steps)
    return max(found.items(), key=lambda item: item[1])


def _found(table: Tensor, width: int) -> float:
    """What the sentence is worth that a beam of this width finds; 0 if it does not end."""
    beam = [(1.0, [0])]  # START is 0, the three words are 1 to 3, and END is 4
    for _ in range(4):
        ended = [(p, words) for p, words in beam if words[-1] == 4]
        live = [(p, words) for p, words in beam if words[-1] < 4]
        grown = [(p * float(table[w[-1], n - 1]), [*w, n]) for p, w in live for n in (4, 1, 2, 3)]
        beam = sorted(ended + grown, key=lambda found: -found[0])[:width]
    return max((p for p, words in beam if words[-1] == 4), default=0.0)
