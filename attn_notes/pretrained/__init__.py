"""Published weights in our own blocks: encoders and decoders (chapters 5, 8, 9 and 12).

Of a folder only `config.json`, `tokenizer.json` and the safetensors files are read; no published
code runs. What describes another computation than ours, or does not fit the model, is refused.
"""

from attn_notes.extras import extra

with extra("pretrained"):
    from attn_notes.pretrained.bert import load_encoder, load_masked_language_model
    from attn_notes.pretrained.decoder import load_decoder
    from attn_notes.pretrained.folders import WeightsNotFound, minilm_folder
    from attn_notes.pretrained.sentences import SentenceEncoder, mean_pooling

__all__ = [
    "SentenceEncoder", "WeightsNotFound", "load_decoder", "load_encoder",
    "load_masked_language_model", "mean_pooling", "minilm_folder",
]  # fmt: skip
