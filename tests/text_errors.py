"""Wrong inputs to running text: a part of the table of `test_errors`, which tries them.

A row is (what it is, the call, the exception, words of the message).
"""

from functools import partial

import torch
from torch import nn

from attn_notes.checks import share_seen
from attn_notes.data import TextWindows, Vocabulary, encode_text, read_text, split_text
from attn_notes.ngrams import NGramModel
from attn_notes.training import bits_per_character, language_model_loss

T, V = TypeError, ValueError
TEXTS = ["abcdef", "abc"]  # 13 ids
WORDS = Vocabulary(list("abcdef"))
MODEL = nn.Linear(1, 1)


def windows(texts=TEXTS, **changes):
    return TextWindows(texts, WORDS, **{"length": 4, "batch_size": 6} | changes)


def ngram(order=2, texts=TEXTS, **changes):
    return NGramModel(order, texts, WORDS, **changes)


def bits(texts=TEXTS, **changes):
    return bits_per_character(MODEL, texts, WORDS, **{"length": 4} | changes)


TABLE = [
    # Files
    ("no text file", lambda: read_text("no-such-file"), FileNotFoundError, "no-such-file"),
    ("a folder for a text", lambda: read_text("."), IsADirectoryError, "directory", "'.'"),
    *(
        (
            f"a text in the encoding {name}",
            partial(read_text, __file__, encoding=name),
            V,
            "encoding must be one that Python knows",
            repr(name),
        )
        for name in ("utf-9", "hex")
    ),
    *(
        (
            f"a text in the encoding {name}, which it is not in",
            partial(read_text, __file__, encoding=name),
            V,
            f"must be text in {name}, got: ",
        )
        for name in ("idna", "undefined", "utf-16")
    ),
    # Texts
    *(
        row
        for name, call in {"a split": split_text, "windows": windows}.items()
        for row in (
            (f"{name} of one string", partial(call, "ab"), T, "list of texts", "2 characters"),
            (f"{name} of bytes", partial(call, ["a", b"a"]), T, "strings", "bytes in place 1"),
            (f"{name} of an empty text", partial(call, ["a", ""]), V, "a character", "in place 1"),
            (f"{name} of no text", partial(call, []), V, "at least one text", "none"),
        )
    ),
    *(
        row
        for name, call in {
            "an n-gram": lambda texts: ngram(2, texts),
            "an n-gram's bits": lambda texts: ngram().bits_per_character(texts),
            "bits": bits,
        }.items()
        for row in (
            (f"{name} of one string", partial(call, "ab"), T, "list of texts", "2 characters"),
            (f"{name} of numbers", partial(call, ["a", 1]), T, "strings", "int in place 1"),
            (f"{name} of no text", partial(call, []), V, "hold a character", "0 texts"),
            (f"{name} of empty texts", partial(call, ["", ""]), V, "hold a character", "2 texts"),
        )
    ),
    # Splits
    *(
        (
            f"a split of {share}",
            lambda share=share: split_text(TEXTS, share=share),
            V,
            "share must be above 0 and below 1",
            str(share),
        )
        for share in (0, 1, -0.5, 1.5, float("nan"))
    ),
    ("a split of one character", lambda: split_text(["a"]), V, "cut in two", "['a']"),
    # Windows
    (
        "a corpus smaller than a window",
        lambda: windows(length=13),
        V,
        "as many ids as a window, length + 1",
        "13 ids and a window of 14",
    ),
    ("a window of nothing", lambda: windows(length=0), V, "length must be at least 1", "got 0"),
    ("half a window", lambda: windows(length=2.5), T, "length must be an integer", "2.5"),
    (
        "no window in a batch",
        lambda: windows(batch_size=0),
        V,
        "batch_size must be at least 1",
        "0",
    ),
    ("a batch of True", lambda: windows(batch_size=True), T, "must be an integer", "True"),
    ("no process", lambda: windows(world=0), V, "world must be at least 1", "got 0"),
    ("a negative rank", lambda: windows(rank=-1), V, "rank must be at least 0", "got -1"),
    ("a rank too many", lambda: windows(rank=2, world=2), V, "below world", "rank = 2, world = 2"),
    (
        "processes that don't divide the batch",
        lambda: windows(world=4),
        V,
        "world must divide batch_size",
        "world = 4 and batch_size = 6",
    ),
    ("windows of a negative step", lambda: windows()(-1), V, "step must be at least 0", "got -1"),
    ("windows of half a step", lambda: windows()(0.5), T, "step must be an integer", "0.5"),
    ("a list for a text", lambda: encode_text(["a"], WORDS), T, "text must be a string", "list"),
    # Overlap
    ("what was seen, of numbers", lambda: share_seen(["a"], [1]), T, "held_out must be strings"),
    ("what was seen, of one string", lambda: share_seen("a", ["a"]), T, "train must be a list"),
    ("what was seen of nothing", lambda: share_seen(["a"], [""]), V, "held_out must hold a char"),
    ("runs of 0", lambda: share_seen(["a"], ["a"], length=0), V, "length must be at least 1"),
    # n-grams
    ("an n-gram of none", lambda: ngram(0), V, "order must be at least 1", "got 0"),
    ("an n-gram of a half", lambda: ngram(2.5), T, "order must be an integer", "2.5"),
    ("an n-gram of True", lambda: ngram(True), T, "order must be an integer", "True"),
    *(
        (
            f"a discount of {discount}",
            lambda discount=discount: ngram(discount=discount),
            V,
            "discount must be above 0 and below 1",
            str(discount),
        )
        for discount in (0, 1, float("nan"))
    ),
    # Losses and bits
    *(
        (
            f"tokens {shape} for a language model",
            lambda shape=shape: language_model_loss(MODEL, torch.zeros(shape).long()),
            V,
            "tokens must have shape (B, L + 1)",
            str(shape),
        )
        for shape in ((3,), (2, 1), (2, 0), (2, 3, 4))
    ),
    ("a stride of 0", lambda: bits(stride=0), V, "stride must be from 1 to length", "stride = 0"),
    ("a stride too long", lambda: bits(stride=5), V, "from 1 to length", "length = 4, stride = 5"),
    ("bits of a context of 0", lambda: bits(length=0), V, "from 1 to length", "length = 0"),
    ("bits in batches of 0", lambda: bits(batch_size=0), V, "1 or more", "batch_size = 0"),
]
