"""Tokens and their ids (chapter 4)."""

import operator
from collections import Counter
from collections.abc import Iterable, Sequence

from torch import Tensor

from attn_notes.special_tokens import END, PAD, START, UNKNOWN

_FIRST = 4  # the id of the first known token


class Vocabulary:
    """A fixed set of tokens, and the id of each. Chapter 4.

    Args:
        tokens: the distinct known tokens in the order of their ids, which begin at 4.

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
            repeated, _ = Counter(self.tokens).most_common(1)[0]
            raise ValueError(f"tokens must be distinct, got {repeated!r} more than once")

    @classmethod
    def build(cls, sequences: Iterable[Sequence[str]], *, min_count: int = 1) -> "Vocabulary":
        """The tokens that occur `min_count` times: most frequent first, ties by the alphabet."""
        counts = Counter(token for sequence in sequences for token in _strings(sequence))
        by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(token for token, count in by_frequency if count >= min_count)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The id of each token, `UNKNOWN` for an unknown one; START and END are not added."""
        return [self._ids.get(token, UNKNOWN) for token in _strings(tokens)]

    def decode(self, ids: Iterable[int] | Tensor) -> list[str]:
        """The tokens of these ids up to the first END, without PAD and START."""
        tokens = []
        for number in map(operator.index, ids.tolist() if isinstance(ids, Tensor) else ids):
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
    """The same tokens; raise for one string, since "drei" would be read as d, r, e, i."""
    if isinstance(tokens, str):
        raise TypeError(f"tokens must be a sequence of strings, got the one string {tokens[:40]!r}")
    return tokens
