"""The options that all trainings on the command line have in common."""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, get_args

import torch

from attn_notes.device import get_device
from attn_notes.train.settings import SCHEDULES, BlockSettings, Settings
from attn_notes.train.values import number, steps, whole
from attn_notes.transformer.config import Activation, Norm, Positions

__all__ = [
    "OneLineParser",
    "add_blocks",
    "add_choice",
    "add_machine",
    "add_option",
    "add_place",
    "add_steps",
    "check_shared",
    "fill_in",
    "the_device",
]


HUSH = 1.0  # seconds that a process which leaves the word to the first one lives on


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
        if os.environ.get("RANK", "0") != "0":  # torchrun gives all its processes the same options
            time.sleep(HUSH)  # and as soon as one has ended, it ends the others
            self.exit(2)
        self.exit(2, f"{self.prog}: {message} (--help says more)\n")


def add_blocks(group: Any, kind: type[BlockSettings]) -> None:
    """The options of a model that is made of a Transformer's blocks.

    Args:
        group: of a parser.
        kind: the settings of the model, which have the defaults.

    Example:
        >>> parser = OneLineParser()
        >>> add_blocks(parser, BlockSettings)
        >>> parser.parse_args([]).heads
        4
    """
    add_option(group, "--embed-dim", whole(1), "width of the residual stream", kind.embed_dim)
    add_option(group, "--hidden-dim", whole(1), "inside the feed-forward networks", kind.hidden_dim)
    add_option(
        group,
        "--layers",
        whole(1),
        "blocks on one another; an encoder-decoder has two such stacks",
        kind.layers,
    )
    add_option(group, "--heads", whole(1), "of every attention", kind.heads)
    add_choice(group, "--norm", get_args(Norm), "before a sublayer, or after it", kind.norm)
    add_choice(group, "--positions", get_args(Positions), "how order gets in", kind.positions)
    add_choice(group, "--activation", get_args(Activation), "inside the networks", kind.activation)
    group.add_argument(
        "--tie",
        action=argparse.BooleanOptionalAction,
        default=kind.tie,
        help="the embedding of what is written is the map to the logits too; default: --tie",
    )
    add_option(group, "--dropout", number(0.0, 0.99), "while training", kind.dropout)


def add_steps(group: Any, kind: type[Settings], items: str) -> None:
    """The options of how a model is trained.

    Args:
        group: of a parser.
        kind: the settings of the model, which have the defaults.
        items: what a batch is made of, for the help.

    Example:
        >>> parser = OneLineParser()
        >>> add_steps(parser, Settings, "pairs")
        >>> parser.parse_args(["--steps", "9"]).steps
        9
    """
    add_option(group, "--steps", whole(1), "updates of the weights", kind.steps)
    add_option(group, "--batch-size", whole(1), f"{items} in a step", kind.batch_size)
    group.add_argument(
        "--lr",
        type=number(1e-12, 1e3),
        metavar="N",
        help=f"the highest learning rate; default: {kind.lr:g}; with noam, whose rates are its "
        "own, a factor of them; default: 1",
    )
    add_choice(
        group, "--schedule", SCHEDULES, "of the learning rate after the warm-up", kind.schedule
    )
    group.add_argument(
        "--warmup",
        type=whole(0),
        metavar="N",
        help=f"steps up to the highest rate; default: {kind.warmup}, or half of --steps where that "
        "is less",
    )
    add_option(group, "--weight-decay", number(0.0, 10.0), "of AdamW", kind.weight_decay)
    text = "the share of each label that goes to all tokens alike"
    add_option(group, "--label-smoothing", number(0.0, 1.0), text, kind.label_smoothing)
    add_option(group, "--seed", whole(0), "of everything random", kind.seed)


def add_place(group: Any) -> None:
    """The options of where a training leaves what.

    Args:
        group: of a parser.

    Example:
        >>> parser = OneLineParser()
        >>> add_place(parser)
        >>> parser.parse_args(["--out", "german", "--snapshots", "0,300"]).snapshots
        (0, 300)
    """
    group.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="what it leaves behind goes here"
    )
    add_option(group, "--checkpoint-every", whole(1), "steps between two checkpoints", 200)
    group.add_argument(
        "--snapshots",
        type=steps,
        default=(),
        metavar="0,300",
        help="keep the weights of these steps too, in weights-STEP.safetensors",
    )


