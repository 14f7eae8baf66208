"""Typical wrong answers to the exercises of chapter 10, and how each is named."""

from tests.wrong_answers import answers, guesses

COSTS = {"a": "four times", "b": "double", "c": "four times", "d": "same", "e": "double"}
COSTS |= {"f": "same"}
TOKEN = 2 * 32 * 8 * 128 * 2
BYTES = {"token": TOKEN, "text": 32_768 * TOKEN, "window": 4_096 * TOKEN, "own": 4 * TOKEN}

MENDED = """
def one_query(scores, values, tile):
    m, Z, u = scores.new_full((), float("-inf")), 0, 0
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        old, m = m, torch.maximum(m, a.max())
        base = m.clamp_min(-1e30)
        r, e = (old - base).exp(), (a - base).exp()
        Z, u = r * Z + e.sum(), r * u + e @ v
    return u / Z if Z > 0 else torch.zeros_like(u)
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
    base = lse.clamp_min(-1e30)
    a, b = (lse_a - base).exp()[:, None], (lse_b - base).exp()[:, None]
    return lse, a * out_a + b * out_b
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
DEALT = """
def deal(L, W):
    parts = torch.arange(L).split(L // (2 * W))
    return [torch.cat([parts[w], parts[2 * W - 1 - w]]) for w in range(W)]
"""
FROM_0 = 'scores.new_full((), float("-inf")) -> scores.new_zeros(())'
NO_ZEROS = " if Z > 0 else torch.zeros_like(u) -> "
NO_REMAINDER = "[: len(scores) // tile * tile].split(tile)"

ANSWERS = answers(
    attention_costs=guesses(
        COSTS,
        ("a", "double", "there is a weight for each"),
        ("b", "four times", "it keeps q, k, v"),
        ("c", "double", "tiles save memory"),
        ("d", "double", "one token has the same"),
        ("e", "same", "one query meets each key"),
        ("f", "double", "FLOPs and bytes both"),
    ),
    mended_rescaling=[
        (MENDED, "r * -> ", "tile = 4: nothing is rescaled when the maximum rises"),
        (MENDED, "r * u -> u", "the sum is rescaled, but the output is not"),
        (MENDED, "r * Z -> Z", "the output is rescaled, but the sum is not"),
        (MENDED, "(old - base).exp() -> (base - old).exp() if old > -1e9 else 1.0", "upside down"),
        (MENDED, "u / Z if -> u if", "divide the output by the sum at the end"),
        (MENDED, ".clamp_min(-1e30) -> ", NO_ZEROS, "-1,000: the output is nan"),
        (MENDED, NO_ZEROS, "all keys masked: the output is nan"),
        (MENDED, "torch.maximum(m, a.max()) -> (m if m > -1e30 else a.max())", "newest maximum"),
        (
            MENDED,
            "old, -> if a[0] == -torch.inf:\n            continue\n        old,",
            "keys masked",
        ),
        (MENDED, "strict=True) -> strict=True)][::-1]", "zip( -> [*zip(", "tile 1 is read after"),
        (NO_TILES, "softmax has 9 numbers, a tile 4: keep a maximum, a sum and an output"),
        (ONE_MAXIMUM, "max has 9 numbers, a tile 4"),
        (ONE_MAXIMUM, "scores.max() -> max(a.max() for a in scores.split(tile))", "tile 0 is read"),
        (ONE_MAXIMUM, "scores.max() -> 0 * scores[0]", "scores near 1,000 overflow (subtract the"),
        (MENDED, f".split(tile) -> {NO_REMAINDER}", "the last tile is shorter, and it is left out"),
        (MENDED, "torch.maximum(m, a.max()) -> a.max()", "a later tile may have a smaller maximum"),
        (MENDED, FROM_0, "scores near -1,000 (the maximum may be negative: begin at -inf"),
        (MENDED, FROM_0, NO_ZEROS, "begin at -inf): 0 / 0 is nan"),
    ],
    merged_parts=[
        (MERGED, "a * out_a + b * out_b -> (out_a + out_b) / 2", "by their sums, and not equally"),
        (MERGED, "a * out_a + b * out_b -> out_a + out_b", "weigh them before you add"),
        (MERGED, "a * out_a + b * out_b -> b * out_a + a * out_b", "the weight of the other"),
        (MERGED, "torch.logaddexp(lse_a, lse_b) -> lse_a + lse_b", "not the log-sum-exps"),
        (MERGED, "torch.logaddexp( -> torch.maximum(", "the larger log-sum-exp is not that of the"),
        (MERGED, ".clamp_min(-1e30) -> ", "with nothing to read is nan"),
        (
            CLAMPED,
            "torch.maximum(lse_a, lse_b) -> torch.where(lse_a > -1e9, lse_a, lse_b)",
            ".clamp(min=0) -> .clamp_min(-1e30)",
            "one part near -1,000, the other near 1,000: the log-sum-exp should be",
        ),
        (CLAMPED, "scores near -1,000 underflow: subtract the larger"),
        (CLAMPED, "m + both.log() -> torch.logaddexp(lse_a, lse_b)", "underflow: subtract the"),
        (MERGED, "return lse, -> return lse + 2e-3 * (lse > 900),", "1002.15533 at (0,), got"),
        (MERGED, "torch.logaddexp(lse_a, lse_b) -> (lse_a.exp() + lse_b.exp()).log()", "got inf"),
        (MERGED, "return lse, -> return", "return the log-sum-exp and the output, got"),
    ],
    balanced_ring=[
        (DEALT, "parts[w], parts[2 * W - 1 - w] -> parts[2 * w], parts[2 * w + 1]", "cut in order"),
        (DEALT, "parts[2 * W - 1 - w] -> parts[w + W]", "the latest with the earliest"),
        (
            DEALT,
            "parts[w], parts[2 * W - 1 - w] -> torch.arange(w, L, W)",
            "stripes are nearly even",
        ),
        (DEALT, "parts[2 * W - 1 - w] -> parts[w]", "belongs to exactly one device"),
        (
            DEALT,
            "[parts[w], parts[2 * W - 1 - w]] -> [parts[w]]",
            "each device holds 4 tokens, got 2",
        ),
        (
            DEALT,
            "parts[w], parts[2 * W - 1 - w]]) -> parts[w], parts[2 * W - 1 - w]]) / 2",
            "whole num",
        ),
        (
            DEALT,
            "return [ -> return torch.stack([",
            "(W)] -> (W)])",
            "a list of 2 tensors, one a device",
        ),
        (DEALT, "range(W)] -> range(W - 1)]", "a list of 2 tensors, one a device, got 1"),
        (DEALT, "- 1 - w]]) -> - 1 - w]]).tolist()", "has a tensor (L / W,) of whole numbers"),
    ],
    triton_log_sum_exp=[
        (KERNEL, "tl.exp(old - maximum) * -> ", "is not rescaled when the maximum rises"),
        (KERNEL, 'tl.load(at, columns < S, float("-inf")) -> tl.load(at)', "beyond its row"),
        (KERNEL, 'columns < S, float("-inf") -> columns < S, 0.0', "which adds nothing, and not 0"),
        (KERNEL, "range(0, S, TILE) -> range(0, TILE, TILE)", "the first tile alone is read"),
        (KERNEL, "range(0, S, -> range(0, S - TILE + 1,", "the last tile is shorter, and it is"),
        (KERNEL, "maximum + tl.log(total) -> tl.log(total)", "the maximum is to be added again"),
        (KERNEL, "range(0, S, -> range(0, 3 * TILE,", "S = 40, TILE = 4"),
        (KERNEL, "0, S, TILE -> 0, 64, 64", "0, TILE) -> 0, 64)", "TILE = 64: the first tile"),
        (KERNEL, "scores + row * S -> scores", "every program writes to row 0, or reads it"),
        (KERNEL, "tl.maximum(maximum, tl.max(a, 0)) -> tl.max(a, 0)", "have a smaller maximum"),
        (KERNEL, 'tl.full((), float("-inf"), -> tl.zeros((),', "may be negative: begin at -inf"),
    ],
    cache_bytes=[
        *guesses(
            BYTES,
            ("token", TOKEN // 2, "keys and values"),
            ("text", 4_096 * TOKEN, "every one of"),
            ("window", 32_768 * TOKEN, "4,096"),
            ("own", TOKEN, "32 heads instead of 8"),
        ),
        (f"answer = {BYTES | {'own': '512 KiB'}}", "own should be a number of bytes, got '512"),
    ],
)
