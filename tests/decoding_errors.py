"""Wrong inputs to decoding and to the families: a part of the table of `test_errors`.

A row is (what it is, the call, the exception, words of the message).
"""

import math
from functools import partial
from types import SimpleNamespace

import torch

from attn_notes.cache import KVCache
from attn_notes.data import Vocabulary
from attn_notes.decoding import beam_search, sample, sampling_distribution, translate
from attn_notes.transformer import DecoderOnly, Encoder, MaskedLanguageModel, TransformerConfig

T, V = TypeError, ValueError
LOGITS = torch.zeros(2, 7)


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def config(**changes) -> TransformerConfig:
    return TransformerConfig(
        **{"vocab_size": 13, "embed_dim": 6, "num_heads": 3, "max_length": 5} | changes
    )


def decode(source=(2, 3), lengths=(3, 3), max_length=2, **choices):
    return lambda: sample(
        DecoderOnly(config()), ids(*source), torch.tensor(lengths), max_length=max_length, **choices
    )


NUMBERS = "temperature must be a finite number above 0"
ALL = "or None to keep all"
CHOICES = [
    ("a temperature of 0", {"temperature": 0}, V, NUMBERS, "got 0: 0 would be greedy"),
    ("a temperature of 0.0", {"temperature": 0.0}, V, NUMBERS, "got 0.0: 0 would be greedy"),
    ("a negative temperature", {"temperature": -0.5}, V, NUMBERS, "got -0.5"),
    ("an infinite temperature", {"temperature": math.inf}, V, NUMBERS, "got inf"),
    ("a temperature of NaN", {"temperature": math.nan}, V, NUMBERS, "got nan"),
    ("a temperature in words", {"temperature": "hot"}, T, "temperature must be a number", "'hot'"),
    ("no token of the best", {"top_k": 0}, V, "top_k must be at least 1", ALL, "got 0"),
    ("fewer than no token", {"top_k": -3}, V, "top_k must be at least 1", "got -3"),
    ("half a token", {"top_k": 2.5}, T, "top_k must be an integer or None", "got 2.5"),
    ("tokens by a share", {"top_k": 2.0}, T, "top_k must be an integer or None", "got 2.0"),
    ("a yes for a number of tokens", {"top_k": True}, T, "must be an integer", "got True"),
    ("no nucleus", {"top_p": 0.0}, V, "top_p must be above 0 and at most 1", ALL, "got 0.0"),
    ("a negative nucleus", {"top_p": -0.1}, V, "above 0 and at most 1", "got -0.1"),
    ("a nucleus beyond all", {"top_p": 1.01}, V, "above 0 and at most 1", "got 1.01"),
    ("a nucleus in percent", {"top_p": 90}, V, "above 0 and at most 1", "got 90"),
    ("a nucleus of NaN", {"top_p": math.nan}, V, "above 0 and at most 1", "got nan"),
    ("a nucleus in words", {"top_p": "most"}, T, "top_p must be a number or None", "'most'"),
]
SAMPLING = [
    *(
        (f"{what}: {name}", call, error, *words)
        for what, choice, error, *words in CHOICES
        for name, call in {
            "sampling_distribution": partial(sampling_distribution, LOGITS, **choice),
            "sample": decode(**choice),
        }.items()
    ),
    ("whole numbers for logits", lambda: sampling_distribution(ids(7)), T, "floating point", "int"),
    (
        "one number for logits",
        lambda: sampling_distribution(torch.tensor(1.0)),
        V,
        "(..., V)",
        "()",
    ),
    ("logits of nothing", lambda: sampling_distribution(LOGITS[:, :0]), V, "(..., V)", "(2, 0)"),
    ("a sample of no token", decode(max_length=0), V, "max_length must be at least 1", "got 0"),
    (
        "a generator elsewhere",
        decode(generator=SimpleNamespace(device=torch.device("meta"))),
        V,
        "generator must be of the CPU",
        "meta",
    ),
    ("half a length", decode(max_length=2.5), T, "max_length must be an integer", "2.5"),
]

# ---- Search -------------------------------------------------------------------------------------


def search(**choices):
    model, lengths = DecoderOnly(config()), torch.tensor([3, 3])
    return lambda: beam_search(
        model, ids(2, 3), lengths, max_length=2, **{"beam_size": 3} | choices
    )


PENALTY = "length_penalty must be a finite number"
SEARCH = [
    ("a negative penalty", search(length_penalty=-0.5), V, PENALTY, "got -0.5"),
    ("an infinite penalty", search(length_penalty=math.inf), V, PENALTY, "got inf"),
    ("a penalty of NaN", search(length_penalty=math.nan), V, PENALTY, "got nan"),
    ("a penalty in words", search(length_penalty="a"), T, "length_penalty must be a number", "'a'"),
    ("half a beam", search(beam_size=2.5), T, "beam_size must be an integer", "2.5"),
    (
        "a sentence that is one string",
        lambda: translate(
            DecoderOnly(config()), ["zwei"], Vocabulary([]), Vocabulary([]), max_length=2
        ),
        T,
        "a sentence must be a sequence of tokens",
        "'zwei'",
    ),
]

