"""A trained model with its vocabularies: text in, text out."""

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attn_notes.data import Batch, make_batch
from attn_notes.decoding import beam_search
from attn_notes.device import get_device
from attn_notes.seq2seq import Seq2Seq
from attn_notes.train.settings import PairSettings
from attn_notes.train.stored import read_model
from attn_notes.transformer import Transformer, TransformerWeights

__all__ = ["Translator", "load_translator"]


class Translator:
    """A model that was trained by `python -m attn_notes.train`, ready to translate.

    Args:
        settings: of its training.
        model: built from them; it is put into evaluation mode.

    Raises:
        TypeError: where the attention of every layer is asked of a model that is no Transformer.
        ValueError: where it is asked to translate a text without a token, or into a language
            that it does not write.

    Example:
        >>> from attn_notes.train import Seq2SeqSettings
        >>> from attn_notes.train.models import build_model
        >>> settings = Seq2SeqSettings(source="de", target="en", max_length=4)
        >>> translator = Translator(settings, build_model(settings))
        >>> tokens, said, weights = translator.steps("dreiundsiebzig")
        >>> tokens, weights.shape == (len(said), 3)
        (('drei', 'und', 'siebzig'), True)
    """

    def __init__(self, settings: PairSettings, model: Seq2Seq | Transformer) -> None:
        self.settings = settings
        self.model = model.eval()
        self.source_vocab, self.target_vocab = settings.vocabularies()

    def translate(self, text: str, *, beam_size: int = 1, to: str | None = None) -> str:
        """The translation of one text.

        Args:
            text: in a language that is read.
            beam_size: how many hypotheses are followed; 1 is greedy.
            to: the language that is wanted, where several are written; by default the first.

        Returns:
            The text in the language that is written.

        Raises:
            ValueError: a text without a token or beyond the last learned position, a language that
                is not written, or a `beam_size` below 1.
        """
        return self.settings.join(self.steps(text, beam_size=beam_size, to=to)[1], to=to)

    def unknown(self, text: str) -> list[str]:
        """The tokens of a text that were in no training pair, or in too few.

        Args:
            text: in a language that is read.

        Returns:
            Each of them once, in their order. The model reads one and the same token for all.
        """
        known = {*self.source_vocab.tokens}
        return [token for token in dict.fromkeys(self.settings.split(text)) if token not in known]

    def steps(
        self, text: str, *, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Tensor]:
        """How one text is translated: what is read at each step.

        Args:
            text: in a language that is read.
            beam_size: how many hypotheses are followed; 1 is greedy.
            to: the language that is wanted, where several are written; by default the first.

        Returns:
            S source tokens, T target tokens, and weights (T, S) on the CPU, the step that says
            END left out; (T, 1) of a model with one fixed context; of a Transformer the mean over
            the layers and heads that read the source.

        Raises:
            ValueError: a text without a token or beyond the last learned position, a language that
                is not written, or a `beam_size` below 1.
        """
        tokens, said, found, state = self._decode(text, beam_size, to)
        if isinstance(self.model, Transformer):
            weights = torch.stack(self._weights(found, len(said)).cross).mean(dim=(0, 1))
        else:
            weights = state.weights[0, : len(said)].cpu()
        return tokens, said, weights

    def attention(
        self, text: str, *, beam_size: int = 1, to: str | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...], TransformerWeights]:
        """How a Transformer translates one text: what is read in every layer, by every head.

        Args:
            text: in a language that is read.
            beam_size: how many hypotheses are followed; 1 is greedy.
            to: the language that is wanted, where several are written; by default the first.

        Returns:
            S source tokens, T target tokens, and, on the CPU, for each layer the encoder's weights
            (H, S, S), the decoder's (H, T, T) and those between them (H, T, S). Row t is the step
            that says token t; of the decoder's columns the first is START and column t the token
            said before step t.

        Raises:
            TypeError: a model that is no Transformer.
            ValueError: a text without a token or beyond the last learned position, a language that
                is not written, or a `beam_size` below 1.
        """
        if not isinstance(self.model, Transformer):
            raise TypeError(f"the model must be a Transformer, got {type(self.model).__name__}")
        tokens, said, found, _ = self._decode(text, beam_size, to)
        return tokens, said, self._weights(found, len(said))

    def _decode(
        self, text: str, beam_size: int, to: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...], Batch, Any]:
        """Source tokens, target tokens, both as ids (the target's after START), the last state."""
        tokens = self.settings.split(text, to=to)
        if not text.strip():
            raise ValueError(f"text must hold something to translate, got {text!r}")
        self._check_length(len(tokens))
        batch = make_batch([(tokens, ())], self.source_vocab, self.target_vocab)
        source, lengths, target = batch.to(next(self.model.parameters()).device)
        decoded = beam_search(
            self.model, source, lengths, max_length=self.settings.max_length, beam_size=beam_size
        )
        said = tuple(self.target_vocab.decode(decoded.tokens[0]))
        found = torch.cat([target[:, :1], decoded.tokens], dim=1)  # START, …
        return tokens, said, Batch(source, lengths, found), decoded.state

    def _check_length(self, length: int) -> None:
        """Raise where learned positions end before the text does."""
        config = self.model.config if isinstance(self.model, Transformer) else None
        if config and config.positions == "learned" and length > config.max_length:
            raise ValueError(
                f"text must have at most {config.max_length} tokens, where the learned positions "
                f"end, got {length}"
            )

    @torch.no_grad()
    def _weights(self, found: Batch, length: int) -> TransformerWeights:
        """What each of the first `length` steps read: all of them at once, as in training."""
        _, read = self.model(found.source, found.lengths, found.target[:, :-1], need_weights=True)
        encoder, decoder, cross = ([x[0].cpu() for x in kind] for kind in read)
        return TransformerWeights(
            tuple(encoder),
            tuple(x[:, :length, :length] for x in decoder),
            tuple(x[:, :length] for x in cross),
        )


def load_translator(
    folder: str | Path,
    *,
    weights: str = "weights.safetensors",
    device: torch.device | None = None,
) -> Translator:
    """Read a folder that `python -m attn_notes.train` wrote.

    Args:
        folder: with `settings.json` and the weights.
        weights: which file of it: "weights-300.safetensors" is a snapshot taken on the way.
        device: where the model goes; by default what `get_device` says.

    Returns:
        The translator.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a file that is not what it should be, or a folder of another model.

    Example:
        >>> import tempfile
        >>> from attn_notes.train import Seq2SeqSettings
        >>> from attn_notes.train.models import build_model
        >>> from attn_notes.train.stored import write_settings
        >>> from attn_notes.training import save_weights
        >>> settings = Seq2SeqSettings(source="de", target="en", max_length=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), settings)
        ...     save_weights(Path(folder, "weights.safetensors"), build_model(settings))
        ...     load_translator(folder).settings.target
        'en'
    """
    settings, model = read_model(folder, weights, PairSettings, "translator")
    return Translator(settings, cast("Seq2Seq | Transformer", model.to(device or get_device())))
