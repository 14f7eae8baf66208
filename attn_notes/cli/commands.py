"""The commands: `attn-notes train`, `translate` and `sample`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from attn_notes.cli import __doc__ as usage
from attn_notes.cli.data import Pairs, digest_and_vocabularies, load_pairs, load_texts, longest_of
from attn_notes.cli.evaluation import (
    bits_per_token,
    first_characters,
    leak,
    score_pairs,
    score_texts,
)
from attn_notes.cli.folders import WEIGHTS, load_language_model, load_translator
from attn_notes.cli.models import LanguageModel, Translator
from attn_notes.cli.running import Job, Run, report
from attn_notes.cli.settings import (
    Checked,
    Count,
    LanguageModelShape,
    Limit,
    PairData,
    Seq2SeqShape,
    Settings,
    Training,
    TransformerShape,
)
from attn_notes.data import Batches, TextWindows
from attn_notes.device import get_device
from attn_notes.training import bits_per_character, language_model_loss, translation_loss

__all__ = [
    "Sample",
    "TrainLanguageModel",
    "TrainSeq2Seq",
    "TrainTransformer",
    "TrainTranslator",
    "Translate",
    "Use",
    "log_error",
    "main",
    "parse",
    "warn_of",
]

TRANSLATING = Training(steps=1600, lr=5e-3, warmup=100, label_smoothing=0.05)
WRITING = Training(steps=1000, batch_size=32, schedule="cosine", warmup=100, weight_decay=0.1)
MEASURED = 1000, 100_000  # held-out pairs and characters of a measurement on the way


@dataclass(frozen=True, kw_only=True)
class TrainTranslator:
    """What both kinds of translator need."""

    run: Run
    data: PairData = field(default_factory=PairData)
    model: Any
    training: Training
    pairs: Path | None = None
    """File to learn from instead: lines of source, a tab, target; tokens between spaces."""
    encoding: str | None = None
    """Encoding of --pairs; by default UTF-8, or what a byte order mark says."""

    def sides(self) -> Pairs:
        """The pairs to train on and those held out."""
        seed = self.training.seed
        return load_pairs(self.data, seed=seed, path=self.pairs, encoding=self.encoding)

    def settings(self, sides: Pairs) -> Settings:
        """What was asked for, with what follows from the data."""
        data = self.data
        if self.pairs is not None:
            data = replace(data, data="pairs", source="", target="")
        found = digest_and_vocabularies(
            sides, *zip(*sides[0], strict=True), min_count=self.training.min_count
        )
        asked = {"data": data, "model": self.model, "training": self.training}
        return Settings(max_length=longest_of(sides), **asked, **found)

    def __call__(self) -> None:
        """Train, and print a table of the held-out pairs."""
        sides = self.sides()
        settings, size = self.settings(sides), self.training.batch_size
        report(f"{len(sides[0])} pairs to train on, {len(sides[1])} held out")
        vocabs = settings.vocabs()
        few: dict[str, Any] = {"pairs": sides[1][: MEASURED[0]], "vocabs": vocabs}
        model = Job(
            settings=settings,
            run=self.run,
            batches=Batches(sides[0], *vocabs, batch_size=size, seed=self.training.seed),
            loss=translation_loss,
            held_out=partial(bits_per_token, batch_size=size, **few),
            unit="bits per token",
        ).train()
        report(score_pairs(Translator(settings, model), sides[1]))


@dataclass(frozen=True, kw_only=True)
class TrainSeq2Seq(TrainTranslator):
    """Train a recurrent encoder-decoder (chapter 4)."""

    model: Seq2SeqShape = field(default_factory=Seq2SeqShape)
    training: Training = field(default_factory=Training)


@dataclass(frozen=True, kw_only=True)
class TrainTransformer(TrainTranslator):
    """Train a Transformer that translates (chapter 7)."""

    model: TransformerShape = field(default_factory=TransformerShape)
    training: Training = TRANSLATING


@dataclass(frozen=True, kw_only=True)
class TrainLanguageModel:
    """Train a model that predicts the next character of a text (chapter 8)."""

    run: Run
    text: tuple[Path, ...] = ()
    """Files to learn from, one text each; Python's documentation by default."""
    encoding: str | None = None
    """Encoding of --text; by default UTF-8, or what a byte order mark says."""
    model: LanguageModelShape = field(default_factory=LanguageModelShape)
    training: Training = WRITING

    def settings(self, sides: tuple[list[str], list[str]]) -> Settings:
        """What was asked for, with what follows from the texts."""
        characters = [list(text) for text in sides[0]]
        found = digest_and_vocabularies(sides, characters, min_count=self.training.min_count)
        return Settings(model=self.model, training=self.training, **found)

    def __call__(self) -> None:
        """Train, and print a table of the held-out texts."""
        sides = load_texts(self.text, encoding=self.encoding)
        if self.text and (found := leak(*sides)):
            log_error(f"warning: {found}: the held-out figures measure memory too")
        settings = self.settings(sides)
        sizes = [sum(map(len, side)) for side in sides]
        report(f"{sizes[0]:,} characters to train on, {sizes[1]:,} held out")
        ((vocab,), length) = settings.vocabs(), self.model.max_length
        size, seed = self.training.batch_size, self.training.seed
        few: dict[str, Any] = {
            "texts": first_characters(sides[1], MEASURED[1]),
            "vocab": vocab,
            "length": length,
        }
        model = Job(
            settings=settings,
            run=self.run,
            batches=TextWindows(sides[0], vocab, length=length, batch_size=size, seed=seed),
            loss=language_model_loss,
            held_out=partial(bits_per_character, **few),
            unit="bits per character",
        ).train()
        report(score_texts(LanguageModel(settings, model), *sides))


