"""The settings of a training: options on the command line, and JSON in its folder."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from attn_notes.arguments import check_choices, check_fractions, check_integers, check_positive
from attn_notes.stored import SETTINGS, PairData, Spec
from attn_notes.training import constant, cosine_decay, inverse_sqrt, linear_decay
from attn_notes.transformer.config import Activation, Norm, Positions
from attn_train.files import write_atomic

Score = Literal["additive", "concat", "bilinear", "dot", "scaled", "gaussian", "none"]
Course = Literal["linear", "cosine", "inverse-sqrt", "constant"]
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, kw_only=True)
class Task(PairData):
    """What a translator learns from."""

    data: Literal["numbers", "dates", "pairs"] = "numbers"  # Where from; --pairs names a file
    source: str = "de"  # Language that is read; of numbers several, as in digits,en
    target: str = "en"  # Language that is written, or several
    count: int = 20_000  # How many numbers or dates are drawn
    digits: tuple[int, int] = (1, 12)  # Of numbers: fewest and most digits
    balance: float = 0.0  # Short and round numbers are repeated up to this fraction
    style: Literal["full", "long", "medium"] = "long"  # Of dates: how they are written


@dataclass(frozen=True, kw_only=True)
class Seq2SeqShape:
    """A recurrent encoder-decoder (chapter 4)."""

    kind: ClassVar = "seq2seq"
    score: Score = "additive"  # Score of the attention; none is one fixed context
    embed_dim: int = 32  # Width of the token embeddings
    hidden_dim: int = 128  # Width of the GRU's state; each direction has half of it
    num_layers: int = 1  # GRUs on top of one another
    bidirectional: bool = True  # Whether half of the encoder reads from the end
    dropout: float = 0.0  # Dropout between layers


@dataclass(frozen=True, kw_only=True)
class TransformerShape:
    """A Transformer (chapter 7); `TransformerConfig` checks the numbers."""

    kind: ClassVar = "transformer"
    embed_dim: int = 48  # Width of the residual stream
    num_heads: int = 4  # Heads of every attention
    num_kv_heads: int | None = None  # Key-value heads; as many as heads by default
    num_layers: int = 2  # Blocks on top of one another, in the encoder and in the decoder
    ffn_dim: int = 96  # Width inside the feed-forward networks
    norm: Norm = "pre"  # Layer norm before or after each sublayer
    positions: Positions = "sinusoidal"  # How positions enter
    activation: Activation = "relu"  # Activation of the feed-forward networks
    tie_embeddings: bool = True  # Whether the embedding of the target is also the map to the logits
    dropout: float = 0.0  # Dropout


@dataclass(frozen=True, kw_only=True)
class LanguageModelShape(TransformerShape):
    """A model that predicts the next character (chapter 9)."""

    kind: ClassVar = "language-model"
    embed_dim: int = 128
    num_layers: int = 4  # Blocks on top of one another
    ffn_dim: int = 512
    positions: Positions = "learned"
    activation: Activation = "gelu"
    max_length: int = 128  # Most characters that are read at once


Shape = Seq2SeqShape | TransformerShape | LanguageModelShape
SHAPES = {shape.kind: shape for shape in get_args(Shape)}


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
class Settings:
    """All that a training starts from: what was asked for, and what follows from the data."""

    model: Shape
    training: Training
    data: Task | None = None
    vocabularies: tuple[tuple[str, ...], ...]  # Of source and target, or of texts
    max_length: int = 100  # Most tokens of a translation
    digest: str = ""  # Of the pairs or texts: whether a training goes on with the same

    def __post_init__(self) -> None:
        self.training.check()
        for part in (self.model, self.training, self.data):
            check_choices(part)

    def spec(self) -> Spec:
        """What of it the model is built from."""
        known: Any = {"vocabularies": self.vocabularies, "max_length": self.max_length}
        return Spec(kind=self.model.kind, model=vars(self.model), data=self.data, **known)


def read_training(folder: str | Path) -> Settings:
    """Read the settings of a training from its folder."""
    path = Path(folder, SETTINGS)
    content = path.read_bytes()
    try:
        stated = json.loads(content)
        data = stated.pop("data")
        return Settings(
            model=SHAPES[stated.pop("kind")](**stated.pop("model")),
            training=Training(**stated.pop("training")),
            data=data and Task(**data | {"digits": tuple(data["digits"])}),
            vocabularies=tuple(map(tuple, stated.pop("vocabularies"))),
            **stated,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} must be the settings of a training, got: {error}") from error


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
