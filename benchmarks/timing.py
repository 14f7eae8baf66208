"""Fair times: contenders take turns, so that a busy moment hits them all, and medians are kept."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    device: torch.device,
    *,
    rounds: int = 40,
) -> dict[str, float]:
    """Median milliseconds of each contender, over rounds in which each has one turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 3):
        for name, call in contenders.items():
            wait(device)
            start = time.perf_counter()
            call()
            wait(device)
            if turn >= 3:  # the first ones warm up
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(taken) for name, taken in times.items()}


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def row(label: str, *cells: object, width: int = 14) -> str:
    return f"{label:<34}" + "".join(f"{cell!s:>{width}}" for cell in cells)
