"""Dates of many countries, letter by letter: blocks that change places (chapter 4).

The day, the month and the year stand in another order in each language, and a token is a single
character, so what a model reads as it writes moves in blocks. How a date is written comes from
the Unicode locale data that Babel carries.
"""

import random
from datetime import date

from attn_notes.arguments import check_integers
from attn_notes.data.split import Pair, is_held_out

__all__ = ["DATE_LOCALES", "DATE_STYLES", "date_characters", "date_pairs"]

DATE_LOCALES = ("de", "en", "es", "fr", "iso", "ja", "zh")
# The short style of some locales leaves the century out, and a date could not be told by it.
DATE_STYLES = ("full", "long", "medium")


def date_characters(day: date, locale: str, style: str = "long") -> tuple[str, ...]:
    """A date as it is written in a country, one token a character.

    Args:
        day: the date.
        locale: one of `DATE_LOCALES`; "iso" is year-month-day in digits, whatever the style.
        style: "long" writes the month as a word where the locale does, "medium" shortens it,
            and "full" puts the day of the week to it.

    Returns:
        The characters, spaces among them; `"".join` gives the text back.

    Raises:
        TypeError: a day that is not a date.
        ValueError: a locale or a style that is not offered.

    Example:
        >>> "".join(date_characters(date(1969, 7, 21), "de"))
        '21. Juli 1969'
        >>> "".join(date_characters(date(1969, 7, 21), "en", "full"))
        'Monday, July 21, 1969'
    """
    if not isinstance(day, date):
        raise TypeError(f"day must be a datetime.date, got {day!r}")
    for name, choice, offered in (("locale", locale, DATE_LOCALES), ("style", style, DATE_STYLES)):
        if choice not in offered:
            raise ValueError(f"{name} must be one of {', '.join(offered)}, got {choice!r}")
    if locale == "iso":
        return tuple(day.isoformat())
    from babel.dates import format_date  # noqa: PLC0415

    return tuple(format_date(day, style, locale))


def date_pairs(
    source: str,
    target: str,
    *,
    count: int,
    first_year: int = 1900,
    last_year: int = 2099,
    style: str = "long",
    seed: int = 0,
) -> tuple[list[Pair], list[Pair]]:
    """Distinct days in two locales, to train on and to test on.

    About one day in ten is held out, by its date: whatever the locales, the style and the seed,
    a day of the test is in no training set.

    Args:
        source: the locale to read, one of `DATE_LOCALES`.
        target: the locale to write.
        count: how many days are drawn, both sides together.
        first_year: the days are drawn evenly from the first of this year, 1 or later,
        last_year: to the last of this one, 9999 or earlier.
        style: one of `DATE_STYLES`, for both sides.
        seed: of the draw.

    Returns:
        The pairs to train on, and the pairs held out.

    Raises:
        TypeError: a count or a year that is not an integer.
        ValueError: a locale or a style that is not offered, years out of range or order, a count
            below 1, or one beyond the days that there are.

    Example:
        >>> train, held_out = date_pairs("de", "iso", count=1000)
        >>> len(train) + len(held_out)
        1000
    """
    check_integers(count=count, first_year=first_year, last_year=last_year)
    if not 1 <= first_year <= last_year <= 9999:
        raise ValueError(
            f"years must be in order, from 1 to 9999, got first_year = {first_year} "
            f"and last_year = {last_year}"
        )
    days = range(date(first_year, 1, 1).toordinal(), date(last_year, 12, 31).toordinal() + 1)
    if not 1 <= count <= len(days):
        raise ValueError(f"count must be from 1 to {len(days)}, the days there are, got {count}")
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for ordinal in random.Random(seed).sample(days, count):
        day = date.fromordinal(ordinal)
        pair = date_characters(day, source, style), date_characters(day, target, style)
        sides[is_held_out(day.isoformat())].append(pair)
    return sides
