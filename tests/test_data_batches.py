"""Batches: nothing lost, nothing seen twice in an epoch, and the same after a resumption."""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from attn_notes.data import (
    END,
    PAD,
    START,
    Batch,
    Batches,
    Pair,
    Vocabulary,
    make_batch,
    number_pairs,
)

LETTERS = "abcdefg"
VOCABULARY = Vocabulary([*LETTERS])
SOURCES = st.text(LETTERS, min_size=1, max_size=9).map(tuple)
PAIRS = st.lists(st.tuples(SOURCES, st.text(LETTERS, max_size=7).map(tuple)), min_size=1)


@st.composite
def batches_of(draw: DrawFn) -> tuple[list[Pair], Batches]:
    pairs = draw(PAIRS)
    size = draw(st.integers(1, 7))
    return pairs, Batches(pairs, VOCABULARY, VOCABULARY, batch_size=size, seed=draw(st.integers()))


def pairs_of(batch: Batch) -> list[Pair]:
    """The pairs of a batch, read from its tensors alone."""
    rows = zip(batch.source, batch.lengths.tolist(), batch.target, strict=True)
    sides = ((source[:length], target) for source, length, target in rows)
    return [tuple(tuple(VOCABULARY.decode(side)) for side in pair) for pair in sides]


@given(pairs=PAIRS)
def test_a_batch_holds_its_pairs_in_order_and_pads_the_ends(pairs):
    batch = make_batch(pairs, VOCABULARY, VOCABULARY)
    assert pairs_of(batch) == pairs
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    assert {tensor.device.type for tensor in batch} == {"cpu"}
    assert batch.lengths.tolist() == [len(source) for source, _ in pairs]
    assert torch.equal((batch.source != PAD).sum(1), batch.lengths)
    assert batch.source.shape == (len(pairs), batch.lengths.max())
    for row, (_, target) in zip(batch.target.tolist(), pairs, strict=True):
        length = len(target) + 2
        assert (row[0], row[length - 1]) == (START, END)
        assert set(row[length:]) <= {PAD}
        assert not {PAD, START, END} & set(row[1 : length - 1])
    assert batch.target.shape[1] == 2 + max(len(target) for _, target in pairs)


def test_on_another_device_the_lengths_stay_on_the_cpu():
    moved = make_batch([(("a",), ("b",))], VOCABULARY, VOCABULARY).to("meta")
    assert [tensor.device.type for tensor in moved] == ["meta", "cpu", "meta"]


@given(batches_of())
def test_every_epoch_takes_every_pair_once_in_batches_of_full_size_but_one(drawn):
    pairs, batches = drawn
    for epoch in range(3):
        steps = range(epoch * len(batches), (epoch + 1) * len(batches))
        seen = [pairs_of(batches(step)) for step in steps]
        assert sorted(itertools.chain(*seen)) == sorted(pairs)
        smallest, *others = sorted(map(len, seen))
        assert smallest <= batches.batch_size
        assert set(others) <= {batches.batch_size}


@given(drawn=batches_of(), steps=st.lists(st.integers(0, 60), max_size=8))
def test_the_batch_of_a_step_depends_on_no_other_step(drawn, steps):
    pairs, batches = drawn
    how = {"batch_size": batches.batch_size, "seed": batches.seed}
    for step in steps:
        fresh = Batches(pairs, VOCABULARY, VOCABULARY, **how)
        assert all(map(torch.equal, batches(step), fresh(step)))


def test_every_epoch_and_every_seed_has_its_own_order():
    digits = Vocabulary([*"0123456789"])
    pairs = [(tuple(f"{n:b}"), tuple(f"{n}")) for n in range(100)]

    def order(seed: int, epoch: int) -> list[list[int]]:
        batches = Batches(pairs, digits, digits, batch_size=10, seed=seed)
        steps = range(epoch * len(batches), (epoch + 1) * len(batches))
        return [row for step in steps for row in batches(step).target.tolist()]

    orders = [order(seed, epoch) for seed in (0, 1, 11) for epoch in (0, 1, 11)]
    assert all(one != other for one, other in itertools.combinations(orders, 2))


def test_sequences_of_similar_length_share_a_batch():
    train, _ = number_pairs("de", "en", count=3000)
    source, target = (Vocabulary.build(side) for side in zip(*train, strict=True))
    batches = Batches(train, source, target, batch_size=32)
    every = [batches(step) for step in range(len(batches))]
    padding = sum(int((batch.source == PAD).sum()) for batch in every)
    assert padding < 0.1 * sum(int(batch.lengths.sum()) for batch in every)
    # But the epoch does not go from the short to the long ones.
    lengths = [float(batch.lengths.double().mean()) for batch in every]
    rises = sum(a < b for a, b in itertools.pairwise(lengths)) / len(lengths)
    assert 0.3 < rises < 0.7
