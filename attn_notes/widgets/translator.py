"""A Transformer that translates in the page, token by token (chapter 7)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import traitlets
from torch import Tensor

from attn_notes.data import END, START, Vocabulary
from attn_notes.masks import causal_mask
from attn_notes.transformer import Transformer, TransformerWeights
from attn_notes.widgets.base import Table
from attn_notes.widgets.heatmap import weights_table
from attn_notes.widgets.player import ModelPlayer, chance, drawn
from attn_notes.widgets.texts import SPECIAL, TextReader, Translation, text_data


class TransformerPlayer(TextReader, ModelPlayer):
    """A trained Transformer at work in the page: type a text, and watch it being translated.

    The page computes the forward pass itself, from weights of 8 bits each. A step shows what each
    head reads and which other tokens were likely; with one of these the model can continue.

    Args:
        model: with learned, sinusoidal or no positions; a rounded copy is made of it.
        source_vocab: of the text, and of the tags. Texts are cut into its tokens: words at spaces,
            then each word into as few tokens as possible.
        target_vocab: of the translation.
        languages: what the source begins with, such as "<de>", or "de" for short, and the name of
            the language; empty if the model knows only one language.
        examples: texts to choose from, at least one.
        domain: a regular expression that whole texts of the training data match in small letters,
            and what they are: what the model writes for other texts is marked as a guess.
        compact: whether to leave out temperature, seed and the overview of all heads, and to play
            once when the widget comes on the screen.
        most: the largest number of tokens in a translation.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> digits, words = Vocabulary([*"0123456789"]), Vocabulary(["eins", "zwei"])
        >>> config = TransformerConfig(vocab_size=14, target_vocab_size=6, embed_dim=8, num_heads=2)
        >>> TransformerPlayer(Transformer(config), digits, words, most=1).translation().source
        ['1', '9', '9', '9']
    """

    _widget = "translator"
    temperature = traitlets.Float(0.0, min=0.0, max=3.0).tag(sync=True)  # 0: the likeliest
    prefix = traitlets.List(traitlets.Int()).tag(sync=True)  # ids that the reader put there
    step = traitlets.Int(0, min=0).tag(sync=True)  # beyond the last: that of the last word
    attention = traitlets.Enum(TransformerWeights._fields, "cross").tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)

    def __init__(
        self,
        model: Transformer,
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        compact: bool = False,
        **texts: Any,
    ) -> None:
        data = text_data(model, source_vocab, target_vocab, **texts)
        super().__init__(data | {"compact": compact}, step=data["most"])

    def translation(self, text: str | None = None) -> Translation:
        """The model's translation of the text, or of another, with the reader's tokens first."""
        text = self.text if text is None else text
        key = (text, self.language, self.temperature, self.seed, *self.prefix)
        make = partial(self._translate, text, self._heated, self._choose)
        return self._once("translation", key, make)

    def _heated(self, text: str, tokens: Sequence[int]) -> tuple[Tensor, TransformerWeights]:
        """As `_run`, at the temperature."""
        probabilities, weights = self._run(text, tokens)
        return (probabilities.log() / (self.temperature or 1.0)).softmax(-1), weights

    def _choose(self, probabilities: Tensor, step: int) -> int:
        """The reader's token, or one drawn, or the likeliest."""
        if step < len(self.prefix):
            return self.prefix[step]
        if self.temperature:
            return drawn(probabilities, chance(self.seed, step))
        return int(probabilities.argmax())

    def _now(self) -> tuple[Translation, int, Tensor, str]:
        """Translation, step, weights and name of the head; the last of each if there are fewer."""
        made = self.translation()
        layers = getattr(made.weights, self.attention)
        layer, head = min(self.layer, len(layers) - 1), min(self.head, layers[0].shape[1] - 1)
        place = f"{self.attention} attention of layer {layer}, head {head}"
        count = len(made.tokens)
        whole = count - 1 - (count > 1 and made.tokens[-1] == END)
        return made, self.step if self.step < count else whole, layers[layer][0, head], place

    def shown(self) -> Tensor:
        """The weights of the chosen head, with a row a step so far, or the encoder's (S, S)."""
        _, step, weights, _ = self._now()
        return weights if self.attention == "encoder" else weights[: step + 1]

    def _summary(self) -> str:
        made, step, _, place = self._now()
        words = " ".join(self._names[token] for token in made.tokens)
        return f"{self._asked()}: {words}; step {step + 1}, {place}"

    def _table(self) -> Table:
        made, _, weights, _ = self._now()
        written, mask = [self._names[token] for token in made.tokens], None
        queries = made.source if self.attention == "encoder" else written
        keys = made.source
        if self.attention == "decoder":
            keys, mask = [SPECIAL[START], *written[:-1]], causal_mask(len(weights), device="cpu")
        caption, columns, rows = weights_table(weights, mask, queries, keys)
        return f"{self._summary()}. {caption}", columns, rows
