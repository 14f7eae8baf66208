"""Settings and models as files: written whole, and read with distrust."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, get_args

from torch import nn

from attn_notes.train.models import SCORES, build_model
from attn_notes.train.settings import DATA, MODELS, SCHEDULES, Settings
from attn_notes.training import load_weights, write_whole
from attn_notes.transformer.config import Activation, Norm, Positions

__all__ = ["read_model", "read_settings", "write_settings"]

SomeSettings = TypeVar("SomeSettings", bound=Settings)


def write_settings(path: Path, settings: Settings) -> None:
    """Write settings as JSON.

    Args:
        path: of the file.
        settings: of one of `MODELS`.

    Raises:
        OSError: the file cannot be written; what was there before is as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), MODELS["transformer"](seed=7))
        ...     read_settings(Path(folder, "settings.json")).seed
        7
    """
    stated = {"model": settings.model} | asdict(settings)
    text = json.dumps(stated, ensure_ascii=False, indent=1)
    write_whole(path, f"{text}\n".encode())


def read_settings(path: Path) -> Settings:
    """Read what `write_settings` wrote.

    Args:
        path: of the file.

    Returns:
        The settings; a file that names no model is of the first there was, seq2seq.

    Raises:
        OSError: the file cannot be read.
        ValueError: another kind of file, or a setting of another kind or out of range.

    Example:
        >>> import tempfile
        >>> settings = MODELS["transformer"](source="digits", target="de,fr")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), settings)
        ...     read_settings(Path(folder, "settings.json")) == settings
        True
    """
    try:
        stated: dict[str, Any] = json.loads(path.read_bytes())
        name = stated.pop("model", "seq2seq")
        _check("model", name)
        for setting, value in stated.items():
            stated[setting] = tuple(value) if isinstance(value, list) else value
        settings = MODELS[name](**stated)
        for setting, value in vars(settings).items():
            _check(setting, value)
        settings.vocabularies()  # no token is there twice
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} must be the settings of a training, got: {error}") from error
    return settings


def read_model(
    folder: str | Path, weights: str, kind: type[SomeSettings], what: str
) -> tuple[SomeSettings, nn.Module]:
    """Read the settings of a training and the model that came of it.

    Args:
        folder: with `settings.json` and the weights.
        weights: which file of it.
        kind: the class of the settings that are wanted.
        what: the name of a model with such settings, for the error.

    Returns:
        The settings, and the model on the CPU.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a file that is not what it should be, or settings of another kind.

    Example:
        >>> read_model("nowhere", "w.safetensors", Settings, "model")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] No such file or directory: '...settings.json'
    """
    settings = read_settings(Path(folder, "settings.json"))
    if not isinstance(settings, kind):
        raise ValueError(  # noqa: TRY004, of a file
            f"{folder} must hold a {what}, got a {settings.model}"
        )
    model = build_model(settings)
    load_weights(Path(folder, weights), model)
    return settings, model


def _one_of(*choices: str) -> tuple[str, Callable[[Any], bool]]:
    return f"one of {', '.join(choices)}", lambda value: value in choices


# What a setting must be: the words for it, whether a value is that, and the settings it is said of.
_MUST: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (*_one_of(*MODELS), "model"),
    (*_one_of(*DATA), "data"),
    (*_one_of(*SCORES, "none"), "score"),
    (*_one_of(*SCHEDULES), "schedule"),
    (*_one_of(*get_args(Norm)), "norm"),
    (*_one_of(*get_args(Positions)), "positions"),
    (*_one_of(*get_args(Activation)), "activation"),
    ("a text", lambda value: isinstance(value, str), "source target sentences texts"),
    ("a text or null", lambda value: isinstance(value, str | None), "style"),
    ("true or false", lambda value: isinstance(value, bool), "unidirectional tie"),
    (
        "a whole number, 1 or more",
        lambda value: _is_whole(value, 1),
        "min_count embed_dim hidden_dim layers heads steps batch_size max_length context",
    ),
    ("a whole number, 0 or more", lambda value: _is_whole(value, 0), "warmup seed"),
    ("a whole number, 1 or more, or null", lambda v: v is None or _is_whole(v, 1), "count"),
    (
        "a number from 0 to 1",
        lambda value: _is_number(value) and 0 <= value <= 1,
        "dropout label_smoothing balance",
    ),
    ("a number above 0", lambda value: _is_number(value) and 0 < value < math.inf, "lr"),
    (
        "a number, 0 or more",
        lambda value: _is_number(value) and 0 <= value < math.inf,
        "weight_decay",
    ),
    ("two whole numbers, or null", lambda v: v is None or (_are(v, int) and len(v) == 2), "digits"),
    ("a list of texts", lambda value: _are(value, str), "source_tokens target_tokens tokens"),
)


def _check(name: str, value: object) -> None:
    for words, holds, names in _MUST:
        if name in names.split() and not holds(value):
            raise ValueError(f"{name} must be {words}, got {value!r}")


def _is_whole(value: object, lowest: int) -> bool:
    return type(value) is int and value >= lowest


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _are(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(type(value) is kind for value in values)
