"""The exercises of chapter 6: the mended slice, and what each scheme of positions can do."""

import math
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.exercises.base import compare, draw, exercise, prediction
from attn_notes.device import get_device
from attn_notes.positions import rotation_between, sinusoidal_encoding

__all__ = ["alibi_horizon", "column_order", "mended_slice", "one_letter", "shift_matrix"]


@exercise
def mended_slice(answer: Any) -> None:
    """Which rows of a table belong to the new tokens, when some are cached?"""
    table = sinusoidal_encoding(32, 8, device=get_device())
    for cached, L in ((0, 5), (5, 1), (5, 3), (3, 5)):
        (x,) = draw((2, L, 8), seed=13)
        early, rows = max(cached - 1, 0), table[cached : cached + L]
        added = {
            f"it starts at place 0 again, and not at {cached}": table[:L],
            f"all new tokens stand at place {cached}: each needs its own row": table[[cached]],
            "one row too late: the first new token has row `cached`": table[cached + 1 :][:L],
            "one row too early: rows 0 to cached - 1 are taken": table[early : early + L],
            "these are the right rows, but they have to be added to x": rows - x,
        }
        mistakes = {mistake: x + wrong for mistake, wrong in added.items()}
        mistakes["the slice is empty: its end is L rows after its begin"] = x[:, :0]
        case, got = f"with {cached} cached and {L} new: ", answer(x.clone(), table.clone(), cached)
        compare(got, x + rows, "the sum", mistakes=mistakes, case=case)


CAN_DIFFER = {
    "none": (False, "all inputs are equal, and nothing tells their places apart"),
    "causal": (False, "the mask changes how many are averaged, but they are equal"),
    "sinusoidal": (True, "it is added to the vectors, so the values differ"),
    "learned": (True, "its rows are added to the vectors, so the values differ"),
    "rotary": (False, "it turns queries and keys, but the values that are averaged are equal"),
    "alibi": (False, "it changes the weights, but the values that are averaged are equal"),
}
one_letter = prediction(CAN_DIFFER, "True or False")
"""Where can the outputs of equal tokens differ?"""


@exercise
def shift_matrix(answer: Any) -> None:
    """The rotation that moves each encoding `offset` places on."""
    for offset, E in ((1, 2), (3, 8), (-2, 6)):
        right = rotation_between(offset, E, device=get_device())
        halves = right[_halves(E)][:, _halves(E)]
        mistakes = {
            "it goes the other way: look at the signs of the sines": right.T,
            "clock j turns by 10000^(-2j/E) a step, for j = 0, 1, …": _shift(offset, E, 1.0),
            "exponents run to 2j/E, and j only to E/2 - 1": _shift(offset, E, 4.0),
            "a sine and its cosine are neighbours here, columns 2j and 2j + 1": halves,
        }
        compare(answer(offset, E), right, f"shift({offset}, {E})", mistakes=mistakes)


def _shift(offset: int, E: int, power: float) -> Tensor:
    """A rotation whose clock j turns by 10000 ** (-power · j / E): right for a power of 2."""
    angles = offset * 10000.0 ** (-power * torch.arange(E // 2, device=get_device()) / E)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((cos, sin, -sin, cos), dim=-1).unflatten(-1, (2, 2))
    return torch.block_diag(*blocks)


def _halves(D: int) -> list[int]:
    """The first of each pair of neighbours, then the second ones."""
    return [*range(0, D, 2), *range(1, D, 2)]


@exercise
def column_order(answer: Any) -> None:
    """From pairs of neighbours to pairs of halves."""
    for D in (4, 8, 12):
        right = _halves(D)
        mistakes = {
            "that changes nothing": [*range(D)],
            "that is the way back, from halves to pairs": [right.index(c) for c in range(D)],
            "each pair would turn the other way": right[D // 2 :] + right[: D // 2],
        }
        got = torch.tensor([int(column) for column in answer(D)], device="cpu")
        compare(got, right, "it", mistakes=mistakes, case=f"order({D}) = {got.tolist()}: ")


@exercise
def alibi_horizon(answer: Any) -> None:
    """How many places hold a share of the weight?"""
    for slope, share in ((0.5, 0.9), (0.25, 0.5), (1 / 16, 0.99), (1 / 256, 0.2)):
        right = math.ceil(-math.log(1 - share) / slope)
        beyond, halved = -math.log(share) / slope, -math.log2(1 - share) / slope
        mistakes = {
            "the nearest n hold 1 - r^n; r^n is what lies beyond": math.ceil(beyond),
            "a step multiplies the weight by e^-m, and not by 2^-m": math.ceil(halved),
            "one place fewer holds less than the share: round up": right - 1,
            "the query's own place is the first of the n, and not one besides": right + 1,
        }
        case = f"horizon({slope:g}, {share:g}) should be {right}: "
        compare(answer(slope, share), right, "the answer", mistakes=mistakes, case=case)
