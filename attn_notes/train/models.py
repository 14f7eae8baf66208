"""From settings to an untrained model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attn_notes import scores
from attn_notes.seq2seq import AttentionDecoder, RNNDecoder, RNNEncoder, Seq2Seq
from attn_notes.train.settings import (
    BlockSettings,
    LanguageModelSettings,
    Seq2SeqSettings,
    Settings,
    TransformerSettings,
)
from attn_notes.transformer import DecoderOnly, Transformer, TransformerConfig

__all__ = ["SCORES", "build_model"]

SCORES: dict[str, Callable[[int], nn.Module]] = {
    "additive": lambda width: scores.AdditiveScore(width, width, width),
    "concat": lambda width: scores.ConcatScore(width, width, width),
    "bilinear": lambda width: scores.BilinearScore(width, width),
    "dot": lambda _: scores.DotProductScore(),
    "scaled": lambda _: scores.ScaledDotProductScore(),
    "gaussian": lambda _: scores.GaussianScore(),
}
"""The scores of chapter 2 by name, for queries and keys of one width."""


def build_model(settings: Settings) -> Seq2Seq | Transformer | DecoderOnly:
    """The untrained model of these settings, the same for the same seed.

    Each direction of a bidirectional encoder gets half of `hidden_dim`, so that keys are as wide
    as queries and any score fits. A Transformer multiplies its embeddings by the root of their
    width, and learned positions reach one beyond `max_length`, for START. A language model is
    made as GPT-2 is.

    Args:
        settings: of the training.

    Returns:
        The model, on the CPU.

    Raises:
        TypeError: settings of no model.
        ValueError: a score that is not offered, an odd width to be halved, or sizes of which
            `TransformerConfig` makes nothing.

    Example:
        >>> settings = Seq2SeqSettings(score="none", source_tokens=("a",), target_tokens=("b",))
        >>> sum(parameter.numel() for parameter in build_model(settings).parameters())
        166469
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)
        match settings:
            case Seq2SeqSettings():
                return _seq2seq(settings)
            case TransformerSettings():
                return _transformer(settings)
            case LanguageModelSettings():
                return _language_model(settings)
    raise TypeError(f"settings must be those of a model, got {type(settings).__name__}")


def _seq2seq(s: Seq2SeqSettings) -> Seq2Seq:
    if s.score not in {*SCORES, "none"}:
        raise ValueError(f"score must be one of {', '.join(SCORES)} or none, got {s.score!r}")
    if s.hidden_dim % 2 and not s.unidirectional:
        raise ValueError(f"hidden_dim must be even for two directions, got {s.hidden_dim}")
    source_size, target_size = map(len, s.vocabularies())
    encoder = RNNEncoder(
        source_size,
        s.embed_dim,
        s.hidden_dim if s.unidirectional else s.hidden_dim // 2,
        s.layers,
        bidirectional=not s.unidirectional,
        dropout=s.dropout,
    )
    widths = target_size, s.embed_dim, s.hidden_dim, encoder.output_dim, s.layers
    if s.score == "none":
        return Seq2Seq(encoder, RNNDecoder(*widths, dropout=s.dropout))
    score = SCORES[s.score](s.hidden_dim)
    return Seq2Seq(encoder, AttentionDecoder(*widths, score=score, dropout=s.dropout))


def _transformer(s: TransformerSettings) -> Transformer:
    source_size, target_size = map(len, s.vocabularies())
    return Transformer(
        _config(
            s,
            vocab_size=source_size,
            target_vocab_size=target_size,
            max_length=s.max_length + 1,
            scale_embeddings=True,
        )
    )


def _language_model(s: LanguageModelSettings) -> DecoderOnly:
    return DecoderOnly(_config(s, vocab_size=len(s.vocabularies()[0]), max_length=s.context))


def _config(s: BlockSettings, **others: Any) -> TransformerConfig:
    """What the settings of every model made of blocks say, and the rest."""
    return TransformerConfig(
        embed_dim=s.embed_dim,
        num_heads=s.heads,
        num_layers=s.layers,
        ffn_dim=s.hidden_dim,
        norm=s.norm,
        activation=s.activation,
        positions=s.positions,
        dropout=s.dropout,
        tie_embeddings=s.tie,
        **others,
    )
