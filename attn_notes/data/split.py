"""Pairs of sentences, and which of them a training must never see (chapter 4).

Whether a pair is held out hangs on the pair alone and on no random number: a test set that is
drawn anew with every seed would leak into the training set of the next run.
"""

import hashlib
from collections.abc import Iterable

from attn_notes.arguments import check_fractions

__all__ = ["Pair", "is_held_out", "split_pairs"]

Pair = tuple[tuple[str, ...], tuple[str, ...]]
"""What is read and what is to be written: source tokens, target tokens."""


def is_held_out(key: int | str, share: float = 0.1) -> bool:
    """Whether this number or sentence is kept for the test.

    The SHA-256 of the key decides, read as a fraction between 0 and 1: the same on every machine
    and in every run, which Python's own `hash` of a string is not.

    Args:
        key: what names the example, the same in all languages: a number, a date, a sentence.
        share: how much is held out, from 0 (nothing) to 1 (everything).

    Returns:
        True for about `share` of all keys. What is held out at one share is so at a larger one.

    Raises:
        TypeError: a share that is not a number.
        ValueError: a share outside 0 to 1.

    Example:
        >>> [value for value in range(40) if is_held_out(value)]
        [9, 39]
    """
    check_fractions(share=share)
    digest = hashlib.sha256(str(key).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def split_pairs(pairs: Iterable[Pair], *, share: float = 0.1) -> tuple[list[Pair], list[Pair]]:
    """Pairs to train on and pairs to test on; a source sentence never stands in both.

    A sentence that is there with several translations goes to one side with all of them. The
    number of sentences is near the share, not equal to it.

    Args:
        pairs: pairs of token sequences.
        share: how much is held out, from 0 to 1.

    Returns:
        The pairs to train on and the pairs held out, each in the order in which they came.

    Raises:
        TypeError: a share that is not a number.
        ValueError: a share outside 0 to 1.

    Example:
        >>> train, held_out = split_pairs([(("a",), ("b",)), (("c",), ("d",))], share=0)
        >>> len(train), len(held_out)
        (2, 0)
    """
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for pair in pairs:
        sides[is_held_out(" ".join(pair[0]), share)].append(pair)
    return sides
