"""Metrics of whole sequences, and of running text (chapters 4 and 8)."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attn_notes.data import PAD, Vocabulary, encode_text
from attn_notes.data.text import count_characters
from attn_notes.decoding.generate import evaluating
from attn_notes.training.losses import masked_cross_entropy

__all__ = ["bits_per_character", "bleu", "exact_match"]


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


def bits_per_character(
    model: nn.Module,
    texts: Sequence[str],
    vocab: Vocabulary,
    *,
    length: int,
    stride: int | None = None,
    batch_size: int = 64,
) -> float:
    r"""How many bits a character costs, if texts are written down in a model's code. Chapter 8.

    An event of probability p takes $-\log_2 p$ bits (Shannon, 1948). Each text is read from its
    START in windows of `length` tokens, each `stride` after the one before, and each character is
    predicted once: in the first window that reaches it. So it is told by at least `length` -
    `stride` tokens, or by all there are. A smaller stride takes longer and finds no more bits, as
    a rule. The END of each text is written too: its bits count, and it is no character.

    A character that is not in the vocabulary costs what the model gives UNKNOWN: with a
    vocabulary that leaves rare ones out, the figure is too good.

    Args:
        model: `model(inputs)` gives a tuple that begins with the logits (B, L, V), those at i
            depending on no input after i; in evaluation mode while this runs.
        texts: what was held out; an empty text has but its END.
        vocab: of characters.
        length: L, how many tokens are read at once: as many as in training.
        stride: from 1 to `length`; half of it by default.
        batch_size: windows at once.

    Returns:
        Bits, 0 or more.

    Raises:
        TypeError: one string in place of the texts, or a text that is not a string.
        ValueError: no character, or a number that is too small or too large.

    Example:
        >>> from attn_notes.transformer import DecoderOnly, TransformerConfig
        >>> vocab = Vocabulary(["a", "b", "c", "d"])
        >>> model = DecoderOnly(TransformerConfig(vocab_size=8, embed_dim=8))
        >>> _ = nn.init.zeros_(model.out_proj.weight)  # all eight ids are as likely
        >>> round(bits_per_character(model, ["abcd" * 50], vocab, length=16), 1)
        3.0
    """
    stride = max(1, length // 2) if stride is None else stride
    if not 1 <= stride <= length or batch_size < 1:
        raise ValueError(
            "stride must be from 1 to length, and batch_size 1 or more, got "
            f"length = {length}, stride = {stride} and batch_size = {batch_size}"
        )
    characters = count_characters(texts)
    windows = [pair for text in texts for pair in _windows(text, vocab, length, stride)]
    device = next(model.parameters()).device
    nats = 0.0
    with evaluating(model):
        for first in range(0, len(windows), batch_size):
            inputs, labels = (
                pad_sequence(list(side), batch_first=True, padding_value=PAD).to(device)  # (B, L)
                for side in zip(*windows[first : first + batch_size], strict=True)
            )
            logits, *_ = model(inputs)
            nats += float(masked_cross_entropy(logits, labels)) * int((labels != PAD).sum())
    return nats / math.log(2) / characters


def _windows(
    text: str, vocab: Vocabulary, length: int, stride: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and labels of each window, (L,) or fewer; a label that was predicted before is PAD."""
    ids = torch.tensor(encode_text(text, vocab), device="cpu")
    for first in range(0, max(1, len(ids) - 1 - length + stride), stride):
        inputs, labels = ids[:-1][first : first + length], ids[1:][first : first + length].clone()
        if first:
            labels[: length - stride] = PAD
        yield inputs, labels


def _check_count(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    for name, texts in (("predictions", predictions), ("references", references)):
        if isinstance(texts, str):
            raise TypeError(f"{name} must be a list, got the one string {texts!r}")
    if len(predictions) != len(references) or not len(references):
        raise ValueError(
            "there must be as many predictions as references, one or more, got "
            f"{len(predictions)} and {len(references)}"
        )
