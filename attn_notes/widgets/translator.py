"""A Transformer that translates in the page, token by token (chapter 7)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor
from traitlets import TraitError

from attn_notes.data import END, START, Vocabulary
from attn_notes.masks import causal_mask
from attn_notes.transformer import Transformer, TransformerWeights
from attn_notes.widgets.base import Table
from attn_notes.widgets.encoding import check_tokens, replace_surrogates
from attn_notes.widgets.heatmap import weights_table
from attn_notes.widgets.packing import pack_transformer
from attn_notes.widgets.player import ModelPlayer, chance, check_vocabulary, cut, drawn

SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")  # as the front end shows them
MOST_SOURCE = 40  # tokens of a text


class Translation(NamedTuple):
    """A source and its translation, all steps of it."""

    source: list[str]  # S tokens, the tag of the language among them
    tokens: list[int]  # T ids, END among them if it was reached
    probabilities: Tensor  # (T, V), float64: those that each token is taken from
    weights: TransformerWeights  # of all heads, (1, H, ., .) for each layer


class TransformerPlayer(ModelPlayer):
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
        title: a line above the widget.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> digits, words = Vocabulary([*"0123456789"]), Vocabulary(["eins", "zwei"])
        >>> config = TransformerConfig(vocab_size=14, target_vocab_size=6, embed_dim=8, num_heads=2)
        >>> TransformerPlayer(Transformer(config), digits, words, most=1).translation().source
        ['1', '9', '9', '9']
    """

    _widget = "translator"
    text = traitlets.Unicode("").tag(sync=True)
    language = traitlets.Unicode("").tag(sync=True)
    temperature = traitlets.Float(0.0, min=0.0, max=3.0).tag(sync=True)  # 0: the likeliest
    prefix = traitlets.List(traitlets.Int()).tag(sync=True)  # ids that the reader put there
    step = traitlets.Int(0, min=0).tag(sync=True)  # beyond the last: that of the last word
    attention = traitlets.Enum(TransformerWeights._fields, "cross").tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)
    _made: tuple[object, Translation] | None = None  # the last translation, and of what

    def __init__(
        self,
        model: Transformer,
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        languages: Mapping[str, str] | None = None,
        examples: Sequence[str] = ("1999",),
        domain: tuple[str, str] | None = None,
        compact: bool = False,
        most: int = 32,
        title: str = "",
    ) -> None:
        config, size = model.config, model.config.vocab_size
        check_vocabulary("source_vocab", source_vocab, size)
        check_vocabulary("target_vocab", target_vocab, config.target_vocab_size or size)
        known, named = source_vocab.tokens, (languages or {}).items()
        tags = {key if key in known else f"<{key}>": name for key, name in named}
        reach = config.max_length if config.positions == "learned" else MOST_SOURCE
        data = {
            "model": pack_transformer(model),
            "source": check_tokens("source_vocab", source_vocab.tokens),
            "target": check_tokens("target_vocab", target_vocab.tokens),
            "languages": [[tag, replace_surrogates(name)] for tag, name in tags.items()],
            "compound": [tag for tag in tags if tag.strip("<>") == "de"],  # written as one word
            "examples": check_tokens("examples", examples),
            "domain": None if domain is None else check_tokens("domain", domain, 2),
            "compact": compact,
            "most": min(most, reach),
            "most_source": min(MOST_SOURCE, reach),
            "title": replace_surrogates(title),
        }
        start = {"text": examples[0], "language": next(iter(tags), ""), "step": data["most"]}
        super().__init__(data=data, **start)

    @property
    def _names(self) -> list[str]:
        """The tokens of the translation, as the front end shows them."""
        return [*SPECIAL, *self.data["target"]]

    @traitlets.validate("text")
    def _check_text(self, proposal: Any) -> str:
        text = replace_surrogates(proposal["value"])
        self._cut(text)
        return text

    def _cut(self, text: str) -> list[str]:
        tags = dict(self.data["languages"])
        tokens = cut(text, [token for token in self.data["source"] if token not in tags])
        most = self.data["most_source"] - bool(tags)
        if not 0 < len(tokens) <= most:
            raise TraitError(f"text must have from 1 to {most} tokens, got {len(tokens)}")
        return tokens

    def translation(self, text: str | None = None) -> Translation:
        """The model's translation of the text, or of another, with the reader's tokens first."""
        words = self._cut(self.text if text is None else text)
        source = [tag for tag in [self.language] if tag] + words
        ids = [self.data["source"].index(token) + len(SPECIAL) for token in source]
        given = torch.tensor([ids], device="cpu"), torch.tensor([len(ids)], device="cpu")
        key = (*source, self.temperature, self.seed, *self.prefix)
        if self._made is None or self._made[0] != key:
            with torch.no_grad():
                self._made = key, self._translate(source, *given)
        return self._made[1]

    def _translate(self, source: list[str], ids: Tensor, length: Tensor) -> Translation:
        """Token by token; then all steps once more in parallel, for the weights."""
        tokens: list[int] = []
        logits, state = self._model.start(ids, length)
        while True:
            probabilities = self._probabilities(logits[0])
            token = int(probabilities.argmax())
            if len(tokens) < len(self.prefix):
                token = self.prefix[len(tokens)]
            elif self.temperature:
                token = drawn(probabilities, chance(self.seed, len(tokens)))
            tokens.append(token)
            if token == END or len(tokens) == self.data["most"]:
                break
            logits, state = self._model.step(torch.tensor([token], device="cpu"), state)
        inputs = torch.tensor([[START, *tokens[:-1]]], device="cpu")
        logits, weights = self._model(ids, length, inputs, need_weights=True)
        return Translation(source, tokens, self._probabilities(logits[0]), weights)

    def _probabilities(self, logits: Tensor) -> Tensor:
        """(..., V) of each token, PAD and START left out."""
        allowed = logits.masked_fill(torch.arange(logits.shape[-1], device="cpu") < END, -torch.inf)
        return (allowed / (self.temperature or 1.0)).softmax(-1)

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
        into = f" in {dict(self.data['languages'])[self.language]}" if self.language else ""
        return f"{self.text}{into}: {words}; step {step + 1}, {place}"

    def _table(self) -> Table:
        made, _, weights, _ = self._now()
        written, mask = [self._names[token] for token in made.tokens], None
        queries = made.source if self.attention == "encoder" else written
        keys = made.source
        if self.attention == "decoder":
            keys, mask = [SPECIAL[START], *written[:-1]], causal_mask(len(weights), device="cpu")
        caption, columns, rows = weights_table(weights, mask, queries, keys)
        return f"{self._summary()}. {caption}", columns, rows
