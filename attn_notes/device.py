"""The one place that decides between CPU and GPU, and what holds on either."""

import os

import torch
from torch import Tensor


def get_device(name: str | None = None) -> torch.device:
    """The device that every chapter runs on: a GPU if there is one, otherwise the CPU.

    A name (`cpu`, `cuda`, `cuda:1`, `mps`) forces a device, and so does the environment variable
    `ATTN_NOTES_DEVICE`; one that this machine does not have raises a ValueError.

    Example:
        >>> torch.zeros(2, device=get_device()).shape
        torch.Size([2])
    """
    forced = os.environ.get("ATTN_NOTES_DEVICE", "").strip() if name is None else name
    if name is None and not forced:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(forced)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # torch without CUDA asserts
        origin = "ATTN_NOTES_DEVICE" if name is None else "device"
        wanted = "must name a device of this machine (cpu, cuda, mps)"
        raise ValueError(f"{origin} {wanted}, got {forced!r}") from error
    return device


def device_or_default(device: torch.device | str | None) -> torch.device:
    """This device, or torch's default one; a compiled graph cannot call `get_default_device`."""
    return torch.empty(0, device=None).device if device is None else torch.device(device)


def known_number(number: Tensor) -> float | None:
    """A tensor's one number; None in a compiled graph, under vmap and on the meta device."""
    if torch.compiler.is_compiling():
        return None
    try:
        return number.item()
    except RuntimeError:
        return None
