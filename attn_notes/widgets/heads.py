"""All heads of an encoder on several sentences (chapter 5)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import traitlets
from torch import Tensor

from attn_notes.patterns import PATTERNS, SPECIAL, without_special
from attn_notes.widgets import encoding
from attn_notes.widgets.answering import AnsweringWidget
from attn_notes.widgets.base import Table, check_offered, plural
from attn_notes.widgets.heatmap import weights_table

__all__ = ["HeadExplorer", "Sentence"]


class Sentence(NamedTuple):
    """The tokens of a text, and what every head of every layer reads in it.

    Args:
        tokens: L tokens, the special ones `[CLS]`, `[SEP]` and `[PAD]` among them.
        weights: (layers, heads, L, L), whose rows sum to 1; or the weights that a model returns
            for one sequence, a tuple of (1, heads, L, L).

    Example:
        >>> import torch
        >>> Sentence(["a", "rose"], torch.eye(2, device="cpu")[None, None]).tokens
        ['a', 'rose']
    """

    tokens: Sequence[str]
    weights: Tensor | Sequence[Tensor]


class HeadExplorer(AnsweringWidget):
    """The heads of a whole encoder: choose one, walk its tokens, find heads by their pattern.

    The special tokens can be hidden (`attn_notes.patterns.without_special`) and heads be ranked by
    what they read (`attn_notes.patterns.pattern_score`, a mean over all the sentences given).

    Args:
        sentences: pairs of tokens and weights, at least one; the same layers and heads in all.
        title: a line above the widget.
        encode: with a live kernel, turns what the reader typed into such a pair.

    Example:
        >>> import torch
        >>> weights = torch.full((6, 12, 3, 3), 1 / 3, device="cpu")
        >>> HeadExplorer([(["[CLS]", "rose", "[SEP]"], weights)])
        HeadExplorer(1 sentence, 6 layers x 12 heads;
                     layer 0, head 0: 3 tokens, weights 0.33 to 0.33)
    """

    _widget = "heads"
    _answers, _starts = "sentence", "token"
    sentence = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    token = traitlets.Int(0, min=0).tag(sync=True)
    hide_special = traitlets.Bool(False).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)
    pattern = traitlets.Enum(("", *PATTERNS), "").tag(sync=True)

    def __init__(
        self,
        sentences: Sequence[tuple[Sequence[str], Tensor | Sequence[Tensor]]],
        *,
        title: str = "",
        encode: Callable[[str], tuple[Sequence[str], Tensor | Sequence[Tensor]]] | None = None,
    ) -> None:
        encoded = [_encode_sentence(sentence) for sentence in sentences]
        if len(shapes := {tuple(one["weights"]["shape"][:2]) for one in encoded}) > 1:
            raise ValueError(f"all sentences must have the same layers and heads, got {shapes}")
        title = encoding.replace_surrogates(title)
        data = {"sentences": encoded, "special": list(SPECIAL), "title": title}
        super().__init__(encode, _encode_sentence, data=data)

    @traitlets.validate("sentence", "layer", "head")
    def _check_place(self, proposal: Any) -> Any:
        layers, heads = map(range, self.data["sentences"][0]["weights"]["shape"][:2])
        return check_offered(proposal, sentence=range(len(self._all())), layer=layers, head=heads)

    def _now(self) -> tuple[list[str], Tensor]:
        """Tokens and weights of all heads, as they are on show."""
        sentence = self._all()[self.sentence]
        tokens, weights = sentence["tokens"], encoding.decode(sentence["weights"])
        return without_special(tokens, weights) if self.hide_special else (tokens, weights)

    def shown(self) -> Tensor:
        """The weights of the chosen head, (L, L), without special tokens if these are hidden."""
        return self._now()[1][self.layer, self.head]

    def _summary(self) -> str:
        shown, (layers, heads) = self.shown(), self.data["sentences"][0]["weights"]["shape"][:2]
        known = f"{plural(len(self._all()), 'sentence')}, {layers} layers x {heads} heads"
        place = f"layer {self.layer}, head {self.head}: {len(shown)} tokens"
        return f"{known}; {place}, weights {shown.min():.2f} to {shown.max():.2f}"

    def _table(self) -> Table:
        tokens = self._now()[0]
        caption, columns, rows = weights_table(self.shown(), None, tokens, tokens)
        return f"Layer {self.layer}, head {self.head}. {caption}", columns, rows


def _encode_sentence(sentence: Any) -> dict[str, Any]:
    """A sentence as the front end reads it, checked."""
    tokens, weights = sentence
    tokens, L = encoding.check_tokens("tokens", tokens), len(tokens)
    if set(tokens) <= set(SPECIAL):
        raise ValueError(f"a sentence must hold a token that is not special, got {tokens}")
    weights = encoding.as_weights("weights", weights, 4, normalised=True)
    if weights.shape[-2:] != (L, L):
        wanted = f"(layers, heads, {L}, {L}) for {L} tokens"
        raise ValueError(f"weights must be {wanted}, got {tuple(weights.shape)}")
    return {"tokens": tokens, "weights": encoding.encode_roots(weights)}
