"""A schedule rises in a straight line to its peak, and falls from there as it says."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_notes.training import constant, cosine_decay, inverse_sqrt, linear_decay, noam

STEPS = st.integers(0, 20).flatmap(
    lambda warmup: st.tuples(st.just(warmup), st.integers(warmup + 1, warmup + 40))
)


@pytest.mark.parametrize("decay", [linear_decay, cosine_decay])
@settings(max_examples=20)
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
    assert [constant(4)(step) for step in (0, 1, 3, 4, 10**9)] == [0.25, 0.5, 1, 1, 1]


@given(embed_dim=st.integers(1, 512), warmup=st.integers(1, 4000), step=st.integers(0, 10**6))
def test_noam_is_equation_3_of_the_paper(embed_dim, warmup, step):
    n = step + 1  # the paper counts from 1
    rate = embed_dim**-0.5 * min(n**-0.5, n * warmup**-1.5)
    assert noam(embed_dim, warmup)(step) == pytest.approx(rate, rel=1e-12)


@given(warmup=st.integers(0, 50))
def test_the_inverse_root_has_its_peak_at_one_and_halves_at_four_times_the_steps(warmup):
    factors = [inverse_sqrt(warmup)(step) for step in range(8 * max(1, warmup))]
    peak = max(1, warmup)
    assert factors[peak - 1] == 1 == max(factors)
    assert factors[:peak] == pytest.approx([n / peak for n in range(1, peak + 1)])
    assert factors[4 * peak - 1] == pytest.approx(0.5)
    assert all(a > b > 0 for a, b in itertools.pairwise(factors[peak - 1 :]))


@pytest.mark.parametrize(
    ("schedule", "error", "words"),
    [
        (lambda: linear_decay(-1, 10), ValueError, "got warmup -1 and total 10"),
        (lambda: cosine_decay(10, 10), ValueError, "got warmup 10 and total 10"),
        (lambda: linear_decay(0.1, 10), TypeError, "warmup must be an integer, got 0.1"),
        (lambda: cosine_decay(1, 10.0), TypeError, "total must be an integer, got 10.0"),
        (lambda: noam(0, 10), ValueError, "embed_dim must be at least 1, got 0"),
        (lambda: noam(8, 0), ValueError, "warmup must be at least 1, got 0"),
        (lambda: inverse_sqrt(-1), ValueError, "warmup must be at least 0, got -1"),
        (lambda: constant(-1), ValueError, "warmup must be at least 0, got -1"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(schedule, error, words):
    with pytest.raises(error, match=re.escape(words)):
        schedule()
