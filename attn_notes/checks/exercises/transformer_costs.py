"""The exercises of chapter 7 on what a layer costs: derived, and measured with hooks."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attn_notes.checks.exercises.base import exercise
from attn_notes.checks.properties import CheckFailed
from attn_notes.multihead import MultiHeadAttention

__all__ = ["block_flops", "linear_work"]

Run = Callable[[], Any]


@exercise
def block_flops(answer: Callable[..., float]) -> None:
    """The work of an encoder block from its sizes alone."""
    for (L, E, m), (H, G) in product(((5, 12, 32), (30, 16, 12)), ((4, 4), (4, 1))):
        expected = _counted(L, E, m, H, G)
        got = answer(L, E, m, H, G)
        if got == expected:
            continue
        if not isinstance(got, int | float):
            raise CheckFailed(f"the work should be a number, got {type(got).__name__}")
        hint = _flops_hint(got, expected, L=L, E=E, m=m, H=H, G=G)
        case = f"L = {L}, E = {E}, m = {m}, {H} heads, {G} for keys and values"
        raise CheckFailed(f"with {case}: {expected:,} FLOPs, got {got:,}{hint}")


def _counted(L: int, E: int, m: int, H: int, G: int) -> int:
    """What torch counts when the sublayers of a block run."""
    attention = MultiHeadAttention(E, H, num_kv_heads=G).to("meta")
    up, down = (nn.Linear(*sizes, device="meta") for sizes in ((E, m), (m, E)))
    x = torch.empty(1, L, E, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        down(up(attention(x, need_weights=True)[0]))
    return int(counter.get_total_flops())


def _flops_hint(got: float, expected: int, *, L: int, E: int, m: int, H: int, G: int) -> str:
    """What a wrong count looks like."""
    shared = 2 * L * E * E * G // H  # one projection of keys or values
    hints = {
        expected / 2: "a multiplication and an addition are two operations",
        expected - 2 * L * L * E: "between positions there are two products, scores and sums",
        expected - 2 * L * E * E: "is out_proj missing?",
        expected - 2 * L * E * m: "the feed-forward network has two matrices",
        expected - 4 * L * L * E + 4 * L * E: "each of the L queries meets all L keys",
        expected + 4 * L * E * E - 2 * shared: "keys and values are projected to G heads, not to H",
        expected - 4 * L * L * E * (H - G) / H: (
            "shared keys are read by all H heads: sharing saves no product between positions"
        ),
        expected + 4 * L * L * E * (H - 1): "a head has only E / H features",
    }
    return f"; {hints[got]}" if got in hints else ""


@exercise
def linear_work(answer: Callable[[nn.Module, Run], Mapping[str, int]]) -> None:
    """The FLOPs of every linear layer, by hooks."""
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2))).to("meta")
    x = torch.empty(2, 7, 3, device="meta")

    def twice() -> None:
        model(x)
        model(x[:1])

    expected = {"0": 2 * 21 * 3 * 5, "2.0": 2 * 21 * 5 * 2}
    got = answer(model, twice)
    if any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules()):
        raise CheckFailed("a hook is still in the model: each handle has a remove()")
    if set(got) != set(expected):
        hints: dict[tuple[str, ...], str] = {
            ("0",): "; a linear layer may stand inside another module: named_modules finds it",
            ("2.0",): "; does every hook see the loop's last name?",
        }
        hint = hints.get(tuple(got), "")
        raise CheckFailed(f"the names should be {[*expected]}, got {[*got]}{hint}")
    for (name, work), width in zip(expected.items(), (3, 5), strict=True):
        _compare_work(name, got[name], work, width)


def _compare_work(name: str, got: int, work: int, width: int) -> None:
    """Raise where the FLOPs of a layer that reads `width` features are not what they should be."""
    hints = {
        work + work // (2 * width): "; the bias is left out here, as in torch's counter",
        work // 2: "; a multiplication and an addition are two operations",
        work // 3: "; it was called twice, and the calls add up",
        work * 2 // 3: "; it was called twice, and the calls add up",
        work // 7: "; each position of each sequence is a vector of its own",
    }
    if got != work:
        raise CheckFailed(f"layer {name} does {work} FLOPs, got {got}{hints.get(got, '')}")
