"""Attribution to the inputs: attention rolled out, and integrated gradients (chapter 11)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attn_notes.arguments import check_broadcast, check_integers, check_shapes


def rollout(weights: Sequence[Tensor]) -> Tensor:
    r"""Attention rollout: how the maps of all layers reach back to the inputs. Chapter 11.

    Abnar and Zuidema (2020): the product of $\tfrac12(A_n+I)$ over the layers, each map (..., H, L,
    L) a mean over heads, the first layer first; the half that stays stands for the residual stream.
    It knows no value and no weight but the maps. Row t of (..., L, L) holds how much of t comes
    from each input; rows sum to 1.

    Example:
        >>> layer = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])  # one head: both read token 1
        >>> rollout([layer, layer])
        tensor([[1.0000, 0.0000],
                [0.7500, 0.2500]])
    """
    first = weights[0]
    check_shapes(weights=(first, "... H L L"))  # a map of another layer would not fit the product
    total = itself = torch.eye(first.shape[-1], dtype=first.dtype, device=first.device)  # (L, L)
    for layer in weights:
        kept = layer.mean(-3) + itself  # (..., L, L)
        total = kept / kept.sum(-1, keepdim=True) @ total
    return total


def integrated_gradients(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    baseline: Tensor | None = None,
    *,
    steps: int = 32,
) -> Tensor:
    r"""How much each entry of an input adds to an output, against a baseline. Chapter 11.

    Sundararajan et al. (2017): $(x-x')\int_0^1\nabla f(x'+a(x-x'))\,da$, here as a mean over the
    middles of equal steps. Completeness: for a scalar f the sum is $f(x)-f(x')$, up to an error
    that falls with the square of the number of steps, and that a caller can see.

    The function is from a tensor like x to a tensor, whose sum is attributed: with one entry for
    each row of a batch, and rows independent, each row is attributed apart. For embeddings, it runs
    the model inside `patch(model, {"body.embeddings": x})`. The baseline broadcasts to x; 0 by
    default.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> integrated_gradients(lambda x: x[0] * x[1] ** 2, x)
        tensor([1.3330, 2.6660])
    """
    check_integers(1, steps=steps)
    baseline = torch.zeros_like(x) if baseline is None else baseline
    check_broadcast("baseline", baseline, x.shape, of="x")
    x, baseline = x.detach(), baseline.detach()
    total = torch.zeros_like(x)
    for step in range(steps):
        point = torch.lerp(baseline, x, (step + 0.5) / steps).requires_grad_()
        with torch.enable_grad():
            output = function(point).sum()
        total = total + torch.autograd.grad(output, point)[0]
    return (x - baseline) * total / steps
