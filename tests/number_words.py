"""What number words mean, written out by hand: the oracle of `attn_notes.data.numbers`.

For digits, and for languages that the book reads or the package corrects; the words of the others
are num2words' own. A word is worth a number, or it is a scale, which multiplies all that is smaller
before it: "drei hundert tausend" is (3 · 100) · 1000, "quatre -vingt" 4 · 20.
"""

from collections.abc import Iterable


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
