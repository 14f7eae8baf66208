"""Files that are whole at every moment: checkpoints and weights (chapter 4).

A file is written beside its place under another name, pressed to the disk, and then renamed,
which replaces the old file in one step. A process that is killed at any moment, or a disk that
fills up, leaves the old file or the new one, never a part.
"""

import hashlib
import io
import os
import pickle
import re
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
    "load_state",
    "load_weights",
    "read_tensors",
    "save_checkpoint",
    "save_weights",
    "write_whole",
]

MAGIC = b"attn_notes checkpoint 1\n"
DIGEST = hashlib.sha256


def write_whole(path: str | Path, data: bytes) -> None:
    """Put `data` into the file `path`, all of it or nothing.

    Args:
        path: of the file; its folder must exist.
        data: what the file is to hold.

    Raises:
        OSError: the file cannot be written (no such folder, no permission, disk full); what was
            there before is as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(f"{folder}/note.txt", b"whole")
        ...     Path(folder, "note.txt").read_text()
        'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _clean_up(path)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the data before the name: also when the power goes
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # the first error says more than that of cleaning up
            temporary.unlink(missing_ok=True)


def _clean_up(path: Path) -> None:
    """Remove what processes that were killed have left of this file, and no living one's."""
    for part in path.parent.iterdir():
        found = re.fullmatch(rf"\.{re.escape(path.name)}\.(\d+)\.part", part.name)
        if found and not _is_alive(int(found[1])):
            with suppress(OSError):  # another has removed it; or it is open, on Windows
                part.unlink()


