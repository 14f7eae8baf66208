"""Dates of several countries, character by character (chapter 4).

Day, month and year change places between locales. The formats are Unicode's, from Babel.
"""

from datetime import date

from attn_notes.extras import extra

DATE_LOCALES = ("de", "en", "es", "fr", "iso", "ja", "zh")
DATE_STYLES = ("full", "long", "medium")  # the short style may omit the century


def date_characters(day: date, locale: str, style: str = "long") -> tuple[str, ...]:
    """A date as it is written in a country, one token per character, spaces included. Chapter 4.

    The locale is one of `DATE_LOCALES`; "iso" is year-month-day in digits in every style. The style
    "long" may write the month as a word, "medium" abbreviates it, "full" adds a weekday.

    Example:
        >>> "".join(date_characters(date(1969, 7, 21), "en", "full"))
        'Monday, July 21, 1969'
    """
    for name, choice, offered in (("locale", locale, DATE_LOCALES), ("style", style, DATE_STYLES)):
        if choice not in offered:  # Babel would take an unknown style for a pattern
            raise ValueError(f"{name} must be one of {', '.join(offered)}, got {choice!r}")
    if locale == "iso":
        return tuple(day.isoformat())
    with extra("data"):
        from babel.dates import format_date  # noqa: PLC0415

    return tuple(format_date(day, style, locale))
