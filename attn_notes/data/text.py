r"""Running text, for a model that predicts the next character (chapter 8).

Documents copy one another, and a passage that is trained on and tested on makes a model look
better than it is: documents that share a paragraph go to one side of a split together.
"""

import random
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from attn_notes.arguments import check_integers
from attn_notes.data.split import is_held_out
from attn_notes.data.textfile import NUL, OTHER, text_lines
from attn_notes.data.vocabulary import END, START, Vocabulary

__all__ = [
    "TextWindows",
    "check_texts",
    "count_characters",
    "encode_text",
    "python_documentation",
    "read_text",
    "split_text",
]

_PARAGRAPH = 60  # characters, white space not counted twice: shorter ones recur by chance


def python_documentation() -> list[str]:
    """What `help()` says of Python's own topics, from "assert" to "yield". Chapter 8.

    It comes with every Python and is the same on every machine with the same version: about 80
    documents, some 465,000 characters in all, of about 100 kinds.

    Returns:
        The documents in the alphabetical order of their topics.

    Raises:
        ModuleNotFoundError: a Python that was installed without its documentation.

    Example:
        >>> texts = python_documentation()
        >>> texts[0].splitlines()[0]
        'The "assert" statement'
    """
    from pydoc_data.topics import topics  # noqa: PLC0415, half a megabyte

    return [topics[name] for name in sorted(topics)]


def read_text(path: str | PathLike[str], *, encoding: str | None = None) -> str:
    r"""Read a text from a file of the reader's own. Chapter 8.

    Args:
        path: a text file, or a pipe; its lines may end as on any system.
        encoding: of the file. By default what its byte order mark says, or UTF-8 without one.

    Returns:
        The text without byte order marks, its lines ending in `\n`.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a byte that is no text in this encoding, or a NUL character, both named by
            their line; an encoding that Python does not know or that no file is written in; a
            file of nothing but white space.

    Example:
        >>> path = Path(getfixture("tmp_path")) / "own.txt"
        >>> _ = path.write_bytes(b"one\r\ntwo\r\n")
        >>> read_text(path)
        'one\ntwo\n'
    """
    lines = []
    for number, line in text_lines(Path(path), encoding):
        if "\0" in line:
            raise ValueError(f"{path}:{number}: {NUL}; {OTHER}: utf-16-le, say")
        lines.append(line)
    text = "".join(lines)
    if not text.strip():
        raise ValueError(f"{path} must hold a text, got {len(text)} characters of white space")
    return text


def split_text(texts: Sequence[str], *, share: float = 0.1) -> tuple[list[str], list[str]]:
    r"""Documents to train on and documents to test on. Chapter 8.

    Documents that have a paragraph of 60 characters or more in common, or those to which such
    documents lead, stand on one side together. `is_held_out` decides by the first of their first
    lines in alphabetical order, so that a document that is corrected stays where it was. About
    `share` of these groups is held out, which may be more of the characters or fewer. Where that
    leaves a side empty, as with a single document, the last `share` of each is held out instead,
    from the beginning of a line on if that holds out twice as much at most. Passages that come
    twice are not looked for then.

    Args:
        texts: documents, none of them empty.
        share: how much is held out, above 0 and below 1.

    Returns:
        The texts to train on and the texts held out, each in the order in which they came.

    Raises:
        TypeError: one string in place of the texts, or a text that is not a string.
        ValueError: no text, an empty one, a share that would hold out nothing or everything, or
            a single character, which can't be cut.

    Example:
        >>> train, held_out = split_text(python_documentation())
        >>> held_out[0].splitlines()[0]
        '"pdb" — The Python Debugger'
        >>> split_text(["one\ntwo\nthree"], share=0.4)
        (['one\ntwo\n'], ['three'])
    """
    _check_documents(texts)
    if not 0 < share < 1:
        raise ValueError(f"share must be above 0 and below 1, got {share}")
    sides: tuple[list[str], list[str]] = ([], [])
    for text, key in zip(texts, _keys(texts), strict=True):
        sides[is_held_out(key, share)].append(text)
    if not all(sides):
        cuts = [_cut(text, share) for text in texts]
        sides = [begin for begin, _ in cuts if begin], [end for _, end in cuts]
    if not all(sides):
        raise ValueError(f"there must be a text that can be cut in two, got {texts!r}")
    return sides


