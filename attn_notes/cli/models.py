"""Trained models with their vocabularies: text in, text out."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from attn_notes import scores
from attn_notes.cli.data import join_tokens, split_tokens
from attn_notes.cli.settings import LanguageModelShape, PairData, Seq2SeqShape, Settings
from attn_notes.data import END, START, Batch, make_batch
from attn_notes.decoding import beam_search, sample
from attn_notes.seq2seq import AttentionDecoder, RNNDecoder, RNNEncoder, Seq2Seq
from attn_notes.transformer import DecoderOnly, Transformer, TransformerWeights

__all__ = ["LanguageModel", "Translator", "build_model"]

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
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.training.seed)
        match settings.model:
            case Seq2SeqShape():
                return _seq2seq(settings.model, *sizes)
            case LanguageModelShape():
                return DecoderOnly(settings.model.config(vocab_size=sizes[0]))
            case shape:
                source, target = sizes
                length = settings.max_length + 1  # one more, for START
                lengths = {"max_length": length, "scale_embeddings": True}
                ends = {"vocab_size": source, "target_vocab_size": target}
                return Transformer(shape.config(**lengths, **ends))


def _seq2seq(shape: Seq2SeqShape, source: int, target: int) -> Seq2Seq:
    """Each direction of an encoder gets half the width: keys as wide as queries fit any score."""
    width = shape.hidden_dim // (2 if shape.bidirectional else 1)
    others: dict[str, Any] = {"dropout": shape.dropout}
    both = {"bidirectional": shape.bidirectional}
    encoder = RNNEncoder(source, shape.embed_dim, width, shape.num_layers, **both, **others)
    sizes = target, shape.embed_dim, shape.hidden_dim, encoder.output_dim, shape.num_layers
    if shape.score == "none":
        return Seq2Seq(encoder, RNNDecoder(*sizes, **others))
    score = SCORES[shape.score](shape.hidden_dim)
    return Seq2Seq(encoder, AttentionDecoder(*sizes, score=score, **others))


class Translator:
    """A trained encoder-decoder, ready to translate; `model` is put into evaluation mode."""

    def __init__(self, settings: Settings, model: Seq2Seq | Transformer) -> None:
        self.settings, self.data = settings, cast("PairData", settings.data)
        self.model = model.eval()
        self.source_vocab, self.target_vocab = settings.vocabs()

    def translate(self, text: str, *, beam_size: int = 1, to: str | None = None) -> str:
        """The translation of a text, into the first language that is written, or into `to`."""
        return join_tokens(self.data, self.steps(text, beam_size=beam_size, to=to)[1], to=to)

    def unknown(self, text: str) -> list[str]:
        """The tokens of a text that are not in the vocabulary, each once."""
        known = self.source_vocab.tokens
        tokens = split_tokens(self.data, text, known)
        return [token for token in dict.fromkeys(tokens) if token not in known]

    def steps(
        self, text: str, *, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Tensor]:
        """S source tokens, T target tokens, and the weights (T, S) with which they were read.

        The step of END is left out. A model with one fixed context has weights (T, 1), a
        Transformer the mean over layers and heads of its cross-attention.
        """
        tokens, written, found, state = self._decode(text, beam_size, to)
        if isinstance(self.model, Transformer):
            weights = torch.stack(self._weights(found, len(written)).cross).mean(dim=(0, 1))
        else:
            weights = state.weights[0, : len(written)].cpu()
        return tokens, written, weights

    def attention(
        self, text: str, *, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], TransformerWeights]:
        """S source tokens, T target tokens, and a Transformer's weights of every layer and head.

        For each layer (H, S, S), (H, T, T) and (H, T, S), on the CPU. Row t is the step that
        writes token t; column t of the decoder is the token before it, the first one START.
        """
        if not isinstance(self.model, Transformer):
            raise TypeError(f"the model must be a Transformer, got {type(self.model).__name__}")
        tokens, written, found, _ = self._decode(text, beam_size, to)
        return tokens, written, self._weights(found, len(written))

    def _decode(
        self, text: str, beam_size: int, to: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Batch, Any]:
        """Source tokens, target tokens, both as ids (the target's after START), the last state."""
        if not text.strip():
            raise ValueError(f"text must have something to translate, got {text!r}")
        tokens = split_tokens(self.data, text, self.source_vocab.tokens, to=to)
        batch = make_batch([(tokens, ())], self.source_vocab, self.target_vocab)
        source, lengths, target = batch.to(next(self.model.parameters()).device)
        decoded = beam_search(
            self.model, source, lengths, max_length=self.settings.max_length, beam_size=beam_size
        )
        written = tuple(self.target_vocab.decode(decoded.tokens[0]))
        found = torch.cat([target[:, :1], decoded.tokens], dim=1)  # START, …
        return tokens, written, Batch(source, lengths, found), decoded.state

    @torch.no_grad()
    def _weights(self, found: Batch, length: int) -> TransformerWeights:
        """What each of the first `length` steps read, all computed at once as in training."""
        _, read = self.model(found.source, found.lengths, found.target[:, :-1], need_weights=True)
        encoder, decoder, cross = ([x[0].cpu() for x in kind] for kind in read)
        return TransformerWeights(
            tuple(encoder),
            tuple(x[:, :length, :length] for x in decoder),
            tuple(x[:, :length] for x in cross),
        )


class LanguageModel:
    """A trained language model, ready to write; `model` is put into evaluation mode."""

    def __init__(self, settings: Settings, model: DecoderOnly) -> None:
        self.settings = settings
        self.model = model.eval()
        (self.vocab,) = settings.vocabs()

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that are not in the vocabulary, each once."""
        return [each for each in dict.fromkeys(text) if each not in self.vocab.tokens]

    def sample(self, prompt: str = "", *, length: int = 400, seed: int = 0, **how: Any) -> str:
        """At most `length` characters that may follow a prompt, up to the end of a text.

        `how` is what `attn_notes.decoding.sample` takes: `temperature`, `top_k`, `top_p`. Beyond
        the length of the model's window, it continues from the last half of a window.
        """
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        device = next(self.model.parameters()).device
        generator = torch.Generator("cpu").manual_seed(seed)
        most, read = self.model.config.max_length, [START, *self.vocab.encode(iter(prompt))]
        written: list[int] = []
        while len(written) < length and END not in written:
            seen = read + written
            seen = seen if len(seen) <= most else seen[-max(1, most // 2) :]
            decoded = sample(
                self.model,
                torch.tensor([seen], device=device),
                torch.tensor([len(seen)], device="cpu"),
                max_length=min(length - len(written), most + 1 - len(seen)),
                generator=generator,
                **how,
            )
            written += decoded.tokens[0].tolist()
        return "".join(self.vocab.decode(written))
