"""The ids that are no words: padding, the start and the end of a sequence, any unknown token."""

from typing import NamedTuple

PAD, START, END, UNKNOWN = range(4)


class SpecialTokens(NamedTuple):
    """The special ids of a model, None where it has none; its end may be its padding. Chapter 9."""

    pad: int = PAD
    start: int | None = START
    end: int | None = END
