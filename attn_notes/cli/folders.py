"""The folder of a training: settings as JSON, validated on load, and weights."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from attn_notes.cli.models import LanguageModel, Translator, build_model
from attn_notes.cli.settings import SHAPES, LanguageModelShape, PairData, Settings, Training
from attn_notes.device import get_device
from attn_notes.training import load_weights
from attn_notes.training.files import write_atomic

__all__ = [
    "CHECKPOINT",
    "WEIGHTS",
    "claim",
    "load_language_model",
    "load_translator",
    "read_settings",
    "write_settings",
]

CHECKPOINT, SETTINGS, WEIGHTS = "checkpoint.pt", "settings.json", "weights.safetensors"


def write_settings(folder: Path, settings: Settings) -> None:
    """Write the settings of a training into its folder."""
    stated = {"kind": settings.kind} | asdict(settings)
    text = json.dumps(stated, ensure_ascii=False, indent=1)
    write_atomic(folder / SETTINGS, f"{text}\n".encode())


def read_settings(folder: str | Path) -> Settings:
    """Read the settings of a training from its folder."""
    path = Path(folder, SETTINGS)
    content = path.read_bytes()
    try:
        stated = _tuples(json.loads(content))
        shape, data = SHAPES[stated.pop("kind")], stated.pop("data")
        settings = Settings(
            model=shape(**stated.pop("model")),
            training=Training(**stated.pop("training")),
            data=data and PairData(**data),
            **stated,
        )
        settings.vocabs()  # no token twice
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} must be the settings of a training, got: {error}") from error
    return settings


def _tuples(value: Any) -> Any:
    """The same with tuples for lists, as the settings have them."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def claim(folder: Path, settings: Settings) -> None:
    """Make a folder for a training; refuse one whose files this training would overwrite."""
    there = {name for name in (CHECKPOINT, SETTINGS, WEIGHTS) if (folder / name).exists()}
    if (there and SETTINGS not in there) or (WEIGHTS in there and CHECKPOINT not in there):
        found = ", ".join(sorted(there))
        raise ValueError(
            f"{folder} must be empty or hold a training to go on with, got only {found}: choose "
            "another --out"
        )
    if there:
        _compare(folder, read_settings(folder), settings)
        print(f"continuing the training in {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    write_settings(folder, settings)


def _compare(folder: Path, there: Settings, here: Settings) -> None:
    """Raise unless both are settings of the same training; the number of steps may differ."""
    there = replace(there, training=replace(there.training, steps=here.training.steps))
    for part in ("kind", "model", "training", "data", "digest", "vocabularies"):
        theirs, ours = getattr(there, part), getattr(here, part)
        names = vars(ours) if part in {"model", "training", "data"} and ours else ()
        for name in names if theirs else ():
            if getattr(theirs, name) != getattr(ours, name):
                got = f"{name} {getattr(theirs, name)}, got {getattr(ours, name)}"
                raise ValueError(f"{folder} holds a training with {got}: choose another --out")
        if theirs != ours:
            got = f"kind {theirs}, got {ours}" if part == "kind" else "other texts or pairs"
            raise ValueError(f"{folder} holds a training with {got}: choose another --out")


def load_translator(
    folder: str | Path, *, weights: str = WEIGHTS, device: torch.device | None = None
) -> Translator:
    """The translator in a folder of `attn-notes train`, on `get_device()` by default."""
    settings = read_settings(folder)
    if isinstance(settings.model, LanguageModelShape):
        raise ValueError(f"{folder} must hold a translator, got a {settings.kind}")
    return Translator(settings, _load(folder, weights, settings, device))


def load_language_model(
    folder: str | Path, *, weights: str = WEIGHTS, device: torch.device | None = None
) -> LanguageModel:
    """The language model in a folder of `attn-notes train`, on `get_device()` by default."""
    settings = read_settings(folder)
    if not isinstance(settings.model, LanguageModelShape):
        raise ValueError(f"{folder} must hold a language-model, got a {settings.kind}")
    return LanguageModel(settings, _load(folder, weights, settings, device))


def _load(folder: str | Path, weights: str, settings: Settings, device: Any) -> Any:
    model = build_model(settings)
    load_weights(Path(folder, weights), model)
    return model.to(device or get_device())
