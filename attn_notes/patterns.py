"""Patterns of attention: which cells of its map a head reads, and with how much weight (chapter 5).

A pattern is a bool matrix over the tokens of one sentence, like a mask: `True` = wanted.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_notes.arguments import Device, check_shapes

SPECIAL = ("[CLS]", "[SEP]", "[PAD]")
"""The tokens that BERT adds to a text: others read them, but their own rows do not count."""

SEPARATORS = ("[SEP]", "</s>", "<sep>", "<eos>", "<end>", "<|endoftext|>")
"""The tokens that end a text, or divide it from the next, in the models most often published."""

PATTERNS = ("previous", "next", "same", "itself", "first", "separator")
"""The patterns of `pattern_cells`."""


def pattern_cells(
    pattern: str, tokens: Sequence[str], *, special: Sequence[str] = SPECIAL, device: Device = None
) -> Tensor:
    """The cells of a map that belong to a pattern, (L, L) bool: what each of L tokens should read.

    "previous" and "next" are the neighbours of a token, "same" the same token elsewhere, "itself"
    the diagonal, "first" the first token (`[CLS]` in BERT's texts), "separator" every token of
    `SEPARATORS`, such as `[SEP]`. The rows of special tokens, BERT's by default, are empty.

    Example:
        >>> pattern_cells("previous", ["[CLS]", "a", "rose"]).int()
        tensor([[0, 0, 0],
                [1, 0, 0],
                [0, 1, 0]], dtype=torch.int32)
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}, got {pattern!r}")
    numbers = {token: n for n, token in enumerate(dict.fromkeys(tokens))}
    marks = [(numbers[x], x not in special, x in SEPARATORS) for x in tokens]
    same, ordinary, ends = torch.tensor(marks, device=device).long().view(-1, 3).unbind(1)
    i = torch.arange(len(tokens), device=device)  # (L,), of the keys
    t = i[:, None]  # (L, 1), of the queries
    wanted = {
        "previous": i == t - 1,
        "next": i == t + 1,
        "same": (i != t) & (same == same[:, None]),
        "itself": i == t,
        "first": (i == 0) & (t >= 0),
        "separator": (ends > 0) & (t >= 0),
    }[pattern]
    return wanted & (ordinary > 0)[:, None]


def pattern_score(weights: Tensor, cells: Tensor) -> Tensor:
    """How much weight lies on the wanted cells: a mean over the rows that have one.

    From weights (..., L, S) and cells (L, S), (...) from 0 to 1: 1 where every row with a wanted
    cell puts all its weight on such cells; NaN where no row has one.

    Example:
        >>> weights = torch.tensor([[1.0, 0.0], [0.75, 0.25]])
        >>> pattern_score(weights, torch.tensor([[False, False], [True, False]]))
        tensor(0.7500)
    """
    check_shapes(weights=(weights, "... L S"), cells=(cells, "L S"))
    found = (weights * cells).sum(-1)  # (..., L): 0 in a row without a wanted cell
    return found.sum(-1) / cells.any(-1).sum()


def select_cells(weights: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    """Some rows and columns of weights, each row divided by what is left of its sum.

    From weights (..., L, S), R rows and C columns they give (..., R, C). A row of which nothing is
    left stays 0.

    Example:
        >>> select_cells(torch.tensor([[0.5, 0.25, 0.25]]), [0], [1, 2])
        tensor([[0.5000, 0.5000]])
    """
    left = weights[..., rows, :][..., columns]
    sums = left.sum(-1, keepdim=True)
    return torch.where(sums > 0, left / sums, 0.0)
