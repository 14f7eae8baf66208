"""The settings of a training: options on the command line, and JSON in its folder."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from attn_notes.arguments import check_choices, check_fractions, check_integers, check_positive
from attn_notes.stored import SETTINGS, Spec, read_settings
from attn_notes.training import constant, cosine_decay, inverse_sqrt, linear_decay
from attn_train.files import write_atomic

Course = Literal["linear", "cosine", "inverse-sqrt", "constant"]
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained."""

    steps: int = 600  # Number of updates. A finished training goes on with a larger number
    batch_size: int = 128  # Pairs, or windows of text, in an update, over all processes together
    lr: float = 3e-3  # Highest learning rate
    schedule: Course = "linear"  # Course after the warm-up
    warmup: int = 50  # Steps up to the highest rate, at most half of --steps
    weight_decay: float = 0.0  # Weight decay of AdamW
    label_smoothing: float = 0.0  # Fraction of each label that is spread over all tokens
    min_count: int = 1  # Tokens that occur less often are unknown
    seed: int = 0  # Seed of the data, the first weights, the batches and the dropout

    def check(self) -> None:
        """Raise unless all are in their ranges."""
        check_integers(1, steps=self.steps, batch_size=self.batch_size, min_count=self.min_count)
        check_integers(0, warmup=self.warmup, seed=self.seed)
        check_positive(lr=self.lr)
        check_fractions(label_smoothing=self.label_smoothing)

    def factors(self) -> Callable[[int], float]:
        """The schedule of the learning rate."""
        warmup = min(self.warmup, self.steps // 2)
        falling = {"linear": linear_decay, "cosine": cosine_decay}
        if self.schedule in falling:
            return falling[self.schedule](warmup, self.steps)
        return (inverse_sqrt if self.schedule == "inverse-sqrt" else constant)(warmup)


@dataclass(frozen=True, kw_only=True)
class Settings(Spec):
    """All that a training starts from: what was asked for, and what follows from the data."""

    training: Training
    digest: str = ""  # Of the pairs or texts: whether a training goes on with the same

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training.check()
        check_choices(self.training)


def read_training(folder: str | Path) -> Settings:
    """Read the settings of a training from its folder."""

    def make(*, training: dict[str, Any], **parts: Any) -> Settings:
        return Settings(training=Training(**training), **parts)

    return read_settings(folder, make)


def claim(folder: Path, settings: Settings) -> None:
    """Make a folder for a training; refuse one whose files the training would overwrite."""
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise ValueError(f"--out must name a folder of its own, got {folder}")
    has_checkpoint = (folder / CHECKPOINT).exists()
    if has_checkpoint or (folder / SETTINGS).exists():
        there = _flat(read_training(folder))
        for name, ours in _flat(settings).items():
            if name != "steps" and there.get(name) != ours:
                got = f"{name} {there.get(name)}, got {ours}"
                raise ValueError(f"{folder} holds a training with {got}: choose another --out")
    if has_checkpoint:
        print(f"continuing the training in {folder}")
        return
    if [*folder.glob("*.safetensors")]:
        raise ValueError(f"{folder} holds weights without a checkpoint: choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_settings(folder, settings)


def write_settings(folder: Path, settings: Settings) -> None:
    """Write `settings.json`, which loads and continues the model."""
    stated = {"kind": settings.model.kind} | asdict(settings)
    text = json.dumps(stated, ensure_ascii=False, indent=1)
    write_atomic(folder / SETTINGS, f"{text}\n".encode())


def _flat(settings: Settings) -> dict[str, Any]:
    """What must be the same for a training to go on."""
    data = vars(settings.data) if settings.data else {}
    parts = vars(settings.model) | vars(settings.training) | data
    return {"kind": settings.model.kind} | parts | {"digest of the data": settings.digest}
