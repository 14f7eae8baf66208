"""What widgets share in which the reader types a text that a Transformer translates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor
from traitlets import TraitError

from attn_notes.data import END, START, Vocabulary
from attn_notes.transformer import Transformer, TransformerWeights
from attn_notes.widgets.encoding import check_tokens, replace_surrogates
from attn_notes.widgets.packing import pack_transformer
from attn_notes.widgets.player import ModelWidget, check_vocabulary, cut

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
