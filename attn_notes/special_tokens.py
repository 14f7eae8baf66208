"""The ids that are no words: padding, the start and the end of a sequence, any unknown token."""

from typing import NamedTuple

PAD, START, END, UNKNOWN = range(4)


class SpecialTokens(NamedTuple):
    """The special ids of a model, None where it has none; its end may be its padding. Chapter 9.

    A model may have several ends, a tuple: each of them ends a text.
    """

    pad: int = PAD
    start: int | None = START
    end: int | tuple[int, ...] | None = END

    @property
    def ends(self) -> tuple[int, ...]:
        """Every id that ends a text."""
        return self.end if isinstance(self.end, tuple) else () if self.end is None else (self.end,)
