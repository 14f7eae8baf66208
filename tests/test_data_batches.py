"""Batches: nothing lost, nothing seen twice in an epoch, and the same after a resumption."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from attn_notes.data import (
    END,
    PAD,
    START,
    UNKNOWN,
    Batch,
    Batches,
    Pair,
    Vocabulary,
    make_batch,
    number_pairs,
)

LETTERS = "abcdefg"
VOCABULARY = Vocabulary([*LETTERS])
DIGITS = Vocabulary([*"0123456789"])
SOURCES = st.text(LETTERS, min_size=1, max_size=9).map(tuple)
PAIRS = st.lists(st.tuples(SOURCES, st.text(LETTERS, max_size=7).map(tuple)), min_size=1)


@st.composite
def batches_of(draw: DrawFn) -> tuple[list[Pair], Batches]:
    pairs = draw(PAIRS)
    size = draw(st.integers(1, 7))
    return pairs, Batches(pairs, VOCABULARY, VOCABULARY, batch_size=size, seed=draw(st.integers()))


def pairs_of(batch: Batch) -> list[Pair]:
    """What the batch holds, read from its tensors alone."""
    rows = zip(batch.source, batch.lengths.tolist(), batch.target, strict=True)
    return [
        (tuple(VOCABULARY.decode(source[:length])), tuple(VOCABULARY.decode(target)))
        for source, length, target in rows
    ]


def numbers(start: int = 0) -> list[Pair]:
    """Pairs that can be told apart, of several lengths."""
    return [(tuple(f"{n:b}"), tuple(f"{n}")) for n in range(start, start + 100)]


@given(pairs=PAIRS)
def test_a_batch_holds_its_pairs_in_order(pairs):
    batch = make_batch(pairs, VOCABULARY, VOCABULARY)
    assert pairs_of(batch) == pairs
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    assert {tensor.device.type for tensor in batch} == {"cpu"}


@given(pairs=PAIRS)
def test_what_is_padded_is_at_the_end_and_no_more_than_the_longest_needs(pairs):
    batch = make_batch(pairs, VOCABULARY, VOCABULARY)
    assert batch.lengths.tolist() == [len(source) for source, _ in pairs]
    assert torch.equal((batch.source != PAD).sum(1), batch.lengths)
    assert batch.source.shape == (len(pairs), batch.lengths.max())
    for row, (_, target) in zip(batch.target.tolist(), pairs, strict=True):
        length = len(target) + 2
        assert (row[0], row[length - 1]) == (START, END)
        assert set(row[length:]) <= {PAD}
        assert not {PAD, START, END} & set(row[1 : length - 1])
    assert batch.target.shape[1] == 2 + max(len(target) for _, target in pairs)


def test_a_small_batch_written_out():
    pairs = [(("a", "b", "z"), ()), (("c",), ("d", "z"))]
    source, lengths, target = make_batch(pairs, VOCABULARY, VOCABULARY)
    assert source.tolist() == [[4, 5, UNKNOWN], [6, 0, 0]]
    assert lengths.tolist() == [3, 1]
    assert target.tolist() == [[1, 2, 0, 0], [1, 7, UNKNOWN, 2]]


def test_each_side_has_its_own_vocabulary():
    batch = make_batch([(("a",), ("a",))], Vocabulary(["x", "a"]), Vocabulary(["x", "y", "a"]))
    assert (batch.source.tolist(), batch.target.tolist()) == ([[5]], [[1, 6, 2]])


def test_on_another_device_the_lengths_stay_on_the_cpu():
    batch = make_batch([(("a",), ("b",))], VOCABULARY, VOCABULARY)
    moved = batch.to("meta")
    assert [tensor.device.type for tensor in moved] == ["meta", "cpu", "meta"]
    assert [tensor.device.type for tensor in batch] == ["cpu"] * 3


@given(batches_of())
def test_every_epoch_takes_every_pair_once(drawn):
    pairs, batches = drawn
    for epoch in range(3):
        steps = range(epoch * len(batches), (epoch + 1) * len(batches))
        seen = [pair for step in steps for pair in pairs_of(batches(step))]
        assert sorted(seen) == sorted(pairs)


@given(drawn=batches_of(), steps=st.lists(st.integers(0, 60), max_size=8))
def test_the_batch_of_a_step_hangs_on_no_other_step(drawn, steps):
    pairs, batches = drawn
    for step in steps:
        fresh = Batches(
            pairs, VOCABULARY, VOCABULARY, batch_size=batches.batch_size, seed=batches.seed
        )
        assert all(map(torch.equal, batches(step), fresh(step)))


@given(batches_of())
def test_no_batch_is_larger_than_it_may_be_and_one_at_most_is_smaller(drawn):
    pairs, batches = drawn
    sizes = sorted(len(batches(step).lengths) for step in range(len(batches)))
    assert sum(sizes) == len(pairs)
    assert all(size == batches.batch_size for size in sizes[1:])
    assert sizes[-1] <= batches.batch_size


def test_epochs_and_seeds_have_orders_of_their_own():
    def order(seed: int, epoch: int) -> list[Pair]:
        batches = Batches(numbers(), VOCABULARY, DIGITS, batch_size=10, seed=seed)
        steps = range(epoch * len(batches), (epoch + 1) * len(batches))
        return [row for step in steps for row in batches(step).target.tolist()]

    orders = [order(seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(orders[i] != orders[j] for i in range(9) for j in range(i))


def test_seed_and_epoch_are_not_mixed_up():
    # Neither seed 1, epoch 0 for seed 0, epoch 1, nor seed 1, epoch 11 for seed 11, epoch 1.
    def first(seed: int, epoch: int) -> list[list[int]]:
        batches = Batches(numbers(), VOCABULARY, DIGITS, batch_size=50, seed=seed)
        return batches(epoch * len(batches)).target.tolist()

    assert first(1, 0) != first(0, 1)
    assert first(1, 11) != first(11, 1)


def test_sequences_of_like_length_stand_together():
    train, _ = number_pairs("de", "en", count=3000)
    source, target = (Vocabulary.build(side) for side in zip(*train, strict=True))
    batches = Batches(train, source, target, batch_size=32)
    every = [batches(step) for step in range(len(batches))]
    padding = sum(int((batch.source == PAD).sum()) for batch in every)
    tokens = sum(int(batch.lengths.sum()) for batch in every)
    assert padding < 0.1 * tokens
    # But the epoch does not go from the short to the long ones.
    lengths = [float(batch.lengths.double().mean()) for batch in every]
    rises = sum(a < b for a, b in itertools.pairwise(lengths)) / len(lengths)
    assert 0.3 < rises < 0.7


def test_the_draw_leaves_the_generators_of_the_caller_alone():
    before = torch.get_rng_state()
    Batches(numbers(), VOCABULARY, VOCABULARY, batch_size=3)(70)
    assert torch.equal(torch.get_rng_state(), before)


def test_pairs_that_the_caller_changes_later_are_not_changed_in_the_batches():
    pairs = numbers()
    batches = Batches(pairs, VOCABULARY, VOCABULARY, batch_size=100)
    before = batches(0).source.clone()
    pairs.clear()
    batches(0).source.zero_()
    assert torch.equal(batches(0).source, before)


@pytest.mark.parametrize("size", [1, 3, 100, 101])
def test_the_steps_of_an_epoch_are_counted_with_its_last_smaller_batch(size):
    batches = Batches(numbers(), VOCABULARY, VOCABULARY, batch_size=size)
    assert len(batches) == -(-100 // size)
