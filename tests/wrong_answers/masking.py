"""Typical wrong answers to the exercises of chapter 3, and how each is named."""

from tests.wrong_answers import answers, guesses

EMPTY = {"a": set(), "b": set(), "c": {0, 1}, "d": {0}, "e": {2, 3}}
LENGTHS = """
def mask_from_lengths(lengths, size):
    mask = torch.arange(size) < lengths[:, None, None]
    return mask
"""
SOFTMAX = """
def softmax_over_open(scores, mask):
    filled = scores.masked_fill(~mask, -math.inf)
    return """
DIVIDED = """
def softmax_over_open(scores, mask):
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
"""
DILATED = """
def dilated_window(L, window, dilation):
    i = torch.arange(L)
    back = i[:, None] - i
    mask = (back >= 0) & (back % dilation == 0) & (back < window * dilation)
    return mask
"""

ANSWERS = answers(
    empty_rows=[
        *guesses(
            EMPTY,
            ("a", {0}, "every query of a causal mask may"),
            ("b", {2, 3}, "the mask hides keys and not queries"),
            ("d", set(), "query 0 could read only itself"),
            ("c", [0, 1, 2], "queries 0 and 1"),
        ),
        (f"answer = {EMPTY | {'d': 0}}", "d should be a set of rows, or set() for none, got 0"),
        (f"answer = {EMPTY} | {{'d': torch.tensor(0)}}", "or set() for none, got tensor(0)"),
    ],
    mask_from_lengths=[
        (LENGTHS, "< -> >=", "is the mask inverted?"),
        (LENGTHS, "< -> <=", "its third: < and not <="),
        (LENGTHS, "arange(size -> arange(1, size + 1", "should read key 1, its second"),
        (LENGTHS, ", None, None -> , None", "needs an axis for the queries"),
        (LENGTHS, "return mask -> return mask.float()", "have dtype torch.bool, got torch.float32"),
        (LENGTHS, "arange(size -> arange(int(lengths.max())", "and not size = 5"),
        (LENGTHS, "return mask -> return mask.mT", "the keys belong on the last axis"),
        (LENGTHS, "arange(size -> arange(5", "for two lengths and size = 7 the mask should have"),
        (LENGTHS, "mask = -> lengths.new_zeros(size)[lengths]\n    mask =", "raises IndexError"),
        ("mask_from_lengths = [[True, False]]", "the answer should be a function, got list"),
    ],
    softmax_with_empty_rows=[
        (SOFTMAX + "filled.softmax(-1)", "the empty row is NaN"),
        (SOFTMAX + "filled.softmax(2).nan_to_num()", "scores of four axes, of which the last"),
        (SOFTMAX + "filled.softmax(-1).nan_to_num()", "a NaN among the open scores disappears"),
        (SOFTMAX + "filled.clamp(min=-1e9).softmax(-1)", "the empty row attends to padding"),
        (SOFTMAX + "(scores + mask.log()).softmax(-1).nan_to_num()", "the gradient is NaN"),
        (SOFTMAX + "masks.masked_softmax(scores, ~mask)", "is the mask inverted?"),
        (SOFTMAX + "masks.masked_softmax(scores, mask)", "masked_softmax is the package's own"),
        ("softmax_over_open = masks.masked_softmax", "attn_notes.masks's own: write one yourself"),
        (SOFTMAX + "scores.masked_fill(~mask, -1e9).softmax(-1) * mask", "near -1e38 (fill with"),
        (SOFTMAX + "(scores + ~mask * -1.5e38).softmax(-1) * mask", "near -1e38 (fill with -inf"),
        (SOFTMAX + "masks.masked_softmax(filled.clamp(-500, 500), mask)", "do not clamp them"),
        (SOFTMAX + "masks.masked_softmax(filled.mT).mT", "the softmax runs over the queries"),
        (SOFTMAX + "scores.softmax(-1) * mask", "rows must sum to 1 again"),
        (DIVIDED, "a closed score of 200 decides its row (mask before the softmax)"),
        (DIVIDED, ".softmax(-1) -> .exp()", "overflow (subtract each row's maximum)"),
        (
            SOFTMAX + "masks.masked_softmax(filled).clamp_min(1e-7)",
            "a closed key has a small weight",
        ),
        (
            SOFTMAX + "masks.masked_softmax(filled).detach()",
            "gradient of the sum of squared weights",
        ),
    ],
    dilated_window=[
        (DILATED, "back % dilation == 0 -> True", " * dilation) -> )", "a dilation of 2 steps"),
        (DILATED, " & (back % dilation == 0) -> ", "though 1 is no multiple of 2"),
        (DILATED, " * dilation) -> )", "query 2 should read key 0: the keys span"),
        (DILATED, "window * dilation -> window + dilation", "dilation = 1: query 4 reads key 0"),
        (DILATED, "return mask -> return ~mask", "is the mask inverted?"),
        (DILATED, "i[:, None] - i -> i - i[:, None]", "is the mask transposed?"),
        (DILATED, "back < -> back <=", "query 6 reads key 0, one key too many"),
        (DILATED, "% dilation -> % 2", "* dilation -> * 2", "dilation = 3: the mask should be"),
        (DILATED, "(back >= 0) & -> ", "(back < -> (back.abs() <", "in its future"),
    ],
    find_leak=[
        ("answer = [None, None, None]", "layer 0 leaks"),
        ("answer = [(0, 1), (0, 1), (0, 1)]", "layer 1 is causal"),
        ("answer = [(0, 3), None, (0, 1)]", "layer 0: in (0, 3), t must be later than i and move"),
        ("answer = [(1, 0), None, (0, 1)]", "layer 0: in (1, 0), t must be later than i"),
        ("answer = [1, None, (0, 1)]", "layer 0: a leak should be a pair (i, t), got 1"),
        ("answer = 3", "the answer should be a list of three"),
    ],
)
