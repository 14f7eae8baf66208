"""A Transformer that translates in the page, token by token (chapter 7)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor
from traitlets import TraitError

from attn_notes.arguments import check_integers
from attn_notes.data import END, START, Vocabulary
from attn_notes.decoding import generate
from attn_notes.transformer import Transformer, TransformerWeights
from attn_notes.widgets.base import Table, check_choice
from attn_notes.widgets.encoding import check_tokens, replace_surrogates
from attn_notes.widgets.heatmap import weights_table
from attn_notes.widgets.packing import pack_transformer
from attn_notes.widgets.player import ModelPlayer, chance, check_vocabulary, cut, drawn

__all__ = ["TransformerPlayer", "Translation"]

SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")  # as the front end shows them
MOST_SOURCE = 40  # tokens of a text
HOTTEST = 3.0  # temperature


class Translation(NamedTuple):
    """A source and its translation, all steps of it."""

    source: list[str]
    """S tokens, the tag of the language among them."""
    tokens: list[int]
    """T ids, END among them if it was reached."""
    probabilities: Tensor
    """(T, V), float64: those that each token is taken from."""
    weights: TransformerWeights
    """Of all heads, (1, H, ., .) for each layer."""


class TransformerPlayer(ModelPlayer):
    """A trained Transformer at work in the page: type a text, and watch it being translated.

    The weights travel in 8 bits each, and the page computes the forward pass itself. A step shows
    what every head of every layer reads, and which other tokens were likely; one of these can be
    put in its place, and the model continues from there. It starts at the last step.

    Args:
        model: with learned, sinusoidal or no positions; a rounded copy is made of it.
        source_vocab: of the text, and of the tags. Texts are cut into its tokens: words at spaces,
            then each word into as few tokens as possible.
        target_vocab: of the translation.
        languages: what the source begins with, such as "<de>", or "de" for short, and the name of
            the language; empty if the model knows only one language.
        examples: texts to choose from.
        text: the one to start with; the first example by default.
        compound: the tags of languages whose words are written as one.
        most: the largest number of tokens in a translation.
        title: a line above the widget.

    Raises:
        ValueError: a config that the page cannot compute, such as one with rotary positions.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> digits, words = Vocabulary([*"0123456789"]), Vocabulary(["eins", "zwei"])
        >>> config = TransformerConfig(
        ...     vocab_size=14, target_vocab_size=6, embed_dim=8, num_heads=2, positions="sinusoidal"
        ... )
        >>> TransformerPlayer(Transformer(config), digits, words, most=1).translation().source
        ['1', '9', '9', '9']
    """

    _widget = "translator"

    text = traitlets.Unicode("").tag(sync=True)
    language = traitlets.Unicode("").tag(sync=True)
    temperature = traitlets.Float(0.0, min=0.0, max=HOTTEST).tag(sync=True)  # 0: the likeliest
    prefix = traitlets.List(traitlets.Int()).tag(sync=True)  # ids that the reader put there
    step = traitlets.Int(0, min=0).tag(sync=True)
    attention = traitlets.Enum(TransformerWeights._fields, "cross").tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)

    def __init__(
        self,
        model: Transformer,
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        languages: Mapping[str, str] | None = None,
        examples: Sequence[str] = ("1999",),
        text: str | None = None,
        compound: Sequence[str] = ("de",),
        most: int = 32,
        title: str = "",
    ) -> None:
        if not isinstance(model, Transformer):
            raise TypeError(f"model must be a Transformer, got {type(model).__name__}")
        check_integers(1, most=most)
        config, size = model.config, model.config.vocab_size
        check_vocabulary("source_vocab", source_vocab, size)
        check_vocabulary("target_vocab", target_vocab, config.target_vocab_size or size)
        tags = {_tag(key, source_vocab): name for key, name in (languages or {}).items()}
        reach = config.max_length if config.positions == "learned" else MOST_SOURCE
        data = {
            "model": pack_transformer(model),
            "source": check_tokens("source_vocab", source_vocab.tokens),
            "target": check_tokens("target_vocab", target_vocab.tokens),
            "languages": [[tag, replace_surrogates(name)] for tag, name in tags.items()],
            "compound": [tag for tag in tags if {tag, tag.strip("<>")} & set(compound)],
            "examples": check_tokens("examples", examples),
            "most": min(most, reach),
            "most_source": min(MOST_SOURCE, reach),
            "title": replace_surrogates(title),
        }
        super().__init__(data=data, language=next(iter(tags), ""))
        for example in examples:
            self._cut(example)
        self.text = next(iter(examples), "") if text is None else text
        self.step = len(self.translation().tokens) - 1

    @traitlets.validate("text")
    def _check_text(self, proposal: Any) -> str:
        text = replace_surrogates(proposal["value"])
        self._cut(text)
        return text

    @traitlets.validate("language")
    def _check_language(self, proposal: Any) -> str:
        return check_choice(proposal, [tag for tag, _ in self.data["languages"]] or [""])

    @traitlets.validate("prefix")
    def _check_prefix(self, proposal: Any) -> list[int]:
        last = len(SPECIAL) + len(self.data["target"]) - 1
        if any(not END <= token <= last for token in proposal["value"]):
            got = proposal["value"]
            raise TraitError(f"prefix must be ids from {END} to {last}, got {got}")
        return list(proposal["value"])

    def _cut(self, text: str) -> list[str]:
        """The tokens of a text, checked."""
        tags = {tag for tag, _ in self.data["languages"]}
        tokens = cut(text, [token for token in self.data["source"] if token not in tags])
        most = self.data["most_source"] - bool(tags)
        if not 0 < len(tokens) <= most:
            raise TraitError(f"text must have from 1 to {most} tokens, got {len(tokens)}")
        return tokens

    def translation(self) -> Translation:
        """The model's translation of the text, with the reader's tokens first."""
        source = [tag for tag in [self.language] if tag] + self._cut(self.text)
        ids = [self.data["source"].index(token) + len(SPECIAL) for token in source]
        given = torch.tensor([ids], device="cpu"), torch.tensor([len(ids)], device="cpu")
        rows: list[Tensor] = []  # of probabilities

        def choose(log_probs: Tensor) -> Tensor:
            step, scores = len(rows), log_probs[0]
            rows.append((scores / (self.temperature or 1.0)).softmax(-1))
            free = drawn(rows[-1], chance(self.seed, step)) if self.temperature else scores.argmax()
            token = self.prefix[step] if step < len(self.prefix) else int(free)
            return torch.tensor([token], device="cpu")

        made = generate(self._model, *given, max_length=self.data["most"], choose=choose)
        tokens = made.tokens[0].tolist()
        inputs = torch.tensor([[START, *tokens[:-1]]], device="cpu")
        with torch.no_grad():
            _, weights = self._model(*given, inputs, need_weights=True)
        return Translation(source, tokens, torch.stack(rows), weights)

    def _now(self) -> tuple[Translation, int, int, int]:
        """Translation, step, layer and head on show; the last one if the chosen one is missing."""
        made = self.translation()
        layers = getattr(made.weights, self.attention)
        layer, head = min(self.layer, len(layers) - 1), min(self.head, layers[0].shape[1] - 1)
        return made, min(self.step, len(made.tokens) - 1), layer, head

    def shown(self) -> Tensor:
        """The weights of the chosen head, with a row a step so far, or the encoder's (S, S)."""
        made, step, layer, head = self._now()
        weights = getattr(made.weights, self.attention)[layer][0, head]
        return weights if self.attention == "encoder" else weights[: step + 1]

    def _tokens(self, made: Translation) -> tuple[list[str], list[str]]:
        """The queries and the keys of the chosen attention, all of them."""
        names = [*SPECIAL, *self.data["target"]]
        written = [names[token] for token in made.tokens]
        return {
            "cross": (written, made.source),
            "decoder": (written, [SPECIAL[START], *written[:-1]]),
            "encoder": (made.source, made.source),
        }[self.attention]

    def _summary(self) -> str:
        made, step, layer, head = self._now()
        names = [*SPECIAL, *self.data["target"]]
        words = " ".join(names[token] for token in made.tokens)
        into = "".join(
            f" in {name}" for tag, name in self.data["languages"] if tag == self.language
        )
        place = f"{self.attention} attention of layer {layer}, head {head}"
        return f"{self.text}{into}: {words}; step {step + 1}, {place}"

    def _table(self) -> Table:
        made, _, layer, head = self._now()
        weights = getattr(made.weights, self.attention)[layer][0, head]
        mask = torch.ones_like(weights, dtype=torch.bool)
        if self.attention == "decoder":
            mask = mask.tril()
        caption, columns, rows = weights_table(weights, mask, *self._tokens(made), most=900)
        return f"{self._summary()}. {caption}", columns, rows


def _tag(key: str, vocab: Vocabulary) -> str:
    """The token that asks for a language: as it was given, or in angle brackets."""
    for tag in (key, f"<{key}>"):
        if tag in vocab.tokens:
            return tag
    raise ValueError(f"languages must be tokens of source_vocab, such as '<de>', got {key!r}")
