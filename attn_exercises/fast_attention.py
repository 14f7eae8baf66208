"""The exercises of chapter 10: costs, rescaling, merging, a kernel, a cache, and a ring."""

import importlib.util
import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attn_exercises.base import compare, draw, exercise, of_function, pair
from attn_notes.checks.properties import CheckFailed
from attn_notes.device import get_device
from attn_notes.masks import masked_softmax

INF = float("inf")
MAXIMA = {"max", "amax", "aminmax", "argmax", "cummax", "sort", "topk"}
SUMS = {"exp", "softmax", "log_softmax", "logsumexp"}
KEEP_A_STATE = "keep a maximum, a sum and an output, and update them with each tile"
NAN = "the output is nan: what is -inf minus -inf?"
BEGIN_LOW = "the maximum may be negative: begin at -inf"
SUBTRACT = "subtract the larger log-sum-exp, and not 0 where it is negative"
NEWEST = "subtract the newest maximum, and not the first tile's"
SHIFTS = {  # of the scores of the two parts
    "": (0, 0),
    "scores near 1,000 overflow: ": (1000, 1000),
    "scores near -1,000 underflow: ": (-1000, -1000),
    "one part near -1,000, the other near 1,000: ": (-1000, 1000),
    "one part near 1,000, the other near -1,000: ": (1000, -1000),
}
KEEP_THE_LARGER = "a later tile may have a smaller maximum: keep the larger one"


def _by_tiles(scores: Tensor, values: Tensor, tile: int, *, Z: bool, u: bool, r: int = 1) -> Tensor:
    """The online softmax that rescales only the sum `Z`, or the output `u`, by factor ** r."""
    m, total, output = scores.new_full((), -INF), scores.new_zeros(()), values.new_zeros(3)
    for a, v in zip(scores.split(tile), values.split(tile), strict=True):
        old, m = m, torch.maximum(m, a.max())
        factor = (old - m).exp() ** r if old > -INF else torch.ones_like(m)
        e = (a - m).exp()
        total = (factor if Z else 1) * total + e.sum()
        output = (factor if u else 1) * output + e @ v
    return output / total


class _InTiles(TorchDispatchMode):
    """Refuses an answer that takes more keys at once than a tile holds, or that goes back."""

    def __init__(self, tile: int, keys: int) -> None:
        super().__init__()
        self.tile, self.keys = tile, keys
        self.copies: dict[int, Tensor] = {}  # of the scores, by address
        self.latest = 0  # the number of the last tile that was read

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__.strip("_")
        reads = not func.is_view and not name.endswith("_like")
        for one in (leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor) and reads):
            n, at = max(one.shape, default=1), int(one.storage_offset()) // self.tile
            if name in MAXIMA | SUMS and n > self.tile + 2:  # a tile and two maxima
                raise CheckFailed(f"{name} has {n} numbers, a tile {self.tile}: {KEEP_A_STATE}")
            of_scores = one.untyped_storage().data_ptr() in self.copies
            size: tuple[int, ...] = getattr(result, "shape", ())
            if one.shape == (self.keys,) and len(size) == 1 and size[0] >= self.keys:
                self.copies[result.untyped_storage().data_ptr()] = result
            elif of_scores and 0 < one.dim() <= n <= self.tile:
                if (last := self.latest) > at:
                    raise CheckFailed(f"tile {at} is read after tile {last}: {KEEP_A_STATE}")
                self.latest = at
        return result


@of_function
def mended_rescaling(answer: Any) -> None:
    """One query's output, tile by tile."""
    scores, values = draw((9,), (9, 3))
    scores = 2 * scores.sort().values  # every tile brings a new maximum
    right = scores.softmax(0) @ values
    for tile in (9, 4, 2, 1):
        run, to = (scores, values, tile), 9 // tile * tile
        mistakes = {
            "nothing is rescaled when the maximum rises": _by_tiles(*run, Z=False, u=False),
            "the sum is rescaled, but the output is not": _by_tiles(*run, Z=True, u=False),
            "the output is rescaled, but the sum is not": _by_tiles(*run, Z=False, u=True),
            "the factor is upside down: use exp(old - new)": _by_tiles(*run, Z=True, u=True, r=-1),
            "divide the output by the sum at the end": (scores - scores.max()).exp() @ values,
            "the last tile is shorter, and it is left out": scores[:to].softmax(0) @ values[:to],
        }
        with _InTiles(tile, len(scores)):
            got = answer(*run)
        compare(got, right, "the output", mistakes, f"tile = {tile}: ")
    for case, (a, expected, cause) in _hard_scores(scores, values).items():
        compare(answer(a, values, 2), expected, "the output", {cause: right * torch.nan}, case)


