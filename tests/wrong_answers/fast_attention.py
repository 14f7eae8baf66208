"""Typical wrong answers to the exercises of chapter 10, and how each is named."""

from tests.wrong_answers import instead

COSTS = {"a": "four times", "b": "double", "c": "four times", "d": "same", "e": "double"}
COSTS |= {"f": "same"}
TOKEN = 2 * 32 * 8 * 128 * 2
BYTES = {"token": TOKEN, "text": 32_768 * TOKEN, "window": 4_096 * TOKEN, "own": 4 * TOKEN}

MENDED = """
def one_query(scores, values, tile):
    m, Z, u = scores.new_full((), float("-inf")), 0, 0
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        old, m = m, torch.maximum(m, a.max())
        base = m.masked_fill(m == float("-inf"), 0.0)
        r, e = (old - base).exp(), (a - base).exp()
        Z, u = r * Z + e.sum(), r * u + e @ v
    return u / Z if Z > 0 else torch.zeros_like(u)
"""
NO_MAXIMUM = """
def one_query(scores, values, tile):
    Z, u = 0, 0
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        Z, u = Z + a.exp().sum(), u + a.exp() @ v
    return u / Z
"""
NO_TILES = """
def one_query(scores, values, tile):
    if (scores == float("-inf")).all():
        return values.new_zeros(values.shape[1])
    return scores.softmax(0) @ values
"""
ONE_MAXIMUM = """
def one_query(scores, values, tile):
    m = scores.max().clamp_min(-1e9)
    Z, u = 0, 0
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        e = (a - m).exp()
        Z, u = Z + e.sum(), u + e @ v
    return u / Z if Z > 0 else torch.zeros_like(u)
"""
MERGED = """
def merge(lse_a, out_a, lse_b, out_b):
    lse = torch.logaddexp(lse_a, lse_b)
    base = lse.masked_fill(lse == float("-inf"), 0.0)
    a, b = (lse_a - base).exp(), (lse_b - base).exp()
    return lse, a[:, None] * out_a + b[:, None] * out_b
"""
OVERFLOWS = """
def merge(lse_a, out_a, lse_b, out_b):
    a, b = lse_a.exp(), lse_b.exp()
    both = (a + b).clamp_min(1e-30)
    out = (a[:, None] * out_a + b[:, None] * out_b) / both[:, None]
    return (a + b).log(), out
"""
CLAMPED = """
def merge(lse_a, out_a, lse_b, out_b):
    m = torch.maximum(lse_a, lse_b).clamp(min=0)
    a, b = (lse_a - m).exp(), (lse_b - m).exp()
    both = a + b
    out = (a[:, None] * out_a + b[:, None] * out_b) / (both + 1e-9)[:, None]
    return m + both.log(), out
"""
KERNEL = """
import triton.language as tl


def row_kernel(scores, out, S, TILE: tl.constexpr):
    row = tl.program_id(0)
    maximum = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, S, TILE):
        columns = start + tl.arange(0, TILE)
        at = scores + row * S + columns
        a = tl.load(at, columns < S, float("-inf"))
        old, maximum = maximum, tl.maximum(maximum, tl.max(a, 0))
        e = tl.exp(a - maximum)
        total = tl.exp(old - maximum) * total + tl.sum(e, 0)
    tl.store(out + row, maximum + tl.log(total))
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "attention_costs": [
        (f"answer = {COSTS | {'a': 'double'}}", "a is not 'double': there is a weight for each"),
        (f"answer = {COSTS | {'b': 'four times'}}", "b is not 'four times': it keeps q, k, v"),
        (f"answer = {COSTS | {'c': 'double'}}", "c is not 'double': tiles save memory"),
        (f"answer = {COSTS | {'d': 'double'}}", "d is not 'double': one token has the same"),
        (f"answer = {COSTS | {'e': 'same'}}", "e is not 'same': one query meets each key"),
        (f"answer = {COSTS | {'f': 'double'}}", "f is not 'double': FLOPs and bytes both"),
        (f"answer = {COSTS | {'f': 'twice'}}", 'f should be "same", "double" or "four times"'),
        ("answer = ['double'] * 6", "the answer must be a dictionary, got list"),
    ],
    "mended_rescaling": [
        (
            instead(MENDED, "r * Z", "Z").replace("r * u", "u"),
            "tile = 4: nothing is rescaled when the maximum rises",
        ),
        (instead(MENDED, "r * u", "u"), "the sum is rescaled, but the output is not"),
        (instead(MENDED, "r * Z", "Z"), "the output is rescaled, but the sum is not"),
        (
            instead(MENDED, "(old - base).exp()", "(base - old).exp() if old > -1e9 else 1.0"),
            "the factor is upside down: use exp(old - new)",
        ),
        (instead(MENDED, "u / Z if", "u if"), "divide the output by the sum at the end"),
        (
            instead(MENDED, 'masked_fill(m == float("-inf"), 0.0)', "clone()").replace(
                " if Z > 0 else torch.zeros_like(u)", ""
            ),
            "a first tile of masked keys: the output is nan: what is -inf minus -inf?",
        ),
        (
            instead(MENDED, "u / Z if Z > 0 else torch.zeros_like(u)", "u / Z"),
            "all keys masked: the output is nan",
        ),
        (NO_TILES, "softmax has 9 keys, a tile 4: keep a maximum, a sum and an output"),
        (ONE_MAXIMUM, "max has 9 keys, a tile 4"),
        (
            instead(ONE_MAXIMUM, "scores.max()", "scores[scores.argmax()]"),
            "argmax has 9 keys, a tile 4",
        ),
        (
            instead(ONE_MAXIMUM, "scores.max()", "max(a.max() for a in scores.split(tile))"),
            "max has 8 keys, a tile 4",
        ),
        (
            NO_MAXIMUM,
            "scores near 1,000 overflow (subtract the maximum)",
        ),
        (
            instead(
                MENDED,
                "scores.split(tile), values.split(tile)",
                "scores[:len(scores) // tile * tile].split(tile), "
                "values[:len(scores) // tile * tile].split(tile)",
            ),
            "tile = 4: the last tile is shorter, and it is left out",
        ),
        (
            instead(MENDED, "torch.maximum(m, a.max())", "a.max()"),
            "the largest score first: a later tile may have a smaller maximum",
        ),
        (
            instead(MENDED, "torch.maximum(m, a.max())", "a.max()").replace(
                "r * Z + e.sum(), r * u", "min(r, 1) * Z + e.sum(), min(r, 1) * u"
            ),
            "the largest score first: the output should be",
        ),
        (
            instead(MENDED, 'scores.new_full((), float("-inf"))', "scores.new_zeros(())"),
            "scores near -1,000 (the maximum may be negative: begin at -inf",
        ),
        (
            instead(MENDED, 'scores.new_full((), float("-inf"))', "scores.new_zeros(())").replace(
                "u / Z if Z > 0 else torch.zeros_like(u)", "u / (Z + 1e-9)"
            ),
            "scores near -1,000 (the maximum may be negative: begin at -inf",
        ),
        (
            instead(MENDED, 'scores.new_full((), float("-inf"))', "scores.new_zeros(())").replace(
                " if Z > 0 else torch.zeros_like(u)", ""
            ),
            "scores near -1,000 (the maximum may be negative: begin at -inf): 0 / 0 is nan",
        ),
        (
            instead(ONE_MAXIMUM, "scores.max()", "max((a + 0).max() for a in scores.split(tile))"),
            "max has 8 keys, a tile 4",
        ),
        ("one_query = 3", "the answer should be a function, got int"),
    ],
    "merged_parts": [
        (
            instead(MERGED, "a[:, None] * out_a + b[:, None] * out_b", "(out_a + out_b) / 2"),
            "the parts count by their sums, and not equally",
        ),
        (
            instead(MERGED, "a[:, None] * out_a + b[:, None] * out_b", "out_a + out_b"),
            "the outputs are means: weigh them before you add",
        ),
        (
            instead(
                MERGED,
                "a[:, None] * out_a + b[:, None] * out_b",
                "b[:, None] * out_a + a[:, None] * out_b",
            ),
            "each part has the weight of the other",
        ),
        (
            instead(MERGED, "torch.logaddexp(lse_a, lse_b)", "lse_a + lse_b"),
            "add the exponentials, not the log-sum-exps",
        ),
        (
            instead(MERGED, "torch.logaddexp(", "torch.maximum("),
            "the larger log-sum-exp is not that of the sum",
        ),
        (
            instead(MERGED, 'lse.masked_fill(lse == float("-inf"), 0.0)', "lse"),
            "a row with nothing to read is nan, and should be 0",
        ),
        (
            instead(MERGED, "return lse,", "return lse + 2e-3 * (lse > 900),"),
            "the log-sum-exp should be 1002.15533 at (0,), got 1002.15735",
        ),
        (
            CLAMPED,
            "scores near -1,000 underflow: subtract the larger log-sum-exp, and not 0",
        ),
        (
            instead(CLAMPED, "m + both.log()", "torch.logaddexp(lse_a, lse_b)"),
            "scores near -1,000 underflow: subtract the larger log-sum-exp, and not 0",
        ),
        (OVERFLOWS, "scores near 1,000 overflow: the log-sum-exp should be"),
        (instead(MERGED, "return lse, ", "return "), "return the log-sum-exp and the output, got"),
    ],
    "triton_log_sum_exp": [
        (
            instead(KERNEL, "tl.exp(old - maximum) * total", "total"),
            "the sum is not rescaled when the maximum rises",
        ),
        (
            instead(KERNEL, 'tl.load(at, columns < S, float("-inf"))', "tl.load(at)"),
            "a tile reaches beyond its row",
        ),
        (
            instead(KERNEL, 'columns < S, float("-inf")', "columns < S, 0.0"),
            "beyond the row read -inf, which adds nothing, and not 0",
        ),
        (
            instead(KERNEL, "range(0, S, TILE)", "range(0, TILE, TILE)"),
            "the first tile alone is read",
        ),
        (
            instead(KERNEL, "range(0, S, TILE)", "range(0, S - TILE + 1, TILE)"),
            "the last tile is shorter, and it is left out",
        ),
        (
            instead(KERNEL, "maximum + tl.log(total)", "tl.log(total)"),
            "the maximum is to be added again",
        ),
        (
            instead(KERNEL, "scores + row * S", "scores"),
            "every program writes to row 0, or reads it",
        ),
        (
            instead(KERNEL, "tl.maximum(maximum, tl.max(a, 0))", "tl.max(a, 0)"),
            "the largest score first: a later tile may have a smaller maximum",
        ),
        (
            instead(KERNEL, 'tl.full((), float("-inf"), tl.float32)', "tl.zeros((), tl.float32)"),
            "scores near -1,000: the maximum may be negative: begin at -inf",
        ),
        ("row_kernel = 3", "the answer should be a function, got int"),
    ],
    "cache_bytes": [
        (f"answer = {BYTES | {'token': TOKEN // 2}}", "token is not 65536: keys and values"),
        (f"answer = {BYTES | {'text': 4_096 * TOKEN}}", "text is not 536870912: every one of"),
        (f"answer = {BYTES | {'window': 32_768 * TOKEN}}", "window is not 4294967296: 4,096"),
        (f"answer = {BYTES | {'own': TOKEN}}", "own is not 131072: 32 heads instead of 8"),
        (f"answer = {BYTES | {'own': '512 KiB'}}", "own should be a number of bytes, got '512"),
    ],
}
