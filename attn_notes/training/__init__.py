"""Training: one loop for every model of the book (chapter 4 and on). Read `loop` first."""

from attn_notes.extras import extra
from attn_notes.training.metrics import (
    bits_per_character,
    bleu,
    exact_match,
    language_model_loss,
    masked_cross_entropy,
    translation_loss,
)
from attn_notes.training.schedules import constant, cosine_decay, inverse_sqrt, linear_decay, noam

with extra("train"):
    from attn_notes.training.loop import fit

__all__ = [
    "bits_per_character", "bleu", "constant", "cosine_decay", "exact_match", "fit",
    "inverse_sqrt", "language_model_loss", "linear_decay", "masked_cross_entropy", "noam",
    "translation_loss",
]  # fmt: skip
