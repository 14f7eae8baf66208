"""Wrong inputs to caches, configs and the Transformer: a part of the table of `test_errors`.

A row is (what it is, the call, the exception, words of the message).
"""

import torch

from attn_notes.cache import KVCache
from attn_notes.transformer import Decoder, DecoderBlock, Transformer, TransformerConfig
from attn_notes.transformer.config import OPTIONAL_SIZES
from attn_notes.transformer.config import SIZES as SIZES_OF_A_CONFIG

T, V = TypeError, ValueError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def ids(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


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

SIZES = {"vocab_size": 13, "embed_dim": 6, "num_heads": 3}
CONFIG, LENGTHS = TransformerConfig(**SIZES, max_length=5), torch.tensor([4, 2])


def model(source=(2, 4), lengths=LENGTHS, inputs=(2, 3), *, weights=False, **changes):
    config = TransformerConfig(**SIZES, **changes)
    return lambda: Transformer(config)(ids(*source), lengths, ids(*inputs), need_weights=weights)


def step(*shape):
    def call():
        whole = Transformer(CONFIG)
        whole.step(ids(*shape), whole.start(ids(2, 4), LENGTHS)[1])

    return call


def block(memory, **keywords):
    return lambda: DecoderBlock(CONFIG)(zeros(2, 5, 6), memory, **keywords)


def with_caches(number):
    caches = [(KVCache(), KVCache())] * number
    return lambda: Decoder(CONFIG)(ids(2, 3), zeros(2, 4, 6), caches=caches)


BOTH = "source and lengths must have shapes (B, S) and (B,)"
OF_THE_STATE = "one for each row of the state, 2"
BEYOND = "from 0 to max_length - 1 = 5"
CLOSED = torch.zeros(2, 1, 4, dtype=torch.bool)
FUSED = 'backend must be "auto" or "explicit"'
MODELS = [
    ("a source without a batch", model(source=(4,)), V, BOTH, "source (4,) and lengths (2,)"),
    ("another number of lengths", model(lengths=ids(3)), V, BOTH, "source (2, 4) and lengths (3,)"),
    ("float lengths of sources", model(lengths=LENGTHS.float()), T, "must be integers", "float32"),
    ("inputs without a batch", model(inputs=(3,)), V, "tokens must have shape (B, L)", "(3,)"),
    ("inputs of another batch", model(inputs=(3, 3)), V, "(B, L, 6), (B, S, 6)", "(3, 3, 6)"),
    ("too many inputs", model(inputs=(2, 7), max_length=6), V, BEYOND, "length = 7"),
    ("a step of two tokens", step(2, 1), V, OF_THE_STATE, "(2, 1)"),
    ("a step of another batch", step(3), V, OF_THE_STATE, "(3,)"),
    ("too few pairs of caches", with_caches(1), V, "one for each of the 2 blocks", "got 1"),
    ("too many pairs of caches", with_caches(3), V, "one for each of the 2 blocks", "got 3"),
    ("a memory of another width", block(zeros(2, 4, 7)), V, "(B, S, 6)", "(2, 4, 7)"),
    ("a memory of another batch", block(zeros(3, 4, 6)), V, "(B, L, 6), (B, S, 6)", "(3, 4, 6)"),
    ("a mask of another memory", block(zeros(2, 5, 6), memory_mask=CLOSED), V, "mask (2, 1, 4)"),
    ("weights of the fused kernel", model(weights=True, backend="fused"), V, FUSED),
]

ODD, EVEN = {"embed_dim": 9}, "must be even for "
NO_TYPES = "num_token_types must be 0 in a model that generates text, got 2"
CONFIGS = [
    *(
        (f"a config's {name} of 0", {name: 0}, V, f"{name} must be at least 1, got 0")
        for name in (*SIZES_OF_A_CONFIG, *OPTIONAL_SIZES)
    ),
    ("no number of layers", {"num_layers": None}, T, "num_layers must be an integer, got None"),
    ("a negative number of token types", {"num_token_types": -1}, V, "at least 0, got -1"),
    ("too many heads", {"num_heads": 4}, V, "num_heads must divide embed_dim", "= 4 and", "= 6"),
    ("too many key-value heads", {"num_kv_heads": 2}, V, "num_kv_heads must divide num_heads"),
    ("an unknown norm", {"norm": "first"}, V, "norm must be one of ('post', 'pre'), got 'first'"),
    ("an unknown activation", {"activation": "tanh"}, V, "must be one of", "got 'tanh'"),
    ("unknown positions", {"positions": "rope"}, V, "('none', ", "'alibi'), got 'rope'"),
    ("an unknown backend of a config", {"backend": "fast"}, V, "backend must be one of", "'fast'"),
    ("a no in words", {"tie_embeddings": "no"}, V, "one of (False, True), got 'no'"),
    ("a config's dropout above 1", {"dropout": 1.5}, V, "dropout must be from 0 to 1, got 1.5"),
    ("an epsilon of 0", {"layer_norm_eps": 0.0}, V, "layer_norm_eps must be a positive number"),
    ("sinusoids of an odd width", ODD | {"positions": "sinusoidal"}, V, EVEN, "embed_dim = 9"),
    ("rotations of an odd width", ODD | {"positions": "rotary"}, V, EVEN, "head_dim = 3"),
]

TABLE = [
    *CACHES,
    *MODELS,
    *(
        (what, lambda changes=changes: TransformerConfig(**SIZES | changes), error, *words)
        for what, changes, error, *words in CONFIGS
    ),
    ("token types of a Transformer", model(num_token_types=2), V, NO_TYPES),
]
