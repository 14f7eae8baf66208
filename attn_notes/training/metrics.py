"""What a model is judged by: losses to train it with, and metrics to report (chapters 4 and 8)."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from attn_notes.arguments import check_integers, check_shapes
from attn_notes.data import Batch, Vocabulary, encode_text
from attn_notes.data.text import count_characters
from attn_notes.modes import evaluating
from attn_notes.special_tokens import PAD


def masked_cross_entropy(logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    r"""The mean of $-\log p(\text{label})$ over the tokens that are not padding. Chapter 4.

    From logits (B, L, V) and labels (B, L), in nats, in 32 bits at least; 0 with zero gradient
    where all is padding. With smoothing the target is $1-\varepsilon$ on the label and
    $\varepsilon/V$ on all V tokens: Szegedy et al. (2016), section 7.

    Example:
        >>> logits = torch.zeros(1, 2, 4)
        >>> masked_cross_entropy(logits, torch.tensor([[3, PAD]]))  # log 4, the padding left out
        tensor(1.3863)
    """
    check_shapes(logits=(logits, "... L V"), labels=(labels, "... L"))
    total = F.cross_entropy(
        # In 32 bits at least: a sum over a batch overflows half precision.
        logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, -2),  # (B L, V)
        labels.flatten(),
        ignore_index=PAD,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    return total / (labels != PAD).sum().clamp(min=1)


def translation_loss(
    model: nn.Module, batch: Batch, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Teacher forcing: from the source and the tokens so far, predict each next token. Chapter 4.

    The target START a b END gives the inputs START a b and the labels a b END. The model is
    `model(source, lengths, inputs) -> (logits, weights)`. The mean over the target's real tokens,
    in nats, and their number.

    Example:
        >>> from attn_notes.data import Vocabulary, make_batch
        >>> vocabulary = Vocabulary(["a", "b"])
        >>> batch = make_batch([(("a", "b"), ("b",))], vocabulary, vocabulary)
        >>> model = lambda source, lengths, inputs: (torch.zeros(*inputs.shape, 6), None)
        >>> translation_loss(model, batch)  # log 6, of "b" and END
        (tensor(1.7918), tensor(2))
    """
    logits, _ = model(batch.source, batch.lengths, batch.target[:, :-1])
    return _mean_and_count(logits, batch.target[:, 1:], label_smoothing)


def language_model_loss(
    model: nn.Module, tokens: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """From the tokens so far, predict each next one: a sequence is its own label. Chapter 9.

    The tokens a b c d, ids (B, L + 1) such as those of `TextWindows`, give the inputs a b c and the
    labels b c d. `model(inputs)` gives a tuple that begins with the logits (B, L, V), as
    `DecoderOnly` does; those at i may depend on no input after i. Results as in `translation_loss`.

    Example:
        >>> model = lambda inputs: (torch.zeros(*inputs.shape, 6),)
        >>> language_model_loss(model, torch.tensor([[1, 4, 5, 2]]))  # log 6
        (tensor(1.7918), tensor(3))
    """
    logits, *_ = model(tokens[:, :-1])
    return _mean_and_count(logits, tokens[:, 1:], label_smoothing)


def exact_match(predictions: Sequence[Sequence[Any]], references: Sequence[Sequence[Any]]) -> float:
    """The fraction of predictions that equal their reference in every token. Chapter 4.

    Example:
        >>> exact_match([("one",), ("two",)], [("one",), ("two", "hundred")])
        0.5
    """
    _check_count(predictions, references)
    equal = (tuple(p) == tuple(r) for p, r in zip(predictions, references, strict=True))
    return sum(equal) / len(references)


def bleu(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU: how many runs of one to four tokens the references confirm. Chapter 4.

    Papineni et al. (2002), from 0 to 100, as computed by sacrebleu (Post, 2018): case counts, and
    orders without a match are smoothed exponentially. A text is split at white space only, because
    the texts of this book are tokens already. Orders longer than every prediction are left out, so
    that a perfect one-word translation scores 100.

    Example:
        >>> round(bleu(["one hundred and two"], ["one hundred and three"]), 1)
        59.5
    """
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415, a sixth of a second to load

    _check_count(predictions, references)
    metric = BLEU(tokenize="none", force=True, effective_order=True)
    return min(100.0, float(metric.corpus_score(predictions, [references]).score))  # rounding


def bits_per_character(
    model: nn.Module, texts: Sequence[str], vocab: Vocabulary, *, length: int, batch_size: int = 64
) -> float:
    r"""The number of bits a character costs if held-out texts are coded with the model. Chapter 9.

    An event of probability p takes $-\log_2 p$ bits (Shannon, 1948). Each text is read from its
    START in windows of `length` tokens, as in training, each half a window after the one before,
    and each character is predicted once, in the first window that reaches it. The bits of the END
    of each text count; END is not a character.
    """
    check_integers(1, length=length, batch_size=batch_size)
    characters = count_characters(texts)
    windows = [pair for text in texts for pair in _windows(text, vocab, length)]
    device = next(model.parameters()).device
    nats = 0.0
    with evaluating(model):
        for first in range(0, len(windows), batch_size):
            sides = map(list, zip(*windows[first : first + batch_size], strict=True))
            padded = (pad_sequence(x, batch_first=True, padding_value=PAD) for x in sides)
            inputs, labels = (x.to(device) for x in padded)  # (B, L) each
            logits, *_ = model(inputs)
            mean, count = _mean_and_count(logits, labels)
            nats += float(mean) * int(count)
    return nats / math.log(2) / characters


def _mean_and_count(
    logits: Tensor, labels: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The loss of the labels that are not padding, and how many there are."""
    mean = masked_cross_entropy(logits, labels, label_smoothing=label_smoothing)
    return mean, (labels != PAD).sum()


def _windows(text: str, vocab: Vocabulary, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and labels of each window, at most (L,); a label already predicted becomes PAD."""
    stride = max(1, length // 2)
    ids = torch.tensor(encode_text(text, vocab), device="cpu")
    for first in range(0, max(1, len(ids) - 1 - length + stride), stride):
        inputs, labels = ids[:-1][first : first + length], ids[1:][first : first + length].clone()
        if first:
            labels[: length - stride] = PAD
        yield inputs, labels


def _check_count(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    """Raise unless there are as many predictions as references, and any."""
    if isinstance(predictions, str) or isinstance(references, str):
        raise TypeError("predictions and references must be lists, got one string")
    if len(predictions) != len(references) or not references:
        got = f"got {len(predictions)} and {len(references)}"
        raise ValueError(f"there must be as many predictions as references, 1 or more, {got}")
