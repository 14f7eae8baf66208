"""The exercises of chapter 11: removals, gradients, layers and a head by hand."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.checks.exercises.base import compare, draw, of_function, prediction
from attn_notes.device import get_device

__all__ = [
    "induction_by_hand",
    "integrated_by_hand",
    "layers_needed",
    "what_removal_finds",
]

LAYERS: dict[str, tuple[str, str]] = {
    "the token twelve places back": ("one", "the distance is in the score of a single layer"),
    "the token that has occurred most often": (
        "one",
        "a head with equal weights reads each token as often as it occurs",
    ),
    "the vowel that occurred last": ("one", "the score can favour vowels, and short distances"),
    "the token after the last comma": (
        "two",
        "the key of that token must say that a comma stood before it",
    ),
    "the token after an earlier copy of this one": (
        "two",
        "the key must hold the token before, which a layer 0 has to write there",
    ),
    "the token before an earlier copy of this one": (
        "two",
        "the match is on the token itself, but its value must hold the token before",
    ),
    "the latter, with values made one token back": (
        "one",
        "then the head matches on the token itself, and its value is the token before",
    ),
}
layers_needed = prediction(LAYERS, '"one" or "two"')
"""How many layers of attention does a task need?"""


def _even(cells: Tensor) -> Tensor:
    """Equal weights on the cells of each row; 0 in a row without any."""
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)


@of_function
def induction_by_hand(answer: Any) -> None:
    """The weights of a perfect induction head."""
    first = [[3, 1, 4, 1, 1, 3, 0, 3, 1], [2, 2, 2, 5, 0, 5, 4, 5, 2]]
    rows = torch.tensor(first, device=get_device())
    for tokens, case in ((rows[:, :5], "five tokens: "), (rows, "")):
        i = torch.arange(tokens.shape[1], device=tokens.device)
        earlier, t = i < i[:, None], tokens[:, :, None]
        last = F.pad(tokens, (1, 0), value=-1)[:, None, :-1]  # the token before each key
        cells = (t == last) & earlier
        nowhere = ~cells.any(-1, keepdim=True)
        newest = cells & (cells.flip(-1).cumsum(-1).flip(-1) == 1)
        onward = F.pad(tokens, (0, 1), value=-1)[:, None, 1:]
        mistakes = {
            "these keys hold the same token: read the one after it": _even(
                (t == tokens[:, None]) & earlier
            ),
            "these keys hold the token before the earlier twin: read the one after it": _even(
                (t == onward) & (i + 1 < i[:, None])
            ),
            "a token reads itself where its twin stands right before it: i must be below t": _even(
                (t == last) & (i <= i[:, None])
            ),
            "some queries read later tokens: i must be below t": _even(t == last),
            "token 0 has none before it, and its key takes the last token of the text": _even(
                (t == tokens.roll(1, 1)[:, None]) & earlier
            ),
            "only the last match is read: share the weight among all": _even(newest),
            "the weights of a row with two matches sum to 2": cells.float(),
            "a row without a match should be 0, got nan": cells / cells.sum(-1, keepdim=True),
            "a row without a match should be 0: masked scores still give weights": torch.where(
                nowhere, _even(earlier | (i == i[:, None])), _even(cells)
            ),
        }
        compare(answer(tokens), _even(cells), "the weights", mistakes, case)


REMOVALS: dict[str, tuple[str, str]] = {
    "constant, by zero": (
        "changes",
        "what the head adds is gone, and the next layers were trained with it",
    ),
    "constant, by mean": ("same", "the mean of a constant is that constant"),
    "constant, by resampling": ("same", "another text has the same constant"),
    "tag, by resampling within German": (
        "same",
        "every German text has the same tag, so the head passes on the same vector",
    ),
    "tag, by resampling across languages": (
        "changes",
        "the head then passes on the tag of another language",
    ),
    "shifted, by zero": (
        "changes",
        "zero now removes 5 W as well, which out_proj.bias no longer has",
    ),
    "shifted, by mean": ("same", "the mean has moved by the same 5, and the bias takes it back"),
}
what_removal_finds = prediction(REMOVALS, '"same" or "changes"')
"""Which removals change an output?"""


def _gradients(f: Callable[[Tensor], Tensor], x: Tensor, at: list[float], start: Tensor) -> Tensor:
    """The mean gradient of f at these shares of the way from `start` to x."""
    points = [(start + a * (x - start)).requires_grad_() for a in at]
    return torch.stack([torch.autograd.grad(f(point), point)[0] for point in points]).mean(0)


@of_function
def integrated_by_hand(answer: Any) -> None:
    """The integrated gradients of a scalar function."""
    x, start, w = draw((3, 4), (3, 4), (3, 4))

    def f(x: Tensor) -> Tensor:  # its gradient is linear: middles and trapezia are exact
        return (w * x).sum() ** 2 + (x[0] * x[1]).sum()

    for steps in (4, 1, 50):
        middles = [(n + 0.5) / steps for n in range(steps)]
        way, mean = x - start, _gradients(f, x, middles, start)
        mistakes = {
            "this is the mean gradient: multiply it by x - baseline": mean,
            "multiply by x - baseline, and not by x": mean * x,
            "the sign is wrong: go from the baseline to x": -mean * way,
            "the gradients are added: take their mean": steps * mean * way,
            "this is the gradient at x alone": _gradients(f, x, [1.0], start) * way,
            "this is the gradient at the baseline alone": _gradients(f, x, [0.0], start) * way,
            "the path begins at 0: begin it at the baseline": (
                _gradients(f, x, middles, torch.zeros_like(x)) * x
            ),
            "the gradients are taken along the way from 0 to x - baseline": (
                _gradients(f, way, middles, torch.zeros_like(x)) * way
            ),
            "each gradient is taken where its step begins: take it in the middle": (
                _gradients(f, x, [n / steps for n in range(steps)], start) * way
            ),
            "each gradient is taken where its step ends: take it in the middle": (
                _gradients(f, x, [(n + 1) / steps for n in range(steps)], start) * way
            ),
            "return one number for each entry of x, and not their sum": (mean * way).sum(),
        }
        case = f"steps = {steps}: " if steps > 1 else "with one step: "
        compare(answer(f, x, start, steps), mean * way, "the attribution", mistakes, case)
