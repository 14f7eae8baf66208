"""Wrong inputs to positions, caches, models, decoding and sentence encoders, for `test_errors`.

Wrong files of published models are in `test_pretrained_files`. A row is (what it is, the call, the
exception, words of the message).
"""

from functools import partial
from types import SimpleNamespace

import torch
from tokenizers import Tokenizer, models, processors

from attn_notes import positions as P
from attn_notes.cache import KVCache
from attn_notes.data import Vocabulary
from attn_notes.decoding import beam_search, greedy, sample, sampling_distribution, translate
from attn_notes.pretrained import SentenceEncoder, mean_pooling
from attn_notes.transformer import (
    Decoder,
    DecoderBlock,
    DecoderOnly,
    Encoder,
    Transformer,
    TransformerConfig,
)
from attn_notes.transformer.config import OPTIONAL_SIZES, SIZES

T, V = TypeError, ValueError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": 13, "embed_dim": 6, "num_heads": 3, "max_length": 5}
    return TransformerConfig(**sizes | changes)


# ---- Positions


def rotate(x=(5, 4), angles=(5, 2), **layout):
    return lambda: P.apply_rotary(zeros(*x), zeros(*angles), **layout)


def learned(offset=0, **sizes):
    return lambda: P.LearnedEncoding(**{"max_length": 8, "embed_dim": 4} | sizes)(X, offset=offset)


X, IDS = zeros(3, 4), ids(3, 4)
OF_A_WIDTH = {
    "sinusoidal_encoding": lambda width: P.sinusoidal_encoding(3, width),
    "rotation_between": lambda width: P.rotation_between(3, width),
    "rotary_angles": lambda width: P.rotary_angles(3, width),
    "SinusoidalEncoding": P.SinusoidalEncoding,
}
OF_A_BASE = {
    "sinusoidal_encoding": lambda base: P.sinusoidal_encoding(3, 4, base=base),
    "SinusoidalEncoding": lambda base: P.SinusoidalEncoding(4, base=base),
}
OF_AN_OFFSET = {
    "sinusoidal_encoding": lambda offset: P.sinusoidal_encoding(3, 4, offset=offset),
    "rotation_between": lambda offset: P.rotation_between(offset, 4),
    "rotary_angles": lambda offset: P.rotary_angles(3, 4, offset=offset),
    "SinusoidalEncoding": lambda offset: P.SinusoidalEncoding(4)(X, offset=offset),
    "LearnedEncoding": lambda offset: learned(offset)(),
    "alibi_bias": lambda offset: P.alibi_bias(2, 3, offset=offset),
}
OF_A_DTYPE = {
    "sinusoidal_encoding": lambda dtype: P.sinusoidal_encoding(3, 4, dtype=dtype),
    "alibi_slopes": lambda dtype: P.alibi_slopes(2, dtype=dtype),
    "alibi_bias": lambda dtype: P.alibi_bias(2, 3, dtype=dtype),
}
OF_AN_INPUT = {"SinusoidalEncoding": P.SinusoidalEncoding(4), "Learned": P.LearnedEncoding(8, 4)}
SPOILT = [
    (OF_A_WIDTH, 5, V, "must be even, 2 or more: features turn"),
    (OF_A_WIDTH, 0, V, "must be even, 2 or more"),
    (OF_A_BASE, 0, V, "base must be a positive number, got 0"),
    (OF_AN_OFFSET, 0.5, T, "offset must be an integer, got 0.5"),
    (OF_A_DTYPE, torch.int64, T, "dtype must be floating point, got torch.int64"),
    (OF_A_DTYPE, "float32", T, "dtype must be floating point, got 'float32'"),
    (OF_AN_INPUT, zeros(4), V, "x must have shape (..., L, 4), got x (4,)"),
    (OF_AN_INPUT, IDS, T, "x must be floating point, got torch.int64"),
]

