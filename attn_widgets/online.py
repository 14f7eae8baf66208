"""The softmax computed tile by tile (chapter 10)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor

from attn_widgets.base import DataWidget, Table
from attn_widgets.encoding import as_finite, check_tokens

__all__ = ["OnlineSoftmax", "Tiles"]

MOST = 64  # keys: a page draws them all


class Tiles(NamedTuple):
    """What is known after each of the T tiles."""

    maximum: Tensor  # (T,): of the scores so far
    exps: Tensor  # (T, S): e^(score - maximum) of the keys so far, 0 for the others
    total: Tensor  # (T,): their sum
    output: Tensor  # (T, 2): the mean of the values so far, weighted by them


class OnlineSoftmax(DataWidget):
    r"""One query's softmax tile by tile: the maximum and the sum move, the output is rescaled.

    Args:
        scores: (S,), at most 64 keys; a score of $-\infty$ is a masked key's.
        values: (S, 2), drawn as points in the plane.
        tile: how many scores arrive at once.
        tokens: S names of the keys.

    Example:
        >>> OnlineSoftmax([0.0, 0.0, 9.0], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], tile=2)
        OnlineSoftmax(3 keys, tile 1 of 2: maximum 0.00, sum 2.00, output 0.50 0.50)
    """

    _widget = "online"
    scores: traitlets.List[Any] = traitlets.List().tag(sync=True)
    masked: traitlets.List[Any] = traitlets.List().tag(sync=True)  # which keys
    tile = traitlets.Int(4, min=1, max=MOST).tag(sync=True)
    step = traitlets.Int(0, min=0, max=MOST).tag(sync=True)
    key = traitlets.Int(0, min=0, max=MOST).tag(sync=True)
    forget = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        scores: Sequence[float] | Tensor,
        values: Sequence[Sequence[float]] | Tensor,
        *,
        tile: int = 4,
        tokens: Sequence[str] | None = None,
    ) -> None:
        found = torch.as_tensor(scores, dtype=torch.float64, device="cpu")
        masked = found == -math.inf
        scores = as_finite("scores", found.masked_fill(masked, 0.0), 1)
        values = as_finite("values", values, 2)
        if values.shape != (len(scores), 2) or len(scores) > MOST:
            shapes = f"{tuple(scores.shape)} and {tuple(values.shape)}"
            most = f"(S,) and (S, 2) with at most {MOST} keys"
            raise ValueError(f"scores and values must be {most}, got {shapes}")
        names = list(map(str, range(len(scores)))) if tokens is None else tokens
        # Four decimals: finer than a pixel, and the same on every machine.
        points, numbers = (x.round(decimals=4).tolist() for x in (values, scores))
        data = {"values": points, "tokens": check_tokens("tokens", names, len(scores))}
        at = [n for n, one in enumerate(masked.tolist()) if one]
        super().__init__(data=data, scores=numbers, masked=at, tile=tile)

    @traitlets.validate("scores")
    def _check_scores(self, proposal: Any) -> Any:
        scores, S = list(map(float, proposal["value"])), len(self.data["values"])
        if len(scores) != S or not all(map(math.isfinite, scores)):
            raise traitlets.TraitError(f"scores must be {S} finite numbers, got {scores}")
        return scores

    def shown(self) -> Tiles:
        """What each tile leaves behind; wrong where the widget forgets to rescale."""
        values = torch.tensor(self.data["values"], dtype=torch.float64, device="cpu")
        scores = torch.tensor(self.scores, dtype=torch.float64, device="cpu")
        keys = torch.arange(len(scores), device="cpu")
        scores[[n for n in self.masked if n < len(scores)]] = -math.inf
        tiles = scores.split(self.tile)
        maximum = torch.stack([tile.amax() for tile in tiles]).cummax(0).values  # (T,)
        seen = keys < self.tile * torch.arange(1, len(tiles) + 1, device="cpu")[:, None]  # (T, S)
        # Who forgets leaves each key at the maximum that its own tile was measured against.
        against = maximum[keys // self.tile] if self.forget else maximum[:, None]
        exps = (scores - against).exp().where(seen & (scores > -math.inf), 0.0)  # (T, S)
        total = exps.sum(-1)
        output = exps @ values / total.clamp_min(torch.finfo(total.dtype).tiny)[:, None]
        return Tiles(maximum, exps, total, output)

    def _summary(self) -> str:
        maximum, _, total, output = self.shown()
        at = min(self.step, len(total) - 1)
        where = f"{len(self.scores)} keys, tile {at + 1} of {len(total)}"
        x, y = output[at]
        found = f"maximum {maximum[at]:.2f}, sum {total[at]:.2f}, output {x:.2f} {y:.2f}"
        return f"{where}: {found}{', not rescaled' * self.forget}"

    def _table(self) -> Table:
        rows = []
        for n, (m, _, total, (x, y)) in enumerate(zip(*self.shown(), strict=True)):
            last = min((n + 1) * self.tile, len(self.scores)) - 1
            numbers = (f"{number:.3f}" for number in (m, total, x, y))
            rows.append([f"{n * self.tile} to {last}", *numbers])
        caption = f"The softmax of {len(self.scores)} scores in tiles of {self.tile}."
        return caption, ["maximum", "sum", "output x", "output y"], rows
