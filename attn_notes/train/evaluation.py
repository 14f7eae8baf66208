"""What a model is worth on what it has not seen: exact match and BLEU, or bits."""

from collections.abc import Sequence
from itertools import pairwise

from attn_notes.data import Pair
from attn_notes.decoding import translate
from attn_notes.ngrams import NGramModel
from attn_notes.train.language import LanguageModel
from attn_notes.train.translator import Translator
from attn_notes.training import bits_per_character, bleu, exact_match

__all__ = ["evaluate", "evaluate_texts"]

ORDERS = (1, 3, 5)  # of the n-grams that a language model is compared with
COUNTED = 2_000_000  # characters at most: the counts of more would fill the memory

Row = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # source, what was said, reference


def evaluate(translator: Translator, pairs: Sequence[Pair], *, bands: int = 4) -> str:
    """Exact match and BLEU over tokens, greedily decoded: of all pairs, and of parts of them.

    Args:
        translator: what is measured.
        pairs: that it was not trained on; one or more.
        bands: how many bands of length, with about as many pairs each.

    Returns:
        A table: all, each language that is written, where there are several, and each band.

    Raises:
        ValueError: no pair.

    Example:
        >>> from attn_notes.train import Seq2SeqSettings, build_model
        >>> settings = Seq2SeqSettings(source="de", target="en", max_length=4)
        >>> translator = Translator(settings, build_model(settings))
        >>> print(evaluate(translator, [(("drei",), ("three",)), (("vier",), ("four",))]))
        source tokens   pairs  exact match   BLEU
                  all       2        0.000    0.0
    """
    if not pairs:
        raise ValueError("there must be at least one pair to measure, got none")
    sources = [source for source, _ in pairs]
    vocabularies = translator.source_vocab, translator.target_vocab
    longest = translator.settings.max_length
    said = translate(translator.model, sources, *vocabularies, max_length=longest)
    rows = [(pair[0], words, pair[1]) for pair, words in zip(pairs, said, strict=True)]
    lines = ["source tokens   pairs  exact match   BLEU", _line("all", rows)]
    parts = {tag: [row for row in rows if row[0][0] == tag] for tag in translator.settings.tags}
    lines += [_line(tag, part) for tag, part in parts.items() if part]
    edges = _edges([len(source) for source in sources], bands)
    for low, high in pairwise(edges) if len(edges) > 2 else ():
        name = f"{low + 1}-{high}" if low + 1 < high else f"{high}"
        lines.append(_line(name, [row for row in rows if low < len(row[0]) <= high]))
    return "\n".join(lines)


def evaluate_texts(writer: LanguageModel, texts: Sequence[str], held_out: Sequence[str]) -> str:
    """Held-out bits per character, beside those of smoothed counts of short runs.

    Args:
        writer: what is measured.
        texts: that it was trained on; the n-grams are counted in the first two million characters.
        held_out: texts that it was not trained on.

    Returns:
        A table.

    Raises:
        ValueError: texts without a character.

    Example:
        >>> from attn_notes.train import LanguageModelSettings, build_model
        >>> settings = LanguageModelSettings(context=8, tokens=("a", "b"))
        >>> print(evaluate_texts(LanguageModel(settings, build_model(settings)), ["abba"], ["b"]))
        ... # doctest: +ELLIPSIS
        held-out bits per character
                       this model  ...
    """
    length = writer.settings.context
    bits = bits_per_character(writer.model, held_out, writer.vocab, length=length)
    rows, counted = [("this model", bits)], _first(texts, COUNTED)
    for order in ORDERS:
        name = f"{order}-grams" if order > 1 else "single characters"
        baseline = NGramModel(order, counted, writer.vocab)
        rows.append((name, baseline.bits_per_character(held_out)))
    lines = [f"{name:>25}{figure:>8.3f}" for name, figure in rows]
    return "\n".join(["held-out bits per character", *lines])


def _first(texts: Sequence[str], most: int) -> list[str]:
    """As many characters as that, at most."""
    taken = []
    for text in texts:
        taken.append(text[:most])
        most -= len(taken[-1])
        if not most:
            break
    return taken


def _line(name: str, rows: Sequence[Row]) -> str:
    """One line of the table."""
    _, said, references = zip(*rows, strict=True)
    matched = exact_match(said, references)
    score = bleu([" ".join(words) for words in said], [" ".join(words) for words in references])
    return f"{name:>13}{len(rows):>8}{matched:>13.3f}{score:>7.1f}"


def _edges(lengths: Sequence[int], bands: int) -> list[int]:
    """Lengths that divide the pairs into parts of about one size: (low, high], (high, …]."""
    ordered = sorted(lengths)
    tops = {ordered[len(ordered) * (n + 1) // bands - 1] for n in range(bands)}
    return [ordered[0] - 1, *sorted(tops)]
