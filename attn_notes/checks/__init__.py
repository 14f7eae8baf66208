"""Properties of attention as functions: each raises `CheckFailed` or says nothing.

`checks.exercises` holds the checks of the book's exercises, which print and never raise.
"""

from attn_notes.checks.properties import (
    CheckFailed,
    check_causal,
    check_padding_invariant,
    check_permutation_equivariant,
    check_weights,
    influence,
)

__all__ = [
    "CheckFailed",
    "check_causal",
    "check_padding_invariant",
    "check_permutation_equivariant",
    "check_weights",
    "influence",
]
