"""Patterns by brute force: which cells they want, what a head gets for them, what hiding leaves."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.patterns import PATTERNS, SPECIAL, pattern_cells, pattern_score, select_cells
from tests.widgets import weights

ROSE = ["[CLS]", "a", "rose", "is", "a", "rose", "[SEP]", "is", "[SEP]", "[PAD]"]
# For each row the columns that are wanted, by hand.
WANTED = {
    "previous": {1: [0], 2: [1], 3: [2], 4: [3], 5: [4], 7: [6]},
    "next": {1: [2], 2: [3], 3: [4], 4: [5], 5: [6], 7: [8]},
    "same": {1: [4], 2: [5], 3: [7], 4: [1], 5: [2], 7: [3]},
    "itself": {t: [t] for t in (1, 2, 3, 4, 5, 7)},
    "first": {t: [0] for t in (1, 2, 3, 4, 5, 7)},
    "separator": {t: [6, 8] for t in (1, 2, 3, 4, 5, 7)},
}
sentences = st.lists(st.sampled_from(["a", "b", "c", *SPECIAL]), min_size=1, max_size=9)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_wants_the_cells_that_it_says(pattern):
    expected = torch.zeros(len(ROSE), len(ROSE), dtype=torch.bool)
    for row, columns in WANTED[pattern].items():
        expected[row, columns] = True
    assert pattern_cells(pattern, ROSE).equal(expected)


@given(sentences, st.sampled_from(PATTERNS), st.integers(0, 99))
def test_a_score_is_the_weight_there_averaged_over_the_rows_that_have_such_a_cell(
    tokens, pattern, seed
):
    L = len(tokens)
    maps, cells = weights(2, 3, L, L, seed=seed), pattern_cells(pattern, tokens)
    scores = pattern_score(maps, cells)
    rows = [t for t in range(L) if any(cells[t])]
    for weights_of_head, score in zip(maps.flatten(0, 1), scores.flatten(), strict=True):
        there = [float(weights_of_head[t][cells[t]].sum()) for t in rows]
        expected = math.fsum(there) / len(rows) if rows else math.nan
        assert float(score) == pytest.approx(expected, nan_ok=True)
        assert not float(score) > 1 + 1e-9


@given(sentences, st.integers(0, 99))
def test_hiding_drops_rows_and_columns_and_what_is_left_sums_to_one(tokens, seed):
    maps = weights(2, 3, len(tokens), len(tokens), seed=seed)
    kept = [n for n, token in enumerate(tokens) if token not in SPECIAL]
    hidden = select_cells(maps, kept, kept)
    assert hidden.shape == (2, 3, len(kept), len(kept))
    torch.testing.assert_close(hidden.sum(-1), torch.ones_like(hidden.sum(-1)))
    for k, i in enumerate(kept):
        for m, j in enumerate(kept):  # their ratios are as they were
            expected = maps[..., i, j] * hidden[..., k, 0] / maps[..., i, kept[0]]
            torch.testing.assert_close(hidden[..., k, m], expected)


def test_a_row_of_which_nothing_is_left_stays_zero():
    maps = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
    hidden = select_cells(maps, [1, 2], [1, 2])
    assert hidden.tolist() == [[0.0, 0.0], [0.5, 0.5]]
    assert maps[2].tolist() == [0.5, 0.25, 0.25]
