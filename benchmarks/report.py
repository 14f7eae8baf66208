"""Rounds in turn, medians with quartiles and tables: what every benchmark needs."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import TypeVar

import torch
from torch import Tensor

from attn_notes import get_device

WARM_UP = 2
GOAL, MISSED = 1.05, "missed"  # of our time over the fastest other's
Key = TypeVar("Key")


@dataclass(frozen=True)
class Bench:
    """Where the rounds run, in which dtype, and how many there are."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    rounds: int = 13
    matrix: int = 1024  # the size of the product that measures the matrix rate


@dataclass(frozen=True)
class Table:
    """A header, rows of as many cells, what they say, and why some rows miss the goal."""

    title: str
    about: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    why: str = ""


def here() -> Bench:
    """This machine: 32 bits on a CPU, bfloat16 on an accelerator."""
    device = get_device()
    if device.type == "cpu":
        return Bench(device)
    return Bench(device, torch.bfloat16, matrix=8192)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of a hundred do not exceed, between two of them if need be."""
    return torch.tensor(values, dtype=torch.float64).quantile(percent / 100).item()


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def spread(values: Sequence[float]) -> str:
    """The median, and the quartiles below and above it."""
    digits = max(0, min(2, 3 - len(f"{median(values):.0f}")))
    middle, low, high = (f"{percentile(values, p):.{digits}f}" for p in (50, 25, 75))
    return f"{middle} ({low}–{high})"


def verdict(ours: str, times: Mapping[str, Sequence[float]]) -> list[str]:
    """Our time over the fastest other's, round by round; its name; whether the goal is met."""
    fastest = min((name for name in times if name != ours), key=lambda name: median(times[name]))
    ratios = [a / b for a, b in zip(times[ours], times[fastest], strict=True)]
    return [spread(ratios), fastest, "met" if median(ratios) <= GOAL else MISSED]


def cells(names: Sequence[str], times: Mapping[str, Sequence[float]]) -> list[str]:
    return [spread(times[name]) if name in times else "–" for name in names]


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """In Markdown: the first column to the left, numbers to the right."""
    print()
    for row in (header, ["---", *["---:"] * (len(header) - 1)], *rows):
        print(f"| {' | '.join(row)} |")


def show(table: Table) -> None:
    print(f"\n### {table.title}\n\n{table.about}", flush=True)
    print_table(table.header, table.rows)
    if any(MISSED in cell for row in table.rows for cell in row):
        print(f"\nWhere a goal is missed: {table.why}")


def run_as_main(tables: Callable[[Bench], Iterable[Table]], bench: Bench | None = None) -> None:
    bench = bench or here()
    print_machine(bench)
    for table in tables(bench):
        show(table)


def processor() -> str:
    """The model's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def print_load() -> None:
    """How busy the machine is: a time measured beside other work says little."""
    if hasattr(os, "getloadavg"):
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def print_machine(bench: Bench) -> None:
    """Date, machine, load and versions, so that the figures can be read elsewhere."""
    device = str(bench.device)
    if bench.device.type == "cuda":
        device = torch.cuda.get_device_name(bench.device)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    print(f"{datetime.now(UTC):%Y-%m-%d}; {processor()}; {libraries}; device {device},")
    threads = torch.get_num_threads()
    print(f"{bench.dtype}, {threads} thread{'s' * (threads != 1)}; ", end="")
    print_load()


def seconds(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type != "cpu":  # an accelerator answers before it is done
        torch.accelerator.synchronize()
    return time.perf_counter() - start


def interleaved(work: Mapping[Key, Callable[[], object]], bench: Bench) -> dict[Key, list[float]]:
    """Milliseconds of each in every round; in a round all take their turn.

    The turns are shuffled: what ran before leaves its mark on the caches.
    """
    shuffle, names = Random(0), list(work)
    times: dict[Key, list[float]] = {name: [] for name in names}
    for _ in range(WARM_UP + bench.rounds):
        for name in shuffle.sample(names, len(names)):
            times[name].append(1000 * seconds(work[name], bench.device))
    return {name: values[WARM_UP:] for name, values in times.items()}


def assert_same(results: Mapping[str, Sequence[Tensor]]) -> None:
    """Raise unless the tensors of all agree with those of the first, within its rounding."""
    (first, wanted), *others = results.items()
    for name, got in others:
        for x, y in zip(got, wanted, strict=True):
            error = float(((x - y).norm() / y.norm()).detach())
            if not error < (1e-4 if y.dtype == torch.float32 else 1e-1):
                raise AssertionError(f"{name} must agree with {first}, got an error of {error}")


def compared(
    work: Mapping[Key, Callable[[], Sequence[Tensor]]], bench: Bench
) -> dict[Key, list[float]]:
    """Milliseconds of each, after asserting that all give the same."""
    assert_same({str(name): run() for name, run in work.items()})
    return interleaved(work, bench)


def matrix_rate(bench: Bench) -> float:
    """Operations a millisecond in a product of two square matrices: the most that is to be had."""
    size = (bench.matrix, bench.matrix)
    a, b = (torch.ones(size, device=bench.device, dtype=bench.dtype) for _ in range(2))
    return 2 * bench.matrix**3 / min(interleaved({"product": lambda: a @ b}, bench)["product"])