def encode_text(text: str, vocab: Vocabulary) -> list[int]:
    """The ids of a document, character by character, between START and END. Chapter 8.

    Args:
        text: any text, which may be empty.
        vocab: of characters.

    Returns:
        Two ids more than characters.

    Raises:
        TypeError: a text that is not a string.

    Example:
        >>> encode_text("cab", Vocabulary(["a", "b", "c"]))
        [1, 6, 4, 5, 2]
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    return [START, *vocab.encode(iter(text)), END]


def check_texts(texts: Sequence[str], name: str = "texts") -> None:
    """Raise unless these are strings, and not one string in their place. Chapter 8.

    Args:
        texts: of any length, some of them perhaps empty.
        name: what the caller calls them.

    Raises:
        TypeError: one string in place of the texts, or a text that is not a string.

    Example:
        >>> check_texts("to be")
        Traceback (most recent call last):
        TypeError: texts must be a list of texts, got one string of 5 characters
    """
    if isinstance(texts, str):
        raise TypeError(
            f"{name} must be a list of texts, got one string of {len(texts)} characters"
        )
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be strings, got {type(text).__name__} in place {number}")


def count_characters(texts: Sequence[str], name: str = "texts") -> int:
    """How many characters texts hold together. Chapter 8.

    Args:
        texts: of any length, some of them perhaps empty.
        name: what the caller calls them.

    Returns:
        1 or more.

    Raises:
        TypeError: one string in place of the texts, or a text that is not a string.
        ValueError: no character.

    Example:
        >>> count_characters(["abc", "", "d"])
        4
    """
    check_texts(texts, name)
    if not (characters := sum(map(len, texts))):
        raise ValueError(f"{name} must hold a character, got {len(texts)} texts without one")
    return characters


class TextWindows:
    """The windows of every training step: `windows(step)` for step 0, 1, 2, ... Chapter 8.

    All texts stand one after the other in a single stream, START text END START text END …, and a
    window begins anywhere in it: every place is as likely. A pure function of the texts, the seed
    and the step, so that a training that is resumed in the middle sees what it would have seen.
    Where several processes train together, each takes its share of one and the same batch.

    Args:
        texts: documents, none of them empty.
        vocab: of characters.
        length: L, how many tokens are read; one more is predicted.
        batch_size: windows in a step, those of all processes together.
        seed: of the places.
        rank: the number of this process, from 0.
        world: how many processes there are; it must divide `batch_size`.

    Raises:
        TypeError: one string in place of the texts, a text that is not a string, or a number that
            is not an integer.
        ValueError: no text, an empty one, fewer ids than a window has, a number that is too small,
            a rank that there is not, or processes that don't divide the batch.

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
        rank: int = 0,
        world: int = 1,
    ) -> None:
        _check_documents(texts)
        check_integers(1, length=length, batch_size=batch_size, world=world)
        check_integers(0, rank=rank)
        if rank >= world or batch_size % world:
            raise ValueError(
                "rank must be below world, and world must divide batch_size, got "
                f"rank = {rank}, world = {world} and batch_size = {batch_size}"
            )
        ids = [id_ for text in texts for id_ in encode_text(text, vocab)]
        if len(ids) < length + 1:
            raise ValueError(
                "the texts must have as many ids as a window, length + 1, with START and END, got "
                f"{len(ids)} ids and a window of {length + 1}"
            )
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self._stream = torch.tensor(ids, dtype=torch.int32, device="cpu")
        size = batch_size // world
        self._ours = slice(rank * size, (rank + 1) * size)

    def __call__(self, step: int) -> Tensor:
        """The windows of one step.

        Args:
            step: 0 or more.

        Returns:
            (B, L + 1), ids, int64, on the CPU: B is `batch_size` over `world`.

        Raises:
            TypeError: a step that is not an integer.
            ValueError: a negative step.
        """
        check_integers(0, step=step)
        rng = random.Random(f"{self.seed} {step}")
        last = len(self._stream) - self.length - 1
        firsts = [rng.randint(0, last) for _ in range(self.batch_size)][self._ours]
        windows = [self._stream[first : first + self.length + 1] for first in firsts]
        return torch.stack(windows).long()


def _keys(texts: Sequence[str]) -> list[str]:
    """For each text, what decides on it: the first of the first lines of its group."""
    parents = list(range(len(texts)))

    def root(n: int) -> int:
        while parents[n] != n:
            n = parents[n]
        return n

    first: dict[str, int] = {}  # where each paragraph was met
    for n, text in enumerate(texts):
        for paragraph in text.split("\n\n"):
            words = " ".join(paragraph.split())
            if len(words) >= _PARAGRAPH:
                parents[root(n)] = root(first.setdefault(words, n))
    titles = [text.strip().split("\n", 1)[0] for text in texts]
    keys: dict[int, str] = {}
    for n, title in enumerate(titles):
        keys[root(n)] = min(title, keys.get(root(n), title))
    return [keys[root(n)] for n in range(len(texts))]


def _cut(text: str, share: float) -> tuple[str, str]:
    """All but the last `share` of a text, up to the end of a line if one is near, and the rest."""
    size = max(1, int(share * len(text)))
    at = len(text) - size
    at = text.rfind("\n", max(len(text) // 2, at - size), at) + 1 or at
    return text[:at], text[at:]


def _check_documents(texts: Sequence[str]) -> None:
    check_texts(texts)
    for number, text in enumerate(texts):
        if not text:
            raise ValueError(f"a text must hold a character, got none in place {number}")
    if not len(texts):
        raise ValueError("there must be at least one text, got none")
