"""Published weights in our own blocks: encoders and decoders of two families (chapters 5 and 8).

Nothing is run that came with the weights: of a folder, only its `config.json`, `model.safetensors`
and `tokenizer.json` are read. What would mean another computation than that of the blocks is
refused, and so is a tensor too few or too many.
"""

from attn_notes.pretrained.bert import load_encoder, load_masked_language_model
from attn_notes.pretrained.folders import WeightsNotFound
from attn_notes.pretrained.gpt2 import load_decoder
from attn_notes.pretrained.minilm import minilm_folder
from attn_notes.pretrained.sentences import SentenceEncoder, mean_pooling

__all__ = [
    "SentenceEncoder",
    "WeightsNotFound",
    "load_decoder",
    "load_encoder",
    "load_masked_language_model",
    "mean_pooling",
    "minilm_folder",
]
