"""GPT-2's published layout: a decoder whose matrices are stored transposed (chapter 9)."""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor, nn

from attn_notes.pretrained.config import read_config
from attn_notes.pretrained.folders import build, find_folder
from attn_notes.special_tokens import SpecialTokens
from attn_notes.transformer import DecoderOnly

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


def load_decoder(
    source: str | Path, *, revision: str | None = None
) -> tuple[DecoderOnly, Tokenizer]:
    """Load a published decoder of the GPT-2 family into our own blocks. Chapter 9.

    Radford et al. (2019). The logits are tied as in `load_masked_language_model`. Arguments,
    results and errors are those of `load_encoder`; the decoder's `special_tokens` hold the
    published end of text.
    """
    folder = find_folder(source, revision)
    config, published = read_config(folder, "gpt2", norm="pre", positions="learned", packed=True)
    end = published.get("eos_token_id")
    if end not in range(config.vocab_size):
        raise ValueError(f"{folder}/config.json: eos_token_id must be an id, got {end!r}")
    decoder, tokenizer = build(DecoderOnly, config, folder, NAMES, _plain)
    # The end of a text is its padding too; nothing stands before a text.
    decoder.special_tokens = SpecialTokens(pad=end, start=None, end=end)
    for module in decoder.modules():
        if isinstance(module, nn.Linear) and module.out_features > module.in_features:
            # One token times a tall matrix takes half the time where columns are contiguous.
            module.weight.data = module.weight.data.T.contiguous().T
    return decoder, tokenizer


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that are read, with matrices as (out, in)."""
    plain = {}
    for published, tensor in tensors.items():
        name = published.removeprefix("transformer.")
        if not name.endswith(LEFT_OUT):
            is_stored_transposed = name.startswith("h.") and tensor.dim() == 2
            plain[name] = tensor.T if is_stored_transposed else tensor  # (out, in)
    return plain
