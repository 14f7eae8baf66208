"""Keys and values kept from one step to the next, so that a step costs one token (chapter 6).

A causal layer never needs an old query again, and its old keys and values never change: what has
been computed for a prefix holds for every continuation of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_notes.arguments import check_shapes, check_tensors, shapes_of


@dataclass
class _Room:
    """Slots for keys (B, G, slots, D) and values, of which the first `used` are taken."""

    keys: Tensor
    values: Tensor
    used: int
    is_inference: bool  # torch lets no other mode write into it

    def is_free(self, start: int, end: int) -> bool:
        """Whether a cache of `start` tokens may write up to `end`, and nobody else has."""
        is_inference = torch.is_inference_mode_enabled()
        fits = self.used == start and end <= self.keys.shape[2]
        return fits and self.is_inference == is_inference

    def doubled(self, start: int, end: int) -> "_Room":
        """Twice the room for `end` tokens, with a copy of the first `start`."""
        both = self.keys, self.values
        keys, values = (x.new_empty(*x.shape[:2], 2 * end, x.shape[3]) for x in both)
        keys[:, :, :start] = self.keys[:, :, :start]
        values[:, :, :start] = self.values[:, :, :start]
        return _Room(keys, values, start, torch.is_inference_mode_enabled())


class KVCache:
    """The keys and values of one attention layer so far. Chapters 6 and 7.

    Their room doubles when it is full, so that a step copies one token. Forks share the room: the
    first to go on writes into the next slot, another one moves to a room of its own, and no tensor
    that was returned ever changes. Where gradients are recorded, tensors are joined instead.

    Example:
        >>> cache = KVCache()
        >>> keys, values = cache.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> keys, values = cache.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4))
        >>> keys.shape, cache.length
        (torch.Size([1, 2, 4, 4]), 4)
    """

    def __init__(self) -> None:
        self.length = 0  # S, the number of tokens held
        self._room: _Room | None = None

    def __repr__(self) -> str:
        return f"KVCache(length={self.length})"

    @property
    def keys(self) -> Tensor | None:
        """(B, G, S, D), or None before the first update."""
        return None if self._room is None else self._room.keys[:, :, : self.length]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys (B, G, L, D) and values (B, G, L, Dv); return all S that are held now."""
        check_tensors(key=key, value=value)
        room, start, end = self._room, self.length, self.length + key.shape[2]
        _check(key, value, room, start)
        if room is None:
            room = _Room(key, value, end, is_inference=False)  # full: never written into
        elif torch.is_grad_enabled() or torch.compiler.is_compiling():
            keys = torch.cat((room.keys[:, :, :start], key), dim=2)  # (B, G, S, D)
            values = torch.cat((room.values[:, :, :start], value), dim=2)  # (B, G, S, Dv)
            room = _Room(keys, values, end, is_inference=False)
        elif end > start:
            room = room if room.is_free(start, end) else room.doubled(start, end)
            # Not through the tensors themselves: backward would take their views for changed.
            room.keys.data.narrow(2, start, end - start).copy_(key)
            room.values.data.narrow(2, start, end - start).copy_(value)
            room.used = end
        self._room, self.length = room, end
        return room.keys.narrow(2, 0, end), room.values.narrow(2, 0, end)

    def fork(self) -> "KVCache":
        """A second cache that holds the same tokens and is updated independently."""
        other = KVCache()
        other._room, other.length = self._room, self.length
        return other

    def select(self, index: Tensor) -> "KVCache":
        """A new cache whose row n is this cache's row `index[n]`; `index` has shape (B',)."""
        room, held, other = self._room, slice(self.length), KVCache()
        if room is not None:
            other.update(room.keys[:, :, held][index], room.values[:, :, held][index])
        return other


def _check(key: Tensor, value: Tensor, room: _Room | None, length: int) -> None:
    """Raise unless there is one value per key, and both match the `length` tokens in the room."""
    if not (key.dim() == value.dim() == 4 and key.shape[:3] == value.shape[:3]):  # quick
        check_shapes(key=(key, "B G L D"), value=(value, "B G L Dv"))
    old = () if room is None else (("key", key, room.keys), ("value", value, room.values))
    for name, new, held in old:
        (b, g, _, d), (batch, heads, _, width) = new.shape, held.shape
        if b != batch or g != heads or d != width:
            shape = (*held.shape[:2], length, held.shape[3])
            wanted = "key and value must match the cached tensors in all axes but L"
            got = f"got {shapes_of(key=key, value=value)}"
            raise ValueError(f"{wanted}; the cached {name} has shape {shape}, {got}")
        if new.dtype != held.dtype:
            raise TypeError(f"{name} must be {held.dtype} like the cached one, got {new.dtype}")
