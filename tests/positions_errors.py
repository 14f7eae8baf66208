"""Wrong inputs to positions: a part of the table of `test_errors`, which tries them.

A row is (what it is, the call, the exception, words of the message).
"""

import torch

from attn_notes import positions as P

T, V = TypeError, ValueError
INF, NAN = float("inf"), float("nan")


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def turn(x, angles, **keywords):
    return lambda: P.apply_rotary(x, angles, **keywords)


# Each by its smallest call, that a keyword can spoil: the name of its width, and the call.
BY_WIDTH = {
    "sinusoidal_encoding": ("embed_dim", lambda width=4, **k: P.sinusoidal_encoding(3, width, **k)),
    "rotation_between": ("embed_dim", lambda width=4, **k: P.rotation_between(3, width, **k)),
    "SinusoidalEncoding": ("embed_dim", lambda width=4, **k: P.SinusoidalEncoding(width, **k)),
    "rotary_angles": ("head_dim", lambda width=4, **k: P.rotary_angles(3, width, **k)),
}
BY_POSITION = {
    "sinusoidal_encoding": lambda length=3, **k: P.sinusoidal_encoding(length, 4, **k),
    "rotary_angles": lambda length=3, **k: P.rotary_angles(length, 4, **k),
}
WITH_DTYPE = {
    "sinusoidal_encoding": lambda dtype: P.sinusoidal_encoding(3, 4, dtype=dtype),
    "rotation_between": lambda dtype: P.rotation_between(3, 4, dtype=dtype),
    "rotary_angles": lambda dtype: P.rotary_angles(3, 4, dtype=dtype),
    "alibi_slopes": lambda dtype: P.alibi_slopes(2, dtype=dtype),
    "alibi_bias": lambda dtype: P.alibi_bias(2, 3, dtype=dtype),
}
ADDED = {"sinusoidal": P.SinusoidalEncoding(4), "learned": P.LearnedEncoding(8, 4)}
STREAM = "x must have shape (..., L, 4)"
WITHIN = "from 0 to max_length - 1 = 7"
FIT = "(..., L, D) and (L, D/2)"

