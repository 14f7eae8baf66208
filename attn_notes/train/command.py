"""The command line: `python -m attn_notes.train MODEL …`, `… translate …` and `… sample …`."""

import argparse
import os
import sys
from dataclasses import fields
from functools import partial
from typing import Any, cast

import torch

from attn_notes.data import Batches
from attn_notes.train.evaluation import evaluate
from attn_notes.train.options import add_training, add_translate, check_together
from attn_notes.train.pairs import complete, load_pairs
from attn_notes.train.run import train
from attn_notes.train.settings import PairSettings, Seq2SeqSettings, TransformerSettings
from attn_notes.train.shared_options import OneLineParser, fill_in, the_device
from attn_notes.train.stopping import Unfinished, speak
from attn_notes.train.text_options import add_language_model, add_sample
from attn_notes.train.translating import translate
from attn_notes.train.translator import Translator
from attn_notes.train.writing import train_language_model, write
from attn_notes.training import bleu, translation_loss

__all__ = ["main"]

ABOUT = {
    "seq2seq": "a recurrent encoder-decoder",
    "transformer": "a Transformer",
    "language-model": "a language model",
}
EXAMPLES = """examples:
  German numbers into English, about a minute on one core
    python -m attn_notes.train seq2seq --out german
  the same with one fixed context, to see what attention is worth
    python -m attn_notes.train seq2seq --score none --out fixed
  dates, letter by letter
    python -m attn_notes.train seq2seq --data dates --source en --target iso --out dates
  sentences of your own, a line each: source, a tab, target
    python -m attn_notes.train seq2seq --pairs sentences.txt --min-count 2 --out mine
  a Transformer that reads digits and English and writes three languages
    python -m attn_notes.train transformer --source digits,en --target de,fr,es \\
        --digits 1-4 --count 10000 --balance 0.03 --out several
  what came of it
    python -m attn_notes.train translate german dreiundsiebzig siebenhundertdreiundachtzig
    python -m attn_notes.train translate several 1999 "seventy-three" --to fr
  a language model of Python's documentation, or of texts of your own, and what it writes
    python -m attn_notes.train language-model --out python
    python -m attn_notes.train language-model --text novel.txt --context 256 --out novel
    python -m attn_notes.train sample python "The " --length 300 --top-p 0.9
  the same on eight GPUs
    torchrun --standalone --nproc-per-node 8 -m attn_notes.train language-model --out python

The same command goes on where an interrupted training stopped."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: as on the command line, without the program's name; by default those.

    Returns:
        The exit code: 0, or 1 where something failed, or 130 where the reader stopped it, or 141
        where nobody reads on, as after `| head`.

    Raises:
        ModuleNotFoundError: a package that the data or the table need is not installed.
        SystemExit: with code 2 for a wrong option, with 0 after `--help`.

    Example:
        >>> main(["translate", "nowhere", "drei"])
        1
    """
    options = _parse(arguments)
    try:
        if options.threads:
            torch.set_num_threads(options.threads)
        code = options.run(options) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"\nstopped{options.when_stopped}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        if options.when_stopped:
            speak(f"nobody reads what is printed{options.when_stopped}")
        _give_up_stdout()
        return 141
    except (OSError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        speak(_words(error))
        _give_up_stdout()
        return error.code if isinstance(error, Unfinished) else 1
    return code


def _give_up_stdout() -> None:
    """What could not be written would be tried again, and lamented, when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options; texts may stand after them too, which argparse alone does not see."""
    parser = _parser()
    options, more = parser.parse_known_args(arguments)
    if more and (not hasattr(options, "text") or any(text.startswith("-") for text in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:
        options.text = [*options.text, *more]
    return options


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(**_about("COMMAND …", "Train models, translate and write with them."))
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    stopped = "; the same command goes on from the last checkpoint"
    for kind in (Seq2SeqSettings, TransformerSettings):
        name = kind.model
        about = _about(f"{name} --out FOLDER [options]", f"Train {ABOUT[name]}.")
        command = commands.add_parser(name, help=f"train {ABOUT[name]}", **about)
        add_training(command, kind)
        command.set_defaults(run=_train, kind=kind, error=command.error, when_stopped=stopped)
    about = _about("translate FOLDER [TEXT …]", "Translate with a trained model.")
    command = commands.add_parser("translate", help="translate with a trained one", **about)
    add_translate(command)
    command.set_defaults(run=translate, when_stopped="")
    _add_writing(commands, stopped)
    return parser


def _add_writing(commands: Any, stopped: str) -> None:
    """The commands of language models."""
    about = _about("language-model --out FOLDER [options]", f"Train {ABOUT['language-model']}.")
    command = commands.add_parser("language-model", help="train one that writes", **about)
    add_language_model(command)
    command.set_defaults(run=train_language_model, error=command.error, when_stopped=stopped)
    about = _about("sample FOLDER [PROMPT] [options]", "Have a trained language model write.")
    command = commands.add_parser("sample", help="have it write", **about)
    add_sample(command)
    command.set_defaults(run=write, when_stopped="")


def _about(usage: str, description: str) -> dict[str, Any]:
    return {
        "prog": "attn_notes.train",
        "description": description,
        "epilog": EXAMPLES,
        "formatter_class": argparse.RawDescriptionHelpFormatter,  # keeps the examples' lines
        "usage": f"python -m attn_notes.train {usage}",
    }


def _train(options: argparse.Namespace) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("a translator must be trained in one process, got several of torchrun")
    settings = _settings(options)
    device = the_device(options)
    bleu(["loads"], ["loads"])  # what it needs: if that is missing, let it be known at once
    sides = load_pairs(settings, options.pairs, encoding=options.encoding)
    settings = complete(settings, sides)
    sizes = f"{len(settings.source_tokens)} tokens to read, {len(settings.target_tokens)} to write"
    print(f"{len(sides[0])} pairs to train on, {len(sides[1])} held out; {sizes}; on {device}")
    sys.stdout.flush()
    vocabularies, size = settings.vocabularies(), settings.batch_size
    model = train(
        settings,
        Batches(sides[0], *vocabularies, batch_size=size, seed=settings.seed),
        partial(translation_loss, label_smoothing=settings.label_smoothing),
        options.out,
        device=device,
        checkpoint_every=options.checkpoint_every,
        snapshots=options.snapshots,
    )
    translator = Translator(settings, cast("Any", model))
    print(f"trained: {options.out}\n\non the pairs held out:\n{evaluate(translator, sides[1])}")


def _settings(options: argparse.Namespace) -> PairSettings:
    """The settings that the options ask for, each kind of data with its own defaults."""
    kind: type[PairSettings] = options.kind
    fill_in(options, kind)
    check_together(options)
    known = {field.name for field in fields(kind)}
    asked = {name: value for name, value in vars(options).items() if name in known}
    asked["data"] = "pairs" if options.pairs is not None else options.data or kind.data
    own: dict[str, Any] = {"source": "de", "target": "en", "count": 20_000}
    if asked["data"] == "pairs":
        own = {}
    elif asked["data"] == "dates":
        own["style"] = "long"
    else:
        own |= {"digits": (1, 12), "balance": kind.balance}
    for name in ("source", "target", "count", "digits", "balance", "style"):
        if asked[name] is None:
            asked[name] = own.get(name, getattr(kind, name))
        elif name not in own:
            options.error(f"--{name} does not go with {asked['data']}")
    return kind(**asked)


def _words(error: Exception) -> str:
    """What went wrong, without the number that an OSError puts before it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