def _hard_scores(scores: Tensor, values: Tensor) -> dict[str, tuple[Tensor, Tensor, str]]:
    """Scores, the output for them, and what may be wrong where an answer gives NaN."""
    low, late, falling, rising = scores.clone(), scores.clone(), scores.flip(0), scores.clone()
    low[:5] = late[2:4] = late[5:] = -INF
    falling[0] += 1000
    rising[-1] += 1000
    right = scores.softmax(0) @ values
    return {
        "scores near 1,000 overflow (subtract the maximum): ": (
            scores + 1000,
            right,
            "inf / inf is nan",
        ),
        f"scores near -1,000 ({BEGIN_LOW}): ": (scores - 1000, right, "0 / 0 is nan"),
        "the largest score first: ": (falling, values[0], KEEP_THE_LARGER),
        "the largest score last: ": (rising, values[-1], NEWEST),
        "first keys masked, then scores near -1,000: ": (low - 1000, low.softmax(0) @ values, NAN),
        "a tile and the last keys masked: ": (late - 1000, late.softmax(0) @ values, NAN),
        "all keys masked: ": (torch.full_like(scores, -INF), right.new_zeros(3), NAN),
    }


@of_function
def merged_parts(answer: Any) -> None:
    """(lse, out) of all keys, from those of two parts."""
    scores, values = draw((4, 9), (9, 3))
    scores[1, :4] = scores[2, 4:] = scores[3] = -INF  # one part empty, or both
    for case, (first, second) in SHIFTS.items():
        shift, a = max(first, second), scores.clone()
        a[:, :4] += first
        a[:, 4:] += second
        l1, o1 = _attend(a[:, :4], values[:4])
        l2, o2 = _attend(a[:, 4:], values[4:])
        lse, out = _attend(a, values)
        got = pair(answer(l1, o1, l2, o2), "the log-sum-exp and the output")
        sums = {
            "add the exponentials, not the log-sum-exps": l1 + l2,
            "the larger log-sum-exp is not that of the sum": torch.maximum(l1, l2),
            "take the logarithm of the sum": l1.exp() + l2.exp(),
            SUBTRACT: lse - INF if shift < 0 else lse,
        }
        compare(got[0], lse, "the log-sum-exp", sums, case)
        w1, w2 = ((one - lse).exp()[:, None] for one in (l1, l2))  # nan where both are empty
        mistakes = {
            "a row with nothing to read is nan, and should be 0": w1 * o1 + w2 * o2,
            "the parts count by their sums, and not equally": (o1 + o2) / 2,
            "the outputs are means: weigh them before you add": o1 + o2,
            "each part has the weight of the other": (w2 * o1 + w1 * o2).nan_to_num(),
            SUBTRACT: 0 * out if shift < 0 else out,
        }
        compare(got[1], out, "the output", mistakes, case)


