"""Dates: read back by rules of our own, in every locale."""

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_notes.data import date_characters, date_pairs
from attn_notes.data.dates import DATE_LOCALES, DATE_STYLES

MONTHS = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "en": "January February March April May June July August September October November December",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
FORMS = {
    "de": r"(?P<day>\d+)\. (?P<month>\w+) (?P<year>\d+)",
    "en": r"(?P<month>\w+) (?P<day>\d+), (?P<year>\d+)",
    "es": r"(?P<day>\d+) de (?P<month>\w+) de (?P<year>\d+)",
    "fr": r"(?P<day>\d+) (?P<month>\w+) (?P<year>\d+)",
    "iso": r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
    "ja": r"(?P<year>\d+)年(?P<month>\d+)月(?P<day>\d+)日",
    "zh": r"(?P<year>\d+)年(?P<month>\d+)月(?P<day>\d+)日",
}


def day_of(characters: tuple[str, ...], locale: str) -> date:
    """The day of a date in the long style."""
    found = re.fullmatch(FORMS[locale], "".join(characters))
    assert found, characters
    month, names = found["month"], MONTHS.get(locale, "").split()
    number = int(month) if month.isdigit() else names.index(month) + 1
    return date(int(found["year"]), number, int(found["day"]))


@given(day=st.dates(date(1, 1, 1)), locale=st.sampled_from(DATE_LOCALES))
def test_a_date_can_be_read_back(day, locale):
    assert day_of(date_characters(day, locale), locale) == day


@pytest.mark.parametrize("locale", DATE_LOCALES)
@pytest.mark.parametrize("style", DATE_STYLES)
def test_days_are_written_differently_and_every_token_is_one_character(locale, style):
    days = [date(1900, 1, 1) + timedelta(number) for number in range(0, 73_000, 37)]
    written = [date_characters(day, locale, style) for day in days]
    assert len(set(written)) == len(days)
    assert {len(character) for characters in written for character in characters} == {1}
    # A space is a plain space: a reader can type what the model was trained on.
    assert not re.search(r"[^\S ]", "".join(map("".join, written)))


@pytest.mark.parametrize(
    ("locale", "style", "text"),
    [
        ("de", "full", "Montag, 21. Juli 1969"),
        ("en", "medium", "Jul 21, 1969"),
        ("ja", "medium", "1969/07/21"),
        ("zh", "full", "1969年7月21日星期一"),
        ("iso", "full", "1969-07-21"),
    ],
)
def test_dates_written_by_hand(locale, style, text):
    assert "".join(date_characters(date(1969, 7, 21), locale, style)) == text


def test_both_sides_of_a_pair_are_the_same_day_and_no_test_day_is_in_any_training_set():
    trained, tested = set(), set()
    for seed, (source, target) in enumerate([("de", "en"), ("iso", "ja"), ("fr", "es")]):
        sides = date_pairs(source, target, count=3000, seed=seed)
        for side, seen in zip(sides, (trained, tested), strict=True):
            days = [day_of(characters, source) for characters, _ in side]
            assert days == [day_of(characters, target) for _, characters in side]
            assert len(set(days)) == len(days)
            seen |= {*days}
        assert sum(map(len, sides)) == 3000
        assert 0.07 < len(sides[1]) / 3000 < 0.13
    assert not trained & tested
    assert {min(trained).year, max(trained).year} == {1900, 2099}
