r"""Score functions: how well a key answers a query (chapter 2).

Every score is a module with one signature, `score(query, key) -> (..., L, S)`, for queries
(..., L, query_dim) and keys (..., S, key_dim) with the same leading axes. Any of them goes into
`attn_notes.attention.Attention`.
"""

import math

import torch
from torch import Tensor, nn

from attn_notes.arguments import check_integers
from attn_notes.attention import check_query_key

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "DotProductScore",
    "GaussianScore",
    "ScaledDotProductScore",
]


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
        """Scores (..., L, S), 0 or less.

        Args:
            query: (..., L, D).
            key: (..., S, D).

        Returns:
            (..., L, S); minus infinity, which counts as masked, where the square of the distance
            is beyond the dtype: 65504 in float16.

        Raises:
            TypeError: a query and a key of two dtypes, or not floating point.
            ValueError: shapes that do not fit.
        """
        check_query_key(query, key)
        difference = query[..., :, None, :] - key[..., None, :, :]  # (..., L, S, D)
        return -0.5 * difference.square().sum(-1)  # (..., L, S)


class DotProductScore(nn.Module):
    r"""$q^\top k$: no parameters, query and key of one width. Luong et al. (2015), "dot".

    Example:
        >>> DotProductScore()(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]))
        tensor([[3.]])
    """

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (..., L, S), of variance D for independent entries of variance 1.

        Args:
            query: (..., L, D).
            key: (..., S, D).

        Returns:
            (..., L, S).

        Raises:
            TypeError: a query and a key of two dtypes, or not floating point.
            ValueError: shapes that do not fit.
        """
        check_query_key(query, key)
        return query @ key.transpose(-2, -1)  # (..., L, S)


class ScaledDotProductScore(DotProductScore):
    r"""$q^\top k/\sqrt D$. Vaswani et al. (2017), equation 1.

    Example:
        >>> ScaledDotProductScore()(torch.ones(1, 4), torch.ones(1, 4))
        tensor([[2.]])
    """

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (..., L, S), of variance 1 for independent entries of variance 1.

        Args:
            query: (..., L, D).
            key: (..., S, D).

        Returns:
            (..., L, S).

        Raises:
            TypeError: a query and a key of two dtypes, or not floating point.
            ValueError: shapes that do not fit.
        """
        check_query_key(query, key)  # before the query becomes a float, or has no axis to divide by
        return super().forward(query / math.sqrt(query.shape[-1]), key)  # before: half overflows


class BilinearScore(nn.Module):
    r"""$q^\top W k$: query and key may differ in width. Luong et al. (2015), "general".

    Args:
        query_dim: width of the queries.
        key_dim: width of the keys.

    Raises:
        TypeError: a width that is not an integer.
        ValueError: a width below 1.

    Example:
        >>> BilinearScore(2, 3)(torch.ones(5, 2), torch.ones(7, 3)).shape
        torch.Size([5, 7])
    """

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        check_integers(1, query_dim=query_dim, key_dim=key_dim)
        self.query_dim, self.key_dim = query_dim, key_dim
        # W k for every key; the bias-free layer's weight is W itself, (query_dim, key_dim).
        self.weight = nn.Linear(key_dim, query_dim, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (..., L, S).

        Args:
            query: (..., L, query_dim).
            key: (..., S, key_dim).

        Returns:
            (..., L, S).

        Raises:
            TypeError: a query and a key of two dtypes, or not floating point.
            ValueError: shapes that do not fit.
        """
        _check_widths(query, key, self.query_dim, self.key_dim)
        return query @ self.weight(key).transpose(-2, -1)  # (..., L, S)


class AdditiveScore(nn.Module):
    r"""$w_v^\top\tanh(W_q q+W_k k)$, no biases. Bahdanau et al. (2015), appendix A.1.2.

    Args:
        query_dim: width of the queries.
        key_dim: width of the keys.
        hidden_dim: width of the layer in between.

    Raises:
        TypeError: a width that is not an integer.
        ValueError: a width below 1.

    Example:
        >>> AdditiveScore(2, 3, hidden_dim=4)(torch.ones(5, 2), torch.ones(7, 3)).shape
        torch.Size([5, 7])
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        check_integers(1, query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim)
        self.query_dim, self.key_dim = query_dim, key_dim
        self.q_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.k_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (..., L, S), within plus or minus the sum of `abs(v_proj.weight)`.

        Args:
            query: (..., L, query_dim).
            key: (..., S, key_dim).

        Returns:
            (..., L, S); (..., L, S, hidden_dim) of memory on the way.

        Raises:
            TypeError: a query and a key of two dtypes, or not floating point.
            ValueError: shapes that do not fit.
        """
        _check_widths(query, key, self.query_dim, self.key_dim)
        q = self.q_proj(query)[..., :, None, :]  # (..., L, 1, hidden_dim)
        k = self.k_proj(key)[..., None, :, :]  # (..., 1, S, hidden_dim)
        return self.v_proj(torch.tanh(q + k)).squeeze(-1)  # (..., L, S)


class ConcatScore(nn.Module):
    r"""$v^\top\tanh(W[q;k])$: one bias-free layer on the query joined to the key.

    Luong et al. (2015), "concat". It is `AdditiveScore` with $W=[W_q\ W_k]$ (chapter 2).

    Args:
        query_dim: width of the queries.
        key_dim: width of the keys.
        hidden_dim: width of the layer in between.

    Raises:
        TypeError: a width that is not an integer.
        ValueError: a width below 1.

    Example:
        >>> ConcatScore(2, 3, hidden_dim=4)(torch.ones(5, 2), torch.ones(7, 3)).shape
        torch.Size([5, 7])
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        check_integers(1, query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim)
        self.query_dim, self.key_dim = query_dim, key_dim
        self.proj = nn.Linear(query_dim + key_dim, hidden_dim, bias=False)
        self.v_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (..., L, S).

        Args:
            query: (..., L, query_dim).
            key: (..., S, key_dim).

        Returns:
            (..., L, S); (..., L, S, query_dim + key_dim) of memory on the way.

        Raises:
            TypeError: a query and a key of two dtypes, or not floating point.
            ValueError: shapes that do not fit.
        """
        _check_widths(query, key, self.query_dim, self.key_dim)
        S = key.shape[-2]
        q = query[..., :, None, :].expand(*query.shape[:-1], S, -1)  # (..., L, S, query_dim)
        k = key[..., None, :, :].expand(*query.shape[:-1], S, -1)  # (..., L, S, key_dim)
        pairs = torch.cat((q, k), dim=-1)  # (..., L, S, query_dim + key_dim)
        return self.v_proj(torch.tanh(self.proj(pairs))).squeeze(-1)  # (..., L, S)


def _check_widths(query: Tensor, key: Tensor, query_dim: int, key_dim: int) -> None:
    """Raise unless query and key fit each other and have the widths the score was made for."""
    check_query_key(query, key, same_width=False)
    if query.shape[-1] != query_dim or key.shape[-1] != key_dim:
        raise ValueError(
            f"query and key must have widths query_dim = {query_dim} and key_dim = {key_dim} "
            f"(last axis), got query {tuple(query.shape)} and key {tuple(key.shape)}"
        )
