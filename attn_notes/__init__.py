"""Attention, from kernel regression to the Transformer: the package behind the book.

One module an idea, in the order of the chapters. They need torch alone, which loads with the first
of them; matplotlib, ipywidgets and anywidget load only with `attn_notes.plotting` and
`attn_notes.widgets`.

Dimension key, used in every docstring and in every shape comment:

    B  batch            L  query length     S  key length      E  embed_dim
    H  heads            G  key-value heads  D  head_dim        V  vocabulary

A tensor that has been split into heads is laid out as (B, H, L, D). Masks are boolean and
`True` means "may attend".
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn_notes.device import get_device
    from attn_notes.source import show_source

__all__ = ["__version__", "get_device", "show_source"]

__version__ = "0.1.0"

_HOMES = {"get_device": "device", "show_source": "source"}


def __getattr__(name: str) -> Any:
    """What is public, loaded with torch when it is asked for: a command line answers at once."""
    if name in _HOMES:
        return getattr(import_module(f"attn_notes.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
