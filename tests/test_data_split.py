"""Held-out examples stay the same on every machine and in every run."""

from hypothesis import given
from hypothesis import strategies as st

from attn_notes.data import (
    Batches,
    TextWindows,
    Vocabulary,
    date_pairs,
    is_held_out,
    number_pairs,
    python_documentation,
    split_pairs,
    split_text,
)
from tests import another_process

WORDS = st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=4).map(tuple)
PAIRS = st.lists(st.tuples(WORDS, WORDS))


def test_known_keys_are_held_out():
    assert [value for value in range(100) if is_held_out(value)] == [9, 39, 49, 51, 55, 65]
    assert [day for day in range(1, 32) if is_held_out(f"1969-07-{day:02}")] == [18, 20, 24]


def everything_drawn() -> str:
    train, held_out = number_pairs("de", "en", count=300)
    words = Vocabulary.build([*train[0], *train[1]])
    batches = Batches(train, words, words, batch_size=7)
    dates, sides = date_pairs("de", "en", count=9), split_text(python_documentation())
    windows = TextWindows(["to be or not to be"], Vocabulary([*"toben r"]), length=5, batch_size=6)
    drawn = held_out, words.tokens, batches(3), batches(100), dates, sides, windows(9).tolist()
    return repr(drawn).encode().hex()


def test_another_process_draws_the_same_data():
    another_process.assert_same_there(everything_drawn)


@given(pairs=PAIRS, share=st.floats(0, 1))
def test_no_source_is_on_both_sides_and_no_pair_is_lost(pairs, share):
    train, held_out = split_pairs(pairs, share=share)
    assert not {source for source, _ in train} & {source for source, _ in held_out}
    assert sorted(train + held_out) == sorted(pairs)
    assert [pair for pair in pairs if pair in train] == train


def test_the_side_of_a_source_depends_on_nothing_else():
    pairs = [((str(number),), ("x",)) for number in range(1000)]
    train, held_out = split_pairs(pairs)
    assert 60 < len(held_out) < 140
    others = [(source, ("y", "z")) for source, _ in reversed(held_out)]
    assert split_pairs(others) == ([], others)
    assert split_pairs(train) == (train, [])
