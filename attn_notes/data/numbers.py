"""Numbers in words: a translation task that every reader can check (chapter 4).

The words come from num2words; what is ours is to cut them into tokens and to put them together
again. German writes a number below a million as one word, and its units before its tens
(dreiundsiebzig, three-and-seventy); French counts in twenties (quatre-vingt-treize); Japanese
groups the digits by four. So one model per pair of languages meets reordering of three kinds.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import cache
from itertools import groupby, product
from typing import Any

from attn_notes.arguments import check_fractions, check_integers
from attn_notes.data.split import Pair, is_held_out

__all__ = [
    "NUMBER_LANGUAGES",
    "join_words",
    "language_tag",
    "number_pairs",
    "number_words",
    "split_number",
]

NUMBER_LANGUAGES = ("de", "digits", "en", "es", "fr", "id", "ja", "pl", "pt", "ru")
_MOST_DIGITS = 12
_BY_CHARACTER = {"digits", "ja"}  # written without spaces: every character is a token

# Where num2words leaves its language's grammar: (what it writes, what is right).
_MENDS = {
    "de": [(r"eins(?=tausend| Milli)", "ein")],  # einhunderteintausend
    "es": [(r"veintiuno (?=mil)", "veintiún "), (r"uno (?=mil)", "un ")],  # veintiún mil
}


def number_words(value: int, language: str) -> tuple[str, ...]:
    """A number in words, one token a word.

    Args:
        value: from 0 to 999,999,999,999.
        language: one of `NUMBER_LANGUAGES`; "digits" spells the number digit by digit.

    Returns:
        The tokens; `join_words` makes the usual writing of them.

    Raises:
        TypeError: a value that is not an integer.
        ValueError: a value out of range, or a language that is not offered.

    Example:
        >>> number_words(73, "de"), number_words(73, "en")
        (('drei', 'und', 'siebzig'), ('seventy', '-three'))
        >>> number_words(93, "fr")
        ('quatre', '-vingt', '-treize')
    """
    return split_number(_spell(value, language), language)


def split_number(text: str, language: str) -> tuple[str, ...]:
    """A written number as tokens.

    German compounds are cut into their words, a hyphen stays with the word after it and a comma
    with the word before it, so that nothing is lost: `join_words` gives the text back. Words
    that belong to no number stay whole, for a vocabulary to call unknown.

    Args:
        text: a number as `join_words` writes it, or as a reader types it.
        language: one of `NUMBER_LANGUAGES`.

    Returns:
        The tokens, none of them with white space.

    Raises:
        ValueError: a language that is not offered.

    Example:
        >>> split_number("zwei Millionen dreiundsiebzig", "de")
        ('zwei', 'Millionen', 'drei', 'und', 'siebzig')
    """
    _check_language(language)
    if language in _BY_CHARACTER:
        return tuple("".join(text.split()))
    if language == "de":
        return tuple(piece for word in text.split() for piece in _split_compound(word))
    return tuple(text.replace("-", " -").split())


def join_words(tokens: Sequence[str], language: str) -> str:
    """Tokens as they are written: what `split_number` took apart.

    Args:
        tokens: of one number, from `number_words` or from a model.
        language: one of `NUMBER_LANGUAGES`.

    Returns:
        The text. In German all neighbours but the nouns, Million and Milliarde, become one word.

    Raises:
        ValueError: a language that is not offered.

    Example:
        >>> join_words(["eine", "Million", "drei", "und", "siebzig"], "de")
        'eine Million dreiundsiebzig'
        >>> join_words(["quatre", "-vingt", "-treize"], "fr")
        'quatre-vingt-treize'
    """
    _check_language(language)
    if language in _BY_CHARACTER:
        return "".join(tokens)
    if language == "de":
        runs = groupby(tokens, key=str.islower)
        return " ".join(("" if is_lower else " ").join(run) for is_lower, run in runs)
    return " ".join(tokens).replace(" -", "-")


def number_pairs(
    source: str | Sequence[str],
    target: str | Sequence[str],
    *,
    count: int,
    digits: tuple[int, int] = (1, 12),
    balance: float = 0.0,
    seed: int = 0,
) -> tuple[list[Pair], list[Pair]]:
    """Distinct numbers in two languages, as many of each length, to train on and to test on.

    Of numbers drawn evenly from 0 to a million, nine in ten would have six digits. So every
    number of digits gets the same share of `count`, and the values of that length are drawn
    evenly. The short lengths run out first: there are ten numbers of one digit and ninety of two,
    and what is left of their share goes to the longer ones.

    About one number in ten is held out, by its value: whatever the languages and the seed, a
    number of the test is in no training set. The numbers of one digit are all trained on, for
    they are words that no longer number needs to contain: nothing else has a zero in words.

    Several languages make the pairs for one model that knows them all: each number is read in
    each of them and written in each other. Where several are written, the first token read is the
    `language_tag` of the one that is wanted (Johnson et al., 2017, section 3).

    Args:
        source: the language to read, one of `NUMBER_LANGUAGES`, or several.
        target: the language to write, or several.
        count: how many numbers are drawn, both sides together.
        digits: the fewest and the most digits, each from 1 to 12.
        balance: how many numbers of each kind are at least to be trained on, as a share, from 0 to
            1, of the numbers drawn to train on; a kind is a number of digits and of zeros at the
            end, and the numbers of a rare one are repeated. Of those below 10,000 one in a
            thousand has one digit, and a model that meets it so seldom gets it wrong, which an
            average over all does not tell.
        seed: of the draw, and of the order of the pairs.

    Returns:
        The pairs to train on, and the pairs held out.

    Raises:
        TypeError: a count that is not an integer, or a balance that is not a number.
        ValueError: a language that is not offered, the same one twice on a side or none at all,
            digits out of range, a balance outside 0 to 1, a count below 1, or one beyond the
            numbers that there are.

    Example:
        >>> train, held_out = number_pairs("digits", "en", count=1000)
        >>> len(train) + len(held_out)
        1000
        >>> _, held_out = number_pairs("digits", ("de", "fr"), count=100, digits=(1, 2))
        >>> held_out[1]
        (('<fr>', '4', '9'), ('quarante', '-neuf'))
    """
    check_integers(1, count=count)
    check_fractions(balance=balance)
    routes = _routes(source, target)
    languages = dict.fromkeys(language for _, *route in routes for language in route)
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for held_out, values in enumerate(_split(_draw_values(count, digits, seed), balance)):
        for value in values:
            words = {language: number_words(value, language) for language in languages}
            pairs = [((*tag, *words[read]), words[written]) for tag, read, written in routes]
            sides[held_out].extend(pairs)
    return sides


def language_tag(language: str) -> str:
    """The token that asks for a language.

    Args:
        language: its name.

    Returns:
        The token: no word of a number, and no character of one.

    Example:
        >>> language_tag("fr")
        '<fr>'
    """
    return f"<{language}>"


def _routes(
    source: str | Sequence[str], target: str | Sequence[str]
) -> list[tuple[tuple[str, ...], str, str]]:
    """(tag, language read, language written) of every way to go."""
    sides = [(side,) if isinstance(side, str) else tuple(side) for side in (source, target)]
    for name, side in zip(("source", "target"), sides, strict=True):
        if not side or len(set(side)) < len(side):
            raise ValueError(f"{name} must be one language or several different, got {side}")
    return [
        ((language_tag(written),) if len(sides[1]) > 1 else (), read, written)
        for read, written in product(*sides)
        if read != written or sides[0] == sides[1] == (read,)
    ]


def _split(values: list[int], balance: float) -> tuple[list[int], list[int]]:
    """What is trained on, the rare kinds repeated, and what is held out."""
    sides: tuple[list[int], list[int]] = ([], [])
    for value in values:
        sides[value > 9 and is_held_out(value)].append(value)
    kinds = Counter(map(_kind, sides[0]))
    least = balance * len(sides[0])
    times = {kind: max(1, math.ceil(least / there)) for kind, there in kinds.items()}
    return [value for value in sides[0] for _ in range(times[_kind(value)])], sides[1]


def _kind(value: int) -> tuple[int, int]:
    """How many digits it has, and how many without the zeros at the end."""
    return len(str(value)), len(str(value).rstrip("0"))


def _draw_values(count: int, digits: tuple[int, int], seed: int) -> list[int]:
    """Distinct values in random order, each number of digits as often as the others."""
    match digits:
        case int(fewest), int(most) if 1 <= fewest <= most <= _MOST_DIGITS:
            pass
        case _:
            wanted = f"(fewest, most) from 1 to {_MOST_DIGITS}"
            raise ValueError(f"digits must be {wanted}, got {digits!r}")
    rng = random.Random(seed)
    values: list[int] = []
    for length in range(fewest, most + 1):
        there = range(10 ** (length - 1) if length > 1 else 0, 10**length)
        share = (count - len(values)) // (most + 1 - length)  # of what is still to be drawn
        values += rng.sample(there, min(share, len(there)))
    if len(values) < count:
        raise ValueError(
            f"count must be at most {len(values)}, the numbers of {fewest} to {most} digits, "
            f"got {count}"
        )
    rng.shuffle(values)
    return values


def _spell(value: int, language: str) -> str:
    """The number as it is written in that language."""
    _check_language(language)
    check_integers(value=value)
    if not 0 <= value < 10**_MOST_DIGITS:
        raise ValueError(f"value must be from 0 to {10**_MOST_DIGITS - 1:,}, got {value:,}")
    if language == "digits":
        return str(value)
    text: str = _converter(language).to_cardinal(value)
    for written, right in _MENDS.get(language, []):
        text = re.sub(written, right, text)
    return text


@cache
def _converter(language: str) -> Any:
    """num2words for one language, without the scales that no number here reaches.

    It tries every scale for every part of a number, and in German there are two hundred of them
    above a million. Without those it is ten times as fast and writes the same.
    """
    from num2words import CONVERTER_CLASSES  # noqa: PLC0415

    converter = copy(CONVERTER_CLASSES[language])
    if hasattr(converter, "cards"):
        scales = converter.cards.items()
        converter.cards = {scale: word for scale, word in scales if scale < 10**_MOST_DIGITS}
    return converter


def _split_compound(word: str) -> list[str]:
    """The words in a German number word; a word that is not made of them, whole."""
    piece = _german_piece()
    return re.findall(piece, word) if re.fullmatch(f"({piece})+", word) else [word]


@cache
def _german_piece() -> str:
    """A pattern that finds one word of a compound, the longest first: siebzehn before sieben."""
    small = [_spell(value, "de") for value in (*range(20), *range(20, 100, 10))]
    return "|".join(sorted([*small, "ein", "und", "hundert", "tausend"], key=len, reverse=True))


def _check_language(language: str) -> None:
    if language not in NUMBER_LANGUAGES:
        offered = ", ".join(NUMBER_LANGUAGES)
        raise ValueError(f"language must be one of {offered}, got {language!r}")
