"""Trained models with their vocabularies: text in, text out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes import scores
from attn_notes.cli.settings import (
    WEIGHTS,
    LanguageModelShape,
    PairData,
    Seq2SeqShape,
    Settings,
    read_settings,
)
from attn_notes.data import END, START, Batch, join_words, make_batch, split_number
from attn_notes.decoding import Decoded, beam_search, sample
from attn_notes.device import get_device
from attn_notes.seq2seq import AttentionDecoder, RNNDecoder, RNNEncoder, Seq2Seq
from attn_notes.training.files import load_weights
from attn_notes.transformer import DecoderOnly, Transformer, TransformerConfig, TransformerWeights

SCORES: dict[str, Callable[[int], nn.Module]] = {
    "additive": lambda width: scores.AdditiveScore(width, width, width),
    "concat": lambda width: scores.ConcatScore(width, width, width),
    "bilinear": lambda width: scores.BilinearScore(width, width),
    "dot": lambda _: scores.DotProductScore(),
    "scaled": lambda _: scores.ScaledDotProductScore(),
    "gaussian": lambda _: scores.GaussianScore(),
}


def build_model(settings: Settings) -> Seq2Seq | Transformer | DecoderOnly:
    """The untrained model of these settings, on the CPU; the same for the same seed."""
    sizes = [len(vocab) for vocab in settings.vocabs()]
    shape = settings.model
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.training.seed)
        if isinstance(shape, Seq2SeqShape):
            return _seq2seq(shape, *sizes)
        if isinstance(shape, LanguageModelShape):
            return DecoderOnly(TransformerConfig(vocab_size=sizes[0], **vars(shape)))
        fixed = vars(shape) | {"scale_embeddings": True, "target_vocab_size": sizes[1]}
        fixed["max_length"] = settings.max_length + 1  # one more, for START
        return Transformer(TransformerConfig(vocab_size=sizes[0], **fixed))


def _seq2seq(shape: Seq2SeqShape, source: int, target: int) -> Seq2Seq:
    """Each direction of an encoder gets half the width: keys as wide as queries fit any score."""
    width, embed_dim, layers = shape.hidden_dim, shape.embed_dim, shape.num_layers
    both, dropout = shape.bidirectional, shape.dropout
    if both and width % 2:
        raise ValueError(f"hidden_dim must be even for two directions, got {width}")
    half = width // 2 if both else width
    encoder = RNNEncoder(source, embed_dim, half, layers, bidirectional=both, dropout=dropout)
    sizes = target, embed_dim, width, width, layers
    if shape.score == "none":
        return Seq2Seq(encoder, RNNDecoder(*sizes, dropout=dropout))
    score = SCORES[shape.score](width)
    return Seq2Seq(encoder, AttentionDecoder(*sizes, score=score, dropout=dropout))


class Translator:
    """A trained encoder-decoder, ready to translate; `model` is put into evaluation mode."""

    def __init__(self, settings: Settings, model: Seq2Seq | Transformer) -> None:
        self.settings, self.data = settings, settings.data or PairData()
        self.targets = self.data.target.split(",")
        self.model = model.eval()
        self.source_vocab, self.target_vocab = settings.vocabs()

    def translate(self, text: str, *, beam_size: int = 1, to: str | None = None) -> str:
        """The translation of a text, into the first language that is written, or into `to`."""
        written = self._decode(text, beam_size, to)[1]
        if self.data.data == "numbers":
            return join_words(written, to or self.targets[0])
        return ("" if self.data.data == "dates" else " ").join(written)

    def split(self, text: str, to: str | None = None) -> tuple[str, ...]:
        """The tokens of a text; of several source languages, those with the fewest unknown."""
        self.check_target(to)
        if self.data.data != "numbers":
            return tuple(text.strip() if self.data.data == "dates" else text.split())
        readings = [split_number(text, language) for language in self.data.source.split(",")]
        known = self.source_vocab.tokens
        best = min(readings, key=lambda tokens: sum(token not in known for token in tokens))
        return (f"<{to or self.targets[0]}>", *best) if len(self.targets) > 1 else best

    def check_target(self, to: str | None) -> None:
        """Raise unless the model writes this language; None is the first."""
        if to is not None and to not in self.targets:
            raise ValueError(f"the language to write must be one of {self.targets}, got {to!r}")

    def steps(self, text: str, **how: Any) -> tuple[tuple[str, ...], tuple[str, ...], Tensor]:
        """S source tokens, T target tokens without END, and the weights (T, S) between them.

        One fixed context has (T, 1), a Transformer the mean of its cross-attention; `how` is as in
        `translate`.
        """
        if isinstance(self.model, Transformer):
            tokens, written, read = self.attention(text, **how)
            return tokens, written, torch.stack(read.cross).mean(dim=(0, 1))
        tokens, written, _, decoded = self._decode(text, **how)
        return tokens, written, decoded.state.weights[0, : len(written)].cpu()

    @torch.no_grad()
    def attention(
        self, text: str, **how: Any
    ) -> tuple[tuple[str, ...], tuple[str, ...], TransformerWeights]:
        """S source tokens, T target tokens, and a Transformer's weights of every layer and head.

        Each layer has (H, S, S), (H, T, T) and (H, T, S), on the CPU. Row t is the step that writes
        token t; column t of the decoder is the token before it, the first one START.
        """
        if not isinstance(self.model, Transformer):
            raise TypeError(f"the model must be a Transformer, got {type(self.model).__name__}")
        tokens, written, batch, decoded = self._decode(text, **how)
        target, T = torch.cat([batch.target[:, :1], decoded.tokens[:, :-1]], dim=1), len(written)
        _, read = self.model(batch.source, batch.lengths, target, need_weights=True)
        encoder = tuple(x[0].cpu() for x in read.encoder)
        decoder = tuple(x[0, :, :T, :T].cpu() for x in read.decoder)
        cross = tuple(x[0, :, :T].cpu() for x in read.cross)
        return tokens, written, TransformerWeights(encoder, decoder, cross)

    def _decode(
        self, text: str, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Batch, Decoded]:
        """Source tokens, target tokens, the source as a batch, and what the search gave."""
        if not text.strip():
            raise ValueError(f"text must have something to translate, got {text!r}")
        tokens, length = self.split(text, to), self.settings.max_length
        batch = make_batch([(tokens, ())], self.source_vocab, self.target_vocab)
        batch = batch.to(next(self.model.parameters()).device)
        most = {"max_length": length, "beam_size": beam_size}
        found = beam_search(self.model, batch.source, batch.lengths, **most)
        return tokens, tuple(self.target_vocab.decode(found.tokens[0])), batch, found


class LanguageModel:
    """A trained language model, ready to write; `model` is put into evaluation mode."""

    def __init__(self, settings: Settings, model: DecoderOnly) -> None:
        self.settings, self.model = settings, model.eval()
        (self.vocab,) = settings.vocabs()

    def sample(self, prompt: str = "", *, length: int = 400, seed: int = 0, **how: Any) -> str:
        """At most `length` characters after a prompt; `how`: of `attn_notes.decoding.sample`."""
        device = next(self.model.parameters()).device
        generator = torch.Generator("cpu").manual_seed(seed)
        most, read = self.model.config.max_length, [START, *self.vocab.encode(iter(prompt))]
        written: list[int] = []
        while len(written) < length and END not in written:
            seen = read + written
            seen = seen[0 if len(seen) <= most else -max(1, most // 2) :]  # half a window
            here = torch.tensor([seen], device=device)
            room = min(length - len(written), most + 1 - len(seen))
            decoded = sample(self.model, here, max_length=room, generator=generator, **how)
            written += decoded.tokens[0].tolist()
        return "".join(self.vocab.decode(written))


def load_translator(
    folder: str | Path, *, weights: str = WEIGHTS, device: str | None = None
) -> Translator:
    """The translator in a folder of `attn-notes train`, on a GPU if there is one by default."""
    return Translator(*_load(folder, weights, device, "translator"))


def load_language_model(
    folder: str | Path, *, weights: str = WEIGHTS, device: str | None = None
) -> LanguageModel:
    """The language model in a folder of `attn-notes train`, on a GPU if there is one by default."""
    return LanguageModel(*_load(folder, weights, device, "language-model"))


def _load(folder: str | Path, weights: str, device: str | None, kind: str) -> tuple[Settings, Any]:
    """The settings in a folder, and the model with these weights."""
    settings = read_settings(folder)
    if (kind == "language-model") != isinstance(settings.model, LanguageModelShape):
        raise ValueError(f"{folder} must hold a {kind}, got a {settings.model.kind}")
    path = Path(folder, weights)
    if not path.is_file():
        raise FileNotFoundError(f"{path} must hold the weights of a model, got no such file")
    model = build_model(settings)
    load_weights(path, model)
    return settings, model.to(get_device(device))
