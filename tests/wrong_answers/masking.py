"""Typical wrong answers to the exercises of chapter 3, and how each is named."""

from tests.wrong_answers import instead

EMPTY = {"a": set(), "b": set(), "c": {0, 1}, "d": {0}, "e": {2, 3}}
LENGTHS = """
def mask_from_lengths(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None, None]
"""
SOFTMAX = "\ndef softmax_over_open(scores, mask):\n    return "
DILATED = """
def dilated_window(L, window, dilation):
    i = torch.arange(L, device=device)
    back = i[:, None] - i
    return (back >= 0) & (back % dilation == 0) & (back < window * dilation)
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "empty_rows": [
        (f"answer = {EMPTY | {'a': {0}}}", "a is not {0}: every query of a causal mask may"),
        (f"answer = {EMPTY | {'b': {2, 3}}}", "b is not {2, 3}: keys are hidden, not queries"),
        (f"answer = {EMPTY | {'d': set()}}", "d is not set(): query 0 had only itself"),
    ],
    "mask_from_lengths": [
        (instead(LENGTHS, "<", ">="), "is the mask inverted?"),
        (instead(LENGTHS, "<", "<="), "its third: < and not <="),
        (instead(LENGTHS, ", None, None", ", None"), "needs an axis for the queries"),
        (
            instead(LENGTHS, "None]", "None] + 0.0").replace("return ", "return 1.0 * (") + ")",
            "the mask (True = may attend) should have dtype torch.bool, got torch.float32",
        ),
    ],
    "softmax_with_empty_rows": [
        (SOFTMAX + "scores.masked_fill(~mask, -math.inf).softmax(-1)", "the empty row is NaN"),
        (SOFTMAX + "scores.masked_fill(~mask, -1e9).softmax(-1)", "the empty row attends to"),
        (
            SOFTMAX + "torch.where(mask.any(-1, keepdim=True), (scores + torch.zeros_like(scores)"
            ".masked_fill(~mask, float('-inf'))).softmax(-1), 0.0)",
            "the empty row's gradient is NaN",
        ),
        (SOFTMAX + "masked_softmax(scores, ~mask)", "is the mask inverted?"),
    ],
    "dilated_window": [
        (
            instead(
                DILATED,
                " & (back % dilation == 0) & (back < window * dilation)",
                " & (back < window)",
            ),
            "with a dilation of 2 it steps over that",
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
    ],
}
