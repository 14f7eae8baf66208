"""BERT's published layout: an encoder, and the head that predicts hidden tokens (chapters 5, 8)."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.pretrained.folders import (
    build_config,
    drop_copy,
    find_files,
    read_config,
    read_tokenizer,
    rename,
)
from attn_notes.training.files import check_tensors, read_tensors
from attn_notes.transformer import Encoder, MaskedLanguageModel, TransformerConfig

__all__ = ["load_encoder", "load_masked_language_model"]

# Ours, and what BERT's published files call it; {} is the number of a block.
ENCODER = {
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.token_types": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "blocks.{}.self_attn.q_proj": "encoder.layer.{}.attention.self.query",
    "blocks.{}.self_attn.k_proj": "encoder.layer.{}.attention.self.key",
    "blocks.{}.self_attn.v_proj": "encoder.layer.{}.attention.self.value",
    "blocks.{}.self_attn.out_proj": "encoder.layer.{}.attention.output.dense",
    "blocks.{}.norm1": "encoder.layer.{}.attention.output.LayerNorm",
    "blocks.{}.feed_forward.linear1": "encoder.layer.{}.intermediate.dense",
    "blocks.{}.feed_forward.linear2": "encoder.layer.{}.output.dense",
    "blocks.{}.norm2": "encoder.layer.{}.output.LayerNorm",
}
HEAD = {
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "out_proj": "cls.predictions.decoder",
}
# Not read: layers on top of the blocks, and a buffer that counts from 0.
LEFT_OUT = ("pooler.", "cls.seq_relationship.", "embeddings.position_ids")

# Field of `TransformerConfig`: key of `config.json`.
KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "num_layers": "num_hidden_layers",
    "ffn_dim": "intermediate_size",
    "activation": "hidden_act",
    "max_length": "max_position_embeddings",
    "num_token_types": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
    "tie_embeddings": "tie_word_embeddings",
}
# What must stand there, or nothing at all: other values mean another computation.
FIXED = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
DEFAULTS = {"tie_word_embeddings": True}


def load_encoder(source: str | Path) -> tuple[Encoder, Tokenizer]:
    """Read a published encoder of the BERT family into our own blocks. Chapters 5 and 8.

    Args:
        source: a folder that holds `config.json`, `model.safetensors` and `tokenizer.json`, or
            the name of such a model on the hub, `owner/name`, which is downloaded (once; the
            package `huggingface_hub` keeps it).

    Returns:
        The encoder, on the CPU, in torch's default dtype and in evaluation mode, and its
        tokenizer, which neither cuts off nor pads: `tokenizer.encode(text)` has `ids`, `tokens`
        and `offsets`. A head in the file is left out.

    Raises:
        WeightsNotFound: no such folder or file, or a download that failed.
        ValueError: a model of another kind; a file that is damaged, or does not fit the others. The
            message names the file, and the tensor if one is to blame.

    Example:
        >>> load_encoder(Path("nowhere"))
        Traceback (most recent call last):
        attn_notes.pretrained.folders.WeightsNotFound: nowhere must be a folder, and is not there
    """
    files = find_files(source)
    config = _read_config(files.config)
    tensors = read_tensors(files.weights)
    # Saved with a head on top, the encoder's names begin with "bert." and the head's do not.
    inside = {name: tensor for name, tensor in tensors.items() if name.startswith("bert.")}
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not used up
        encoder = Encoder(config)
    _fill(encoder, ENCODER, _newest_names(inside or tensors, files.weights), files.weights)
    return encoder.eval(), read_tokenizer(files.tokenizer, config.vocab_size)


def load_masked_language_model(source: str | Path) -> tuple[MaskedLanguageModel, Tokenizer]:
    """Read a published BERT, its head included, into our own blocks. Chapter 8.

    The head's last layer is the token embedding where `config.json` says so, or does not say;
    where it says `"tie_word_embeddings": false`, the head has a matrix of its own, and that must
    be in the file.

    Args:
        source: a folder, or a name on the hub, as in `load_encoder`.

    Returns:
        The model and its tokenizer, as in `load_encoder`.

    Raises:
        WeightsNotFound: as in `load_encoder`.
        ValueError: as in `load_encoder`; a file without that head, or with two matrices where the
            config says that they are one.

    Example:
        >>> load_masked_language_model(Path("nowhere"))
        Traceback (most recent call last):
        attn_notes.pretrained.folders.WeightsNotFound: nowhere must be a folder, and is not there
    """
    files = find_files(source)
    config = _read_config(files.config)
    tensors = _newest_names(read_tensors(files.weights), files.weights)
    names = _settle_head(tensors, config.tie_embeddings, files.weights)
    with torch.random.fork_rng(devices=[]):
        model = MaskedLanguageModel(config)
    _fill(model, names, tensors, files.weights)
    return model.eval(), read_tokenizer(files.tokenizer, config.vocab_size)


def _read_config(path: Path) -> TransformerConfig:
    """What `config.json` says, in our own words."""
    published = read_config(path, FIXED, DEFAULTS)
    return build_config(path, published, KEYS, norm="post", embed_norm=True)


def _newest_names(tensors: Mapping[str, Tensor], origin: Path) -> dict[str, Tensor]:
    """What is read of a file, whichever model it was saved in, by the newest names."""
    plain = rename(tensors, _newest_name, origin)
    return {name: tensor for name, tensor in plain.items() if not name.startswith(LEFT_OUT)}


def _newest_name(name: str) -> str:
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix("bert."))
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _settle_head(tensors: dict[str, Tensor], tied: bool, origin: Path) -> dict[str, str]:
    """Ours and the published names, each tensor of the head having one name in `tensors` now."""
    matrix, bias = "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"
    names = {f"body.{ours}": theirs for ours, theirs in ENCODER.items()} | HEAD
    names["out_proj.bias"] = "cls.predictions.bias"
    if tied:
        names["out_proj.weight"] = "embeddings.word_embeddings.weight"
        drop_copy(tensors, matrix, names["out_proj.weight"], origin)
        drop_copy(tensors, bias, names["out_proj.bias"], origin)
    elif bias in tensors:  # then the reference does not use the other one
        names["out_proj.bias"] = bias
        tensors.pop("cls.predictions.bias", None)
    return names


def _fill(
    model: Encoder | MaskedLanguageModel,
    names: Mapping[str, str],
    tensors: Mapping[str, Tensor],
    origin: Path,
) -> None:
    """Give a model the weights of a file, all of which must fit.

    `names` is by module, where weight and bias have one name, or by tensor.
    """
    layers = range(model.config.num_layers)
    names = {ours.format(i): theirs.format(i) for ours, theirs in names.items() for i in layers}
    published = {}
    for name in model.state_dict():
        module, _, kind = name.rpartition(".")  # kind: weight or bias
        published[name] = names.get(name) or f"{names[module]}.{kind}"
    wanted = {published[name]: tensor for name, tensor in model.state_dict().items()}
    check_tensors(wanted, tensors, str(origin))
    model.load_state_dict({name: tensors[theirs] for name, theirs in published.items()})
