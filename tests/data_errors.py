"""Wrong inputs to the data: a part of the table of `test_errors`, which tries them.

A row is (what it is, the call, the exception, words of the message).
"""

import datetime as dt
from functools import partial

import torch

from attn_notes import data
from attn_notes.data import Batches, Vocabulary, make_batch

T, V = TypeError, ValueError
WORDS = Vocabulary(["a", "b"])
PAIR = (("a",), ("b",))
DAY = dt.date(1969, 7, 21)


def numbers(**changes):
    return data.number_pairs(**{"source": "de", "target": "en", "count": 10} | changes)


def dates(**changes):
    return data.date_pairs(**{"source": "de", "target": "en", "count": 10} | changes)


TABLE = [
    # Vocabulary
    ("a token twice", lambda: Vocabulary(["a", "b", "a"]), V, "once", "'a' more than once"),
    ("a token that is a number", lambda: Vocabulary(["a", 3]), T, "must be strings", "got 3"),
    ("a token that is bytes", lambda: Vocabulary([b"a"]), T, "must be strings", "got b'a'"),
    ("a string for tokens", lambda: Vocabulary("drei"), T, "sequence of strings", "'drei'"),
    ("a string to encode", lambda: WORDS.encode("ab"), T, "sequence of strings", "'ab'"),
    ("None to encode", lambda: WORDS.encode(["a", None]), T, "must be strings", "got None"),
    ("strings to build from", lambda: Vocabulary.build(["ab"]), T, "sequence of strings", "'ab'"),
    ("numbers to build from", lambda: Vocabulary.build([[1]]), T, "must be strings", "got 1"),
    ("a min_count of 0", lambda: Vocabulary.build([], min_count=0), V, "at least 1", "got 0"),
    ("an id too large", lambda: WORDS.decode([4, 6]), V, "ids must be from 0 to 5", "got 6"),
    ("a negative id", lambda: WORDS.decode([-1]), V, "ids must be from 0 to 5", "got -1"),
    ("ids that are floats", lambda: WORDS.decode(torch.zeros(2)), T, "integers", "got 0.0"),
    ("ids that are bools", lambda: WORDS.decode([True]), T, "integers", "got True"),
    ("ids of two axes", lambda: WORDS.decode(torch.tensor([[4]])), T, "one a token", "got [4]"),
    ("strings to decode", lambda: WORDS.decode(["a"]), T, "ids must be integers", "got 'a'"),
    # Numbers
    *[
        (
            f"a language that is not there: {name}",
            call,
            V,
            "language must be one of de, digits, en",
            "'xx'",
        )
        for name, call in {
            "number_words": lambda: data.number_words(1, "xx"),
            "split_number": lambda: data.split_number("one", "xx"),
            "join_words": lambda: data.join_words(["one"], "xx"),
            "source": lambda: numbers(source="xx"),
            "target": lambda: numbers(target="xx"),
        }.items()
    ],
    ("a negative number", lambda: data.number_words(-1, "de"), V, "0 to 999,999,999,999", "-1"),
    ("a billiard", lambda: data.number_words(10**12, "de"), V, "got 1,000,000,000,000"),
    ("too many digits", lambda: data.number_words(10**12, "digits"), V, "value must be from 0"),
    ("half a number", lambda: data.number_words(1.5, "en"), T, "must be an integer", "1.5"),
    ("a number in digits", lambda: data.number_words("7", "en"), T, "must be an integer", "'7'"),
    ("a bool", lambda: data.number_words(True, "en"), T, "must be an integer", "True"),
    ("no digit", lambda: numbers(digits=(0, 3)), V, "digits must be", "from 1 to 12", "(0, 3)"),
    ("digits turned round", lambda: numbers(digits=(3, 2)), V, "(fewest, most)", "(3, 2)"),
    ("13 digits", lambda: numbers(digits=(1, 13)), V, "from 1 to 12", "(1, 13)"),
    ("no number", lambda: numbers(count=0), V, "count must be at least 1", "got 0"),
    (
        "more numbers than there are",
        lambda: numbers(count=101, digits=(1, 2)),
        V,
        "count must be at most 100",
        "1 to 2 digits",
        "got 101",
    ),
    ("half a count", lambda: numbers(count=2.5), T, "count must be an integer", "2.5"),
    (
        "one number for digits",
        lambda: numbers(digits=3),
        V,
        "digits must be (fewest, most)",
        "got 3",
    ),
    ("half a digit", lambda: numbers(digits=(1.5, 3)), V, "(fewest, most)", "(1.5, 3)"),
    ("a balance in words", lambda: numbers(balance="even"), T, "must be a number", "'even'"),
    ("a negative count", lambda: numbers(count=-5), V, "at least 1", "got -5"),
    # Dates
    ("no such locale", lambda: data.date_characters(DAY, "tlh"), V, "locale must be one of de, en"),
    ("no such source", lambda: dates(source="xx"), V, "locale must be one of", "'xx'"),
    ("no such target", lambda: dates(target="xx"), V, "locale must be one of", "'xx'"),
    (
        "a style without the century",
        lambda: data.date_characters(DAY, "de", "short"),
        V,
        "style must be one of full, long, medium",
        "'short'",
    ),
    (
        "no such style of digits",
        lambda: data.date_characters(DAY, "iso", "s"),
        V,
        "style must be one of",
    ),
    ("a year 0", lambda: dates(first_year=0), V, "from 1 to 9999", "first_year = 0"),
    ("a year too late", lambda: dates(last_year=10_000), V, "from 1", "last_year = 10000"),
    ("years turned round", lambda: dates(first_year=2000, last_year=1999), V, "years must be in"),
    ("half a day", lambda: dates(count=2.5), T, "count must be an integer", "2.5"),
    ("half a year", lambda: dates(first_year=1900.5), T, "first_year must be an integer"),
    (
        "a date in words",
        lambda: data.date_characters("1969-07-21", "de"),
        T,
        "day must be a datetime.date",
        "'1969-07-21'",
    ),
    ("no day", lambda: dates(count=0), V, "count must be from 1", "got 0"),
    (
        "more days than there are",
        lambda: dates(count=366, first_year=2023, last_year=2023),
        V,
        "from 1 to 365",
        "got 366",
    ),
    # Splits
    ("a share above 1", lambda: data.is_held_out(3, 1.5), V, "share must be from 0 to 1", "1.5"),
    ("a negative share", lambda: data.is_held_out(3, -0.1), V, "from 0 to 1", "-0.1"),
    ("a share of NaN", lambda: data.is_held_out(3, float("nan")), V, "from 0 to 1", "nan"),
    ("a share in words", lambda: data.is_held_out(3, "half"), T, "must be a number", "'half'"),
    ("pairs of a share of 2", lambda: data.split_pairs([PAIR], share=2), V, "from 0 to 1", "2"),
    # Batches
    ("no pair", lambda: make_batch([], WORDS, WORDS), V, "at least one pair", "got none"),
    ("no pair at all", lambda: Batches([], WORDS, WORDS, batch_size=2), V, "at least one pair"),
    (
        "an empty source",
        lambda: make_batch([PAIR, ((), ("a",))], WORDS, WORDS),
        V,
        "every source must have a token",
        "none in pair 1",
    ),
    (
        "an empty source among many",
        lambda: Batches([PAIR] * 9 + [((), ())], WORDS, WORDS, batch_size=2),
        V,
        "every source must have a token",
        "none in pair 9",
    ),
    (
        "a string for a source",
        lambda: make_batch([("ab", ("a",))], WORDS, WORDS),
        T,
        "sequence of strings",
        "'ab'",
    ),
    (
        "a string for a target",
        lambda: make_batch([(("a",), "ab")], WORDS, WORDS),
        T,
        "sequence of strings",
        "'ab'",
    ),
    (
        "a batch of none",
        lambda: Batches([PAIR], WORDS, WORDS, batch_size=0),
        V,
        "batch_size must be at least 1",
        "got 0",
    ),
    (
        "a step before the first",
        lambda: Batches([PAIR], WORDS, WORDS, batch_size=1)(-1),
        V,
        "step must be at least 0",
        "got -1",
    ),
    (
        "half a step of training",
        lambda: Batches([PAIR], WORDS, WORDS, batch_size=1)(0.5),
        T,
        "step must be an integer",
        "0.5",
    ),
    (
        "half a batch",
        lambda: Batches([PAIR], WORDS, WORDS, batch_size=1.5),
        T,
        "batch_size must be an integer",
        "1.5",
    ),
    # Files
    ("half a token", lambda: data.read_pairs(".", max_length=2.5), T, "max_length must be an int"),
    ("no file", lambda: data.read_pairs("no-such-file"), FileNotFoundError, "no-such-file"),
    ("a folder", lambda: data.read_pairs("."), IsADirectoryError, "directory", "'.'"),
    ("a max_length of 0", lambda: data.read_pairs(".", max_length=0), V, "at least 1", "got 0"),
    (
        "no such encoding",
        lambda: data.read_pairs(__file__, encoding="utf-9"),
        V,
        "encoding must be one that Python knows",
        "'utf-9'",
    ),
    *(
        (
            f"the encoding {name} that does not fit",
            partial(data.read_pairs, __file__, encoding=name),
            V,
            f"must be text in {name}, got: ",
        )
        for name in ("idna", "punycode", "undefined", "utf-16")
    ),
    (
        "an encoding that is none of text",
        lambda: data.read_pairs(__file__, encoding="hex"),
        V,
        "encoding must be one that Python knows",
        "'hex'",
    ),
]
