"""What a training was asked for: enough to build its model again, and to go on with it."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attn_notes import scores
from attn_notes.data import Vocabulary, join_words, split_number
from attn_notes.seq2seq import AttentionDecoder, RNNDecoder, RNNEncoder, Seq2Seq
from attn_notes.training import write_whole

__all__ = ["DATA", "SCORES", "Settings", "build_model", "read_settings", "write_settings"]

DATA = ("numbers", "dates", "pairs")
"""What a model may learn from."""

SCORES: dict[str, Callable[[int], nn.Module]] = {
    "additive": lambda width: scores.AdditiveScore(width, width, width),
    "concat": lambda width: scores.ConcatScore(width, width, width),
    "bilinear": lambda width: scores.BilinearScore(width, width),
    "dot": lambda _: scores.DotProductScore(),
    "scaled": lambda _: scores.ScaledDotProductScore(),
    "gaussian": lambda _: scores.GaussianScore(),
}
"""The scores of chapter 2 by name, for queries and keys of one width."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a training was asked for, and what of its data the model has to know.

    Example:
        >>> settings = Settings(data="numbers", source="de", target="en")
        >>> settings.split("dreiundsiebzig")
        ('drei', 'und', 'siebzig')
        >>> settings.join(["seventy", "-three"])
        'seventy-three'
    """

    data: str = "numbers"
    """One of `DATA`."""
    source: str = ""
    """The language that is read; of pairs nothing is known."""
    target: str = ""
    """The language that is written."""
    digits: tuple[int, int] | None = None
    """Of numbers: the fewest and the most."""
    style: str | None = None
    """Of dates."""
    count: int | None = None
    """How many numbers or dates are drawn, the held-out ones included."""
    min_count: int = 1
    """How often a token must occur to be in a vocabulary."""
    score: str = "additive"
    """One of `SCORES`, or "none" for one fixed context."""
    embed_dim: int = 32
    """Width of the token embeddings."""
    hidden_dim: int = 128
    """Width of the decoder's state, and of what the encoder gives."""
    layers: int = 1
    """GRUs on one another, in the encoder and in the decoder."""
    unidirectional: bool = False
    """Whether the encoder reads from the start alone; else half of it reads from the end."""
    dropout: float = 0.0
    """Between layers, while training."""
    steps: int = 600
    """Updates of the weights."""
    batch_size: int = 128
    """Pairs in a step."""
    lr: float = 3e-3
    """The highest learning rate."""
    warmup: int = 50
    """Steps up to it."""
    seed: int = 0
    """Of the draw, of the first weights, of the order and of the dropout."""
    sentences: str = ""
    """A digest of the pairs."""
    max_length: int = 100
    """The most tokens that a translation gets."""
    source_tokens: tuple[str, ...] = ()
    """The vocabulary that is read."""
    target_tokens: tuple[str, ...] = ()
    """The vocabulary that is written."""

    def split(self, text: str) -> tuple[str, ...]:
        """A text to be read, as tokens.

        Args:
            text: in the language that is read.

        Returns:
            Words, or the characters of a date.
        """
        match self.data:
            case "numbers":
                return split_number(text, self.source)
            case "dates":
                return tuple(text.strip())
            case _:
                return tuple(text.split())

    def join(self, tokens: Sequence[str]) -> str:
        """Tokens that were written, as a text.

        Args:
            tokens: in the language that is written.

        Returns:
            The text.
        """
        match self.data:
            case "numbers":
                return join_words(tokens, self.target)
            case "dates":
                return "".join(tokens)
            case _:
                return " ".join(tokens)

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The two vocabularies.

        Returns:
            Of what is read, and of what is written.
        """
        return Vocabulary(self.source_tokens), Vocabulary(self.target_tokens)


def build_model(settings: Settings) -> Seq2Seq:
    """The untrained model of these settings, the same for the same seed.

    Each direction of a bidirectional encoder gets half of `hidden_dim`, so that keys are as wide
    as queries and any score fits.

    Args:
        settings: of the training.

    Returns:
        The model, on the CPU.

    Raises:
        ValueError: a score that is not offered, or an odd width to be halved.

    Example:
        >>> model = build_model(Settings(score="none", source_tokens=("a",), target_tokens=("b",)))
        >>> sum(parameter.numel() for parameter in model.parameters())
        166469
    """
    s = settings
    if s.score not in {*SCORES, "none"}:
        raise ValueError(f"score must be one of {', '.join(SCORES)} or none, got {s.score!r}")
    if s.hidden_dim % 2 and not s.unidirectional:
        raise ValueError(f"hidden_dim must be even for two directions, got {s.hidden_dim}")
    half = s.hidden_dim if s.unidirectional else s.hidden_dim // 2
    source_size, target_size = map(len, s.vocabularies())
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(s.seed)
        encoder = RNNEncoder(
            source_size,
            s.embed_dim,
            half,
            s.layers,
            bidirectional=not s.unidirectional,
            dropout=s.dropout,
        )
        widths = target_size, s.embed_dim, s.hidden_dim, encoder.output_dim, s.layers
        if s.score == "none":
            return Seq2Seq(encoder, RNNDecoder(*widths, dropout=s.dropout))
        score = SCORES[s.score](s.hidden_dim)
        return Seq2Seq(encoder, AttentionDecoder(*widths, score=score, dropout=s.dropout))


def write_settings(path: Path, settings: Settings) -> None:
    """Write settings as JSON.

    Args:
        path: of the file.
        settings: what to write.

    Raises:
        OSError: the file cannot be written; what was there before is as it was.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), Settings(seed=7))
        ...     read_settings(Path(folder, "settings.json")).seed
        7
    """
    text = json.dumps(asdict(settings), ensure_ascii=False, indent=1)
    write_whole(path, f"{text}\n".encode())


def read_settings(path: Path) -> Settings:
    """Read what `write_settings` wrote.

    Args:
        path: of the file.

    Returns:
        The settings.

    Raises:
        OSError: the file cannot be read.
        ValueError: another kind of file, or a setting of another kind or out of range.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), Settings())
        ...     read_settings(Path(folder, "settings.json")) == Settings()
        True
    """
    try:
        stated: dict[str, Any] = json.loads(path.read_bytes())
        for name, value in stated.items():
            stated[name] = tuple(value) if isinstance(value, list) else value
        settings = Settings(**stated)
        for name, value in vars(settings).items():
            _check(name, value)
        settings.vocabularies()  # no token is there twice
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} must be the settings of a training, got: {error}") from error
    return settings


# What a setting must be: the words for it, whether a value is that, and the settings it is said of.
_MUST: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (f"one of {', '.join(DATA)}", lambda value: value in DATA, "data"),
    (f"one of {', '.join(SCORES)} or none", lambda value: value in (*SCORES, "none"), "score"),
    ("a text", lambda value: isinstance(value, str), "source target sentences"),
    ("a text or null", lambda value: isinstance(value, str | None), "style"),
    ("true or false", lambda value: isinstance(value, bool), "unidirectional"),
    (
        "a whole number, 1 or more",
        lambda value: _is_whole(value, 1),
        "min_count embed_dim hidden_dim layers steps batch_size max_length",
    ),
    ("a whole number, 0 or more", lambda value: _is_whole(value, 0), "warmup seed"),
    ("a whole number, 1 or more, or null", lambda v: v is None or _is_whole(v, 1), "count"),
    ("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1, "dropout"),
    ("a number above 0", lambda value: _is_number(value) and 0 < value < math.inf, "lr"),
    ("two whole numbers, or null", lambda v: v is None or (_are(v, int) and len(v) == 2), "digits"),
    ("a list of texts", lambda value: _are(value, str), "source_tokens target_tokens"),
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
