"""Number words: their meaning, splitting and joining without loss, and the held-out numbers."""

import random
import re
from collections import Counter
from itertools import product

import pytest

from attn_notes.data import is_held_out, join_words, number_pairs, number_words, split_number
from attn_notes.data import numbers as N
from attn_notes.data.numbers import BELOW_TEN_THOUSAND, NUMBER_LANGUAGES
from tests.number_words import WORTH, value_of

LARGEST = 10**12 - 1
EVERY_LANGUAGE = pytest.mark.parametrize("language", NUMBER_LANGUAGES)

# Values with irregular spellings, in some language.
CORNERS = sorted(
    {sign + 10**power for power in range(1, 12) for sign in (-1, 0, 1)}
    | {group * scale for group in (1, 2, 5, 11, 21, 22, 71, 80, 81, 100, 101, 111, 200, 201, 999)
       for scale in (1, 10**3, 10**6, 10**9)}
    | {101_101_101_101, 21_021_021_021, 80_080_080_080, LARGEST}
)  # fmt: skip


def some_values(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(10 ** rng.randint(1, 12)) for _ in range(count)]


@EVERY_LANGUAGE
def test_the_words_of_a_number_mean_it_and_survive_joining_and_splitting(language):
    for value in [*range(1200), *CORNERS, *some_values(2000)]:
        words = number_words(value, language)
        if language in WORTH:
            assert value_of(words, language) == value
        text = join_words(words, language)
        assert split_number(text, language) == words
        assert join_words(split_number(text, language), language) == text
        assert not re.search(r"\s\s|^\s|\s$|\s-", text)


@pytest.mark.parametrize(
    ("value", "language", "text", "tokens"),
    [
        (73, "de", "dreiundsiebzig", "drei und siebzig"),
        (101_000, "de", "einhunderteintausend", "ein hundert ein tausend"),
        (2_001_000_000, "de", "zwei Milliarden eine Million", "zwei Milliarden eine Million"),
        (1_234, "en", "one thousand, two hundred and thirty-four",
         "one thousand, two hundred and thirty -four"),
        (99, "fr", "quatre-vingt-dix-neuf", "quatre -vingt -dix -neuf"),
        (21_000, "es", "veintiún mil", "veintiún mil"),
        (31_000, "es", "treinta y un mil", "treinta y un mil"),
        (4_096, "digits", "4096", "4 0 9 6"),
        (12_345, "ja", "一万二千三百四十五", "一 万 二 千 三 百 四 十 五"),
        (1_000, "id", "seribu", "seribu"),
        (2_000, "pl", "dwa tysiące", "dwa tysiące"),
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
    assert split_number(text, language) == tuple(tokens.split())


@pytest.mark.parametrize("language", sorted(set(NUMBER_LANGUAGES) - {"digits"}))
def test_only_corrected_words_differ_from_num2words(language):
    from num2words import num2words

    values = [*range(0, 1200, 7), *CORNERS, *some_values(100)]
    changed = {
        value
        for value in values
        if join_words(number_words(value, language), language) != num2words(value, lang=language)
    }
    assert bool(changed) == (language in N._CORRECTIONS)  # or the correction is obsolete
    for value in changed:  # a count of thousands or millions is 21, 31, 101, ... but not 1 or 11
        counts = value // 10**3 % 1000, value // 10**6, value // 10**9
        assert any(count > 1 and count % 10 == 1 and count % 100 != 11 for count in counts)


# Pairs


def test_both_sides_of_a_pair_mean_the_same_and_no_test_number_is_in_any_training_set():
    trained, tested = set(), set()
    languages = [("de", "en"), ("fr", "digits"), ("es", "de"), ("fr", "fr")]
    for seed, (source, target) in product(range(3), languages):
        sides = number_pairs(source, target, count=1500, seed=seed, digits=(1, 4))
        for side, seen in zip(sides, (trained, tested), strict=True):
            values = [value_of(words, source) for words, _ in side]
            assert values == [value_of(words, target) for _, words in side]
            assert len(set(values)) == len(values)
            seen |= {*values}
        assert sum(map(len, sides)) == 1500
    assert not trained & tested
    assert 0.08 < len(tested) / len(trained | tested) < 0.12


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
    assert all(is_held_out(value_of(words, "digits")) for words, _ in held_out)


def test_another_seed_draws_others():
    assert number_pairs("de", "en", count=50) != number_pairs("de", "en", count=50, seed=1)


def test_the_pattern_matches_every_number_below_ten_thousand_and_no_other_text():
    for value in range(10_000):
        for text in (str(value), join_words(number_words(value, "en"), "en")):
            assert re.fullmatch(BELOW_TEN_THOUSAND, text), text
    larger = [join_words(number_words(value, "en"), "en") for value in range(10_000, 10**6, 997)]
    others = ["", "007", "12345", "3.5", "1,99", "hundred", "ninety thousand", "twenty ten"]
    assert not [text for text in larger + others if re.fullmatch(BELOW_TEN_THOUSAND, text)]
