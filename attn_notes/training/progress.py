"""The bar that a training shows (chapter 4)."""

import os
import sys
from typing import Any

from tqdm import tqdm

from attn_notes.training.processes import rank_and_world_size

__all__ = ["progress_bar"]


def progress_bar(done: int, steps: int, shown: bool | None) -> Any:
    """A bar with speed and time left; hidden where nobody watches or the output is compared."""
    if shown is None:
        in_notebook = type(sys.stderr).__module__.startswith("ipykernel")
        is_compared = "PYTEST_CURRENT_TEST" in os.environ  # a kernel that nbval starts inherits it
        is_silenced = os.environ.get("ATTN_NOTES_PROGRESS") == "0" or is_compared
        shown = (sys.stderr.isatty() or in_notebook) and not is_silenced
    is_hidden = not shown or rank_and_world_size()[0] > 0
    return tqdm(
        desc="training", total=steps, initial=done, unit="step", disable=is_hidden, file=sys.stderr
    )
