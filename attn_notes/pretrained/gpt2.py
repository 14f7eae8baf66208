"""GPT-2's published layout: a decoder, matrices transposed, and three in one (chapter 8)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.data import SpecialTokens
from attn_notes.pretrained.folders import (
    build_config,
    drop_copy,
    find_files,
    read_config,
    read_tokenizer,
    rename,
)
from attn_notes.training.files import check_tensors, read_tensors
from attn_notes.transformer import DecoderOnly, TransformerConfig

__all__ = ["load_decoder"]

# What GPT-2's published files call it, and ours, one or several side by side; {} numbers a block.
MODULES = {
    "wte": ("body.embeddings.tokens",),
    "wpe": ("body.embeddings.positions",),
    "h.{}.ln_1": ("body.blocks.{}.norm1",),
    "h.{}.attn.c_attn": (
        "body.blocks.{}.self_attn.q_proj",
        "body.blocks.{}.self_attn.k_proj",
        "body.blocks.{}.self_attn.v_proj",
    ),
    "h.{}.attn.c_proj": ("body.blocks.{}.self_attn.out_proj",),
    "h.{}.ln_2": ("body.blocks.{}.norm2",),
    "h.{}.mlp.c_fc": ("body.blocks.{}.feed_forward.linear1",),
    "h.{}.mlp.c_proj": ("body.blocks.{}.feed_forward.linear2",),
    "ln_f": ("body.norm",),
    "lm_head": ("out_proj",),
}
# Not read: the causal mask, which older files hold as a buffer, and another head beside ours.
LEFT_OUT = re.compile(r"h\.\d+\.attn\.(masked_)?bias|multiple_choice_head\..*")

# Field of `TransformerConfig`: key of `config.json`.
KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "n_embd",
    "num_heads": "n_head",
    "num_layers": "n_layer",
    "ffn_dim": "n_inner",
    "activation": "activation_function",
    "max_length": "n_positions",
    "dropout": "resid_pdrop",
    "layer_norm_eps": "layer_norm_epsilon",
    "tie_embeddings": "tie_word_embeddings",
}
# What must stand there, or nothing at all: other values mean another computation.
FIXED = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
DEFAULTS = {"n_inner": None, "activation_function": "gelu_new", "tie_word_embeddings": True}


def load_decoder(source: str | Path) -> tuple[DecoderOnly, Tokenizer]:
    """Read a published decoder of the GPT-2 family into our own blocks. Chapter 8.

    Radford et al. (2019). Its files hold every matrix transposed, (in, out), and those of query,
    key and value side by side. The map to the logits is the token embedding where `config.json`
    says so, or does not say; where it says `"tie_word_embeddings": false`, `lm_head.weight` must
    be in the file, and is used.

    Args:
        source: a folder, or a name on the hub, as in `load_encoder`.

    Returns:
        The decoder, on the CPU, in torch's default dtype and in evaluation mode, with the
        published end of text as its `special_tokens`, and its tokenizer, as in `load_encoder`.

    Raises:
        WeightsNotFound: as in `load_encoder`.
        ValueError: as in `load_encoder`; an end of text that is no id, or two matrices where the
            config says that they are one.

    Example:
        >>> load_decoder(Path("nowhere"))
        Traceback (most recent call last):
        attn_notes.pretrained.folders.WeightsNotFound: nowhere must be a folder, and is not there
    """
    files = find_files(source)
    published = read_config(files.config, FIXED, DEFAULTS)
    config = _config_of(published, files.config)
    special_tokens = _special_tokens(published, files.config)
    tensors = _plain_names(read_tensors(files.weights), files.weights)
    if config.tie_embeddings:
        drop_copy(tensors, "lm_head.weight", "wte.weight", files.weights)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not used up
        decoder = DecoderOnly(config)
    decoder.special_tokens = special_tokens
    _fill(decoder, tensors, files.weights)
    return decoder.eval(), read_tokenizer(files.tokenizer, config.vocab_size)


def _config_of(published: Mapping[str, Any], path: Path) -> TransformerConfig:
    """What `config.json` says, in our own words."""
    width = published.get("n_embd")
    if published["n_inner"] is None and isinstance(width, int):
        published = {**published, "n_inner": 4 * width}
    return build_config(path, published, KEYS, norm="pre", positions="learned")


def _special_tokens(published: Mapping[str, Any], path: Path) -> SpecialTokens:
    """The published end of text, which fills up after itself as well; nothing stands before."""
    end, V = published.get("eos_token_id"), published["vocab_size"]
    if not isinstance(end, int) or not 0 <= end < V:
        raise ValueError(f"{path}: eos_token_id must be an id below vocab_size = {V}, got {end!r}")
    return SpecialTokens(pad=end, start=None, end=end)


def _plain_names(tensors: Mapping[str, Tensor], origin: Path) -> dict[str, Tensor]:
    """What is read of a file, by the names that the model has without a head on top."""
    plain = rename(tensors, lambda name: name.removeprefix("transformer."), origin)
    return {name: tensor for name, tensor in plain.items() if not LEFT_OUT.fullmatch(name)}


def _fill(decoder: DecoderOnly, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Give a decoder the weights of a file, all of which must fit."""
    places = _places(decoder)
    wanted = {name: _turned(name, torch.cat(parts)) for name, parts in places.items()}
    check_tensors(wanted, tensors, str(origin))
    for name, parts in places.items():
        published = _turned(name, tensors[name]).chunk(len(parts))
        for ours, theirs in zip(parts, published, strict=True):
            ours.copy_(theirs)


def _places(decoder: DecoderOnly) -> dict[str, list[Tensor]]:
    """Where each published tensor goes: into one of ours, or into several, from top to bottom."""
    state = decoder.state_dict()  # shares its numbers with the decoder
    if decoder.config.tie_embeddings:
        del state["out_proj.weight"]
    places = {}
    for i in range(decoder.config.num_layers):
        for module, ours in MODULES.items():
            for kind in ("weight", "bias"):
                names = [f"{name}.{kind}".format(i) for name in ours]
                if names[0] in state:
                    places[f"{module}.{kind}".format(i)] = [state[name] for name in names]
    return places


def _turned(name: str, tensor: Tensor) -> Tensor:
    """A block's matrix (in, out) for (out, in), or the other way round; others as they are."""
    return tensor.T if name.startswith("h.") and tensor.dim() == 2 else tensor
