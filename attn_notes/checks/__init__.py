"""Properties of attention as functions: each raises `CheckFailed` or says nothing."""

from attn_notes.checks.properties import (
    CheckFailed,
    check_causal,
    check_padding_invariant,
    check_weights,
    influence,
)
from attn_notes.checks.sequences import (
    check_batch_invariant,
    check_masked_loss,
    check_pieces_match_whole,
    check_step_matches_parallel,
)
from attn_notes.checks.texts import share_seen

__all__ = [
    "CheckFailed", "check_batch_invariant", "check_causal", "check_masked_loss",
    "check_padding_invariant", "check_pieces_match_whole", "check_step_matches_parallel",
    "check_weights", "influence", "share_seen",
]  # fmt: skip
