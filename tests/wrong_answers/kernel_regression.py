"""Typical wrong answers to the exercises of chapter 1, and the words that name the mistake."""

from tests.wrong_answers import instead

EVEN, LAST = [0.2] * 5, [0, 0, 0, 0, 1]
KERNEL = "def my_kernel(u):\n    return "
ERROR = """
def my_error(weights, values):
    residuals = (values - weights @ values) / (1 - weights.diagonal())
    return residuals.square().mean()
"""
NEAREST = """
def my_weights(queries, keys, k):
    distances = (queries[:, None] - keys).abs()
    nearest = distances.topk(k, largest=False).indices
    return torch.zeros_like(distances).scatter(-1, nearest, 1 / k)
"""
LINE = """
def my_line(queries, keys, bandwidth):
    u = keys - queries[:, None]
    heights = torch.exp(-((u / bandwidth) ** 2) / 2)
    s0, s1, s2 = ((heights * u**r).sum(-1, keepdim=True) for r in (0, 1, 2))
    return heights * (s2 - s1 * u) / (s0 * s2 - s1**2)
"""
GROUP = """
def my_prediction(keys, values, groups, bandwidth):
    scores = -(((keys[:, None] - keys) / bandwidth) ** 2) / 2
    return masked_softmax(scores, groups[:, None] != groups) @ values
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "three_rows": [
        (f"answer = {[EVEN, LAST, LAST]}", "never looks at the query"),
        (f"answer = {[[1.0] * 5, [1.0] * 5, LAST]}", "each row must sum to 1"),
        (f"answer = {[EVEN, LAST]}", "should have shape (3, 5), got (2, 5)"),
    ],
    "epanechnikov": [
        (KERNEL + "(1 - u.abs()).clamp(min=0)", "this is the triangular kernel"),
        (KERNEL + "0.75 * (1 - u**2)", "never negative: clamp it"),
    ],
    "leave_one_out": [
        (instead(ERROR, " / (1 - weights.diagonal())", ""), "this is the training error"),
        (
            instead(
                ERROR,
                "weights @ values) / (1 - weights.diagonal())",
                "(weights - weights.diagonal().diag()) @ values)",
            ),
            "a row sums to less than 1",
        ),
    ],
    "nearest_neighbours": [
        (instead(NEAREST, "1 / k", "1.0"), "each row sums to 3: divide by k"),
        (instead(NEAREST, ".abs()", ""), "with k = 1 the weights should be"),
    ],
    "local_linear": [
        (
            instead(LINE, "(s2 - s1 * u) / (s0 * s2 - s1**2)", "/ s0").replace("* /", "/"),
            "these are Nadaraya-Watson's weights",
        ),
        (instead(LINE, "s2 - s1 * u", "s2 + s1 * u"), "the weights should be"),
    ],
    "leave_group_out": [
        (
            instead(GROUP, "groups[:, None] != groups", "scores <= 0"),
            "output 0 depends on value 0, its own",
        ),
        (
            instead(
                GROUP,
                "masked_softmax(scores, groups[:, None] != groups)",
                "(scores.softmax(-1) * (groups[:, None] != groups))",
            ),
            "a row sums to less than 1",
        ),
    ],
}
