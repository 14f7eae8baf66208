"""A schedule rises in a straight line to 1, falls to 0 at the last step, and stays within."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.training import constant, cosine_decay, linear_decay

DECAYS = pytest.mark.parametrize("decay", [linear_decay, cosine_decay])
STEPS = st.integers(0, 20).flatmap(
    lambda warmup: st.tuples(st.just(warmup), st.integers(warmup + 1, warmup + 40))
)


@DECAYS
@given(steps=STEPS)
def test_it_rises_evenly_reaches_one_and_falls_to_zero(decay, steps):
    warmup, total = steps
    factors = [decay(warmup, total)(step) for step in range(total + 3)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert all(factor > 0 for factor in factors[:total])
    assert factors[total:] == [0, 0, 0]
    assert factors[: warmup + 1] == pytest.approx(
        [min(1, (step + 1) / max(1, warmup)) for step in range(warmup + 1)]
    )
    assert all(a > b for a, b in itertools.pairwise(factors[warmup : total + 1]))


def test_the_line_falls_evenly():
    factors = [linear_decay(3, 11)(step) for step in range(3, 12)]
    assert factors == pytest.approx([1 - n / 8 for n in range(9)])


@given(n=st.integers(0, 10))
def test_the_cosine_is_symmetrical_about_its_middle(n):
    schedule = cosine_decay(5, 15)
    assert schedule(5 + n) + schedule(15 - n) == pytest.approx(1)


def test_the_constant_is_one():
    assert {constant()(step) for step in (0, 1, 10**9)} == {1.0}


@DECAYS
@pytest.mark.parametrize(
    ("warmup", "total", "error", "words"),
    [
        (-1, 10, ValueError, "got warmup -1 and total 10"),
        (10, 10, ValueError, "got warmup 10 and total 10"),
        (0, 0, ValueError, "got warmup 0 and total 0"),
        (0.1, 10, TypeError, "got 0.1 and 10"),
        (1, 10.0, TypeError, "got 1 and 10.0"),
        (1, float("nan"), TypeError, "got 1 and nan"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(decay, warmup, total, error, words):
    with pytest.raises(error, match=re.escape(words)):
        decay(warmup, total)
