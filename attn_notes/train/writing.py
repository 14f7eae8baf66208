"""The commands of language models: `language-model` trains one, and `sample` has it write."""

import argparse
import contextlib
import importlib.util
import io
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any, cast

import torch

from attn_notes.data import TextWindows
from attn_notes.train.evaluation import evaluate_texts
from attn_notes.train.language import LanguageModel, load_language_model
from attn_notes.train.run import train
from attn_notes.train.settings import LanguageModelSettings
from attn_notes.train.shared_options import check_shared, fill_in, the_device
from attn_notes.train.texts import TextSides, complete_with_texts, load_texts
from attn_notes.training import Processes, language_model_loss, process_group

__all__ = ["train_language_model", "write"]

OLDEST = (7, 0)  # the compute capability that the kernels of torch.compile need


def train_language_model(options: argparse.Namespace) -> None:
    r"""Train a language model, alone or with the other processes that torchrun has started.

    Args:
        options: as parsed.

    Raises:
        OSError: something cannot be read or written.
        Unfinished: told to stop, or another process is gone.
        ValueError: texts, settings or a folder of which nothing can be made.

    Example:
        >>> from pathlib import Path
        >>> from attn_notes.train.command import main
        >>> sizes = ["--layers=1", "--embed-dim=4", "--hidden-dim=4", "--context=8", "--steps=1"]
        >>> text = Path(getfixture("tmp_path"), "own.txt")
        >>> _ = text.write_text("one line after another\n" * 50)
        >>> main(["language-model", f"--out={text.parent}/out", f"--text={text}", *sizes])
        ... # doctest: +ELLIPSIS
        characters: 1,035 to train on, 115 held out, 12 different ones
        ...
        0
    """
    fill_in(options, LanguageModelSettings)
    check_shared(options)
    if options.encoding is not None and not options.text:
        options.error("--encoding is of --text, and does not go without")
    asked = {field.name for field in fields(LanguageModelSettings)} & {*vars(options)}
    with process_group(the_device(options)) as processes, _first_alone_speaks(processes.rank):
        sides = load_texts(options.text, encoding=options.encoding)
        settings = LanguageModelSettings(**{name: vars(options)[name] for name in asked})
        settings = complete_with_texts(settings, sides)
        writer = _train(settings, sides, options, processes)
    if processes.rank == 0:  # the others need not wait for it
        print(f"trained: {options.out}\n\n{evaluate_texts(writer, *sides)}")


def _train(
    settings: LanguageModelSettings,
    sides: TextSides,
    options: argparse.Namespace,
    processes: Processes,
) -> LanguageModel:
    """Say what is trained, and train it."""
    rank, world, device = processes
    s, (vocab,) = settings, settings.vocabularies()
    if s.batch_size % world:
        raise ValueError(
            "--batch-size must be divisible by the number of processes, got "
            f"{s.batch_size} and {world}"
        )
    windows = TextWindows(sides[0], vocab, length=s.context, batch_size=s.batch_size, seed=s.seed)
    size = s.batch_size // world
    share = slice(rank * size, (rank + 1) * size)  # of this process
    precision = _precision(device) if options.precision == "auto" else options.precision
    compiled = _can_compile(device) if options.compile is None else options.compile
    sizes = "{:,} to train on, {:,} held out".format(*(sum(map(len, side)) for side in sides))
    print(f"characters: {sizes}, {len(vocab.tokens)} different ones")
    several = f", {world} processes" if world > 1 else ""
    print(f"on {device}{several}, in {precision}{', compiled' if compiled else ''}", flush=True)
    model = train(
        settings,
        lambda step: windows(step)[share],
        partial(language_model_loss, label_smoothing=s.label_smoothing),
        options.out,
        device=device,
        checkpoint_every=options.checkpoint_every,
        snapshots=options.snapshots,
        precision=precision,
        compile=compiled,
    )
    return LanguageModel(settings, cast("Any", model))


@contextlib.contextmanager
def _first_alone_speaks(rank: int) -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()) if rank else contextlib.nullcontext():
        yield


def _precision(device: torch.device) -> str:
    """16 bits where a GPU computes in them: with the range of 32 bits, if it can."""
    if device.type != "cuda":
        return "float32"
    has_bfloat16 = torch.cuda.get_device_capability(device) >= (8, 0)
    return "bfloat16" if has_bfloat16 else "float16"


def _can_compile(device: torch.device) -> bool:
    """Whether torch.compile pays: it needs Triton, and a GPU that Triton knows."""
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= OLDEST
    )


def write(options: argparse.Namespace) -> None:
    """Print a prompt, and what a trained language model has to add.

    Args:
        options: as parsed.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a file that is not what it should be, or a folder of another model.

    Example:
        >>> from attn_notes.train.command import main
        >>> main(["sample", "nowhere", "The "])
        1
    """
    writer = load_language_model(
        options.folder, weights=options.weights, device=the_device(options)
    )
    if unknown := writer.unknown(options.prompt):
        print(f"not known: {', '.join(map(repr, unknown))}", file=sys.stderr)
    said = writer.sample(
        options.prompt,
        length=options.length,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
    )
    print(options.prompt + said)
