"""Weights and checkpoints: files that are complete at every moment (chapter 4 and on)."""

import hashlib
import io
import json
import os
import pickle
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

BLANK = "0" * 64  # in place of the digest while the digest is computed
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
    """Write a model's `state_dict` as a safetensors file, atomically; tied weights twice.

    The metadata hold the file's sha256, computed with 64 zeros where the digest goes.
    """
    tensors = {  # copies, because safetensors refuses tensors that share memory, as tied weights do
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in model.state_dict().items()
    }
    data = safetensors.torch.save(tensors, metadata={"sha256": BLANK})
    digest = hashlib.sha256(data).hexdigest()
    write_atomic(path, data.replace(BLANK.encode(), digest.encode(), 1))


def load_weights(path: str | Path, model: nn.Module) -> None:
    """Read the weights of `save_weights` into a model of the same architecture, in place.

    A file that states no sha256, as other libraries write it, is not compared with any.
    """
    data = Path(path).read_bytes()
    try:
        tensors = safetensors.torch.load(data)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} must be a complete safetensors file, got: {error}") from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get("__metadata__", {})
    if metadata.keys() - {"format"}:  # all that other libraries state
        digest = str(metadata.get("sha256"))
        unsealed = data.replace(digest.encode(), BLANK.encode(), 1)
        if hashlib.sha256(unsealed).hexdigest() != digest:
            raise ValueError(f"{path} must have the sha256 that it states, got a damaged file")
    check_alike(tensors, model.state_dict(), str(path))
    model.load_state_dict(tensors)


def check_alike(found: Any, wanted: Any, origin: str) -> None:
    """Raise unless a nested dict has the wanted names, and at them tensors alike, or such types."""
    if isinstance(wanted, Mapping):
        names = found.keys() if isinstance(found, Mapping) else ()
        for name in sorted(wanted.keys() ^ names, key=str):
            problem = "is missing" if name in wanted else "is an unexpected entry"
            raise ValueError(f"{origin}: {name} {problem}")
        for name, one in wanted.items():
            check_alike(found[name], one, f"{origin}: {name}")
    elif isinstance(wanted, Tensor):
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        if shape != tuple(wanted.shape):
            raise ValueError(f"{origin} must have shape {tuple(wanted.shape)}, got {shape}")
    elif not isinstance(found, wanted):
        got = type(found).__name__
        raise ValueError(f"{origin} must be a {wanted.__name__}, got {got}")  # noqa: TRY004
