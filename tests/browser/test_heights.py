"""What follows a widget does not jump when it is mounted: its place is as high before as after."""

import json

import pytest

from tools.heights import FILE, SCREENS, measure, measure_all, pages

STORED = json.loads(FILE.read_text(encoding="utf-8"))
TOLD = "run make book, python tools/heights.py and make book again"


@pytest.mark.parametrize("name", STORED)
def test_each_widget_is_as_high_as_is_stored(chromium, name):
    measured = measure_all(chromium, name)
    assert len(measured) == len(STORED[name]), TOLD
    for now, stored in zip(measured, STORED[name], strict=True):
        assert now == pytest.approx(stored, abs=3), TOLD


def test_no_page_with_a_widget_is_missing():
    assert pages() == sorted(STORED), TOLD


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["05_multi_head", "13_state_instead_of_a_cache"])
def test_the_room_is_there_before_the_script(chromium, name, screen):
    room = measure(chromium, name, screen, mounted=False)
    assert room == pytest.approx([one[screen] for one in STORED[name]], abs=1)
