"""The heatmap that every chapter uses."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.arguments import check_mask
from attn_notes.masks import causal_mask, masked_softmax
from attn_widgets import encoding
from attn_widgets.base import DataWidget, Offered, Pictured, Table
from attn_widgets.layers import as_layers

MOST_CELLS = 900  # of a table
LARGE = 32  # tokens from which on most weights are too small for a linear scale


class AttentionHeatmap(DataWidget, Pictured):
    """Attention weights to walk through: rows are queries, columns are keys.

    Given weights, it shows them; given scores, it turns them into weights itself, and the reader
    may change the temperature and the mask. One of several heads or layers can be chosen, or all
    heads be seen at once. Colours are linear in the weights up to 32 tokens, and beyond in their
    cube roots ("root"), which tell small weights apart; `scale` is "linear", "root", or "row" for
    each row by its largest weight.

    Args:
        weights: from 0 to 1: (L, S), (H, L, S), a list of N layers (H, L, S), or what a model
            returns for one text, a tuple of (1, H, L, S). Others of the same L and S can be set,
            `widget.weights = new`.
        query_tokens: L strings, the rows.
        key_tokens: S strings, the columns; by default those of the rows where L = S.
        scores: in place of weights: (L, S), (H, L, S) or (N, H, L, S).
        mask: (L, S), bool, `True` = may attend.
        title: a line above the map.

    Example:
        >>> AttentionHeatmap(torch.eye(2), query_tokens=["a", "b"])
        AttentionHeatmap(2 queries x 2 keys, weights 0.00 to 1.00)
    """

    _widget = "heatmap"
    layer = Offered(lambda self: range(self.data["values"]["shape"][0]))
    head = Offered(lambda self: range(self.data["values"]["shape"][1]))
    temperature = traitlets.Float(1.0, min=0.01, max=100.0).tag(sync=True)
    mask_choice = traitlets.Enum(("none", "causal", "given"), "none").tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)
    scale = traitlets.Enum(("linear", "root", "row"), "linear").tag(sync=True)
    overview = traitlets.Bool(False).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    column = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        weights: Any = None,
        query_tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
        *,
        scores: Tensor | None = None,
        mask: Tensor | None = None,
        title: str = "",
    ) -> None:
        if (weights is None) == (scores is None):
            raise ValueError("give either weights or scores, got both or neither")
        if scores is None:
            kind, numbers = "weights", torch.stack(as_layers(weights))
        else:
            kind, numbers = "scores", encoding.as_finite("scores", scores, 2, 3, 4)
        encode = encoding.encode_scores if kind == "scores" else encoding.encode_weights
        numbers = numbers[(None,) * (4 - numbers.dim())]  # (N, H, L, S)
        L, S = numbers.shape[-2:]
        data = {
            "kind": kind,
            "values": encode(numbers),
            "mask": None,
            **encoding.check_axes(L, S, query_tokens, key_tokens),
            "title": encoding.replace_surrogates(title),
        }
        if mask is not None:
            check_mask(mask, numbers.shape[-2:], of=kind)
            data["mask"] = encoding.encode_mask(mask.expand(L, S))
        given = "none" if mask is None or kind == "weights" else "given"
        scale = "root" if max(L, S) > LARGE else "linear"
        super().__init__(data=data, mask_choice=given, scale=scale)

    def shown(self) -> Tensor:
        """The weights on the map, (L, S): of this layer, head, temperature and mask."""
        numbers = encoding.decode(self.data["values"])[self.layer, self.head]
        if self.data["kind"] == "weights":
            return numbers
        return masked_softmax(numbers / self.temperature, self._mask())

    def _mask(self) -> Tensor | None:
        """The mask in force, (L, S), or None."""
        if self.data["kind"] == "scores" and self.mask_choice == "causal":
            return causal_mask(*self.data["values"]["shape"][-2:], device="cpu")
        if self.data["mask"] is None or (self.data["kind"], self.mask_choice) == ("scores", "none"):
            return None
        return encoding.decode(self.data["mask"])

    @property
    def weights(self) -> Tensor:
        """The weights on the map, (L, S), as `shown` gives them; others can be set, live."""
        return self.shown()

    @weights.setter
    def weights(self, new: Any) -> None:
        """Show other weights of the same tokens."""
        numbers, sizes = torch.stack(as_layers(new)), self.data["values"]["shape"]
        if list(numbers.shape[-2:]) != sizes[-2:]:
            wanted, got = tuple(sizes[-2:]), tuple(numbers.shape[-2:])
            raise ValueError(f"weights must still be (L, S) = {wanted}, got {got}")
        with self.hold_sync():
            self.data = {**self.data, "kind": "weights", "values": encoding.encode_weights(numbers)}
            self.layer = min(self.layer, len(numbers) - 1)
            self.head = min(self.head, numbers.shape[1] - 1)

    def _picture(self) -> dict[str, Any]:
        names = {"query_tokens": self.data["queries"], "key_tokens": self.data["keys"]}
        return {"weights": self.shown(), "mask": self._mask(), "title": self.data["title"], **names}

    def _summary(self) -> str:
        layers, heads, L, S = self.data["values"]["shape"]
        shown = self.shown()
        many = f", {layers} layers" * (layers > 1) + f", {heads} heads" * (heads > 1)
        return f"{L} queries x {S} keys{many}, weights {shown.min():.2f} to {shown.max():.2f}"

    def _table(self) -> Table:
        return weights_table(self.shown(), self._mask(), self.data["queries"], self.data["keys"])


def weights_table(
    weights: Tensor, mask: Tensor | None, queries: Sequence[str] | None, keys: Sequence[str] | None
) -> Table:
    """A map (L, S) as a table; a large one as the strongest key of each query."""
    L, S = weights.shape
    row_names = queries or [f"query {i}" for i in range(L)]
    column_names = keys or [f"key {j}" for j in range(S)]
    if weights.numel() > MOST_CELLS:
        most, keys_read = weights.max(-1)
        strongest = zip(row_names, keys_read.tolist(), most.tolist(), strict=True)
        rows = [[name, str(key), f"{weight:.2f}"] for name, key, weight in strongest]
        return "For each query, the key it reads most.", ["key", "weight"], rows
    shown = (weights if mask is None else weights.masked_fill(~mask, math.nan)).tolist()
    cells = [["masked" if math.isnan(x) else f"{x:.2f}" for x in row] for row in shown]
    rows = [[name, *row] for name, row in zip(row_names, cells, strict=True)]
    return "Attention weights: rows are queries, columns are keys.", column_names, rows
