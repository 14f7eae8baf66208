"""What stands on both sides of a split of texts is found, measured and named."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.checks import CheckFailed, check_no_overlap, share_seen

TEXTS = st.lists(st.text("ab", max_size=12), max_size=4)


def by_hand(train, held_out, length):  # character by character, run by run
    seen = total = 0
    for text in held_out:
        for at in range(len(text)):
            starts = range(max(0, at - length + 1), min(at, len(text) - length) + 1)
            seen += any(text[s : s + length] in one for s in starts for one in train)
            total += 1
    return seen / total


@given(TEXTS, TEXTS.filter(any), st.integers(1, 5))
def test_the_share_is_that_of_its_definition(train, held_out, length):
    share = share_seen(train, held_out, length=length)
    assert share == by_hand(train, held_out, length)
    if share:
        with pytest.raises(CheckFailed, match="of the held-out characters"):
            check_no_overlap(train, held_out, length=length)
    else:
        check_no_overlap(train, held_out, length=length)


def test_the_first_passage_is_named():
    with pytest.raises(CheckFailed, match=re.escape("such as in text 1: 'bcde'")):
        check_no_overlap(["xbcdex"], ["zzzz", "--bcde"], length=4)


def test_a_run_across_two_training_texts_is_none():
    check_no_overlap(["abc", "def"], ["abcdef"], length=4)
