"""Where the tensors live: the one place that decides between CPU and GPU."""

import os

import torch

__all__ = ["get_device"]


def get_device(name: str | None = None) -> torch.device:
    """The device that every chapter runs on: a GPU when there is one, else the CPU.

    The environment variable `ATTN_NOTES_DEVICE` forces one (`cpu`, `cuda`, `cuda:1`, `mps`);
    the notebooks are compared with `ATTN_NOTES_DEVICE=cpu`.

    Args:
        name: forces one too, before the environment.

    Returns:
        The device, to be handed to every tensor factory.

    Raises:
        ValueError: `name` or `ATTN_NOTES_DEVICE` names something torch does not know, or an
            accelerator that this machine does not have.

    Example:
        >>> import torch
        >>> torch.zeros(2, device=get_device()).shape
        torch.Size([2])
    """
    if name is not None:
        return _parse(name, "device")
    forced = os.environ.get("ATTN_NOTES_DEVICE", "").strip()
    if forced:
        return _parse(forced, "ATTN_NOTES_DEVICE")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def _parse(name: str, origin: str) -> torch.device:
    """The device called `name`, checked by putting one number on it."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # torch without CUDA asserts
        raise ValueError(
            f"{origin} must name a device of this machine (cpu, cuda, mps), got {name!r}"
        ) from error
    return device
