"""A trained language model with its vocabulary: text in, more text out."""

from pathlib import Path
from typing import cast

import torch

from attn_notes.data import END, START
from attn_notes.decoding import sample
from attn_notes.device import get_device
from attn_notes.train.settings import LanguageModelSettings
from attn_notes.train.stored import read_model
from attn_notes.transformer import DecoderOnly

__all__ = ["LanguageModel", "load_language_model"]


class LanguageModel:
    """A model that `python -m attn_notes.train language-model` trained, ready to write.

    Args:
        settings: of its training.
        model: built from them; it is put into evaluation mode.

    Raises:
        ValueError: where it is asked for fewer than one character, or as `sample` does.

    Example:
        >>> from attn_notes.train.models import build_model
        >>> settings = LanguageModelSettings(context=8, tokens=("a", "b"))
        >>> writer = LanguageModel(settings, build_model(settings))
        >>> len(writer.sample("ab", length=20)) <= 20
        True
    """

    def __init__(self, settings: LanguageModelSettings, model: DecoderOnly) -> None:
        self.settings = settings
        self.model = model.eval()
        (self.vocab,) = settings.vocabularies()

    def sample(
        self,
        prompt: str = "",
        *,
        length: int = 400,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> str:
        """What may follow a prompt, which is taken for the beginning of a text.

        The model reads `context` characters at most, as in training. Beyond that it goes on from
        the last half of them.

        Args:
            prompt: any text; none for a text from its first character.
            length: the most characters to write; it stops at the end of a text.
            temperature: as in `sample`, and so are the next two.
            top_k: how many characters may be drawn.
            top_p: the share of the probability that may be drawn.
            seed: of the draw; the same seed gives the same text.

        Returns:
            The text after the prompt, a character that is not known as "<unk>".

        Raises:
            ValueError: a length below 1, or as `attn_notes.decoding.sample` does.
        """
        if length < 1:
            raise ValueError(f"length must be 1 or more, got {length}")
        device = next(self.model.parameters()).device
        generator = torch.Generator("cpu").manual_seed(seed)
        context, read = self.settings.context, [START, *self.vocab.encode(iter(prompt))]
        said: list[int] = []
        while len(said) < length and END not in said:
            seen = read + said
            seen = seen if len(seen) <= context else seen[-max(1, context // 2) :]
            decoded = sample(
                self.model,
                torch.tensor([seen], device=device),
                torch.tensor([len(seen)], device="cpu"),
                max_length=min(length - len(said), context + 1 - len(seen)),
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                generator=generator,
            )
            said += decoded.tokens[0].tolist()
        return "".join(self.vocab.decode(said))

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that were in no training text, or in too few.

        Args:
            text: any.

        Returns:
            Each of them once, in their order. The model reads one and the same token for all.
        """
        known = {*self.vocab.tokens}
        return [character for character in dict.fromkeys(text) if character not in known]


def load_language_model(
    folder: str | Path,
    *,
    weights: str = "weights.safetensors",
    device: torch.device | None = None,
) -> LanguageModel:
    """Read a folder that `python -m attn_notes.train language-model` wrote.

    Args:
        folder: with `settings.json` and the weights.
        weights: which file of it: "weights-300.safetensors" is a snapshot taken on the way.
        device: where the model goes; by default what `get_device` says.

    Returns:
        The language model.

    Raises:
        OSError: a file that is not there or cannot be read.
        ValueError: a file that is not what it should be, or a folder of another model.

    Example:
        >>> import tempfile
        >>> from attn_notes.train.models import build_model
        >>> from attn_notes.train.stored import write_settings
        >>> from attn_notes.training import save_weights
        >>> settings = LanguageModelSettings(context=8, tokens=("a", "b"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder, "settings.json"), settings)
        ...     save_weights(Path(folder, "weights.safetensors"), build_model(settings))
        ...     load_language_model(folder).vocab.tokens
        ('a', 'b')
    """
    settings, model = read_model(folder, weights, LanguageModelSettings, "language-model")
    return LanguageModel(settings, cast("DecoderOnly", model.to(device or get_device())))
