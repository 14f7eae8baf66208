"""The exercises of chapter 6: rows for cached texts, and what each scheme of positions can do."""

import math
from typing import Any

import torch

from attn_exercises.base import compare, draw, numbers, of_function, refuse
from attn_notes.device import get_device
from attn_notes.positions import rotation_between


@of_function
def own_rows(answer: Any) -> None:
    """Which rows of a table belong to the new tokens, when each text has its own cached length?"""
    device = get_device()
    for counts, L in (([0, 0], 4), ([5, 2], 1), ([3, 9], 3), ([4, 4], 6), ([3, 9, 1], 2)):
        x, table = draw((len(counts), L, 8), (32, 8), seed=13)
        cached, new = torch.tensor(counts, device=device), torch.arange(L, device=device)
        places = cached[:, None] + new  # (B, L)
        wrong = {
            "every text starts at position 0 again": new,
            f"all texts start at position {counts[0]}: text 1 has {counts[1]} cached": places[:1],
            "all new tokens of a text get the same row": cached[:, None],
            "the first new token stands at `cached`, not one position later": places + 1,
            "the new tokens are numbered backwards": places.flip(1),
        }
        mistakes = {words: x + table[rows] for words, rows in wrong.items()}
        case = f"with cached = {counts} and L = {L}: "
        compare(answer(x, table, cached), x + table[places], "the sum", mistakes, case)


@of_function
def shift_matrix(answer: Any) -> None:
    """The rotation that moves each encoding `offset` positions on."""
    device = get_device()
    for offset, E in ((1, 2), (3, 8), (-2, 6), (0, 4)):
        right = rotation_between(offset, E, device=device)
        slower = rotation_between(offset, E, base=100.0, device=device)
        halves = right[_halves(E)][:, _halves(E)]
        mistakes = {
            "it turns the wrong way: check the signs of the sines": right.T,
            "sine and cosine of a pair stand side by side: columns 2j and 2j + 1": halves,
            "it turns by one step, whatever the offset": rotation_between(1, E, device=device),
            "pair j turns by base**(-2j/E) a step, not by base**(-j/E)": slower,
        }
        compare(answer(offset, E), right, "the matrix", mistakes, f"shift{offset, E}: ")
    refuse(answer, {"rotation_between"}, "rotation_between is the package's own: build the matrix")


def _halves(D: int) -> list[int]:
    """The first of each pair of neighbours, then the second ones."""
    return [*range(0, D, 2), *range(1, D, 2)]


@of_function
def column_order(answer: Any) -> None:
    """From pairs of neighbours to pairs of halves."""
    for D in (4, 8, 12):
        right = torch.tensor(_halves(D), device="cpu")
        case, words = f"order({D}): ", f"order({D}) should be a list of column numbers"
        mistakes = {
            "that changes nothing": torch.arange(D, device="cpu"),
            "that is the way back, from halves to pairs": right.argsort(),
            "the second feature of each pair comes first": right.roll(D // 2),
        }
        compare(numbers(answer(D), words), right, "the list", mistakes, case)


@of_function
def alibi_horizon(answer: Any) -> None:
    """How many positions hold a share of the weight?"""
    cases = ((1 / 16, 0.99), (0.5, 0.9), (0.25, 0.5), (1 / 256, 0.2), (math.log(2), 0.75))
    for slope, share in cases:
        exact = -math.log(1 - share) / slope
        right, beyond = math.ceil(exact), math.ceil(-math.log(share) / slope)
        mistakes = {
            "r is exp(-slope), not the slope": math.ceil(math.log(1 - share, slope)),
            "the nearest n hold 1 - r^n; r^n is what lies beyond": beyond,
            "one too few: round up, and count the query's own word": right - 1,
            "the number of words is whole: round up": exact,
            "one too many: one word fewer already holds the share": right + 1,
        }
        case = f"horizon({slope:.4g}, {share:g}) should be {right}: "
        compare(answer(slope, share), right, "the answer", mistakes, case)