def _attend(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Log-sum-exp (L,) and output (L, Dv), which is 0 in an empty row."""
    return scores.logsumexp(-1), masked_softmax(scores) @ values


@of_function
def balanced_ring(answer: Any) -> None:
    """The places of each device's tokens, with which a causal ring keeps all equally busy."""
    for L, W in ((8, 2), (48, 4), (60, 3), (10, 1)):
        case = f"L = {L}, W = {W}: "
        places = answer(L, W)
        if not isinstance(places, list | tuple) or len(places) != W:
            got = len(places) if isinstance(places, list | tuple) else type(places).__name__
            raise CheckFailed(f"{case}return a list of {W} tensors, one a device, got {got}")
        for own in places:
            if not isinstance(own, Tensor) or own.dim() != 1 or own.is_floating_point():
                raise CheckFailed(f"{case}each device has a tensor (L / W,) of whole numbers")
        if [len(own) for own in places] != [L // W] * W:
            held = ", ".join(str(len(own)) for own in places)
            raise CheckFailed(f"{case}each device holds {L // W} tokens, got {held}")
        if sorted(torch.cat([*places]).tolist()) != list(range(L)):
            raise CheckFailed(f"{case}each place from 0 to {L - 1} belongs to exactly one device")
        for step in range(W):
            work = [int((places[w - step] <= places[w][:, None]).sum()) for w in range(W)]
            if len(set(work)) > 1:
                words = f"in step {step + 1} the devices compute {', '.join(map(str, work))} pairs"
                raise CheckFailed(f"{case}{words}: {_uneven(places)}")


def _uneven(places: Sequence[Tensor]) -> str:
    """What is wrong with a division that keeps some devices waiting."""
    step = int(places[0].diff()[0]) if len(places[0]) > 1 else 1
    whole = all(bool((own.diff() == step).all()) for own in places)
    if whole and step == 1:
        return "cut in order, the first device reads least"
    if whole and step == len(places):
        return "stripes are nearly even: pair an early part with a late one"
    return "give each device as many late tokens as early ones, the latest with the earliest"


@exercise
def triton_log_sum_exp(answer: Any) -> None:
    """A Triton kernel: one program a row, `TILE` scores at a time."""
    if not callable(answer):
        raise CheckFailed(f"the answer should be a function, got {type(answer).__name__}")
    if importlib.util.find_spec("triton") is None:
        raise CheckFailed("Triton is not installed: `make test-triton` installs it")
    if get_device().type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise CheckFailed("without a CUDA device, set TRITON_INTERPRET=1 before Python starts")
    kernel = importlib.import_module("triton").jit(getattr(answer, "fn", answer))
    for S, tile in ((10, 4), (8, 4), (4, 8), (40, 4), (2000, 64)):
        block = 2 * draw((4, S))[0].sort().values  # every tile brings a new maximum
        falling, rising = block.flip(-1), block.clone()
        falling[:, 0] += 1000
        rising[:, -1] += 1000
        cases = {"": block, "scores near 1,000 overflow: ": block + 1000}
        cases |= {"scores near -1,000: ": block - 1000, "the largest score first: ": falling}
        cases["the largest score last: "] = rising
        for case, rows in cases.items():
            out = torch.full((3,), torch.nan, device=block.device)
            with warnings.catch_warnings(action="ignore"):  # of what overflows in the interpreter
                kernel[(3,)](rows[:3], out, S, TILE=tile)  # a row lies behind the last
            where = f"S = {S}, TILE = {tile}: {case}"
            right, slips = rows[:3].logsumexp(-1), _slips(rows, tile)
            slips |= {NEWEST if "last" in case else KEEP_THE_LARGER: right + INF}
            slips |= {f"{BEGIN_LOW}, without what lies beyond": right - INF} if "-1" in case else {}
            compare(out, right, "the log-sum-exp", slips, where)


def _slips(block: Tensor, tile: int) -> dict[str, Tensor]:
    """The log-sum-exps of all rows but the last, by what a kernel does wrong."""
    rows, S = block[:-1], block.shape[1]
    ends = range(tile, S + tile, tile)
    run_on = block.flatten().unfold(0, ends[-1], S)[: len(rows)]
    padded = F.pad(rows, (0, ends[-1] - S))
    seen = torch.stack([rows[:, :end].amax(-1) for end in ends], -1)  # (L, tiles)
    sums = (rows - seen.repeat_interleave(tile, -1)[:, :S]).exp().sum(-1)
    wrong = {
        "a tile reaches beyond its row: use the mask columns < S": run_on,
        "beyond the row read -inf, which adds nothing, and not 0": padded,
        "the first tile alone is read": rows[:, :tile],
        "the last tile is shorter, and it is left out": rows[:, : S // tile * tile],
        "every program writes to row 0, or reads it": rows[:1].expand_as(rows),
    }
    return {
        "the sum is not rescaled when the maximum rises": seen[:, -1] + sums.log(),
        "the maximum is to be added again": rows.logsumexp(-1) - seen[:, -1],
        **{words: read.logsumexp(-1) for words, read in wrong.items()},
    }
