"""Keys and values kept from one step to the next, so that a step costs one token (chapter 7).

A causal layer never needs an old query again, and its old keys and values never change: what has
been computed for a prefix holds for every continuation of it.
"""

import torch
from torch import Tensor

from attn_notes.arguments import shapes_of


class KVCache:
    """The keys (B, G, S, D) and values (B, G, S, Dv) of a layer so far. Chapters 6 and 7.

    The keys are held as the layer has rotated them.

    Example:
        >>> cache = KVCache()
        >>> keys, values = cache.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> keys, values = cache.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4))
        >>> keys.shape, cache.length
        (torch.Size([1, 2, 4, 4]), 4)
    """

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        self.keys, self.values = keys, values

    @property
    def length(self) -> int:
        """S, the number of tokens held."""
        return 0 if self.keys is None else self.keys.shape[2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys (B, G, L, D) and values (B, G, L, Dv); return all S that are held now."""
        if key.shape[:3] != value.shape[:3]:
            got = shapes_of(key=key, value=value)
            raise ValueError(f"key and value must share (B, G, L), got {got}")
        if self.keys is not None and self.values is not None:
            key = torch.cat((self.keys, key), dim=2)  # (B, G, S, D)
            value = torch.cat((self.values, value), dim=2)  # (B, G, S, Dv)
        self.keys, self.values = key, value
        return key, value

    def fork(self) -> "KVCache":
        """A second cache that holds the same tokens and is updated independently."""
        return type(self)(self.keys, self.values)

    def select(self, index: Tensor) -> "KVCache":
        """A new cache whose row n is this cache's row `index[n]`; `index` has shape (B',)."""
        if self.keys is None or self.values is None:
            return type(self)()
        return type(self)(self.keys[index], self.values[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={self.length})"


class GrowingCache(KVCache):
    """The same with room for more: a step copies one token where `torch.cat` copies them all.

    The room doubles when it is full. Forks share it: the first to go on writes into the next slot,
    another one moves to a room of its own, and no tensor that was returned ever changes. Where
    gradients are recorded, and in a compiled graph, tensors are joined as in `KVCache`.
    """

    _room: "_Room | None" = None

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """As in `KVCache`."""
        start, end = self.length, self.length + key.shape[2]
        is_recorded = torch.is_grad_enabled() or torch.compiler.is_compiling()
        held = () if self.keys is None or self.values is None else (self.keys, self.values)
        if is_recorded or not held or not (start < end and _follow(held, (key, value))):
            self._room = None
            return super().update(key, value)  # which also refuses what does not fit
        if self._room is None or not self._room.is_free(start, end):
            self._room = _Room(*held, start, 2 * end)
        self.keys, self.values = self._room.write(key, value, end)
        return self.keys, self.values

    def fork(self) -> "GrowingCache":
        """As in `KVCache`; both write into one room until they part."""
        other = GrowingCache(self.keys, self.values)
        other._room = self._room
        return other


def _follow(held: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> bool:
    """Whether new keys and values, as many, differ from those that are held in L alone."""
    kinds = [[(*x.shape[:2], x.shape[3:], x.dtype) for x in both] for both in (held, new)]
    return kinds[0] == kinds[1] and new[0].shape[2] == new[1].shape[2]


class _Room:
    """Slots for keys (B, G, slots, D) and values, of which the first `used` are taken."""

    def __init__(self, keys: Tensor, values: Tensor, used: int, slots: int) -> None:
        self.used, self.is_inference = used, torch.is_inference_mode_enabled()
        self.keys, self.values = (
            x.new_empty(*x.shape[:2], slots, x.shape[3]) for x in (keys, values)
        )
        self.keys[:, :, :used], self.values[:, :, :used] = keys, values
        # Written not through the tensors themselves: backward would take their views for changed.
        self.slots = self.keys.data, self.values.data

    def is_free(self, start: int, end: int) -> bool:
        """Whether a cache of `start` tokens may write up to `end`: nobody else has.

        Torch lets only inference mode write into what inference mode has made.
        """
        fits = self.used == start and end <= self.keys.shape[2]
        return fits and self.is_inference == torch.is_inference_mode_enabled()

    def write(self, key: Tensor, value: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Fill the next slots; all keys and values up to there."""
        for slots, new in zip(self.slots, (key, value), strict=True):
            slots.narrow(2, self.used, end - self.used).copy_(new)
        self.used = end
        return self.keys.narrow(2, 0, end), self.values.narrow(2, 0, end)
