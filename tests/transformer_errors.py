"""Wrong inputs to caches and to the Transformer: a part of the table of `test_errors`.

A row is (what it is, the call, the exception, words of the message).
"""

import torch

from attn_notes.cache import KVCache
from attn_notes.transformer import Decoder, DecoderBlock, Transformer, TransformerConfig

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


def append_to_a_room_half_full():
    """Six keys and values, in a room that has grown to hold ten."""
    with torch.no_grad():
        cache = KVCache()
        for length in (5, 1):
            cache.update(zeros(2, 3, length, 7), zeros(2, 3, length, 11))
    cache.update(KEY[:1], VALUE[:1])


KEY, VALUE = zeros(2, 3, 1, 7), zeros(2, 3, 1, 11)
FIT, SHAPED = (
    "must fit what is held in all but L",
    "must have shapes (B, G, L, D) and (B, G, L, Dv)",
)
CACHES = [
    ("a key of three axes", append(KEY[0], VALUE[0], False), V, SHAPED, "(3, 1, 7)"),
    ("more keys than values", append(zeros(2, 3, 2, 7), VALUE, False), V, SHAPED, "(2, 3, 2, 7)"),
    ("a value of five axes", append(KEY, VALUE[..., None]), V, SHAPED, "(2, 3, 1, 11, 1)"),
    ("another batch", append(KEY[:1], VALUE[:1]), V, FIT, "(2, 3, 5, 7)", "(1, 3, 1, 7)"),
    (
        "another batch, once the room has grown",
        append_to_a_room_half_full,
        V,
        "(2, 3, 6, 7) and (2, 3, 6, 11), got",
    ),
    ("other heads", append(KEY[:, :2], VALUE[:, :2]), V, FIT, "(2, 2, 1, 7)"),
    ("keys of another width", append(zeros(2, 3, 1, 8), VALUE), V, FIT, "(2, 3, 1, 8)"),
    ("values of another width", append(KEY, zeros(2, 3, 1, 8)), V, FIT, "(2, 3, 1, 8)"),
    ("another dtype", append(KEY.double(), VALUE), T, "must be torch.float32", "torch.float64"),
    ("a value of another dtype", append(KEY, VALUE.half()), T, "torch.float32", "torch.float16"),
    ("another device", append(KEY.to("meta"), VALUE), V, "must be on cpu", "meta"),
]

CONFIG = TransformerConfig(vocab_size=13, embed_dim=6, num_heads=3, max_length=5)
LENGTHS = torch.tensor([4, 2])


def model(source=(2, 4), lengths=LENGTHS, inputs=(2, 3), **changes):
    settings = {"vocab_size": 13, "embed_dim": 6, "num_heads": 3, **changes}
    return lambda: Transformer(TransformerConfig(**settings))(ids(*source), lengths, ids(*inputs))


def step(*shape):
    def call():
        whole = Transformer(CONFIG)
        whole.step(ids(*shape), whole.start(ids(2, 4), LENGTHS))

    return call


def block(memory, **keywords):
    return lambda: DecoderBlock(CONFIG)(zeros(2, 5, 6), memory, **keywords)


def with_caches(number):
    caches = [(KVCache(), KVCache())] * number
    return lambda: Decoder(CONFIG)(ids(2, 3), zeros(2, 4, 6), caches=caches)


def weights_of_fused():
    fused = Transformer(TransformerConfig(vocab_size=13, backend="fused"))
    fused.start(ids(2, 4), LENGTHS, need_weights=True)


BOTH = "source and lengths must have shapes (B, S) and (B,)"
OF_THE_STATE = "one for each row of the state, 2"
CLOSED = torch.zeros(2, 1, 4, dtype=torch.bool)
MODELS = [
    ("a source without a batch", model(source=(4,)), V, BOTH, "(4,) and (2,)"),
    ("another number of lengths", model(lengths=ids(3)), V, BOTH, "(2, 4) and (3,)"),
    ("lengths by query", model(lengths=ids(2, 3)), V, BOTH, "(2, 4) and (2, 3)"),
    ("a length beyond the source", model(lengths=torch.tensor([5, 1])), V, "size 4", "1 to 5"),
    ("float lengths of sources", model(lengths=LENGTHS.float()), T, "must be integers", "float32"),
    ("inputs without a batch", model(inputs=(3,)), V, "tokens must have shape (B, L)", "(3,)"),
    ("inputs of another batch", model(inputs=(3, 3)), V, "share B", "(3, 3, 6)", "(2, 4, 6)"),
    (
        "inputs beyond the last position",
        model(inputs=(2, 7), max_length=6),
        V,
        "from 0 to max_length - 1 = 5",
        "length = 7",
    ),
    ("a step of two tokens", step(2, 1), V, OF_THE_STATE, "(2, 1)"),
    ("a step of another batch", step(3), V, OF_THE_STATE, "(3,)"),
    ("too few caches", with_caches(1), V, "a pair for each of the 2 blocks", "got 1"),
    ("too many caches", with_caches(3), V, "a pair for each of the 2 blocks", "got 3"),
    ("a memory of another width", block(zeros(2, 4, 7)), V, "(B, S, 6)", "(2, 4, 7)"),
    ("a memory of another batch", block(zeros(3, 4, 6)), V, "share B", "(3, 4, 6)"),
    (
        "a float mask of the memory",
        block(zeros(2, 4, 6), memory_mask=CLOSED.float()),
        T,
        "must be a bool tensor",
        "float32",
    ),
    (
        "a mask of another memory",
        block(zeros(2, 5, 6), memory_mask=CLOSED),
        V,
        "(2, 1, 4)",
        "(2, 5, 5)",
    ),
    (
        "weights of the fused kernel",
        weights_of_fused,
        V,
        'backend must be "auto" or "explicit"',
    ),
]

SEGMENTS = "num_token_types must be 0 in a model that is told of no segments, got 2"
CONFIGS = [
    ("segments of a translator", model(num_token_types=2), V, SEGMENTS),
    (
        "segments of a decoder",
        lambda: Decoder(TransformerConfig(vocab_size=13, num_token_types=2)),
        V,
        SEGMENTS,
    ),
    (
        "a no in words",
        model(tie_embeddings="no"),
        V,
        "tie_embeddings must be one of (False, True), got 'no'",
    ),
    ("a yes in words", model(embed_norm="yes"), V, "embed_norm must be one of", "got 'yes'"),
    ("a scale of 2", model(scale_embeddings=2), V, "scale_embeddings must be one of", "got 2"),
    ("an infinite epsilon", model(layer_norm_eps=float("inf")), V, "above 0", "got inf"),
]

TABLE = [*CACHES, *MODELS, *CONFIGS]
