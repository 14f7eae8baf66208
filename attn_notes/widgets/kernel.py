"""Kernel regression in the reader's hands (chapter 1)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes import kernels
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import finite

__all__ = ["KERNELS", "KernelExplorer"]

KERNELS = {
    "gaussian": kernels.gaussian_kernel,
    "boxcar": kernels.boxcar_kernel,
    "triangular": kernels.triangular_kernel,
    "epanechnikov": kernels.epanechnikov_kernel,
}


class KernelExplorer(BookWidget):
    """Drag the points and the query; change kernel and width; see the weights and the fit.

    Args:
        keys: (S,), where the points are.
        values: (S,), their labels.
        query: where to predict at first.
        kernel: one of `gaussian boxcar triangular epanechnikov`.
        bandwidth: the kernel's width, from 0.01 to 100.
        truth: (x, y), two tensors (N,) of a curve to compare with.

    Raises:
        TypeError: points that are not numbers.
        ValueError: other shapes, NaN or infinity, an unknown kernel, a width out of range.

    Example:
        >>> KernelExplorer(torch.tensor([0.0, 1.0]), torch.tensor([10.0, 20.0]), query=0.5)
        KernelExplorer(2 points, gaussian kernel of width 0.50: 15.00 at 0.50)
    """

    _widget = "kernel"

    data = traitlets.Dict().tag(sync=True)
    xs: traitlets.List[Any] = traitlets.List().tag(sync=True)
    ys: traitlets.List[Any] = traitlets.List().tag(sync=True)
    query = traitlets.Float(0.0).tag(sync=True)
    kernel = traitlets.Enum(tuple(KERNELS), "gaussian").tag(sync=True)
    bandwidth = traitlets.Float(0.5).tag(sync=True)
    point = traitlets.Int(0).tag(sync=True)
    shared_scale = traitlets.Bool(True).tag(sync=True)

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        *,
        query: float = 0.0,
        kernel: str = "gaussian",
        bandwidth: float = 0.5,
        truth: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        keys, values = finite("keys", keys, 1), finite("values", values, 1)
        if keys.shape != values.shape:
            raise ValueError(
                "keys and values must have the same shape (S,), got "
                f"{tuple(keys.shape)} and {tuple(values.shape)}"
            )
        if kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}")
        if not math.isfinite(query):
            raise ValueError(f"query must be finite, got {query}")
        data: dict[str, Any] = {"truth": None}
        if truth is not None:
            x, y = finite("truth x", truth[0], 1), finite("truth y", truth[1], 1)
            if x.shape != y.shape:
                raise ValueError(
                    f"truth must be two tensors (N,), got {tuple(x.shape)} and {tuple(y.shape)}"
                )
            data["truth"] = {"x": _rounded(x), "y": _rounded(y)}
        super().__init__(
            data=data,
            xs=_rounded(keys),
            ys=_rounded(values),
            query=round(float(query), 4),
            kernel=kernel,
            bandwidth=bandwidth,
        )

    @traitlets.validate("bandwidth")
    def _positive(self, proposal: Any) -> float:
        if not 0.01 <= proposal["value"] <= 100:
            raise ValueError(f"bandwidth must be from 0.01 to 100, got {proposal['value']}")
        return float(proposal["value"])

    @traitlets.validate("point")
    def _one_of_them(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < len(self.xs):
            raise traitlets.TraitError(
                f"point must be from 0 to {len(self.xs) - 1}, got {proposal['value']}"
            )
        return int(proposal["value"])

    def predict(self) -> tuple[float, Tensor]:
        """The prediction at the query, and the weights it averages with.

        Returns:
            The prediction, and (S,) weights, float64.
        """
        keys = torch.tensor(self.xs, dtype=torch.float64, device="cpu")
        values = torch.tensor(self.ys, dtype=torch.float64, device="cpu")
        query = torch.tensor([self.query], dtype=torch.float64, device="cpu")
        output, weights = kernels.nadaraya_watson(
            query, keys, values, kernel=KERNELS[self.kernel], bandwidth=self.bandwidth
        )
        return float(output[0]), weights[0]

    def _summary(self) -> str:
        return (
            f"{len(self.xs)} points, {self.kernel} kernel of width {self.bandwidth:.2f}: "
            f"{self.predict()[0]:.2f} at {self.query:.2f}"
        )

    def _table(self) -> Table:
        _, weights = self.predict()
        rows: list[Sequence[str]] = [
            [f"{x:.2f}", f"{y:.2f}", f"{w:.3f}"]
            for x, y, w in zip(self.xs, self.ys, weights.tolist(), strict=True)
        ]
        caption = f"Weights of the query {self.query:.2f}, {self.kernel} kernel."
        return caption, ["value", "weight"], rows


def _rounded(numbers: Tensor) -> list[float]:
    """Four decimals: finer than a pixel, and the same on every machine."""
    return [round(x, 4) for x in numbers.tolist()]
