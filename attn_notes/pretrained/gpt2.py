"""GPT-2's published layout: a decoder whose matrices are stored transposed (chapter 8)."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from attn_notes.data import SpecialTokens
from attn_notes.pretrained.config import read_config
from attn_notes.pretrained.folders import fill, find_folder, read_tensors, read_tokenizer
from attn_notes.transformer import DecoderOnly

__all__ = ["load_decoder"]

# The published name of a module and ours; {} is the number of a block.
NAMES = {
    "wte": "body.embeddings.tokens",
    "wpe": "body.embeddings.positions",
    "h.{}.ln_1": "body.blocks.{}.norm1",
    "h.{}.attn.c_attn.query": "body.blocks.{}.self_attn.q_proj",
    "h.{}.attn.c_attn.key": "body.blocks.{}.self_attn.k_proj",
    "h.{}.attn.c_attn.value": "body.blocks.{}.self_attn.v_proj",
    "h.{}.attn.c_proj": "body.blocks.{}.self_attn.out_proj",
    "h.{}.ln_2": "body.blocks.{}.norm2",
    "h.{}.mlp.c_fc": "body.blocks.{}.feed_forward.linear1",
    "h.{}.mlp.c_proj": "body.blocks.{}.feed_forward.linear2",
    "ln_f": "body.norm",
    "lm_head": "out_proj",
}
# Not read: the causal mask, a buffer in older files, and a second head.
LEFT_OUT = re.compile(r"h\.\d+\.attn\.(masked_)?bias|multiple_choice_head\..*")


def load_decoder(source: str | Path) -> tuple[DecoderOnly, Tokenizer]:
    """Load a published decoder of the GPT-2 family into our own blocks. Chapter 8.

    Radford et al. (2019). The file holds every matrix transposed, (in, out), and those of query,
    key and value side by side. The map to the logits is the token embedding, unless `config.json`
    says `"tie_word_embeddings": false`; then it is `lm_head.weight`.

    Args:
        source: a folder, or a name on the hub, as in `load_encoder`.

    Returns:
        The decoder, on the CPU, in torch's default dtype and in evaluation mode, with the
        published end of text as its `special_tokens`; and its tokenizer, as in `load_encoder`.

    Raises:
        WeightsNotFound: as in `load_encoder`.
        ValueError: as in `load_encoder`, and for an end of text that is not an id.

    Example:
        >>> load_decoder(Path("nowhere"))
        Traceback (most recent call last):
        attn_notes.pretrained.folders.WeightsNotFound: nowhere must be a folder, or owner/name
    """
    folder = find_folder(source)
    config, published = read_config(folder, "gpt2", norm="pre", positions="learned")
    end = published.get("eos_token_id")
    if not isinstance(end, int) or not 0 <= end < config.vocab_size:
        ids = f"an id below vocab_size = {config.vocab_size}"
        raise ValueError(f"{folder}/config.json: eos_token_id must be {ids}, got {end!r}")
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random numbers alone
        decoder = DecoderOnly(config)
    # The end of a text is its padding too; nothing stands before a text.
    decoder.special_tokens = SpecialTokens(pad=end, start=None, end=end)
    fill(decoder, _plain(read_tensors(folder)), NAMES, folder)
    return decoder.eval(), read_tokenizer(folder, config.vocab_size)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that are read, with matrices as (out, in), and query, key and value apart."""
    plain = {}
    for published, tensor in tensors.items():
        name = published.removeprefix("transformer.")
        x = tensor.T if name.startswith("h.") and tensor.dim() == 2 else tensor  # (out, in)
        if ".c_attn." in name:
            for part, third in zip(("query", "key", "value"), x.chunk(3), strict=False):
                plain[name.replace("c_attn", f"c_attn.{part}")] = third
        elif not LEFT_OUT.fullmatch(name):
            plain[name] = x
    return plain
