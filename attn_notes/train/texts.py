"""What a language model learns from: texts, and the characters of them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attn_notes.data import Vocabulary, python_documentation, read_text, split_text
from attn_notes.train.settings import LanguageModelSettings

__all__ = ["TextSides", "complete_with_texts", "load_texts"]

TextSides = tuple[list[str], list[str]]
"""The texts to train on and the texts held out."""


def load_texts(paths: Sequence[Path] = (), *, encoding: str | None = None) -> TextSides:
    """The texts of some files, or Python's own documentation.

    Args:
        paths: one text each; none for the documentation.
        encoding: of the files, as for `read_text`.

    Returns:
        The texts to train on and the texts held out.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file that is no text.

    Example:
        >>> train, held_out = load_texts()
        >>> len(train) > len(held_out) > 0
        True
    """
    texts = [read_text(path, encoding=encoding) for path in paths]
    return split_text(texts or python_documentation())


def complete_with_texts(settings: LanguageModelSettings, sides: TextSides) -> LanguageModelSettings:
    """The settings with what follows from the texts: the characters, and a digest.

    Args:
        settings: what is asked for.
        sides: the texts to train on, from which the characters are, and the texts held out.

    Returns:
        New settings.

    Raises:
        ValueError: a `min_count` that leaves no character.

    Example:
        >>> complete_with_texts(LanguageModelSettings(), (["abba"], ["b"])).tokens
        ('a', 'b')
    """
    tokens = Vocabulary.build(map(list, sides[0]), min_count=settings.min_count).tokens
    if not tokens:
        raise ValueError(f"min_count must leave a character, got {settings.min_count}")
    everything = json.dumps(sides, ensure_ascii=True).encode()
    digest = hashlib.sha256(everything).hexdigest()
    return replace(settings, texts=digest, tokens=tokens)
