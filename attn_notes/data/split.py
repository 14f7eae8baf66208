"""Pairs of token sequences, and which of them are held out for the test (chapter 4).

By its own content, not by a random number: no seed moves a pair from one side to the other.
"""

import hashlib

from attn_notes.arguments import check_fractions

Pair = tuple[tuple[str, ...], tuple[str, ...]]
"""Source tokens and target tokens."""


def is_held_out(key: int | str, share: float = 0.1) -> bool:
    """Whether this number or sentence is kept for the test. Chapter 4.

    The SHA-256 of the key decides, which is the same on every machine and in every run.

    It does so for about `share` of all keys, from 0 to 1, and for these at any larger share too.

    Example:
        >>> [value for value in range(40) if is_held_out(value)]
        [9, 39]
    """
    check_fractions(share=share)
    digest = hashlib.sha256(str(key).encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64
