"""Attention, from kernel regression to the Transformer: the package behind the book.

One module an idea, in the order of the chapters. Importing `attn_notes` needs torch alone;
matplotlib, ipywidgets and anywidget load only with `attn_notes.plotting` and
`attn_notes.widgets`.

Dimension key, used in every docstring and in every shape comment:

    B  batch            L  query length     S  key length      E  embed_dim
    H  heads            G  key-value heads  D  head_dim        V  vocabulary

A tensor that has been split into heads is laid out as (B, H, L, D). Masks are boolean and
`True` means "may attend".
"""

from attn_notes.device import get_device
from attn_notes.source import show_source

__all__ = ["__version__", "get_device", "show_source"]

__version__ = "0.1.0"
