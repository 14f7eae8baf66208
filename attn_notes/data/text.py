"""Running text, for a model that predicts the next character (chapter 9).

Documents copy one another: those that share a paragraph stay on one side of a split.
"""

import random
import reprlib
from collections.abc import Sequence

import torch
from torch import Tensor

from attn_notes.arguments import check_integers
from attn_notes.data.split import is_held_out
from attn_notes.data.vocabulary import Vocabulary
from attn_notes.special_tokens import END, START

_PARAGRAPH = 60  # characters, runs of white space counted once: shorter ones recur by chance


def split_text(texts: Sequence[str], *, share: float = 0.1) -> tuple[list[str], list[str]]:
    r"""Documents to train on and documents to test on, each in their original order. Chapter 9.

    Documents that share a paragraph of 60 characters or more, directly or through others, stay
    together; `is_held_out` decides by the alphabetically first title (first line) of such a group.
    Where that leaves a side empty, as with a single document, the last `share` of each document is
    held out, from the start of a line if that at most doubles it.

    Example:
        >>> split_text(["one", "two", "three", "four"])
        (['one', 'two', 'three'], ['four'])
        >>> split_text(["one\ntwo\nthree"], share=0.4)
        (['one\ntwo\n'], ['three'])
    """
    check_texts(texts)
    sides: tuple[list[str], list[str]] = ([], [])
    for text, key in zip(texts, _group_keys(texts), strict=True):
        sides[is_held_out(key, share)].append(text)
    if not all(sides):
        cuts = [_cut(text, share) for text in texts]
        sides = [begin for begin, _ in cuts if begin], [end for _, end in cuts if end]
    if not all(sides):
        raise ValueError(f"texts must leave something on either side, got {reprlib.repr(texts)}")
    return sides


def encode_text(text: str, vocab: Vocabulary) -> list[int]:
    """The ids of a document, character by character, between START and END. Chapter 9.

    Example:
        >>> encode_text("cab", Vocabulary(["a", "b", "c"]))
        [1, 6, 4, 5, 2]
    """
    return [START, *vocab.encode(iter(text)), END]


def check_texts(texts: Sequence[str]) -> None:
    """Raise for one string in place of a list: its characters would be read as texts."""
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of texts, got {reprlib.repr(texts)}")


def count_characters(texts: Sequence[str]) -> int:
    """The number of characters in these texts; raises where there is none."""
    check_texts(texts)
    if not (characters := sum(map(len, texts))):
        raise ValueError(f"texts must hold a character, got {len(texts)} texts without one")
    return characters


class TextWindows:
    """The windows of every training step: `windows(step)` for step 0, 1, 2, ... Chapter 9.

    A window of `length` tokens, and one more to predict, begins at any place of START text END
    START text END …, each equally likely.

    Example:
        >>> texts = ["to be or not to be"]
        >>> windows = TextWindows(texts, Vocabulary.build(map(list, texts)), length=8, batch_size=2)
        >>> windows(0).shape, torch.equal(windows(0), windows(0))
        (torch.Size([2, 9]), True)
    """

    def __init__(
        self,
        texts: Sequence[str],
        vocab: Vocabulary,
        *,
        length: int,
        batch_size: int,
        seed: int = 0,
    ) -> None:
        check_texts(texts)
        check_integers(1, length=length, batch_size=batch_size)
        ids = [id_ for text in texts for id_ in encode_text(text, vocab)]
        if len(ids) <= length:
            least = f"at least length + 1 = {length + 1} ids, START and END included"
            raise ValueError(f"the texts must have {least}, got {len(ids)}")
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self._stream = torch.tensor(ids, dtype=torch.int32, device="cpu")

    def __call__(self, step: int) -> Tensor:
        """The windows of one step, (batch_size, L + 1), int64, on torch's default device."""
        rng = random.Random(f"{self.seed} {step}")
        windows = self._stream.unfold(0, self.length + 1, 1)  # (places, L + 1)
        chosen = windows[[rng.randrange(len(windows)) for _ in range(self.batch_size)]]
        return chosen.long().to(torch.get_default_device())


def _group_keys(texts: Sequence[str]) -> list[str]:
    """For each text the alphabetically first title of its group: texts that share paragraphs."""
    group = list(range(len(texts)))  # each text's group, by number
    owner: dict[str, int] = {}  # the first text with each paragraph
    for n, text in enumerate(texts):
        for paragraph in text.split("\n\n"):
            words = " ".join(paragraph.split())
            if len(words) >= _PARAGRAPH:
                old, new = group[owner.setdefault(words, n)], group[n]
                group = [new if number == old else number for number in group]
    titles = [text.strip().split("\n", 1)[0] for text in texts]
    keys = {number: title for title, number in sorted(zip(titles, group, strict=True))[::-1]}
    return [keys[number] for number in group]


def _cut(text: str, share: float) -> tuple[str, str]:
    """All but the last `share` of a text, up to the end of a nearby line, and the rest."""
    size = max(1, int(share * len(text)))
    at = len(text) - size
    at = text.rfind("\n", max(len(text) // 2, at - size), at) + 1 or at
    return text[:at], text[at:]
