"""Training: one small loop for every model of the book, and what goes with it (chapter 4 and on).

`python -m attn_notes.train` runs it from the command line.
"""

from attn_notes.training.checkpoints import (
    check_tensors,
    load_checkpoint,
    load_state,
    load_weights,
    read_tensors,
    save_checkpoint,
    save_weights,
    write_whole,
)
from attn_notes.training.loop import Movable, fit
from attn_notes.training.losses import masked_cross_entropy, translation_loss
from attn_notes.training.metrics import bleu, exact_match
from attn_notes.training.schedules import (
    Schedule,
    constant,
    cosine_decay,
    inverse_sqrt,
    linear_decay,
    noam,
)

__all__ = [
    "Movable",
    "Schedule",
    "bleu",
    "check_tensors",
    "constant",
    "cosine_decay",
    "exact_match",
    "fit",
    "inverse_sqrt",
    "linear_decay",
    "load_checkpoint",
    "load_state",
    "load_weights",
    "masked_cross_entropy",
    "noam",
    "read_tensors",
    "save_checkpoint",
    "save_weights",
    "translation_loss",
    "write_whole",
]
