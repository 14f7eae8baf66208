"""Tokens and their ids (chapter 4).

Four ids mean the same in every vocabulary and in every model of the book: 0 is padding, 1 starts
a sequence, 2 ends it, and 3 stands for any token that is not known.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import Tensor

from attn_notes.arguments import check_integers

__all__ = ["END", "PAD", "START", "UNKNOWN", "SpecialTokens", "Vocabulary"]

PAD, START, END, UNKNOWN = range(4)
_FIRST = 4  # the id of the first known token


class SpecialTokens(NamedTuple):
    """The ids that a model never says, or stops at; a published model has its own. Chapter 8."""

    pad: int = PAD
    """Fills a sequence up after its end."""
    start: int | None = START
    """Stands before a sequence, if anything does."""
    end: int | None = END
    """Ends a sequence, if anything does; it may be the same as `pad`."""


class Vocabulary:
    """The known tokens, and the id of each.

    Args:
        tokens: the known tokens in the order of their ids, which begin at 4.

    Raises:
        TypeError: tokens that are not strings.
        ValueError: a token that is there twice.

    Example:
        >>> vocabulary = Vocabulary(["drei", "und", "siebzig"])
        >>> vocabulary.encode(["drei", "und", "achtzig"])
        [4, 5, 3]
        >>> vocabulary.decode([1, 4, 5, 3, 2, 0, 0])
        ['drei', 'und', '<unk>']
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(_strings(tokens))
        self._ids = {token: number for number, token in enumerate(self.tokens, _FIRST)}
        if len(self._ids) < len(self.tokens):
            twice, _ = Counter(self.tokens).most_common(1)[0]
            raise ValueError(f"every token must be there once, got {twice!r} more than once")

    @classmethod
    def build(cls, sequences: Iterable[Sequence[str]], *, min_count: int = 1) -> "Vocabulary":
        """The vocabulary of these sequences: the most frequent token first.

        Tokens of equal frequency stand in alphabetical order, so that the same sequences give
        the same ids, in whatever order they come.

        Args:
            sequences: sequences of tokens.
            min_count: how often a token must occur to be known; 1 or more.

        Returns:
            A vocabulary, empty where nothing occurs often enough.

        Raises:
            TypeError: tokens that are not strings, or a `min_count` that is not an integer.
            ValueError: a `min_count` below 1.
        """
        check_integers(1, min_count=min_count)
        counts = Counter(token for sequence in sequences for token in _strings(sequence))
        by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(token for token, count in by_frequency if count >= min_count)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The id of each token, and `UNKNOWN` for one that is not known.

        Args:
            tokens: a sequence of tokens, which may be empty.

        Returns:
            As many ids as tokens, for no START and no END is added.

        Raises:
            TypeError: tokens that are not strings, or one string in place of a sequence.
        """
        return [self._ids.get(token, UNKNOWN) for token in _strings(tokens)]

    def decode(self, ids: Iterable[int] | Tensor) -> list[str]:
        """The tokens of these ids, up to the first END.

        Args:
            ids: (length,), token ids: a tensor of integers on any device, or any iterable.

        Returns:
            The tokens without PAD and START; `UNKNOWN` reads `<unk>`.

        Raises:
            TypeError: ids that are not integers, such as the rows of a tensor of two axes, or a
                single number in place of a sequence.
            ValueError: an id that this vocabulary does not have.
        """
        tokens = []
        numbers = ids.tolist() if isinstance(ids, Tensor) else ids
        if isinstance(numbers, int):
            raise TypeError(f"ids must be a sequence of integers, got the one number {numbers}")
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(f"ids must be integers, one a token, got {number!r}")
            if not 0 <= number < len(self):
                raise ValueError(f"ids must be from 0 to {len(self) - 1}, got {number}")
            if number == END:
                break
            if number not in (PAD, START):
                tokens.append("<unk>" if number == UNKNOWN else self.tokens[number - _FIRST])
        return tokens

    def __len__(self) -> int:
        return _FIRST + len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary of {len(self)} ids: 4 special, {len(self.tokens)} tokens"


def _strings(tokens: Iterable[str]) -> Iterable[str]:
    """The same tokens, each seen to be a string: "drei" alone would be read as d, r, e, i."""
    if isinstance(tokens, str):
        raise TypeError(f"tokens must be a sequence of strings, got the one string {tokens!r}")
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"tokens must be strings, got {token!r}")
        yield token
