"""Random numbers of a training: its own, and of each process its own (chapter 4 and on)."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["own_randomness", "random_states", "seed_of", "set_random_states", "sow"]


@contextmanager
def own_randomness(device: torch.device, seed: int) -> Iterator[None]:
    """Generators seeded inside; afterwards the caller's numbers go on as if nothing had been.

    Args:
        device: where the training draws; the CPU's generator is seeded too.
        seed: of both.

    Returns:
        A context.

    Example:
        >>> cpu = torch.device("cpu")
        >>> with own_randomness(cpu, 0):
        ...     first = torch.rand((), device=cpu)
        >>> with own_randomness(cpu, 0):
        ...     torch.equal(torch.rand((), device=cpu), first)
        True
    """
    before = random_states(device)
    try:
        sow(device, seed)
        yield
    finally:
        set_random_states(before, device)


def sow(device: torch.device, seed: int) -> None:
    """Seed the CPU's generator and this device's, and no other: torch.manual_seed changes all.

    Args:
        device: whose generator is seeded beside the CPU's.
        seed: of both.

    Example:
        >>> with own_randomness(torch.device("cpu"), 0):
        ...     sow(torch.device("cpu"), 1)
    """
    seeded = {d.type: torch.Generator(d).manual_seed(seed) for d in (torch.device("cpu"), device)}
    set_random_states({kind: each.get_state() for kind, each in seeded.items()}, device)


def seed_of(*what: int) -> int:
    """One seed made of several numbers, none of which can be had by adding to another.

    Args:
        what: such as the seed of a training, a step and a process.

    Returns:
        From 0 to 2⁶³ - 1, the same everywhere.

    Example:
        >>> seed_of(0, 1) == seed_of(0, 1), seed_of(0, 1) == seed_of(1, 0)
        (True, False)
    """
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:8], "little") >> 1


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The state of the CPU's generator and of the device's, by the kind of device.

    Args:
        device: any.

    Returns:
        One state or two.

    Example:
        >>> [*random_states(torch.device("cpu"))]
        ['cpu']
    """
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(*_index(device))
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Put back what `random_states` gave.

    Args:
        states: by the kind of device.
        device: the one they are of, or another of its kind.

    Example:
        >>> cpu = torch.device("cpu")
        >>> set_random_states(random_states(cpu), cpu)
    """
    torch.set_rng_state(states["cpu"])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states[device.type], *_index(device))


def _index(device: torch.device) -> tuple[torch.device, ...]:
    return () if device.type == "mps" else (device,)  # which has but one
