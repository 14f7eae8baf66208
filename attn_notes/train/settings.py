"""What a training was asked for: enough to build its model again, and to go on with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from attn_notes.data import Vocabulary, join_words, language_tag, split_number
from attn_notes.transformer.config import Activation, Norm, Positions

__all__ = [
    "DATA",
    "MODELS",
    "SCHEDULES",
    "BlockSettings",
    "LanguageModelSettings",
    "PairSettings",
    "Seq2SeqSettings",
    "Settings",
    "TransformerSettings",
]

DATA = ("numbers", "dates", "pairs")
"""What a model may learn from."""

SCHEDULES = ("linear", "cosine", "inverse-sqrt", "noam", "constant")
"""What the learning rate may do after the warm-up."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every training is asked for; of a certain model it is asked for more.

    Example:
        >>> Settings(steps=9).seed
        0
    """

    model: ClassVar[str]
    """Its name on the command line."""
    min_count: int = 1
    """How often a token must occur to be in a vocabulary."""
    embed_dim: int = 32
    """Width of the token embeddings; of a Transformer, of everything between its sublayers."""
    hidden_dim: int = 128
    """Width of a GRU's state, or inside a feed-forward network."""
    layers: int = 1
    """On one another, in the encoder and in the decoder."""
    dropout: float = 0.0
    """The share that is set to 0 while training."""
    steps: int = 600
    """Updates of the weights."""
    batch_size: int = 128
    """Pairs, or windows of text, in a step."""
    lr: float = 3e-3
    """The highest learning rate; with noam, a factor of what the paper says."""
    schedule: str = "linear"
    """One of `SCHEDULES`."""
    warmup: int = 50
    """Steps up to the highest rate."""
    weight_decay: float = 0.0
    """How much a weight shrinks in a step, in units of the learning rate."""
    label_smoothing: float = 0.0
    """The share of each label that all tokens have in equal parts."""
    seed: int = 0
    """Of the draw, of the first weights, of the order and of the dropout."""

    def vocabularies(self) -> tuple[Vocabulary, ...]:
        """The vocabularies that the model was trained with.

        Returns:
            As many as the model has.
        """
        return ()


@dataclass(frozen=True, kw_only=True)
class BlockSettings(Settings):
    """Of a model that is made of a Transformer's blocks.

    Example:
        >>> BlockSettings().norm
        'pre'
    """

    heads: int = 4
    """Of every attention."""
    norm: Norm = "pre"
    """Before a sublayer, or after it."""
    positions: Positions = "sinusoidal"
    """How order gets in."""
    activation: Activation = "relu"
    """Of the feed-forward networks."""
    tie: bool = True
    """Whether the embedding of what is written is the map to the logits too."""


