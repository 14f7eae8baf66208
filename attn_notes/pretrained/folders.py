"""The files of a published model: where they lie, and what is wrong with them if anything is."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.transformer import TransformerConfig

__all__ = [
    "FILES",
    "ModelFiles",
    "WeightsNotFound",
    "build_config",
    "check_ids",
    "drop_copy",
    "existing",
    "find_files",
    "read_config",
    "read_tokenizer",
    "rename",
]

FILES = ("config.json", "model.safetensors", "tokenizer.json")

# What published configs call an activation, and what ours does.
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
TRUTHS = {True: True, False: False}


class WeightsNotFound(FileNotFoundError):
    """The weights are not on this machine; the message says how to get them."""


class ModelFiles(NamedTuple):
    """The files of a published model; all three are there."""

    config: Path
    """`config.json`: sizes and choices."""
    weights: Path
    """`model.safetensors`: tensors, by name."""
    tokenizer: Path
    """`tokenizer.json`: from text to ids, and back."""


def find_files(source: str | Path) -> ModelFiles:
    """Where the files of a model lie, after a download if need be.

    Args:
        source: a folder, or the name of a model on the hub, `owner/name`.

    Returns:
        The path of each file.

    Raises:
        WeightsNotFound: no such folder or file, or a download that failed.

    Example:
        >>> find_files(Path("nowhere"))
        Traceback (most recent call last):
        attn_notes.pretrained.folders.WeightsNotFound: nowhere must be a folder, and is not there
    """
    folder = _folder_of(source)
    return ModelFiles(*(existing(folder, name) for name in FILES))


def existing(folder: Path, name: str) -> Path:
    """The path of a file that is there.

    Args:
        folder: that holds it.
        name: of the file.

    Returns:
        The path.

    Raises:
        WeightsNotFound: it is not there.

    Example:
        >>> existing(Path("nowhere"), "config.json")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        attn_notes.pretrained.folders.WeightsNotFound: nowhere must hold ... config.json is missing
    """
    if not (folder / name).is_file():
        raise WeightsNotFound(f"{folder} must hold {', '.join(FILES)}, and {name} is missing")
    return folder / name


def _folder_of(source: str | Path) -> Path:
    """The local folder of a source, after a download if it is a name on the hub."""
    if Path(source).is_dir():
        return Path(source)
    if not isinstance(source, str) or not re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        raise WeightsNotFound(f"{source} must be a folder, and is not there")
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415, only for names on the hub

        return Path(snapshot_download(source, allow_patterns=list(FILES)))
    except ImportError as error:
        raise WeightsNotFound(
            f"{source} is no folder here; to download it from the hub, "
            "`python -m pip install huggingface_hub`"
        ) from error
    except Exception as error:  # a network fails in many ways, each library with its own
        reason = str(error).strip().partition("\n")[0]
        raise WeightsNotFound(
            f"{source} is no folder here, and downloading it from the hub failed: "
            f"{type(error).__name__}: {reason}"
        ) from error


def read_config(
    path: Path, fixed: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """What `config.json` says, once it is known to mean no other computation than ours.

    Args:
        path: of the file.
        fixed: what must stand there, or nothing at all.
        defaults: what counts where a key is missing: older files lack what came later.

    Returns:
        Every key of the file, and those of `defaults`.

    Raises:
        ValueError: no JSON object, or another value than the one in `fixed`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "config.json")
        ...     _ = path.write_text('{"n_embd": 8}')
        ...     read_config(path, {"model_type": "gpt2"}, {"n_inner": None})
        {'n_inner': None, 'n_embd': 8}
    """
    try:
        published = {**defaults, **json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} must be a JSON object, got something else: {error}") from error
    for key, value in fixed.items():
        if published.get(key, value) != value:
            raise ValueError(f"{path}: {key} must be {value!r}, got {published[key]!r}")
    return published


def build_config(
    path: Path, published: Mapping[str, Any], keys: Mapping[str, str], **fields: Any
) -> TransformerConfig:
    """What `config.json` says, in our own words.

    Args:
        path: of the file, for the error.
        published: what it says.
        keys: for a field of `TransformerConfig`, the file's key.
        **fields: what the family's models have in common.

    Returns:
        The config of our model.

    Raises:
        ValueError: a key that is missing, an unknown activation, or what `TransformerConfig`
            refuses.

    Example:
        >>> build_config(Path("config.json"), {"n_embd": 8}, {"vocab_size": "vocab_size"})
        Traceback (most recent call last):
        ValueError: config.json: vocab_size must be there, and is missing
    """
    missing = [key for key in keys.values() if key not in published]
    if missing:
        raise ValueError(f"{path}: {', '.join(missing)} must be there, and is missing")
    fields |= {field: published[key] for field, key in keys.items()}
    for field, choices in (("activation", ACTIVATIONS), ("tie_embeddings", TRUTHS)):
        if (choice := fields[field]) not in tuple(choices):
            one_of = f"must be one of {tuple(choices)}, got {choice!r}"
            raise ValueError(f"{path}: {keys[field]} {one_of}")
        fields[field] = choices[choice]
    try:
        return TransformerConfig(**fields)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def rename(
    tensors: Mapping[str, Tensor], newest: Callable[[str], str], origin: Path
) -> dict[str, Tensor]:
    """The tensors of a file by other names, each of which belongs to one of them.

    Args:
        tensors: of the file, by name.
        newest: from a name in a file of any year to the one that we look for.
        origin: the file, for the error.

    Returns:
        The same tensors.

    Raises:
        ValueError: two tensors that would have one name.

    Example:
        >>> list(rename({"BIAS": torch.zeros(1)}, str.lower, Path("model.safetensors")))
        ['bias']
    """
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if newest(name) in renamed:
            raise ValueError(f"{origin}: {newest(name)} must be there once, and {name} is it again")
        renamed[newest(name)] = tensor
    return renamed


def drop_copy(tensors: dict[str, Tensor], copy: str, original: str, origin: Path) -> None:
    """Leave one name of a tensor that a file may hold under two, because the model shares it.

    Args:
        tensors: of the file, by name; changed in place: `copy` goes.
        copy: the name that may be missing. Where it stands alone, it is the original.
        original: the name that stays.
        origin: the file, for the error.

    Raises:
        ValueError: both are there and are not equal.

    Example:
        >>> tensors = {"lm_head": torch.ones(2), "wte": torch.ones(2)}
        >>> drop_copy(tensors, "lm_head", "wte", Path("model.safetensors"))
        >>> list(tensors)
        ['wte']
    """
    if copy not in tensors:
        return
    if not torch.equal(tensors.setdefault(original, tensors[copy]), tensors[copy]):
        raise ValueError(
            f"{origin}: {copy} must be equal to {original} where tie_word_embeddings is true, "
            "got other numbers"
        )
    del tensors[copy]


def read_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer of a model, which neither cuts off nor pads.

    Args:
        path: of `tokenizer.json`.
        vocab_size: V, how many embeddings there are.

    Returns:
        The tokenizer.

    Raises:
        ValueError: another kind of file, or an id that has no embedding.

    Example:
        >>> read_tokenizer(Path("nothing.json"), 100)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: nothing.json must be a tokenizer's file: ...
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"{path} must be a tokenizer's file: {error}") from error
    check_ids(tokenizer, vocab_size, str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def check_ids(tokenizer: Tokenizer, vocab_size: int, origin: str) -> None:
    """Raise unless every id of a tokenizer has an embedding.

    Args:
        tokenizer: from text to ids.
        vocab_size: V, how many embeddings there are.
        origin: where the tokenizer comes from, for the error.

    Raises:
        ValueError: an id of V or more.

    Example:
        >>> from tokenizers.models import WordLevel
        >>> check_ids(Tokenizer(WordLevel({"a": 0, "b": 9})), 5, "here")
        Traceback (most recent call last):
        ValueError: here: ids must be below vocab_size = 5, got 9
    """
    last = max(tokenizer.get_vocab().values(), default=-1)
    if last >= vocab_size:
        raise ValueError(f"{origin}: ids must be below vocab_size = {vocab_size}, got {last}")
