"""The heatmap that every chapter uses."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.arguments import check_mask
from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import (
    decode,
    encode,
    encode_mask,
    encode_scores,
    finite,
    tokens_for,
    whole,
)

__all__ = ["AttentionHeatmap", "weights_table"]


class AttentionHeatmap(BookWidget):
    """Attention weights to walk through: rows are queries, columns are keys.

    Given weights, it shows them; given scores, it turns them into weights itself, and the reader
    may change the temperature and the mask. With several heads or layers they can be chosen, and
    all be seen at once.

    Args:
        weights: (L, S), (H, L, S) or (N, H, L, S) for N layers, from 0 to 1.
        scores: the same shapes, instead of weights.
        mask: (L, S), bool, `True` = may attend.
        query_tokens: L strings for the rows; serve the columns too where L = S and no
            `key_tokens` are given.
        key_tokens: S strings for the columns.
        title: a line above the map.
        overview: start with all heads in one view.

    Raises:
        TypeError: weights that are not numbers, a mask that is not bool, tokens not strings.
        ValueError: neither or both of weights and scores; other shapes; NaN or infinity;
            weights outside 0 to 1; a mask or tokens of another size.

    Example:
        >>> AttentionHeatmap(torch.eye(2), query_tokens=["a", "b"])
        AttentionHeatmap(2 queries x 2 keys, weights 0.00 to 1.00)
    """

    _widget = "heatmap"

    data = traitlets.Dict().tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    temperature = traitlets.Float(1.0, min=0.01, max=100.0).tag(sync=True)
    mask_choice = traitlets.Enum(("none", "causal", "given"), "none").tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)
    overview = traitlets.Bool(False).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    column = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        weights: Tensor | None = None,
        *,
        scores: Tensor | None = None,
        mask: Tensor | None = None,
        query_tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
        title: str = "",
        overview: bool = False,
    ) -> None:
        if (weights is None) == (scores is None):
            raise ValueError("give either weights or scores, got both or neither")
        kind = "weights" if scores is None else "scores"
        numbers = finite(kind, weights if scores is None else scores, 2, 3, 4)
        L, S = numbers.shape[-2:]
        if mask is not None:
            check_mask(mask, numbers.shape[-2:], of=kind)
            mask = mask.expand(L, S)
        queries = tokens_for("query_tokens", query_tokens, L)
        keys = tokens_for("key_tokens", key_tokens, S)
        if keys is None and L == S:
            keys = queries
        data = {
            "kind": kind,
            "values": _encode(kind, numbers[(None,) * (4 - numbers.dim())]),
            "mask": None if mask is None else encode_mask(mask),
            "queries": queries,
            "keys": keys,
            "title": whole(title),
        }
        given = "none" if mask is None or kind == "weights" else "given"
        super().__init__(data=data, mask_choice=given, overview=overview)

    @traitlets.validate("layer", "head")
    def _in_range(self, proposal: Any) -> int:
        size = self.data["values"]["shape"][0 if proposal["trait"].name == "layer" else 1]
        if not 0 <= proposal["value"] < size:
            name = proposal["trait"].name
            raise traitlets.TraitError(
                f"{name} must be from 0 to {size - 1}, got {proposal['value']}"
            )
        return int(proposal["value"])

    @traitlets.validate("mask_choice")
    def _has_mask(self, proposal: Any) -> str:
        if proposal["value"] == "given" and self.data["mask"] is None:
            raise traitlets.TraitError("mask_choice can be 'given' only where a mask was given")
        return str(proposal["value"])

    def shown(self) -> Tensor:
        """The weights that the map shows now.

        Returns:
            (L, S), float64: of the layer, head, temperature and mask now chosen.
        """
        numbers = decode(self.data["values"])[self.layer, self.head]
        if self.data["kind"] == "weights":
            return numbers
        return masked_softmax(numbers / self.temperature, self._mask())

    def _mask(self) -> Tensor | None:
        """The mask now in force: (L, S) or None."""
        if self.data["kind"] == "scores" and self.mask_choice == "causal":
            return causal_mask(*self.data["values"]["shape"][-2:], device="cpu")
        given = self.data["mask"] is not None
        if given and (self.data["kind"] == "weights" or self.mask_choice == "given"):
            return decode(self.data["mask"])
        return None

    def _summary(self) -> str:
        layers, heads, L, S = self.data["values"]["shape"]
        shown = self.shown()
        many = f", {layers} layers" * (layers > 1) + f", {heads} heads" * (heads > 1)
        return f"{L} queries x {S} keys{many}, weights {shown.min():.2f} to {shown.max():.2f}"

    def _table(self) -> Table:
        return weights_table(self.shown(), self._mask(), self.data["queries"], self.data["keys"])


def weights_table(
    weights: Tensor,
    mask: Tensor | None,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    *,
    most: int = 400,
) -> Table:
    """A heatmap as a plain table; a large one as the strongest keys of each query.

    Args:
        weights: (L, S).
        mask: (L, S), bool, or None.
        queries: L tokens, or None.
        keys: S tokens, or None.
        most: how many cells a whole table may have.

    Returns:
        Caption, column headers and rows.

    Example:
        >>> weights_table(torch.eye(2), None, ["a", "b"], None)[2]
        [['a', '1.00', '0.00'], ['b', '0.00', '1.00']]
    """
    L, S = weights.shape
    row_names = queries or [f"query {i}" for i in range(L)]
    column_names = keys or [f"key {j}" for j in range(S)]
    allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    if weights.numel() <= most:
        rows = [
            [
                row_names[i],
                *(f"{weights[i, j]:.2f}" if allowed[i, j] else "masked" for j in range(S)),
            ]
            for i in range(L)
        ]
        return "Attention weights: rows are queries, columns are keys.", column_names, rows
    best = weights.argmax(-1)
    rows = [[row_names[i], str(int(best[i])), f"{weights[i, best[i]]:.2f}"] for i in range(L)]
    return "For each query, the key it reads most.", ["key", "weight"], rows


def _encode(kind: str, numbers: Tensor) -> dict[str, Any]:
    """Weights on 0 to 1; scores on their own range."""
    if kind == "scores":
        return encode_scores(numbers)
    low, high = float(numbers.min()), float(numbers.max())
    if low < 0 or high > 1 + 1e-6:
        raise ValueError(f"weights must be from 0 to 1, got {low:.4g} to {high:.4g}")
    return encode(numbers, low=0.0, high=1.0)
