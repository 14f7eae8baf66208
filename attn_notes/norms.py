"""Root-mean-square norm: a layer norm that subtracts no mean (chapter 12)."""

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_floating, check_shapes


class RMSNorm(nn.Module):
    r"""$y_i=\gamma_i\,x_i\big/\sqrt{\tfrac1E\sum_jx_j^2+\epsilon}$. Chapter 12.

    Zhang and Sennrich (2019). The length of a vector no longer matters, its mean still does. `eps`
    keeps a vector of zeros at 0; where the mean square is as small as `eps`, the length shows
    again. 16-bit vectors are normalised in 32 bits, and rounded once.

    Example:
        >>> x = torch.tensor([3.0, 4.0])
        >>> norm = RMSNorm(2)
        >>> norm(x).mul(10).round(), torch.allclose(norm(x), norm(7 * x))
        (tensor([ 8., 11.], grad_fn=<RoundBackward0>), True)
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width, device=torch.get_default_device()))

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) to (..., E), each vector by itself."""
        check_shapes(x=(x, f"... {len(self.weight)}"))
        check_floating(x=x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)  # (..., 1)
        return (self.weight * wide * scale).to(x.dtype)
