"""The book's own trained models, from their folders (chapters 4 to 11).

A folder that `attn-notes train` has written holds `settings.json` and `weights.safetensors`.
Loaded, a model takes text and gives text.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attn_notes import scores
from attn_notes.arguments import Device
from attn_notes.data import Batch, Vocabulary, join_words, make_batch, split_number
from attn_notes.decoding import Decoded, beam_search, sample
from attn_notes.extras import extra
from attn_notes.seq2seq import AttentionDecoder, RNNDecoder, RNNEncoder, Seq2Seq
from attn_notes.special_tokens import END, START
from attn_notes.transformer import DecoderOnly, Transformer, TransformerConfig, TransformerWeights

with extra("train"):
    import safetensors
    import safetensors.torch

SETTINGS, WEIGHTS = "settings.json", "weights.safetensors"
SCORES: dict[str, Callable[[int], nn.Module]] = {
    "additive": lambda width: scores.AdditiveScore(width, width, width),
    "concat": lambda width: scores.ConcatScore(width, width, width),
    "bilinear": lambda width: scores.BilinearScore(width, width),
    "dot": lambda _: scores.DotProductScore(),
    "scaled": lambda _: scores.ScaledDotProductScore(),
    "gaussian": lambda _: scores.GaussianScore(),
}


@dataclass(frozen=True)
class PairData:
    """What a translator reads and writes."""

    data: str = "numbers"  # or "dates", or "pairs" of words
    source: str = "de"  # the language that is read; of numbers several, as in digits,en
    target: str = "en"  # the language that is written, or several


@dataclass(frozen=True, kw_only=True)
class Spec:
    """All that a model is built from."""

    kind: str  # "seq2seq", "transformer" or "language-model"
    model: Mapping[str, Any]  # sizes and choices of this kind
    data: PairData | None = None
    vocabularies: tuple[tuple[str, ...], ...]  # of source and target, or of texts
    max_length: int = 100  # the most tokens of a translation; learned positions reach as far

    def vocabs(self) -> tuple[Vocabulary, ...]:
        """The vocabularies, ready to encode."""
        return tuple(map(Vocabulary, self.vocabularies))


def read_spec(folder: str | Path) -> Spec:
    """The spec that `settings.json` in a folder states."""
    path = Path(folder, SETTINGS)
    content = path.read_bytes()
    try:
        stated = json.loads(content)
        data = stated["data"]
        return Spec(
            kind=stated["kind"],
            model=stated["model"],
            data=data and PairData(data["data"], data["source"], data["target"]),
            vocabularies=tuple(map(tuple, stated["vocabularies"])),
            max_length=stated["max_length"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} must be the settings of a training, got: {error}") from error


def build_model(spec: Spec, *, seed: int = 0) -> Seq2Seq | Transformer | DecoderOnly:
    """The untrained model of a spec, on the CPU; the same for the same seed on every machine."""
    sizes = [len(vocab) for vocab in spec.vocabs()]
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if spec.kind == "seq2seq":
            return _seq2seq(*sizes, **spec.model)
        if spec.kind == "language-model":
            return DecoderOnly(TransformerConfig(vocab_size=sizes[0], **spec.model))
        fixed: Any = {"vocab_size": sizes[0], "target_vocab_size": sizes[1]}
        fixed |= {"scale_embeddings": True, "max_length": spec.max_length + 1}  # one more: START
        return Transformer(TransformerConfig(**fixed, **spec.model))


def _seq2seq(
    source: int,
    target: int,
    *,
    score: str,
    embed_dim: int,
    hidden_dim: int,
    num_layers: int,
    bidirectional: bool,
    dropout: float,
) -> Seq2Seq:
    """Each direction of an encoder gets half the width: keys as wide as queries fit any score."""
    if bidirectional and hidden_dim % 2:
        raise ValueError(f"hidden_dim must be even for two directions, got {hidden_dim}")
    half = hidden_dim // 2 if bidirectional else hidden_dim
    how: Any = {"bidirectional": bidirectional, "dropout": dropout}
    encoder = RNNEncoder(source, embed_dim, half, num_layers, **how)
    sizes = target, embed_dim, hidden_dim, hidden_dim, num_layers
    if score == "none":
        return Seq2Seq(encoder, RNNDecoder(*sizes, dropout=dropout))
    attention = SCORES[score](hidden_dim)
    return Seq2Seq(encoder, AttentionDecoder(*sizes, score=attention, dropout=dropout))


class Translator:
    """A trained encoder-decoder, ready to translate; `model` is put into evaluation mode."""

    def __init__(self, spec: Spec, model: Seq2Seq | Transformer) -> None:
        self.spec, self.data = spec, spec.data or PairData()
        self.targets = self.data.target.split(",")
        self.model = model.eval()
        self.source_vocab, self.target_vocab = spec.vocabs()

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

    def steps(
        self, text: str, *, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Tensor]:
        """S source tokens, T target tokens without END, and the weights (T, S) between them.

        One fixed context has (T, 1), a Transformer the mean of its cross-attention.
        """
        if isinstance(self.model, Transformer):
            tokens, written, read = self.attention(text, beam_size=beam_size, to=to)
            return tokens, written, torch.stack(read.cross).mean(dim=(0, 1))
        tokens, written, _, decoded = self._decode(text, beam_size, to)
        return tokens, written, decoded.state.weights[0, : len(written)].cpu()

    @torch.no_grad()
    def attention(
        self, text: str, *, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], TransformerWeights]:
        """S source tokens, T target tokens, and a Transformer's weights of every layer and head.

        Each layer has (H, S, S), (H, T, T) and (H, T, S), on the CPU. Row t is the step that writes
        token t; column t of the decoder is the token before it, the first one START.
        """
        if not isinstance(self.model, Transformer):
            raise TypeError(f"the model must be a Transformer, got {type(self.model).__name__}")
        tokens, written, batch, decoded = self._decode(text, beam_size, to)
        target, T = torch.cat([batch.target[:, :1], decoded.tokens[:, :-1]], dim=1), len(written)
        _, read = self.model(batch.source, batch.lengths, target, need_weights=True)
        encoder = tuple(x[0].cpu() for x in read.encoder)
        decoder = tuple(x[0, :, :T, :T].cpu() for x in read.decoder)
        cross = tuple(x[0, :, :T].cpu() for x in read.cross)
        return tokens, written, TransformerWeights(encoder, decoder, cross)

    def _decode(
        self, text: str, beam_size: int, to: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Batch, Decoded]:
        """Source tokens, target tokens, the source as a batch, and what the search gave."""
        if not text.strip():
            raise ValueError(f"text must have something to translate, got {text!r}")
        tokens, length = self.split(text, to), self.spec.max_length
        with next(self.model.parameters()).device:
            batch = make_batch([(tokens, ())], self.source_vocab, self.target_vocab)
        found = beam_search(
            self.model, batch.source, batch.lengths, max_length=length, beam_size=beam_size
        )
        return tokens, tuple(self.target_vocab.decode(found.tokens[0])), batch, found


class LanguageModel:
    """A trained language model, ready to write; `model` is put into evaluation mode."""

    def __init__(self, spec: Spec, model: DecoderOnly) -> None:
        self.spec, self.model = spec, model.eval()
        (self.vocab,) = spec.vocabs()

    def sample(
        self,
        prompt: str = "",
        *,
        length: int = 400,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> str:
        """At most `length` characters after a prompt, drawn as by `attn_notes.decoding.sample`."""
        how: Any = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
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
    folder: str | Path, *, weights: str = WEIGHTS, device: Device = None
) -> Translator:
    """The translator in a folder of `attn-notes train`, by default on torch's default device."""
    return Translator(*_load(folder, weights, device, "translator"))


def load_language_model(
    folder: str | Path, *, weights: str = WEIGHTS, device: Device = None
) -> LanguageModel:
    """The language model in a folder of `attn-notes train`; devices as in `load_translator`."""
    return LanguageModel(*_load(folder, weights, device, "language-model"))


def _load(folder: str | Path, weights: str, device: Device, kind: str) -> tuple[Spec, Any]:
    """The spec in a folder, and the model with these weights."""
    spec, path = read_spec(folder), Path(folder, weights)
    if (kind == "language-model") != (spec.kind == "language-model"):
        raise ValueError(f"{folder} must hold a {kind}, got a {spec.kind}")
    model = build_model(spec)
    try:
        with torch.device("cpu"):
            model.load_state_dict(safetensors.torch.load_file(path))
    except (safetensors.SafetensorError, RuntimeError) as error:
        raise ValueError(f"{path} must hold the weights of the model, got: {error}") from error
    return spec, model.to(device or torch.get_default_device())
