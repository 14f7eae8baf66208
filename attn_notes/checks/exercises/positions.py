"""The exercises of chapter 6: the mended slice, and what each scheme of positions can do."""

import math
from typing import Any

import torch

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
        rows = table[cached : cached + L]
        mistakes = {
            f"it starts at place 0 again, and not at {cached}": x + table[:L],
            f"all new tokens stand at place {cached}: each needs its own row": x + table[[cached]],
            "the slice is empty: its end is L rows after its begin": x[:, :0],
        }
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
            "a sine and its cosine are neighbours here, columns 2j and 2j + 1": halves,
        }
        compare(answer(offset, E), right, f"shift({offset}, {E})", mistakes=mistakes)


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
        }
        got = torch.tensor([int(column) for column in answer(D)], device="cpu")
        compare(got, right, "it", mistakes=mistakes, case=f"order({D}) = {got.tolist()}: ")


@exercise
def alibi_horizon(answer: Any) -> None:
    """How many places hold a share of the weight?"""
    for slope, share in ((0.5, 0.9), (0.25, 0.5), (1 / 16, 0.99), (1 / 256, 0.2)):
        right = math.ceil(-math.log(1 - share) / slope)
        beyond = math.ceil(-math.log(share) / slope)
        mistakes = {
            "the nearest n hold 1 - r^n; r^n is what lies beyond": beyond,
            "one place fewer holds less than the share: round up": right - 1,
        }
        case = f"horizon({slope:g}, {share:g}) should be {right}: "
        compare(answer(slope, share), right, "the answer", mistakes=mistakes, case=case)
