"""Wrong inputs to the data: a part of the table of `test_errors`, which tries them.

A row is (what is wrong, the call, the exception, words of the message).
"""

import datetime as dt

import torch

from attn_notes import data
from attn_notes.data import Batches, Vocabulary, make_batch

T, V = TypeError, ValueError
WORDS = Vocabulary(["a", "b"])
PAIR = (("a",), ("b",))
DAY = dt.date(1969, 7, 21)


def numbers(**changes):
    return lambda: data.number_pairs(**{"source": "de", "target": "en", "count": 10} | changes)


def dates(**changes):
    return lambda: data.date_pairs(**{"source": "de", "target": "en", "count": 10} | changes)


def batches(pairs=(PAIR,), size=1, step=0):
    return lambda: Batches(pairs, WORDS, WORDS, batch_size=size)(step)


def batch(*pairs):
    return lambda: make_batch(pairs, WORDS, WORDS)


LANGUAGES = "language must be one of de, digits, en"
TABLE = [
    # Vocabulary
    ("a token twice", lambda: Vocabulary(["a", "b", "a"]), V, "distinct", "'a' more than once"),
    ("a token that is a number", lambda: Vocabulary(["a", 3]), T, "must be strings", "got 3"),
    ("a string for tokens", lambda: Vocabulary("drei"), T, "sequence of strings", "'drei'"),
    ("a string to encode", lambda: WORDS.encode("ab"), T, "sequence of strings", "'ab'"),
    ("a min_count of 0", lambda: Vocabulary.build([], min_count=0), V, "at least 1", "got 0"),
    ("an id too large", lambda: WORDS.decode([4, 6]), V, "ids must be from 0 to 5", "got 6"),
    ("ids that are floats", lambda: WORDS.decode(torch.zeros(2)), T, "float", "integer"),
    # Numbers
    ("no such language", lambda: data.number_words(1, "xx"), V, LANGUAGES, "'xx'"),
    ("a negative number", lambda: data.number_words(-1, "de"), V, "0 to 999,999,999,999", "-1"),
    ("no number", numbers(count=0), V, "count must be at least 1", "got 0"),
    ("more numbers than exist", numbers(count=101, digits=(1, 2)), V, "at most 100", "got 101"),
    ("a balance above 1", numbers(balance=1.1), V, "balance must be from 0 to 1", "got 1.1"),
    # Dates
    ("no such locale", lambda: data.date_characters(DAY, "tlh"), V, "locale must be one of de, en"),
    ("no century", dates(style="short"), V, "one of full, long, medium", "'short'"),
    # Splits
    ("a share above 1", lambda: data.is_held_out(3, 1.5), V, "share must be from 0 to 1", "1.5"),
    # Batches
    ("no pair", batch(), V, "at least one pair", "got none"),
    ("an empty source", batch(PAIR, ((), ("a",))), V, "source must have a token", "none in pair 1"),
    ("a batch of none", batches(size=0), V, "batch_size must be at least 1", "got 0"),
    # Files
    ("no file", lambda: data.read_pairs("no-such-file"), FileNotFoundError, "no-such-file"),
    ("a folder for a text", lambda: data.read_text("."), IsADirectoryError, "directory", "'.'"),
    *(
        (f"the encoding {name}", lambda name=name: data.read_text(__file__, encoding=name), V, name)
        for name in ("utf-9", "hex")
    ),
]
