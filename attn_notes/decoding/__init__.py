"""Decoding: from a model that gives the next token's probabilities to a whole sequence.

One set of functions for every model of the book, through one protocol: `model.start` reads the
source, `model.step` says one token more, and the state between them can be reordered, so that a
beam can follow several hypotheses (chapter 4; chapters 7 and 8 use it unchanged).
"""

from attn_notes.decoding.protocol import Decodable, Decoded, State
from attn_notes.decoding.sampling import sample, sampling_distribution
from attn_notes.decoding.search import beam_search, greedy
from attn_notes.decoding.translation import translate

__all__ = [
    "Decodable",
    "Decoded",
    "State",
    "beam_search",
    "greedy",
    "sample",
    "sampling_distribution",
    "translate",
]
