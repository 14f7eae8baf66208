"""One token followed through a Transformer, number by number (chapters 5 and 7)."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.data import START, Vocabulary
from attn_notes.transformer import DecoderOnly, Encoder
from attn_notes.widgets.base import Table, check_offered
from attn_notes.widgets.encoding import check_tokens, replace_surrogates, visible
from attn_notes.widgets.packing import checksum, pack_transformer
from attn_notes.widgets.parts import READ, Part, of_head, run
from attn_notes.widgets.player import ModelWidget, check_vocabulary
from attn_notes.widgets.texts import SPECIAL
from attn_notes.widgets.translator import TransformerPlayer

MOST_TOKENS = 64


class FollowToken(ModelWidget):
    """One token on its way through a model: every number of every step, and how it comes about.

    The page computes the forward pass itself. The steps of attention show the products of query
    and key feature by feature, the scaled scores, the mask, the weights, and the weighted values;
    the others show embedding, norm, joined heads, residual and feed-forward network, and at last
    the probabilities of the next token.

    Args:
        model: a `TransformerPlayer` on the same page, whose model is used; or an `Encoder` or
            `DecoderOnly` with learned, sinusoidal or no positions.
        sentences: at least one. For a player a text, which it translates; else a list of tokens.
        vocab: the ids of the tokens; without it they are numbered as they first occur. With it a
            `DecoderOnly` reads START first.
        attention_only: whether to end with what the first block's attention has read.
        title: a line above the widget.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> config = TransformerConfig(vocab_size=3, embed_dim=8, num_heads=2)
        >>> FollowToken(Encoder(config), ["a", "rose", "is", "a", "rose"])
        FollowToken(“a” in block 0, head 0; step 1 of 21: start)
    """

    _widget = "follow"
    sentence = traitlets.Int(0).tag(sync=True)
    token = traitlets.Int(0, min=0).tag(sync=True)  # of the source, then of the target
    head = traitlets.Int(0, min=0).tag(sync=True)
    step = traitlets.Int(0, min=0).tag(sync=True)  # through all blocks

    _made: tuple[tuple[int, bool, Any], list[Part]] | None = None

    def __init__(
        self,
        model: TransformerPlayer | Encoder | DecoderOnly,
        *sentences: Any,
        vocab: Vocabulary | None = None,
        attention_only: bool = False,
        title: str = "",
    ) -> None:
        if not sentences:
            raise ValueError("give at least one sentence, got none")
        self._elsewhere = isinstance(model, TransformerPlayer)
        if isinstance(model, TransformerPlayer):
            packed, names = model.data["model"], model._names
            read = [_translated(model, text) for text in sentences]
        else:
            packed, (names, read) = pack_transformer(model), _numbered(model, sentences, vocab)
        data = {
            "model": packed,
            "names": names,
            "sentences": read,
            "attention_only": attention_only,
            "title": replace_surrogates(title),
        }
        super().__init__(data=data)
        for self.sentence in reversed(range(len(read))):
            self.shown()  # raises where a sentence is too long for the model

    @traitlets.validate("sentence")
    def _check_sentence(self, proposal: Any) -> Any:
        return check_offered(proposal, sentence=range(len(self.data["sentences"])))

    def page_state(self) -> dict[str, Any]:
        """As `BookWidget.page_state`, but the model of a player is only named."""
        state = super().page_state()
        if self._elsewhere:
            state["data"] = {**self.data, "model": {"same": checksum(self.data["model"])}}
        return state

    def _now(self) -> tuple[list[str], int, list[Part]]:
        """The tokens on the side of ours, its position among them, and the parts of its way."""
        read = self.data["sentences"][self.sentence]
        source, target = read["source"], read["target"]
        at = min(self.token, len(source[0]) + len(target[0]) - 1)
        in_target = at >= len(source[0])
        key = self.sentence, in_target, self._model
        if self._made is None or self._made[0] != key:  # it serves all tokens, heads and steps
            self._made = key, self._run(source[0], target[0] if in_target else None)
        tokens = target[1] if in_target else source[1]
        return tokens, at - len(source[0]) * in_target, self._made[1]

    def _run(self, source: list[int], target: list[int] | None) -> list[Part]:
        model = self._model
        stack = getattr(model, "encoder", getattr(model, "body", model))
        with torch.no_grad():
            parts, output = run(stack, source, is_causal=isinstance(model, DecoderOnly))
            return parts if target is None else run(model.decoder, target, memory=output)[0]

    def _steps(self, parts: Sequence[Part]) -> list[tuple[str, Part]]:
        """The name of each step, and the part of the model that it belongs to."""
        norm = ("norm",) * (self._model.config.norm == "pre")
        kinds = {"attention": (*norm, *READ, "heads", "add"), "network": (*norm, "think", "add")}
        steps = []
        for part in parts:
            steps += [(name, part) for name in kinds.get(part["kind"], (part["kind"],))]
        return steps[: 1 + len(norm + READ)] if self.data["attention_only"] else steps

    def _here(self) -> tuple[str, int, Part, int, int]:
        """Name of the step, its position in the token's way, its part, and token and head."""
        _, at, parts = self._now()
        steps = self._steps(parts)
        number = min(self.step, len(steps) - 1)
        head = min(self.head, self._model.config.num_heads - 1)
        return steps[number][0], number, steps[number][1], at, head

    def shown(self) -> dict[str, Tensor]:
        """The numbers of a step of the head by name, in float64; NaN where the mask closes a score.

        Of any other step, those from score to weight of the head in the same block.
        """
        name, _, part, at, head = self._here()
        return of_head(name, part, at, head) if name in READ else self._softmax()

    def _softmax(self) -> dict[str, Tensor]:
        """From score to weight: what the head reads in the block of the step."""
        _, _, parts = self._now()
        _, _, here, at, head = self._here()
        part = next(p for p in parts if p["kind"] == "attention" and p["block"] == here["block"])
        return of_head("softmax", part, at, head)

    def _summary(self) -> str:
        names, at, parts = self._now()
        name, number, part, _, head = self._here()
        where = f"block {part['block']}, head {head}"
        count = len(self._steps(parts))
        return f"\u201c{visible(names[at])}\u201d in {where}; step {number + 1} of {count}: {name}"

    def _table(self) -> Table:
        rows = []
        for name, numbers in self._softmax().items():
            rows.append([name, *("masked" if x.isnan() else f"{x:.3f}" for x in numbers)])
        caption = f"{self._summary()}. From the scores of its query with each key to the weights."
        return caption, self._now()[0], rows


