"""Wrong inputs to running text: a part of the table of `test_errors`, which tries them.

A row is (what is wrong, the call, the exception, words of the message).
"""

from functools import partial

import torch
from torch import nn

from attn_notes.checks import share_seen
from attn_notes.data import TextWindows, Vocabulary, split_text
from attn_notes.ngrams import NGramModel
from attn_notes.training import bits_per_character, language_model_loss

T, V = TypeError, ValueError
TEXTS = ["abcdef", "abc"]  # 13 ids
WORDS = Vocabulary(list("abcdef"))
MODEL = nn.Linear(1, 1)


def windows(texts=TEXTS, **changes):
    return lambda: TextWindows(texts, WORDS, **{"length": 4, "batch_size": 6} | changes)


def ngram(order=2, texts=TEXTS, **changes):
    return lambda: NGramModel(order, texts, WORDS, **changes)


def bits(texts=TEXTS, **changes):
    return bits_per_character(MODEL, texts, WORDS, **{"length": 4} | changes)


def loss(*shape):
    return lambda: language_model_loss(MODEL, torch.zeros(shape).long())


TABLE = [
    # Texts
    *(
        (f"{name} of one string", partial(call, "ab"), T, "must be a list of texts", "'ab'")
        for name, call in {
            "a split": split_text,
            "windows": lambda texts: windows(texts)(),
            "an n-gram": lambda texts: ngram(texts=texts)(),
            "an n-gram's bits": lambda texts: ngram()().bits_per_character(texts),
            "bits": bits,
        }.items()
    ),
    ("a split of numbers", lambda: split_text(["a", 1]), T, "list of texts", "['a', 1]"),
    ("a split of no text", lambda: split_text([]), V, "something on either side", "got []"),
    ("windows of no text", windows([]), V, "at least length + 1 = 5 ids", "got 0"),
    ("bits of empty texts", lambda: bits(["", ""]), V, "hold a character", "2 texts"),
    # Splits
    ("a split of 1.5", partial(split_text, TEXTS, share=1.5), V, "from 0 to 1", "1.5"),
    ("a split of one character", lambda: split_text(["a"]), V, "on either side", "['a']"),
    # Windows
    ("a window beyond the texts", windows(length=13), V, "at least length + 1 = 14 ids", "got 13"),
    ("a window of nothing", windows(length=0), V, "length must be at least 1", "got 0"),
    ("no window in a batch", windows(batch_size=0), V, "batch_size must be at least 1", "0"),
    ("a negative step", lambda: windows()()(-1), V, "step must be at least 0", "got -1"),
    # Overlap
    ("what was seen, of one string", lambda: share_seen("a", ["a"]), T, "must be a list of texts"),
    ("what was seen of nothing", lambda: share_seen(["a"], [""]), V, "must hold a character"),
    ("runs of 0", lambda: share_seen(["a"], ["a"], length=0), V, "length must be at least 1"),
    # n-grams
    ("an n-gram of none", ngram(0), V, "order must be at least 1", "got 0"),
    ("a negative discount", ngram(discount=-0.1), V, "discount must be from 0 to 1", "-0.1"),
    # Losses and bits
    ("a text without a batch", loss(3), V, "tokens must have shape (B, L + 1)", "(3,)"),
    ("a text of one token", loss(2, 1), V, "tokens must have shape (B, L + 1)", "(2, 1)"),
]
