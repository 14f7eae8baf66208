"""Numbers in words and dates: their meaning, without loss, and which of them are held out."""

import random
import re
from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from functools import partial

import pytest

from attn_notes import data
from attn_notes.data import join_words, number_pairs, number_words
from attn_notes.data.dates import DATE_LOCALES, DATE_STYLES
from attn_notes.data.numbers import BELOW_TEN_THOUSAND, NUMBER_LANGUAGES
from attn_train import sources

# Values with irregular spellings, in some language.
CORNERS = sorted(
    {sign + 10**power for power in range(1, 12) for sign in (-1, 0, 1)}
    | {group * scale for group in (1, 2, 5, 11, 21, 22, 71, 80, 81, 100, 101, 111, 200, 201, 999)
       for scale in (1, 10**3, 10**6, 10**9)}
    | {101_101_101_101, 21_021_021_021, 80_080_080_080, 10**12 - 1}
)  # fmt: skip


# What number words mean, written out by hand: for digits, and for languages that the book reads or
# the package corrects; the words of the others are num2words' own. A word is worth a number, or it
# is a scale, which multiplies all that is smaller before it: "drei hundert tausend" is
# (3 · 100) · 1000, "quatre -vingt" 4 · 20.


def _each(words: str, numbers: Iterable[int]) -> dict[str, int]:
    """A number for each word; a bar parts the forms of one word."""
    pairs = zip(words.split(), numbers, strict=True)
    return {form: number for forms, number in pairs for form in forms.split("|")}


