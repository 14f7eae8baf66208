"""Wrong inputs to what reads published models: a part of the table of `test_errors`.

Wrong files are in `test_pretrained` and its neighbours. A row is (what is wrong, the call, the
exception, words of the message).
"""

import torch
from tokenizers import Tokenizer, models, processors

from attn_notes.pretrained import SentenceEncoder, mean_pooling
from attn_notes.transformer import Encoder, TransformerConfig

T, V = TypeError, ValueError

CONFIG = TransformerConfig(vocab_size=5, embed_dim=6, num_heads=3, max_length=11)
TOKENIZER = Tokenizer(models.WordLevel({"a": 0, "[": 1, "]": 4}, unk_token="a"))
TOKENIZER.post_processor = processors.TemplateProcessing(
    single="[ $A ]", special_tokens=[("[", 1), ("]", 4)]
)


def encoder(**keywords):
    return lambda: SentenceEncoder(Encoder(CONFIG), TOKENIZER, **keywords)


def encode(*texts, **keywords):
    return lambda: encoder(max_length=11)().encode(*texts, **keywords)


def mean(x, mask):
    return lambda: mean_pooling(torch.zeros(x), torch.ones(mask, dtype=torch.bool))


SHAPED = "mask must broadcast to the tokens"
TABLE = [
    ("a mask of weights", lambda: mean_pooling(torch.zeros(2, 3, 4), torch.ones(2, 3)), T, "bool"),
    ("a mask of another length", mean((2, 3, 4), (2, 4)), V, SHAPED, "(2, 4)"),
    ("a mask with the keys' axis", mean((2, 3, 4), (2, 1, 3)), V, SHAPED, "(2, 1, 3)"),
    ("vectors without a batch", mean((3, 4), (3, 4)), V, SHAPED, "mask (3, 4)"),
    ("special tokens alone", encoder(max_length=2), V, "must be at least 3", "got 2"),
    ("one text, not in a list", encode("a cat"), T, "texts must be a list of texts", "'a cat'"),
    ("a text in bytes", encode([b"a"]), T, "texts must be a list of texts", "[b'a']"),
    ("a batch of no texts", encode(["a"], batch_size=0), V, "batch_size must be at least 1", "0"),
]
