"""From pairs of token sequences to the tensors of a training step (chapter 4)."""

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attn_notes.data.split import Pair
from attn_notes.data.vocabulary import Vocabulary
from attn_notes.special_tokens import END, PAD, START

_POOL = 20  # batches sorted by length together


class Batch(NamedTuple):
    """Pairs as int64 tensors of ids, padded with PAD at the end."""

    source: Tensor
    """(B, S), the ids of the source."""
    lengths: Tensor
    """(B,), how many of them are real; always on the CPU, where a recurrent encoder needs them."""
    target: Tensor
    """(B, T): START, the ids of the target, END."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device; `lengths` stay on the CPU."""
        return Batch(self.source.to(device), self.lengths, self.target.to(device))


def make_batch(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """These pairs as one batch, in their order; no source is empty. Chapter 4.

    Source and target are on torch's default device.

    Example:
        >>> words = Vocabulary(["drei", "three"])
        >>> make_batch([(("drei",), ("three",)), (("drei", "drei"), ())], words, words).source
        tensor([[4, 0],
                [4, 4]])
    """
    return _pad(_encode(pairs, source_vocab, target_vocab))


class Batches:
    """The batch of every training step: `batches(step)` for step 0, 1, 2, ... Chapter 4.

    A function of the step alone: training can be resumed. Every epoch has a new order, and twenty
    batches are sorted by length together, to pad little (Bahdanau et al., 2015, appendix B.2). The
    last batch of an epoch may have fewer pairs.

    Example:
        >>> words = Vocabulary(["drei", "three"])
        >>> batches = Batches(10 * [(("drei",), ("three",))], words, words, batch_size=4)
        >>> len(batches)  # steps in an epoch
        3
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
        self._encoded = _encode(pairs, source_vocab, target_vocab)
        self.batch_size, self.seed = batch_size, seed
        self._epoch, self._order = 0, self._shuffled(0)

    def __len__(self) -> int:
        """Steps in an epoch."""
        return math.ceil(len(self._encoded) / self.batch_size)

    def __call__(self, step: int) -> Batch:
        """The batch of one step, counted from 0 over all epochs; on torch's default device."""
        epoch, number = divmod(step, len(self))
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return _pad([self._encoded[index] for index in self._order[number]])

    def _shuffled(self, epoch: int) -> list[list[int]]:
        """The indices of the pairs in each batch of this epoch."""
        rng = random.Random(f"{self.seed} {epoch}")
        indices = list(range(len(self._encoded)))
        rng.shuffle(indices)
        size, pool = self.batch_size, _POOL * self.batch_size
        for at in range(0, len(indices), pool):
            together = indices[at : at + pool]
            indices[at : at + pool] = sorted(together, key=lambda n: [*map(len, self._encoded[n])])
        order = [indices[at : at + size] for at in range(0, len(indices), size)]
        rng.shuffle(order)
        return order


def _encode(
    pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary
) -> list[tuple[Tensor, Tensor]]:
    """The ids of each pair, the target's between START and END."""
    encoded = []
    for number, (source, target) in enumerate(pairs):
        if not source:
            raise ValueError(f"every source must have a token, got none in pair {number}")
        read, written = source_vocab.encode(source), [START, *target_vocab.encode(target), END]
        encoded.append((torch.tensor(read, device="cpu"), torch.tensor(written, device="cpu")))
    if not encoded:
        raise ValueError("there must be at least one pair, got none")
    return encoded


def _pad(encoded: Sequence[tuple[Tensor, Tensor]]) -> Batch:
    """Sequences of several lengths as one batch, padded at the end, on torch's default device."""
    sources, targets = (list(side) for side in zip(*encoded, strict=True))
    batch = Batch(
        source=pad_sequence(sources, batch_first=True, padding_value=PAD),  # (B, S)
        lengths=torch.tensor([len(source) for source in sources], device="cpu"),  # (B,)
        target=pad_sequence(targets, batch_first=True, padding_value=PAD),  # (B, T)
    )
    return batch.to(torch.get_default_device())
