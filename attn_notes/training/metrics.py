"""Metrics of whole sequences (chapter 4)."""

from collections.abc import Sequence
from typing import Any

__all__ = ["bleu", "exact_match"]


def exact_match(predictions: Sequence[Sequence[Any]], references: Sequence[Sequence[Any]]) -> float:
    """The share of predictions that equal their reference in every token. Chapter 4.

    Args:
        predictions: the sequences that came out: tuples or lists of tokens, or strings.
        references: what should have come out, in the same order.

    Returns:
        From 0 to 1.

    Raises:
        TypeError: one string in place of the sequences.
        ValueError: different numbers of sequences, or none at all.

    Example:
        >>> exact_match([("one",), ("two",)], [("one",), ("two", "hundred")])
        0.5
    """
    _check_count(predictions, references)
    equal = (tuple(p) == tuple(r) for p, r in zip(predictions, references, strict=True))
    return sum(equal) / len(references)


def bleu(predictions: Sequence[str], references: Sequence[str], *, tokenize: str = "none") -> float:
    """How many of the references' runs of one to four tokens come out: corpus BLEU. Chapter 4.

    Papineni et al. (2002), as computed by sacrebleu (Post, 2018): upper and lower case differ,
    and orders without a match are smoothed exponentially. By default a text is split at white
    space and nowhere else, because the texts of this book are tokens already: the tokenisation
    of published figures ("13a") would cut *thousand,* in two and leave a Japanese date whole. An
    order of which no prediction is long enough to hold a run is left out, so that a perfect
    translation into one word has 100 as well.

    Args:
        predictions: the texts that came out.
        references: what should have come out, in the same order, one for each.
        tokenize: the name of sacrebleu's tokenisation; "13a" to compare with published figures.

    Returns:
        From 0 to 100.

    Raises:
        TypeError: a text that is not a string, or one string in place of the texts.
        ValueError: different numbers of texts, or none at all; a tokenisation that sacrebleu
            does not know.

    Example:
        >>> round(bleu(["one hundred and two"], ["one hundred and three"]), 1)
        59.5
    """
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415, a sixth of a second to load

    _check_count(predictions, references)
    for text in (*predictions, *references):
        if not isinstance(text, str):
            raise TypeError(f"a text must be a string, got {text!r}; join its tokens by spaces")
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokenize must be one of {', '.join(BLEU.TOKENIZERS)}, got {tokenize!r}")
    metric = BLEU(tokenize=tokenize, force=True, effective_order=True)
    return min(100.0, float(metric.corpus_score(predictions, [references]).score))  # rounding


def _check_count(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    for name, texts in (("predictions", predictions), ("references", references)):
        if isinstance(texts, str):
            raise TypeError(f"{name} must be a list, got the one string {texts!r}")
    if len(predictions) != len(references) or not len(references):
        raise ValueError(
            "there must be as many predictions as references, one or more, got "
            f"{len(predictions)} and {len(references)}"
        )
