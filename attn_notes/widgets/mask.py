"""Painting a mask, cell by cell (chapter 3)."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.arguments import check_mask
from attn_notes.masks import (
    block_mask,
    causal_mask,
    masked_softmax,
    prefix_mask,
    sliding_window_mask,
)
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import decode, encode_mask, encode_scores, finite, tokens_for
from attn_notes.widgets.heatmap import weights_table

__all__ = ["MaskPainter"]

PRESETS = ("none", "causal", "window", "prefix", "padding", "block")


class MaskPainter(BookWidget):
    """Paint a mask, combine it with a second, and see the weights, the empty rows, the sources.

    Args:
        scores: (L, S), finite; the weights are their softmax under the mask.
        mask: (L, S), bool, `True` = may attend, to start from; all True by default.
        query_tokens: L strings for the rows; serve the columns too where L = S.
        key_tokens: S strings for the columns.

    Raises:
        TypeError: scores that are not numbers, a mask that is not bool, tokens not strings.
        ValueError: other shapes, NaN or infinity, a mask or tokens of another size.

    Example:
        >>> MaskPainter(torch.zeros(2, 2), mask=torch.tensor([[True, False], [False, False]]))
        MaskPainter(2 queries x 2 keys, 1 cell open, 1 empty row)
    """

    _widget = "mask"

    data = traitlets.Dict().tag(sync=True)
    painted = traitlets.Dict().tag(sync=True)
    size = traitlets.Int(2, min=1).tag(sync=True)
    second = traitlets.Enum(PRESETS, "none").tag(sync=True)
    second_size = traitlets.Int(2, min=1).tag(sync=True)
    combine = traitlets.Enum(("and", "or"), "and").tag(sync=True)
    layers = traitlets.Int(1, min=1, max=8).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        scores: Tensor,
        *,
        mask: Tensor | None = None,
        query_tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
    ) -> None:
        scores = finite("scores", scores, 2)
        L, S = scores.shape
        if mask is None:
            mask = torch.ones(L, S, dtype=torch.bool, device="cpu")
        check_mask(mask, scores.shape)
        queries = tokens_for("query_tokens", query_tokens, L)
        keys = tokens_for("key_tokens", key_tokens, S)
        if keys is None and L == S:
            keys = queries
        data = {"scores": encode_scores(scores), "queries": queries, "keys": keys}
        super().__init__(data=data, painted=encode_mask(mask.expand(L, S)))

    @traitlets.validate("painted")
    def _same_shape(self, proposal: Any) -> Any:
        wanted, got = self.data["scores"]["shape"], proposal["value"].get("shape")
        if got != wanted or proposal["value"].get("bits") != 1:
            raise traitlets.TraitError(f"painted must be an encoded mask {wanted}, got {got}")
        return proposal["value"]

    @property
    def attn_mask(self) -> Tensor:
        """The mask as painted and combined: (L, S), bool, ready for `attn_mask=`."""
        painted = decode(self.painted)
        if self.second == "none":
            return painted
        L, S = painted.shape
        second = _preset(self.second, L, S, self.second_size)
        return painted & second if self.combine == "and" else painted | second

    def shown(self) -> Tensor:
        """The weights under the mask.

        Returns:
            (L, S), float64.
        """
        return masked_softmax(decode(self.data["scores"]), self.attn_mask)

    def _summary(self) -> str:
        mask = self.attn_mask
        L, S = mask.shape
        cells, empty = int(mask.sum()), int((~mask.any(-1)).sum())
        return (
            f"{L} queries x {S} keys, {cells} cell{'s' if cells != 1 else ''} open, "
            f"{empty} empty row{'s' if empty != 1 else ''}"
        )

    def _table(self) -> Table:
        return weights_table(self.shown(), self.attn_mask, self.data["queries"], self.data["keys"])


def _preset(name: str, L: int, S: int, size: int) -> Tensor:
    """(L, S): a mask by name, from the package's own functions."""
    device = torch.device("cpu")
    if name == "causal":
        return causal_mask(L, S, device=device)
    if name == "window":
        return sliding_window_mask(L, S, window=size, device=device)
    if name == "prefix":
        return prefix_mask(L, S, prefix=min(size, S), device=device)
    if name == "padding":
        return (torch.arange(S, device=device) < size).expand(L, S)
    if name == "block":
        segments = [torch.arange(n, device=device) // size for n in (L, S)]
        return block_mask(*segments)
    return torch.ones(L, S, dtype=torch.bool, device=device)
