r"""Nadaraya-Watson kernel regression: attention with nothing learned, or one width (chapter 1).

The prediction at a query is a weighted average of the values, and the weights fall with the
distance from the query to each key: $f(x)=\sum_i\frac{K((x-x_i)/h)}{\sum_jK((x-x_j)/h)}\,y_i$.
A kernel K maps distances in units of the bandwidth h, of any shape, to heights of that shape; its
integral is 1.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_floating, check_positive, check_shapes
from attn_notes.masks import masked_softmax

Kernel = Callable[[Tensor], Tensor]


def gaussian_kernel(u: Tensor) -> Tensor:
    r"""$\frac1{\sqrt{2\pi}}e^{-u^2/2}$: every key counts, however far. Chapter 1.

    From 0 to 0.399. It underflows to 0 from u = 14 in float32, so `nadaraya_watson` works with its
    logarithm.

    Example:
        >>> gaussian_kernel(torch.tensor([0.0, 1.0]))
        tensor([0.3989, 0.2420])
    """
    return torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi)


def boxcar_kernel(u: Tensor) -> Tensor:
    r"""$\tfrac12\,\mathbb 1(|u|\le 1)$: a plain average of the keys in reach. Chapter 1.

    Example:
        >>> boxcar_kernel(torch.tensor([0.0, 1.0, 1.5]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    return 0.5 * (u.abs() <= 1).to(u.dtype)


def triangular_kernel(u: Tensor) -> Tensor:
    r"""$(1-|u|)_+$: falls in a straight line. Chapter 1.

    Example:
        >>> triangular_kernel(torch.tensor([0.0, 0.5, 1.5]))
        tensor([1.0000, 0.5000, 0.0000])
    """
    return (1 - u.abs()).clamp(min=0)


def epanechnikov_kernel(u: Tensor) -> Tensor:
    r"""$\tfrac34(1-u^2)_+$: of all non-negative kernels the least error as n grows. Chapter 1.

    Epanechnikov (1969). Often confused with the triangular kernel.

    Example:
        >>> epanechnikov_kernel(torch.tensor([0.0, 0.5, 1.5]))
        tensor([0.7500, 0.5625, 0.0000])
    """
    return 0.75 * (1 - u.square()).clamp(min=0)


def nadaraya_watson(
    queries: Tensor, keys: Tensor, values: Tensor, *,
    bandwidth: float | Tensor = 1.0, kernel: Kernel = gaussian_kernel,
    exclude_self: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Predict at each query the average of the values, weighted by nearness of their keys.

    Nadaraya (1964), Watson (1964); chapter 1.

    Args:
        queries: (..., L), where to predict.
        keys: (..., S), the training inputs.
        values: (..., S), their labels.
        bandwidth: the kernel's width, above 0; or a tensor of widths that broadcasts to
            (..., L, S), whose values are not checked: to read them would make a GPU wait.
        kernel: a function of the distance in bandwidths, even and not negative.
        exclude_self: leave key i out for query i, as leave-one-out validation does. The queries
            are then the keys: L = S.

    Returns:
        Outputs (..., L) and weights (..., L, S). Rows of weights sum to 1. With the Gaussian
        they do so at any distance whose square the dtype holds (255 widths in half precision);
        a kernel of bounded support with no key in reach gives weights 0 and output 0.

    Example:
        >>> keys, values = torch.tensor([0.0, 1.0]), torch.tensor([10.0, 20.0])
        >>> outputs, weights = nadaraya_watson(torch.tensor([0.5, 50.0]), keys, values)
        >>> outputs
        tensor([15., 20.])
    """
    check_points(queries, keys, values, exclude_self, bandwidth)
    u = (queries[..., None] - keys[..., None, :]) / bandwidth  # (..., L, S)
    may = others(u) if exclude_self else None
    if kernel is gaussian_kernel:  # far away its heights underflow to 0
        weights = masked_softmax(-u.square() / 2, may)
    else:
        heights = kernel(u) if may is None else kernel(u) * may
        total = heights.sum(-1, keepdim=True)  # (..., L, 1)
        weights = heights / total.masked_fill(total == 0, 1.0)  # 0/1 = 0
    return (weights @ values[..., None]).squeeze(-1), weights


class KernelRegression(nn.Module):
    r"""Nadaraya-Watson with a learned width: softmax($-\tfrac12((x-x_i)w)^2$). Chapter 1.

    The parameter is `w`, the inverse of the width, and not the width: $w\to0$ is then the plain
    average, an ordinary point of the parameter space, where a width would have to be infinite.

    Example:
        >>> model = KernelRegression(w=4.0)
        >>> model.bandwidth
        tensor(0.2500)
    """

    def __init__(self, w: float = 1.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(float(w), device=torch.get_default_device()))

    @property
    def bandwidth(self) -> Tensor:
        """The width, 1/abs(w), detached; infinite at w = 0."""
        return 1 / self.w.detach().abs()

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, *, exclude_self: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Predict as `nadaraya_watson` does; train with `exclude_self` where queries are keys."""
        check_points(queries, keys, values, exclude_self)
        u = (queries[..., None] - keys[..., None, :]) * self.w  # (..., L, S)
        weights = masked_softmax(-u.square() / 2, others(u) if exclude_self else None)
        return (weights @ values[..., None]).squeeze(-1), weights


def others(u: Tensor) -> Tensor:
    """The mask that hides from each query the key at its own place: (L, L) for u (..., L, L)."""
    return ~torch.eye(u.shape[-1], dtype=torch.bool, device=u.device)


def check_points(
    queries: Tensor, keys: Tensor, values: Tensor, exclude_self: bool, width: float | Tensor = 1.0
) -> None:
    """Raise unless queries (..., L), keys (..., S), values (..., S) and a width above 0 fit."""
    if not isinstance(width, Tensor):
        check_positive(bandwidth=width)
    check_floating(queries=queries, keys=keys, values=values)
    asked = "... S" if exclude_self else "... L"  # then the queries are the keys
    check_shapes(queries=(queries, asked), keys=(keys, "... S"), values=(values, "... S"))
