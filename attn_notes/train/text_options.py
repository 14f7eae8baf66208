"""The options of the commands that learn from texts, and write."""

import argparse
from pathlib import Path
from typing import Any

from attn_notes.train.settings import LanguageModelSettings
from attn_notes.train.shared_options import (
    add_blocks,
    add_choice,
    add_machine,
    add_option,
    add_place,
    add_steps,
)
from attn_notes.train.values import number, whole
from attn_notes.training import PRECISIONS

__all__ = ["add_language_model", "add_sample"]


def add_language_model(parser: argparse.ArgumentParser) -> None:
    """The options of `language-model`.

    Args:
        parser: to add them to.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> add_language_model(parser)
        >>> parser.parse_args(["--out", "python", "--context", "64"]).context
        64
    """
    kind = LanguageModelSettings
    _add_texts(parser.add_argument_group("what it learns from"), kind)
    group = parser.add_argument_group("the model")
    add_option(group, "--context", whole(1), "the most characters it reads at once", kind.context)
    add_blocks(group, kind)
    group = parser.add_argument_group("how it is trained")
    add_steps(group, kind, "windows of text, those of all processes together,")
    add_choice(
        group, "--precision", ("auto", *PRECISIONS),
        "of the matrix products; auto is 16 bits where a GPU has them", "auto",
    )  # fmt: skip
    group.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="turn the model into kernels of its own first; default: on a GPU that can",
    )
    group = parser.add_argument_group("where")
    add_place(group)
    add_machine(group)


def _add_texts(group: Any, kind: type[LanguageModelSettings]) -> None:
    group.add_argument(
        "--text",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="texts of your own, one a file; default: Python's documentation",
    )
    group.add_argument("--encoding", help="of --text; default: utf-8, or what its mark says")
    text = "characters that occur less often are unknown"
    add_option(group, "--min-count", whole(1), text, kind.min_count)


def add_sample(parser: argparse.ArgumentParser) -> None:
    """The options of `sample`.

    Args:
        parser: to add them to.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> add_sample(parser)
        >>> parser.parse_args(["python", "The ", "--top-k", "5"]).top_k
        5
    """
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what a training left behind")
    parser.add_argument(
        "prompt", nargs="?", default="", metavar="PROMPT", help="how the text begins"
    )
    add_option(parser, "--length", whole(1), "the most characters to write", 400)
    text = "above 0: below 1 what is probable becomes more so"
    add_option(parser, "--temperature", number(1e-6, 1e6), text, 0.8)
    text = "draw from so many of the most probable characters alone"
    add_option(parser, "--top-k", whole(1), text, None)
    text = "draw from the most probable that have this share together"
    add_option(parser, "--top-p", number(1e-9, 1.0), text, None)
    add_option(parser, "--seed", whole(0), "of the draw", 0)
    add_option(parser, "--weights", str, "which weights of the folder", "weights.safetensors")
    add_machine(parser)
