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
    weights = (-((u / bandwidth) ** 2) / 2).softmax(-1)
    mean = (weights * u).sum(-1, keepdim=True)
    variance = (weights * (u - mean) ** 2).sum(-1, keepdim=True)
    return weights * (1 - mean * (u - mean) / variance)
"""
HEIGHTS = """
def my_line(queries, keys, bandwidth):
    u = keys - queries[:, None]
    heights = torch.exp(-((u / bandwidth) ** 2) / 2)
    s0, s1, s2 = ((heights * u**r).sum(-1, keepdim=True) for r in (0, 1, 2))
    return heights * (s2 - s1 * u) / (s0 * s2 - s1**2)
"""
SHARES = """
def my_line(queries, keys, bandwidth):
    u = keys - queries[:, None]
    heights = torch.exp(-((u / bandwidth) ** 2) / 2)
    weights = heights / heights.sum(-1, keepdim=True)
    mean = (weights * u).sum(-1, keepdim=True)
    variance = (weights * (u - mean) ** 2).sum(-1, keepdim=True)
    return weights * (1 - mean * (u - mean) / variance)
"""
GROUP = """
def my_prediction(keys, values, groups, bandwidth):
    scores = -(((keys[:, None] - keys) / bandwidth) ** 2) / 2
    return masked_softmax(scores, groups[:, None] != groups) @ values
"""
OTHER = "groups[:, None] != groups"

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "three_rows": [
        (f"answer = {[EVEN, LAST, LAST]}", "never looks at the query"),
        (f"answer = {[[1.0] * 5, [1.0] * 5, LAST]}", "each row must sum to 1"),
        (f"answer = {[EVEN, LAST]}", "should have shape (3, 5), got (2, 5)"),
        (f"answer = {[EVEN, EVEN, [0.0] * 5]}", "row 2 must sum to 1: only the differences"),
        (f"answer = {[EVEN] * 3}", "the table should be 0 at (2, 0), got 0.2"),
        (f"answer = {[EVEN, EVEN, None]}", "write three lists of five numbers each"),
        (f"answer = {[EVEN, EVEN, [0, 0, 0, 1]]}", "write three lists of five numbers each"),
        ("answer = {'rows': 3}", "write three lists of five numbers each"),
    ],
    "biweight": [
        (KERNEL + "15 / 16 * (1 - u**2) ** 2", "clamp the parabola at 0 before you square it"),
        (KERNEL + "(1 - u**2).clamp(min=0) ** 2", "its area is 16/15"),
        (KERNEL + "0.75 * (1 - u**2).clamp(min=0) ** 2", "the constant of another kernel"),
        (KERNEL + "0.75 * (1 - u**2).clamp(min=0)", "this is Epanechnikov's kernel"),
        (KERNEL + "(1 - u.abs()).clamp(min=0)", "the kernel should be 0.527344 at (0, 2), got 0.5"),
        (KERNEL + "[0.0] * len(u)", "should be a tensor, got list"),
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
        (instead(ERROR, ".square()", ""), "square the residuals before you average them"),
        (instead(ERROR, ".square()", ".abs()"), "the leave-one-out error should be"),
        (instead(ERROR, ".mean()", ".sum()"), "take their mean"),
        (
            instead(ERROR, "weights.diagonal())", "weights.diagonal().mean())"),
            "the leave-one-out error should be",
        ),
        (instead(ERROR, ".square().mean()", ""), "should have shape (), got (7,)"),
    ],
    "nearest_neighbours": [
        (instead(NEAREST, "1 / k", "1.0"), "each row sums to 3: divide by k"),
        (instead(NEAREST, ".abs()", ""), "with k = 1 differences with their sign"),
        (instead(NEAREST, "largest=False", "largest=True"), "these are the keys farthest away"),
        (instead(NEAREST, "queries[:, None] - keys", "keys[:, None] - queries"), "got (5, 4)"),
        (instead(NEAREST, "scatter(-1, nearest, 1 / k)", "T"), "got (5, 4)"),
    ],
    "local_linear": [
        (
            instead(LINE, "(1 - mean * (u - mean) / variance)", "1"),
            "these are Nadaraya-Watson's weights",
        ),
        (
            instead(LINE, "(1 - mean * (u - mean) / variance)", "(u - mean) / variance"),
            "these weights give the slope b",
        ),
        (instead(LINE, "(1 - mean", "(1 + mean"), "the weights should be"),
        (instead(LINE, "u / bandwidth", "u / 0.9"), "the weights should be"),
        (instead(LINE, "u / bandwidth", "0 * u"), "the weights should be"),
        (HEIGHTS, "far from the keys the heights underflow: work on the scores"),
        (SHARES, "far from the keys the heights underflow: work on the scores"),
    ],
    "leave_group_out": [
        (instead(GROUP, OTHER, "scores <= 0"), "output 0 depends on value 0, its own"),
        (
            instead(
                GROUP,
                "masked_softmax(scores, groups[:, None] != groups)",
                "(scores.softmax(-1) * (groups[:, None] != groups))",
            ),
            "a row sums to less than 1",
        ),
        (instead(GROUP, OTHER, "keys[:, None] != keys"), "two groups may share a key"),
        (instead(GROUP, OTHER, "values[:, None] != values"), "two groups may share a value"),
        (
            instead(GROUP, OTHER, "~torch.eye(len(keys), dtype=bool, device=device)"),
            "this leaves out the point and keeps its copy",
        ),
        (instead(GROUP, OTHER, "groups[:, None] == groups"), "the mask is inverted"),
    ],
}
