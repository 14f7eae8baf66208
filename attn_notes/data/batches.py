"""From pairs of token sequences to the tensors of a training step (chapter 4)."""

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attn_notes.arguments import check_integers
from attn_notes.data.split import Pair
from attn_notes.data.vocabulary import END, PAD, START, Vocabulary

__all__ = ["Batch", "Batches", "make_batch"]

_POOL = 20  # batches sorted by length together


class Batch(NamedTuple):
    """Some pairs as tensors of ids, int64, padded with PAD at the end."""

    source: Tensor
    """The ids of what is read, (B, S)."""
    lengths: Tensor
    """How many of them are real, (B,); on the CPU, where a recurrent encoder packs by them."""
    target: Tensor
    """START, the ids of what is to be written, END, (B, T)."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device; `lengths` stay on the CPU.

        Args:
            device: where the model is.

        Returns:
            A new batch.
        """
        return Batch(self.source.to(device), self.lengths, self.target.to(device))


def make_batch(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """These pairs as one batch, in their order.

    Args:
        pairs: B pairs of token sequences. A target may be empty, a source may not: there would
            be nothing to read.
        source_vocab: of the first of each pair.
        target_vocab: of the second.

    Returns:
        The batch, on the CPU.

    Raises:
        TypeError: tokens that are not strings.
        ValueError: no pair, or an empty source.

    Example:
        >>> words = Vocabulary(["drei", "three"])
        >>> make_batch([(("drei",), ("three",)), (("drei", "drei"), ())], words, words)
        Batch(source=tensor([[4, 0],
                [4, 4]]), lengths=tensor([1, 2]), target=tensor([[1, 5, 2],
                [1, 2, 0]]))
    """
    return _stack(_encode(pairs, source_vocab, target_vocab))


class Batches:
    """The batch of every training step: `batches(step)` for step 0, 1, 2, ...

    A pure function of the pairs, the seed and the step, so that a training that is resumed in
    the middle sees what it would have seen. Every epoch takes all pairs once, in a new order.
    Twenty batches at a time are sorted by length before they are cut, so that sequences of like
    length stand together and little is padded (Bahdanau, Cho and Bengio, 2015, appendix B.2).

    Args:
        pairs: pairs of token sequences, no source empty.
        source_vocab: of the first of each pair.
        target_vocab: of the second.
        batch_size: pairs in a batch; the last of an epoch may be smaller.
        seed: of the order.

    Raises:
        TypeError: tokens that are not strings, or a batch size that is not an integer.
        ValueError: no pair, an empty source, or a batch size below 1.

    Example:
        >>> from attn_notes.data import number_pairs
        >>> train, _ = number_pairs("de", "en", count=1000)
        >>> source, target = (Vocabulary.build(side) for side in zip(*train, strict=True))
        >>> batches = Batches(train, source, target, batch_size=100)
        >>> len(batches)  # steps in an epoch
        10
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        batch_size: int,
        seed: int = 0,
    ) -> None:
        check_integers(1, batch_size=batch_size)
        self._encoded = _encode(pairs, source_vocab, target_vocab)
        self.batch_size = batch_size
        self.seed = seed
        self._epoch, self._order = 0, self._order_of(0)

    def __len__(self) -> int:
        """Steps in an epoch."""
        return math.ceil(len(self._encoded) / self.batch_size)

    def __call__(self, step: int) -> Batch:
        """The batch of one step.

        Args:
            step: 0 or more, over all epochs.

        Returns:
            The batch, on the CPU.

        Raises:
            TypeError: a step that is not an integer.
            ValueError: a negative step.
        """
        check_integers(0, step=step)
        epoch, number = divmod(step, len(self))
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._order_of(epoch)
        return _stack([self._encoded[index] for index in self._order[number]])

    def _order_of(self, epoch: int) -> list[list[int]]:
        """Which pairs stand in each batch of this epoch."""
        rng = random.Random(f"{self.seed} {epoch}")
        indices = list(range(len(self._encoded)))
        rng.shuffle(indices)
        for start in range(0, len(indices), _POOL * self.batch_size):
            pool = slice(start, start + _POOL * self.batch_size)
            indices[pool] = sorted(indices[pool], key=self._length)
        order = [
            indices[start : start + self.batch_size]
            for start in range(0, len(indices), self.batch_size)
        ]
        rng.shuffle(order)
        return order

    def _length(self, index: int) -> tuple[int, int]:
        source, target = self._encoded[index]
        return len(source), len(target)


def _encode(
    pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary
) -> list[tuple[Tensor, Tensor]]:
    """The ids of each pair, the target's between START and END."""
    encoded = []
    for number, (source, target) in enumerate(pairs):
        if not source:
            raise ValueError(f"every source must have a token to read, got none in pair {number}")
        ids = source_vocab.encode(source), [START, *target_vocab.encode(target), END]
        encoded.append((torch.tensor(ids[0], device="cpu"), torch.tensor(ids[1], device="cpu")))
    if not encoded:
        raise ValueError("there must be at least one pair, got none")
    return encoded


def _stack(encoded: Sequence[tuple[Tensor, Tensor]]) -> Batch:
    """Sequences of several lengths as one batch: the short ones padded at their end."""
    sources, targets = (list(side) for side in zip(*encoded, strict=True))
    return Batch(
        source=pad_sequence(sources, batch_first=True, padding_value=PAD),  # (B, S)
        lengths=torch.tensor([len(source) for source in sources], device="cpu"),  # (B,)
        target=pad_sequence(targets, batch_first=True, padding_value=PAD),  # (B, T)
    )
