"""A language model that writes in the page, character by character (chapter 9)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor
from traitlets import TraitError

from attn_notes.data import Vocabulary
from attn_notes.decoding import sampling_distribution
from attn_notes.palette import visible
from attn_notes.special_tokens import END, PAD, START
from attn_notes.transformer import DecoderOnly
from attn_widgets.base import Table
from attn_widgets.encoding import check_tokens, replace_surrogates
from attn_widgets.packing import pack_transformer
from attn_widgets.player import ModelWidget, chance, check_vocabulary, drawn

SPECIAL = ("padding", "start", "end of text", "unknown")  # as the front end calls them
SPACES = {" ": "space", "\n": "new line", "\t": "tab", "\u00a0": "no-break space"}
LISTED, SHORT = 20, 60  # rows of the plain table, and characters in the repr


class LanguageModelPlayer(ModelWidget):
    """A trained language model at work in the page: begin a text, and watch the model continue it.

    The page computes the forward pass itself, from weights of 8 bits each. It shows what could
    come next before and after temperature, top-k and top-p, how surprising each character was, and
    what each head reads. Any character can be put there, and the model continues from it.

    Args:
        model: with learned, sinusoidal or no positions; a rounded copy is made of it.
        vocab: its tokens. Tokens of several characters can be generated, but not typed.
        prompt: what the text begins with.
        examples: other prompts to choose from.
        most: how many characters a text may have, the prompt among them.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> letters = Vocabulary([*"ehnt "])
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> player = LanguageModelPlayer(model, letters, prompt="the ", examples=())
        >>> player.text, player.distributions()[0].shape
        ('the ', torch.Size([9]))
    """

    _widget = "sampler"
    prompt = traitlets.Unicode("").tag(sync=True)
    said = traitlets.List(traitlets.Int()).tag(sync=True)  # ids that follow the prompt
    position = traitlets.Int(0, min=0).tag(sync=True)  # looked at; at the end, the next
    seed = traitlets.Int(0, min=0, max=99).tag(sync=True)
    temperature = traitlets.Float(0.8, min=0.1, max=3.0).tag(sync=True)
    top_k = traitlets.Int(1, min=1).tag(sync=True)  # as many as there are: all
    top_p = traitlets.Float(1.0, min=0.01, max=1.0).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        model: DecoderOnly,
        vocab: Vocabulary,
        *,
        prompt: str = "The ",
        examples: Sequence[str] = (),
        most: int = 400,
    ) -> None:
        check_vocabulary("vocab", vocab, model.config.vocab_size)
        data = {
            "model": pack_transformer(model),
            "tokens": check_tokens("vocab", vocab.tokens),
            "context": model.config.max_length,
            "most": most,
            "examples": [_normalised(example) for example in examples],
        }
        super().__init__(data=data, prompt=prompt, position=most)
        self.top_k = len(self._writable)

    @property
    def _writable(self) -> range:
        """The ids that can be generated."""
        return range(END, len(SPECIAL) + len(self.data["tokens"]))

    def _ids(self, text: str) -> list[int]:
        tokens, most = self.data["tokens"], self.data["most"]
        for character in text:
            if character not in tokens:
                raise TraitError(f"prompt must be made of known characters, got {character!r}")
        if len(text) > most:
            raise TraitError(f"prompt must have at most {most} characters, got {len(text)}")
        return [tokens.index(character) + len(SPECIAL) for character in text]

    @traitlets.validate("prompt")
    def _check_prompt(self, proposal: Any) -> str:
        prompt = _normalised(proposal["value"])
        self._ids(prompt)
        return prompt

    def _tokens(self) -> list[int]:
        """The ids of the text so far."""
        return [*self._ids(self.prompt), *self.said]

    def _full(self) -> bool:
        """Whether nothing can follow."""
        return self.said[-1:] == [END] or len(self._tokens()) >= self.data["most"]

    def _at(self) -> int:
        """The position that is looked at."""
        return min(self.position, len(self._tokens()) - self._full())

    @property
    def text(self) -> str:
        """The text so far, without what ends it."""
        characters = ["", "", "", "\ufffd", *self.data["tokens"]]
        return "".join(characters[token] for token in self._tokens())

    def generate(self, count: int = 1) -> None:
        """Continue the text by `count` characters, or until it ends or is full."""
        self.position = self.data["most"]
        while count > 0 and not self._full():
            probabilities = self.distributions()[1]
            self.said = [*self.said, drawn(probabilities, chance(self.seed, len(self.said)))]
            count -= 1

    def distributions(self) -> tuple[Tensor, Tensor]:
        """At the position looked at: the model's probabilities (V,), and those drawn from."""
        at = self._at()
        tokens = [START, *self._tokens()[:at]]
        window = torch.tensor([tokens[window_start(at, self.data["context"]) :]], device="cpu")
        with torch.no_grad():
            logits = self._model(window).logits[0, -1]  # (V,)
        logits[[PAD, START]] = -torch.inf
        options: Any = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        return logits.softmax(-1), sampling_distribution(logits, **options)

    def _label(self, token: int) -> str:
        names = (SPACES.get(text, visible(text)) for text in self.data["tokens"])
        return [*SPECIAL, *names][token]

    def _summary(self) -> str:
        own, after = self.distributions()
        best, text = int(after.argmax()), visible(self.text)
        text = text if len(text) <= SHORT else f"{text[: SHORT - 1]}\u2026"
        likely = f"{self._label(best)} {after[best]:.2f}"
        kept = f"{int((after > 0).sum())} of {len(self._writable)} characters remain"
        entropies = [torch.special.entr(one).sum() / math.log(2) for one in (after, own)]
        bits = "{:.2f} bits of {:.2f}".format(*entropies)
        return f"{text}; at {self._at() + 1} most likely {likely}, {kept}, {bits}"

    def _table(self) -> Table:
        own, after = self.distributions()
        likely = own.sort(descending=True, stable=True).indices[:LISTED].tolist()
        cells = [f"{one:.3f}" if one > 0 else "cut" for one in after]
        listed = [n for n in likely if n in self._writable]
        rows = [(self._label(n), f"{own[n]:.3f}", cells[n]) for n in listed]
        return f"{self._summary()}.", ("of the model", "drawn from"), rows


def _normalised(text: str) -> str:
    r"""A text that any file can hold, with lines that end in \n, as in training."""
    return replace_surrogates(text).replace("\r\n", "\n").replace("\r", "\n")


def window_start(position: int, context: int) -> int:
    """Where a position's window begins: the one after a full one begins with its last half."""
    stride = context + 1 - max(1, context // 2)
    return stride * max(0, -((context - 1 - position) // stride))
