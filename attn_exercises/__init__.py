"""The exercises' checks: each prints `Correct`, or `Not yet:` and what is wrong; none raises.

Where an exercise asks for a guess, `guesses.toml` says what is right and why.
"""

import tomllib
from importlib import import_module
from pathlib import Path

from attn_exercises.base import prediction
from attn_exercises.base import require as require

_CHAPTERS = (
    "kernel_regression", "score_functions", "masking", "attention_decoder", "multihead",
    "positions", "transformer", "training", "families", "published", "fast_attention",
    "looking_inside", "attribution", "induction", "today", "cache_cost", "linear",
    "chunks",
)  # fmt: skip
_GUESSES = tomllib.loads(Path(__file__).with_name("guesses.toml").read_text(encoding="utf-8"))

globals().update({name: prediction(**table) for name, table in _GUESSES.items()})
for _chapter in _CHAPTERS:
    _module = import_module(f"{__name__}.{_chapter}")
    globals().update(
        {
            name: thing
            for name, thing in vars(_module).items()
            # A check is wrapped; so is a function of `attn_notes` that a check imports.
            if hasattr(thing, "__wrapped__") and thing.__module__ == _module.__name__
        }
    )
