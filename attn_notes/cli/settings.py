"""The settings of a training: options on the command line, and JSON in its folder."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from typeguard import CollectionCheckStrategy, TypeCheckError, check_type

from attn_notes.data import Vocabulary
from attn_notes.training import Schedule, constant, cosine_decay, inverse_sqrt, linear_decay
from attn_notes.transformer.config import Activation, Norm, Positions, TransformerConfig

__all__ = [
    "SHAPES",
    "Checked",
    "LanguageModelShape",
    "Limit",
    "PairData",
    "Seq2SeqShape",
    "Settings",
    "Training",
    "TransformerShape",
]


class Limit(NamedTuple):
    """The range of a field, stated in its annotation."""

    least: float
    most: float = math.inf

    def holds(self, value: float) -> bool:
        """Whether a value is in the range."""
        return self.least <= value <= self.most

    def __str__(self) -> str:
        bounds = f"from {self.least:g} to {self.most:g}"
        return f"at least {self.least:g}" if self.most == math.inf else bounds


Count = Annotated[int, Limit(1)]
Fraction = Annotated[float, Limit(0, 1)]


class Checked:
    """A dataclass whose fields must have the annotated types and be within their limits."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            try:
                every = CollectionCheckStrategy.ALL_ITEMS
                check_type(value, hint, collection_check_strategy=every)
            except TypeCheckError as error:
                raise ValueError(f"{name} has the wrong type: {error}") from None
            for limit in getattr(hint, "__metadata__", ()):
                if isinstance(limit, Limit) and value is not None and not limit.holds(value):
                    raise ValueError(f"{name} must be {limit}, got {value}")


@dataclass(frozen=True, kw_only=True)
class Training(Checked):
    """How a model is trained."""

    steps: Count = 600
    """Number of updates. A finished training goes on with a larger number."""
    batch_size: Count = 128
    """Pairs, or windows of text, in an update, over all processes together."""
    lr: Annotated[float, Limit(1e-12, 1e3)] = 3e-3
    """Highest learning rate."""
    schedule: Literal["linear", "cosine", "inverse-sqrt", "constant"] = "linear"
    """Course of the learning rate after the warm-up."""
    warmup: Annotated[int, Limit(0)] = 50
    """Steps up to the highest rate, at most half of --steps."""
    weight_decay: Annotated[float, Limit(0, 10)] = 0.0
    """Weight decay of AdamW."""
    label_smoothing: Fraction = 0.0
    """Fraction of each label that is spread over all tokens."""
    min_count: Count = 1
    """Tokens that occur less often are unknown."""
    seed: Annotated[int, Limit(0)] = 0
    """Seed of the data, the first weights, the batches and the dropout."""

    def factors(self) -> Schedule:
        """The schedule of the learning rate."""
        warmup = min(self.warmup, self.steps // 2)
        match self.schedule:
            case "linear":
                return linear_decay(warmup, self.steps)
            case "cosine":
                return cosine_decay(warmup, self.steps)
        return (inverse_sqrt if self.schedule == "inverse-sqrt" else constant)(warmup)


@dataclass(frozen=True, kw_only=True)
class PairData(Checked):
    """What a translator learns from."""

    data: Literal["numbers", "dates", "pairs"] = "numbers"
    """Numbers in words, dates, or the pairs of a file, which --pairs names."""
    source: str = "de"
    """Language that is read; of numbers several, as in digits,en."""
    target: str = "en"
    """Language that is written, or several."""
    count: Count = 20_000
    """How many numbers or dates are drawn."""
    digits: tuple[int, int] = (1, 12)
    """Of numbers: fewest and most digits."""
    balance: Fraction = 0.0
    """Of numbers: short and round ones are repeated up to this fraction of the training set."""
    style: Literal["full", "long", "medium"] = "long"
    """Of dates: how they are written."""


@dataclass(frozen=True, kw_only=True)
class Seq2SeqShape(Checked):
    """A recurrent encoder-decoder (chapter 4)."""

    score: Literal["additive", "concat", "bilinear", "dot", "scaled", "gaussian", "none"] = (
        "additive"
    )
    """Score of the attention; none is one fixed context."""
    embed_dim: Count = 32
    """Width of the token embeddings."""
    hidden_dim: Count = 128
    """Width of the GRU's state; each direction has half of it."""
    num_layers: Count = 1
    """GRUs on top of one another."""
    bidirectional: bool = True
    """Whether half of the encoder reads from the end."""
    dropout: Fraction = 0.0
    """Dropout between layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bidirectional and self.hidden_dim % 2:
            raise ValueError(f"hidden_dim must be even for two directions, got {self.hidden_dim}")
        if self.dropout and self.num_layers == 1:
            raise ValueError("dropout is between layers: num_layers must be at least 2, got 1")


@dataclass(frozen=True, kw_only=True)
class TransformerShape(Checked):
    """A Transformer (chapter 7); `TransformerConfig` checks the numbers."""

    embed_dim: int = 48
    """Width of the residual stream."""
    num_heads: int = 4
    """Heads of every attention."""
    num_kv_heads: int | None = None
    """Key-value heads that the heads share; as many as heads by default."""
    num_layers: int = 2
    """Blocks on top of one another, in the encoder and in the decoder."""
    ffn_dim: int = 96
    """Width inside the feed-forward networks."""
    norm: Norm = "pre"
    """Layer norm before or after each sublayer."""
    positions: Positions = "sinusoidal"
    """How positions enter."""
    activation: Activation = "relu"
    """Activation of the feed-forward networks."""
    tie_embeddings: bool = True
    """Whether the embedding of the target is also the map to the logits."""
    dropout: float = 0.0
    """Dropout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.config(vocab_size=1)

    def config(self, **others: Any) -> TransformerConfig:
        """The configuration of the model, with what follows from the data."""
        return TransformerConfig(**vars(self) | others)


@dataclass(frozen=True, kw_only=True)
class LanguageModelShape(TransformerShape):
    """A model that predicts the next character (chapter 8)."""

    embed_dim: int = 128
    num_layers: int = 4
    """Blocks on top of one another."""
    ffn_dim: int = 512
    positions: Positions = "learned"
    activation: Activation = "gelu"
    max_length: int = 128
    """Most characters that are read at once."""


Shape = Seq2SeqShape | TransformerShape | LanguageModelShape
SHAPES: dict[str, type[Shape]] = {
    "seq2seq": Seq2SeqShape,
    "transformer": TransformerShape,
    "language-model": LanguageModelShape,
}


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    """All that a model is built from: what was asked for, and what follows from the data."""

    model: Shape
    training: Training
    data: PairData | None = None
    vocabularies: tuple[tuple[str, ...], ...]
    """The tokens: of source and target, or of a language model's texts."""
    max_length: int = 100
    """Most tokens of a translation; learned positions reach as far."""
    digest: str = ""
    """Of the pairs or texts: whether a training goes on with the same."""

    @property
    def kind(self) -> str:
        """The model's name on the command line."""
        return next(name for name, shape in SHAPES.items() if type(self.model) is shape)

    def vocabs(self) -> tuple[Vocabulary, ...]:
        """The vocabularies, ready to encode."""
        return tuple(map(Vocabulary, self.vocabularies))
