"""Wrong inputs to what reads published models: a part of the table of `test_errors`.

Files that are wrong are in `test_pretrained` and its neighbours. A row is (what it is, the call,
the exception, words of the message).
"""

import torch
from tokenizers import Tokenizer, models, processors

from attn_notes.pretrained import SentenceEncoder, mean_pooling
from attn_notes.transformer import Encoder, TransformerConfig

T, V = TypeError, ValueError

CONFIG = TransformerConfig(vocab_size=5, embed_dim=6, num_heads=3, max_length=11)


def words(last: int = 4) -> Tokenizer:
    """A tokenizer that puts a mark before a text and one after it."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[": 1, "]": last}, unk_token="a"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[ $A ]", special_tokens=[("[", 1), ("]", last)]
    )
    return tokenizer


def encoder(tokenizer=None, **keywords):
    return lambda: SentenceEncoder(Encoder(CONFIG), tokenizer or words(), **keywords)


def encode(*texts, **keywords):
    return lambda: encoder(max_length=11)().encode(*texts, **keywords)


def mean(x, mask):
    return lambda: mean_pooling(torch.zeros(x), torch.ones(mask, dtype=torch.bool))


SHAPED = "x and mask must have shapes (B, L, E) and (B, L)"
TABLE = [
    ("a mask of weights", lambda: mean_pooling(torch.zeros(2, 3, 4), torch.ones(2, 3)), T, "bool"),
    ("a mask of another length", mean((2, 3, 4), (2, 4)), V, SHAPED, "(2, 3, 4)", "(2, 4)"),
    ("a mask with the keys' axis", mean((2, 3, 4), (2, 1, 3)), V, SHAPED, "(2, 1, 3)"),
    ("vectors without a batch", mean((3, 4), (3, 4)), V, SHAPED, "(3, 4) and (3, 4)"),
    ("longer texts than positions", encoder(max_length=12), V, "the encoder's, 11", "got 12"),
    ("the usual length, too long here", encoder(), V, "at most the encoder's, 11", "got 256"),
    ("no room beside the marks", encoder(max_length=2), V, "must be above 2", "got 2"),
    ("ids without an embedding", encoder(words(5), max_length=9), V, "vocab_size = 5", "got 5"),
    (
        "one text, not in a list",
        encode("a cat"),
        T,
        "texts must be a list of texts",
        "one string of 5 characters",
    ),
    ("a text that is none", encode(["a", None]), T, "texts must be strings", "NoneType in place 1"),
    ("half a character", encode(["a", "a\ud800"]), V, "whole characters", "U+D800 in place 1"),
    ("half a text's length", encoder(max_length=9.5), T, "max_length must be an integer", "9.5"),
    ("a text in bytes", encode([b"a"]), T, "texts must be strings, got bytes in place 0"),
    (
        "a batch of no texts",
        encode(["a"], batch_size=0),
        V,
        "batch_size must be at least 1",
        "got 0",
    ),
]
