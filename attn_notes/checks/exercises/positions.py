"""The exercises of chapter 6: the mended slice, and what each scheme of positions can do."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attn_notes.checks.exercises.base import exercise, expect_tensor
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device
from attn_notes.positions import apply_rotary, rotary_angles, rotation_between, sinusoidal_encoding

__all__ = ["alibi_horizon", "column_order", "mended_slice", "one_letter", "shift_matrix"]


@exercise
def mended_slice(answer: Callable[[Tensor, Tensor, int], Tensor]) -> None:
    """Which rows of a table belong to the new tokens, when some are cached?"""
    generator = torch.Generator().manual_seed(13)
    table = sinusoidal_encoding(32, 8, device=get_device())
    for cached, L in ((0, 5), (5, 1), (5, 3), (3, 5)):
        x = torch.randn(2, L, 8, generator=generator).to(get_device())
        got: Tensor | Exception
        try:
            got = answer(x.clone(), table.clone(), cached)
        except (IndexError, RuntimeError) as error:  # such as rows that do not fit
            got = error
        if not _same(got, x + table[cached : cached + L]):
            mistake = _wrong_rows(got, x, table, cached)
            raise CheckFailed(f"with {cached} cached and {L} new: {mistake}")


def _wrong_rows(got: Any, x: Tensor, table: Tensor, cached: int) -> str:
    """What an answer has made of `table[cached : cached + L]`."""
    L = x.shape[1]
    empty = isinstance(got, Tensor) and got.numel() == 0
    if cached and (empty or isinstance(got, Exception)):
        return (
            f"table[{cached}:{L}] has {max(0, L - cached)} rows: a slice is begin and end, and "
            "the end is that many rows after the begin"
        )
    if isinstance(got, Exception):
        return f"the answer raises {type(got).__name__}: {got}"
    if not isinstance(got, Tensor) or got.shape != x.shape:
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        return f"the answer should be x with its rows added, of shape {tuple(x.shape)}, got {shape}"
    if _same(got, table[cached : cached + L].expand_as(x)):
        return "these are the right rows, but they have to be added to x"
    return _wrong_places(got - x, table, cached)


def _wrong_places(added: Tensor, table: Tensor, cached: int) -> str:
    """Which rows were added instead."""
    L, early = added.shape[1], max(cached - 1, 0)
    known = {
        f"it starts at place 0 again, and not at {cached}": table[:L],
        f"all new tokens stand at place {cached}: each needs a row of its own": (
            table[cached : cached + 1].expand(L, -1)
        ),
        "one row too late: the first new token stands at place cached, counted from 0": (
            table[cached + 1 : cached + 1 + L]
        ),
        "one row too early: places 0 to cached - 1 are taken": table[early : early + L],
    }
    for mistake, rows in known.items():
        if _same(added, rows.expand_as(added)):
            return mistake
    return f"the rows that are added are not {cached} to {cached + L - 1}"


CAN_DIFFER = {
    "none": (False, "all inputs are equal, and nothing tells their places apart"),
    "causal": (False, "the mask changes how many are averaged, but they are equal"),
    "sinusoidal": (True, "it is added to the vectors, so the values differ"),
    "learned": (True, "its rows are added to the vectors, so the values differ"),
    "rotary": (False, "it turns queries and keys, but the values that are averaged are equal"),
    "alibi": (False, "it changes the weights, but the values that are averaged are equal"),
}


@exercise
def one_letter(answer: Mapping[str, bool | None]) -> None:
    """Where can the outputs of equal tokens differ?"""
    if not isinstance(answer, Mapping) or not CAN_DIFFER.keys() <= answer.keys():
        raise CheckFailed(f"the answer should be a dict with {', '.join(CAN_DIFFER)}")
    for scheme, (truth, why) in CAN_DIFFER.items():
        if not isinstance(answer[scheme], bool):
            raise CheckFailed(f"{scheme} has no guess: write True or False")
        if answer[scheme] != truth:
            raise CheckFailed(f"{scheme} is not {answer[scheme]}: {why}")


@exercise
def shift_matrix(answer: Callable[[int, int], Tensor]) -> None:
    """The rotation that carries each encoding `offset` places on."""
    for offset, E in ((1, 2), (3, 8), (-2, 6)):
        right = rotation_between(offset, E, device=get_device())
        got = answer(offset, E)
        case = f"shift({offset}, {E})"
        mistakes = {
            "it goes the other way: look at the signs of the sines": right.T,
            "clock j turns by 10000^(-2j/E) a step, for j = 0, 1, …": _shift(offset, E, 1.0),
            "exponents run to 2j/E, and j only to E/2 - 1": _shift(offset, E, 4.0),
        }
        for mistake, wrong in mistakes.items():
            if _same(got, wrong) and not _same(got, right):
                raise CheckFailed(f"{case}: {mistake}")
        if E > 2 and _same(got, _in_halves(right)):
            raise CheckFailed(
                f"{case}: a sine and its cosine are neighbours here, columns 2j and 2j + 1"
            )
        expect_tensor(got, right, case)


def _shift(offset: int, E: int, power: float) -> Tensor:
    """A rotation whose clock j turns by 10000 ** (-power · j / E): right for a power of 2."""
    angles = offset * 10000.0 ** (-power * torch.arange(E // 2, device=get_device()) / E)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((cos, sin, -sin, cos), dim=-1).unflatten(-1, (2, 2))
    return torch.block_diag(*blocks)


def _in_halves(R: Tensor) -> Tensor:
    """The same rotation for all sines first, then all cosines."""
    order = [*range(0, len(R), 2), *range(1, len(R), 2)]
    return R[order][:, order]


@exercise
def column_order(answer: Callable[[int], Sequence[int]]) -> None:
    """From pairs of neighbours to pairs of halves."""
    generator = torch.Generator().manual_seed(11)
    for D in (4, 8, 12):
        order = [int(column) for column in answer(D)]
        if sorted(order) != list(range(D)):
            raise CheckFailed(f"order({D}) should hold each column once, got {order}")
        x = torch.randn(5, D, generator=generator).to(get_device())
        angles = rotary_angles(5, D, offset=3, device=get_device())
        right = apply_rotary(x, angles)[:, order]
        if not _same(apply_rotary(x[:, order], angles, layout="halves"), right):
            raise CheckFailed(f"order({D}) = {order}: {_wrong_order(order)}")


def _wrong_order(order: Sequence[int]) -> str:
    D = len(order)
    right = [*range(0, D, 2), *range(1, D, 2)]
    known = {
        "that changes nothing": [*range(D)],
        "that is the way back, from halves to pairs": [right.index(c) for c in range(D)],
        "the second features come first: each pair would turn the other way": (
            right[D // 2 :] + right[: D // 2]
        ),
    }
    for mistake, wrong in known.items():
        if list(order) == wrong:
            return mistake
    pair = (order[0], order[D // 2])
    return f"columns 0 and {D // 2} are pair 0 now, and hold the old columns {pair}"


@exercise
def alibi_horizon(answer: Callable[[float, float], int]) -> None:
    """How many places hold a share of the weight?"""
    for slope, share in ((0.5, 0.9), (0.25, 0.5), (1 / 16, 0.99), (1 / 256, 0.2)):
        r = math.exp(-slope)
        right = next(n for n in range(1, 10_000) if 1 - r**n >= share)
        got = answer(slope, share)
        if got == right:
            continue
        case = f"horizon({slope:g}, {share:g}) should be {right}, got {got}"
        known = {
            "the nearest n hold 1 - r^n; r^n is what lies beyond": (
                math.ceil(-math.log(share) / slope)
            ),
            "a step multiplies the weight by e^-m, and not by 2^-m": (
                math.ceil(-math.log2(1 - share) / slope)
            ),
            "one too few holds a little less than the share: round up, and count places, the "
            "query's own as the first": right - 1,
            "the query's own place is the first of the n, and not one besides": right + 1,
        }
        hints = [f": {mistake}" for mistake, wrong in known.items() if got == wrong]
        raise CheckFailed(case + (hints[0] if hints else ""))


def _same(got: Any, expected: Tensor) -> bool:
    if not isinstance(got, Tensor) or got.shape != expected.shape:
        return False
    # In one dtype and in one place: an answer in double precision is no mistake.
    got, expected = (side.detach().cpu().double() for side in (got, expected))
    return torch.allclose(got, expected, atol=1e-4)