TURN, ONE = "(..., L, D) and (L, D/2), got ", "must be at least 1, got 0"
POSITIONS = [
    *(
        (f"{name}: {words}", lambda call=call, wrong=wrong: call(wrong), error, words)
        for callers, wrong, error, words in SPOILT
        for name, call in callers.items()
    ),
    ("a scale of 0", lambda: P.rotary_angles(3, 4, scale=0.0), V, "scale must be a positive"),
    ("a length of -1", lambda: P.rotary_angles(-1, 4), V, "length must be at least 0, got -1"),
    ("no learned position", learned(max_length=0), V, f"max_length {ONE}"),
    ("no learned width", learned(embed_dim=0), V, f"embed_dim {ONE}"),
    ("fewer angles", rotate(angles=(3, 2)), V, f"{TURN}x (5, 4) and angles (3, 2)"),
    ("angles of one position", rotate(angles=(2,)), V, f"{TURN}x (5, 4) and angles (2,)"),
    ("an odd width", rotate((5, 3), (5, 1)), V, f"{TURN}x (5, 3)"),
    ("half a layout", rotate(layout="half"), V, 'layout must be "pairs" or "halves", got \'half\''),
    ("integers to turn", lambda: P.apply_rotary(IDS, X), T, "x must be floating point, got"),
    ("integer angles", lambda: P.apply_rotary(X, IDS), T, "angles must be floating point"),
    ("slopes of no head", lambda: P.alibi_slopes(0), V, f"num_heads {ONE}"),
]

# ---- Caches


def append(key, value, held=True):
    """Append to a cache of keys (2, 3, 5, 7) and values (2, 3, 5, 11), or to an empty one."""

    def call():
        cache = KVCache()
        if held:
            cache.update(zeros(2, 3, 5, 7), zeros(2, 3, 5, 11))
        cache.update(key, value)

    return call


KEY, VALUE = zeros(2, 3, 1, 7), zeros(2, 3, 1, 11)
FIT = "must match the cached tensors in all axes but L"
SHAPED = "must have shapes (B, G, L, D) and (B, G, L, Dv)"
CACHES = [
    ("a key of three axes", append(KEY[0], VALUE[0], False), V, SHAPED, "(3, 1, 7)"),
    ("more keys than values", append(zeros(2, 3, 2, 7), VALUE, False), V, SHAPED, "(2, 3, 2, 7)"),
    ("another batch", append(KEY[:1], VALUE[:1]), V, FIT, "(2, 3, 5, 7)", "(1, 3, 1, 7)"),
    ("keys of another width", append(zeros(2, 3, 1, 8), VALUE), V, FIT, "(2, 3, 1, 8)"),
    ("values of another width", append(KEY, zeros(2, 3, 1, 8)), V, FIT, "(2, 3, 5, 11)"),
    ("another dtype", append(KEY.double(), VALUE), T, "must be torch.float32", "torch.float64"),
]

# ---- Models

LENGTHS, WRITER = torch.tensor([4, 2]), DecoderOnly(config())


def model(source=(2, 4), lengths=LENGTHS, inputs=(2, 3), *, weights=False, **changes):
    call = Transformer(config(**changes))
    return lambda: call(ids(*source), lengths, ids(*inputs), need_weights=weights)


def step(*shape):
    def call():
        whole = Transformer(config())
        whole.step(ids(*shape), whole.start(ids(2, 4), LENGTHS)[1])

    return call


def block(memory, **keywords):
    return lambda: DecoderBlock(config())(zeros(2, 5, 6), memory, **keywords)


def prompt(source=(2, 3), lengths=(3, 3)):
    return lambda: WRITER.start(ids(*source), torch.tensor(lengths))


def steps(*shapes):
    def call():
        _, state = WRITER.start(ids(2, 3))
        for shape in shapes:
            _, state = WRITER.step(ids(*shape), state)

    return call


def call(family, *tensors, caches=None, **changes):
    return lambda: family(config(**changes))(*tensors, caches=caches)


