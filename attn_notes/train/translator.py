"""A trained model with its vocabularies: text in, text out."""

from pathlib import Path

import torch
from torch import Tensor

from attn_notes.data import make_batch
from attn_notes.decoding import beam_search
from attn_notes.device import get_device
from attn_notes.seq2seq import Seq2Seq
from attn_notes.train.settings import Settings, build_model, read_settings
from attn_notes.training import load_weights

__all__ = ["Translator", "load_translator"]


class Translator:
    """A model that was trained by `python -m attn_notes.train`, ready to translate.

    Args:
        settings: of its training.
        model: built from them; it is put into evaluation mode.

    Raises:
        ValueError: where it is asked to translate a text without a token.

    Example:
        >>> settings = Settings(source="de", target="en", max_length=4)
        >>> translator = Translator(settings, build_model(settings))
        >>> tokens, said, weights = translator.steps("dreiundsiebzig")
        >>> tokens, weights.shape == (len(said), 3)
        (('drei', 'und', 'siebzig'), True)
    """

    def __init__(self, settings: Settings, model: Seq2Seq) -> None:
        self.settings = settings
        self.model = model.eval()
        self.source_vocab, self.target_vocab = settings.vocabularies()

    def translate(self, text: str, *, beam_size: int = 1) -> str:
        """The translation of one text.

        Args:
            text: in the language that is read.
            beam_size: how many hypotheses are followed; 1 is greedy.

        Returns:
            The text in the language that is written.

        Raises:
            ValueError: a text without a token, or a `beam_size` below 1.
        """
        return self.settings.join(self.steps(text, beam_size=beam_size)[1])

    def unknown(self, text: str) -> list[str]:
        """The tokens of a text that were in no training pair, or in too few.

        Args:
            text: in the language that is read.

        Returns:
            Each of them once, in their order. The model reads one and the same token for all.
        """
        known = {*self.source_vocab.tokens}
        return [token for token in dict.fromkeys(self.settings.split(text)) if token not in known]

    def steps(
        self, text: str, *, beam_size: int = 1
    ) -> tuple[tuple[str, ...], tuple[str, ...], Tensor]:
        """How one text is translated: what is read at each step.

        Args:
            text: in the language that is read.
            beam_size: how many hypotheses are followed; 1 is greedy.

        Returns:
            S source tokens, T target tokens, and weights (T, S) on the CPU, the step that says
            END left out; (T, 1) of a model with one fixed context.

        Raises:
            ValueError: a text without a token, or a `beam_size` below 1.
        """
        tokens = self.settings.split(text)
        if not tokens:
            raise ValueError(f"text must hold something to translate, got {text!r}")
        batch = make_batch([(tokens, ())], self.source_vocab, self.target_vocab)
        source, lengths, _ = batch.to(next(self.model.parameters()).device)
        decoded = beam_search(
            self.model, source, lengths, max_length=self.settings.max_length, beam_size=beam_size
        )
        said = tuple(self.target_vocab.decode(decoded.tokens[0]))
        return tokens, said, decoded.state.weights[0, : len(said)].cpu()


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
        ValueError: a file that is not what it should be.

    Example:
        >>> import tempfile
        >>> from attn_notes.train.settings import write_settings
        >>> from attn_notes.training import save_weights
        >>> settings = Settings(source="de", target="en", max_length=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), settings)
        ...     save_weights(Path(folder, "weights.safetensors"), build_model(settings))
        ...     load_translator(folder).settings.target
        'en'
    """
    settings = read_settings(Path(folder, "settings.json"))
    model = build_model(settings)
    load_weights(Path(folder, weights), model)
    return Translator(settings, model.to(device or get_device()))
