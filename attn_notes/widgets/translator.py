"""A Transformer that translates in the page, token by token (chapter 7)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.data import END, START, Vocabulary
from attn_notes.transformer import Transformer, TransformerWeights
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.encoding import whole
from attn_notes.widgets.heatmap import weights_table
from attn_notes.widgets.packing import pack_transformer, unpack_transformer
from attn_notes.widgets.translation import Translation, cut, translate_tokens

__all__ = ["TransformerPlayer"]

SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")  # as the front end shows them
MOST_SOURCE = 40  # tokens of a text
HOTTEST, SEEDS = 3.0, 100  # temperatures up to it, and seeds below it


class TransformerPlayer(BookWidget):
    """A trained Transformer at work in the page: type a text, and watch it being translated.

    The weights travel in 8 bits each, and the page computes the forward pass itself. A step shows
    what every head of every layer reads, and what else could have been said; another token can be
    put in its place, and the model goes on from there. It starts at the last step.

    Args:
        model: with learned, sinusoidal or no positions; rounded on its way, and not changed.
        source_vocab: of the text, and of the tags. Texts are cut into its tokens: words at spaces,
            then each word into as few tokens as can be.
        target_vocab: of the translation.
        languages: what the source begins with, such as "<de>", or "de" for short, and the name of
            the language; empty where the model knows one language alone.
        examples: texts to choose from.
        text: the one to start with; the first example by default.
        compound: the tags of languages whose words are written as one.
        most: after so many tokens a translation is stopped.
        title: a line above the widget.

    Raises:
        TypeError: something that is not a `Transformer`, a `Vocabulary` or a string.
        ValueError: vocabularies that do not fit the model, a tag that is not in the vocabulary, a
            text that is not made of its tokens, or a config that the page cannot compute.
        traitlets.TraitError: a trait set to what there is not.

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

    data = traitlets.Dict().tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    language = traitlets.Unicode("").tag(sync=True)
    temperature = traitlets.Float(0.0, min=0.0, max=HOTTEST).tag(sync=True)  # 0: the likeliest
    seed = traitlets.Int(0, min=0, max=SEEDS - 1).tag(sync=True)
    prefix = traitlets.List(traitlets.Int()).tag(sync=True)  # ids that the reader put there
    step = traitlets.Int(0, min=0).tag(sync=True)
    attention = traitlets.Enum(TransformerWeights._fields, "cross").tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)

    _unpacked: tuple[dict[str, Any], Transformer] | None = None

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
        packed = pack_transformer(model)
        if most < 1:
            raise ValueError(f"most must be at least 1, got {most}")
        _check_sizes(model, source_vocab, target_vocab)
        tags = {_tag(key, source_vocab): whole(name) for key, name in (languages or {}).items()}
        reach = model.config.max_length if model.config.positions == "learned" else MOST_SOURCE
        data = {
            "model": packed,
            "source": [whole(token) for token in source_vocab.tokens],
            "target": [whole(token) for token in target_vocab.tokens],
            "languages": [list(pair) for pair in tags.items()],
            "compound": [tag for tag in tags if {tag, tag.strip("<>")} & set(compound)],
            "examples": [whole(example) for example in examples],
            "most": min(most, reach),
            "most_source": min(MOST_SOURCE, reach),
            "title": whole(title),
        }
        first = next(iter(examples), "") if text is None else text
        super().__init__(data=data, language=next(iter(tags), ""))
        for known in [*map(whole, examples), whole(first)]:
            self._cut(known)
        self.text = first
        self.step = len(self.translation().said) - 1

    @traitlets.validate("text")
    def _readable(self, proposal: Any) -> str:
        text = whole(proposal["value"])
        try:
            self._cut(text)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error
        return text

    @traitlets.validate("language")
    def _offered(self, proposal: Any) -> str:
        tags = [tag for tag, _ in self.data["languages"]]
        if proposal["value"] not in (tags or [""]):
            raise traitlets.TraitError(
                f"language must be one of {', '.join(tags)}, got {proposal['value']!r}"
            )
        return str(proposal["value"])

    @traitlets.validate("prefix")
    def _sayable(self, proposal: Any) -> list[int]:
        size = len(SPECIAL) + len(self.data["target"])
        for token in proposal["value"]:
            if not END <= token < size:
                raise traitlets.TraitError(
                    f"prefix must be ids from {END} to {size - 1}, got {token}"
                )
        return list(proposal["value"])

    def _cut(self, text: str) -> list[str]:
        """The tokens of a text, checked."""
        tags = {tag for tag, _ in self.data["languages"]}
        tokens = cut(text, [token for token in self.data["source"] if token not in tags])
        most = self.data["most_source"] - bool(tags)
        if not 0 < len(tokens) <= most:
            raise ValueError(f"text must have from 1 to {most} tokens, got {len(tokens)}")
        return tokens

    @property
    def _model(self) -> Transformer:
        """The model that the page computes with."""
        packed = self.data["model"]
        if self._unpacked is None or self._unpacked[0] is not packed:
            self._unpacked = packed, unpack_transformer(packed)
        return self._unpacked[1]

    def translation(self) -> Translation:
        """What the model makes of the text, all steps of it.

        Returns:
            Source tokens, the ids that are said, (T, V) probabilities of each step, float64, at
            the temperature, or at 1 where that is 0, and the weights of all heads.
        """
        source = [*([self.language] if self.language else []), *self._cut(self.text)]
        ids = [self.data["source"].index(token) + len(SPECIAL) for token in source]
        said, probabilities, weights = translate_tokens(
            self._model,
            ids,
            temperature=self.temperature,
            seed=self.seed,
            prefix=self.prefix,
            most=self.data["most"],
        )
        return Translation(source, said, probabilities, weights)

    def _now(self) -> tuple[Translation, int, int, int]:
        """Translation, step, layer and head on show: where there is no such one, the last."""
        made = self.translation()
        layers = getattr(made.weights, self.attention)
        layer, head = min(self.layer, len(layers) - 1), min(self.head, layers[0].shape[1] - 1)
        return made, min(self.step, len(made.said) - 1), layer, head

    def shown(self) -> Tensor:
        """The weights that the map shows now.

        Returns:
            float64, of the chosen head: "cross" (step + 1, S), the steps so far; "decoder"
            (step + 1, T), whose queries read no later token; "encoder" (S, S).
        """
        made, step, layer, head = self._now()
        weights = getattr(made.weights, self.attention)[layer][0, head]
        return weights if self.attention == "encoder" else weights[: step + 1]

    def _tokens(self, made: Translation) -> tuple[list[str], list[str]]:
        """The queries and the keys of the chosen attention, all of them."""
        said = [_name(token, self.data["target"]) for token in made.said]
        heard = [SPECIAL[START], *said[:-1]]
        return {
            "cross": (said, made.source),
            "decoder": (said, heard),
            "encoder": (made.source, made.source),
        }[self.attention]

    def _summary(self) -> str:
        made, step, layer, head = self._now()
        words = " ".join(_name(token, self.data["target"]) for token in made.said)
        into = dict(self.data["languages"]).get(self.language)
        return (
            f"{self.text}{f' in {into}' if into else ''}: {words}; step {step + 1}, "
            f"{self.attention} attention of layer {layer}, head {head}"
        )

    def _table(self) -> Table:
        made, _, layer, head = self._now()
        queries, keys = self._tokens(made)
        weights = getattr(made.weights, self.attention)[layer][0, head]
        mask = torch.ones_like(weights, dtype=torch.bool)
        if self.attention == "decoder":
            mask = mask.tril()
        caption, columns, rows = weights_table(weights, mask, queries, keys, most=900)
        return f"{self._summary()}. {caption}", columns, rows


def _name(token: int, target: Sequence[str]) -> str:
    return SPECIAL[token] if token < len(SPECIAL) else target[token - len(SPECIAL)]


def _tag(key: str, vocab: Vocabulary) -> str:
    """The token that asks for a language: as it was given, or in angle brackets."""
    for tag in (key, f"<{key}>"):
        if tag in vocab.tokens:
            return tag
    raise ValueError(f"languages must be tokens of source_vocab, such as '<de>', got {key!r}")


def _check_sizes(model: Transformer, source: Vocabulary, target: Vocabulary) -> None:
    """Raise unless there is one row of the model's embeddings for each token."""
    config = model.config
    sizes = config.vocab_size, config.target_vocab_size or config.vocab_size
    for name, vocab, size in zip(("source", "target"), (source, target), sizes, strict=True):
        if not isinstance(vocab, Vocabulary):
            raise TypeError(f"{name}_vocab must be a Vocabulary, got {type(vocab).__name__}")
        if len(vocab) != size:
            raise ValueError(f"{name}_vocab must have the model's {size} ids, got {len(vocab)}")
