"""What a training learns from: pairs, and the vocabularies of them."""

import hashlib
import json
import warnings
from dataclasses import replace
from pathlib import Path

from attn_notes.data import Pair, Vocabulary, date_pairs, number_pairs, read_pairs, split_pairs
from attn_notes.train.settings import PairSettings

__all__ = ["Sides", "complete", "load_pairs"]

Sides = tuple[list[Pair], list[Pair]]
"""The pairs to train on and the pairs held out."""


def load_pairs(
    settings: PairSettings, path: Path | None = None, *, encoding: str | None = None
) -> Sides:
    """The pairs that these settings ask for.

    Args:
        settings: data, languages, count and seed.
        path: the file, for data "pairs".
        encoding: of the file, as for `read_pairs`.

    Returns:
        The pairs to train on and the pairs held out.

    Raises:
        OSError: the file cannot be read.
        ValueError: no such language or style, a count or digits out of range, a file that holds
            no pairs, or nothing to train on or to hold out.

    Example:
        >>> settings = PairSettings(source="de", target="en", count=100, digits=(1, 3))
        >>> [len(side) for side in load_pairs(settings)]
        [90, 10]
    """
    s = settings
    if path is not None:
        with warnings.catch_warnings():  # the summary is printed
            warnings.simplefilter("ignore", UserWarning)
            corpus = read_pairs(path, encoding=encoding)
        print(corpus)
        train, held_out = split_pairs(corpus.pairs)
    elif s.data == "dates":
        train, held_out = date_pairs(
            s.source, s.target, count=s.count or 0, style=s.style or "", seed=s.seed
        )
    else:
        train, held_out = number_pairs(
            s.sources,
            s.targets,
            count=s.count or 0,
            digits=s.digits or (0, 0),
            balance=s.balance,
            seed=s.seed,
        )
    if not (train and held_out):
        one_digit = s.digits is not None and s.digits[1] == 1
        help_ = "numbers of one digit are all trained on" if one_digit else "more pairs help"
        raise ValueError(
            "there must be pairs to train on and pairs to hold out, about one in ten, got "
            f"{len(train)} and {len(held_out)}; {help_}"
        )
    return train, held_out


def complete(settings: PairSettings, sides: Sides) -> PairSettings:
    """The settings with what follows from the data: vocabularies, the longest text, a digest.

    Args:
        settings: what is asked for.
        sides: the pairs to train on and the pairs held out.

    Returns:
        New settings.

    Raises:
        ValueError: a `min_count` that leaves a vocabulary empty.

    Example:
        >>> settings = PairSettings(source="de", target="en", count=100, digits=(1, 2))
        >>> [len(side) for side in complete(settings, load_pairs(settings)).vocabularies()]
        [34, 41]
    """
    sources, targets = zip(*sides[0], strict=True)
    longest_source = max(len(source) for side in sides for source, _ in side)
    everything = json.dumps(sides, ensure_ascii=True).encode()
    tokens = [
        Vocabulary.build(side, min_count=settings.min_count).tokens for side in (sources, targets)
    ]
    if not all(tokens):
        raise ValueError(
            f"min_count must leave tokens to read and to write, got {settings.min_count}, which "
            f"leaves {len(tokens[0])} and {len(tokens[1])}"
        )
    return replace(
        settings,
        sentences=hashlib.sha256(everything).hexdigest(),
        # Twice the longest it has seen: room for longer sources, and an end to a loop. And as
        # far as the longest source, held out or not: learned positions must reach it.
        max_length=max(2 * max(map(len, targets)) + 1, longest_source),
        source_tokens=tokens[0],
        target_tokens=tokens[1],
    )
