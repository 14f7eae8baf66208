"""Typical wrong answers to the exercises of chapter 8, and how each is named."""

from tests.wrong_answers import instead

CHECKS = {"a": "steps", "b": "steps", "c": "none", "d": "batch", "e": "causal"}

RATE = """
def rate(t, warmup, cooldown, total, peak):
    def root(t):
        return peak * min(t / warmup, (warmup / t) ** 0.5)

    start = total - cooldown
    return root(t) if t < start else root(start) * (total - t) / cooldown
"""
GRADIENT = """
def gradient(logits, labels, eps):
    N, V = logits.shape
    wanted = torch.full_like(logits, eps / V)
    wanted[range(N), labels] += 1 - eps
    return (logits.softmax(-1) - wanted) / N
"""
AUTOGRAD = """
def gradient(logits, labels, eps):
    logits = logits.clone().requires_grad_()
    F.cross_entropy(logits, labels, label_smoothing=eps).backward()
    return logits.grad
"""
CEILING = """
def ceiling(numbers):
    groups = {tuple(sorted(str(number))) for number in numbers}
    return len(groups) / len(numbers)
"""
BY_HAND = """
def ceiling(numbers):
    import math
    from itertools import permutations
    orders = [%s for n in numbers]
    return sum(1 / each for each in orders) / len(numbers)
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "three_pieces": [
        (instead(RATE, "min(t / warmup, (warmup / t) ** 0.5)", "min(t**-0.5, t * warmup**-1.5)"),
         "too low by the root of warmup"),
        (instead(RATE, "(warmup / t) ** 0.5", "warmup / t"), "like the root of t, not like t"),
        (instead(RATE, "root(start) * (", "peak * ("), "begins at the rate of that step"),
        (instead(RATE, "root(start) * (", "root(t) * ("), "a straight line, with no root in it"),
        (instead(RATE, "root(t) if t < start else", "root(t) if t else"),
         "the last piece is missing"),
        (instead(RATE, "t < start", "t <= start + 1"), "the last piece begins too late"),
        (instead(RATE, "t / warmup,", "(t - 1) / warmup,"),
         "step 1 of 1000, with warmup 100, cooldown 200 and peak 1.0: the rate should be 0.01"),
        ("def rate(t, warmup, cooldown, total, peak):\n    peak",
         "should be a number, got NoneType"),
    ],
    "smoothed_gradient": [
        (instead(GRADIENT, " / N", ""), "the mean over the tokens: divide by their number"),
        (instead(GRADIENT, "logits.softmax(-1) - wanted", "wanted - logits.softmax(-1)"),
         "the sign is wrong"),
        (instead(GRADIENT, "+= 1 - eps", "= 1 - eps"), "gets its share of eps too"),
        (instead(GRADIENT, "eps / V)", "eps / (V - 1))").replace("+= 1 - eps", "= 1 - eps"),
         "the label is one of them"),
        (instead(GRADIENT, "eps / V)", "0.0)").replace("+= 1 - eps", "= 1"),
         "the smoothing is missing"),
        (instead(GRADIENT, "eps / V", "0.1 / V").replace("1 - eps", "0.9"),
         "with 4 tokens, V = 7, eps = 0.4"),
        (instead(GRADIENT, "logits.softmax(-1)", "logits.exp() / logits.exp().sum(-1, True)"),
         "logits of size 300: the gradient should be"),
        (AUTOGRAD, "the values are right, but do without autograd"),
        (instead(GRADIENT, "logits.softmax(-1)", "labels.softmax(0)"),
         "the answer raises NotImplementedError"),
        ("def gradient(logits, labels, eps):\n    return [0.0]", "should be a tensor, got list"),
    ],
    "ceiling_without_order": [
        (instead(CEILING, "tuple(sorted(str(number)))", "frozenset(str(number))"),
         "count how often each digit occurs"),
        (instead(CEILING, " / len(numbers)", ""), "divide it by that of the numbers"),
        (BY_HAND % "math.factorial(len(str(n)))", "112 has three orders, not six"),
        (BY_HAND % "len(set(permutations(str(n))))", "only the numbers that are asked compete"),
        ("def ceiling(numbers):\n    return 0.0997", "the ceiling should be 0.5, got 0.0997"),
    ],
    "which_check": [
        (f"answer = {CHECKS | {'a': 'causal'}}", "a is not 'causal': training mode is causal"),
        (f"answer = {CHECKS | {'c': 'steps'}}", "every run contains the same error"),
        (f"answer = {CHECKS | {'d': 'none'}}", "how much padding the batch adds"),
        (f"answer = {CHECKS | {'e': 'Causal'}}", "or \"none\", got 'Causal'"),
        (f"answer = {CHECKS | {'b': ['steps']}}", "b should be"),
        ("answer = {'a': 'steps'}", "b has no guess"),
        (
            "answer = ['steps', 'steps', 'none', 'batch', 'causal']",
            "must be a dictionary, got list",
        ),
    ],
}  # fmt: skip
