"""Wrong inputs to positions: a part of the table of `test_errors`, which tries them.

A row is (what it is, the call, the exception, words of the message).
"""

import torch

from attn_notes import positions as P

T, V = TypeError, ValueError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def rotate(x=(5, 4), angles=(5, 2), **layout):
    return lambda: P.apply_rotary(zeros(*x), zeros(*angles), **layout)


def learned(offset=0, **sizes):
    return lambda: P.LearnedEncoding(**{"max_length": 8, "embed_dim": 4} | sizes)(X, offset=offset)


X, IDS = zeros(3, 4), zeros(3, 4).long()
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
    (OF_A_BASE, 0, V, "base must be a positive number, got 0"),
    (OF_AN_OFFSET, 0.5, T, "offset must be an integer, got 0.5"),
    (OF_A_DTYPE, torch.int64, T, "dtype must be floating point, got torch.int64"),
    (OF_A_DTYPE, "float32", T, "dtype must be floating point, got 'float32'"),
    (OF_AN_INPUT, zeros(4), V, "x must have shape (..., L, 4), got x (4,)"),
    (OF_AN_INPUT, IDS, T, "x must be floating point, got torch.int64"),
]

FIT, ONE = "(..., L, D) and (L, D/2), got ", "must be at least 1, got 0"
TABLE = [
    *(
        (f"{name}: {words}", lambda call=call, wrong=wrong: call(wrong), error, words)
        for callers, wrong, error, words in SPOILT
        for name, call in callers.items()
    ),
    ("a scale of 0", lambda: P.rotary_angles(3, 4, scale=0.0), V, "scale must be a positive"),
    ("a length of -1", lambda: P.rotary_angles(-1, 4), V, "length must be at least 0, got -1"),
    ("no learned position", learned(max_length=0), V, f"max_length {ONE}"),
    ("no learned width", learned(embed_dim=0), V, f"embed_dim {ONE}"),
    ("fewer angles", rotate(angles=(3, 2)), V, f"{FIT}x (5, 4) and angles (3, 2)"),
    ("angles of one position", rotate(angles=(2,)), V, f"{FIT}x (5, 4) and angles (2,)"),
    ("an odd width", rotate((5, 3), (5, 1)), V, f"{FIT}x (5, 3)"),
    ("half a layout", rotate(layout="half"), V, 'layout must be "pairs" or "halves", got \'half\''),
    ("integers to turn", lambda: P.apply_rotary(IDS, X), T, "x must be floating point, got"),
    ("integer angles", lambda: P.apply_rotary(X, IDS), T, "angles must be floating point"),
    ("slopes of no head", lambda: P.alibi_slopes(0), V, f"num_heads {ONE}"),
]
