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


def test_a_page_shows_minus_signs_and_a_terminal_shows_hyphens():
    shown = table([("-three", -0.5, -2, "-1e-07", float("-inf"))], list("abcde"))
    assert repr(shown).splitlines()[1].split() == ["-three", "-0.50", "-2", "-1e-07", "-inf"]
    row = "<td>-three</td><td>−0.50</td><td>−2</td><td>−1e-07</td><td>−inf</td>"
    assert row in shown._repr_html_()


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"must have 2 cells, got \(1,\)"):
        table([(1,)], ["a", "b"])
