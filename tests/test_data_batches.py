"""From tokens to batches: nothing lost, nothing held out seen, the same in every process."""

import itertools
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from attn_notes import data
from attn_notes.data import END, PAD, START, UNKNOWN, Batch, Batches, Pair, Vocabulary
from attn_train import sources

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
    batch = data.make_batch(pairs, VOCABULARY, VOCABULARY)
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
    moved = data.make_batch([(("a",), ("b",))], VOCABULARY, VOCABULARY).to("meta")
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
    train, _ = data.number_pairs("de", "en", count=3000)
    source, target = (Vocabulary.build(side) for side in zip(*train, strict=True))
    batches = Batches(train, source, target, batch_size=32)
    every = [batches(step) for step in range(len(batches))]
    padding = sum(int((batch.source == PAD).sum()) for batch in every)
    assert padding < 0.1 * sum(int(batch.lengths.sum()) for batch in every)
    # But the epoch does not go from the short to the long ones.
    lengths = [float(batch.lengths.double().mean()) for batch in every]
    rises = sum(a < b for a, b in itertools.pairwise(lengths)) / len(lengths)
    assert 0.3 < rises < 0.7


# A vocabulary

TOKENS = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=20)


@given(tokens=TOKENS, data=st.data())
def test_known_tokens_come_back(tokens, data):
    vocabulary = Vocabulary(tokens)
    sequence = data.draw(st.lists(st.sampled_from(tokens))) if tokens else []
    ids = vocabulary.encode(sequence)
    assert vocabulary.decode(ids) == sequence
    assert all(4 <= number < len(vocabulary) for number in ids)
    assert len(vocabulary) == 4 + len(tokens)


@given(sequences=st.lists(st.lists(st.sampled_from("abcdefg"))), seed=st.integers(0, 9))
def test_a_vocabulary_is_built_by_frequency_and_then_by_the_alphabet(sequences, seed):
    vocabulary = Vocabulary.build(sequences)
    everything = [token for sequence in sequences for token in sequence]
    keys = [(-everything.count(token), token) for token in vocabulary.tokens]
    assert keys == sorted(keys)
    assert set(vocabulary.tokens) == set(everything)
    random.Random(seed).shuffle(sequences)
    assert Vocabulary.build(sequences).tokens == vocabulary.tokens
    frequent = tuple(token for token in vocabulary.tokens if everything.count(token) >= 2)
    assert Vocabulary.build(sequences, min_count=2).tokens == frequent


@pytest.mark.parametrize(
    ("ids", "tokens"),
    [
        ([4, END, 5], ["a"]),
        ([4, PAD, START, 5], ["a", "b"]),
        ((number for number in (5, 4)), ["b", "a"]),
        (np.array([5, 4]), ["b", "a"]),
        (torch.tensor([START, 5, UNKNOWN, END]), ["b", "<unk>"]),
    ],
)
def test_decoding_stops_at_the_end_and_omits_padding_and_start(ids, tokens):
    assert Vocabulary(["a", "b"]).decode(ids) == tokens


# Which pairs are held out

SPLIT = st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=4).map(tuple)
SIDES = st.lists(st.tuples(SPLIT, SPLIT))


def test_known_keys_are_held_out():
    assert [value for value in range(100) if data.is_held_out(value)] == [9, 39, 49, 51, 55, 65]
    assert [day for day in range(1, 32) if data.is_held_out(f"1969-07-{day:02}")] == [18, 20, 24]


def everything_drawn() -> str:
    train, held_out = data.number_pairs("de", "en", count=300)
    words = Vocabulary.build([*train[0], *train[1]])
    batches = Batches(train, words, words, batch_size=7)
    dates = sources.date_pairs("de", "en", count=9)
    sides = data.split_text(sources.python_documentation())
    letters = Vocabulary([*"toben r"])
    windows = data.TextWindows(["to be or not to be"], letters, length=5, batch_size=6)
    drawn = held_out, words.tokens, batches(3), batches(100), dates, sides, windows(9).tolist()
    return repr(drawn).encode().hex()


@pytest.mark.slow
def test_another_process_draws_the_same_data():
    code = f"from {__name__} import everything_drawn; print(everything_drawn())"
    drawn = subprocess.check_output(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[1],
        text=True,
    )
    same = drawn == everything_drawn() + "\n"  # pytest is slow at long texts
    assert same


@given(pairs=SIDES, share=st.floats(0, 1))
def test_no_source_is_on_both_sides_and_no_pair_is_lost(pairs, share):
    train, held_out = sources.split_pairs(pairs, share=share)
    assert not {source for source, _ in train} & {source for source, _ in held_out}
    assert sorted(train + held_out) == sorted(pairs)
    assert [pair for pair in pairs if pair in train] == train


def test_the_side_of_a_source_depends_on_nothing_else():
    pairs = [((str(number),), ("x",)) for number in range(1000)]
    train, held_out = sources.split_pairs(pairs)
    assert 60 < len(held_out) < 140
    others = [(source, ("y", "z")) for source, _ in reversed(held_out)]
    assert sources.split_pairs(others) == ([], others)
    assert sources.split_pairs(train) == (train, [])