def _is_alive(process: int) -> bool:
    """Whether a process has this number; on Windows, where to ask would end it, never."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def save_checkpoint(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write the state of a training, all of it or nothing.

    Args:
        path: of the file; its folder must exist.
        state: tensors, numbers, strings, and lists and dicts of them. `load_checkpoint` reads
            nothing else: a file must not be able to run code.

    Raises:
        OSError: the file cannot be written; what was there before is as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(f"{folder}/checkpoint.pt", {"step": 3, "w": torch.ones(2)})
        ...     load_checkpoint(f"{folder}/checkpoint.pt")
        {'step': 3, 'w': tensor([1., 1.])}
    """
    buffer = io.BytesIO()  # first in memory: torch writing to a full disk aborts in odd ways
    torch.save(dict(state), buffer)
    data = buffer.getvalue()
    write_whole(path, MAGIC + DIGEST(data).digest() + data)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote.

    Args:
        path: of the file.

    Returns:
        The state, its tensors on the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: another kind of file, one that was cut off or changed (the state's digest
            stands before it), or one that would run code.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(f"{folder}/checkpoint.pt", {"losses": [2.5, 1.25]})
        ...     load_checkpoint(f"{folder}/checkpoint.pt")
        {'losses': [2.5, 1.25]}
    """
    content = Path(path).read_bytes()
    if not content.startswith(MAGIC):
        raise ValueError(f"{path} must be a checkpoint of attn_notes, got another kind of file")
    start = len(MAGIC) + DIGEST().digest_size
    if DIGEST(content[start:]).digest() != content[len(MAGIC) : start]:
        raise ValueError(f"{path} must be a whole checkpoint, got one that was cut off or changed")
    try:
        return torch.load(io.BytesIO(content[start:]), weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} must hold tensors, numbers and strings, got other things"
        ) from error


def save_weights(
    path: str | Path, model: nn.Module, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a model's weights as safetensors, all of them or nothing.

    Args:
        path: of the file; its folder must exist.
        model: its `state_dict` is written; a tensor under two names is written under both.
        metadata: strings to keep with them.

    Raises:
        OSError: the file cannot be written; what was there before is as it was.
        TypeError: metadata that are not strings.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/w.safetensors", nn.Linear(2, 3), {"seed": "0"})
        ...     load_weights(f"{folder}/w.safetensors", nn.Linear(2, 3))
        {'seed': '0'}
    """
    metadata = dict(metadata or {})
    if not all(isinstance(text, str) for item in metadata.items() for text in item):
        raise TypeError(f"metadata must be strings, got {metadata}")
    # A copy each: safetensors refuses tensors that share memory, as tied weights do.
    tensors = {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_whole(path, safetensors.torch.save(tensors, metadata))


def load_weights(path: str | Path, model: nn.Module) -> dict[str, str]:
    """Read what `save_weights` wrote into a model of the same architecture.

    Args:
        path: of the file.
        model: its parameters and buffers get the file's values, where they live; it is changed
            only if all of them fit.

    Returns:
        The metadata.

    Raises:
        OSError: the file cannot be read.
        ValueError: another kind of file or one that was cut off; and as `check_tensors` does.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/w.safetensors", nn.Linear(2, 3))
        ...     load_weights(f"{folder}/w.safetensors", nn.Linear(2, 5))
        Traceback (most recent call last):
        ValueError: w.safetensors: weight must have shape (5, 2), got (3, 2)
    """
    tensors, metadata = read_tensors(path)
    load_state(model, tensors, Path(path).name)
    return metadata


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Everything in a safetensors file.

    Args:
        path: of the file.

    Returns:
        The tensors by name, on the CPU, and the metadata.

    Raises:
        OSError: the file cannot be read.
        ValueError: another kind of file, or one that was cut off.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(f"{folder}/w.safetensors", nn.Linear(2, 3, bias=False))
        ...     tensors, metadata = read_tensors(f"{folder}/w.safetensors")
        >>> tensors["weight"].shape
        torch.Size([3, 2])
    """
    path = Path(path)
    path.open("rb").close()  # Python's own error for a file that is not there
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"{path} must be a whole safetensors file, got one that was cut off, or another kind"
        ) from error


def load_state(model: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Give a model the values of `tensors`, once all of them are known to fit.

    Args:
        model: its parameters and buffers get the values, where they live.
        tensors: by their name in the model's `state_dict`.
        origin: where they come from, for the error.

    Raises:
        ValueError: as `check_tensors` does.

    Example:
        >>> load_state(nn.Linear(2, 3), {"weight": torch.ones(3, 2)}, "here")
        Traceback (most recent call last):
        ValueError: here: bias must be there, and is missing
    """
    check_tensors(model.state_dict(), tensors, origin)
    model.load_state_dict(dict(tensors))


def check_tensors(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor], origin: str) -> None:
    """Raise unless both hold the same names, and under each name the same shape and kind.

    Numbers of floating point fit any others, for they are converted; integers must be stored as
    the model has them.

    Args:
        wanted: what a model has; its values do not count, so it may be on the meta device.
        tensors: what a file holds.
        origin: where that comes from, for the error.

    Raises:
        ValueError: a tensor that is missing, that the model does not have, of another shape or
            another kind of number, or that holds a NaN.

    Example:
        >>> check_tensors({"weight": torch.ones(2)}, {"weight": torch.ones(3)}, "here")
        Traceback (most recent call last):
        ValueError: here: weight must have shape (2,), got (3,)
    """
    for name, tensor in wanted.items():
        if name not in tensors:
            raise ValueError(f"{origin}: {name} must be there, and is missing")
        if tensors[name].shape != tensor.shape:
            raise ValueError(
                f"{origin}: {name} must have shape {tuple(tensor.shape)}, got "
                f"{tuple(tensors[name].shape)}"
            )
        if tensor.is_floating_point() != tensors[name].is_floating_point() or (
            not tensor.is_floating_point() and tensor.dtype != tensors[name].dtype
        ):
            kind = "floating point" if tensor.is_floating_point() else tensor.dtype
            raise ValueError(f"{origin}: {name} must be {kind}, got {tensors[name].dtype}")
        if tensors[name].isnan().any():
            raise ValueError(f"{origin}: {name} must be numbers, got NaN")
    for name in tensors:
        if name not in wanted:
            raise ValueError(f"{origin}: {name} is no tensor of the model")
