r"""The baseline of a character model: counts of short runs of characters (chapter 9)."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from attn_notes.arguments import check_fractions, check_integers, check_positive
from attn_notes.data import Vocabulary, encode_text
from attn_notes.data.text import count_characters
from attn_notes.special_tokens import END, START


class NGramModel:
    r"""Interpolated Kneser-Ney smoothing of the counts of n characters. Chapter 9.

    Let c(h, x) be how often x followed the context h, and h' the context h without its first
    character. A discount d < 1 is taken from each count above 0; the total, d N(h) for N(h)
    different followers of h, is distributed as the shorter context predicts:

    $p(x \mid h) = \frac{\max(c(h, x) - d, 0) + d\,N(h)\;p(x \mid h')}{\sum_y c(h, y)}$

    For a shorter context, c counts not how often x followed h', but after how many *different*
    characters h' x stood (Kneser and Ney, 1995): "q" is followed by "u" a hundred times, yet tells
    little of where "u" is new. Below the empty context all characters are equally likely. The
    interpolation is that of Chen and Goodman (1999).

    Args:
        order: n, 1 or more; order 1 has no context.
        texts: what to count in, with one character at least.
        vocab: its characters.
        discount: d, above 0 and at most 1; a larger one suits texts that repeat themselves more.

    Example:
        >>> texts = ["to be or not to be, that is the question"]
        >>> model = NGramModel(3, texts, Vocabulary.build(map(list, texts)))
        >>> p = model.distribution("to b")
        >>> model.vocab.decode(p.argmax()[None]), round(float(p.sum()), 6)
        (['e'], 1.0)
    """

    def __init__(
        self, order: int, texts: Sequence[str], vocab: Vocabulary, *, discount: float = 0.9
    ) -> None:
        check_integers(1, order=order)
        check_positive(discount=discount)  # 0 would leave nothing for what was not met
        check_fractions(discount=discount)
        self.order, self.vocab, self.discount = order, vocab, discount
        self._counts = _count(order, [self._string(text) for text in texts])

    def distribution(self, context: str) -> Tensor:
        """The probability of each id after this text, (V,), float64, on the CPU."""
        past = self._string(context)[:-1]  # without END
        p = [self._probability(past, chr(number)) for number in range(END, len(self.vocab))]
        # PAD and START never follow.
        return torch.tensor([0.0, 0.0, *p], dtype=torch.float64, device="cpu")

    def bits_per_character(self, texts: Sequence[str]) -> float:
        """The bits needed to write these texts and their ENDs, divided by the characters."""
        characters, bits = count_characters(texts), 0.0
        for ids in map(self._string, texts):
            for at in range(1, len(ids)):
                past = ids[max(0, at - self.order) : at]
                bits -= math.log2(self._probability(past, ids[at]))
        return bits / characters

    def _probability(self, past: str, following: str) -> float:
        """p(x | h), from the empty context up to the longest that was met."""
        p = 1 / (len(self.vocab) - START - 1)  # of all that may follow
        for length in range(min(self.order, len(past) + 1)):
            followers = self._counts[length].get(past[len(past) - length :])
            if followers is None:
                break
            kept = max(followers[following] - self.discount, 0.0)
            p = (kept + self.discount * len(followers) * p) / followers.total()
        return p

    def _string(self, text: str) -> str:
        """The ids of START text END as characters, for slices of it are keys."""
        return "".join(map(chr, encode_text(text, self.vocab)))


def _count(order: int, strings: Sequence[str]) -> list[dict[str, Counter[str]]]:
    """What followed each context, by its length; only the longest count every occurrence."""
    counts: list[dict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(order)]
    for string in strings:
        for at in range(1, len(string)):
            context = string[max(0, at - order + 1) : at]  # a shorter one begins with START
            counts[len(context)][context][string[at]] += 1
    for length in range(order - 1, 0, -1):
        for context, followers in counts[length].items():
            counts[length - 1][context[1:]].update(followers.keys())  # each of them once
    return counts
