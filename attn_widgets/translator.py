"""A Transformer that translates in the page, token by token (chapter 7)."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor
from traitlets import TraitError

from attn_notes.data import Vocabulary
from attn_notes.masks import causal_mask
from attn_notes.special_tokens import END, START
from attn_notes.transformer import Transformer, TransformerWeights
from attn_widgets.base import Table
from attn_widgets.encoding import check_tokens, replace_surrogates
from attn_widgets.heatmap import weights_table
from attn_widgets.packing import pack_transformer
from attn_widgets.player import ModelWidget, chance, check_vocabulary, cut, drawn

SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")  # as the front end shows them
MOST_SOURCE = 40  # tokens of a text


class Translation(NamedTuple):
    """A source and its translation, all steps of it."""

    source: list[str]  # S tokens, the tag of the language among them
    tokens: list[int]  # T ids, END among them if it was reached
    probabilities: Tensor  # (T, V), float64: those that each token is taken from
    weights: TransformerWeights  # of all heads, (1, H, ., .) for each layer


Run = Callable[[str, list[int]], tuple[Tensor, TransformerWeights]]
Choose = Callable[[Tensor, int], int]  # of probabilities (V,) at a step


class TextReader(ModelWidget):
    """A widget with a text and the language that its model is to translate it into."""

    text = traitlets.Unicode("").tag(sync=True)
    language = traitlets.Unicode("").tag(sync=True)

    def __init__(self, data: dict[str, Any], **start: Any) -> None:
        language = next((tag for tag, _ in data["languages"]), "")
        super().__init__(data=data, text=data["examples"][0], language=language, **start)

    @property
    def _names(self) -> list[str]:
        """The tokens of the translation, as the front end shows them."""
        return [*SPECIAL, *self.data["target"]]

    @traitlets.validate("text", "other")  # a second one, where there is one
    def _check_text(self, proposal: Any) -> str:
        text = replace_surrogates(proposal["value"])
        self._cut(text)
        return text

    def _cut(self, text: str) -> list[str]:
        tags = dict(self.data["languages"])
        tokens = cut(self._meant(text), [one for one in self.data["source"] if one not in tags])
        most = self.data["most_source"] - bool(tags)
        if not 0 < len(tokens) <= most:
            raise TraitError(f"text must have from 1 to {most} tokens, got {len(tokens)}")
        return tokens

    def _meant(self, text: str) -> str:
        """The text, with a hyphen if only that is missing to be of the domain: "eighty one"."""
        words = re.split(r"[ \t\r\n]+", text.strip(" \t\r\n"))
        pattern, _ = self.data["domain"] or ("", "")
        for n in range(len(words)):
            joined = "-".join(filter(None, (" ".join(words[:n]), " ".join(words[n:]))))
            if re.fullmatch(pattern, joined.lower()):
                return joined
        return text

    def _read(self, text: str) -> tuple[list[str], Tensor, Tensor]:
        """The S tokens of a text after its tag, their ids (1, S), and S (1,)."""
        source = [tag for tag in [self.language] if tag] + self._cut(text)
        ids = [self.data["source"].index(token) + len(SPECIAL) for token in source]
        return source, torch.tensor([ids], device="cpu"), torch.tensor([len(ids)], device="cpu")

    def _translate(self, text: str, run: Run, choose: Choose | None = None) -> Translation:
        """Token by token: `run` reads text and tokens so far; without a choice, the likeliest."""
        tokens: list[int] = []
        while True:
            probabilities, weights = run(text, tokens)
            likeliest = int(probabilities[-1].argmax())
            tokens.append(choose(probabilities[-1], len(tokens)) if choose else likeliest)
            if tokens[-1] == END or len(tokens) == self.data["most"]:
                return Translation(self._read(text)[0], tokens, probabilities, weights)

    @torch.no_grad()
    def _run(self, text: str, tokens: Sequence[int]) -> tuple[Tensor, TransformerWeights]:
        """Probabilities (L, V) after START and each token, of all but PAD and START; weights."""
        inputs = torch.tensor([[START, *tokens]], device="cpu")  # (1, L)
        logits, weights = self._model(*self._read(text)[1:], inputs, need_weights=True)
        logits[..., :END] = -torch.inf
        return logits[0].softmax(-1), weights

    def _asked(self) -> str:
        """The text and the language."""
        into = f" in {dict(self.data['languages'])[self.language]}" if self.language else ""
        return f"{self.text}{into}"


def text_data(
    model: Transformer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    languages: Mapping[str, str] | None = None,
    examples: Sequence[str] = ("1999", "1998"),
    domain: tuple[str, str] | None = None,
    most: int = 32,
) -> dict[str, Any]:
    """What the front end needs to translate: see `TransformerPlayer`."""
    config, size = model.config, model.config.vocab_size
    check_vocabulary("source_vocab", source_vocab, size)
    check_vocabulary("target_vocab", target_vocab, config.target_vocab_size or size)
    known, named = source_vocab.tokens, (languages or {}).items()
    tags = {key if key in known else f"<{key}>": name for key, name in named}
    reach = config.max_length if config.positions == "learned" else MOST_SOURCE
    return {
        "model": pack_transformer(model),
        "source": check_tokens("source_vocab", source_vocab.tokens),
        "target": check_tokens("target_vocab", target_vocab.tokens),
        "languages": [[tag, replace_surrogates(name)] for tag, name in tags.items()],
        "compound": [tag for tag in tags if tag.strip("<>") == "de"],  # written as one word
        "examples": check_tokens("examples", examples),
        "domain": None if domain is None else check_tokens("domain", domain, 2),
        "most": min(most, reach),
        "most_source": min(MOST_SOURCE, reach),
    }


class TransformerPlayer(TextReader):
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
            and what they are. A text that only lacks one hyphen to match is read with it; what the
            model writes for other texts is marked as a guess.
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
    seed = traitlets.Int(0, min=0, max=99).tag(sync=True)
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
