"""Published decoders of every layout that we know (chapters 9 and 12)."""

from pathlib import Path

from tokenizers import Tokenizer
from torch import nn

from attn_notes.pretrained import gpt2, llama
from attn_notes.pretrained.config import read_json
from attn_notes.pretrained.folders import build, find_folder
from attn_notes.special_tokens import SpecialTokens
from attn_notes.transformer import DecoderOnly

LAYOUTS = {"gpt2": gpt2.layout, **dict.fromkeys(llama.FAMILIES, llama.layout)}


def load_decoder(
    source: str | Path, *, revision: str | None = None
) -> tuple[DecoderOnly, Tokenizer]:
    """Load a published decoder into our own blocks: GPT-2, Llama, Mistral, Qwen3, Gemma 3.

    Radford et al. (2019), chapter 9; Grattafiori et al. (2024), Jiang et al. (2023), Yang et al.
    (2025) and Gemma Team (2025), chapter 12. The logits are tied as in
    `load_masked_language_model`. Arguments, results and errors are those of `load_encoder`; the
    decoder's `special_tokens` hold the published ends of a text. Of Mistral, Qwen3 and Gemma 3 the
    text models without experts are known. Their weights may be spread over several files.
    """
    folder = find_folder(source, revision)
    published = read_json(folder)
    family = published.get("model_type", "gpt2")
    if not isinstance(family, str) or family not in LAYOUTS:
        wanted = f"one of {', '.join(LAYOUTS)}"
        raise ValueError(f"{folder}/config.json: model_type must be {wanted}, got {family!r}")
    config, names, plain = LAYOUTS[family](folder, published)
    end = published.get("eos_token_id")
    ends = tuple(end) if isinstance(end, list) else (end,)
    if not ends or any(each not in range(config.vocab_size) for each in ends):
        wanted = "an id, or a list of ids"
        raise ValueError(f"{folder}/config.json: eos_token_id must be {wanted}, got {end!r}")
    decoder, tokenizer = build(DecoderOnly, config, folder, names, plain)
    # The end of a text is its padding too; nothing stands before a text.
    decoder.special_tokens = SpecialTokens(ends[0], None, ends[0] if len(ends) == 1 else ends)
    for module in decoder.modules():
        if isinstance(module, nn.Linear) and module.out_features > module.in_features:
            # One token times a tall matrix takes half the time where columns are contiguous.
            module.weight.data = module.weight.data.T.contiguous().T
    return decoder, tokenizer
