"""Typical wrong answers to the exercises of chapter 3, and how each is named."""

from tests.wrong_answers import instead

EMPTY = {"a": set(), "b": set(), "c": {0, 1}, "d": {0}, "e": {2, 3}}
LENGTHS = """
def mask_from_lengths(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None, None]
"""
SOFTMAX = "\ndef softmax_over_open(scores, mask):\n    return "
DIVIDED = """
def softmax_over_open(scores, mask):
    weights = {} * mask
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
"""
WHERE = """
def softmax_over_open(scores, mask):
    mask = mask.expand(scores.shape)
    m = scores.masked_fill(~mask, float("-inf")).amax(-1, keepdim=True)
    e = torch.where(mask, (scores - m.masked_fill(m == float("-inf"), 0.0)).exp(), 0.0)
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)
"""
DILATED = """
def dilated_window(L, window, dilation):
    i = torch.arange(L, device=device)
    back = i[:, None] - i
    return (back >= 0) & (back % dilation == 0) & (back < window * dilation)
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "empty_rows": [
        (f"answer = {EMPTY | {'a': {0}}}", "a is not {0}: every query of a causal mask may"),
        (
            f"answer = {EMPTY | {'b': {2, 3}}}",
            "b is not {2, 3}: the mask hides keys and not queries",
        ),
        (f"answer = {EMPTY | {'d': set()}}", "d is not set(): query 0 could read only itself"),
        (f"answer = {EMPTY | {'c': [0, 1, 2]}}", "c is not [0, 1, 2]: queries 0 and 1"),
        (
            f"answer = {EMPTY | {'d': 0}}",
            "d should be a set of rows, or set() for none, got 0",
        ),
        (f"answer = {EMPTY} | {{'d': torch.tensor(0)}}", "or set() for none, got tensor(0)"),
        (
            "answer = [set(), set(), {0, 1}, {0}, {2, 3}]",
            "the answer must be a dictionary, got list",
        ),
    ],
    "mask_from_lengths": [
        (instead(LENGTHS, "<", ">="), "is the mask inverted?"),
        (instead(LENGTHS, "<", "<="), "its third: < and not <="),
        (instead(LENGTHS, "arange(size", "arange(1, size + 1"), "should read key 1, its second"),
        (instead(LENGTHS, ", None, None", ", None"), "needs an axis for the queries"),
        (
            instead(LENGTHS, "None]", "None] + 0.0").replace("return ", "return 1.0 * (") + ")",
            "the mask (True = may attend) should have dtype torch.bool, got torch.float32",
        ),
        (instead(LENGTHS, "arange(size", "arange(int(lengths.max())"), "and not size = 5"),
        (
            instead(LENGTHS, "lengths[:, None, None]", "lengths[:, None, None]).mT").replace(
                "return ", "return ("
            ),
            "the keys belong on the last axis",
        ),
        ("mask_from_lengths = [[True, False]]", "the answer should be a function, got list"),
    ],
    "softmax_with_empty_rows": [
        (SOFTMAX + "scores.masked_fill(~mask, -math.inf).softmax(-1)", "the empty row is NaN"),
        (SOFTMAX + "scores.masked_fill(~mask, -1e9).softmax(-1)", "the empty row attends to"),
        (
            SOFTMAX + "torch.where(mask.any(-1, keepdim=True), (scores + torch.zeros_like(scores)"
            ".masked_fill(~mask, float('-inf'))).softmax(-1), 0.0)",
            "the gradient is NaN in an empty row or at a closed score",
        ),
        (
            WHERE,
            "the gradient is NaN in an empty row or at a closed score",
        ),
        (SOFTMAX + "masked_softmax(scores, ~mask)", "is the mask inverted?"),
        (SOFTMAX + "masked_softmax(scores, mask)", "masked_softmax is the package's own function"),
        ("softmax_over_open = masked_softmax", "masked_softmax is the package's own function"),
        (
            SOFTMAX + "scores.masked_fill(~mask, -1e30).softmax(-1) * mask",
            "open scores near -1e38 lie below the fill (use -inf)",
        ),
        (
            SOFTMAX + "(scores + torch.where(mask, 0.0, -1e9)).softmax(-1) * mask",
            "open scores near -1e38 lie below the fill (use -inf)",
        ),
        (
            SOFTMAX + "masked_softmax(scores.mT, mask.expand(scores.shape).mT).mT",
            "the softmax runs over the queries",
        ),
        (SOFTMAX + "scores.softmax(-1) * mask", "rows must sum to 1 again"),
        (
            DIVIDED.format("scores.softmax(-1)"),
            "a closed score of 200 decides its row (mask before the softmax)",
        ),
        (
            DIVIDED.format("scores.exp()"),
            "overflow (subtract each row's maximum)",
        ),
        (
            SOFTMAX + "scores.masked_fill(~mask, -1e9).softmax(-1) * mask",
            "open scores near -1e38 lie below the fill (use -inf)",
        ),
        (
            SOFTMAX + "masked_softmax(scores, mask).clamp_min(1e-7)",
            "a closed key has a small weight: it should be exactly 0",
        ),
        (
            SOFTMAX + "masked_softmax(scores.masked_fill_(~mask, -math.inf), mask)",
            "changes its argument in place",
        ),
        (
            SOFTMAX + "masked_softmax(scores, mask).detach()",
            "the gradient of the sum of squared weights should be",
        ),
        (SOFTMAX + "masked_softmax(scores, mask).tolist()", "should be a tensor, got list"),
    ],
    "dilated_window": [
        (
            instead(
                DILATED,
                " & (back % dilation == 0) & (back < window * dilation)",
                " & (back < window)",
            ),
            "a dilation of 2 steps over it",
        ),
        (instead(DILATED, " & (back % dilation == 0)", ""), "though 1 is no multiple of 2"),
        (instead(DILATED, " * dilation)", ")"), "query 2 should read key 0: the keys span"),
        (
            instead(DILATED, "return ", "return ~(").replace("dilation)\n", "dilation))\n"),
            "is the mask inverted?",
        ),
        (instead(DILATED, "i[:, None] - i", "i - i[:, None]"), "is the mask transposed?"),
        (instead(DILATED, "back <", "back <="), "query 6 reads key 0, one key too many"),
        (
            instead(DILATED, "% dilation", "% 2").replace("* dilation", "* 2"),
            "L = 10, window = 2, dilation = 3: the mask should be",
        ),
        (
            instead(DILATED, "(back >= 0) & ", "").replace("(back <", "(back.abs() <"),
            "in its future",
        ),
    ],
    "find_leak": [
        ("answer = [None, None, None]", "layer 0 leaks"),
        ("answer = [(0, 1), (0, 1), (0, 1)]", "layer 1 is causal"),
        ("answer = [(0, 3), None, (0, 1)]", "layer 0: in (0, 3), t must be later than i and move"),
        ("answer = [(1, 0), None, (0, 1)]", "layer 0: in (1, 0), t must be later than i"),
        ("answer = [1, None, (0, 1)]", "layer 0: a leak should be a pair (i, t), got 1"),
        ("answer = 3", "the answer should be a list of three"),
    ],
}
