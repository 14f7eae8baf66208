"""The options of the command line, and the values they take."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from attn_notes.data import DATE_LOCALES, DATE_STYLES, NUMBER_LANGUAGES
from attn_notes.train.settings import DATA, SCORES, Settings

__all__ = ["OneLineParser", "add_seq2seq", "add_translate", "check_together"]

MOST = 10**9  # of whole numbers: more would overflow somewhere


class OneLineParser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Say it and stop with code 2.

        Args:
            message: what is wrong.

        Returns:
            Never.

        Raises:
            SystemExit: always.
        """
        self.exit(2, f"{self.prog}: {message} (--help says more)\n")


def add_seq2seq(parser: argparse.ArgumentParser) -> None:
    """The options of `seq2seq`.

    Args:
        parser: to add them to.

    Example:
        >>> parser = OneLineParser()
        >>> add_seq2seq(parser)
        >>> parser.parse_args(["--out", "german", "--digits", "1-6"]).digits
        (1, 6)
    """
    _add_data(parser.add_argument_group("what it learns from"))
    _add_model(parser.add_argument_group("the model"))
    _add_training(parser.add_argument_group("how it is trained"))
    group = parser.add_argument_group("where")
    group.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="what it leaves behind goes here"
    )
    _add(group, "--checkpoint-every", _whole(1), "steps between two checkpoints", default=200)
    _add(
        group,
        "--snapshots",
        _steps,
        "keep the weights of these steps too, in weights-STEP.safetensors",
        default=(),
        metavar="0,300",
    )
    _add_machine(group)


def add_translate(parser: argparse.ArgumentParser) -> None:
    """The options of `translate`.

    Args:
        parser: to add them to.

    Example:
        >>> parser = OneLineParser()
        >>> add_translate(parser)
        >>> parser.parse_args(["german", "drei", "zwei Millionen"]).text
        ['drei', 'zwei Millionen']
    """
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what seq2seq left behind")
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="texts; without one, the lines of stdin"
    )
    _add(parser, "--beam-size", _whole(1), "hypotheses to follow; 1 is greedy", default=1)
    _add(parser, "--weights", str, "which weights of the folder", default="weights.safetensors")
    _add_machine(parser)


def check_together(options: argparse.Namespace) -> None:
    """Stop with one line where an option of `seq2seq` does not go with another.

    Args:
        options: as parsed, `warmup` filled in, and with `error`, which says it.

    Example:
        >>> parser = OneLineParser(prog="seq2seq")
        >>> add_seq2seq(parser)
        >>> options = parser.parse_args(["--out", "german", "--dropout", "0.5", "--warmup", "9"])
        >>> check_together(argparse.Namespace(error=print, **vars(options)))
        --dropout is between layers: it needs --layers 2 or more, got 1
    """
    o = options
    if o.pairs is not None and o.data is not None:
        o.error(f"--data {o.data} does not go with --pairs: they are the data")
    if o.pairs is None and o.encoding is not None:
        o.error("--encoding is of --pairs, and does not go without")
    if o.hidden_dim % 2 and not o.unidirectional:
        o.error(f"--hidden-dim must be even for two directions, got {o.hidden_dim}")
    if o.dropout and o.layers == 1:
        o.error("--dropout is between layers: it needs --layers 2 or more, got 1")
    if o.warmup >= o.steps:
        o.error(f"--warmup must be below --steps, got {o.warmup} and {o.steps}")
    if any(step > o.steps for step in o.snapshots):
        o.error(f"--snapshots must be from 0 to --steps, got {o.snapshots}")


def _add_data(group: Any) -> None:
    group.add_argument("--data", choices=DATA[:2], help=f"default: {Settings.data}")
    group.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="instead of --data: lines of source, a tab, target; tokens between spaces",
    )
    group.add_argument("--encoding", help="of --pairs; default: utf-8, or what its mark says")
    numbers, dates = " ".join(NUMBER_LANGUAGES), " ".join(DATE_LOCALES)
    languages = f"numbers in {numbers}; dates in {dates}"
    group.add_argument(
        "--source", metavar="LANGUAGE", help=f"what is read; default: de; {languages}"
    )
    group.add_argument("--target", metavar="LANGUAGE", help="what is written; default: en")
    group.add_argument("--digits", type=_range, metavar="1-12", help="of numbers, fewest and most")
    group.add_argument("--style", choices=DATE_STYLES, help="of dates; default: long")
    group.add_argument(
        "--count", type=_whole(1), metavar="N", help="numbers or dates to draw; default: 20000"
    )
    _add(group, "--min-count", _whole(1), "tokens that occur less often are unknown")


def _add_model(group: Any) -> None:
    group.add_argument(
        "--score",
        choices=(*SCORES, "none"),
        default=Settings.score,
        help="of the attention; none is one fixed context; default: %(default)s",
    )
    _add(group, "--embed-dim", _whole(1), "width of the embeddings")
    _add(group, "--hidden-dim", _whole(1), "width of the states; each direction has half")
    _add(group, "--layers", _whole(1), "GRUs on one another")
    group.add_argument(
        "--unidirectional", action="store_true", help="the encoder reads from the start alone"
    )
    _add(group, "--dropout", _number(0.0, 0.99), "between layers, while training")


def _add_training(group: Any) -> None:
    _add(group, "--steps", _whole(1), "updates of the weights")
    _add(group, "--batch-size", _whole(1), "pairs in a step")
    _add(group, "--lr", _number(1e-12, 1e3), "the highest learning rate")
    _add(
        group,
        "--warmup",
        _whole(0),
        f"steps up to it, then it falls to 0 at the last; default: {Settings.warmup}, or half of "
        "--steps where that is less",
        default=None,
    )
    _add(group, "--seed", _whole(0), "of everything random")


def _add_machine(group: Any) -> None:
    group.add_argument("--device", help="cpu, cuda or mps; default: a GPU if there is one")
    group.add_argument("--threads", type=_whole(1), metavar="N", help="of the CPU")


def _add(group: Any, option: str, kind: Callable[[str], Any], text: str, **more: Any) -> None:
    """One option; its default is that of `Settings`, unless it is given."""
    name = option[2:].replace("-", "_")
    if "default" not in more:
        more["default"] = getattr(Settings, name)
    shown = "; default: %(default)s" if more["default"] not in ((), None) else ""
    group.add_argument(option, type=kind, help=text + shown, **{"metavar": "N"} | more)


# The values


def _whole(lowest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # Nothing that int() lets pass beside digits, such as 1_0; and no more than it can read.
        number = int(text[:20]) if text.isdecimal() else -1
        if not lowest <= number <= MOST:
            bounds = f"at most {MOST:,}" if number > MOST else f"a whole number, {lowest} or more"
            raise argparse.ArgumentTypeError(f"must be {bounds}, got {text!r}")
        return number

    return parse


def _number(lowest: float, highest: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(
                f"must be a number from {lowest:g} to {highest:g}, got {text!r}"
            )
        return number

    return parse


def _range(text: str) -> tuple[int, int]:
    fewest, _, most = text.partition("-")
    try:
        found = _whole(1)(fewest), _whole(1)(most or fewest)
    except argparse.ArgumentTypeError:
        found = (1, 0)
    if not found[0] <= found[1] <= 12:
        raise argparse.ArgumentTypeError(f"must be like 1-12, from 1 to 12, got {text!r}")
    return found


def _steps(text: str) -> tuple[int, ...]:
    return tuple(_whole(0)(step) for step in text.split(","))
