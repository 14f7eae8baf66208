"""Decoding many sentences in batches (chapter 4)."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from attn_notes.data import Vocabulary, make_batch
from attn_notes.decoding.beam import beam_search


def translate(
    model: nn.Module,
    sources: Sequence[Sequence[str]],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    max_length: int,
    beam_size: int = 1,
    batch_size: int = 256,
) -> list[tuple[str, ...]]:
    """Decode many sentences, batched by length, and return them in their original order. Chapter 4.

    Each sentence is a sequence of tokens, none empty. The other arguments are those of
    `beam_search`; a beam of one is greedy.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda n: len(sources[n]))
    found: dict[int, tuple[str, ...]] = {}
    how = {"max_length": max_length, "beam_size": beam_size}
    for first in range(0, len(order), batch_size):
        chunk = order[first : first + batch_size]
        pairs: Any = [(sources[n], ()) for n in chunk]
        with device:
            source, lengths, _ = make_batch(pairs, source_vocab, target_vocab)
        decoded = beam_search(model, source, lengths, **how)  # type: ignore[arg-type]
        for n, ids in zip(chunk, decoded.tokens.tolist(), strict=True):
            found[n] = tuple(target_vocab.decode(ids))
    return [found[n] for n in range(len(sources))]
