"""What the models learn from: number words, dates, running text.

A pair is two tuples of tokens; a `Vocabulary` turns tokens into ids, `Batches` and `TextWindows`
into the tensors of training (chapters 4 and 8). Nothing is downloaded: number words and dates are
written on demand (`numbers.NUMBER_LANGUAGES`, `dates.DATE_LOCALES`), texts come from files.
"""

from attn_notes.data.batches import Batch, Batches, make_batch
from attn_notes.data.dates import date_characters
from attn_notes.data.files import read_text
from attn_notes.data.numbers import join_words, number_pairs, number_words, split_number
from attn_notes.data.split import Pair, is_held_out
from attn_notes.data.text import TextWindows, encode_text, split_text
from attn_notes.data.vocabulary import Vocabulary
from attn_notes.special_tokens import END, PAD, START, UNKNOWN, SpecialTokens

__all__ = [
    "END", "PAD", "START", "UNKNOWN", "Batch", "Batches", "Pair", "SpecialTokens",
    "TextWindows", "Vocabulary", "date_characters", "encode_text", "is_held_out",
    "join_words", "make_batch", "number_pairs", "number_words", "read_text", "split_number",
    "split_text",
]  # fmt: skip
