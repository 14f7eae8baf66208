"""What a head reads, as cells of its map, and how much of its weight lies there (chapter 5).

A pattern is a bool matrix over the tokens of one sentence, like a mask: `True` = wanted. Its score
is the weight that a head puts there.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["PATTERNS", "SPECIAL", "pattern_cells", "pattern_score", "without_special"]

SPECIAL = ("[CLS]", "[SEP]", "[PAD]")
"""The tokens that BERT adds to a text: they are read, but as readers they do not count here."""

PATTERNS = ("previous", "next", "same", "itself", "first", "separator")
"""What `pattern_cells` knows: two neighbours, the same token elsewhere, and three fixed places."""


def pattern_cells(
    pattern: str, tokens: Sequence[str], *, device: torch.device | str | None = None
) -> Tensor:
    """The cells of a map that a pattern wants.

    Args:
        pattern: one of `PATTERNS`. "previous" and "next" are the neighbours of a token, "same" is
            the same token elsewhere, "itself" the diagonal, "first" the first token (in BERT's
            texts `[CLS]`), "separator" every `[SEP]`.
        tokens: L tokens, special ones among them.
        device: where the cells are made; torch's default device by default.

    Returns:
        (L, L), bool: row t holds what token t should read. The rows of special tokens are empty.

    Raises:
        ValueError: an unknown pattern.

    Example:
        >>> pattern_cells("previous", ["[CLS]", "a", "rose"]).int()
        tensor([[0, 0, 0],
                [1, 0, 0],
                [0, 1, 0]], dtype=torch.int32)
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}, got {pattern!r}")

    def wanted(t: int, i: int) -> bool:
        return {
            "previous": i == t - 1,
            "next": i == t + 1,
            "same": i != t and tokens[i] == tokens[t],
            "itself": i == t,
            "first": i == 0,
            "separator": tokens[i] == "[SEP]",
        }[pattern]

    L = len(tokens)
    cells = [[tokens[t] not in SPECIAL and wanted(t, i) for i in range(L)] for t in range(L)]
    return torch.tensor(cells, dtype=torch.bool, device=device).view(L, L)


def pattern_score(weights: Tensor, cells: Tensor) -> Tensor:
    """How much weight lies on the wanted cells: a mean over the rows that have one.

    Args:
        weights: (..., L, S), such as layers x heads x L x L; rows sum to 1.
        cells: (L, S), bool, `True` = wanted.

    Returns:
        (...), from 0 to 1: 1 where every row with a wanted cell puts all its weight on such cells;
        NaN where no row has one.

    Raises:
        TypeError: cells that are not bool.
        ValueError: cells of another shape than the maps.

    Example:
        >>> weights = torch.tensor([[1.0, 0.0], [0.75, 0.25]])
        >>> pattern_score(weights, torch.tensor([[False, False], [True, False]]))
        tensor(0.7500)
    """
    if cells.dtype != torch.bool:
        raise TypeError(f"cells must be a bool tensor (True = wanted), got {cells.dtype}")
    if cells.dim() != 2 or cells.shape != weights.shape[-2:]:
        raise ValueError(
            "cells must be (L, S) as the last two axes of weights, got cells "
            f"{tuple(cells.shape)} and weights {tuple(weights.shape)}"
        )
    found = (weights * cells).sum(-1)  # (..., L): 0 in a row without a wanted cell
    return found.sum(-1) / cells.any(-1).sum()


def without_special(tokens: Sequence[str], weights: Tensor) -> tuple[list[str], Tensor]:
    """A sentence without its special tokens: their rows and columns are dropped.

    What is left of a row is divided by its sum, so that it is a weighted average again; a row of
    which nothing is left stays 0. A small rest is made large by this: 0.01 of the weight, shared
    out over the words, then looks like all of it.

    Args:
        tokens: L tokens.
        weights: (..., L, L).

    Returns:
        The other tokens, and their weights (..., K, K).

    Raises:
        ValueError: another number of tokens than rows and columns.

    Example:
        >>> without_special(["[CLS]", "a"], torch.tensor([[0.5, 0.5], [0.75, 0.25]]))
        (['a'], tensor([[1.]]))
    """
    L = len(tokens)
    if weights.shape[-2:] != (L, L):
        raise ValueError(f"weights must be (..., {L}, {L}), got {tuple(weights.shape)}")
    kept = [n for n, token in enumerate(tokens) if token not in SPECIAL]
    left = weights[..., kept, :][..., kept]  # (..., L, L) -> (..., K, K)
    sums = left.sum(-1, keepdim=True)
    return [tokens[n] for n in kept], torch.where(sums > 0, left / sums, 0.0)
