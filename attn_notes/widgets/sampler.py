"""A language model that writes in the page, character by character (chapter 8)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.data import END, START, Vocabulary
from attn_notes.decoding import sampling_distribution
from attn_notes.transformer import DecoderOnly
from attn_notes.widgets.base import BookWidget, Table
from attn_notes.widgets.continuation import next_logits, next_weights
from attn_notes.widgets.encoding import visible, whole
from attn_notes.widgets.packing import pack_transformer, unpack_transformer
from attn_notes.widgets.translation import chance, drawn

__all__ = ["LanguageModelPlayer"]

SPECIAL = ("padding", "start", "end of text", "unknown")  # as the front end calls them
SPACES = {" ": "space", "\n": "new line", "\t": "tab", "\u00a0": "no-break space"}
COLDEST, HOTTEST, SEEDS = 0.1, 3.0, 100  # temperatures from and to, and seeds below it
RECENT, LISTED = 32, 20  # columns of the map, and rows of the plain table
SHORT = 60  # characters of a text that stand in the repr


class LanguageModelPlayer(BookWidget):
    """A trained language model at work in the page: begin a text, and watch it being gone on with.

    The weights travel in 8 bits each, and the page computes the forward pass itself. At every
    place it shows what could come next, as the model has it and as it is drawn after temperature,
    top-k and top-p; under the text so far, how surprising each character was; and what each head
    reads. Any character can be put there, and the model goes on from it.

    A text begins with START, as those it was trained on did. Where it is longer than the model's
    context, the model goes on from the last half of that: see `window_start`.

    Args:
        model: with learned, sinusoidal or no positions; rounded on its way, and not changed.
        vocab: its tokens. One of several characters can be said, and not typed.
        prompt: what the text begins with.
        examples: other prompts to choose from.
        temperature: from 0.1 to 3.
        top_k: how many of the likeliest characters may be said; all by default.
        top_p: the share of probability that they must reach; all by default.
        seed: of the draws, from 0 to 99.
        context: how many tokens the model reads at once; its config's `max_length` by default.
        most: how many characters a text may have, the prompt among them.
        title: a line above the widget.

    Raises:
        TypeError: something that is not a `DecoderOnly`, a `Vocabulary` or a string.
        ValueError: a vocabulary that does not fit the model, a prompt that is too long or not
            made of its characters, a context beyond the learned positions, or a config that the
            page cannot compute.
        traitlets.TraitError: a trait set to what there is not.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> letters = Vocabulary([*"ehnt "])
        >>> model = DecoderOnly(TransformerConfig(vocab_size=9, embed_dim=8, num_heads=2))
        >>> player = LanguageModelPlayer(model, letters, prompt="the ", examples=())
        >>> player.surprise().shape, player.shown().shape
        (torch.Size([4]), torch.Size([4, 5]))
        >>> player.say(5)
        >>> player.text.startswith("the ")
        True
    """

    _widget = "sampler"

    data = traitlets.Dict().tag(sync=True)
    prompt = traitlets.Unicode("").tag(sync=True)
    said = traitlets.List(traitlets.Int()).tag(sync=True)  # ids that follow the prompt
    position = traitlets.Int(0, min=0).tag(sync=True)  # looked at; at the end, the next
    temperature = traitlets.Float(1.0, min=COLDEST, max=HOTTEST).tag(sync=True)
    top_k = traitlets.Int(1, min=1).tag(sync=True)  # as many as there are: all
    top_p = traitlets.Float(1.0, min=0.01, max=1.0).tag(sync=True)
    seed = traitlets.Int(0, min=0, max=SEEDS - 1).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)

    _unpacked: tuple[dict[str, Any], DecoderOnly] | None = None

    def __init__(
        self,
        model: DecoderOnly,
        vocab: Vocabulary,
        *,
        prompt: str = "The ",
        examples: Sequence[str] = (),
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        context: int | None = None,
        most: int = 400,
        title: str = "",
    ) -> None:
        _check_fit(model, vocab)
        plain = [_plain(example) for example in examples]
        data = {
            "model": pack_transformer(model),
            "tokens": [whole(token) for token in vocab.tokens],
            "context": _checked_context(model, context),
            "most": most,
            "examples": plain,
            "title": whole(title),
        }
        if most < 1:
            raise ValueError(f"most must be at least 1, got {most}")
        super().__init__(data=data)
        for text in (*plain, _plain(prompt)):
            self._ids(text)
        self.prompt, self.position = prompt, most
        self.temperature, self.seed = temperature, seed
        self.top_k = len(self._sayable) if top_k is None else top_k
        self.top_p = 1.0 if top_p is None else top_p

    @property
    def _sayable(self) -> range:
        return range(END, len(SPECIAL) + len(self.data["tokens"]))

    def _ids(self, text: str) -> list[int]:
        """The ids of a text, checked."""
        tokens, most = self.data["tokens"], self.data["most"]
        for character in text:
            if character not in tokens:
                raise ValueError(f"prompt must be made of known characters, got {character!r}")
        if len(text) > most:
            raise ValueError(f"prompt must have at most {most} characters, got {len(text)}")
        return [tokens.index(character) + len(SPECIAL) for character in text]

    @traitlets.validate("prompt")
    def _readable(self, proposal: Any) -> str:
        prompt = _plain(proposal["value"])
        try:
            self._ids(prompt)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from error
        return prompt

    @traitlets.validate("said")
    def _known(self, proposal: Any) -> list[int]:
        for token in proposal["value"]:
            if token not in self._sayable:
                ends = f"{self._sayable[0]} to {self._sayable[-1]}"
                raise traitlets.TraitError(f"said must be ids from {ends}, got {token}")
        if END in proposal["value"][:-1]:
            raise traitlets.TraitError(f"said must stop at the end of the text, id {END}")
        most, size = self.data["most"], len(self.prompt) + len(proposal["value"])
        if size > most:
            raise traitlets.TraitError(f"said must leave the text {most} characters, got {size}")
        return list(proposal["value"])

    @traitlets.validate("top_k")
    def _at_most_all(self, proposal: Any) -> int:
        return min(proposal["value"], len(self._sayable))

    @property
    def _model(self) -> DecoderOnly:
        """The model that the page computes with."""
        packed = self.data["model"]
        if self._unpacked is None or self._unpacked[0] is not packed:
            self._unpacked = packed, unpack_transformer(packed)
        return self._unpacked[1]

    def _tokens(self) -> list[int]:
        """The ids of the text so far."""
        return [*self._ids(self.prompt), *self.said]

    def _full(self) -> bool:
        """Whether nothing can follow."""
        tokens = self._tokens()
        return tokens[-1:] == [END] or len(tokens) >= self.data["most"]

    def _at(self) -> int:
        """The place that is looked at."""
        return min(self.position, len(self._tokens()) - self._full())

    def _logits(self, tokens: Sequence[int]) -> Tensor:
        return next_logits(self._model, [START, *tokens], self.data["context"])

    def _sampled(self, logits: Tensor) -> Tensor:
        return sampling_distribution(
            logits, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p
        )

    @property
    def text(self) -> str:
        """The text so far, without what ends it."""
        tokens = self.data["tokens"]
        known = [token for token in self._tokens() if token != END]
        return "".join("\ufffd" if n < 4 else tokens[n - 4] for n in known)

    def say(self, count: int = 1) -> None:
        """Go on with the text, as a press of the buttons does.

        Args:
            count: how many characters; fewer are said where the text ends or is full.
        """
        for _ in range(count):
            if self._full():
                break
            shares = self._sampled(self._logits(self._tokens())[-1])
            self.said = [*self.said, drawn(shares, chance(self.seed, len(self.said)))]
        self.position = self.data["most"]

    def distributions(self) -> tuple[Tensor, Tensor]:
        """What could stand in the place that is looked at.

        Returns:
            The model's own probabilities and those that are drawn from, each (V,), float64.
        """
        logits = self._logits(self._tokens())[self._at()]
        return logits.softmax(-1), self._sampled(logits)

    def surprise(self) -> Tensor:
        r"""How surprising each character of the text so far was to the model.

        Returns:
            (T,), bits, float64: $-\log_2$ of the probability that it had.
        """
        tokens = torch.tensor(self._tokens(), dtype=torch.long, device="cpu")
        log_probs = self._logits(tokens.tolist())[:-1].log_softmax(-1)
        return -log_probs.gather(1, tokens[:, None])[:, 0] / math.log(2)

    def shown(self) -> Tensor:
        """What each head reads in the place that is looked at.

        Returns:
            (layers * heads, S), float64: of the last 32 characters, and, where there are more, of
            all earlier ones together in front of them.
        """
        tokens = [START, *self._tokens()[: self._at()]]
        weights = next_weights(self._model, tokens, self.data["context"])
        if weights.shape[1] <= RECENT:
            return weights
        earlier = weights[:, :-RECENT].sum(1, keepdim=True)
        return torch.cat((earlier, weights[:, -RECENT:]), dim=1)

    def _label(self, token: int) -> str:
        if token < len(SPECIAL):
            return SPECIAL[token]
        text = self.data["tokens"][token - len(SPECIAL)]
        return SPACES.get(text, visible(text))

    def _summary(self) -> str:
        own, after = self.distributions()
        best, text = int(after.argmax()), visible(self.text)
        text = text if len(text) <= SHORT else f"{text[: SHORT - 1]}\u2026"
        kept, all_of = int((after > 0).sum()), len(self._sayable)
        return (
            f"{text}; at {self._at() + 1} most likely {self._label(best)} "
            f"{float(after[best]):.2f}, {kept} of {all_of} characters remain, "
            f"{_entropy(after):.2f} bits of {_entropy(own):.2f}"
        )

    def _table(self) -> Table:
        own, after = self.distributions()
        likely = own.sort(descending=True, stable=True).indices[:LISTED].tolist()
        rows = [
            (self._label(n), f"{own[n]:.3f}", f"{after[n]:.3f}" if after[n] > 0 else "cut")
            for n in likely
            if n in self._sayable
        ]
        return f"{self._summary()}.", ("of the model", "drawn from"), rows


def _plain(text: str) -> str:
    """A text that any file can hold, its lines ending in a new line, as those it was trained on."""
    return whole(text).replace("\r\n", "\n").replace("\r", "\n")


def _entropy(probabilities: Tensor) -> float:
    """In bits."""
    return abs(float(torch.special.xlogy(probabilities, probabilities).sum())) / math.log(2)


def _check_fit(model: DecoderOnly, vocab: Vocabulary) -> None:
    """Raise unless there is one row of the model's embeddings for each token."""
    if not isinstance(model, DecoderOnly):
        raise TypeError(f"model must be a DecoderOnly, got {type(model).__name__}")
    if not isinstance(vocab, Vocabulary):
        raise TypeError(f"vocab must be a Vocabulary, got {type(vocab).__name__}")
    if len(vocab) != model.config.vocab_size:
        size = model.config.vocab_size
        raise ValueError(f"vocab must have the model's {size} ids, got {len(vocab)}")


def _checked_context(model: DecoderOnly, context: int | None) -> int:
    """How many tokens the model reads at once."""
    reach = model.config.max_length
    context = reach if context is None else context
    if context < 1 or (model.config.positions == "learned" and context > reach):
        raise ValueError(f"context must be from 1 to max_length, {reach}, got {context}")
    return context
