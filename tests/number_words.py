"""What number words mean, written out by hand: the oracle of `attn_notes.data.numbers`.

For digits, and for languages that the book reads or the package corrects; the words of the others
are num2words' own. A word is worth a number, or it is a scale, which multiplies all that is smaller
before it: "drei hundert tausend" is (3 · 100) · 1000, "quatre -vingt" 4 · 20.
"""

from collections.abc import Iterable


def _worth(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    """These words are worth first, first + step, ...; a bar parts the forms of one word."""
    numbers = enumerate(words.split())
    return {form: first + step * n for n, forms in numbers for form in forms.split("|")}


WORTH = {
    "digits": _worth("0 1 2 3 4 5 6 7 8 9"),
    "de": _worth(
        "null ein|eine|eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn "
        "vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
    )
    | _worth("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", 20, 10)
    | {"und": 0},
    "en": _worth(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen"
    )
    | _worth("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
    | {"and": 0},
    "es": _worth(
        "cero un|uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce "
        "quince dieciséis diecisiete dieciocho diecinueve veinte veintiún|veintiuno veintidós "
        "veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
    )
    | _worth("treinta cuarenta cincuenta sesenta setenta ochenta noventa", 30, 10)
    | _worth(
        "cien|ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
        "ochocientos novecientos",
        100,
        100,
    )
    | {"y": 0},
    "fr": _worth(
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
        "seize"
    )
    | _worth("vingt trente quarante cinquante soixante", 20, 10)
    | {"et": 0},
}

SCALES: dict[str, dict[str, int]] = {
    "digits": {},
    "de": {
        "hundert": 100, "tausend": 10**3, "Million": 10**6, "Millionen": 10**6,
        "Milliarde": 10**9, "Milliarden": 10**9,
    },
    "en": {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9},
    "es": {"mil": 10**3, "millón": 10**6, "millones": 10**6},
    "fr": {
        "-vingt": 20, "-vingts": 20, "cent": 100, "cents": 100, "mille": 10**3, "million": 10**6,
        "millions": 10**6, "milliard": 10**9, "milliards": 10**9,
    },
}  # fmt: skip


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
