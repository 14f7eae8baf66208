"""The options of the command line."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, get_args

from attn_notes.data import DATE_LOCALES, DATE_STYLES, NUMBER_LANGUAGES
from attn_notes.train.models import SCORES
from attn_notes.train.settings import (
    DATA,
    SCHEDULES,
    Seq2SeqSettings,
    Settings,
    TransformerSettings,
)
from attn_notes.train.values import digits, number, steps, whole
from attn_notes.transformer.config import Activation, Norm, Positions

__all__ = ["OneLineParser", "add_training", "add_translate", "check_together"]


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


def add_training(parser: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """The options of a command that trains.

    Args:
        parser: to add them to.
        kind: the settings of the model, which have its defaults.

    Example:
        >>> parser = OneLineParser()
        >>> add_training(parser, TransformerSettings)
        >>> options = parser.parse_args(["--out", "several", "--digits", "1-6"])
        >>> options.digits, options.heads
        ((1, 6), 4)
    """
    _add_data(parser.add_argument_group("what it learns from"), kind)
    group = parser.add_argument_group("the model")
    if issubclass(kind, TransformerSettings):
        _add_transformer(group, kind)
    else:
        _add_seq2seq(group, Seq2SeqSettings)
    _add_steps(parser.add_argument_group("how it is trained"), kind)
    group = parser.add_argument_group("where")
    group.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="what it leaves behind goes here"
    )
    _add(group, "--checkpoint-every", whole(1), "steps between two checkpoints", 200)
    group.add_argument(
        "--snapshots",
        type=steps,
        default=(),
        metavar="0,300",
        help="keep the weights of these steps too, in weights-STEP.safetensors",
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
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what a training left behind")
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="texts; without one, the lines of stdin"
    )
    parser.add_argument("--to", metavar="LANGUAGE", help="of several; default: the first")
    _add(parser, "--beam-size", whole(1), "hypotheses to follow; 1 is greedy", 1)
    _add(parser, "--weights", str, "which weights of the folder", "weights.safetensors")
    _add_machine(parser)


def check_together(options: argparse.Namespace) -> None:
    """Stop with one line where an option of a training does not go with another.

    Args:
        options: as parsed, `warmup` filled in, and with `error`, which says it.

    Example:
        >>> parser = OneLineParser(prog="seq2seq")
        >>> add_training(parser, Seq2SeqSettings)
        >>> options = parser.parse_args(["--out", "german", "--dropout", "0.5", "--warmup", "9"])
        >>> check_together(argparse.Namespace(error=print, **vars(options)))
        --dropout is between layers: it needs --layers 2 or more, got 1
    """
    o = options
    if o.pairs is not None and o.data is not None:
        o.error(f"--data {o.data} does not go with --pairs: they are the data")
    if o.pairs is None and o.encoding is not None:
        o.error("--encoding is of --pairs, and does not go without")
    if o.warmup >= o.steps:
        o.error(f"--warmup must be below --steps, got {o.warmup} and {o.steps}")
    if o.schedule == "noam" and not o.warmup:
        o.error("--schedule noam needs a --warmup of 1 or more, got 0")
    if any(step > o.steps for step in o.snapshots):
        o.error(f"--snapshots must be from 0 to --steps, got {o.snapshots}")
    if hasattr(o, "heads"):
        _check_heads(o)
    elif o.hidden_dim % 2 and not o.unidirectional:
        o.error(f"--hidden-dim must be even for two directions, got {o.hidden_dim}")
    elif o.dropout and o.layers == 1:
        o.error("--dropout is between layers: it needs --layers 2 or more, got 1")


def _check_heads(o: argparse.Namespace) -> None:
    if o.embed_dim % o.heads:
        o.error(f"--heads must divide --embed-dim, got {o.heads} and {o.embed_dim}")
    if o.positions == "sinusoidal" and o.embed_dim % 2:
        o.error(f"--embed-dim must be even for --positions sinusoidal, got {o.embed_dim}")
    if o.positions == "rotary" and o.embed_dim // o.heads % 2:
        o.error(
            "--embed-dim over --heads must be even for --positions rotary, got "
            f"{o.embed_dim} and {o.heads}"
        )


def _add_data(group: Any, kind: type[Settings]) -> None:
    group.add_argument("--data", choices=DATA[:2], help=f"default: {kind.data}")
    group.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="instead of --data: lines of source, a tab, target; tokens between spaces",
    )
    group.add_argument("--encoding", help="of --pairs; default: utf-8, or what its mark says")
    numbers, dates = " ".join(NUMBER_LANGUAGES), " ".join(DATE_LOCALES)
    group.add_argument(
        "--source",
        metavar="LANGUAGE",
        help=f"what is read; default: de; numbers in {numbers}; dates in {dates}; of numbers "
        "several, digits,en",
    )
    group.add_argument(
        "--target", metavar="LANGUAGE", help="what is written; default: en; several as for --source"
    )
    _add_drawn(group)
    _add(group, "--min-count", whole(1), "tokens that occur less often are unknown", kind.min_count)


def _add_drawn(group: Any) -> None:
    group.add_argument("--digits", type=digits, metavar="1-12", help="of numbers, fewest and most")
    group.add_argument(
        "--balance",
        type=number(0.0, 1.0),
        metavar="N",
        help="of numbers: short ones and round ones are repeated until each kind is this share of "
        "the numbers drawn to train on; default: 0",
    )
    group.add_argument("--style", choices=DATE_STYLES, help="of dates; default: long")
    group.add_argument(
        "--count", type=whole(1), metavar="N", help="numbers or dates to draw; default: 20000"
    )


def _add_seq2seq(group: Any, kind: type[Seq2SeqSettings]) -> None:
    scores = (*SCORES, "none")
    _choose(group, "--score", scores, "of the attention; none is one fixed context", kind.score)
    _add(group, "--embed-dim", whole(1), "width of the embeddings", kind.embed_dim)
    _add(
        group, "--hidden-dim", whole(1), "width of the states; each direction has half",
        kind.hidden_dim,
    )  # fmt: skip
    _add(group, "--layers", whole(1), "GRUs on one another", kind.layers)
    group.add_argument(
        "--unidirectional", action="store_true", help="the encoder reads from the start alone"
    )
    _add(group, "--dropout", number(0.0, 0.99), "between layers, while training", kind.dropout)


def _add_transformer(group: Any, kind: type[TransformerSettings]) -> None:
    _add(group, "--embed-dim", whole(1), "width of the residual stream", kind.embed_dim)
    _add(group, "--hidden-dim", whole(1), "inside the feed-forward networks", kind.hidden_dim)
    _add(group, "--layers", whole(1), "of the encoder, and of the decoder", kind.layers)
    _add(group, "--heads", whole(1), "of every attention", kind.heads)
    _choose(group, "--norm", get_args(Norm), "before a sublayer, or after it", kind.norm)
    _choose(group, "--positions", get_args(Positions), "how order gets in", kind.positions)
    _choose(group, "--activation", get_args(Activation), "inside the networks", kind.activation)
    group.add_argument(
        "--tie",
        action=argparse.BooleanOptionalAction,
        default=kind.tie,
        help="the target's embedding is the map to the logits too; default: --tie",
    )
    _add(group, "--dropout", number(0.0, 0.99), "while training", kind.dropout)


def _add_steps(group: Any, kind: type[Settings]) -> None:
    _add(group, "--steps", whole(1), "updates of the weights", kind.steps)
    _add(group, "--batch-size", whole(1), "pairs in a step", kind.batch_size)
    group.add_argument(
        "--lr",
        type=number(1e-12, 1e3),
        metavar="N",
        help=f"the highest learning rate; default: {kind.lr:g}; with noam, whose rates are its "
        "own, a factor of them; default: 1",
    )
    _choose(group, "--schedule", SCHEDULES, "of the learning rate after the warm-up", kind.schedule)
    group.add_argument(
        "--warmup",
        type=whole(0),
        metavar="N",
        help=f"steps up to the highest rate; default: {kind.warmup}, or half of --steps where that "
        "is less",
    )
    _add(group, "--weight-decay", number(0.0, 10.0), "of AdamW", kind.weight_decay)
    text = "the share of each label that goes to all tokens alike"
    _add(group, "--label-smoothing", number(0.0, 1.0), text, kind.label_smoothing)
    _add(group, "--seed", whole(0), "of everything random", kind.seed)


def _add_machine(group: Any) -> None:
    group.add_argument("--device", help="cpu, cuda or mps; default: a GPU if there is one")
    # Torch starts as many as it is told to, and dies of too many without a word.
    group.add_argument("--threads", type=whole(1, 1024), metavar="N", help="of the CPU")


def _add(group: Any, option: str, kind: Callable[[str], Any], text: str, default: Any) -> None:
    text = f"{text}; default: %(default)s"
    group.add_argument(option, type=kind, default=default, metavar="N", help=text)


def _choose(group: Any, option: str, choices: tuple[str, ...], text: str, default: str) -> None:
    text = f"{text}; default: %(default)s"
    group.add_argument(option, choices=choices, default=default, help=text)
