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


def save_checkpoint(path: str | Path, state: dict[str, Any]) -> None:
    """Write tensors, numbers and strings, and lists and dicts of them, atomically."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomic(path, buffer.getvalue())


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote, tensors on the CPU; no code in the file is run."""
    data = Path(path).read_bytes()
    with suppress(pickle.UnpicklingError, RuntimeError):
        if zipfile.is_zipfile(io.BytesIO(data)):
            return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    raise ValueError(f"{path} must be a complete checkpoint, got an incomplete or another file")


def save_weights(path: str | Path, model: nn.Module) -> None:
    """Write a model's `state_dict` as a safetensors file, atomically; tied weights twice."""
    tensors = {  # copies, because safetensors refuses tensors that share memory, as tied weights do
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_atomic(path, safetensors.torch.save(tensors))


def load_weights(path: str | Path, model: nn.Module) -> None:
    """Read the weights of `save_weights` into a model of the same architecture, in place."""
    try:
        tensors = safetensors.torch.load(Path(path).read_bytes())
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} must be a complete safetensors file, got: {error}") from error
    check_tensors(model.state_dict(), tensors, Path(path).name)
    model.load_state_dict(tensors)


def check_tensors(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], origin: str) -> None:
    """Raise unless names and shapes agree: torch would copy some tensors before it refuses."""
    ours, theirs = ({n: tuple(w.shape) for n, w in state.items()} for state in (wanted, found))
    for name in sorted(ours.keys() ^ theirs.keys()):
        problem = "is missing" if name in ours else "is an unexpected tensor"
        raise ValueError(f"{origin}: {name} {problem}")
    for name, shape in ours.items():
        if theirs[name] != shape:
            raise ValueError(f"{origin}: {name} must have shape {shape}, got {theirs[name]}")
