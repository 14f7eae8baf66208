"""What the Transformer in the page does, in Python: a text is cut, and said in another language."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attn_notes.data import END, START
from attn_notes.transformer import Transformer, TransformerWeights

__all__ = ["Translation", "chance", "cut", "drawn", "translate_tokens"]


class Translation(NamedTuple):
    """What a model makes of a source, all steps of it."""

    source: list[str]
    """S tokens, the tag of the language among them."""
    said: list[int]
    """T ids."""
    probabilities: Tensor
    """(T, V), float64: those that each token is taken from."""
    weights: TransformerWeights
    """Of all heads."""


def translate_tokens(
    model: Transformer,
    source: Sequence[int],
    *,
    temperature: float = 0.0,
    seed: int = 0,
    prefix: Sequence[int] = (),
    most: int = 32,
) -> tuple[list[int], Tensor, TransformerWeights]:
    """A whole translation, as `translateTokens` in `static/transformer_model.js` makes it.

    Args:
        model: in evaluation mode, on the CPU.
        source: ids, at least one.
        temperature: 0 takes the likeliest token; above it, one is drawn.
        seed: of the draws.
        prefix: ids that are said first, whatever the model would say.
        most: after so many tokens it is stopped.

    Returns:
        The ids said, T of them, with END if it was reached; (T, V) probabilities, at temperature 1
        where that is 0; and the weights of all heads, (1, H, ., .).

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> model = Transformer(TransformerConfig(vocab_size=9, embed_dim=4, num_heads=2))
        >>> translate_tokens(model.eval(), [5, 6], prefix=[7, 2])[0]
        [7, 2]
    """
    said, rows = [START], list[Tensor]()
    with torch.no_grad():
        here = torch.tensor([source], device="cpu"), torch.tensor([len(source)], device="cpu")
        state = model.start(*here, need_weights=True)
        while said[-1] != END and len(rows) < most:
            step, token = len(rows), torch.tensor(said[-1:], device="cpu")
            logits, state = model.step(token, state)
            rows.append(_next_probabilities(logits[0], temperature))
            free = drawn(rows[-1], chance(seed, step)) if temperature else int(rows[-1].argmax())
            said.append(prefix[step] if step < len(prefix) else free)
    weights = state.weights or TransformerWeights((), (), ())
    return said[1:], torch.stack(rows), weights


def cut(text: str, known: Sequence[str]) -> list[str]:
    """A text as tokens: words at spaces, each as few of the known tokens as can be.

    Args:
        text: any string. Where a word is not made of known tokens as it stands, it is tried in
            small letters, then with a comma at its end, then without commas and points.
        known: the tokens that there are.

    Returns:
        The tokens.

    Raises:
        ValueError: a word that is not made of known tokens.

    Example:
        >>> cut("1,999 Ninety-nine", ["1", "9", "ninety", "-nine"])
        ['1', '9', '9', '9', 'ninety', '-nine']
    """
    tokens = []
    for word in re.split(r"[ \t\r\n]+", text.strip(" \t\r\n")):
        small = word.lower()
        tries = (word, small, f"{small},", re.sub("[.,]", "", small))
        found = next((cut for cut in (_segments(one, known) for one in tries) if cut), None)
        if found is None and word:
            raise ValueError(f"text must be made of known tokens, got {word!r}")
        tokens += found or []
    return tokens


def _segments(word: str, known: Sequence[str]) -> list[str] | None:
    """As few known tokens as make up a word; of two ways the one found first, from its end."""
    best: list[list[str] | None] = [None] * len(word) + [[]]
    for i in range(len(word) - 1, -1, -1):
        for token in known:
            if token and word.startswith(token, i):
                rest, have = best[i + len(token)], best[i]
                if rest is not None and (have is None or len(have) > len(rest) + 1):
                    best[i] = [token, *rest]
    return best[0]


def chance(seed: int, step: int) -> float:
    """A number for each seed and step: mulberry32, by Tommy Ettinger, whose state is a counter.

    Args:
        seed: a whole number.
        step: a whole number.

    Returns:
        From 0 to 1, without 1; the same as in `static/transformer_model.js`.

    Example:
        >>> round(chance(0, 0), 4)
        0.2664
    """
    mask = 0xFFFFFFFF
    a = (seed * 0x9E3779B1 + (step + 1) * 0x6D2B79F5) & mask
    a = (a ^ a >> 15) * (a | 1) & mask
    a ^= (a + ((a ^ a >> 7) * (a | 61) & mask)) & mask
    return (a ^ a >> 14) / 2**32


def drawn(probabilities: Tensor, share: float) -> int:
    """The token under the point `share` of a line on which each has its probability's length.

    Args:
        probabilities: (V,), their sum 1.
        share: from 0 to 1, such as `chance` gives.

    Returns:
        An id.

    Example:
        >>> drawn(torch.tensor([0.5, 0.25, 0.25]), 0.6)
        1
    """
    token = int((probabilities.cumsum(0) <= share).sum())
    return token if token < len(probabilities) else int(probabilities.argmax())


def _next_probabilities(logits: Tensor, temperature: float) -> Tensor:
    """(V,): how probable each token is to be said; padding and START never are."""
    logits = logits.clone()
    logits[: START + 1] = -torch.inf
    return (logits / (temperature or 1.0)).softmax(-1)
