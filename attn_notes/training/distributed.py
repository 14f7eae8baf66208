"""Several processes that train one model, each on its share of every batch (chapter 8).

torchrun starts them and says to each which one it is. Each holds the whole model; torch's
`DistributedDataParallel` averages their gradients while they are computed, so that all take the
same step. What the processes say to each other beside that, whether one of them was told to stop,
and what the first has read from a file, passes between their CPUs.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

__all__ = [
    "PeerLost",
    "Processes",
    "any_of_all",
    "average",
    "data_parallel",
    "first_to",
    "from_first",
    "mean_of_all",
    "peers_needed",
    "process_group",
    "rank",
    "together",
    "world",
]

PATIENCE = timedelta(minutes=10)  # with a machine that has gone without closing its connections

_stores: list[Any] = []  # of `process_group`: what all processes can write to
_computing: list[None] = []  # not empty in `together`


class PeerLost(RuntimeError):
    """Another process of the same training is gone."""


class Processes(NamedTuple):
    """Which process this is, of how many, and where it computes."""

    rank: int
    """Its number among all, from 0; process 0 writes the files."""
    world: int
    """How many there are, on all machines together."""
    device: torch.device
    """Its own device."""


@contextmanager
def process_group(device: torch.device) -> Iterator[Processes]:
    """Join the processes that torchrun has started, or be the only one. Chapter 8.

    Inside, `fit` trains with all of them. They talk through NCCL where they compute on GPUs, and
    through gloo elsewhere. After an exception the group is left as it is, for the other processes
    may wait in it forever: a process is expected to end then.

    Args:
        device: "cpu", or "cuda" for the GPU of this process's number on its machine; for a single
            process any.

    Returns:
        A context that gives the process's number, how many there are, and its device.

    Raises:
        PeerLost: another process is gone.
        RuntimeError: the others can't be reached.
        ValueError: a device that several processes cannot use together, or fewer GPUs than
            processes.

    Example:
        >>> with process_group(torch.device("cpu")) as processes:
        ...     processes
        Processes(rank=0, world=1, device=device(type='cpu'))
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes(0, 1, device)
        return
    device = _own_device(device, int(os.environ["LOCAL_RANK"]))
    store, number, count = next(iter(rendezvous("env://", timeout=PATIENCE)))
    # Restarted by torchrun, they find the same store, and in it where the last ones could be found.
    store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=store,
        rank=number,
        world_size=count,
        timeout=PATIENCE,
    )
    _stores.append(store)
    with peers_needed():
        yield Processes(number, count, device)
    _stores.remove(store)
    dist.destroy_process_group()


