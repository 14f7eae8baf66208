"""Training from the command line, and the models that came of it (chapters 4, 7 and 8).

    python -m attn_notes.train seq2seq --source de --target en --out german
    python -m attn_notes.train translate german dreiundsiebzig
    python -m attn_notes.train transformer --source digits,en --target de,fr --out several
    python -m attn_notes.train translate several 1999 --to fr
    python -m attn_notes.train language-model --text novel.txt --out novel
    python -m attn_notes.train sample novel "The "

A trained folder holds `settings.json` (the architecture, the data and the vocabularies),
`weights.safetensors` and `checkpoint.pt`, from which an interrupted training goes on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn_notes.train.language import LanguageModel, load_language_model
    from attn_notes.train.models import SCORES, build_model
    from attn_notes.train.settings import (
        BlockSettings,
        LanguageModelSettings,
        PairSettings,
        Seq2SeqSettings,
        Settings,
        TransformerSettings,
    )
    from attn_notes.train.translator import Translator, load_translator

__all__ = [
    "SCORES",
    "BlockSettings",
    "LanguageModel",
    "LanguageModelSettings",
    "PairSettings",
    "Seq2SeqSettings",
    "Settings",
    "TransformerSettings",
    "Translator",
    "build_model",
    "load_language_model",
    "load_translator",
]

_HOMES = dict.fromkeys(("SCORES", "build_model"), "models")
_HOMES |= {name: "settings" for name in __all__ if name.endswith("Settings")}
_HOMES |= dict.fromkeys(("LanguageModel", "load_language_model"), "language")
_HOMES |= dict.fromkeys(("Translator", "load_translator"), "translator")


def __getattr__(name: str) -> Any:
    """What is public, loaded when it is asked for: the command has first to be ready for Ctrl-C."""
    if name in _HOMES:
        return getattr(import_module(f"attn_notes.train.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
