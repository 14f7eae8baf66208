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
from attn_notes.training.distributed import PeerLost, Processes, process_group
from attn_notes.training.loop import Movable, TrainingStopped, fit
from attn_notes.training.losses import language_model_loss, masked_cross_entropy, translation_loss
from attn_notes.training.metrics import bits_per_character, bleu, exact_match
from attn_notes.training.schedules import (
    Schedule,
    constant,
    cosine_decay,
    inverse_sqrt,
    linear_decay,
    noam,
)
from attn_notes.training.updates import PRECISIONS

__all__ = [
    "PRECISIONS",
    "Movable",
    "PeerLost",
    "Processes",
    "Schedule",
    "TrainingStopped",
    "bits_per_character",
    "bleu",
    "check_tensors",
    "constant",
    "cosine_decay",
    "exact_match",
    "fit",
    "inverse_sqrt",
    "language_model_loss",
    "linear_decay",
    "load_checkpoint",
    "load_state",
    "load_weights",
    "masked_cross_entropy",
    "noam",
    "process_group",
    "read_tensors",
    "save_checkpoint",
    "save_weights",
    "translation_loss",
    "write_whole",
]
