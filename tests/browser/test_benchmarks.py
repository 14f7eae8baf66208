"""The benchmarks of the widgets still run: one round of each, whatever it takes."""

from benchmarks import widgets


def test_each_drawing_and_each_token_said_is_timed(chromium, monkeypatch):
    monkeypatch.setattr(widgets, "ROUNDS", 1)
    timed = [(widget, ()) for widget, _ in widgets.drawings().values()]
    timed += [(widgets.player(), (widgets.SAID,)), (widgets.writer(), (widgets.WRITTEN,))]
    for widget, setup in timed:
        (time,) = widgets.script_times(chromium, widget, *setup)
        assert time > 0


def test_a_view_of_many_tokens_is_timed_until_it_is_drawn(chromium, monkeypatch):
    monkeypatch.setattr(widgets, "LARGE_ROUNDS", 1)
    ((made,), (drawn,)) = widgets.large_times(chromium)
    assert 0 < made < drawn
