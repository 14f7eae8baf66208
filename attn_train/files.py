"""Weights and checkpoints: files that are complete at every moment (chapter 4 and on)."""

import hashlib
import io
import os
import pickle
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

OLD = 3600  # seconds after which nobody is still writing a file


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write a file so that a kill or a full disk leaves the old or the new one, never a part."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:  # x: it is new, so no other writer's, and no link
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the data reaches the disk before the name does
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    with suppress(OSError):  # by now the file is whole
        _remove_parts(path)


def _remove_parts(path: Path) -> None:
    """Remove what killed writers of this file have left."""
    for part in path.parent.iterdir():
        if part.name.startswith(f".{path.name}.") and part.name.endswith(".part"):
            with suppress(OSError):  # another writer may be faster
                if time.time() - part.lstat().st_mtime > OLD:
                    part.unlink()


def save_checkpoint(path: str | Path, state: dict[str, Any]) -> None:
    """Write tensors, numbers and strings, and lists and dicts of them, atomically."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    write_atomic(path, data + hashlib.sha256(data).digest())


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote, tensors on the CPU; no code in the file is run."""
    content = Path(path).read_bytes()
    data, digest = content[:-32], content[-32:]
    if hashlib.sha256(data).digest() == digest:
        with suppress(pickle.UnpicklingError, RuntimeError):
            return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    raise ValueError(f"{path} must be a complete checkpoint, got a damaged or another file")


def save_weights(path: str | Path, model: nn.Module) -> None:
    """Write a model's `state_dict` as a safetensors file, atomically; tied weights twice."""
    tensors = {  # copies, because safetensors refuses tensors that share memory, as tied weights do
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_atomic(path, safetensors.torch.save(tensors))
