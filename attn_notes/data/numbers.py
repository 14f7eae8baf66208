"""Numbers in words: a translation task that every reader can check (chapter 4).

The words come from num2words. German puts units before tens (dreiundsiebzig), French counts in
twenties (quatre-vingt-treize), Japanese groups the digits by four.
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

from attn_notes.arguments import check_fractions
from attn_notes.data.split import Pair, is_held_out
from attn_notes.extras import extra

NUMBER_LANGUAGES = ("de", "digits", "en", "es", "fr", "id", "ja", "pl", "pt", "ru")
_MOST_DIGITS = 12
_BY_CHARACTER = {"digits", "ja"}  # written without spaces: every character is a token

# Corrections of num2words' grammar: (what it writes, what is right).
_CORRECTIONS = {
    "de": [(r"eins(?=tausend| Milli)", "ein")],  # einhunderteintausend
    "es": [(r"veintiuno (?=mil)", "veintiún "), (r"uno (?=mil)", "un ")],  # veintiún mil
}

_ONES = "(?:one|two|three|four|five|six|seven|eight|nine)"
_TENS = "(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
_TEENS = "(?:ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen)"
_TO_99 = f"(?:{_ONES}|{_TEENS}|{_TENS}(?:-{_ONES})?)"
_TO_999 = f"(?:{_TO_99}|{_ONES} hundred(?: and {_TO_99})?)"
# A regular expression of the numbers from 0 to 9999, in digits or in English words.
BELOW_TEN_THOUSAND = (
    f"zero|{_TO_999}|{_ONES} thousand(?:,? {_ONES} hundred(?: and {_TO_99})?| and {_TO_99})?"
    "|0|[1-9][0-9]{0,3}|[1-9][.,][0-9]{3}"
)


def number_words(value: int, language: str) -> tuple[str, ...]:
    """A number from 0 to 999,999,999,999 in words, one token per word. Chapter 4.

    The language is one of `NUMBER_LANGUAGES`; `join_words` gives the usual spelling.

    Example:
        >>> number_words(73, "de"), number_words(93, "fr")
        (('drei', 'und', 'siebzig'), ('quatre', '-vingt', '-treize'))
    """
    if not 0 <= value < 10**_MOST_DIGITS:
        raise ValueError(f"value must be from 0 to {10**_MOST_DIGITS - 1:,}, got {value:,}")
    return split_number(_spell(value, language), language)


def split_number(text: str, language: str) -> tuple[str, ...]:
    """A number as tokens, as `join_words` writes it or as a reader types it. Chapter 4.

    German compounds are cut, and a hyphen belongs to the word after it.

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
    """The usual spelling of these tokens: the inverse of `split_number`. Chapter 4.

    In German all neighbours but the nouns, Million and Milliarde, form one word.

    Example:
        >>> join_words(["eine", "Million", "drei", "und", "siebzig"], "de")
        'eine Million dreiundsiebzig'
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
    """Distinct numbers in two languages, equally many of each length, to train and test on.

    What the short lengths cannot fill of their share of `count` goes to the longer ones. About one
    number in ten is held out, by its value, but none of one digit: no other has the word for zero.
    Each is read in each source language and written in each other target language; of several
    targets, the first source token names the one (Johnson et al., 2017, section 3). Chapter 4.

    `digits` are the fewest and the most; `balance`, from 0 to 1, is the least share of the training
    numbers for each kind (a number of digits and of zeros at the end): a rare kind is repeated.

    Example:
        >>> _, held_out = number_pairs("digits", ("de", "fr"), count=100, digits=(1, 2))
        >>> held_out[1]
        (('<fr>', '4', '9'), ('quarante', '-neuf'))
    """
    check_fractions(balance=balance)
    sources, targets = ([side] if isinstance(side, str) else [*side] for side in (source, target))
    sides: tuple[list[Pair], list[Pair]] = ([], [])
    for held_out, values in enumerate(_split(_draw_values(count, digits, seed), balance)):
        for value, read, written in product(values, sources, targets):
            if read != written or len(sources) == len(targets) == 1:
                tag = [f"<{written}>"] if len(targets) > 1 else []
                words = (*tag, *number_words(value, read))
                sides[held_out].append((words, number_words(value, written)))
    return sides


def _split(values: list[int], balance: float) -> tuple[list[int], list[int]]:
    """The training values, rare kinds repeated, and the held-out values."""
    sides: tuple[list[int], list[int]] = ([], [])
    for value in values:
        sides[value > 9 and is_held_out(value)].append(value)
    train, held_out = sides
    kinds = [(len(str(value)), len(str(value).rstrip("0"))) for value in train]
    counts, least = Counter(kinds), balance * len(train)
    times = [max(1, math.ceil(least / counts[kind])) for kind in kinds]
    return [value for value, n in zip(train, times, strict=True) for _ in range(n)], held_out


def _draw_values(count: int, digits: tuple[int, int], seed: int) -> list[int]:
    """Distinct values in random order, equally many of each number of digits."""
    fewest, most = digits
    if not 1 <= fewest <= most <= _MOST_DIGITS:
        raise ValueError(f"digits must be (fewest, most) from 1 to {_MOST_DIGITS}, got {digits}")
    rng = random.Random(seed)
    values: list[int] = []
    for length in range(fewest, most + 1):
        candidates = range(10 ** (length - 1) if length > 1 else 0, 10**length)
        share = (count - len(values)) // (most + 1 - length)  # of what is still to be drawn
        values += rng.sample(candidates, min(share, len(candidates)))
    if len(values) < count:
        limit = f"{len(values)}, the numbers of {fewest} to {most} digits"
        raise ValueError(f"count must be at most {limit}, got {count}")
    rng.shuffle(values)
    return values


def _spell(value: int, language: str) -> str:
    """The number as it is written in that language."""
    _check_language(language)
    if language == "digits":
        return str(value)
    text: str = _converter(language).to_cardinal(value)
    for written, right in _CORRECTIONS.get(language, []):
        text = re.sub(written, right, text)
    return text


@cache
def _converter(language: str) -> Any:
    """num2words for one language, without the scales above 10^12: ten times as fast."""
    with extra("data"):
        from num2words import CONVERTER_CLASSES  # noqa: PLC0415

    converter = copy(CONVERTER_CLASSES[language])
    if hasattr(converter, "cards"):
        scales = converter.cards.items()
        converter.cards = {scale: word for scale, word in scales if scale < 10**_MOST_DIGITS}
    return converter


def _split_compound(word: str) -> list[str]:
    """The words in a German number word; any other word, whole."""
    pieces = _german_words().findall(word)
    return pieces if "".join(pieces) == word else [word]


@cache
def _german_words() -> re.Pattern[str]:
    """A pattern that finds one word of a compound, the longest first: siebzehn before sieben."""
    small = [_spell(value, "de") for value in (*range(20), *range(20, 100, 10))]
    words = [*small, "ein", "und", "hundert", "tausend"]
    return re.compile("|".join(sorted(words, key=len, reverse=True)))


def _check_language(language: str) -> None:
    """Raise unless it is one of `NUMBER_LANGUAGES`."""
    if language not in NUMBER_LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(NUMBER_LANGUAGES)}, got {language!r}")
