"""Typical wrong answers to the exercises of chapter 11, and how each is named."""

from tests.wrong_answers import instead

LAYERS = {"the token twelve places back": "one", "the token that has occurred most often": "one"}
LAYERS |= {"the vowel that occurred last": "one", "the token after the last comma": "two"}
LAYERS |= {"the token after an earlier copy of this one": "two"}
LAYERS |= {"the token before an earlier copy of this one": "two"}
LAYERS |= {"the token before such a copy, with values made one token back": "one"}

INDUCTION = """
def induction(tokens):
    i = torch.arange(tokens.shape[1], device=tokens.device)
    last = F.pad(tokens, (1, 0), value=-1)[:, :-1]  # the token before
    cells = (tokens[:, :, None] == last[:, None]) & (i < i[:, None])
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)
"""
REMOVALS = {"constant, by zero": "changes", "constant, by mean": "same"}
REMOVALS |= {"constant, by resampling": "same", "tag, by resampling within German": "same"}
REMOVALS |= {"tag, by resampling across languages": "changes"}
REMOVALS |= {"shifted, by zero": "changes", "shifted, by mean": "same"}

INTEGRATED = """
def integrated(f, x, baseline, steps):
    total = torch.zeros_like(x)
    for n in range(steps):
        a = (n + 0.5) / steps
        point = (baseline + a * (x - baseline)).requires_grad_()
        total = total + torch.autograd.grad(f(point), point)[0]
    return (x - baseline) * total / steps
"""

PARCELS = {"tells: star moved": "place", "tells: both exchanged": "digit"}
PARCELS |= {"tells: equal weights": "place", "tells: other digits": "neither"}
PARCELS |= {"random: star moved": "both"}
PARCELS |= {"random: both exchanged": "digit", "random: equal weights": "both"}
PARCELS |= {"random: other digits": "neither"}

SHARES = """
def shares(parts, u, gamma, beta, eps):
    centred = parts - parts.mean(-1, keepdim=True)
    scale = (parts.sum(0).var(correction=0) + eps).sqrt()
    return torch.cat([centred @ (gamma * u) / scale, (u @ beta)[None]])
"""
EACH_NORMED = """
def shares(parts, u, gamma, beta, eps):
    norm = F.layer_norm(parts, (parts.shape[-1],), gamma, None, eps)
    return torch.cat([norm @ u, (u @ beta)[None]])
"""

