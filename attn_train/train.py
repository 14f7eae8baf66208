"""The train commands: from data and options to a trained model and a table of held-out figures."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from attn_notes import data, training
from attn_notes.checks import share_seen
from attn_notes.data import Batches, Pair, Vocabulary
from attn_notes.decoding import translate
from attn_notes.ngrams import NGramModel
from attn_train.running import Job, Run, log_error, report
from attn_train.settings import (
    LanguageModelShape,
    Seq2SeqShape,
    Settings,
    Task,
    Training,
    TransformerShape,
)
from attn_train.sources import date_pairs, python_documentation, read_pairs, split_pairs

Pairs = tuple[list[Pair], list[Pair]]

TRANSLATING = Training(steps=1600, lr=5e-3, warmup=100, label_smoothing=0.05)
WRITING = Training(steps=1000, batch_size=32, schedule="cosine", warmup=100, weight_decay=0.1)
MEASURED = 1000, 100_000  # held-out pairs and characters of a measurement on the way
MOST_COUNTED = 2_000_000  # characters whose runs fit into memory


@dataclass(frozen=True, kw_only=True)
class _TrainTranslator(Run):
    """What both kinds of translator need."""

    data: Task = field(default_factory=Task)
    model: Any
    training: Training = field(default_factory=Training)
    pairs: Path | None = None  # File to learn from: lines of source, a tab, target

    def prepare(self) -> tuple[Settings, Pairs]:
        """What was asked for with what follows from the data, and both sides of the data."""
        asked = replace(self.data, data="pairs") if self.pairs else self.data
        sides = load_pairs(asked, self.training.seed, self.pairs, self.encoding)
        longest_source = max(len(source) for side in sides for source, _ in side)
        longest_target = max(len(target) for _, target in sides[0])
        found = {"data": asked, "max_length": max(2 * longest_target + 1, longest_source)}
        return _settings_of(self, sides, *zip(*sides[0], strict=True), **found), sides

    def __call__(self) -> None:
        """Train, and print a table of the held-out pairs."""
        settings, (pairs, held_out) = self.prepare()
        report(f"{len(pairs)} pairs to train on, {len(held_out)} held out")
        vocabs, size = settings.spec().vocabs(), self.training.batch_size
        batches = Batches(pairs, *vocabs, batch_size=size, seed=self.training.seed)
        some = Batches(held_out[: MEASURED[0]], *vocabs, batch_size=size)
        measure = partial(_bits_per_token, some)
        job = Job(self, settings, batches, training.translation_loss, measure, "bits per token")
        sources, references = zip(*held_out, strict=True)
        said = translate(job.train(), sources, *vocabs, max_length=settings.max_length)
        texts = ([" ".join(tokens) for tokens in side] for side in (said, references))
        found = training.exact_match(said, references), training.bleu(*texts)
        report("held out: exact match {:.3f}, BLEU {:.1f}".format(*found))


@dataclass(frozen=True, kw_only=True)
class TrainSeq2Seq(_TrainTranslator):
    """Train a recurrent encoder-decoder (chapter 4)."""

    model: Seq2SeqShape = field(default_factory=Seq2SeqShape)


@dataclass(frozen=True, kw_only=True)
class TrainTransformer(_TrainTranslator):
    """Train a Transformer that translates (chapter 7)."""

    model: TransformerShape = field(default_factory=TransformerShape)
    training: Training = TRANSLATING


@dataclass(frozen=True, kw_only=True)
class TrainLanguageModel(Run):
    """Train a model that predicts the next character of a text (chapter 9)."""

    text: tuple[Path, ...] = ()  # Files to learn from; Python's documentation by default
    model: LanguageModelShape = field(default_factory=LanguageModelShape)
    training: Training = WRITING

    def __call__(self) -> None:
        """Train, and print a table of the held-out texts."""
        texts = [data.read_text(path, encoding=self.encoding) for path in self.text]
        sides = train, held_out = data.split_text(texts or python_documentation())
        counted = _first_characters(train, MOST_COUNTED)
        share = share_seen(counted, _first_characters(held_out, MOST_COUNTED)) if self.text else 0
        if share:
            leak = "of the held-out characters stand in the training texts too"
            log_error(f"warning: {100 * share:.2g} % {leak}: the held-out figures measure memory")
        characters = sum(map(len, train)), sum(map(len, held_out))
        report("{:,} characters to train on, {:,} held out".format(*characters))
        settings = _settings_of(self, sides, map(list, train))
        (vocab,), length = settings.spec().vocabs(), self.model.max_length
        sizes = {"batch_size": self.training.batch_size, "seed": self.training.seed}
        windows = data.TextWindows(train, vocab, length=length, **sizes)
        per_character, loss = training.bits_per_character, training.language_model_loss
        measure = partial(per_character, vocab=vocab, length=length)
        some = partial(measure, texts=_first_characters(held_out, MEASURED[1]))
        job = Job(self, settings, windows, loss, some, "bits per character")
        found = {"this model": measure(job.train(), texts=held_out)}
        for order in (1, 3, 5):
            counts = NGramModel(order, counted, vocab)
            found[f"runs of {order}"] = counts.bits_per_character(held_out)
        for name, bits in found.items():
            report(f"held out, {name}: {bits:.3f} bits per character")


def load_pairs(
    asked: Task, seed: int, path: Path | None = None, encoding: str | None = None
) -> Pairs:
    """The pairs to train on and those held out."""
    drawn: dict[str, Any] = {"count": asked.count, "seed": seed}
    if asked.data == "numbers":
        languages = asked.source.split(","), asked.target.split(",")
        drawn["digits"], drawn["balance"] = asked.digits, asked.balance
        sides = data.number_pairs(*languages, **drawn)
    elif asked.data == "dates":
        sides = date_pairs(asked.source, asked.target, style=asked.style, **drawn)
    elif path is None:
        raise ValueError("--data pairs needs a file: name it with --pairs")
    else:
        sides = split_pairs(read_pairs(path, encoding=encoding))
    if not all(sides):
        sizes = "got {} and {}: use more".format(*map(len, sides))
        raise ValueError(f"there must be pairs to train on and pairs to hold out, {sizes}")
    return sides


def digest(sides: Any) -> str:
    """What tells these pairs or texts from others."""
    return hashlib.sha256(json.dumps(sides).encode()).hexdigest()


def _settings_of(
    asked: Any, sides: Any, *sequences: Iterable[Sequence[str]], **found: Any
) -> Settings:
    """What was asked for with what follows from the data, such as a vocabulary of each sequence."""
    rare = asked.training.min_count
    found["vocabularies"] = tuple(Vocabulary.build(s, min_count=rare).tokens for s in sequences)
    return Settings(model=asked.model, training=asked.training, digest=digest(sides), **found)


def _first_characters(texts: Sequence[str], most: int) -> list[str]:
    """The beginning of some texts, of at most so many characters together."""
    starts = accumulate(map(len, texts), initial=0)
    return [text[: most - at] for text, at in zip(texts, starts, strict=False) if at < most]


def _bits_per_token(held_out: Batches, model: Any) -> float:
    """The mean loss of the tokens in these batches, END included."""
    device = next(model.parameters()).device
    batches = (held_out(n).to(device) for n in range(len(held_out)))
    losses = [training.translation_loss(model, batch) for batch in batches]
    nats = sum(loss * count for loss, count in losses)
    return float(nats / sum(count for _, count in losses)) / math.log(2)
