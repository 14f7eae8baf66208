"""The benchmarks of the widgets still run: one round of each, whatever it takes."""

import pytest

from benchmarks import widgets


@pytest.fixture(autouse=True)
def one_round(monkeypatch):
    monkeypatch.setattr(widgets, "ROUNDS", 1)


def test_each_drawing_is_timed(chromium):
    for name, (widget, goal) in widgets.drawings().items():
        assert len(widgets.script_times(chromium, widget)) == 1, name
        assert goal > 0


@pytest.mark.parametrize("setup", ["SAID", "WRITTEN"])
def test_a_token_said_is_timed(chromium, setup):
    widget = widgets.player() if setup == "SAID" else widgets.writer()
    (time,) = widgets.script_times(chromium, widget, getattr(widgets, setup))
    assert time > 0
