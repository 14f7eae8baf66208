"""Keys and values kept from one step to the next, so that a step costs one token (chapter 6).

A causal layer never needs an old query again, and its old keys and values never change: what has
been computed for a prefix holds for every continuation of it.
"""

import copy

import torch
from torch import Tensor

__all__ = ["KVCache"]


class KVCache:
    """The keys and values of one attention layer so far. Chapters 6 and 7.

    Every update makes new tensors, so a forked cache needs no copy, and a tensor that was returned
    never changes. Joining copies what is held: n updates of one token copy n²/2 tokens in all.

    Example:
        >>> cache = KVCache()
        >>> keys, values = cache.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> keys, values = cache.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4))
        >>> keys.shape, cache.length
        (torch.Size([1, 2, 4, 4]), 4)
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None  # (B, G, S, D)
        self.values: Tensor | None = None  # (B, G, S, Dv)

    def __repr__(self) -> str:
        return f"KVCache(length={self.length})"

    @property
    def length(self) -> int:
        """S, the number of tokens held."""
        return 0 if self.keys is None else self.keys.shape[2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys (B, G, L, D) and values (B, G, L, Dv); return all S that are held now."""
        self._check(key, value)
        if self.keys is None or self.values is None:
            self.keys, self.values = key, value
        elif key.shape[2]:
            self.keys = torch.cat((self.keys, key), dim=2)  # (B, G, S, D)
            self.values = torch.cat((self.values, value), dim=2)  # (B, G, S, Dv)
        return self.keys, self.values

    def fork(self) -> "KVCache":
        """A second cache that holds the same tokens and is updated independently."""
        return copy.copy(self)

    def select(self, index: Tensor) -> "KVCache":
        """A new cache whose row n is this cache's row `index[n]`; `index` has shape (B',)."""
        other = KVCache()
        if self.keys is not None and self.values is not None:
            other.keys, other.values = self.keys[index], self.values[index]
        return other

    def _check(self, key: Tensor, value: Tensor) -> None:
        """Raise unless there is one value per key, and both match what is held."""
        got = f"got key {tuple(key.shape)} and value {tuple(value.shape)}"
        if key.dim() != 4 or value.dim() != 4 or key.shape[:3] != value.shape[:3]:
            raise ValueError(
                f"key and value must have shapes (B, G, L, D) and (B, G, L, Dv), {got}"
            )
        for name, new, old in (("key", key, self.keys), ("value", value, self.values)):
            if old is None:
                continue
            if (new.shape[:2], new.shape[3]) != (old.shape[:2], old.shape[3]):
                raise ValueError(
                    f"key and value must match the cached tensors in all axes but L; the cached "
                    f"{name} has shape {tuple(old.shape)}, {got}"
                )
            if new.dtype != old.dtype:
                raise TypeError(f"{name} must be {old.dtype} like the cached one, got {new.dtype}")
