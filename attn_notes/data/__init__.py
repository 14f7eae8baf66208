"""What the models learn from: number words, dates, the reader's own sentences, running text.

A pair is two tuples of tokens, source and target; a `Vocabulary` turns tokens into ids, and
`Batches` gives a training step its tensors. Running text comes character by character in
`TextWindows` (chapter 8). Four ids are the same in every vocabulary: `PAD` 0, `START` 1, `END` 2,
`UNKNOWN` 3. Nothing is downloaded: numbers, in any of `NUMBER_LANGUAGES`, and dates, in any of
`DATE_LOCALES`, are written out on demand, and the text is Python's own documentation (chapter 4
onwards).
"""

from attn_notes.data.batches import Batch, Batches, make_batch
from attn_notes.data.dates import DATE_LOCALES, DATE_STYLES, date_characters, date_pairs
from attn_notes.data.files import Corpus, read_pairs, read_text
from attn_notes.data.numbers import (
    NUMBER_LANGUAGES,
    join_words,
    language_tag,
    number_pairs,
    number_words,
    split_number,
)
from attn_notes.data.split import Pair, is_held_out, split_pairs
from attn_notes.data.text import TextWindows, encode_text, python_documentation, split_text
from attn_notes.data.vocabulary import END, PAD, START, UNKNOWN, SpecialTokens, Vocabulary

__all__ = [
    "DATE_LOCALES",
    "DATE_STYLES",
    "END",
    "NUMBER_LANGUAGES",
    "PAD",
    "START",
    "UNKNOWN",
    "Batch",
    "Batches",
    "Corpus",
    "Pair",
    "SpecialTokens",
    "TextWindows",
    "Vocabulary",
    "date_characters",
    "date_pairs",
    "encode_text",
    "is_held_out",
    "join_words",
    "language_tag",
    "make_batch",
    "number_pairs",
    "number_words",
    "python_documentation",
    "read_pairs",
    "read_text",
    "split_number",
    "split_pairs",
    "split_text",
]
