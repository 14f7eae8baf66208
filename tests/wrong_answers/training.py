"""Typical wrong answers to the exercises of chapter 8, and how each is named."""

from tests.wrong_answers import answers, guesses

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
    p, label = logits.softmax(-1), F.one_hot(labels, V)
    wanted = (1 - eps) * label + eps / V
    return (p - wanted) / N
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
ADAM = """
def adam(gradients, lr):
    W = mean = square = torch.zeros_like(gradients[0])
    for t, g in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * g
        square = 0.999 * square + 0.001 * g**2
        step = mean / (1 - 0.9**t)
        W = W - lr * step / ((square / (1 - 0.999**t)).sqrt() + 1e-8)
    return W
"""
ORDERS = """
def ceiling(numbers):
    from itertools import permutations
    return sum(1 / len(set(permutations(str(n)))) for n in numbers) / len(numbers)
"""

ANSWERS = answers(
    three_pieces=[
        (RATE, "(t / warmup, (warmup / t) ** 0.5) -> (t**-0.5, t * warmup**-1.5)", "too low by"),
        (RATE, "(warmup / t) ** 0.5 -> warmup / t", "like 1 / √t, not like 1 / t"),
        (RATE, "root(start) * ( -> peak * (", "begins at the rate of that step"),
        (RATE, "root(start) * ( -> root(t) * (", "a straight line from the rate"),
        (RATE, "if t < start else -> if t else", "the last piece is missing"),
        (RATE, "t < start -> t <= start + 1", "the last piece begins too late"),
        (RATE, "t / warmup, -> (t - 1) / warmup,", "cooldown 200 and peak 1.0: the rate should be"),
    ],
    smoothed_gradient=[
        (GRADIENT, " / N -> ", "the mean over the tokens: divide by their number"),
        (
            GRADIENT,
            "one_hot(labels, V) -> one_hot(torch.arange(N, device=labels.device) + 1, V)",
            "should be",
        ),
        (GRADIENT, "p - wanted -> wanted - p", "the sign is wrong"),
        (GRADIENT, "+ eps / V -> + eps / V * (1 - label)", "gets its share of eps too"),
        (GRADIENT, "+ eps / V -> + eps / (V - 1) * (1 - label)", "the label is one of them"),
        (GRADIENT, "p - wanted -> p - label", "the smoothing is missing"),
        (GRADIENT, "(1 - eps) * label + eps -> 0.9 * label + 0.1", "with 4 tokens, V = 7"),
        (GRADIENT, "logits.softmax(-1) -> logits.exp() / logits.exp().sum(-1, True)", "size 300"),
        (AUTOGRAD, "the values are right, but do without autograd"),
        (GRADIENT, "logits.softmax(-1) -> labels.softmax(0)", "raises NotImplementedError"),
    ],
    ceiling_without_order=[
        (CEILING, "tuple(sorted(str(number))) -> frozenset(str(number))", "how often each digit"),
        (CEILING, " / len(numbers) -> ", "divide it by that of the numbers"),
        (
            ORDERS,
            "from itertools import permutations -> from math import factorial",
            "len(set(permutations(str(n)))) -> factorial(len(str(n)))",
            "112 has three",
        ),
        (ORDERS, "only the numbers that are asked compete"),
        ("def ceiling(numbers):\n    return 0.0997", "the ceiling should be 0.5, got 0.0997"),
    ],
    adam_written=[
        (ADAM, "W - lr -> W + lr", "the sign is wrong: a step goes against"),
        (ADAM, " / (1 - 0.9**t) -> ", " / (1 - 0.999**t) -> ", "divide both means by their"),
        (ADAM, " / (1 - 0.9**t) -> ", "mean of the gradient is not corrected"),
        (ADAM, " / (1 - 0.999**t) -> ", "mean of the squares is not corrected"),
        (ADAM, "0.9**t -> 0.9", "0.999**t -> 0.999", "after 2 steps with lr = 1.0: correct by"),
        (ADAM, ".sqrt() -> ", "divide by the root of the mean square"),
        (
            ADAM,
            "0.999 * square + 0.001 * g**2 -> mean**2",
            " / (1 - 0.999**t) -> ",
            "not the square of the mean",
        ),
        (ADAM, "W = W - lr -> W = -lr", "this is the last step alone"),
        (ADAM, "0.9 * mean + 0.1 -> 0.8 * mean + 0.2", "with lr = 0.5: the parameters should"),
        ("def adam(gradients, lr):\n    return -lr * gradients[0].sign()", "2 steps with lr"),
    ],
    which_check=[
        *guesses(
            CHECKS,
            ("a", "causal", "training mode is causal"),
            ("c", "steps", "every run contains the same error"),
            ("d", "none", "what a sentence reads depends on how much"),
        ),
        (f"answer = {CHECKS | {'e': 'Causal'}}", "or \"none\", got 'Causal'"),
    ],
)
