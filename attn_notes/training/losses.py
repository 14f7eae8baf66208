"""Losses over batches of tokens (chapters 4 and 8)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attn_notes.data import PAD, Batch
from attn_notes.training.distributed import mean_of_all

__all__ = ["language_model_loss", "masked_cross_entropy", "translation_loss"]


def masked_cross_entropy(
    logits: Tensor, labels: Tensor, *, ignore_index: int = PAD, label_smoothing: float = 0.0
) -> Tensor:
    r"""The mean of $-\log p(\text{label})$ over the tokens that are not padding. Chapter 4.

    A mean over all tokens would pay the model for predicting padding, which is easy and worth
    nothing. With smoothing the target is $1-\varepsilon$ on the label and $\varepsilon/V$ on all
    V tokens: Szegedy et al. (2016), section 7.

    Where `fit` trains in several processes, each divides by the mean of their numbers of tokens,
    so that a share with much padding weighs no more than its tokens do.

    Args:
        logits: (B, L, V).
        labels: (B, L), token ids.
        ignore_index: the id of padding.
        label_smoothing: ε, from 0 to 1.

    Returns:
        (), in nats, 0 or more, in 32 bits at least; 0 with zero gradient where all is padding.

    Raises:
        ValueError: shapes that do not fit, or a smoothing outside 0 to 1.

    Example:
        >>> logits = torch.zeros(1, 2, 4)
        >>> masked_cross_entropy(logits, torch.tensor([[3, PAD]]))  # log 4, the padding left out
        tensor(1.3863)
    """
    if logits.shape[:-1] != labels.shape or logits.dim() < 2:
        raise ValueError(
            "logits (B, L, V) and labels (B, L) must share all axes but the last, got logits "
            f"{tuple(logits.shape)} and labels {tuple(labels.shape)}"
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing must be from 0 to 1, got {label_smoothing}")
    total = F.cross_entropy(
        # In 32 bits at least: a sum over a batch overflows half precision.
        logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, -2),  # (B L, V)
        labels.flatten(),
        ignore_index=ignore_index,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    return mean_of_all(total, (labels != ignore_index).sum())


def translation_loss(model: nn.Module, batch: Batch, *, label_smoothing: float = 0.0) -> Tensor:
    """Teacher forcing: from the source and the tokens so far, predict each next token. Chapter 4.

    The target START a b END gives the inputs START a b and the labels a b END.

    Args:
        model: `model(source, lengths, inputs) -> (logits, weights)`, logits (B, L, V).
        batch: sources, their lengths, and targets (B, L + 1) from START to END.
        label_smoothing: as in `masked_cross_entropy`.

    Returns:
        (), the mean over the target's real tokens.

    Example:
        >>> from attn_notes.data import Vocabulary, make_batch
        >>> vocabulary = Vocabulary(["a", "b"])
        >>> batch = make_batch([(("a", "b"), ("b",))], vocabulary, vocabulary)
        >>> model = lambda source, lengths, inputs: (torch.zeros(*inputs.shape, 6), None)
        >>> translation_loss(model, batch)  # log 6
        tensor(1.7918)
    """
    logits, _ = model(batch.source, batch.lengths, batch.target[:, :-1])
    return masked_cross_entropy(logits, batch.target[:, 1:], label_smoothing=label_smoothing)


def language_model_loss(
    model: nn.Module, tokens: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """From the tokens so far, predict each next one: a sequence is its own label. Chapter 8.

    The tokens a b c d give the inputs a b c and the labels b c d.

    Args:
        model: `model(inputs)` gives a tuple that begins with the logits (B, L, V), as that of
            `DecoderOnly` does; those at i may depend on no input after i.
        tokens: (B, L + 1), ids, such as those of `TextWindows`.
        label_smoothing: as in `masked_cross_entropy`.

    Returns:
        (), the mean over the tokens that are predicted, in nats.

    Raises:
        ValueError: tokens of another number of axes, or fewer than two in a row.

    Example:
        >>> model = lambda inputs: (torch.zeros(*inputs.shape, 6),)
        >>> language_model_loss(model, torch.tensor([[1, 4, 5, 2]]))  # log 6
        tensor(1.7918)
    """
    if tokens.dim() != 2 or tokens.shape[1] < 2:
        raise ValueError(
            "tokens must have shape (B, L + 1), one to read and one to predict at least, got "
            f"{tuple(tokens.shape)}"
        )
    logits, *_ = model(tokens[:, :-1])
    return masked_cross_entropy(logits, tokens[:, 1:], label_smoothing=label_smoothing)
