"""BERT's published layout: an encoder, and a head that predicts masked tokens (chapters 5, 8)."""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.pretrained.config import read_config
from attn_notes.pretrained.folders import build, find_folder
from attn_notes.transformer import Encoder, MaskedLanguageModel

# The published name of a module and ours; {} is the number of a block.
ENCODER = {
    "embeddings.word_embeddings": "embeddings.tokens",
    "embeddings.position_embeddings": "embeddings.positions",
    "embeddings.token_type_embeddings": "embeddings.token_types",
    "embeddings.LayerNorm": "embeddings.norm",
    "encoder.layer.{}.attention.self.query": "blocks.{}.self_attn.q_proj",
    "encoder.layer.{}.attention.self.key": "blocks.{}.self_attn.k_proj",
    "encoder.layer.{}.attention.self.value": "blocks.{}.self_attn.v_proj",
    "encoder.layer.{}.attention.output.dense": "blocks.{}.self_attn.out_proj",
    "encoder.layer.{}.attention.output.LayerNorm": "blocks.{}.norm1",
    "encoder.layer.{}.intermediate.dense": "blocks.{}.feed_forward.linear1",
    "encoder.layer.{}.output.dense": "blocks.{}.feed_forward.linear2",
    "encoder.layer.{}.output.LayerNorm": "blocks.{}.norm2",
}
HEAD = {
    "cls.predictions.transform.dense": "transform",
    "cls.predictions.transform.LayerNorm": "norm",
    "cls.predictions.decoder": "out_proj",
    "cls.predictions": "out_proj",  # its bias
}
OLD_KINDS = {"gamma": "weight", "beta": "bias"}  # of a norm, in files of 2018
# Not read: layers on top of the blocks, and a buffer that counts from 0.
LEFT_OUT = ("pooler.", "cls.seq_relationship.", "embeddings.position_ids")


def load_encoder(source: str | Path, *, revision: str | None = None) -> tuple[Encoder, Tokenizer]:
    """Load a published encoder of the BERT family into our own blocks. Chapters 5 and 8.

    The source is a folder, or a name on the hub, `owner/name`, which is downloaded once, at a
    `revision`: a commit, tag or branch; the newest commit by default. The encoder is on torch's
    default device, in its default dtype and in evaluation mode, without any head; its tokenizer
    neither truncates nor pads.

    Raises:
        WeightsNotFound: no such folder, or the download failed.
        ValueError: another kind of model, files that do not fit each other, or a damaged one.

    Example:
        >>> from attn_notes.pretrained import minilm_folder
        >>> encoder, tokenizer = load_encoder(minilm_folder())
        >>> tokenizer.encode("time flies").tokens
        ['[CLS]', 'time', 'flies', '[SEP]']
    """
    folder = find_folder(source, revision)
    config, _ = read_config(folder, "bert", norm="post", embed_norm=True)
    return build(Encoder, config, folder, ENCODER, _without_head)


def load_masked_language_model(
    source: str | Path, *, revision: str | None = None
) -> tuple[MaskedLanguageModel, Tokenizer]:
    """Load a published BERT with its head into our own blocks. Chapter 9.

    The token embedding gives the logits, unless the config has `"tie_word_embeddings": false`.

    Arguments, results and errors are those of `load_encoder`.
    """
    folder = find_folder(source, revision)
    config, _ = read_config(folder, "bert", norm="post", embed_norm=True)
    names = {theirs: f"body.{ours}" for theirs, ours in ENCODER.items()} | HEAD
    return build(MaskedLanguageModel, config, folder, names, _plain)


def _without_head(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the encoder: "bert." stands before their names where there is a head."""
    inside = {name: x for name, x in tensors.items() if name.startswith("bert.")}
    return _plain(inside or tensors)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that are read, by today's names, whichever model they were saved in."""
    plain = {}
    for published, tensor in tensors.items():
        module, _, kind = published.removeprefix("bert.").rpartition(".")
        name = f"{module}.{OLD_KINDS.get(kind, kind)}"
        if not name.startswith(LEFT_OUT):
            plain[name] = tensor
    if "cls.predictions.decoder.bias" in plain:  # the head's bias has two names
        plain.pop("cls.predictions.bias", None)
    return plain
