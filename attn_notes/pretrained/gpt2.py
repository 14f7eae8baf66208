"""GPT-2's published layout: a decoder whose matrices are stored transposed (chapter 9)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from attn_notes.pretrained.config import Layout, read_config

# The published name of a module and ours; {} is the number of a block.
NAMES = {
    "wte": "body.embeddings.tokens",
    "wpe": "body.embeddings.positions",
    "h.{}.ln_1": "body.blocks.{}.norm1",
    "h.{}.attn.c_attn": "body.blocks.{}.self_attn.qkv_proj",
    "h.{}.attn.c_proj": "body.blocks.{}.self_attn.out_proj",
    "h.{}.ln_2": "body.blocks.{}.norm2",
    "h.{}.mlp.c_fc": "body.blocks.{}.feed_forward.linear1",
    "h.{}.mlp.c_proj": "body.blocks.{}.feed_forward.linear2",
    "ln_f": "body.norm",
    "lm_head": "out_proj",
}
LEFT_OUT = (".attn.bias", ".attn.masked_bias")  # the causal mask, a buffer in older files


def layout(folder: Path, _: Mapping[str, Any]) -> Layout:
    """Our config, the names of the modules, and what becomes of the tensors."""
    config, _ = read_config(folder, "gpt2", norm="pre", positions="learned", packed=True)
    return config, NAMES, _plain


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that are read, with matrices as (out, in)."""
    plain = {}
    for published, tensor in tensors.items():
        name = published.removeprefix("transformer.")
        if not name.endswith(LEFT_OUT):
            is_stored_transposed = name.startswith("h.") and tensor.dim() == 2
            plain[name] = tensor.T if is_stored_transposed else tensor  # (out, in)
    return plain
