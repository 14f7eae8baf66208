"""Training an encoder-decoder: from options to a folder that holds a translator."""

import hashlib
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from attn_notes.data import (
    Batches,
    Pair,
    Vocabulary,
    date_pairs,
    number_pairs,
    read_pairs,
    split_pairs,
)
from attn_notes.decoding import translate
from attn_notes.train.settings import Settings, build_model, read_settings, write_settings
from attn_notes.train.translator import Translator
from attn_notes.training import bleu, exact_match, fit, linear_decay, save_weights

__all__ = ["complete", "evaluate", "load_pairs", "train"]

Sides = tuple[list[Pair], list[Pair]]
Row = tuple[int, tuple[str, ...], tuple[str, ...]]  # length of the source, what was said, reference

CHECKPOINT, SETTINGS, WEIGHTS = "checkpoint.pt", "settings.json", "weights.safetensors"
MOST_SHOWN = 80  # characters of a difference between two settings


def load_pairs(
    settings: Settings, path: Path | None = None, *, encoding: str | None = None
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
        >>> settings = Settings(source="de", target="en", count=100, digits=(1, 3))
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
            s.source, s.target, count=s.count or 0, digits=s.digits or (0, 0), seed=s.seed
        )
    if not (train and held_out):
        one_digit = s.digits is not None and s.digits[1] == 1
        help_ = "numbers of one digit are all trained on" if one_digit else "more pairs help"
        raise ValueError(
            "there must be pairs to train on and pairs to hold out, about one in ten, got "
            f"{len(train)} and {len(held_out)}; {help_}"
        )
    return train, held_out


def complete(settings: Settings, sides: Sides) -> Settings:
    """The settings with what follows from the data: vocabularies, the longest target, a digest.

    Args:
        settings: what is asked for.
        sides: the pairs to train on and the pairs held out.

    Returns:
        New settings.

    Raises:
        ValueError: a `min_count` that leaves a vocabulary empty.

    Example:
        >>> settings = Settings(source="de", target="en", count=100, digits=(1, 2))
        >>> [len(side) for side in complete(settings, load_pairs(settings)).vocabularies()]
        [34, 41]
    """
    sources, targets = zip(*sides[0], strict=True)
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
        # Twice the longest it has seen: room for longer sources, and an end to a loop.
        max_length=2 * max(map(len, targets)) + 1,
        source_tokens=tokens[0],
        target_tokens=tokens[1],
    )


def train(
    settings: Settings,
    sides: Sides,
    folder: Path,
    *,
    device: torch.device,
    checkpoint_every: int = 200,
    snapshots: Sequence[int] = (),
) -> Translator:
    """Train, or go on training, and leave all that matters in a folder.

    Args:
        settings: what is asked for, completed by `complete`.
        sides: the pairs to train on and the pairs held out.
        folder: for `settings.json`, `weights.safetensors` and `checkpoint.pt`; made if need be.
        device: where to train.
        checkpoint_every: steps between two checkpoints.
        snapshots: steps after which the weights are kept too, in `weights-STEP.safetensors`.

    Returns:
        The trained translator.

    Raises:
        OSError: something cannot be read or written.
        ValueError: the folder holds a training of other settings, one that is damaged or has no
            checkpoint, or files that are none of ours.

    Example:
        >>> import tempfile
        >>> settings = Settings(source="de", target="en", count=99, digits=(1, 3))
        >>> settings = replace(settings, steps=2, warmup=1, hidden_dim=8)
        >>> sides = load_pairs(settings)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cpu, settings = torch.device("cpu"), complete(settings, sides)
        ...     translator = train(settings, sides, Path(folder), device=cpu)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['checkpoint.pt', 'settings.json', 'weights.safetensors']
    """
    model = build_model(settings).to(device)
    _claim(folder, settings)
    if 0 in snapshots:
        save_weights(folder / "weights-0.safetensors", model)

    def on_step(done: int, loss: Tensor) -> None:
        if done in snapshots:
            save_weights(folder / f"weights-{done}.safetensors", model)
        if done % checkpoint_every == 0 and not sys.stderr.isatty():  # where no bar is shown
            print(f"step {done} of {settings.steps}: loss {loss.item():.4f}", flush=True)

    fit(
        model,
        Batches(
            sides[0], *settings.vocabularies(), batch_size=settings.batch_size, seed=settings.seed
        ),
        steps=settings.steps,
        lr=settings.lr,
        schedule=linear_decay(settings.warmup, settings.steps),
        seed=settings.seed,
        checkpoint=folder / CHECKPOINT,
        checkpoint_every=checkpoint_every,
        on_step=on_step,
    )
    save_weights(folder / WEIGHTS, model)
    gone = [n for n in snapshots if not (folder / f"weights-{n}.safetensors").exists()]
    if gone:
        steps = ", ".join(map(str, gone))
        print(f"no snapshot of step {steps}: the training had gone further", file=sys.stderr)
    return Translator(settings, model)


