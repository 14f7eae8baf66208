"""The processes that train one model: their group, random numbers and progress bar (chapter 9)."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm


@contextmanager
def process_group(device: torch.device) -> Iterator[tuple[int, int, torch.device]]:
    """The processes of torchrun, or this one: (rank, world_size, device), each with its own GPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1, device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    yield *rank_and_world_size(), device
    dist.destroy_process_group()  # not after an error: the others may be waiting


def rank_and_world_size() -> tuple[int, int]:
    """The number of this process and how many train together: 0 and 1 outside a group."""
    is_group = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if is_group else (0, 1)


def generators(device: torch.device) -> list[torch.Generator]:
    """The random number generators of the CPU and of a device."""
    match device.type:
        case "cuda":
            return [torch.default_generator, torch.cuda.default_generators[device.index]]
        case "mps":
            return [torch.default_generator, torch.mps._get_default_mps_generator()]
    return [torch.default_generator]


def seed_rng(seed: int, device: torch.device) -> None:
    """Seed the CPU and one device; torch.manual_seed would seed every device."""
    for generator in generators(device):
        generator.manual_seed(seed)


def progress_bar(done: int, steps: int, shown: bool | None) -> Any:
    """A bar with speed and time left; hidden where nobody watches or the output is compared."""
    if shown is None:
        in_notebook = type(sys.stderr).__module__.startswith("ipykernel")
        is_compared = "PYTEST_CURRENT_TEST" in os.environ  # a kernel that nbval starts inherits it
        is_silenced = os.environ.get("ATTN_NOTES_PROGRESS") == "0" or is_compared
        shown = (sys.stderr.isatty() or in_notebook) and not is_silenced
    is_hidden = not shown or rank_and_world_size()[0] > 0
    count: Any = {"total": steps, "initial": done, "unit": "step"}
    return tqdm(desc="training", **count, disable=is_hidden, file=sys.stderr)
