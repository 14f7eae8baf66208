"""Typical wrong answers to the exercises of chapter 11, and how each is named."""

from tests.wrong_answers import answers, edited, guesses

REMOVALS = {"constant, by zero": "changes", "constant, by mean": "same"}
REMOVALS |= {"constant, by resampling": "same", "tag, by resampling within German": "same"}
REMOVALS |= {"tag, by resampling across languages": "changes"}
REMOVALS |= {"shifted, by zero": "changes", "shifted, by mean": "same"}

INTEGRATED = """
def integrated(f, x, baseline, steps):
    total, way = torch.zeros_like(x), x - baseline
    for n in range(steps):
        point = (baseline + (n + 0.5) / steps * way).requires_grad_()
        total = total + torch.autograd.grad(f(point), point)[0]
    return way * total / steps
"""
TRAPEZIA = edited(INTEGRATED, "range(steps) -> range(2 * steps)", "n + 0.5 -> n // 2 + n % 2")

PARCELS = {"tells: star moved": "place", "tells: both exchanged": "digit"}
PARCELS |= {"tells: equal weights": "place", "tells: other digits": "neither"}
PARCELS |= {"random: star moved": "both"}
PARCELS |= {"random: both exchanged": "digit", "random: equal weights": "both"}
PARCELS |= {"random: other digits": "neither"}

SHARES = """
def shares(parts, u, gamma, beta, eps):
    centred = parts - parts.mean(-1, keepdim=True)
    scale = (parts.sum(0).var(correction=0) + eps).sqrt()
    own, bias = centred @ (gamma * u) / scale, (u @ beta)[None]
    return torch.cat([own, bias])
"""

ANSWERS = answers(
    parcel_changes=guesses(
        PARCELS,
        ("tells: star moved", "both", "the digit is in the stamp"),
        ("tells: both exchanged", "neither", "the stamp gives the new digit"),
        ("tells: equal weights", "both", "the head finds the star"),
        ("tells: other digits", "place", "the stamp gives the digit, and the star"),
        ("random: star moved", "place", "the head reads digit and place"),
        ("random: equal weights", "neither", "both answers come from"),
        ("random: other digits", "digit", "the head reads the starred digit alone"),
    ),
    shares_of_a_logit=[
        (SHARES, "parts.sum(0).var( -> parts.var(-1, ", "each part has its"),
        (SHARES, "parts - parts.mean(-1, keepdim=True) -> parts", "subtract the mean of each part"),
        (SHARES, "(gamma * u) -> u", "the gain is missing"),
        (SHARES, "correction=0 -> correction=1", "divides by E, not by E - 1"),
        (SHARES, " + eps -> ", "eps is missing under the root"),
        (SHARES, "var(correction=0) + eps).sqrt() -> std(correction=0) + eps)", "eps stands under"),
        (
            SHARES,
            "parts - parts.mean( -> gamma * parts - (gamma * parts).mean(",
            "(gamma * u) -> u",
            "subtract the mean first",
        ),
        (SHARES, "eps).sqrt() -> eps)", "divide by the standard deviation, and not by"),
        (SHARES, " / scale -> ", "nothing is divided by the standard deviation"),
        (SHARES, "cat([own -> cat([own + bias / len(own)", "the bias is a part of its own"),
        (SHARES, "own, bias]) -> own, bias / scale])", "with no division"),
        (SHARES, "[own, bias] -> [own]", "the share of the bias is missing: return P + 1 shares"),
        (SHARES, "bias]) -> bias]).sum()", "return the shares, and not their sum"),
        (SHARES, "[own, bias] -> [bias, own]", "the share of the bias stands last"),
    ],
    what_removal_finds=guesses(
        REMOVALS,
        ("constant, by zero", "same", "what the head adds is gone"),
        ("constant, by mean", "changes", "the mean of a constant"),
        ("tag, by resampling within German", "changes", "every German text has the same tag"),
        ("tag, by resampling across languages", "same", "the head then passes on the tag"),
        ("shifted, by zero", "same", "zero now removes"),
        ("shifted, by mean", "changes", "the mean has moved"),
    ),
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
