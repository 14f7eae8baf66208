"""Wrong inputs to decoding and to language models: a part of the table of `test_errors`.

A row is (what it is, the call, the exception, words of the message).
"""

import math
from functools import partial
from types import SimpleNamespace

import torch

from attn_notes.cache import KVCache
from attn_notes.data import Vocabulary
from attn_notes.decoding import beam_search, greedy, sample, sampling_distribution, translate
from attn_notes.transformer import DecoderOnly, Encoder, MaskedLanguageModel, TransformerConfig

T, V = TypeError, ValueError


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": 13, "embed_dim": 6, "num_heads": 3, "max_length": 5}
    return TransformerConfig(**sizes | changes)


MODEL = DecoderOnly(config())


def decode(search=sample, source=(2, 3), max_length=2, **choices):
    return lambda: search(MODEL, ids(*source), max_length=max_length, **choices)


def translating(*sentences, **choices):
    vocab = Vocabulary([])
    return lambda: translate(MODEL, sentences, vocab, vocab, max_length=2, **choices)


CHOICES = [
    ("a temperature of 0", {"temperature": 0}, "above 0, got 0; use greedy() instead"),
    ("an infinite temperature", {"temperature": math.inf}, "must be a positive number, got inf"),
    ("a top_k of 0", {"top_k": 0}, "top_k must be at least 1, got 0"),
    ("a top_p of 0", {"top_p": 0.0}, "top_p must be a positive number, got 0.0"),
    ("a top_p above 1", {"top_p": 1.01}, "top_p must be from 0 to 1, got 1.01"),
]
ELSEWHERE = SimpleNamespace(device=torch.device("meta"))
PENALTY = "length_penalty must be a finite number, 0 or more, got -0.5"
beam = partial(decode, beam_search)

SEARCH = [
    *(
        (what, partial(sampling_distribution, torch.zeros(2, 7), **choice), V, words)
        for what, choice, words in CHOICES
    ),
    *((f"{what}: sample", decode(**choice), V, words) for what, choice, words in CHOICES),
    ("integer logits", lambda: sampling_distribution(ids(7)), T, "floating point", "int"),
    ("a generator elsewhere", decode(generator=ELSEWHERE), V, "must be on the CPU", "meta"),
    ("no length: greedy", decode(greedy, max_length=0), V, "max_length must be at least 1"),
    ("no length: beam_search", beam(max_length=0), V, "max_length must be at least 1"),
    ("no length: sample", decode(max_length=0), V, "max_length must be at least 1"),
    ("an empty beam", beam(beam_size=0), V, "beam_size must be at least 1, got 0"),
    ("a negative penalty", beam(length_penalty=-0.5), V, PENALTY),
    ("a string for a sentence", translating("zwei"), T, "must be a sequence of tokens", "'zwei'"),
    ("batches of nothing", translating(batch_size=0), V, "batch_size must be at least 1, got 0"),
]

# ---- Language models ----------------------------------------------------------------------------


def prompt(source=(2, 3), lengths=(3, 3)):
    return lambda: MODEL.start(ids(*source), torch.tensor(lengths))


def steps(*shapes):
    def call():
        _, state = MODEL.start(ids(2, 3))
        for shape in shapes:
            _, state = MODEL.step(ids(*shape), state)

    return call


def call(family, *tokens, caches=None, **changes):
    held = {} if caches is None else {"caches": tuple(KVCache() for _ in range(caches))}
    return lambda: family(config(**changes))(*tokens, **held)


def fused(family):
    return lambda: family(config(backend="fused"))(ids(2, 3), need_weights=True)


segments = partial(call, Encoder, num_token_types=2)
BOTH = "source and lengths must have shapes (B, S) and (B,)"
PROMPTS = "prompts must have the same length, 1 or more, and no padding"
STEP = "one for each row of the state, 2"
FUSED = 'backend must be "auto" or "explicit" for weights'
BEYOND = "from 0 to max_length - 1 = 4"
MODELS = [
    ("a prompt without a batch", prompt((3,)), V, BOTH, "source (3,) and lengths (2,)"),
    ("a plain prompt", decode(source=(3,)), V, "source must have shape (B, S), got source (3,)"),
    ("too few lengths of prompts", prompt(lengths=(3,)), V, BOTH, "source (2, 3) and lengths (1,)"),
    ("prompts of two lengths", prompt(lengths=(3, 2)), V, PROMPTS, "(2, 3)", "[3, 2]"),
    ("an empty prompt", prompt((2, 0), (0, 0)), V, PROMPTS, "(2, 0)", "[0, 0]"),
    ("a text too long", steps(*[(2,)] * 3), V, BEYOND, "offset = 5"),
    ("a second step of another batch", steps((2,), (3,)), V, STEP, "(3,)"),
    ("tokens without a batch", call(DecoderOnly, ids(3)), V, "(B, L)", "(3,)"),
    ("a window too long", call(DecoderOnly, ids(2, 6)), V, BEYOND, "offset = 0 and length = 6"),
    ("one cache", call(DecoderOnly, ids(2, 3), caches=1), V, "one for each of the 2", "got 1"),
    ("three caches", call(Encoder, ids(2, 3), caches=3), V, "one for each of the 2", "got 3"),
    ("no cache", call(Encoder, ids(2, 3), caches=0), V, "one for each of the 2", "got 0"),
    ("types of a writer", call(DecoderOnly, num_token_types=2), V, "must be 0 in a model"),
    ("masked tokens without a batch", call(MaskedLanguageModel, ids(3)), V, "(B, L)", "(3,)"),
    ("unknown types", call(Encoder, ids(2, 3), ids(2, 3)), V, "num_token_types is 0"),
    ("types of another shape", segments(ids(2, 3), ids(2, 4)), V, "types (2, 4) and tokens (2, 3)"),
    ("a type beyond the last", segments(ids(1, 1), 2 * ids(1, 1)), V, "be ids from 0 to 1,"),
    ("float tokens", call(Encoder, torch.zeros(2, 3)), T, "tokens must be integers", "float32"),
    ("an id beyond the last", call(Encoder, 13 * ids(1, 2)), V, "tokens must be ids from 0 to 12"),
    ("weights of a fused Encoder", fused(Encoder), V, FUSED),
    ("weights of a fused writer", fused(DecoderOnly), V, FUSED),
    ("weights of a fused BERT", fused(MaskedLanguageModel), V, FUSED),
]

TABLE = [*SEARCH, *MODELS]