@dataclass(frozen=True, kw_only=True)
class PairSettings(Settings):
    """Of a model that translates, and what of its data it has to know.

    Raises:
        ValueError: where a language is asked for that is not written.

    Example:
        >>> settings = PairSettings(data="numbers", source="de", target="en")
        >>> settings.split("dreiundsiebzig")
        ('drei', 'und', 'siebzig')
        >>> settings.join(["seventy", "-three"])
        'seventy-three'
    """

    data: str = "numbers"
    """One of `DATA`."""
    source: str = ""
    """The language that is read; of pairs nothing is known. Of numbers several: "digits,en"."""
    target: str = ""
    """The language that is written, or several."""
    digits: tuple[int, int] | None = None
    """Of numbers: the fewest and the most."""
    balance: float = 0.0
    """Of numbers: how often those of a rare kind are repeated, as in `number_pairs`."""
    style: str | None = None
    """Of dates."""
    count: int | None = None
    """How many numbers or dates are drawn, the held-out ones included."""
    sentences: str = ""
    """A digest of the pairs."""
    max_length: int = 100
    """The most tokens that a translation gets; of a Transformer that learns positions, a source."""
    source_tokens: tuple[str, ...] = ()
    """The vocabulary that is read."""
    target_tokens: tuple[str, ...] = ()
    """The vocabulary that is written."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The languages that are read."""
        return tuple(self.source.split(","))

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages that are written."""
        return tuple(self.target.split(","))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tokens that ask for a language, where there are several to write."""
        several = self.data == "numbers" and len(self.targets) > 1
        return tuple(map(language_tag, self.targets)) if several else ()

    def split(self, text: str, *, to: str | None = None) -> tuple[str, ...]:
        """A text to be read, as tokens.

        Args:
            text: in a language that is read; of several, the one with the fewest unknown tokens
                is taken, the first of them where that does not decide.
            to: the language that is wanted; by default the first.

        Returns:
            Words, or the characters of a date; first the tag, where several languages are written.

        Raises:
            ValueError: a language that is not written.
        """
        wanted = self._wanted(to)
        match self.data:
            case "numbers":
                tag = (language_tag(wanted),) if self.tags else ()
                known = {*self.source_tokens}
                readings = [split_number(text, language) for language in self.sources]
                return (
                    *tag,
                    *min(readings, key=lambda tokens: sum(t not in known for t in tokens)),
                )
            case "dates":
                return tuple(text.strip())
            case _:
                return tuple(text.split())

    def join(self, tokens: Sequence[str], *, to: str | None = None) -> str:
        """Tokens that were written, as a text.

        Args:
            tokens: in a language that is written.
            to: which; by default the first.

        Returns:
            The text.

        Raises:
            ValueError: a language that is not written.
        """
        wanted = self._wanted(to)
        match self.data:
            case "numbers":
                return join_words(tokens, wanted)
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

    def _wanted(self, to: str | None) -> str:
        if to is not None and to not in self.targets:
            offered = f"one of {', '.join(self.targets)}" if self.target else "left out"
            raise ValueError(f"the language to write must be {offered}, got {to!r}")
        return to or self.targets[0]


@dataclass(frozen=True, kw_only=True)
class Seq2SeqSettings(PairSettings):
    """Of a recurrent encoder-decoder (chapter 4).

    Example:
        >>> Seq2SeqSettings().score
        'additive'
    """

    model = "seq2seq"
    score: str = "additive"
    """One of `SCORES`, or "none" for one fixed context."""
    unidirectional: bool = False
    """Whether the encoder reads from the start alone; else half of it reads from the end."""


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(PairSettings, BlockSettings):
    """Of a Transformer (chapter 7).

    Example:
        >>> TransformerSettings().norm
        'pre'
    """

    model = "transformer"
    embed_dim: int = 48
    hidden_dim: int = 96
    layers: int = 2
    steps: int = 1600
    lr: float = 5e-3
    warmup: int = 100
    label_smoothing: float = 0.05


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings(BlockSettings):
    """Of a model that predicts the next character of a text (chapter 8).

    Example:
        >>> LanguageModelSettings(tokens=("a", "b")).vocabularies()[0].encode(["b", "a"])
        [5, 4]
    """

    model = "language-model"
    embed_dim: int = 128
    hidden_dim: int = 512
    layers: int = 4
    steps: int = 1000
    batch_size: int = 32
    schedule: str = "cosine"
    warmup: int = 100
    weight_decay: float = 0.1
    positions: Positions = "learned"
    activation: Activation = "gelu"
    context: int = 128
    """The most characters that are read at once."""
    texts: str = ""
    """A digest of the texts."""
    tokens: tuple[str, ...] = ()
    """The vocabulary: characters."""

    def vocabularies(self) -> tuple[Vocabulary]:
        """The vocabulary.

        Returns:
            The one there is.
        """
        return (Vocabulary(self.tokens),)


MODELS: dict[str, type[Settings]] = {
    kind.model: kind for kind in (Seq2SeqSettings, TransformerSettings, LanguageModelSettings)
}
"""The settings of each model, by its name."""
