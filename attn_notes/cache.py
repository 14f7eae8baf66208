"""Keys and values kept from one step to the next, so that a step costs one token (chapter 6).

A causal layer never needs an old query again, and its old keys and values never change: what has
been computed for a prefix holds for every continuation of it. `KVCache` keeps them, and
`attn_notes.multihead.MultiHeadAttention` appends to it.
"""

import torch
from torch import Tensor

__all__ = ["KVCache"]


class KVCache:
    r"""The keys and values of one attention layer so far; it grows, and can be branched.

    The room doubles when it is full, so that appending n tokens one by one copies no more than 2n
    old ones, where joining tensors would copy $n(n-1)/2$. Branches share their room: the first to
    go on writes into the free slots, another one moves to a room of its own, and neither sees
    what the other wrote. Where gradients are enabled, nothing is written in place. Chapters 6, 7.

    Example:
        >>> cache = KVCache()
        >>> keys, values = cache.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> keys, values = cache.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4))
        >>> keys.shape, cache.length
        (torch.Size([1, 2, 4, 4]), 4)
    """

    def __init__(self) -> None:
        self.length = 0
        self._room: _Room | None = None

    def __repr__(self) -> str:
        return f"KVCache(length={self.length})"

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values, and give back all that are held now.

        Args:
            key: (B, G, L, D). L = 0 appends nothing.
            value: (B, G, L, Dv).

        Returns:
            Keys (B, G, S, D) and values (B, G, S, Dv), S being the new length. They are views;
            no later call changes what they hold.

        Raises:
            TypeError: another dtype than what is held.
            ValueError: shapes that fit neither each other nor what is held, or another device.
        """
        _check(key, value, self._room, self.length)
        start, end = self.length, self.length + key.shape[2]
        if self._room is None or end > start:
            self._room = self._room_with(key, value, start, end)
            self.length = end
        return self._room.keys[:, :, :end], self._room.values[:, :, :end]

    def fork(self) -> "KVCache":
        """A second cache that holds the same, and can be continued in another direction.

        Returns:
            A new cache; nothing is copied before both have gone on.
        """
        other = KVCache()
        other.length, other._room = self.length, self._room
        return other

    def select(self, index: Tensor) -> "KVCache":
        """The cache whose row n is this one's row `index[n]`: how a beam reorders hypotheses.

        Args:
            index: (B',), rows of the batch, any of them more than once.

        Returns:
            A new cache; this one is not changed.
        """
        other = self.fork()
        if (room := self._room) is not None:
            other._room = _Room(room.keys[index], room.values[index], self.length)
        return other

    def _room_with(self, key: Tensor, value: Tensor, start: int, end: int) -> "_Room":
        """The room that holds the new keys and values too: the present one if they fit there."""
        room = self._room
        if torch.is_grad_enabled():  # what a graph may still need must not be written over
            if room is None:
                return _Room(key, value, end)
            keys = torch.cat((room.keys[:, :, :start], key), dim=2)
            values = torch.cat((room.values[:, :, :start], value), dim=2)
            return _Room(keys, values, end)
        if room is None or not room.is_free(start, end):
            capacity = max(end, 2 * start)
            grown = _Room(_empty(key, capacity), _empty(value, capacity), start)
            if room is not None:
                grown.write(room.keys[:, :, :start], room.values[:, :, :start], 0, start)
            room = grown
        room.write(key, value, start, end)
        return room


class _Room:
    """Slots for keys and values, which the branches of a cache share."""

    def __init__(self, keys: Tensor, values: Tensor, used: int) -> None:
        self.keys = keys  # (B, G, capacity, D)
        self.values = values  # (B, G, capacity, Dv)
        self.used = used  # the slots from here on belong to nobody yet

    def is_free(self, start: int, end: int) -> bool:
        """Whether a branch that holds the first `start` slots may write up to `end`."""
        frozen = self.keys.is_inference() and not torch.is_inference_mode_enabled()
        return self.used == start and end <= self.keys.shape[2] and not frozen

    def write(self, key: Tensor, value: Tensor, start: int, end: int) -> None:
        self.keys[:, :, start:end] = key
        self.values[:, :, start:end] = value
        self.used = end


def _empty(x: Tensor, capacity: int) -> Tensor:
    """Room for `capacity` vectors like those of `x` (B, G, L, D): (B, G, capacity, D)."""
    return x.new_empty(*x.shape[:2], capacity, x.shape[3])


def _check(key: Tensor, value: Tensor, room: _Room | None, length: int) -> None:
    """Raise unless there is one value for each key, and both are as the `length` in the room."""
    if key.dim() != 4 or key.shape[:3] != value.shape[:3] or value.dim() != 4:
        shapes = "(B, G, L, D) and (B, G, L, Dv)"
        raise ValueError(f"key and value must have shapes {shapes}, {_got(key, value)}")
    if room is None:
        return
    for new, old in ((key, room.keys), (value, room.values)):
        if new.shape[:2] != old.shape[:2] or new.shape[3] != old.shape[3]:
            keys, values = (x[:, :, :length].shape for x in (room.keys, room.values))
            held = f"{tuple(keys)} and {tuple(values)}"
            raise ValueError(
                f"key and value must fit what is held in all but L, {held}, {_got(key, value)}"
            )
        if new.dtype != old.dtype:
            raise TypeError(f"key and value must be {old.dtype}, as what is held, got {new.dtype}")
        if new.device != old.device:
            raise ValueError(f"key and value must be on {old.device}, got {new.device}")


def _got(key: Tensor, value: Tensor) -> str:
    """The shapes that came, for an error's words."""
    return f"got key {tuple(key.shape)} and value {tuple(value.shape)}"
