"""The softmax tile by tile: what each tile leaves, and what comes of forgetting to rescale."""

import math

import pytest
import torch

from attn_notes.flash import online_softmax
from attn_notes.masks import masked_softmax
from attn_widgets import OnlineSoftmax
from tests.oracles import INF, rng

# Rows of scores, each with an edge of its own.
ROWS = {
    "one key": [1.5],
    "all alike": [2.0] * 6,
    "rising": [-3.0, -1.0, 0.0, 2.0, 2.5, 7.0, 7.5],
    "falling": [7.0, 2.0, 1.0, -2.0, -6.0],
    "large": [1e4, -1e4, 0.0, 1e4, 9999.5, -1e4, 1.0],
    "large at the end": [-1e4, -1e4, 5.0, 0.0, 1e4],
    "masked first": [-INF, -INF, -INF, 1.0, -2.0, 3.0],
    "masked here and there": [0.5, -INF, 1.5, -INF, -INF, -1.0, 4.0, -INF],
    "all masked": [-INF] * 5,
}
every_tile = pytest.mark.parametrize("tile", [1, 2, 3, 64])


def values_for(row: list[float]) -> torch.Tensor:
    return torch.randn(len(row), 2, generator=rng(4), dtype=torch.float64).round(decimals=4)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@every_tile
def test_each_tile_leaves_the_softmax_so_far_by_the_package_s_own_steps(row, tile):
    scores, values = torch.tensor(row, dtype=torch.float64), values_for(row)
    shown = OnlineSoftmax(row, values, tile=tile).shown()
    steps = list(online_softmax(scores, values, tile=tile))
    assert len(shown.total) == len(steps) == math.ceil(len(row) / tile)
    for n, step in enumerate(steps):
        weights = masked_softmax(scores[: step.end])
        total = shown.total[n].clamp_min(1e-300)
        for found, expected in (
            (shown.maximum[n], step.maximum),
            (shown.total[n], step.total),
            (shown.output[n] * shown.total[n], step.output),
            (shown.output[n], weights @ values[: step.end]),
            (shown.exps[n, : step.end] / total, weights),
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert not shown.exps[n, step.end :].any()


@every_tile
def test_forgetting_leaves_each_key_at_the_maximum_of_its_own_tile(tile):
    row = ROWS["rising"]
    widget = OnlineSoftmax(row, values_for(row), tile=tile)
    right = widget.shown()
    widget.forget = True
    wrong = widget.shown()
    tops = [max(row[: n - n % tile + tile]) for n in range(len(row))]
    exps = [math.exp(score - top) for score, top in zip(row, tops, strict=True)]
    assert wrong.exps[-1].tolist() == pytest.approx(exps)
    assert wrong.maximum.equal(right.maximum)
    assert bool((wrong.output[-1] - right.output[-1]).norm() > 0.1) == (tile < len(row))
    assert repr(widget).endswith(", not rescaled)")


def test_the_table_has_a_row_for_each_tile_and_an_infinite_score_is_a_masked_key():
    widget = OnlineSoftmax([-INF, -INF, 0.0], torch.eye(3)[:, 1:], tile=2)
    assert (widget.masked, widget.scores) == ([0, 1], [0.0, 0.0, 0.0])
    caption, columns, rows = widget._table()
    assert caption == "The softmax of 3 scores in tiles of 2."
    assert columns == ["maximum", "sum", "output x", "output y"]
    assert rows == [
        ["0 to 1", "-inf", "0.000", "0.000", "0.000"],
        ["2 to 2", "0.000", "1.000", "0.000", "1.000"],
    ]
    widget.masked = [2, 64]  # of a key that there is not, nothing is said
    assert widget.shown().total.tolist() == [2.0, 2.0]
