"""Painting a mask, cell by cell (chapter 3)."""

from collections.abc import Sequence

import torch
import traitlets
from torch import Tensor

from attn_notes import masks
from attn_notes.arguments import check_mask
from attn_widgets import encoding
from attn_widgets.base import DataWidget, Table, plural
from attn_widgets.heatmap import weights_table

SIZED = ("window", "prefix", "padding", "block")  # patterns that a size changes
PRESETS = ("none", "causal", *SIZED)


class MaskPainter(DataWidget):
    """Paint a mask, combine it with a second, and see the weights, the empty rows, the sources.

    The weights are the softmax of the scores (L, S) under the mask, `True` = may attend, all True
    at first by default. The tokens of the rows serve the columns too where L = S.

    Example:
        >>> MaskPainter(torch.zeros(2, 2), mask=torch.tensor([[True, False], [False, False]]))
        MaskPainter(2 queries x 2 keys, 1 cell open, 1 empty row)
    """

    _widget = "mask"
    painted = traitlets.Dict().tag(sync=True)
    size = traitlets.Int(2, min=1).tag(sync=True)
    second = traitlets.Enum(PRESETS, "none").tag(sync=True)
    second_size = traitlets.Int(2, min=1).tag(sync=True)
    combine = traitlets.Enum(("and", "or"), "and").tag(sync=True)
    layers = traitlets.Int(2, min=1, max=8).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        scores: Tensor,
        *,
        mask: Tensor | None = None,
        query_tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
    ) -> None:
        scores = encoding.as_finite("scores", scores, 2)
        L, S = scores.shape
        if mask is None:
            mask = torch.ones(L, S, dtype=torch.bool, device="cpu")
        check_mask(mask, scores.shape)
        tokens = encoding.check_axes(L, S, query_tokens, key_tokens)
        data = {"scores": encoding.encode_scores(scores), **tokens}
        super().__init__(data=data, painted=encoding.encode_mask(mask.expand(L, S)))

    @property
    def attn_mask(self) -> Tensor:
        """The mask as painted and combined: (L, S), bool, ready for `attn_mask=`."""
        painted = encoding.decode(self.painted)
        if self.second == "none":
            return painted
        (L, S), size = painted.shape, self.second_size
        queries, keys = torch.arange(L, device="cpu"), torch.arange(S, device="cpu")
        make = {
            "causal": lambda: masks.causal_mask(L, S, device="cpu"),
            "window": lambda: masks.sliding_window_mask(L, S, window=size, device="cpu"),
            "prefix": lambda: masks.prefix_mask(L, S, prefix=min(size, S), device="cpu"),
            "padding": lambda: (keys < size).expand(L, S),
            "block": lambda: masks.block_mask(queries // size, keys // size),
        }
        second = make[self.second]()
        return painted & second if self.combine == "and" else painted | second

    def shown(self) -> Tensor:
        """The weights under the mask, (L, S)."""
        return masks.masked_softmax(encoding.decode(self.data["scores"]), self.attn_mask)

    def _summary(self) -> str:
        mask = self.attn_mask
        L, S = mask.shape
        cells, empty = int(mask.sum()), int((~mask.any(-1)).sum())
        return f"{L} queries x {S} keys, {plural(cells, 'cell')} open, {plural(empty, 'empty row')}"

    def _table(self) -> Table:
        return weights_table(self.shown(), self.attn_mask, self.data["queries"], self.data["keys"])