ANSWERS: dict[str, list[tuple[str, str]]] = {
    "parcel_changes": [
        (
            f"answer = {PARCELS | {'tells: star moved': 'both'}}",
            "tells: star moved is not 'both': the digit is in the stamp",
        ),
        (
            f"answer = {PARCELS | {'tells: both exchanged': 'neither'}}",
            "tells: both exchanged is not 'neither': the stamp gives the new digit",
        ),
        (
            f"answer = {PARCELS | {'tells: equal weights': 'both'}}",
            "tells: equal weights is not 'both': the head finds the star",
        ),
        (
            f"answer = {PARCELS | {'tells: other digits': 'place'}}",
            "tells: other digits is not 'place': the stamp gives the digit, and the star",
        ),
        (
            f"answer = {PARCELS | {'random: star moved': 'place'}}",
            "random: star moved is not 'place': the head reads digit and place",
        ),
        (
            f"answer = {PARCELS | {'random: equal weights': 'neither'}}",
            "random: equal weights is not 'neither': both answers come from",
        ),
        (
            f"answer = {PARCELS | {'random: other digits': 'digit'}}",
            "random: other digits is not 'digit': the head reads the starred digit alone",
        ),
        (
            f"answer = {PARCELS | {'random: other digits': 'none'}}",
            'random: other digits should be "digit", "place", "both" or "neither"',
        ),
        ("answer = ['both'] * 8", "the answer must be a dictionary, got list"),
    ],
    "shares_of_a_logit": [
        (EACH_NORMED, "each part has its own standard deviation: divide by that of x"),
        (
            instead(SHARES, "centred = parts - parts.mean(-1, keepdim=True)", "centred = parts"),
            "subtract the mean of each part",
        ),
        (instead(SHARES, "(gamma * u)", "u"), "the gain is missing"),
        (
            instead(SHARES, "correction=0", "correction=1"),
            "the standard deviation divides by E, not by E - 1",
        ),
        (instead(SHARES, " + eps", ""), "eps is missing under the root"),
        (
            instead(
                SHARES,
                "(parts.sum(0).var(correction=0) + eps).sqrt()",
                "parts.sum(0).std(correction=0) + eps",
            ),
            "eps stands under the root",
        ),
        (
            instead(
                SHARES,
                "centred = parts - parts",
                "parts = gamma * parts\n    centred = parts - parts",
            )
            .replace("(gamma * u)", "u")
            .replace("parts.sum(0).var", "(parts / gamma).sum(0).var"),
            "subtract the mean first, then multiply by the gain",
        ),
        (instead(SHARES, "eps).sqrt()", "eps)"), "divide by the standard deviation, and not by"),
        (instead(SHARES, " / scale", ""), "nothing is divided by the standard deviation"),
        (
            instead(SHARES, "/ scale,", "/ scale + u @ beta / len(parts),"),
            "the bias is a part of its own",
        ),
        (instead(SHARES, "(u @ beta)[None]", "(u @ beta)[None] / scale"), "with no division"),
        (
            instead(
                SHARES,
                "torch.cat([centred @ (gamma * u) / scale, (u @ beta)[None]])",
                "centred @ (gamma * u) / scale",
            ),
            "the share of the bias is missing: return P + 1 shares",
        ),
        (instead(SHARES, "[None]])", "[None]]).sum()"), "return the shares, and not their sum"),
        (
            instead(
                SHARES,
                "[centred @ (gamma * u) / scale, (u @ beta)[None]]",
                "[(u @ beta)[None], centred @ (gamma * u) / scale]",
            ),
            "the share of the bias stands last",
        ),
        (
            instead(SHARES, "[None]])", "[None]]).tolist()"),
            "the shares should be a tensor, got list",
        ),
        (
            instead(SHARES, "    centred", "    parts += 1\n    centred"),
            "changes its argument in place",
        ),
    ],
    "layers_needed": [
        (
            f"answer = {LAYERS | {'the token twelve places back': 'two'}}",
            "twelve places back is not 'two': the distance is in the score",
        ),
        (
            f"answer = {LAYERS | {'the token after the last comma': 'one'}}",
            "the last comma is not 'one': the key of that token must say",
        ),
        (
            f"answer = {LAYERS | {'the token after an earlier copy of this one': 'one'}}",
            "copy of this one is not 'one': the key must hold the token before",
        ),
        (
            f"answer = {LAYERS | {'the token before an earlier copy of this one': 'one'}}",
            "copy of this one is not 'one': the match is on the token itself",
        ),
        (
            f"answer = {LAYERS | {'the vowel that occurred last': 2}}",
            'the vowel that occurred last should be "one" or "two", got 2',
        ),
        ("answer = ['one'] * 7", "the answer must be a dictionary, got list"),
    ],
    "induction_by_hand": [
        (
            instead(INDUCTION, "== last[:, None]", "== tokens[:, None]"),
            "these keys hold the same token",
        ),
        (
            instead(
                instead(INDUCTION, "(1, 0), value=-1)[:, :-1]", "(0, 1), value=-1)[:, 1:]"),
                "(i < i[:, None])",
                "(i + 1 < i[:, None])",
            ),
            "the token before the earlier twin",
        ),
        (instead(INDUCTION, "(i < i", "(i <= i"), "a token reads itself after its twin"),
        (instead(INDUCTION, " & (i < i[:, None])", ""), "some queries read later tokens"),
        (
            instead(INDUCTION, "F.pad(tokens, (1, 0), value=-1)[:, :-1]", "tokens.roll(1, 1)"),
            "token 0 has none before it",
        ),
        (
            instead(INDUCTION, " / cells.sum(-1, keepdim=True).clamp(min=1)", ".float()"),
            "the weights of a row with two matches sum to 2",
        ),
        (instead(INDUCTION, ".clamp(min=1)", ""), "a row without a match should be 0, got nan"),
        (
            instead(INDUCTION, "cells / cells.sum(-1, keepdim=True).clamp(min=1)", "cells"),
            "have dtype",
        ),
        (
            instead(
                INDUCTION, "return cells /", "cells = cells.float() + 1e-9\n    return cells /"
            ).replace(".clamp(min=1)", ""),
            "masked scores still give weights",
        ),
        ("induction = None", "the answer is still to be written"),
    ],
    "what_removal_finds": [
        (
            f"answer = {REMOVALS | {'constant, by zero': 'same'}}",
            "constant, by zero is not 'same': what the head adds is gone",
        ),
        (
            f"answer = {REMOVALS | {'constant, by mean': 'changes'}}",
            "constant, by mean is not 'changes': the mean of a constant",
        ),
        (
            f"answer = {REMOVALS | {'tag, by resampling within German': 'changes'}}",
            "within German is not 'changes': every German text has the same tag",
        ),
        (
            f"answer = {REMOVALS | {'tag, by resampling across languages': 'same'}}",
            "across languages is not 'same': the head then passes on the tag",
        ),
        (
            f"answer = {REMOVALS | {'shifted, by zero': 'same'}}",
            "shifted, by zero is not 'same': zero now removes",
        ),
        (
            f"answer = {REMOVALS | {'shifted, by mean': 'changes'}}",
            "shifted, by mean is not 'changes': the mean has moved",
        ),
        (
            f"answer = {REMOVALS | {'shifted, by mean': 'nothing'}}",
            'shifted, by mean should be "same" or "changes", got \'nothing\'',
        ),
        ("answer = ['same'] * 7", "the answer must be a dictionary, got list"),
    ],
    "integrated_by_hand": [
        (
            instead(INTEGRATED, "(x - baseline) * total / steps", "total / steps"),
            "this is the mean gradient: multiply it by x - baseline",
        ),
        (
            instead(INTEGRATED, "return (x - baseline)", "return x"),
            "multiply by x - baseline, and not by x",
        ),
        (
            instead(INTEGRATED, "return (x - baseline)", "return (baseline - x)"),
            "the sign is wrong: go from the baseline to x",
        ),
        (
            instead(INTEGRATED, "total / steps", "total"),
            "steps = 4: the gradients are added: take their mean",
        ),
        (instead(INTEGRATED, "(n + 0.5) / steps", "1"), "this is the gradient at x alone"),
        (
            instead(INTEGRATED, "(n + 0.5) / steps", "0"),
            "this is the gradient at the baseline alone",
        ),
        (instead(INTEGRATED, "(n + 0.5) / steps", "0.5"), "the gradient halfway alone"),
        (
            instead(INTEGRATED, "    total", "    steps = 64\n    total"),
            "steps = 4: the attribution should be",
        ),
        (
            instead(INTEGRATED, "range(steps)", "range(2 * steps)")
            .replace("(n + 0.5)", "(n // 2 + n % 2)")
            .replace("total / steps", "total / steps / 2"),
            "take the gradients at middles: these are trapezia",
        ),
        (
            instead(INTEGRATED, "(n + 0.5)", "n"),
            "steps = 4: take the gradients at middles, not at beginnings",
        ),
        (
            instead(INTEGRATED, "(n + 0.5)", "(n + 1)"),
            "steps = 4: take the gradients at middles, not at ends",
        ),
        (
            instead(INTEGRATED, "(baseline + a * (x - baseline))", "(a * (x - baseline))"),
            "the path is that from 0 to x - baseline",
        ),
        (
            instead(INTEGRATED, "(baseline + a * (x - baseline))", "(a * x)").replace(
                "return (x - baseline)", "return x"
            ),
            "the path begins at 0: begin it at the baseline",
        ),
        (
            instead(
                INTEGRATED,
                "(x - baseline) * total / steps",
                "((x - baseline) * total / steps).sum()",
            ),
            "return one number for each entry of x, and not their sum",
        ),
        ("integrated = 3", "the answer should be a function, got int"),
    ],
}
