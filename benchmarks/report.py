"""Medians, percentiles and plain tables: what every benchmark prints."""

import os
from collections.abc import Sequence

import torch


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
