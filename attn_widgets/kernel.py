"""Kernel regression in the reader's hands (chapter 1)."""

from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes import kernels
from attn_widgets.base import DataWidget, Table
from attn_widgets.encoding import as_finite

KERNELS = ("gaussian", "boxcar", "triangular", "epanechnikov")


class KernelExplorer(DataWidget):
    """Drag the points and the query; change kernel and width; see the weights and the fit.

    Keys and values (S,) are the points; the bandwidth is from 0.01 to 100; `truth` is (x, y), two
    tensors (N,) of a curve to compare with.

    Example:
        >>> KernelExplorer(torch.tensor([0.0, 1.0]), torch.tensor([10.0, 20.0]), query=0.5)
        KernelExplorer(2 points, gaussian kernel of width 0.50: 15.00 at 0.50)
    """

    _widget = "kernel"
    xs: traitlets.List[Any] = traitlets.List().tag(sync=True)
    ys: traitlets.List[Any] = traitlets.List().tag(sync=True)
    query = traitlets.Float(0.0).tag(sync=True)
    kernel = traitlets.Enum(KERNELS, "gaussian").tag(sync=True)
    bandwidth = traitlets.Float(0.5, min=0.01, max=100.0).tag(sync=True)
    point = traitlets.Int(0, min=0).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        *,
        query: float = 0.0,
        bandwidth: float = 0.5,
        truth: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        xs, ys = _points("keys and values", keys, values)
        curve = None if truth is None else dict(zip("xy", _points("truth", *truth), strict=True))
        query = round(float(query), 4)
        super().__init__(data={"truth": curve}, xs=xs, ys=ys, query=query, bandwidth=bandwidth)

    def predict(self) -> tuple[float, Tensor]:
        """The prediction at the query, and the weights (S,) that it averages with."""
        lists = ([self.query], self.xs, self.ys)
        numbers = (torch.tensor(one, dtype=torch.float64, device="cpu") for one in lists)
        kernel, width = getattr(kernels, f"{self.kernel}_kernel"), self.bandwidth
        output, weights = kernels.nadaraya_watson(*numbers, kernel=kernel, bandwidth=width)
        return float(output[0]), weights[0]

    def _summary(self) -> str:
        kernel = f"{self.kernel} kernel of width {self.bandwidth:.2f}"
        there = f"{self.predict()[0]:.2f} at {self.query:.2f}"
        return f"{len(self.xs)} points, {kernel}: {there}"

    def _table(self) -> Table:
        columns = self.xs, self.ys, self.predict()[1].tolist()
        rows = [[f"{x:.2f}", f"{y:.2f}", f"{w:.3f}"] for x, y, w in zip(*columns, strict=True)]
        caption = f"Weights of the query {self.query:.2f}, {self.kernel} kernel."
        return caption, ["value", "weight"], rows


def _points(name: str, x: Tensor, y: Tensor) -> list[list[float]]:
    """Coordinates in four decimals: finer than a pixel, and the same on every machine."""
    pair = as_finite(f"x of {name}", x, 1), as_finite(f"y of {name}", y, 1)
    if pair[0].shape != pair[1].shape:
        shapes = f"{tuple(pair[0].shape)} and {tuple(pair[1].shape)}"
        raise ValueError(f"{name} must have the same shape (N,), got {shapes}")
    return [numbers.round(decimals=4).tolist() for numbers in pair]
