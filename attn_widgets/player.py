"""What widgets with a model share, and what their front end, `transformer_model.js`, computes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from traitlets import TraitError

from attn_notes.data import Vocabulary
from attn_widgets.base import DataWidget
from attn_widgets.packing import unpack_transformer


class ModelWidget(DataWidget):
    """A widget that holds a packed model, which the page and Python both compute with."""

    _made: Mapping[str, tuple[object, Any]] = {}

    @property
    def _model(self) -> Any:
        packed = self.data["model"]
        return self._once("model", id(packed), lambda: unpack_transformer(packed))

    def _once(self, name: str, key: object, make: Callable[[], Any]) -> Any:
        """What was made of this key last, or else is made now."""
        if self._made.get(name, (None,))[0] != key:
            self._made = {**self._made, name: (key, make())}
        return self._made[name][1]


def check_vocabulary(name: str, vocab: Vocabulary, size: int) -> None:
    """Raise unless a vocabulary has one id for each row of the model's embeddings."""
    if len(vocab) != size:
        raise ValueError(f"{name} must have the model's {size} ids, got {len(vocab)}")


_MARKS = re.compile(r"[.,](?=[0-9]{3}(?![0-9]))|[.,]+$")


def cut(text: str, known: Sequence[str]) -> list[str]:
    """Words at spaces, each cut into as few of the known tokens as possible.

    A word that is not made of known tokens is tried in small letters, then with a comma at its
    end, then without commas and points before three digits and at the end.
    """
    tokens = []
    for word in filter(None, re.split(r"[ \t\r\n]+", text)):
        small = word.lower()
        tries = (word, small, f"{small},", _MARKS.sub("", small))
        found = next(filter(None, (_segments(one, known) for one in tries)), None)
        if found is None:
            raise TraitError(f"text must be made of known tokens, got {word!r}")
        tokens += found
    return tokens


def _segments(word: str, known: Sequence[str]) -> list[str] | None:
    """As few known tokens as make up a word; of two ways the one found first, from its end."""
    best: list[list[str] | None] = [None] * len(word) + [[]]
    for i in range(len(word) - 1, -1, -1):
        for token in known:
            if token and word.startswith(token, i):
                rest, have = best[i + len(token)], best[i]
                if rest is not None and (have is None or len(have) > len(rest) + 1):
                    best[i] = [token, *rest]
    return best[0]


def chance(seed: int, step: int) -> float:
    """A number in [0, 1) for each seed and step: mulberry32, by Tommy Ettinger."""
    mask = 0xFFFFFFFF
    a = (seed * 0x9E3779B1 + (step + 1) * 0x6D2B79F5) & mask
    a = (a ^ a >> 15) * (a | 1) & mask
    a ^= (a + ((a ^ a >> 7) * (a | 61) & mask)) & mask
    return (a ^ a >> 14) / 2**32


def drawn(probabilities: Tensor, point: float) -> int:
    """The first id at which the cumulative probability (V,) exceeds a number in [0, 1)."""
    token = int((probabilities.cumsum(0) <= point).sum())
    return token if token < len(probabilities) else int(probabilities.argmax())
