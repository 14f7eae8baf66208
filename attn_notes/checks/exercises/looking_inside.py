"""The exercises of chapter 11 that ask for code: gradients, shares, and a head by hand."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.checks.exercises.base import compare, draw, of_function
from attn_notes.device import get_device


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
        right = (x - start) * _gradients(f, x, middles, start)
        mistakes = _wrong_integrals(f, x, start, steps)
        case = f"steps = {steps}: " if steps > 1 else "with one step: "
        compare(answer(f, x, start, steps), right, "the attribution", mistakes, case)


def _wrong_integrals(
    f: Callable[[Tensor], Tensor], x: Tensor, start: Tensor, steps: int
) -> dict[str, Tensor]:
    """What typical mistakes in integrated gradients give."""
    middles = [(n + 0.5) / steps for n in range(steps)]
    way, mean = x - start, _gradients(f, x, middles, start)
    return {
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


@of_function
def shares_of_a_logit(answer: Any) -> None:
    """(P + 1,): the share of each of P parts in a logit, and last that of the norm's bias."""
    for eps, size in ((1e-5, 1.0), (0.5, 0.3)):
        parts, u, gamma, beta = draw((4, 6), (6,), (6,), (6,))
        parts = size * parts + 0.5
        right = _shares(parts, u, gamma, beta, eps)
        mistakes = _wrong_shares(parts, u, gamma, beta, eps)
        got = answer(parts, u, gamma, beta, eps)
        compare(got, right, "the shares", mistakes, f"eps = {eps}: ")


def _wrong_shares(
    parts: Tensor, u: Tensor, gamma: Tensor, beta: Tensor, eps: float
) -> dict[str, Tensor]:
    """What typical mistakes in the shares of a logit give."""
    right = _shares(parts, u, gamma, beta, eps)
    own, last, even = right[:-1], right[-1:], (beta @ u / len(parts)).expand(len(parts))
    x = parts.sum(0)
    below = x.var(correction=0) + eps
    plain, scale = (below - eps).sqrt(), below.sqrt()
    wrong = {
        "each part has its own standard deviation: divide by that of the sum": (
            _normed(parts, gamma, eps) @ u
        ),
        "subtract the mean of each part: C belongs to the share": parts @ (gamma * u) / scale,
        "the gain is missing": _centred(parts) @ u / scale,
        "the standard deviation divides by E, and not by E - 1": (
            own * scale / (x.var() + eps).sqrt()
        ),
        "eps is missing under the root": own * scale / plain,
        "eps stands under the root": own * scale / (plain + eps),
        "the gain multiplies before the mean is subtracted: first C x, then the gain": (
            _centred(parts * gamma) @ u / scale
        ),
        "divide by the standard deviation, and not by the variance": own / scale,
        "nothing is divided by the standard deviation": own * scale,
        "the bias is a part of its own: do not divide it among the others": own + even,
    }
    return {words: torch.cat([shares, last]) for words, shares in wrong.items()} | {
        "the share of the bias is u · beta, with no division": torch.cat([own, last / scale]),
        "the share of the bias is missing: return P + 1 shares": own,
        "return the shares, and not their sum": right.sum(),
        "the share of the bias stands last": right.roll(1),
    }


def _centred(x: Tensor) -> Tensor:
    """Each row minus its mean."""
    return x - x.mean(-1, keepdim=True)


def _normed(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Layer normalisation without its bias."""
    return gamma * _centred(x) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()


def _shares(parts: Tensor, u: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    """The shares, with the standard deviation of the sum."""
    scale = (parts.sum(0).var(correction=0) + eps).sqrt()
    return torch.cat([_centred(parts) @ (gamma * u) / scale, (beta @ u)[None]])


@of_function
def induction_by_hand(answer: Any) -> None:
    """The weights of a perfect induction head."""
    rows = [[3, 1, 4, 1, 1, 3, 0, 3, 1], [2, 2, 2, 5, 0, 5, 4, 5, 2]]
    text = torch.tensor(rows, device=get_device())
    for tokens, case in ((text[:, :5], "five tokens: "), (text, "")):
        right = _even(_matches(tokens) & _earlier(tokens))
        compare(answer(tokens), right, "the weights", _wrong_matches(tokens), case)


def _even(cells: Tensor) -> Tensor:
    """Equal weights on the cells of each row; 0 in a row without any."""
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)


def _earlier(tokens: Tensor) -> Tensor:
    """(L, L), `True` where key i stands before query t."""
    ones = torch.ones(2 * tokens.shape[1:], dtype=torch.bool, device=tokens.device)
    return ones.tril(-1)


def _matches(tokens: Tensor) -> Tensor:
    """(B, L, L), `True` where the token before key i equals token t."""
    return tokens[:, :, None] == F.pad(tokens, (1, 0), value=-1)[:, None, :-1]


def _wrong_matches(tokens: Tensor) -> dict[str, Tensor]:
    """What typical mistakes in an induction head's weights give."""
    earlier, matches, t = _earlier(tokens), _matches(tokens), tokens[:, :, None]
    own, cells = torch.eye(len(earlier), device=tokens.device) > 0, matches & earlier
    onward = t == F.pad(tokens, (0, 1), value=-1)[:, None, 1:]
    newest = cells & (cells.flip(-1).cumsum(-1).flip(-1) == 1)
    nowhere = ~cells.any(-1, keepdim=True)
    early = F.pad(earlier, (0, 1))[:, 1:]  # i + 1 stands before t
    return {
        "these keys hold the same token: read the one after it": _even(
            (t == tokens[:, None]) & earlier
        ),
        "these keys hold the token before the earlier twin: read the one after it": _even(
            onward & early
        ),
        "a token reads itself where its twin stands right before it: i must be below t": _even(
            matches & (earlier | own)
        ),
        "some queries read later tokens: i must be below t": _even(matches),
        "token 0 has none before it, and its key takes the last token of the text": _even(
            (t == tokens.roll(1, 1)[:, None]) & earlier
        ),
        "only the last match is read: share the weight among all": _even(newest),
        "the weights of a row with two matches sum to 2": cells.float(),
        "a row without a match should be 0, got nan": cells / cells.sum(-1, keepdim=True),
        "a row without a match should be 0: masked scores still give weights": torch.where(
            nowhere, 1 / len(earlier), _even(cells)
        ),
    }
