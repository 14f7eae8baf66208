"""Weights and checkpoints: files that are complete at every moment (chapter 4 and on)."""

import io
import os
import pickle
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

__all__ = [
    "check_tensors",
    "load_checkpoint",
    "load_weights",
    "save_checkpoint",
    "save_weights",
    "write_atomic",
]


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write a file so that a kill or a full disk leaves the old or the new one, never a part."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the data reaches the disk before the name does
        temporary.replace(path)
    except OSError as error:
        if temporary.is_file():
            temporary.unlink()
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error


def save_checkpoint(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write tensors, numbers and strings, and lists and dicts of them, atomically."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    write_atomic(path, buffer.getvalue())


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint that `fit` wrote; no code in the file is run.

    Args:
        path: of the file.

    Returns:
        "settings", "losses", "best", "model", "optimizer" and "rng"; tensors on the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: another kind of file, or an incomplete one.

    Example:
        >>> load_checkpoint("README.md")
        Traceback (most recent call last):
        ValueError: README.md must be a complete checkpoint, got an incomplete or another file
    """
    data = Path(path).read_bytes()
    reason = "an incomplete or another file"
    with suppress(pickle.UnpicklingError, RuntimeError):
        if zipfile.is_zipfile(io.BytesIO(data)):
            return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    raise ValueError(f"{path} must be a complete checkpoint, got {reason}")


def save_weights(path: str | Path, model: nn.Module) -> None:
    """Write a model's weights as a safetensors file, atomically.

    Args:
        path: of the file; its folder must exist.
        model: its `state_dict` is written; a tensor with two names is written under both.

    Raises:
        OSError: the file cannot be written; the old one is unchanged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/w.safetensors", nn.Linear(2, 3))
        ...     load_weights(f"{folder}/w.safetensors", nn.Linear(2, 3))
    """
    tensors = {  # copies, because safetensors refuses tensors that share memory, as tied weights do
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_atomic(path, safetensors.torch.save(tensors))


def load_weights(path: str | Path, model: nn.Module) -> None:
    """Read the weights that `save_weights` wrote into a model of the same architecture.

    Args:
        path: of the file.
        model: receives the values in place, on its own device, if all of them fit.

    Raises:
        OSError: the file cannot be read.
        ValueError: not a safetensors file, an incomplete one, or weights of another model.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/w.safetensors", nn.Linear(2, 3))
        ...     load_weights(f"{folder}/w.safetensors", nn.Linear(2, 5))
        Traceback (most recent call last):
        ValueError: w.safetensors: weight must have shape (5, 2), got (3, 2)
    """
    try:
        tensors = safetensors.torch.load(Path(path).read_bytes())
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} must be a complete safetensors file, got: {error}") from error
    check_tensors(model.state_dict(), tensors, Path(path).name)
    model.load_state_dict(tensors)


def check_tensors(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor], origin: str) -> None:
    """Raise unless names, shapes and dtypes agree (any floating-point dtype fits another)."""
    for name in sorted(wanted.keys() ^ tensors.keys()):
        problem = "is missing" if name in wanted else "is an unexpected tensor"
        raise ValueError(f"{origin}: {name} {problem}")
    for name, tensor in wanted.items():
        found = tensors[name]
        if found.shape != tensor.shape:
            shapes = f"{tuple(tensor.shape)}, got {tuple(found.shape)}"
            raise ValueError(f"{origin}: {name} must have shape {shapes}")
        both_floating = tensor.is_floating_point() and found.is_floating_point()
        if found.dtype != tensor.dtype and not both_floating:
            raise ValueError(f"{origin}: {name} must be {tensor.dtype}, got {found.dtype}")
        if found.isnan().any():
            raise ValueError(f"{origin}: {name} must not hold NaN")