def _translated(player: TransformerPlayer, text: str) -> dict[str, Any]:
    """A text and its translation: ids and tokens of both, the target as the decoder reads it."""
    made = player.translation(text)
    ids = [player.data["source"].index(token) + len(SPECIAL) for token in made.source]
    target = [START, *made.tokens[:-1]]
    names = player._names
    return {"source": [ids, made.source], "target": [target, [names[token] for token in target]]}


def _numbered(
    model: Encoder | DecoderOnly, sentences: Sequence[Sequence[str]], vocab: Vocabulary | None
) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of all ids, and the sentences as the front end reads them."""
    size = model.config.vocab_size
    lists = [check_tokens("tokens", sentence) for sentence in sentences]
    if vocab is None:
        names = list(dict.fromkeys(token for tokens in lists for token in tokens))
    else:
        check_vocabulary("vocab", vocab, size)
        names = [*SPECIAL, *check_tokens("vocab", vocab.tokens)]
        first = [SPECIAL[START]] * isinstance(model, DecoderOnly)
        known = {name: name for name in names}
        lists = [first + [known.get(token, SPECIAL[-1]) for token in tokens] for tokens in lists]
    if len(names) > size or not all(0 < len(tokens) <= MOST_TOKENS for tokens in lists):
        wanted = f"1 to {MOST_TOKENS} tokens, of at most vocab_size = {size} kinds"
        raise ValueError(f"sentences must have {wanted}, got {lists}")
    names += [f"id {n}" for n in range(len(names), size)]
    sources = [[[names.index(token) for token in tokens], tokens] for tokens in lists]
    read = [{"source": source, "target": [[], []]} for source in sources]
    return names if isinstance(model, DecoderOnly) else [], read
