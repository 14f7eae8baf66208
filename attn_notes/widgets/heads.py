"""All heads of an encoder on several sentences (chapter 5)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor

from attn_notes.patterns import (
    PATTERNS,
    SPECIAL,
    pattern_cells,
    pattern_score,
    without_special,
)
from attn_notes.widgets.answering import AnsweringWidget
from attn_notes.widgets.base import Table
from attn_notes.widgets.encoding import decode, encode_weights, finite, tokens_for, whole
from attn_notes.widgets.heatmap import weights_table

__all__ = ["HeadExplorer", "Sentence"]

LOOSE = 0.01  # how far from 1 a row's sum may be: half precision on a long sentence


class Sentence(NamedTuple):
    """The tokens of a text, and what every head of every layer reads in it.

    Args:
        tokens: L tokens, the special ones `[CLS]`, `[SEP]` and `[PAD]` among them.
        weights: (layers, heads, L, L), rows sum to 1.

    Example:
        >>> import torch
        >>> Sentence(["a", "rose"], torch.eye(2, device="cpu")[None, None]).tokens
        ['a', 'rose']
    """

    tokens: Sequence[str]
    weights: Tensor


class HeadExplorer(AnsweringWidget):
    """The heads of a whole encoder: choose one, walk its tokens, find the one that does a thing.

    All heads are seen at once, a layer a row. Of the one that is chosen the full map is shown, and
    the links of one token. The special tokens can be hidden (`attn_notes.patterns.without_special`)
    and heads be ranked by what they read (`attn_notes.patterns.pattern_score`, a mean over all
    the sentences given). With a live kernel `encode` reads any text.

    Args:
        sentences: pairs of tokens and weights, at least one; the same layers and heads in all.
        title: a line above the widget.
        encode: turns what the reader typed into such a pair; what it raises is shown in the
            widget. A published page has no kernel, and says so in its place.

    Raises:
        TypeError: something that is no such pair, tokens that are not strings, weights that are
            not numbers, an `encode` that cannot be called.
        ValueError: no sentences, a sentence of special tokens alone; weights of another shape,
            not finite, outside 0 to 1, or with rows that do not sum to 1.
        traitlets.TraitError: `sentence`, `layer`, `head`, `token` or `pattern` set to one that
            there is not.

    Example:
        >>> import torch
        >>> weights = torch.full((6, 12, 3, 3), 1 / 3, device="cpu")
        >>> HeadExplorer([(["[CLS]", "rose", "[SEP]"], weights)])
        HeadExplorer(1 sentence, 6 layers x 12 heads;
                     layer 0, head 0: 3 tokens, weights 0.33 to 0.33)
    """

    _widget = "heads"
    _asks, _answers = "encode", "sentence"

    data = traitlets.Dict().tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    token = traitlets.Int(0).tag(sync=True)
    hide_special = traitlets.Bool(False).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)
    pattern = traitlets.Enum(("", *PATTERNS), "").tag(sync=True)

    def __init__(
        self,
        sentences: Sequence[tuple[Sequence[str], Tensor]],
        *,
        title: str = "",
        encode: Callable[[str], tuple[Sequence[str], Tensor]] | None = None,
    ) -> None:
        if isinstance(sentences, Sentence) or not sentences:
            raise ValueError("sentences must be a list of at least one (tokens, weights)")
        encoded = [_encode_sentence(sentence) for sentence in sentences]
        for sentence in encoded:
            _check_heads(sentence, encoded[0])
        data = {"sentences": encoded, "special": list(SPECIAL), "title": whole(title)}
        super().__init__(encode, data=data)

    def _all(self) -> list[dict[str, Any]]:
        """The sentences that can be chosen: what the reader typed is the last."""
        typed = self.reply["sentence"]
        return self.data["sentences"] + ([] if typed is None else [typed])

    @traitlets.validate("sentence", "layer", "head", "token")
    def _in_range(self, proposal: Any) -> int:
        name = proposal["trait"].name
        layers, heads = self.data["sentences"][0]["weights"]["shape"][:2]
        size = {"sentence": len(self._all()), "layer": layers, "head": heads}.get(name)
        if size is None:  # a token that another sentence has: here, the last
            size = max(len(sentence["tokens"]) for sentence in self._all())
        if not 0 <= proposal["value"] < size:
            raise traitlets.TraitError(
                f"{name} must be from 0 to {size - 1}, got {proposal['value']}"
            )
        return int(proposal["value"])

    def _encode_answer(self, answer: Any) -> dict[str, Any]:
        sentence = _encode_sentence(answer)
        _check_heads(sentence, self.data["sentences"][0])
        return sentence

    def _show_answer(self) -> None:
        self.sentence, self.token = len(self.data["sentences"]), 0

    def _now(self) -> tuple[list[str], Tensor]:
        """Tokens and weights of all heads, as they are on show."""
        sentence = self._all()[self.sentence]
        tokens, weights = sentence["tokens"], decode(sentence["weights"])
        return without_special(tokens, weights) if self.hide_special else (tokens, weights)

    def shown(self) -> Tensor:
        """The weights that the map shows now.

        Returns:
            (L, L), float64: of the chosen head; without the special tokens where they are hidden.
        """
        return self._now()[1][self.layer, self.head]

    def scores(self) -> Tensor:
        """How well each head fits the chosen pattern.

        Returns:
            (layers, heads), float64: the mean over the sentences that have the pattern, each of
            them counting alike; NaN where none has it, or where no pattern is chosen.
        """
        found = []
        for sentence in self.data["sentences"]:
            weights = decode(sentence["weights"])
            if self.pattern:
                cells = pattern_cells(self.pattern, sentence["tokens"], device="cpu")
                found.append(pattern_score(weights, cells))
            else:
                found.append(torch.full_like(weights[..., 0, 0], torch.nan))
        return torch.stack(found).nanmean(0)

    def _summary(self) -> str:
        tokens, weights = self._now()
        shown, count = self.shown(), len(self._all())
        layers, heads = weights.shape[:2]
        return (
            f"{count} sentence{'s' if count > 1 else ''}, {layers} layers x {heads} heads; layer "
            f"{self.layer}, head {self.head}: {len(tokens)} tokens, weights {shown.min():.2f} to "
            f"{shown.max():.2f}"
        )

    def _table(self) -> Table:
        tokens = self._now()[0]
        caption, columns, rows = weights_table(self.shown(), None, tokens, tokens, most=900)
        return f"Layer {self.layer}, head {self.head}. {caption}", columns, rows


def _encode_sentence(sentence: Any) -> dict[str, Any]:
    """A sentence as the front end reads it, checked."""
    if not isinstance(sentence, tuple) or len(sentence) != 2:
        raise TypeError(f"a sentence must be (tokens, weights), got {type(sentence).__name__}")
    if isinstance(sentence[0], Tensor):
        raise TypeError("a sentence must be (tokens, weights), got the weights first")
    tokens = tokens_for("tokens", sentence[0], len(sentence[0])) or []
    if all(token in SPECIAL for token in tokens):
        raise ValueError(f"a sentence must hold a token that is not special, got {tokens}")
    weights, L = finite("weights", sentence[1], 4), len(tokens)
    if weights.shape[-2:] != (L, L):
        raise ValueError(
            f"weights must be (layers, heads, {L}, {L}) for {L} tokens, got {tuple(weights.shape)}"
        )
    sums = weights.sum(-1)
    if weights.min() < 0 or (sums - 1).abs().max() > LOOSE:
        raise ValueError(
            "weights must be from 0 to 1 and each row sum to 1, got "
            f"{float(weights.min()):.4g} to {float(weights.max()):.4g} and sums from "
            f"{float(sums.min()):.4g} to {float(sums.max()):.4g}"
        )
    return {"tokens": tokens, "weights": encode_weights(weights)}


def _check_heads(sentence: dict[str, Any], first: dict[str, Any]) -> None:
    """Raise unless a sentence was read by as many layers and heads as the first."""
    shape, expected = sentence["weights"]["shape"], first["weights"]["shape"]
    if shape[:2] != expected[:2]:
        raise ValueError(
            "all sentences must have the same layers and heads, got weights "
            f"{tuple(expected)} and {tuple(shape)}"
        )
