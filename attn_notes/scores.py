r"""Score functions: how well a key answers a query (chapter 2).

A score is a module with one signature, `score(query, key) -> scores`:

- query (..., L, query_dim), floating point;
- key (..., S, key_dim), of the query's dtype (autocast may mix them) and leading axes;
- scores (..., L, S), one number for each query and key.

Scores without parameters need query_dim = key_dim = D. Any score goes into
`attn_notes.attention.Attention`.
"""

import math

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_attention


class GaussianScore(nn.Module):
    r"""$-\tfrac12\lVert q-k\rVert^2$: the softmax of it is a Gaussian kernel of width 1.

    Chapter 1 derives it; Nadaraya (1964), Watson (1964). The differences are formed one by one,
    (..., L, S, D) of memory: $q^\top k-\tfrac12\lVert q\rVert^2-\tfrac12\lVert k\rVert^2$ needs
    only (..., L, S), but cancels badly far from the origin.

    Example:
        >>> GaussianScore()(torch.zeros(1, 2), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        tensor([[-0., -1.]])
    """

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores of 0 or less; minus infinity (masked) where a square overflows the dtype."""
        check_attention(query, key)
        difference = query[..., :, None, :] - key[..., None, :, :]  # (..., L, S, D)
        return -0.5 * difference.square().sum(-1)  # (..., L, S)


class DotProductScore(nn.Module):
    r"""$q^\top k$: no parameters, query and key of the same width. Luong et al. (2015), "dot".

    Example:
        >>> DotProductScore()(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]))
        tensor([[3.]])
    """

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores of variance D for independent entries of variance 1."""
        check_attention(query, key)
        return query @ key.transpose(-2, -1)  # (..., L, S)


class ScaledDotProductScore(nn.Module):
    r"""$q^\top k/\sqrt D$. Vaswani et al. (2017), equation 1.

    Example:
        >>> ScaledDotProductScore()(torch.ones(1, 4), torch.ones(1, 4))
        tensor([[2.]])
    """

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores of variance 1 for independent entries of variance 1."""
        check_attention(query, key)
        # Divided before the product, which would overflow in half precision.
        query_scaled = query / math.sqrt(query.shape[-1])
        return query_scaled @ key.transpose(-2, -1)  # (..., L, S)


class BilinearScore(nn.Module):
    r"""$q^\top W k$: query and key may differ in width. Luong et al. (2015), "general"."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        # W k for every key; the bias-free layer's weight is W itself, (query_dim, key_dim).
        self.weight = nn.Linear(key_dim, query_dim, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores; with W the identity, those of `DotProductScore`."""
        return query @ self.weight(key).transpose(-2, -1)  # (..., L, S)


class AdditiveScore(nn.Module):
    r"""$w_v^\top\tanh(W_q q+W_k k)$, no biases. Bahdanau et al. (2015), appendix A.1.2.

    It needs (..., L, S, hidden_dim) of memory.

    Example:
        >>> AdditiveScore(2, 3, hidden_dim=4)(torch.ones(5, 2), torch.ones(7, 3)).shape
        torch.Size([5, 7])
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.k_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores within plus or minus the sum of `abs(v_proj.weight)`."""
        q = self.q_proj(query)[..., :, None, :]  # (..., L, 1, hidden_dim)
        k = self.k_proj(key)[..., None, :, :]  # (..., 1, S, hidden_dim)
        return self.v_proj(torch.tanh(q + k)).squeeze(-1)  # (..., L, S)


class ConcatScore(nn.Module):
    r"""$v^\top\tanh(W[q;k])$: `AdditiveScore` with $W=[W_q\ W_k]$ in one layer (chapter 2).

    Luong et al. (2015), "concat". It needs (..., L, S, query_dim + key_dim) of memory.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(query_dim + key_dim, hidden_dim, bias=False)
        self.v_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores within plus or minus the sum of `abs(v_proj.weight)`."""
        L, S = query.shape[-2], key.shape[-2]
        q = query.unsqueeze(-2).expand(*query.shape[:-1], S, -1)  # (..., L, S, query_dim)
        k = key.unsqueeze(-3).expand(*key.shape[:-2], L, S, -1)  # (..., L, S, key_dim)
        pairs = torch.cat((q, k), dim=-1)  # (..., L, S, query_dim + key_dim)
        return self.v_proj(torch.tanh(self.proj(pairs))).squeeze(-1)  # (..., L, S)