segments = partial(call, Encoder, num_token_types=2)
BOTH = "source and lengths must have shapes (B, S) and (B,)"
STEP = "one for each row of the state, 2"
PROMPTS = "prompts must have the same length, 1 or more, and no padding"
BEYOND = "from 0 to max_length - 1 = 4"
ONE_EACH = "one for each of the 2 blocks"
CLOSED = torch.zeros(2, 1, 4, dtype=torch.bool)
FUSED = 'backend must be "auto" or "explicit" for weights'
MODELS = [
    ("another number of lengths", model(lengths=ids(3)), V, BOTH, "source (2, 4) and lengths (3,)"),
    ("float lengths of sources", model(lengths=LENGTHS.float()), T, "must be integers", "float32"),
    ("inputs without a batch", model(inputs=(3,)), V, "tokens must have shape (B, L)", "(3,)"),
    ("a step of two tokens", step(2, 1), V, STEP, "(2, 1)"),
    ("a step of another batch", step(3), V, STEP, "(3,)"),
    ("too few caches", call(Decoder, ids(2, 3), zeros(2, 4, 6), caches=[()]), V, ONE_EACH, "got 1"),
    ("a memory of another width", block(zeros(2, 4, 7)), V, "(B, S, 6)", "(2, 4, 7)"),
    ("a memory of another batch", block(zeros(3, 4, 6)), V, "(B, L, 6), (B, S, 6)", "(3, 4, 6)"),
    ("a mask of another memory", block(zeros(2, 5, 6), memory_mask=CLOSED), V, "mask (2, 1, 4)"),
    ("weights of the fused kernel", model(weights=True, backend="fused"), V, FUSED),
    ("a plain prompt", lambda: WRITER.start(ids(3)), V, "source must have shape (B, S), got"),
    ("prompts of two lengths", prompt(lengths=(3, 2)), V, PROMPTS, "(2, 3)", "[3, 2]"),
    ("an empty prompt", prompt((2, 0), (0, 0)), V, PROMPTS, "(2, 0)", "[0, 0]"),
    ("a text too long", steps(*[(2,)] * 3), V, BEYOND, "offset = 5"),
    ("a second step of another batch", steps((2,), (3,)), V, STEP, "(3,)"),
    ("no cache", call(Encoder, ids(2, 3), caches=()), V, ONE_EACH, "got 0"),
    ("types of a writer", call(DecoderOnly, num_token_types=2), V, "must be 0 in a model"),
    ("types of a Transformer", lambda: model(num_token_types=2), V, "generates text, got 2"),
    ("unknown types", call(Encoder, ids(2, 3), ids(2, 3)), V, "num_token_types is 0"),
    ("types of another shape", segments(ids(2, 3), ids(2, 4)), V, "types (2, 4) and tokens (2, 3)"),
    ("a type beyond the last", segments(ids(1, 1), 2 * ids(1, 1)), V, "be ids from 0 to 1,"),
    ("float tokens", call(Encoder, zeros(2, 3)), T, "tokens must be integers", "float32"),
    ("an id beyond the last", call(Encoder, 13 * ids(1, 2)), V, "tokens must be ids from 0 to 12"),
]

ODD, EVEN = {"embed_dim": 9}, "must be even for "
CONFIGS = [
    *(
        (f"a config's {name} of 0", {name: 0}, V, f"{name} must be at least 1, got 0")
        for name in (*SIZES, *OPTIONAL_SIZES)
    ),
    ("a negative number of token types", {"num_token_types": -1}, V, "at least 0, got -1"),
    ("too many heads", {"num_heads": 4}, V, "num_heads must divide embed_dim", "= 4 and", "= 6"),
    ("too many key-value heads", {"num_kv_heads": 2}, V, "num_kv_heads must divide num_heads"),
    ("an unknown norm", {"norm": "first"}, V, "norm must be one of ('post', 'pre'), got 'first'"),
    ("a no in words", {"tie_embeddings": "no"}, V, "one of (False, True), got 'no'"),
    ("a config's dropout above 1", {"dropout": 1.5}, V, "dropout must be from 0 to 1, got 1.5"),
    ("an epsilon of 0", {"layer_norm_eps": 0.0}, V, "layer_norm_eps must be a positive number"),
    ("sinusoids of an odd width", ODD | {"positions": "sinusoidal"}, V, EVEN, "embed_dim = 9"),
    ("rotations of an odd width", ODD | {"positions": "rotary"}, V, EVEN, "head_dim = 3"),
]