TENS, POWERS = range(20, 100, 10), (100, 10**3, 10**6, 10**9)
WORTH = {
    "digits": _each("0 1 2 3 4 5 6 7 8 9", range(10)),
    "de": _each(
        "null ein|eine|eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn "
        "vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn", range(20))
    | _each("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", TENS)
    | {"und": 0},
    "en": _each(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen", range(20))
    | _each("twenty thirty forty fifty sixty seventy eighty ninety", TENS)
    | {"and": 0},
    "es": _each(
        "cero un|uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce "
        "quince dieciséis diecisiete dieciocho diecinueve veinte veintiún|veintiuno veintidós "
        "veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve "
        "treinta", range(31))
    | _each("cuarenta cincuenta sesenta setenta ochenta noventa", TENS[2:])
    | _each(
        "cien|ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
        "ochocientos novecientos", range(100, 1000, 100))
    | {"y": 0},
    "fr": _each(
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
        "seize", range(17))
    | _each("vingt trente quarante cinquante soixante", TENS[:5])
    | {"et": 0},
}  # fmt: skip
SCALES = {
    "de": _each("hundert tausend Million|Millionen Milliarde|Milliarden", POWERS),
    "en": _each("hundred thousand million billion", POWERS),
    "es": _each("mil millón|millones", POWERS[1:3]),
    "fr": _each("-vingt|-vingts", [20])
    | _each("cent|cents mille million|millions milliard|milliards", POWERS),
}


def value_of(tokens: Iterable[str], language: str) -> int:
    """The number that these words mean; a KeyError for a word that is none."""
    if language == "digits":
        return int("".join(tokens))
    parts: list[int] = []
    for token in tokens:
        word = token.rstrip(",")
        if scale := SCALES[language].get(word):
            smaller = sum(part for part in parts if part < scale)
            parts = [part for part in parts if part >= scale] + [(smaller or 1) * scale]
        else:
            parts.append(WORTH[language][word.removeprefix("-")])
    return sum(parts)


def some_values(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(10 ** rng.randint(1, 12)) for _ in range(count)]


@pytest.mark.parametrize("language", NUMBER_LANGUAGES)
def test_the_words_of_a_number_mean_it_and_survive_joining_and_splitting(language):
    for value in [*range(1200), *CORNERS, *some_values(2000)]:
        words = number_words(value, language)
        if language in WORTH:
            assert value_of(words, language) == value
        text = join_words(words, language)
        assert data.split_number(text, language) == words
        assert join_words(data.split_number(text, language), language) == text
        assert not re.search(r"\s\s|^\s|\s$|\s-", text)


@pytest.mark.parametrize(
    ("value", "language", "text", "tokens"),
    [
        (101_000, "de", "einhunderteintausend", "ein hundert ein tausend"),
        (21_000, "es", "veintiún mil", "veintiún mil"),
        (31_000, "es", "treinta y un mil", "treinta y un mil"),
        (12_345, "ja", "一万二千三百四十五", "一 万 二 千 三 百 四 十 五"),
        (2_100, "pt", "dois mil e cem", "dois mil e cem"),
        (2_002, "ru", "две тысячи два", "две тысячи два"),
    ],
)  # fmt: skip
def test_numbers_written_by_hand(value, language, text, tokens):
    assert number_words(value, language) == tuple(tokens.split())
    assert join_words(tokens.split(), language) == text


@pytest.mark.parametrize(
    ("text", "language", "tokens"),
    [
        ("hundertdrei", "de", "hundert drei"),  # without ein: as it is said
        ("zwei hundert  drei", "de", "zwei hundert drei"),
        ("dreiundsiebzich", "de", "dreiundsiebzich"),  # not a number: whole, and so unknown
        ("einsechs", "de", "einsechs"),  # not "eins" and a lost rest
        ("forty -two", "en", "forty -two"),
        ("12 345", "digits", "1 2 3 4 5"),
        ("", "de", ""),
    ],
)
def test_input_typed_by_a_reader(text, language, tokens):
    assert data.split_number(text, language) == tuple(tokens.split())


# Dates

DAYS = [date(1900, 1, 1) + timedelta(number) for number in range(73_049)]


@pytest.mark.parametrize("locale", DATE_LOCALES)
@pytest.mark.parametrize("style", DATE_STYLES)
def test_days_are_written_differently_and_every_token_is_one_character(locale, style):
    days = DAYS[::37]
    written = [data.date_characters(day, locale, style) for day in days]
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
    assert "".join(data.date_characters(date(1969, 7, 21), locale, style)) == text


# Pairs


@pytest.mark.parametrize(
    "draw",
    [
        partial(number_pairs, "fr", "digits", digits=(1, 4)),
        partial(sources.date_pairs, "de", "iso"),
    ],
)
def test_no_test_value_is_in_any_training_set(draw):
    trained, tested = set(), set()
    for seed in range(3):
        sides = draw(count=1500, seed=seed)
        for side, seen in zip(sides, (trained, tested), strict=True):
            values = [target for _, target in side]
            assert len({*values}) == len(values)
            seen |= {*values}
        assert sum(map(len, sides)) == 1500
    assert not trained & tested
    assert 0.08 < len(tested) / len(trained | tested) < 0.12


@pytest.mark.parametrize("languages", [("de", "en"), ("fr", "digits"), ("es", "de"), ("fr", "fr")])
def test_both_sides_of_a_pair_are_one_number(languages):
    for pairs in number_pairs(*languages, count=500, digits=(1, 4)):
        for tokens, written in pairs:
            assert value_of(tokens, languages[0]) == value_of(written, languages[1])


@pytest.mark.parametrize("target", ["de", "ja", "es"])
def test_both_sides_of_a_pair_are_one_day(target):
    for pairs in sources.date_pairs("iso", target, count=500):
        for tokens, written in pairs:
            day = date.fromisoformat("".join(tokens))
            assert 1900 <= day.year < 2100
            assert written == data.date_characters(day, target)


def test_each_number_is_translated_between_all_languages_as_its_tag_asks():
    train, held_out = number_pairs(("digits", "en"), ("de", "en"), count=300, digits=(1, 3))
    assert len(train + held_out) == 900
    values = []
    for (tag, *words), written in train + held_out:
        (target,) = (name for name in ("de", "en") if f"<{name}>" == tag)
        source = "digits" if words[0].isdigit() else "en"
        assert source != target
        assert value_of(tuple(words), source) == value_of(written, target)
        values.append(value_of(written, target))
    assert values[::3] == values[1::3] == values[2::3]
    alone = number_pairs("digits", "de", count=300, digits=(1, 3))
    for several, one in zip((train, held_out), alone, strict=True):
        assert [written for _, written in several[::3]] == [written for _, written in one]


def kind_of(digits: tuple[str, ...]) -> str:
    """How long a number is, and how round: 0, d, d0, d00, dd, dd0 or ddd, and 0 for itself."""
    return re.sub("[0-9](?=.*[1-9])|[1-9]", "d", "".join(digits))


@pytest.mark.parametrize("balance", [0.0, 0.02, 0.25, 1.0])
def test_rare_kinds_are_repeated_until_they_have_their_share(balance):
    plain, held_out = number_pairs("digits", "de", count=1000, digits=(1, 3))
    train, same = number_pairs("digits", "de", count=1000, digits=(1, 3), balance=balance)
    assert same == held_out
    assert set(train) == set(plain)
    counts = [Counter(kind_of(words) for words, _ in pairs) for pairs in (plain, train)]
    for kind, there in counts[0].items():
        least = max(there, balance * len(plain))
        assert least <= counts[1][kind] < least + there
    times = Counter(words for words, _ in train)
    assert len({times[digit,] for digit in "123456789"}) == 1


def test_all_numbers_can_be_drawn_and_those_of_one_digit_are_trained_on():
    train, held_out = number_pairs("digits", "de", count=1000, digits=(1, 3))
    assert sorted(value_of(words, "digits") for words, _ in train + held_out) == list(range(1000))
    assert {(digit,) for digit in "0123456789"} <= {words for words, _ in train}
    assert held_out
    assert all(data.is_held_out(value_of(words, "digits")) for words, _ in held_out)


def test_the_pattern_matches_every_number_below_ten_thousand_and_no_other_text():
    for value in range(10_000):
        for text in (str(value), join_words(number_words(value, "en"), "en")):
            assert re.fullmatch(BELOW_TEN_THOUSAND, text), text
    larger = [join_words(number_words(value, "en"), "en") for value in range(10_000, 10**6, 997)]
    others = ["", "007", "12345", "3.5", "1,99", "hundred", "ninety thousand", "twenty ten"]
    others.append("eighty one")  # a widget reads it as eighty-one
    assert not [text for text in larger + others if re.fullmatch(BELOW_TEN_THOUSAND, text)]
