"""What must hold of the texts that a model is trained and tested on (chapter 9)."""

from collections.abc import Iterator, Sequence

from attn_notes.arguments import check_integers
from attn_notes.data.text import check_texts, count_characters


def share_seen(train: Sequence[str], held_out: Sequence[str], *, length: int = 100) -> float:
    """The share of the held-out characters that the training texts hold too. Chapter 9.

    Only runs of `length` characters count, since a shorter one may be chance.

    Example:
        >>> share_seen(["to be or not to be"], ["or not", "to do"], length=6)
        0.5454545454545454
    """
    check_texts(train)
    characters = count_characters(held_out)
    check_integers(1, length=length)
    return sum(sum(marks) for marks in _seen(train, held_out, length)) / characters


def _seen(train: Sequence[str], held_out: Sequence[str], length: int) -> Iterator[bytearray]:
    """For each held-out text, a 1 for each of its characters that lies in a run of `train`."""
    known = {text[at : at + length] for text in train for at in range(len(text) - length + 1)}
    for text in held_out:
        marks = bytearray(len(text))
        for at in range(len(text) - length + 1):
            if text[at : at + length] in known:
                marks[at : at + length] = b"\1" * length
        yield marks
