"""Attention, from kernel regression to the Transformer: the package behind the book.

The modules in the order of the chapters::

    1  kernels      Nadaraya-Watson kernel regression
    2  scores       scores of a query and a key
       attention    weights, and the weighted sum
       guard        the checks before them
    3  masks        which key a query may read
    4  data         number words, dates, text, batches
       seq2seq      recurrent encoder-decoder, without and with attention
       decoding     greedy, beam search, sampling
       training     one training loop, losses, schedules, metrics
    5  multihead    self-attention and multi-head attention
       patterns     what a head reads
       pretrained   published weights in the book's own blocks
    6  positions    sinusoidal, learned, rotary, ALiBi
       cache        keys and values of earlier tokens
    7  transformer  blocks, encoder-decoder, encoder, decoder
    9  ngrams       what a model of characters must beat
   10  flash        attention tile by tile, forward and backward
       triton_attention  the same as kernels for a GPU
   11  inside       ablation, patching, attribution: what a part of a model does
   12  norms        RMSNorm
       latent       latent attention: a small cache for many heads
   13  linear       linear attention and the delta rule: a state instead of a cache

Beside them stand `stored` (the book's own trained models), `checks` (properties that a test can
require), `plotting` and `table`. Three packages come with this one: `attn_widgets` shows attention,
`attn_exercises` checks a reader's answers, `attn_train` trains larger versions of the chapters'
models.

Dimension key, used in every docstring and in every shape comment::

    B  batch            L  query length     S  key length      E  embed_dim
    H  heads            G  key-value heads  D  head_dim        V  vocabulary

A tensor that has been split into heads is laid out as (B, H, L, D). Masks are boolean and
`True` means "may attend".
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = (
    "attention", "cache", "checks", "data", "decoding", "flash", "inside", "kernels", "latent",
    "linear", "masks", "multihead", "ngrams", "norms", "patterns", "plotting", "positions",
    "pretrained", "scores", "seq2seq", "stored", "training", "transformer", "triton_attention",
)  # fmt: skip
_HOMES = {
    "attention": ("Attention", "attention_weights", "scaled_dot_product_attention"),
    "cache": ("KVCache",),
    "device": ("get_device",),
    "kernels": ("KernelRegression", "nadaraya_watson"),
    "multihead": ("MultiHeadAttention", "SelfAttention"),
    "source": ("show_source",),
    "transformer": ("DecoderOnly", "Encoder", "Transformer", "TransformerConfig"),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    """Load a module, or a name's home, at the first use: torch alone takes seconds."""
    if name in _MODULES:
        return import_module(f"attn_notes.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"attn_notes.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
