"""The processes that train one model: their group, and who is the first (chapter 9)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist


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