@dataclass(frozen=True, kw_only=True)
class Use(Checked):
    """What both uses of a trained model need."""

    folder: Positional[Path]
    """Folder of a training."""
    weights: str = WEIGHTS
    """Which weights of the folder."""
    device: str | None = None
    """cpu, cuda or mps; a GPU if there is one by default."""

    def load(self, loader: Callable[..., Any]) -> Any:
        """The model in the folder."""
        return loader(self.folder, weights=self.weights, device=get_device(self.device))


@dataclass(frozen=True, kw_only=True)
class Translate(Use):
    """Translate texts with a trained model: one line of output for each."""

    text: Positional[tuple[str, ...]] = ()
    """Texts; the lines of stdin by default."""
    to: str | None = None
    """Language to write, of several; the first by default."""
    beam_size: Count = 1
    """Hypotheses to follow; 1 is greedy decoding."""

    def __call__(self) -> int:
        """Print a translation of each text; 1 if one of them failed."""
        translator, code = self.load(load_translator), 0
        for number, line in enumerate(self.text or sys.stdin.buffer, 1):
            said = ""
            try:
                text = line if isinstance(line, str) else line.decode("utf-8-sig")
                if text.strip():
                    warn_of(translator.unknown(text))
                    said = translator.translate(text, beam_size=self.beam_size, to=self.to)
            except (ValueError, RuntimeError) as error:  # torch's own, where memory ends
                log_error(f"text {number}: {error}")
                code = 1
            print(said, flush=True)
        return code


@dataclass(frozen=True, kw_only=True)
class Sample(Use):
    """Let a trained language model continue a prompt."""

    prompt: Positional[str] = ""
    """How the text begins."""
    length: Count = 400
    """Most characters to write."""
    temperature: Annotated[float, Limit(1e-6, 1e6)] = 1.0
    """Below 1 likely characters become likelier, above 1 unlikely ones."""
    top_k: Annotated[int | None, Limit(1)] = None
    """Draw from so many of the likeliest characters."""
    top_p: Annotated[float | None, Limit(1e-9, 1)] = None
    """Draw from the likeliest characters that together reach this probability."""
    seed: int = 0
    """Seed of the draw."""

    def __call__(self) -> None:
        """Print the prompt and what follows."""
        writer = self.load(load_language_model)
        warn_of(writer.unknown(self.prompt))
        how = {name: getattr(self, name) for name in ("length", "seed", "temperature")}
        cuts = {"top_k": self.top_k, "top_p": self.top_p}
        print(self.prompt + writer.sample(self.prompt, **how, **cuts))


COMMANDS: dict[str, Callable[..., Any]] = {
    "train seq2seq": TrainSeq2Seq,
    "train transformer": TrainTransformer,
    "train language-model": TrainLanguageModel,
    "translate": Translate,
    "sample": Sample,
}


def parse(words: list[str]) -> Any:
    """The command of these words, ready to be called; None for no command."""
    for name, command in COMMANDS.items():
        count = len(name.split())
        if words[:count] == name.split():
            prog, config = f"attn-notes {name}", (OmitArgPrefixes,)
            return tyro.cli(command, prog=prog, args=words[count:], config=config)
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 after a failure, or 130 after Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    if (command := parse(words)) is None:
        wants_help = not {*words}.isdisjoint({"-h", "--help"})
        print(usage, file=sys.stdout if wants_help else sys.stderr)
        return 0 if wants_help else 2
    try:
        return command() or 0
    except KeyboardInterrupt:
        log_error("stopped; the same train command goes on from the last checkpoint")
        return 130
    except (OSError, ValueError, ArithmeticError, RuntimeError, ImportError) as error:
        log_error(str(error))
        return 1


def log_error(message: str) -> None:
    """Print a line on stderr."""
    print(f"attn-notes: {' '.join(message.split())}", file=sys.stderr, flush=True)


def warn_of(unknown: list[str]) -> None:
    """Name the tokens that a model does not know."""
    if unknown:
        log_error(f"not known: {', '.join(map(repr, unknown))}")