TABLE = [
    *[
        (f"{what}: {call}", lambda make=make, width=width: make(width), error, name, *words)
        for call, (name, make) in BY_WIDTH.items()
        for what, width, error, *words in (
            ("an odd width", 5, V, "must be even", "got 5"),
            ("a width of 0", 0, V, "2 or more", "got 0"),
            ("a negative width", -2, V, "2 or more", "got -2"),
            ("a float width", 4.0, T, "must be an integer", "got 4.0"),
        )
    ],
    *[
        (
            f"a base of {base}: {call}",
            lambda make=make, base=base: make(base=base),
            V,
            "base must be a positive number",
            f"got {base}",
        )
        for call, (_, make) in BY_WIDTH.items()
        for base in (0, -2.0, INF, NAN)
    ],
    *[
        (
            f"a base in words: {call}",
            lambda make=make: make(base="large"),
            T,
            "base must be a number, got 'large'",
        )
        for call, (_, make) in BY_WIDTH.items()
    ],
    *[
        (
            f"a scale of {scale}",
            lambda scale=scale: P.rotary_angles(3, 4, scale=scale),
            V,
            "scale must be a positive number",
            f"got {scale}",
        )
        for scale in (0.0, -1, INF, NAN)
    ],
    *[
        (f"{what}: {call}", lambda make=make, wrong=wrong: make(**wrong), error, *words)
        for call, make in BY_POSITION.items()
        for what, wrong, error, *words in (
            ("a negative length", {"length": -1}, V, "length must be at least 0", "got -1"),
            ("a float length", {"length": 2.5}, T, "length must be an integer", "got 2.5"),
            ("half a position", {"offset": 0.5}, T, "offset must be an integer", "got 0.5"),
            ("a tensor for offset", {"offset": zeros(1)}, T, "offset must be an integer"),
        )
    ],
    ("half a step", lambda: P.rotation_between(0.5, 4), T, "offset must be an integer", "got 0.5"),
    *[
        (
            f"a dtype of {dtype}: {call}",
            lambda make=make, dtype=dtype: make(dtype),
            T,
            "dtype must be floating point",
            f"got {dtype!r}",
        )
        for call, make in WITH_DTYPE.items()
        for dtype in (torch.int64, torch.complex64, "float32")
    ],
    *[
        (f"{what}: {call}", lambda module=module, x=x: module(x), error, *words)
        for call, module in ADDED.items()
        for what, x, error, *words in (
            ("one axis", zeros(4), V, STREAM, "got (4,)"),
            ("another width", zeros(2, 3, 1), V, STREAM, "got (2, 3, 1)"),
            ("integers", zeros(3, 4).long(), T, "x must be floating point", "int64"),
        )
    ],
    *[
        (
            f"half a position: {call}",
            lambda module=module: module(zeros(3, 4), offset=0.5),
            T,
            "offset must be an integer",
            "got 0.5",
        )
        for call, module in ADDED.items()
    ],
    *[
        (
            f"{length} positions from {offset} of 8 learned",
            lambda length=length, offset=offset: ADDED["learned"](zeros(length, 4), offset=offset),
            V,
            WITHIN,
            f"offset = {offset} and length = {length}",
        )
        for length, offset in ((9, 0), (1, 8), (3, 6), (1, -1))
    ],
    *[
        (
            f"{sizes} learned positions",
            lambda sizes=sizes: P.LearnedEncoding(*sizes),
            V,
            words,
        )
        for sizes, words in (
            ((0, 4), "max_length must be at least 1, got 0"),
            ((8, 0), "embed_dim must be at least 1, got 0"),
            ((-1, 4), "max_length must be at least 1, got -1"),
        )
    ],
    ("a float max_length", lambda: P.LearnedEncoding(8.0, 4), T, "max_length must be an integer"),
    ("a float embed_dim", lambda: P.LearnedEncoding(8, 4.0), T, "embed_dim must be an integer"),
    ("angles of fewer positions", turn(zeros(5, 4), zeros(3, 2)), V, FIT, "x (5, 4)", "(3, 2)"),
    ("angles of one position", turn(zeros(2, 5, 4), zeros(1, 2)), V, FIT, "(2, 5, 4)", "(1, 2)"),
    ("angles one a feature", turn(zeros(5, 4), zeros(5, 4)), V, FIT, "x (5, 4)", "angles (5, 4)"),
    ("angles of one pair", turn(zeros(5, 4), zeros(5, 1)), V, FIT, "x (5, 4)", "angles (5, 1)"),
    ("angles with a batch", turn(zeros(2, 5, 4), zeros(2, 5, 2)), V, FIT, "angles (2, 5, 2)"),
    ("angles of one axis", turn(zeros(5, 4), zeros(2)), V, FIT, "angles (2,)"),
    ("an odd head_dim to turn", turn(zeros(5, 3), zeros(5, 1)), V, FIT, "x (5, 3)"),
    ("a vector to turn", turn(zeros(4), zeros(1, 2)), V, FIT, "x (4,)"),
    ("integers to turn", turn(zeros(1, 2).long(), zeros(1, 1)), T, "x must be floating", "int64"),
    ("integer angles", turn(zeros(1, 2), zeros(1, 1).long()), T, "angles must be floating"),
    (
        "an unknown layout",
        turn(zeros(1, 2), zeros(1, 1), layout="half"),
        V,
        'layout must be "pairs" or "halves"',
        "'half'",
    ),
    ("slopes of no head", lambda: P.alibi_slopes(0), V, "num_heads must be at least 1", "got 0"),
    ("slopes of -1 heads", lambda: P.alibi_slopes(-1), V, "at least 1", "got -1"),
    ("slopes of 2.0 heads", lambda: P.alibi_slopes(2.0), T, "num_heads must be an integer", "2.0"),
    ("a bias of no head", lambda: P.alibi_bias(0, 3), V, "num_heads must be at least 1", "got 0"),
    ("a bias with a negative L", lambda: P.alibi_bias(2, -1), V, "L must be at least 0, got -1"),
    ("a bias with a negative S", lambda: P.alibi_bias(2, 3, -1), V, "S must be at least 0, got -1"),
    ("a bias with a float L", lambda: P.alibi_bias(2, 3.0), T, "L must be an integer", "3.0"),
    ("a bias with a float S", lambda: P.alibi_bias(2, 3, 4.5), T, "S must be an integer", "4.5"),
    (
        "a bias at half a position",
        lambda: P.alibi_bias(2, 3, offset=0.5),
        T,
        "offset must be an integer",
        "0.5",
    ),
]
