"""Wrong inputs to positions: a part of the table of `test_errors`, which tries them.

A row is (what it is, the call, the exception, words of the message).
"""

import torch

from attn_notes import positions as P

T, V = TypeError, ValueError
INF, NAN = float("inf"), float("nan")


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


# Each call with one argument spoilt.
CALLS = {
    "sinusoidal_encoding": lambda embed_dim=4, length=3, **k: P.sinusoidal_encoding(
        length, embed_dim, **k
    ),
    "rotation_between": lambda embed_dim=4, offset=3, **k: P.rotation_between(
        offset, embed_dim, **k
    ),
    "rotary_angles": lambda head_dim=4, length=3, **k: P.rotary_angles(length, head_dim, **k),
    "SinusoidalEncoding": lambda embed_dim=4, offset=0, base=10.0: P.SinusoidalEncoding(
        embed_dim, base=base
    )(zeros(3, 4), offset=offset),
    "LearnedEncoding": lambda max_length=8, embed_dim=4, offset=0: P.LearnedEncoding(
        max_length, embed_dim
    )(zeros(3, 4), offset=offset),
    "apply_rotary": lambda x=(5, 4), angles=(5, 2), layout="pairs": P.apply_rotary(
        zeros(*x), zeros(*angles), layout=layout
    ),
    "alibi_slopes": P.alibi_slopes,
    "alibi_bias": lambda num_heads=2, L=3, S=None, **k: P.alibi_bias(num_heads, L, S, **k),
}
EVEN, FIT = "even, 2 or more", "(..., L, D) and (L, D/2)"
SPOILT = [
    *[
        (call, {name: wrong}, error, name, word)
        for call, name in (
            ("sinusoidal_encoding", "embed_dim"),
            ("rotation_between", "embed_dim"),
            ("SinusoidalEncoding", "embed_dim"),
            ("rotary_angles", "head_dim"),
        )
        for wrong, error, word in ((5, V, f"must be {EVEN}: features turn"), (0, V, EVEN))
    ],
    *[
        (call, {"base": base}, V, f"base must be a positive number, got {base}")
        for call in ("sinusoidal_encoding", "SinusoidalEncoding")
        for base in (0, INF)
    ],
    ("rotary_angles", {"scale": 0.0}, V, "scale must be a positive number, got 0.0"),
    ("rotary_angles", {"length": -1}, V, "length must be at least 0, got -1"),
    *[
        (call, {"offset": 0.5}, T, "offset must be an integer, got 0.5")
        for call in CALLS
        if call not in ("apply_rotary", "alibi_slopes")
    ],
    *[
        (call, {"dtype": dtype} | more, T, f"dtype must be floating point, got {dtype!r}")
        for call, more in (
            ("sinusoidal_encoding", {}),
            ("alibi_slopes", {"num_heads": 2}),
            ("alibi_bias", {}),
        )
        for dtype in (torch.int64, "float32")
    ],
    ("LearnedEncoding", {"max_length": 0}, V, "max_length must be at least 1, got 0"),
    ("LearnedEncoding", {"embed_dim": 0}, V, "embed_dim must be at least 1, got 0"),
    *[
        ("LearnedEncoding", {"offset": offset}, V, f"offset = {offset} and length = 3", "1 = 7")
        for offset in (6, -1)
    ],
    *[
        ("apply_rotary", {"angles": angles}, V, FIT, f"x (5, 4) and angles {angles}")
        for angles in ((3, 2), (5, 4), (2, 5, 2), (2,))
    ],
    ("apply_rotary", {"x": (5, 3), "angles": (5, 1)}, V, FIT, "x (5, 3)"),
    ("apply_rotary", {"layout": "half"}, V, 'layout must be "pairs" or "halves"', "'half'"),
    ("alibi_slopes", {"num_heads": 0}, V, "num_heads must be at least 1, got 0"),
    ("alibi_bias", {"num_heads": 0}, V, "num_heads must be at least 1, got 0"),
    ("alibi_bias", {"L": -1}, V, "L must be at least 0, got -1"),
]
ADDED = {"sinusoidal": P.SinusoidalEncoding(4), "learned": P.LearnedEncoding(8, 4)}

TABLE = [
    *[
        (f"{call} with {wrong}", lambda call=call, wrong=wrong: CALLS[call](**wrong), error, *words)
        for call, wrong, error, *words in SPOILT
    ],
    *[
        (f"{what}: {call}", lambda module=module, x=x: module(x), error, *words)
        for call, module in ADDED.items()
        for what, x, error, *words in (
            ("one axis", zeros(4), V, "x must have shape (..., L, 4), got x (4,)"),
            ("another width", zeros(2, 3, 1), V, "(..., L, 4), got x (2, 3, 1)"),
            ("integers", zeros(3, 4).long(), T, "x must be floating point", "int64"),
        )
    ],
    (
        "integers to turn",
        lambda: P.apply_rotary(zeros(1, 2).long(), zeros(1, 1)),
        T,
        "x must be floating point, got torch.int64",
    ),
    (
        "integer angles",
        lambda: P.apply_rotary(zeros(1, 2), zeros(1, 1).long()),
        T,
        "angles must be floating point",
    ),
]