def _own_device(device: torch.device, number: int) -> torch.device:
    """The device of the process that has this number on its machine."""
    if device not in (torch.device("cpu"), torch.device("cuda")):
        raise ValueError(f"several processes must compute on cpu or cuda, got {device}")
    if device.type == "cpu":
        return device
    if number >= torch.cuda.device_count():
        raise ValueError(
            "a machine must have a GPU for each of its processes, got "
            f"{torch.cuda.device_count()} GPUs and {os.environ['LOCAL_WORLD_SIZE']} processes"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def rank() -> int:
    """The number of this process among those that train together.

    Returns:
        0 where there is but one.

    Example:
        >>> rank()
        0
    """
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world() -> int:
    """How many processes train together.

    Returns:
        1 or more.

    Example:
        >>> world()
        1
    """
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def data_parallel(model: nn.Module) -> nn.Module:
    """The model as all processes train it: what `backward` leaves in it is the average gradient.

    Args:
        model: on this process's device; that of process 0 is copied to all.

    Returns:
        `DistributedDataParallel` of it, or the model itself where there is but one process.

    Example:
        >>> data_parallel(nn.Linear(2, 3))
        Linear(in_features=2, out_features=3, bias=True)
    """
    if world() == 1:
        return model
    device = next(model.parameters()).device
    return nn.parallel.DistributedDataParallel(
        model, device_ids=[device] if device.type == "cuda" else None
    )


def average(value: Tensor) -> Tensor:
    """The mean of a number over all processes.

    Args:
        value: (), without history.

    Returns:
        (), the same in every process; where there is but one, `value` itself.

    Example:
        >>> average(torch.tensor(2.0))
        tensor(2.)
    """
    if world() == 1:
        return value
    total = value.clone()
    dist.all_reduce(total)
    return total / world()


@contextmanager
def together() -> Iterator[None]:
    """Inside, all processes compute the loss of one step, each of its share of the batch.

    Returns:
        A context; outside, no process waits for another's count: one may measure a model alone.

    Example:
        >>> with together():
        ...     mean_of_all(torch.tensor(6.0), torch.tensor(3))
        tensor(2.)
    """
    _computing.append(None)
    try:
        yield
    finally:
        _computing.pop()


def mean_of_all(total: Tensor, count: Tensor) -> Tensor:
    """A sum divided by what was counted; `together`, by the mean of what all processes counted.

    Then the mean of what the processes get, and of its gradients, is that over all that they
    counted, however unevenly. Each process must come here as often as the others.

    Args:
        total: (), the sum over this process's share; it may have a history.
        count: (), integer, how many numbers were summed.

    Returns:
        (), 0 where nothing was counted and the sum is 0.

    Example:
        >>> mean_of_all(torch.tensor(0.0), torch.tensor(0))
        tensor(0.)
    """
    if world() == 1 or not _computing:
        return total / count.clamp(min=1)
    of_all = count.clone()
    dist.all_reduce(of_all)
    return total * world() / of_all.clamp(min=1)


def any_of_all(asked: bool) -> bool:
    """Whether one process at least says so. Asked of CPUs, so that no GPU has to be waited for.

    Args:
        asked: what this one says.

    Returns:
        The same in every process.

    Example:
        >>> any_of_all(False)
        False
    """
    if world() == 1:
        return asked
    flag = torch.tensor(asked, dtype=torch.int32, device="cpu")
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag)


def from_first(read: Callable[[], Any]) -> Any:
    """What process 0 gets from a function, in every process; and the error, if it gets one.

    So one process alone reads or makes a file, and the machines of the others need not have it.

    Args:
        read: called in process 0 alone.

    Returns:
        Whatever it returns, if it can be pickled.

    Raises:
        OSError: as `read` does.
        ValueError: as `read` does.

    Example:
        >>> from_first(lambda: 7)
        7
    """
    if world() == 1:
        return read()
    found: list[Any] = [None, None]
    if rank() == 0:
        try:
            found[0] = read()
        except (OSError, ValueError) as error:
            found[1] = error
    dist.broadcast_object_list(found, src=0, device=torch.device("cpu"))
    if found[1] is not None:
        raise found[1]
    return found[0]


def first_to(deed: str) -> bool:
    """Whether no other process has asked for this deed: what one of those that are left must do.

    Args:
        deed: any name.

    Returns:
        True once in all processes; but in each of them where the machine that keeps the answers
        is gone, for better twice than never.

    Example:
        >>> first_to("speak")
        True
    """
    try:
        return not _stores or _stores[-1].add(deed, 1) == 1
    except RuntimeError:
        return True


@contextmanager
def peers_needed() -> Iterator[None]:
    """Inside, what fails because another process is gone raises `PeerLost`.

    Returns:
        A context.

    Raises:
        PeerLost: where torch says that a connection has failed.

    Example:
        >>> with peers_needed():
        ...     average(torch.tensor(1.0))
        tensor(1.)
    """
    try:
        yield
    except RuntimeError as error:
        if world() == 1 or isinstance(error, PeerLost) or not _is_of_the_connection(error):
            raise
        first = str(error).strip().partition("\n")[0]
        words = re.sub(r"^\[[^]]*\] *", "", first).partition(". ")[0]  # [the place in torch] …
        raise PeerLost(f"another process was lost ({words})") from error


def _is_of_the_connection(error: RuntimeError) -> bool:
    """Gloo's errors have no type of their own, but they name the place in it."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()