# ---- Families -----------------------------------------------------------------------------------


def prompt(source=(2, 3), lengths=(3, 3), **changes):
    model = DecoderOnly(config(**changes))
    return lambda: model.start(ids(*source), torch.tensor(lengths))


def steps(*shapes):
    def call():
        model = DecoderOnly(config())
        state = model.start(ids(2, 3), torch.tensor([3, 3]))
        for shape in shapes:
            _, state = model.step(ids(*shape), state)

    return call


def with_caches(family, number):
    return lambda: family(config())(ids(2, 3), caches=tuple(KVCache() for _ in range(number)))


def masked(*shape, types=None, **changes):
    model = MaskedLanguageModel(config(**changes))
    return lambda: model(ids(*shape), None if types is None else ids(*types))


def weights_of_fused(family):
    return lambda: family(config(backend="fused"))(ids(2, 3), need_weights=True)


BOTH = "source and lengths must have shapes (B, S) and (B,)"
PROMPTS = "prompts must have one length, 1 or more, and no padding"
STEP = "one for each row of the state, 2"
BEYOND = "from 0 to max_length - 1 = 4"
FAMILIES = [
    ("a prompt without a batch", prompt(source=(3,)), V, BOTH, "(3,) and (2,)"),
    ("too few lengths of prompts", prompt(lengths=(3,)), V, BOTH, "(2, 3) and (1,)"),
    ("prompts of two lengths", prompt(lengths=(3, 2)), V, PROMPTS, "(2, 3)", "[3, 2]"),
    ("padded prompts", prompt(lengths=(2, 2)), V, PROMPTS, "(2, 3)", "[2, 2]"),
    ("an empty prompt", prompt((2, 0), (0, 0)), V, PROMPTS, "(2, 0)", "[0, 0]"),
    ("a prompt too long", prompt((2, 6), (6, 6)), V, BEYOND, "length = 6"),
    ("prompts of two lengths, sampled", decode(lengths=(3, 2)), V, PROMPTS, "[3, 2]"),
    ("a prompt alone, sampled", decode((3,), (3, 3, 3)), V, "shapes (B, S) and (B,)", "got (3,)"),
    ("a text too long", steps(*[(2,)] * 4), V, BEYOND, "offset = 5"),
    ("a first step of two tokens", steps((2, 1)), V, STEP, "(2, 1)"),
    ("a second step of another batch", steps((2,), (3,)), V, STEP, "(3,)"),
    ("tokens without a batch", lambda: DecoderOnly(config())(ids(3)), V, "(B, L)", "(3,)"),
    (
        "a window too long",
        lambda: DecoderOnly(config())(ids(2, 6)),
        V,
        BEYOND,
        "offset = 0 and length = 6",
    ),
    ("too few caches of a text", with_caches(DecoderOnly, 1), V, "one for each of the 2", "got 1"),
    ("too many caches of a text", with_caches(Encoder, 3), V, "one for each of the 2", "got 3"),
    ("no cache of a text", with_caches(Encoder, 0), V, "one for each of the 2", "got 0"),
    (
        "segments of a text",
        lambda: DecoderOnly(config(num_token_types=2)),
        V,
        "num_token_types must be 0 in a model that is told of no segments, got 2",
    ),
    ("hidden tokens without a batch", masked(3), V, "(B, L)", "(3,)"),
    ("segments where there are none", masked(2, 3, types=(2, 3)), V, "num_token_types is 0"),
    (
        "segments of another shape",
        masked(2, 3, types=(2, 4), num_token_types=2),
        V,
        "one shape",
        "(2, 4) and tokens (2, 3)",
    ),
    (
        "tokens that are no ids",
        lambda: Encoder(config())(torch.zeros(2, 3)),
        T,
        "tokens must be integers, got torch.float32",
    ),
    (
        "an id beyond the last",
        lambda: Encoder(config())(torch.tensor([[4, 13]])),
        V,
        "tokens must be ids from 0 to 12, got ids from 4 to 13",
    ),
    (
        "a segment beyond the last",
        lambda: Encoder(config(num_token_types=2))(ids(1, 1), 2 * ids(1, 1)),
        V,
        "token_types must be ids from 0 to 1, got ids from 2 to 2",
    ),
    (
        "a float mask of a masked model",
        lambda: MaskedLanguageModel(config())(ids(2, 3), attn_mask=torch.zeros(3, 3)),
        T,
        "must be a bool tensor",
        "float32",
    ),
    *(
        (
            f"weights of the fused kernel: {family.__name__}",
            weights_of_fused(family),
            V,
            'backend must be "auto" or "explicit"',
        )
        for family in (DecoderOnly, MaskedLanguageModel)
    ),
]

TABLE = [*SAMPLING, *SEARCH, *FAMILIES]