# ---- Decoding


def decode(search=sample, max_length=2, **choices):
    return lambda: search(WRITER, ids(2, 3), max_length=max_length, **choices)


def translating(*sentences, **choices):
    vocab = Vocabulary([])
    return lambda: translate(WRITER, sentences, vocab, vocab, max_length=2, **choices)


CHOICES = [
    ("a temperature of 0", {"temperature": 0}, "above 0, got 0; use greedy() instead"),
    ("a top_k of 0", {"top_k": 0}, "top_k must be at least 1, got 0"),
    ("a top_p of 0", {"top_p": 0.0}, "top_p must be a positive number, got 0.0"),
    ("a top_p above 1", {"top_p": 1.01}, "top_p must be from 0 to 1, got 1.01"),
]
ELSEWHERE = SimpleNamespace(device=torch.device("meta"))
PENALTY = "length_penalty must be a finite number, 0 or more, got -0.5"
beam = partial(decode, beam_search)

SEARCH = [
    *(
        (what, partial(sampling_distribution, zeros(2, 7), **choice), V, words)
        for what, choice, words in CHOICES
    ),
    *((f"{what}: sample", decode(**choice), V, words) for what, choice, words in CHOICES),
    ("integer logits", lambda: sampling_distribution(ids(7)), T, "floating point", "int"),
    ("a generator elsewhere", decode(generator=ELSEWHERE), V, "must be on the CPU", "meta"),
    ("no length: greedy", decode(greedy, max_length=0), V, "max_length must be at least 1"),
    ("no length: beam_search", beam(max_length=0), V, "max_length must be at least 1"),
    ("an empty beam", beam(beam_size=0), V, "beam_size must be at least 1, got 0"),
    ("a negative penalty", beam(length_penalty=-0.5), V, PENALTY),
    ("a string for a sentence", translating("zwei"), T, "must be a sequence of tokens", "'zwei'"),
    ("batches of nothing", translating(batch_size=0), V, "batch_size must be at least 1, got 0"),
]

# ---- Sentence encoders

TOKENIZER = Tokenizer(models.WordLevel({"a": 0, "[": 1, "]": 4}, unk_token="a"))
TOKENIZER.post_processor = processors.TemplateProcessing(
    single="[ $A ]", special_tokens=[("[", 1), ("]", 4)]
)


def encoder(**keywords):
    return lambda: SentenceEncoder(Encoder(config()), TOKENIZER, **keywords)


def encode(*texts, **keywords):
    return lambda: encoder(max_length=5)().encode(*texts, **keywords)


def mean(x, mask):
    return lambda: mean_pooling(zeros(*x), torch.ones(mask, dtype=torch.bool))


POOLED = "mask must broadcast to the tokens"
SENTENCES = [
    ("a mask of weights", lambda: mean_pooling(zeros(2, 3, 4), zeros(2, 3)), T, "bool"),
    ("a mask with the keys' axis", mean((2, 3, 4), (2, 1, 3)), V, POOLED, "(2, 1, 3)"),
    ("vectors without a batch", mean((3, 4), (3, 4)), V, POOLED, "mask (3, 4)"),
    ("special tokens alone", encoder(max_length=2), V, "must be at least 3", "got 2"),
    ("one text, not in a list", encode("a cat"), T, "texts must be a list of texts", "'a cat'"),
    ("a text in bytes", encode([b"a"]), T, "texts must be a list of texts", "[b'a']"),
    ("a batch of no texts", encode(["a"], batch_size=0), V, "batch_size must be at least 1", "0"),
]

TABLE = [
    *POSITIONS,
    *CACHES,
    *MODELS,
    *(
        (what, partial(config, **changes), error, *words)
        for what, changes, error, *words in CONFIGS
    ),
    *SEARCH,
    *SENTENCES,
]
