"""Typical wrong answers to the exercises of chapter 2, and how each is named."""

from tests.wrong_answers import answers

WINNERS = {"dot": "b", "gaussian": "a", "dot, keys moved": "b", "gaussian, keys moved": "c"}
COSINE = """
def cosine_score(query, key):
    q, k = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    return q @ k.mT
"""
DETACHED = "query / query.detach().norm(2, -1, True).clamp(1e-12)"
WEIGHTS = """
def weights_of(query, key):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1)
"""
MEASURE = """
def measure(d):
    torch.manual_seed(0)
    query, key = torch.randn(400, d), torch.randn(64, d)
    scores = query @ key.T / d
    entropy = torch.special.entr(scores.softmax(-1)).sum(-1)
    variance, share = scores.var().item(), entropy.mean().item() / math.log(64)
    return variance, share
"""
TEMPERATURE = """
def temperature_for(scores, entropy):
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        weights = (scores / middle).softmax(-1)
        if torch.special.entr(weights).sum() < entropy:
            low = middle
        else:
            high = middle
    return middle
"""
FORMULA_SHARE = "1 - 1 / (2 * d * math.log(64))"
FORMULA = """
def measure(d):
    return 1 / d + 1e-9, 1 - 1 / (2 * d * math.log(64))
"""

ANSWERS = answers(
    which_key_wins=[
        (f"prediction = {WINNERS | {'dot': 'a'}}", "being the query itself is no guarantee"),
        (f"prediction = {WINNERS | {'gaussian, keys moved': 'a'}}", "every distance changes"),
        (f"prediction = {WINNERS | {'gaussian': 'b'}}", "0 for a key on the query"),
        (f"prediction = {WINNERS | {'dot, keys moved': 'd'}}", "the same number to every dot"),
        (f"prediction = {WINNERS | {'dot': None}}", "dot has no guess"),
    ],
    cosine_score=[
        (COSINE, "q @ k.mT -> query @ key.mT", "this is the dot product: divide by both lengths"),
        (COSINE, "q @ k.mT -> query @ key.mT / 7**0.5", "not by the two lengths"),
        (COSINE, "F.normalize(query, -> query / query.norm(keepdim=True,", "a query of zeros"),
        (COSINE, "F.normalize(key, -> key / key.norm(keepdim=True,", "a key of zeros gives NaN"),
        (COSINE, "dim=-1) -> dim=-1, eps=0.2)", "short vectors have the same cosine"),
        (COSINE, "F.normalize(key, dim=-1) -> (key / key.norm(2, -1, True)).nan_to_num()", "NaN"),
        (COSINE, f"F.normalize(query, dim=-1) -> {DETACHED}", "(detach nothing)"),
        (COSINE, "k.mT -> key.mT", "the cosines should be"),
        (COSINE, "k.mT -> k.transpose(1, 2)", "raises IndexError: Dimension"),
        (COSINE, "q @ k.mT -> k @ q.mT", "rows are queries, (..., L, S)"),
    ],
    softmax_axis=[
        (WEIGHTS, "dim=-1 -> dim=-2", "(5, 11) the softmax ran over axis 0, the queries"),
        (WEIGHTS, "dim=-1 -> dim=1", "(2, 5, 11) the softmax ran over axis 1, the queries"),
        (WEIGHTS, "dim=-1 -> dim=2 if query.dim() > 2 else -1", "over axis 2, the queries"),
        (WEIGHTS, "dim=-1 -> dim=2", "(5, 11) an axis is asked for that is not there"),
        (
            WEIGHTS,
            "key.mT -> key.transpose(1, 2)",
            "(5, 11) an axis is asked for that is not there",
        ),
        (WEIGHTS, ".softmax(dim=-1) -> ", "the weights should be"),
    ],
    divide_by_width=[
        (MEASURE, "key.T / d -> key.T / math.sqrt(d)", "you still divide by the root"),
        (MEASURE, "return variance, share -> return share, variance", "share stands first"),
        (MEASURE, "return variance, share -> return variance, 1.0", "about 7.5e-03 of it, got 0.0"),
        (MEASURE, "entropy.mean() -> entropy[0]", "measure both numbers"),
        (MEASURE, " / math.log(64) -> ", "divide nats by ln 64"),
        (MEASURE, "return variance -> return 1 / d", "1/16 is the prediction"),
        (FORMULA, "measure both"),
        (FORMULA, "1 / d + 1e-9 -> 1.01 / d", "measure both"),
        (MEASURE, f"return variance, share -> return variance, {FORMULA_SHARE}", "measure both"),
        (MEASURE, "randn(400 -> randn(401", "keep the draws"),
        (MEASURE, "scores.var() -> scores.std()", "square it"),
        (MEASURE, "return variance, -> return", "return two numbers"),
    ],
    entropy_to_order=[
        (TEMPERATURE, "return middle -> return 1 / middle", "this is 1/T"),
        (TEMPERATURE, ".sum() -> .sum() / math.log(2)", "an entropy in bits"),
        (TEMPERATURE, ".sum() -> .sum() / math.log(12)", "a share of ln 12"),
        (TEMPERATURE, ".sum() -> .sum().exp()", "gives 0.0000: raise it"),
        (TEMPERATURE, "1e-6, 1e6 -> 0.1, 10", "the temperature 0.1 gives 0.5870: lower it"),
        (TEMPERATURE, "< entropy -> > entropy", "and an entropy of 0.9 the temperature"),
        (TEMPERATURE, "range(100) -> range(9)", "and an entropy of 0.9 the temperature"),
        (TEMPERATURE, "return middle -> return scores", "return one number, got Tensor"),
        (TEMPERATURE, "return middle -> return math.log(middle)", "a number above 0"),
    ],
)
