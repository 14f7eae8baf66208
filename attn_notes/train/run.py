"""Training: from settings to a folder that holds a model."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes.train.models import build_model
from attn_notes.train.settings import Settings
from attn_notes.train.stopping import Stop, Unfinished, going_on, listening
from attn_notes.train.stored import read_settings, write_settings
from attn_notes.training import (
    Movable,
    PeerLost,
    Schedule,
    TrainingStopped,
    constant,
    cosine_decay,
    fit,
    inverse_sqrt,
    linear_decay,
    noam,
    save_weights,
)
from attn_notes.training.distributed import any_of_all, from_first, rank

__all__ = ["train"]

CHECKPOINT, SETTINGS, WEIGHTS = "checkpoint.pt", "settings.json", "weights.safetensors"
MOST_SHOWN = 80  # characters of a difference between two settings


def train(
    settings: Settings,
    batches: Callable[[int], Movable],
    loss: Callable[[Any, Any], Tensor],
    folder: Path,
    *,
    device: torch.device,
    checkpoint_every: int = 200,
    snapshots: Sequence[int] = (),
    precision: str = "float32",
    compile: bool = False,  # noqa: A002, as in fit
) -> nn.Module:
    """Train, or go on training, and leave all that matters in a folder.

    Of several processes in a group, the first reads and writes the files of all.

    Args:
        settings: what is asked for, completed by what follows from the data.
        batches: the batch of each step, as for `fit`; of several processes, this one's share.
        loss: as for `fit`.
        folder: for `settings.json`, `weights.safetensors` and `checkpoint.pt`; made if need be.
        device: where to train.
        checkpoint_every: steps between two checkpoints.
        snapshots: steps after which the weights are kept too, in `weights-STEP.safetensors`.
        precision: as for `fit`.
        compile: as for `fit`.

    Returns:
        The trained model.

    Raises:
        OSError: something cannot be read or written.
        Unfinished: told to stop, or another process is gone.
        ValueError: the folder holds a training of other settings, one that is damaged or has no
            checkpoint, or files that are none of ours; processes that are asked for different
            things.

    Example:
        >>> import tempfile
        >>> from attn_notes.data import TextWindows
        >>> from attn_notes.train.settings import LanguageModelSettings
        >>> from attn_notes.training import language_model_loss
        >>> settings = LanguageModelSettings(tokens=("a", "b"), steps=2, warmup=1)
        >>> windows = TextWindows(["abba"], settings.vocabularies()[0], length=2, batch_size=2)
        >>> cpu = torch.device("cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = train(settings, windows, language_model_loss, Path(folder), device=cpu)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['checkpoint.pt', 'settings.json', 'weights.safetensors']
    """
    if any_of_all(from_first(lambda: settings) != settings):
        raise ValueError(
            "every process must be given the same options and texts, got different ones"
        )
    model = build_model(settings).to(device)
    from_first(partial(_claim, folder, settings))
    if 0 in snapshots:
        from_first(partial(save_weights, folder / "weights-0.safetensors", model))
    with _stoppable(folder / CHECKPOINT) as stop:
        fit(
            model,
            batches,
            loss,
            steps=settings.steps,
            lr=settings.lr,
            schedule=_schedule(settings),
            weight_decay=settings.weight_decay,
            seed=settings.seed,
            checkpoint=folder / CHECKPOINT,
            checkpoint_every=checkpoint_every,
            on_step=_watcher(model, settings, folder, checkpoint_every, snapshots),
            precision=precision,
            compile=compile,
            stop=stop,
        )
    from_first(partial(save_weights, folder / WEIGHTS, model))
    _miss(folder, snapshots)
    return model


@contextmanager
def _stoppable(checkpoint: Path) -> Iterator[Stop]:
    """Inside, a signal ends the training after its step; what goes wrong says how to go on."""
    hung = "told to stop, but a step does not end"
    with listening(lambda: f"{hung}; {going_on(checkpoint)}") as stop:
        try:
            yield stop
        except TrainingStopped as error:
            code = 1 if isinstance(error.__cause__, PeerLost) else stop.code
            raise Unfinished(f"{error}; {going_on(checkpoint)}", code) from error


def _miss(folder: Path, snapshots: Sequence[int]) -> None:
    """Say which snapshots were asked for too late."""
    gone = [n for n in snapshots if not (folder / f"weights-{n}.safetensors").exists()]
    if gone and rank() == 0:
        steps = ", ".join(map(str, gone))
        print(f"no snapshot of step {steps}: the training had gone further", file=sys.stderr)


def _watcher(
    model: nn.Module, settings: Settings, folder: Path, every: int, snapshots: Sequence[int]
) -> Callable[[int, Tensor], None]:
    """What is done after a step: weights are kept, and losses are said where no bar is shown."""

    def on_step(done: int, loss: Tensor) -> None:
        if rank() != 0:
            return
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
