"""Rounds in turn, medians, percentiles and plain tables: what every benchmark needs."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeVar

import torch

ROUNDS, WARM_UP = 31, 3
Key = TypeVar("Key")


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of a hundred do not exceed, between two of them if need be."""
    return torch.tensor(values, dtype=torch.float64).quantile(percent / 100).item()


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        first, *rest = (text.rjust(width) for text, width in zip(row, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *rest]))


def print_load() -> None:
    """How busy the machine is: a time measured beside other work says little."""
    if hasattr(os, "getloadavg"):
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def seconds(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type != "cpu":  # an accelerator answers before it is done
        torch.accelerator.synchronize()
    return time.perf_counter() - start


def interleaved(
    work: Mapping[Key, Callable[[], object]], device: torch.device, rounds: int = ROUNDS
) -> dict[Key, float]:
    """Median milliseconds of each, from rounds in which all take their turn.

    The turns are shuffled: what ran before leaves its mark on the caches.
    """
    shuffle, names = Random(0), list(work)
    times: dict[Key, list[float]] = {name: [] for name in names}
    for _ in range(WARM_UP + rounds):
        for name in shuffle.sample(names, len(names)):
            times[name].append(1000 * seconds(work[name], device))
    return {name: median(values[WARM_UP:]) for name, values in times.items()}
