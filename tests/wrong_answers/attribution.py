"""Typical wrong answers to the integrated gradients of chapter 11, and how each is named."""

from tests.wrong_answers import answers, edited

INTEGRATED = """
def integrated(f, x, baseline, steps):
    total, way = torch.zeros_like(x), x - baseline
    for n in range(steps):
        point = (baseline + (n + 0.5) / steps * way).requires_grad_()
        total = total + torch.autograd.grad(f(point), point)[0]
    return way * total / steps
"""
TRAPEZIA = edited(INTEGRATED, "range(steps) -> range(2 * steps)", "n + 0.5 -> n // 2 + n % 2")

ANSWERS = answers(
    integrated_by_hand=[
        (INTEGRATED, "way * total -> total", "the mean gradient: multiply it by x - baseline"),
        (INTEGRATED, "way * total -> x * total", "multiply by x - baseline, and not by x"),
        (INTEGRATED, "way * total -> -way * total", "the sign is wrong: go from the baseline to x"),
        (INTEGRATED, "total / steps -> total", "the gradients are added: take their mean"),
        (INTEGRATED, "(n + 0.5) / steps -> 1", "this is the gradient at x alone"),
        (INTEGRATED, "(n + 0.5) / steps -> 0", "this is the gradient at the baseline alone"),
        (INTEGRATED, "(n + 0.5) / steps -> 0.5", "the gradient halfway alone"),
        (INTEGRATED, "range(steps) -> range(steps := 64)", "steps = 4: the attribution should be"),
        (INTEGRATED, "(n + 0.5) -> n", "at middles, not at beginnings"),
        (INTEGRATED, "(n + 0.5) -> (n + 1)", "the gradients at middles, not at ends"),
        (TRAPEZIA, "total / steps -> total / steps / 2", "at middles: these are trapezia"),
        (INTEGRATED, "(baseline + -> (", "the path is that from 0 to x - baseline"),
        (INTEGRATED, "x - baseline -> x", "baseline + -> ", "the path begins at 0"),
        (INTEGRATED, "way * total / steps -> (way * total).sum() / steps", "and not their sum"),
        ("integrated = 3", "the answer should be a function, got int"),
    ],
)