def add_machine(group: Any) -> None:
    """The options of what a command runs on.

    Args:
        group: of a parser.

    Example:
        >>> parser = OneLineParser()
        >>> add_machine(parser)
        >>> parser.parse_args(["--threads", "2"]).threads
        2
    """
    group.add_argument("--device", help="cpu, cuda or mps; default: a GPU if there is one")
    # Torch starts as many as it is told to, and dies of too many without a word.
    group.add_argument("--threads", type=whole(1, 1024), metavar="N", help="of the CPU")


def add_option(
    group: Any, option: str, kind: Callable[[str], Any], text: str, default: Any
) -> None:
    """An option with a value, whose default the help names.

    Args:
        group: of a parser.
        option: its name.
        kind: what reads it.
        text: what it is.
        default: where it is left out.

    Example:
        >>> parser = OneLineParser()
        >>> add_option(parser, "--layers", whole(1), "on one another", 2)
        >>> parser.parse_args([]).layers
        2
    """
    text = f"{text}; default: %(default)s"
    group.add_argument(option, type=kind, default=default, metavar="N", help=text)


def add_choice(group: Any, option: str, choices: tuple[str, ...], text: str, default: str) -> None:
    """An option that is one of several words.

    Args:
        group: of a parser.
        option: its name.
        choices: the words.
        text: what it is.
        default: where it is left out.

    Example:
        >>> parser = OneLineParser()
        >>> add_choice(parser, "--norm", ("pre", "post"), "where", "pre")
        >>> parser.parse_args(["--norm", "post"]).norm
        'post'
    """
    text = f"{text}; default: %(default)s"
    group.add_argument(option, choices=choices, default=default, help=text)


def the_device(options: argparse.Namespace) -> torch.device:
    """The device asked for, which must be one that holds numbers.

    Args:
        options: as parsed, with `device`.

    Returns:
        It, or the one that is there, where none was asked for.

    Raises:
        ValueError: one that this machine does not have, or "meta".

    Example:
        >>> the_device(argparse.Namespace(device="cpu"))
        device(type='cpu')
    """
    device = get_device(options.device)
    if device.type == "meta":
        raise ValueError("device must be one that computes, got 'meta'")
    return device


def fill_in(options: argparse.Namespace, kind: type[Settings]) -> None:
    """Put in the defaults that hang on other options.

    Args:
        options: as parsed; `warmup` and `lr` are filled in where they are None.
        kind: the settings of the model.

    Example:
        >>> options = argparse.Namespace(warmup=None, lr=None, steps=10, schedule="linear")
        >>> fill_in(options, Settings)
        >>> options.warmup, options.lr
        (5, 0.003)
    """
    if options.warmup is None:
        options.warmup = min(kind.warmup, options.steps // 2)
    if options.lr is None:
        options.lr = 1.0 if options.schedule == "noam" else kind.lr


def check_shared(options: argparse.Namespace) -> None:
    """Stop with one line where an option that all trainings have does not go with another.

    Args:
        options: as parsed, filled in, and with `error`, which says it.

    Example:
        >>> check_shared(argparse.Namespace(
        ...     error=print, warmup=9, steps=9, schedule="linear", snapshots=()
        ... ))
        --warmup must be below --steps, got 9 and 9
    """
    o = options
    if o.warmup >= o.steps:
        o.error(f"--warmup must be below --steps, got {o.warmup} and {o.steps}")
    if o.schedule == "noam" and not o.warmup:
        o.error("--schedule noam needs a --warmup of 1 or more, got 0")
    if any(step > o.steps for step in o.snapshots):
        o.error(f"--snapshots must be from 0 to --steps, got {o.snapshots}")
    if hasattr(o, "heads"):
        _check_heads(o)


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
