"""The options of the commands that learn from pairs, and translate."""

import argparse
from pathlib import Path
from typing import Any

from attn_notes.data import DATE_LOCALES, DATE_STYLES, NUMBER_LANGUAGES
from attn_notes.train.models import SCORES
from attn_notes.train.settings import DATA, PairSettings, Seq2SeqSettings, TransformerSettings
from attn_notes.train.shared_options import (
    add_blocks,
    add_choice,
    add_machine,
    add_option,
    add_place,
    add_steps,
    check_shared,
)
from attn_notes.train.values import digits, number, whole

__all__ = ["add_training", "add_translate", "check_together"]


def add_training(parser: argparse.ArgumentParser, kind: type[PairSettings]) -> None:
    """The options of a command that trains.

    Args:
        parser: to add them to.
        kind: the settings of the model, which have its defaults.

    Example:
        >>> from attn_notes.train.shared_options import OneLineParser
        >>> parser = OneLineParser()
        >>> add_training(parser, TransformerSettings)
        >>> options = parser.parse_args(["--out", "several", "--digits", "1-6"])
        >>> options.digits, options.heads
        ((1, 6), 4)
    """
    _add_data(parser.add_argument_group("what it learns from"), kind)
    group = parser.add_argument_group("the model")
    if issubclass(kind, TransformerSettings):
        add_blocks(group, kind)
    else:
        _add_seq2seq(group, Seq2SeqSettings)
    add_steps(parser.add_argument_group("how it is trained"), kind, "pairs")
    group = parser.add_argument_group("where")
    add_place(group)
    add_machine(group)


def add_translate(parser: argparse.ArgumentParser) -> None:
    """The options of `translate`.

    Args:
        parser: to add them to.

    Example:
        >>> from attn_notes.train.shared_options import OneLineParser
        >>> parser = OneLineParser()
        >>> add_translate(parser)
        >>> parser.parse_args(["german", "drei", "zwei Millionen"]).text
        ['drei', 'zwei Millionen']
    """
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what a training left behind")
    parser.add_argument(
        "text",
        nargs="*",
        default=(),
        metavar="TEXT",
        help="texts; without one, the lines of stdin. One that cannot be translated is named on "
        "stderr, an empty line stands in its place, and the exit code is 1",
    )
    parser.add_argument("--to", metavar="LANGUAGE", help="of several; default: the first")
    add_option(parser, "--beam-size", whole(1), "hypotheses to follow; 1 is greedy", 1)
    add_option(parser, "--weights", str, "which weights of the folder", "weights.safetensors")
    add_machine(parser)


def check_together(options: argparse.Namespace) -> None:
    """Stop with one line where an option of a training does not go with another.

    Args:
        options: as parsed, `warmup` filled in, and with `error`, which says it.

    Example:
        >>> from attn_notes.train.shared_options import OneLineParser
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
    check_shared(o)
    if hasattr(o, "heads"):
        return
    if o.hidden_dim % 2 and not o.unidirectional:
        o.error(f"--hidden-dim must be even for two directions, got {o.hidden_dim}")
    if o.dropout and o.layers == 1:
        o.error("--dropout is between layers: it needs --layers 2 or more, got 1")


def _add_data(group: Any, kind: type[PairSettings]) -> None:
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
    add_option(
        group, "--min-count", whole(1), "tokens that occur less often are unknown", kind.min_count
    )


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
    add_choice(group, "--score", scores, "of the attention; none is one fixed context", kind.score)
    add_option(group, "--embed-dim", whole(1), "width of the embeddings", kind.embed_dim)
    add_option(
        group, "--hidden-dim", whole(1), "width of the states; each direction has half",
        kind.hidden_dim,
    )  # fmt: skip
    add_option(group, "--layers", whole(1), "GRUs on one another", kind.layers)
    group.add_argument(
        "--unidirectional", action="store_true", help="the encoder reads from the start alone"
    )
    add_option(
        group, "--dropout", number(0.0, 0.99), "between layers, while training", kind.dropout
    )
