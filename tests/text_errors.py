"""Wrong inputs to running text and to training: a part of the table of `test_errors`.

A row is (what is wrong, the call, the exception, words of the message).
"""

from functools import partial

import torch
from torch import nn

from attn_notes import training
from attn_notes.checks import measured, share_seen
from attn_notes.data import TextWindows, Vocabulary, split_text
from attn_notes.ngrams import NGramModel
from attn_notes.source import show_source

T, V = TypeError, ValueError
TEXTS = ["abcdef", "abc"]  # 13 ids
WORDS = Vocabulary(list("abcdef"))
MODEL, FROZEN = nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)


def windows(texts=TEXTS, **changes):
    return lambda: TextWindows(texts, WORDS, **{"length": 4, "batch_size": 6} | changes)


def ngram(order=2, texts=TEXTS, **changes):
    return lambda: NGramModel(order, texts, WORDS, **changes)


def bits(texts=TEXTS, **changes):
    return training.bits_per_character(MODEL, texts, WORDS, **{"length": 4} | changes)


def loss(*shape):
    return lambda: training.language_model_loss(MODEL, torch.zeros(shape).long())


def cross_entropy(labels, **how):
    """Of logits for two sequences of five tokens."""
    ids = torch.zeros(labels, dtype=torch.int64)
    return lambda: training.masked_cross_entropy(torch.zeros(2, 5, 11), ids, **how)


def fit(model=MODEL, **how):
    draw = lambda n: torch.ones(1, 1)  # noqa: E731
    square = lambda model, x: model(x).square().sum()  # noqa: E731
    return lambda: training.fit(model, draw, **{"loss": square, "steps": 1} | how)


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
    ("a label too many", cross_entropy((2, 6)), V, "logits (2, 5, 11) and labels (2, 6)"),
    ("a negative smoothing", cross_entropy((2, 5), label_smoothing=-0.1), V, "0 to 1, got -0.1"),
    ("no prediction", lambda: training.exact_match([], []), V, "got 0 and 0"),
    ("strings for lists", lambda: training.bleu("abc", "abc"), T, "must be lists, got one string"),
    ("NaN measured", lambda: measured(float("nan"), 0.1), V, "finite, got nan"),
    ("a tolerance of 0", lambda: measured(1.0, 0), V, "above 0, got 0"),
    # Trainings
    ("no rate", fit(lr=0.0), V, "lr must be a positive number, got 0.0"),
    ("a negative norm", fit(max_norm=-1.0), V, "max_norm must be a positive number, got -1.0"),
    ("a negative decay", fit(weight_decay=-0.1), V, "weight_decay must be a positive number"),
    ("an unknown precision", fit(precision="int8"), V, "be float32 or bfloat16, got 'int8'"),
    (
        "no step between checkpoints",
        fit(checkpoint_every=0),
        V,
        "checkpoint_every must be at least",
    ),
    ("fewer steps than none", fit(steps=-1), V, "steps must be at least 0, got -1"),
    ("a frozen model", fit(FROZEN), V, "parameters that require a gradient, got none"),
    ("a loss without a gradient", fit(loss=lambda _, x: x.sum()), T, "a tensor () with a gradient"),
    # Schedules
    ("a negative warm-up", lambda: training.linear_decay(-1, 10), V, "got warmup -1 and total 10"),
    ("no decay", lambda: training.cosine_decay(10, 10), V, "got warmup 10 and total 10"),
    ("a share of steps", lambda: training.linear_decay(0.1, 10), T, "warmup must be an integer"),
    ("noam without a warm-up", lambda: training.noam(8, 0), V, "warmup must be at least 1, got 0"),
    ("a root below 0", lambda: training.inverse_sqrt(-1), V, "warmup must be at least 0, got -1"),
    ("a constant below 0", lambda: training.constant(-1), V, "warmup must be at least 0, got -1"),
    # Sources
    ("the source of a number", partial(show_source, 42), T, "written in Python, got 42"),
    ("the source of C", partial(show_source, torch.zeros), T, "written in Python, got <built-in"),
]