def evaluate(translator: Translator, pairs: Sequence[Pair], *, bands: int = 4) -> str:
    """Exact match and BLEU over tokens, greedily decoded: of all pairs, and by source length.

    Args:
        translator: what is measured.
        pairs: that it was not trained on; one or more.
        bands: how many bands of length, with about as many pairs each.

    Returns:
        A table, a line a band.

    Raises:
        ValueError: no pair.

    Example:
        >>> settings = Settings(source="de", target="en", max_length=4)
        >>> translator = Translator(settings, build_model(settings))
        >>> print(evaluate(translator, [(("drei",), ("three",)), (("vier",), ("four",))]))
        source tokens   pairs  exact match   BLEU
                  all       2        0.000    0.0
    """
    sources = [source for source, _ in pairs]
    vocabularies = translator.source_vocab, translator.target_vocab
    longest = translator.settings.max_length
    said = translate(translator.model, sources, *vocabularies, max_length=longest)
    rows = [(len(pair[0]), words, pair[1]) for pair, words in zip(pairs, said, strict=True)]
    lines = ["source tokens   pairs  exact match   BLEU", _line("all", rows)]
    edges = _edges([length for length, *_ in rows], bands)
    for low, high in pairwise(edges) if len(edges) > 2 else ():
        name = f"{low + 1}-{high}" if low + 1 < high else f"{high}"
        lines.append(_line(name, [row for row in rows if low < row[0] <= high]))
    return "\n".join(lines)


def _line(name: str, rows: Sequence[Row]) -> str:
    """One line of the table."""
    _, said, references = zip(*rows, strict=True)
    matched = exact_match(said, references)
    score = bleu([" ".join(words) for words in said], [" ".join(words) for words in references])
    return f"{name:>13}{len(rows):>8}{matched:>13.3f}{score:>7.1f}"


def _edges(lengths: Sequence[int], bands: int) -> list[int]:
    """Lengths that divide the pairs into parts of about one size: (low, high], (high, …]."""
    ordered = sorted(lengths)
    tops = {ordered[len(ordered) * (n + 1) // bands - 1] for n in range(bands)}
    return [ordered[0] - 1, *sorted(tops)]


def _claim(folder: Path, settings: Settings) -> None:
    """Make the folder ours; refuse one that holds anything that this training would replace."""
    there = {name for name in (CHECKPOINT, SETTINGS, WEIGHTS) if (folder / name).exists()}
    if there and SETTINGS not in there:
        raise ValueError(
            f"{folder} must be empty or hold a training, got {min(there)} without {SETTINGS}: "
            "choose another --out"
        )
    if there:
        _compare(folder, read_settings(folder / SETTINGS), settings)
    if WEIGHTS in there and CHECKPOINT not in there:
        raise ValueError(
            f"{folder} holds the weights of this training, and no {CHECKPOINT} to go on from: "
            "choose another --out, or remove the folder to train them again"
        )
    if CHECKPOINT in there:
        print(f"going on with the training in {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    write_settings(folder / SETTINGS, settings)


def _compare(folder: Path, there: Settings, here: Settings) -> None:
    """Raise where the settings in a folder are others than those asked for."""
    for name, value in asdict(here).items():
        found = getattr(there, name)
        if found != value:
            option = f"--{name.replace('_', '-')}"
            what = f"{option} {found}, and {option} {value} is asked for"
            if len(what) > MOST_SHOWN:
                what = f"other {name.replace('_', ' ')} than those given now"
            raise ValueError(
                f"{folder} holds a training with {what}: choose another --out, "
                "or the same settings to go on with it"
            )
