"""Typical wrong answers to the exercises of chapter 1, and how each is named."""

from tests.wrong_answers import answers, guesses

POND = {"a": "rises", "b": "stays", "c": "stays", "d": "rises", "e": "falls", "f": "rises"}
KERNEL = "def my_kernel(u):\n    return "
ERROR = """
def my_error(weights, values):
    own = weights.diagonal()
    residuals = (values - weights @ values) / (1 - own)
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
    tilt = (u - mean) / variance
    return weights * (1 - mean * tilt)
"""
HEIGHTS = """
def my_line(queries, keys, bandwidth):
    u = keys - queries[:, None]
    heights = torch.exp(-((u / bandwidth) ** 2) / 2)
    s0, s1, s2 = ((heights * u**r).sum(-1, keepdim=True) for r in (0, 1, 2))
    return heights * (s2 - s1 * u) / (s0 * s2 - s1**2)
"""
GROUP = """
def my_prediction(keys, values, groups, bandwidth):
    scores = -(((keys[:, None] - keys) / bandwidth) ** 2) / 2
    other = groups[:, None] != groups
    return scores.masked_fill(~other, -math.inf).softmax(-1) @ values
"""
CLOSED = "scores.masked_fill(~other, -math.inf).softmax(-1)"
MASKED_LATE = """
def my_prediction(keys, values, groups, bandwidth):
    scores = -(((keys[:, None] - keys) / bandwidth) ** 2) / 2
    weights = scores.softmax(-1) * (groups[:, None] != groups)
    return weights / weights.sum(-1, keepdim=True) @ values
"""
LOOP = """
def my_kernel(u):
    rows = [[15 / 16 * max(0, 1 - float(x) ** 2) ** 2 for x in row] for row in u]
    return torch.tensor(rows, device=u.device)
"""

ANSWERS = {
    "rises_or_falls": guesses(
        POND,
        ("a", "stays", "the weights do not change, and what they average does"),
        ("b", "falls", "does any distance between the query and a key change?"),
        ("c", "falls", "does any distance change, when it is measured in widths?"),
        ("d", "stays", "a key that is there twice has two shares"),
        ("e", "stays", "every key is now near, in widths"),
        ("f", "falls", "only differences of scores count"),
    ),
} | answers(
    biweight=[
        (KERNEL + "15 / 16 * (1 - u**2) ** 2", "clamp the parabola at 0 before you square it"),
        (KERNEL + "(1 - u**2).clamp(min=0) ** 2", "its area is 16/15"),
        (KERNEL + "0.75 * (1 - u**2).clamp(min=0) ** 2", "the constant of another kernel"),
        (KERNEL + "0.75 * (1 - u**2).clamp(min=0)", "this is Epanechnikov's kernel"),
        (KERNEL + "(1 - u.abs()).clamp(min=0)", "the kernel should be 0.527344 at (0, 2), got 0.5"),
        (LOOP, "the answer raises TypeError: iteration over a 0-d tensor"),
        (KERNEL + "[0.0] * len(u)", "should be a tensor, got list"),
    ],
    leave_one_out=[
        (ERROR, " / (1 - own) -> ", "this is the training error"),
        (ERROR, "values) / (1 - own) -> values + own * values)", "a row sums to less than 1"),
        (ERROR, ".square() -> ", "square the residuals before you average them"),
        (ERROR, ".mean() -> .sum()", "take their mean"),
        (ERROR, "diagonal() -> amax(-1)", "the leave-one-out error should be"),
        (ERROR, ".square().mean() -> ", "should have shape (), got (7,)"),
    ],
    nearest_neighbours=[
        (NEAREST, "topk(k, -> topk(k + 1,", "indices -> indices[:, :k]", "raises RuntimeError"),
        (NEAREST, "1 / k -> 1.0", "each row sums to 3: divide by k"),
        (NEAREST, ".abs() -> ", "with k = 1 differences with their sign"),
        (NEAREST, "largest=False -> largest=True", "these are the keys farthest away"),
        (NEAREST, "queries[:, None] - keys -> keys[:, None] - queries", "got (5, 4)"),
    ],
    local_linear=[
        (LINE, "(1 - mean * tilt) -> 1", "these are Nadaraya-Watson's weights"),
        (LINE, "(1 - mean * tilt) -> tilt", "these weights give the slope b"),
        (LINE, "1 - mean * tilt -> 1 + mean * tilt", "the weights should be"),
        (LINE, "u / bandwidth -> u / 0.9", "the weights should be"),
        (HEIGHTS, "far from the keys the heights underflow: work on the scores"),
    ],
    leave_group_out=[
        (MASKED_LATE, "far from all other groups the heights underflow"),
        (GROUP, "groups[:, None] != groups -> scores <= 0", "output 0 depends on value 0, its own"),
        (GROUP, CLOSED + " -> (scores.softmax(-1) * other)", "sums to less"),
        (GROUP, "groups[:, None] != groups -> keys[:, None] != keys", "two groups may share a key"),
        (GROUP, "groups[:, None] != groups -> values[:, None] != values", "share a value"),
        (GROUP, "groups[:, None] != groups -> ~torch.eye(7, dtype=bool)", "and keeps its copy"),
        (GROUP, CLOSED + " -> (scores - 1e4 * ~other).softmax(-1)", "fill with -inf"),
        (GROUP, "-math.inf -> -1e5", "fill with -inf: a finite number can still win"),
        (GROUP, "!= -> ==", "the mask is inverted"),
    ],
)
