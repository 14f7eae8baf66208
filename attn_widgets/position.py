"""Positions under one slider: clocks, the encoding, similarities, a pair that turns (chapter 6)."""

from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes import positions
from attn_notes.masks import masked_softmax
from attn_widgets.base import DataWidget, Offered, Table

SCHEMES = ("none", "sinusoidal", "rotary", "alibi")
DIMENSIONS, BASES = (4, 8, 16, 32, 64), (10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
MOST = 128  # positions and dimensions: a page draws and lists them all
WIDTHS = range(2, MOST + 1, 2)
HEADS = 8  # of ALiBi, as in its paper: slopes from 1/2 to 1/256
APART = 2.4  # radians from one pair of an unlike key to the next: all differ, none is a full turn


class PositionExplorer(DataWidget):
    """One position slider moves clock hands, the encoding's row, similarities and a turned pair.

    Each pair of numbers of a query or a key is (1, 0), an example; pair j of a key that is unlike
    the query is turned by an angle of 2.4 (j + 1).

    Args:
        embed_dim: E, even, from 2 to 128.
        length: L, how many positions there are, from 2 to 128.
        position: the one to start at; a quarter of the way by default.

    Example:
        >>> PositionExplorer(16, 64, position=20)
        PositionExplorer(sinusoidal, 16 dimensions, base 10,000: positions 20 and 15 give 6.14)
    """

    _widget = "position"
    scheme = traitlets.Enum(SCHEMES, "sinusoidal").tag(sync=True)
    embed_dim = Offered(lambda self: self.data["dimensions"], 32)
    base = traitlets.Enum(BASES, 1e4).tag(sync=True)  # b: hand j turns by b**(-2j/E) a position
    position = Offered(lambda self: range(self.data["length"]))
    distance = Offered(lambda self: range(1 - self.data["length"], self.data["length"]))
    pair = traitlets.Int(0, min=0, max=MOST // 2 - 1).tag(sync=True)  # ALiBi's head
    unlike = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        embed_dim: int = 32,
        length: int = 64,
        *,
        position: int | None = None,
    ) -> None:
        if embed_dim not in WIDTHS or length not in range(2, MOST + 1):
            wanted = f"embed_dim (even) and length must be from 2 to {MOST}"
            raise ValueError(f"{wanted}, got {embed_dim} and {length}")
        data = {
            "length": length,
            "dimensions": sorted({*DIMENSIONS, embed_dim}),
            "bases": list(BASES),
            "schemes": list(SCHEMES),
        }
        places = {"pair": min(2, embed_dim // 2 - 1), "distance": min(5, length - 1)}
        position = length // 4 if position is None else position
        super().__init__(data=data, embed_dim=embed_dim, position=position, **places)

    def shown(self) -> Tensor:
        """Encodings, or a query turned to each position, (L, E); ALiBi's bias (L, L)."""
        return self._bias() if self.scheme == "alibi" else self._vectors(0, self.data["length"])

    def similarity(self) -> Tensor:
        """(L,): the dot product of each position with the chosen one; ALiBi's weights there."""
        if self.scheme == "alibi":
            return masked_softmax(self._bias()[self.position])
        keys = self._vectors(0, self.data["length"], key=True)  # (L, E)
        return keys @ self._vectors(self.position, 1)[0]

    def meeting(self) -> float | None:
        """The curve at `position - distance`; None outside ALiBi's text."""
        other = self.position - self.distance
        if 0 <= other < self.data["length"]:
            return float(self.similarity()[other])
        if self.scheme == "alibi":  # a sinusoid and a rotation have no such edge
            return None
        return float(self._vectors(other, 1, key=True)[0] @ self._vectors(self.position, 1)[0])

    def _chosen(self) -> int:
        """The pair or head on show, or the last one if there are fewer."""
        return min(self.pair, (HEADS if self.scheme == "alibi" else self.embed_dim // 2) - 1)

    def _bias(self) -> Tensor:
        """(L, L): of ALiBi's chosen head."""
        heads = positions.alibi_bias(HEADS, self.data["length"], dtype=torch.float64, device="cpu")
        return heads[self._chosen()]

    def _vectors(self, first: int, length: int, *, key: bool = False) -> Tensor:
        """(length, E): encodings of positions from `first` on, or a query or key turned to them."""
        clocks: Any = {"offset": first, "base": self.base, "dtype": torch.float64, "device": "cpu"}
        E = self.embed_dim
        if self.scheme == "sinusoidal":
            return positions.sinusoidal_encoding(length, E, **clocks)
        apart = APART if key and self.unlike else 0.0
        angles = apart * torch.arange(1, E // 2 + 1, dtype=torch.float64, device="cpu")
        content = torch.stack((angles.cos(), angles.sin()), dim=-1).flatten().expand(length, E)
        if self.scheme != "rotary":
            return content
        return positions.apply_rotary(content, positions.rotary_angles(length, E, **clocks))

    def _means(self) -> str:
        """The scheme and its numbers, in words."""
        if self.scheme == "alibi":
            slope = float(positions.alibi_slopes(HEADS, device="cpu")[self._chosen()])
            return f"ALiBi, head {self._chosen()} of slope {slope:g}"
        size = f"{self.embed_dim} dimensions"
        clocks = f", base {self.base:,.10g}" if self.scheme in ("sinusoidal", "rotary") else ""
        return f"{'no positions' if self.scheme == 'none' else self.scheme}, {size}{clocks}"

    def _summary(self) -> str:
        both, value = f"positions {self.position} and", self.meeting()
        told = "do not meet" if value is None else f"give {value:.2f}"
        return f"{self._means()}: {both} {self.position - self.distance} {told}"

    def _table(self) -> Table:
        what = "Weights" if self.scheme == "alibi" else "Dot products"
        rows = [[str(p), f"{x:.2f}"] for p, x in enumerate(self.similarity().tolist())]
        return f"{what} of position {self.position} with each: {self._means()}.", ["value"], rows
