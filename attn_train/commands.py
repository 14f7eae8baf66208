"""The commands: `attn-notes train`, `translate` and `sample`."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from attn_notes.arguments import check_integers
from attn_notes.data import Vocabulary
from attn_notes.device import get_device
from attn_notes.extras import extra
from attn_notes.stored import WEIGHTS, load_language_model, load_translator
from attn_train import __doc__ as usage
from attn_train.running import log_error
from attn_train.train import TrainLanguageModel, TrainSeq2Seq, TrainTransformer

with extra("train"):
    import tyro
    from tyro.conf import OmitArgPrefixes, Positional, subcommand


@dataclass(frozen=True, kw_only=True)
class _Use:
    """What both uses of a trained model need."""

    folder: Positional[Path]  # Folder of a training
    weights: str = WEIGHTS  # Which weights of the folder
    device: str | None = None  # cpu, cuda or mps; a GPU if there is one by default


@dataclass(frozen=True, kw_only=True)
class Translate(_Use):
    """Translate texts with a trained model: one line of output for each."""

    text: Positional[tuple[str, ...]] = ()  # Texts; the lines of stdin by default
    to: str | None = None  # Language to write, of several; the first by default
    beam_size: int = 1  # Hypotheses to follow; 1 is greedy decoding

    def __call__(self) -> int:
        """Print a translation of each text; exit code 1 if one failed: stderr has its number."""
        check_integers(1, beam_size=self.beam_size)
        options: Any = {"weights": self.weights, "device": get_device(self.device)}
        translator = load_translator(self.folder, **options)
        translator.check_target(self.to)
        failed = 0
        for number, text in enumerate(self.text or sys.stdin, 1):
            said = ""  # also of a failed text: line n of the output belongs to line n of the input
            try:
                if text.strip():
                    _warn_of_unknown(translator.split(text), translator.source_vocab)
                    said = translator.translate(text, beam_size=self.beam_size, to=self.to)
            except (ValueError, RuntimeError) as error:
                log_error(f"line {number}: {error}")
                failed = 1
            print(said, flush=True)
        return failed


@dataclass(frozen=True, kw_only=True)
class Sample(_Use):
    """Let a trained language model continue a prompt."""

    prompt: Positional[str] = ""  # How the text begins
    length: int = 400  # Most characters to write
    temperature: float = 1.0  # Below 1 likely characters become likelier, above 1 unlikely ones
    top_k: int | None = None  # Draw from so many of the likeliest characters
    top_p: float | None = None  # Draw from the likeliest that reach this probability
    seed: int = 0  # Seed of the draw

    def __call__(self) -> None:
        """Print the prompt and what follows."""
        options: Any = {"weights": self.weights, "device": get_device(self.device)}
        writer = load_language_model(self.folder, **options)
        _warn_of_unknown(self.prompt, writer.vocab)
        how: Any = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        said = writer.sample(self.prompt, length=self.length, seed=self.seed, **how)
        print(self.prompt + said)


def _warn_of_unknown(tokens: Iterable[str], vocab: Vocabulary) -> None:
    """Name the tokens that a model does not know."""
    if unknown := [repr(token) for token in dict.fromkeys(tokens) if token not in vocab.tokens]:
        log_error(f"not known: {', '.join(unknown)}")


Train = (
    Annotated[TrainSeq2Seq, subcommand("seq2seq")]
    | Annotated[TrainTransformer, subcommand("transformer")]
    | Annotated[TrainLanguageModel, subcommand("language-model")]
)
Command = Annotated[Train, subcommand("train", description="Train a model.")] | Translate | Sample


def parse(words: list[str] | None = None) -> Any:
    """The command of these words, by default those of the command line, ready to be called."""
    flat = (OmitArgPrefixes,)
    return tyro.cli(
        Command, prog="attn-notes", description=usage.replace("::", ":"), args=words, config=flat
    )


def main(words: list[str] | None = None) -> int:
    """Run one command; exit code 0, 1 after a failure, 2 for what was asked, 130 for Ctrl-C."""
    try:
        return parse(words)() or 0
    except KeyboardInterrupt:
        log_error("stopped; the same train command goes on from the last checkpoint")
        return 130
    except OSError as error:
        said = error.strerror or str(error)  # without "[Errno 2]"
        log_error(f"{error.filename}: {said}" if error.filename else said)
        return 1
    except (ValueError, TypeError, ArithmeticError, RuntimeError, ImportError) as error:
        log_error(str(error))
        return 2 if isinstance(error, ValueError | TypeError) else 1
