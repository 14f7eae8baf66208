"""The bar that a training shows (chapter 4)."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from attn_notes.training.distributed import rank

__all__ = ["advance", "progress_bar"]


def progress_bar(done: int, steps: int, shown: bool | None) -> "tqdm[Any]":
    """The progress bar; silent where nobody watches, or where the output is compared.

    Of several processes the first alone has one.

    Args:
        done: steps that lie behind.
        steps: in all.
        shown: whether to show it; None for where somebody watches.

    Returns:
        The bar, a context.

    Example:
        >>> with progress_bar(0, 3, False) as bar:
        ...     advance(bar, [0.5])
    """
    if shown is None:
        kept_quiet = os.environ.get("ATTN_NOTES_PROGRESS") == "0"
        tested = "PYTEST_CURRENT_TEST" in os.environ  # a kernel that nbval starts inherits it
        in_notebook = type(sys.stderr).__module__.startswith("ipykernel")
        shown = (sys.stderr.isatty() or in_notebook) and not (kept_quiet or tested)
    hidden = not shown or rank() > 0
    return tqdm(
        desc="training", total=steps, initial=done, unit="step", disable=hidden, file=sys.stderr
    )


def advance(bar: "tqdm[Any]", losses: Sequence[float]) -> None:
    """One step further.

    Args:
        bar: of `progress_bar`.
        losses: those known so far; the last one is shown.

    Example:
        >>> advance(progress_bar(0, 3, False), [])
    """
    if losses and not bar.disable:
        bar.set_postfix_str(f"loss {losses[-1]:.3f}", refresh=False)
    bar.update()
