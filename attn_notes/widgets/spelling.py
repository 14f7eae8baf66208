"""Attention between words by their spelling: the opening page's heatmap."""

import re
from collections import Counter
from typing import Any

import torch
import traitlets
from torch import Tensor
from torch.nn import functional as F

from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import replace_surrogates
from attn_notes.widgets.heatmap import weights_table

MOST_WORDS = 24


class SpellingAttention(BookWidget):
    """Type a sentence: every word attends to every other by the letters they share.

    No network was trained. A word's vector counts its letters and is divided by its length; the
    score of two words is their dot product, the cosine of the angle between them; the weights
    are the softmax of the scores over the temperature.

    Args:
        text: words separated by spaces; the first 24 are shown.

    Example:
        >>> SpellingAttention("tea eat ox")
        SpellingAttention(3 words at temperature 0.20)
    """

    _widget = "spelling"
    text = traitlets.Unicode("").tag(sync=True)
    temperature = traitlets.Float(0.2, min=0.02, max=5.0).tag(sync=True)
    causal = traitlets.Bool(False).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(self, text: str = "she sells sea shells by the sea shore") -> None:
        super().__init__(text=text)

    @traitlets.validate("text")
    def _check_text(self, proposal: Any) -> str:
        return replace_surrogates(proposal["value"])

    def words(self) -> list[str]:
        """The words on show, at most 24."""
        return [word for word in re.split(r"[ \t\r\n]+", self.text) if word][:MOST_WORDS]

    def shown(self) -> Tensor:
        """The weights on the map: (L, L) for L words."""
        counts = [Counter(word.lower()) for word in self.words()]
        letters = sorted(set().union(*counts))
        numbers = [[float(count[letter]) for letter in letters] for count in counts]
        vectors = torch.tensor(numbers, dtype=torch.float64, device="cpu")
        vectors = F.normalize(vectors.view(len(counts), len(letters)), dim=-1)  # (L, E)
        scores = vectors @ vectors.T / self.temperature  # (L, L)
        return masked_softmax(scores, self._mask())

    def _mask(self) -> Tensor | None:
        return causal_mask(len(self.words()), device="cpu") if self.causal else None

    def _summary(self) -> str:
        return f"{len(self.words())} words at temperature {self.temperature:.2f}"

    def _table(self) -> Table:
        return weights_table(self.shown(), self._mask(), self.words(), self.words())
