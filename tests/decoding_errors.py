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
LOGITS = torch.zeros(2, 7)


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def config(**changes) -> TransformerConfig:
    return TransformerConfig(
        **{"vocab_size": 13, "embed_dim": 6, "num_heads": 3, "max_length": 5} | changes
    )


def decode(search=sample, source=(2, 3), lengths=None, max_length=2, **choices):
    lengths = None if lengths is None else torch.tensor(lengths)
    model = DecoderOnly(config())
    return lambda: search(model, ids(*source), lengths, max_length=max_length, **choices)


POSITIVE = "temperature must be a positive number"
ABOVE, SHARE = "top_p must be a positive number", "top_p must be from 0 to 1"
CHOICES = [
    ("a temperature of 0", {"temperature": 0}, V, "above 0, got 0; use greedy() instead"),
    ("an infinite temperature", {"temperature": math.inf}, V, POSITIVE, "got inf"),
    ("a top_k of 0", {"top_k": 0}, V, "top_k must be at least 1, got 0"),
    ("a top_p of 0", {"top_p": 0.0}, V, ABOVE, "got 0.0"),
    ("a top_p above 1", {"top_p": 1.01}, V, SHARE, "got 1.01"),
]
ELSEWHERE = SimpleNamespace(device=torch.device("meta"))
PENALTY = "length_penalty must be a finite number"
beam = partial(decode, beam_search)


def translating(*sentences, **choices):
    vocab = Vocabulary([])
    model = DecoderOnly(config())
    return lambda: translate(model, sentences, vocab, vocab, max_length=2, **choices)


SEARCH = [
    *(
        (f"{what}: {name}", call, error, *words)
        for what, choice, error, *words in CHOICES
        for name, call in {
            "sampling_distribution": partial(sampling_distribution, LOGITS, **choice),
            "sample": decode(**choice),
        }.items()
    ),
    ("integer logits", lambda: sampling_distribution(ids(7)), T, "floating point", "int"),
    ("a generator elsewhere", decode(generator=ELSEWHERE), V, "must be on the CPU", "meta"),
    *(
        (f"no length: {search.__name__}", decode(search, max_length=0), V, "max_length must be at")
        for search in (greedy, beam_search, sample)
    ),
    ("an empty beam", beam(beam_size=0), V, "beam_size must be at least 1, got 0"),
    ("a negative penalty", beam(length_penalty=-0.5), V, PENALTY, "got -0.5"),
    ("a string for a sentence", translating("zwei"), T, "must be a sequence of tokens", "'zwei'"),
    ("batches of nothing", translating(batch_size=0), V, "batch_size must be at least 1, got 0"),
]

# ---- Language models ----------------------------------------------------------------------------


def prompt(source=(2, 3), lengths=(3, 3)):
    return lambda: DecoderOnly(config()).start(ids(*source), torch.tensor(lengths))


def steps(*shapes):
    def call():
        model = DecoderOnly(config())
        _, state = model.start(ids(2, 3))
        for shape in shapes:
            _, state = model.step(ids(*shape), state)

    return call


def call(family, tokens, types=None, *, caches=None, **changes):
    held = {} if caches is None else {"caches": tuple(KVCache() for _ in range(caches))}
    segments = () if types is None else (types,)
    return lambda: family(config(**changes))(tokens, *segments, **held)


BOTH = "source and lengths must have shapes (B, S) and (B,)"
PROMPTS = "prompts must have the same length, 1 or more, and no padding"
STEP = "one for each row of the state, 2"
BEYOND = "from 0 to max_length - 1 = 4"
TYPES = "token_types must have the shape of tokens"
FUSED = 'backend must be "auto" or "explicit" for weights'
MODELS = [
    ("a prompt without a batch", prompt(source=(3,)), V, BOTH, "source (3,) and lengths (2,)"),
    (
        "a plain prompt without a batch",
        decode(source=(3,)),
        V,
        "source must have shape (B, S), got source (3,)",
    ),
    ("too few lengths of prompts", prompt(lengths=(3,)), V, BOTH, "source (2, 3) and lengths (1,)"),
    ("prompts of two lengths", prompt(lengths=(3, 2)), V, PROMPTS, "(2, 3)", "[3, 2]"),
    ("an empty prompt", prompt((2, 0), (0, 0)), V, PROMPTS, "(2, 0)", "[0, 0]"),
    ("a text too long", steps(*[(2,)] * 3), V, BEYOND, "offset = 5"),
    ("a second step of another batch", steps((2,), (3,)), V, STEP, "(3,)"),
    ("tokens without a batch", call(DecoderOnly, ids(3)), V, "(B, L)", "(3,)"),
    ("a window too long", call(DecoderOnly, ids(2, 6)), V, BEYOND, "offset = 0 and length = 6"),
    *(
        (f"{n} caches", call(family, ids(2, 3), caches=n), V, "one for each of the 2", f"got {n}")
        for family, n in ((DecoderOnly, 1), (Encoder, 3), (Encoder, 0))
    ),
    (
        "types of a writer",
        lambda: DecoderOnly(config(num_token_types=2)),
        V,
        "must be 0 in a model",
    ),
    ("masked tokens without a batch", call(MaskedLanguageModel, ids(3)), V, "(B, L)", "(3,)"),
    ("unknown token types", call(Encoder, ids(2, 3), ids(2, 3)), V, TYPES, "num_token_types is 0"),
    (
        "token types of another shape",
        call(Encoder, ids(2, 3), ids(2, 4), num_token_types=2),
        V,
        TYPES,
        "token_types (2, 4) and tokens (2, 3)",
    ),
    (
        "a token type beyond the last",
        call(Encoder, ids(1, 1), 2 * ids(1, 1), num_token_types=2),
        V,
        "must be ids from 0 to 1, got ids from 2 to 2",
    ),
    ("float tokens", call(Encoder, torch.zeros(2, 3)), T, "tokens must be integers", "float32"),
    ("an id beyond the last", call(Encoder, 13 * ids(1, 2)), V, "tokens must be ids from 0 to 12"),
    *(
        (
            f"weights of the fused kernel: {family.__name__}",
            lambda family=family: family(config(backend="fused"))(ids(2, 3), need_weights=True),
            V,
            FUSED,
        )
        for family in (Encoder, DecoderOnly, MaskedLanguageModel)
    ),
]

TABLE = [*SEARCH, *MODELS]
