"""Decoding: from a model that predicts the next token to a whole sequence.

One set of functions for every model of the book, through one interface: `model.start` reads the
source and gives the logits of the first token, `model.step` appends a token and gives the logits
of the next, and the rows of the state between them can be reordered, so that a beam can follow
several hypotheses (chapter 4; chapters 7 and 8 use it unchanged).
"""

from attn_notes.decoding.beam import beam_search
from attn_notes.decoding.generate import generate, greedy
from attn_notes.decoding.protocol import Decodable, Decoded
from attn_notes.decoding.sampling import sample, sampling_distribution
from attn_notes.decoding.translation import translate

__all__ = [
    "Decodable", "Decoded", "beam_search", "generate", "greedy", "sample",
    "sampling_distribution", "translate",
]  # fmt: skip
