"""Training from the command line, and the models that came of it (chapter 4 and on).

    python -m attn_notes.train seq2seq --source de --target en --out german
    python -m attn_notes.train translate german dreiundsiebzig

A trained folder holds `settings.json` (the architecture, the data and the vocabularies),
`weights.safetensors` and `checkpoint.pt`, from which an interrupted training goes on.
"""

from attn_notes.train.settings import SCORES, Settings, build_model
from attn_notes.train.translator import Translator, load_translator

__all__ = ["SCORES", "Settings", "Translator", "build_model", "load_translator"]
