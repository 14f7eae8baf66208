"""The two paths of attention beside torch's own and the textbook's: time, and peak memory."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.attention import attention_weights, scaled_dot_product_attention
from attn_notes.masks import causal_mask
from benchmarks import textbook
from benchmarks.report import (
    Bench,
    Table,
    cells,
    compared,
    matrix_rate,
    median,
    run_as_main,
    verdict,
)

SHAPES = ((8, 8, 256, 64), (1, 8, 1024, 64), (32, 4, 32, 32))  # (B, H, L, D)
LENGTHS = (256, 512, 1024, 2048)  # for memory, with 8 heads of width 64
WHY = (
    "a call of the smallest shape takes about a millisecond or less, of which our checks of shapes "
    "and dtypes are some 10 µs"
)
WHY_FUSED = f"{WHY}; torch's kernel itself may there be slower than the textbook's plain products."
WHY_EXPLICIT = f"{WHY}; the rest is the dispatch of small operations."

Function = Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, ...]]


def explicit(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, ...]:
    weights = attention_weights(query, key, is_causal=is_causal)
    return weights @ value, weights


def by_textbook(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, ...]:
    mask = causal_mask(query.shape[-2], device=query.device) if is_causal else None
    return textbook.attention(query, key, value, mask)


def fused(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, ...]:
    return (scaled_dot_product_attention(query, key, value, is_causal=is_causal),)


def torchs(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, ...]:
    return (F.scaled_dot_product_attention(query, key, value, is_causal=is_causal),)


def without_weights(*given: Any) -> tuple[Tensor, ...]:
    return by_textbook(*given)[:1]


WITHOUT: dict[str, Function] = {"fused": fused, "torch": torchs, "textbook": without_weights}
WITH: dict[str, Function] = {"explicit": explicit, "textbook": by_textbook}
HELD: dict[str, Function] = {"explicit": explicit, "fused": fused, "textbook": by_textbook}


def calls(
    functions: dict[str, Function], shape: tuple[int, ...], is_causal: bool, backward: bool,
    bench: Bench,
) -> dict[str, Callable[[], list[Tensor]]]:  # fmt: skip
    """For each function a call without arguments, of forward pass or both."""
    rng = torch.Generator().manual_seed(0)
    *inputs, upstream = (
        torch.randn(shape, generator=rng).to(bench.device, bench.dtype) for _ in range(4)
    )
    inputs = [tensor.requires_grad_(backward) for tensor in inputs]

    def call(function: Function) -> list[Tensor]:
        with torch.set_grad_enabled(backward):
            results = list(function(*inputs, is_causal))
        if backward:
            results += torch.autograd.grad(results[0], inputs, upstream)
        return results

    return {name: partial(call, function) for name, function in functions.items()}


def operations(shape: tuple[int, ...], is_causal: bool, backward: bool) -> float:
    """Of the matrix products that a kernel needs: two forward, five backward."""
    B, H, L, D = shape
    return 4 * B * H * L * L * D * (3.5 if backward else 1) / (2 if is_causal else 1)


def time_table(
    ours: str,
    functions: dict[str, Function],
    shapes: Sequence[tuple[int, ...]],
    rate: float,
    bench: Bench,
) -> tuple[list[str], list[list[str]]]:
    rows = []
    for shape, is_causal, backward in product(shapes, (False, True), (False, True)):
        times = compared(calls(functions, shape, is_causal, backward, bench), bench)
        share = operations(shape, is_causal, backward) / median(times[ours]) / rate
        kind = ["causal" if is_causal else "none", "both" if backward else "forward"]
        result = [*verdict(ours, times), f"{share:.2f}"]
        rows.append([str(shape), *kind, *cells(list(functions), times), *result])
    last = [f"{ours} / fastest other", "which", "1.05", "of the matrix rate"]
    return ["(B, H, L, D)", "mask", "pass", *functions, *last], rows


# ---------------------------------------------------------------- memory


def peak(work: Callable[[], object], device: torch.device) -> int:
    """The most bytes that were held at once beyond those before the call."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        result = work()  # held until the end, as by a caller
    del result
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def memory_table(lengths: Sequence[int], bench: Bench) -> tuple[list[str], list[list[str]]]:
    rows = []
    for length, backward in product(lengths, (False, True)):
        work = calls(HELD, (1, 8, length, 64), False, backward, bench)
        bytes_held = [peak(run, bench.device) for run in work.values()]
        numbers = [f"{number / 2**20:.1f}" for number in bytes_held]
        ratio = f"{bytes_held[0] / bytes_held[1]:.1f}"
        rows.append([str(length), "both" if backward else "forward", *numbers, ratio])
    return ["length", "pass", *HELD, "explicit / fused"], rows


def tables(
    bench: Bench,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    lengths: Sequence[int] = LENGTHS,
) -> Iterator[Table]:
    rate = matrix_rate(bench)
    yield Table(
        "Attention, the output alone",
        "Milliseconds, and the share of the rate of a large matrix product, here "
        f"{rate / 1e6:.0f} billion operations a second. Our fused path is torch's kernel behind "
        "our checks and rules, so both are level where the tensors are large; the textbook stores "
        "the weights, which costs time where the sequence is long. On a GPU the rows of length "
        "1024 would gain most, since its kernel keeps each tile on the chip.",
        *time_table("fused", WITHOUT, shapes, rate, bench),
        WHY_FUSED,
    )
    yield Table(
        "Attention, with the weights",
        "Milliseconds. No fused kernel returns weights, so both compute the same products and "
        "differ in the passes over the scores: ours scales the query and not the scores. The "
        "gap depends on the speed of memory, so these rows would change most "
        "on another processor.",
        *time_table("explicit", WITH, shapes, rate, bench),
        WHY_EXPLICIT,
    )
    if bench.device.type not in {"cpu", "cuda"}:  # no other device counts its bytes
        return
    yield Table(
        "Attention, peak memory",
        "Mebibytes held at once beyond the inputs, 8 heads of width 64. The explicit path grows "
        "with the square of the length, the fused one in proportion. These are counts of bytes: "
        "only the kernel's workspace depends on the machine, and 16 bits halve the rest.",
        *memory_table(lengths, bench),
    )


if __name__ == "__main__":
    run_as_main(tables)
