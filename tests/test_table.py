"""A table says what its rows hold, as text and as HTML."""

import pytest
import torch

from attn_notes.table import table


def test_a_table_shows_every_cell_as_text_and_as_html():
    rows = [("a <b>", 1, torch.tensor(0.123)), ("c", 12_000, 2.0)]
    shown = table(rows, ["name", "n", "loss"], digits=1)
    assert [line.split() for line in repr(shown).splitlines()] == [
        ["name", "n", "loss"], ["a", "<b>", "1", "0.1"], ["c", "12000", "2.0"],
    ]  # fmt: skip
    html = shown._repr_html_()
    assert "<tr><td>a &lt;b&gt;</td><td>1</td><td>0.1</td></tr>" in html
    assert html.count("<tr>") == 3


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"must have 2 cells, got \(1,\)"):
        table([(1,)], ["a", "b"])
