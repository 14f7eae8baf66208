"""What the language model in the page does, in Python: a text is read, and gone on with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_notes.data import PAD, START
from attn_notes.transformer import DecoderOnly

__all__ = ["next_logits", "next_weights", "window_start"]


def window_start(position: int, context: int) -> int:
    """Where the window begins in which a position is read, as in `static/transformer_model.js`.

    A model reads `context` tokens at most, and of a longer text it goes on from the last half of
    them. One rule gives every position its window, however the text came to be.

    Args:
        position: of a token, from 0.
        context: how many tokens the model reads at once; 1 or more.

    Returns:
        The position of the window's first token.

    Example:
        >>> [window_start(position, 4) for position in range(9)]
        [0, 0, 0, 0, 3, 3, 3, 6, 6]
    """
    stride = context + 1 - max(1, context // 2)
    return stride * max(0, -((context - 1 - position) // stride))


def next_logits(model: DecoderOnly, tokens: Sequence[int], context: int) -> Tensor:
    """What follows each token of a text, which may be longer than the context.

    Args:
        model: in evaluation mode, on the CPU.
        tokens: T ids, at least one.
        context: see `window_start`.

    Returns:
        Logits (T, V); padding and START, which are never said, have minus infinity.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=4, num_heads=2)).eval()
        >>> next_logits(model, [1, 5, 6, 7], 2).shape
        torch.Size([4, 9])
    """
    rows = list[Tensor]()
    while len(rows) < len(tokens):
        start = window_start(len(rows), context)
        read = torch.tensor([tokens[start : start + context]], device="cpu")
        with torch.no_grad():
            logits = model(read).logits[0]
        rows += logits[len(rows) - start :]
    logits = torch.stack(rows)
    logits[:, [PAD, START]] = -torch.inf
    return logits


def next_weights(model: DecoderOnly, tokens: Sequence[int], context: int) -> Tensor:
    """What each head reads to say what follows a text.

    Args:
        model: in evaluation mode, on the CPU.
        tokens: T ids, at least one.
        context: see `window_start`.

    Returns:
        (layers * heads, S): the last S tokens are those of the window.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=4, num_heads=2)).eval()
        >>> next_weights(model, [1, 5, 6, 7], 8).shape
        torch.Size([4, 4])
    """
    start = window_start(len(tokens) - 1, context)
    with torch.no_grad():
        read = model(torch.tensor([tokens[start:]], device="cpu"), need_weights=True)
    return torch.cat([layer[0, :, -1] for layer in read.weights or ()])
