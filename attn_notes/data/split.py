"""Pairs of token sequences, and which of them are held out for the test (chapter 4).

By its own content, not by a random number: no seed moves a pair from one side to the other.
"""

import hashlib
from collections.abc import Iterable

from attn_notes.arguments import check_fractions

Pair = tuple[tuple[str, ...], tuple[str, ...]]
"""Source tokens and target tokens."""


def is_held_out(key: int | str, share: float = 0.1) -> bool:
    """Whether this number or sentence is kept for the test. Chapter 4.

    The SHA-256 of the key decides, which is the same on every machine and in every run.

    Args:
        key: a number, a date, a sentence.
        share: how much is held out, from 0 to 1.

    Returns:
        True for about `share` of all keys, and for the same ones at any larger share.

    Example:
        >>> [value for value in range(40) if is_held_out(value)]
        [9, 39]
    """
    check_fractions(share=share)
    digest = hashlib.sha256(str(key).encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def split_pairs(pairs: Iterable[Pair], *, share: float = 0.1) -> tuple[list[Pair], list[Pair]]:
    """Split pairs for training and testing; no source sentence is on both sides. Chapter 4.

    Args:
        pairs: pairs of token sequences.
        share: how much of them is held out, from 0 to 1.

    Returns:
        The training pairs and the held-out pairs, each in their original order.

    Example:
        >>> train, held_out = split_pairs([(("a",), ("b",)), (("c",), ("d",))], share=0)
        >>> len(train), len(held_out)
        (2, 0)
    """
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for pair in pairs:
        sides[is_held_out(" ".join(pair[0]), share)].append(pair)
    return sides
