"""Training: from settings to a folder that holds a translator."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.data import Batches
from attn_notes.train.models import build_model
from attn_notes.train.pairs import Sides
from attn_notes.train.settings import Settings
from attn_notes.train.stored import read_settings, write_settings
from attn_notes.train.translator import Translator
from attn_notes.training import (
    Schedule,
    constant,
    cosine_decay,
    fit,
    inverse_sqrt,
    linear_decay,
    noam,
    save_weights,
    translation_loss,
)

__all__ = ["train"]

CHECKPOINT, SETTINGS, WEIGHTS = "checkpoint.pt", "settings.json", "weights.safetensors"
MOST_SHOWN = 80  # characters of a difference between two settings


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
        >>> from dataclasses import replace
        >>> from attn_notes.train.pairs import complete, load_pairs
        >>> from attn_notes.train.settings import TransformerSettings
        >>> asked = TransformerSettings(source="de", target="en", count=99, digits=(1, 3), steps=2)
        >>> sides, cpu = load_pairs(asked), torch.device("cpu")
        >>> settings = replace(complete(asked, sides), warmup=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     translator = train(settings, sides, Path(folder), device=cpu)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['checkpoint.pt', 'settings.json', 'weights.safetensors']
    """
    model = build_model(settings).to(device)
    _claim(folder, settings)
    if 0 in snapshots:
        save_weights(folder / "weights-0.safetensors", model)

    fit(
        model,
        Batches(
            sides[0], *settings.vocabularies(), batch_size=settings.batch_size, seed=settings.seed
        ),
        partial(translation_loss, label_smoothing=settings.label_smoothing),
        steps=settings.steps,
        lr=settings.lr,
        schedule=_schedule(settings),
        weight_decay=settings.weight_decay,
        seed=settings.seed,
        checkpoint=folder / CHECKPOINT,
        checkpoint_every=checkpoint_every,
        on_step=_watcher(model, settings, folder, checkpoint_every, snapshots),
    )
    save_weights(folder / WEIGHTS, model)
    gone = [n for n in snapshots if not (folder / f"weights-{n}.safetensors").exists()]
    if gone:
        steps = ", ".join(map(str, gone))
        print(f"no snapshot of step {steps}: the training had gone further", file=sys.stderr)
    return Translator(settings, model)


def _watcher(
    model: nn.Module, settings: Settings, folder: Path, every: int, snapshots: Sequence[int]
) -> Callable[[int, Tensor], None]:
    """What is done after a step: weights are kept, and losses are said where no bar is shown."""

    def on_step(done: int, loss: Tensor) -> None:
        if done in snapshots:
            save_weights(folder / f"weights-{done}.safetensors", model)
        if done % every == 0 and not sys.stderr.isatty():
            print(f"step {done} of {settings.steps}: loss {loss.item():.4f}", flush=True)

    return on_step


def _schedule(s: Settings) -> Schedule:
    """What becomes of the learning rate."""
    match s.schedule:
        case "linear":
            return linear_decay(s.warmup, s.steps)
        case "cosine":
            return cosine_decay(s.warmup, s.steps)
        case "inverse-sqrt":
            return inverse_sqrt(s.warmup)
        case "noam":
            return noam(s.embed_dim, s.warmup)
        case _:
            return constant(s.warmup)


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
    if there.model != here.model:
        what = f"{there.model}, and {here.model} is asked for"
        raise ValueError(f"{folder} holds a training of {what}: choose another --out")
    for name, value in asdict(here).items():
        found = getattr(there, name)
        if found != value:
            option = f"--{name.replace('_', '-')}"
            what = f"{option} {_typed(found)}, and {option} {_typed(value)} is asked for"
            if len(what) > MOST_SHOWN:
                what = f"other {name.replace('_', ' ')} than those given now"
            raise ValueError(
                f"{folder} holds a training with {what}: choose another --out, "
                "or the same settings to go on with it"
            )


def _typed(value: Any) -> str:
    """A setting as it is typed on the command line: digits as 1-4."""
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
