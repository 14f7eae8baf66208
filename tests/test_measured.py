"""Measured numbers: how they are printed, and how the notebooks' tests compare them."""

import pytest
import torch

from attn_notes.checks import measured
from tests.measured_text import difference_of_measured, pair_texts


@pytest.mark.parametrize(
    ("value", "tolerance", "text"),
    [
        (0.99817, 0.01, "0.998 ± 0.01"),
        (torch.tensor(0.5), 0.02, "0.500 ± 0.02"),
        (-63.24, 2, "-63.2 ± 2"),
        (1234.4, 50, "1234 ± 50"),
        (3.14e-7, 1e-7, "3.1e-07 ± 1e-07"),
    ],
)
def test_a_measured_number_is_printed_one_place_beyond_its_tolerance(value, tolerance, text):
    assert measured(value, tolerance) == text
    assert difference_of_measured(f"a {text}\n", f"a {text}\n") is None


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "tolerance", "words"),
    [(NAN, 0.1, "finite, got nan"), (1.0, 0, "above 0, got 0"), (1.0, INF, "tolerance must be")],
)
def test_what_cannot_be_compared_is_refused(value, tolerance, words):
    with pytest.raises(ValueError, match=words):
        measured(value, tolerance)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("exact 0.990 ± 0.01, loss  9.98 ± 0.1\n", None),
        ("exact 0.985 ± 0.01, loss  9.98 ± 0.1\n", "0.998 became 0.985, more than 0.01 away"),
        ("exact 0.998 ± 0.01, loss 10.06 ± 0.1\n", None),  # wider by a digit
        ("exact 0.998 ± 0.02, loss  9.98 ± 0.1\n", "more than their measured numbers"),
        ("other 0.998 ± 0.01, loss  9.98 ± 0.1\n", "more than their measured numbers"),
        ("exact 0.998 ± 0.01, loss -9.98 ± 0.1\n", "9.98 became -9.98"),
    ],
)
def test_a_text_is_compared_within_the_tolerances_it_states(test, words):
    reference = "exact 0.998 ± 0.01, loss  9.98 ± 0.1\n"
    found = difference_of_measured(reference, test)
    assert found is None if words is None else words in found


def test_only_texts_within_tolerance_are_replaced_by_what_is_stored():
    def outputs(shown, *texts):
        return [{"data": {"text/plain": shown}}, *({"text": text} for text in texts)]

    stored = outputs("'0.5 ± 0.1'", "0.998 ± 0.01", "0.998", "1 ± 0.1")
    fresh = outputs("'0.45 ± 0.1'", "0.991 ± 0.01", "0.997", "2 ± 0.1")  # 0.997: no tolerance
    replaced, complaints = pair_texts(fresh, stored)
    assert replaced == [*stored[:2], *fresh[2:]]
    assert complaints == ["1 became 2, more than 0.1 away"]
    assert fresh[1] == {"text": "0.991 ± 0.01"}  # nothing of the caller's changed
