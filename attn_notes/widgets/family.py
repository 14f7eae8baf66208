"""One diagram, three wirings: encoder only, decoder only, encoder-decoder (chapter 8)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor

from attn_notes.masks import prefix_mask
from attn_notes.widgets.base import BookWidget, Table, check_range, plural
from attn_notes.widgets.encoding import check_tokens, visible

__all__ = ["FamilyDiagram", "Wiring"]

FAMILIES = ("encoder-only", "decoder-only", "encoder-decoder", "prefix")
MASK, START, END = "[MASK]", "<start>", "<end>"
MOST_TOKENS, MOST_LAYERS = 64, 6  # a page draws and lists them all


class Wiring(NamedTuple):
    """One family on an example: its inputs, its targets and its mask."""

    inputs: list[str]
    """One token a position, L of them, through both stacks."""
    says: list[str | None]
    """The token that each position is trained to predict, or None."""
    mask: Tensor
    """(L, L) bool: what a block lets each position read. A decoder's row that reads an encoder's
    column does so by cross-attention."""
    encoder: int
    """How many of the first positions belong to a separate encoder; 0 for one stack."""


class FamilyDiagram(BookWidget):
    """Pick an output: which positions it may read in each block, which tokens it can know.

    The same blocks, wired as an encoder (a word of the source is masked), as a decoder (the
    source is the text), as both, and as one stack that reads the source from both sides and
    the target from the left. Positions are counted through both stacks.

    Args:
        source: 1 to 64 tokens.
        target: 1 to 64 tokens, what the source becomes.
        family: the wiring to start with: `encoder-only decoder-only encoder-decoder prefix`.
        num_layers: how many blocks a stack has, from 1 to 6.
        position: the one that is picked; by default the one that predicts the masked word or, with
            a target, the target's word at the same place.
        masked: index of the source's token that the encoder alone predicts; by default the middle.

    Example:
        >>> FamilyDiagram(["a", "rose"], ["eine", "Rose"], family="decoder-only", position=1)
        FamilyDiagram(decoder-only, 2 blocks: position 1 knows 2 of 3 tokens, says “rose”)
    """

    _widget = "family"

    data = traitlets.Dict().tag(sync=True)
    family = traitlets.Enum(FAMILIES, "encoder-only").tag(sync=True)
    num_layers = traitlets.Int(2, min=1, max=MOST_LAYERS).tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        source: Sequence[str] = ("time", "flies", "like", "an", "arrow"),
        target: Sequence[str] = ("die", "Zeit", "fliegt", "wie", "ein", "Pfeil"),
        *,
        family: str = "encoder-only",
        num_layers: int = 2,
        position: int | None = None,
        masked: int | None = None,
    ) -> None:
        data: dict[str, Any] = {"source": source, "target": target}
        for name, tokens in data.items():
            data[name] = check_tokens(name, tokens)
            if not 1 <= len(tokens) <= MOST_TOKENS:
                raise ValueError(f"{name} must be 1 to {MOST_TOKENS} tokens, got {len(tokens)}")
        data["masked"] = (len(source) - 1) // 2 if masked is None else masked
        if data["masked"] not in range(len(source)):
            raise ValueError(f"masked must be from 0 to {len(source) - 1}, got {masked}")
        if position is None:
            position = _first_position(family, data)
        super().__init__(data=data, family=family, num_layers=num_layers, position=position)

    @traitlets.validate("position")
    def _check_position(self, proposal: Any) -> int:
        return check_range(proposal, len(self.data["source"]) + len(self.data["target"]))

    def wiring(self) -> Wiring:
        """The chosen family on the example."""
        source, target = self.data["source"], self.data["target"]
        S, hidden = len(source), self.data["masked"]
        if self.family == "encoder-only":
            inputs = [MASK if n == hidden else token for n, token in enumerate(source)]
            says = [token if n == hidden else None for n, token in enumerate(source)]
            return Wiring(inputs, says, _prefix(S, S), 0)
        if self.family == "decoder-only":
            return Wiring([START, *source], [*source, END], _prefix(S + 1, 0), 0)
        inputs, says = [*source, START, *target], [*[None] * S, *target, END]
        encoder = S if self.family == "encoder-decoder" else 0
        return Wiring(inputs, says, _prefix(len(inputs), S), encoder)

    def knows(self) -> Tensor:
        """The inputs that the output at the picked position can depend on: (L,), bool."""
        _, _, mask, encoder = self.wiring()
        rows = torch.arange(len(mask), device="cpu")
        through = rows == self._picked()  # (L,)
        # From the top down; an encoder is through before the decoder's first block.
        for stack in (rows >= encoder, rows < encoder):
            for _ in range(self.num_layers):
                # What a position reads, beside what it carries along (the residual connection).
                through = through | (mask & (stack & through)[:, None]).any(0)
        return through

    def _picked(self) -> int:
        """The picked position, or the last one if the family has fewer."""
        return min(self.position, len(self.wiring().inputs) - 1)

    def _reads(self, position: int) -> str:
        """What a position may read in each block, in words."""
        last, encoder = int(self.wiring().mask[position].sum()) - 1, self.wiring().encoder
        if position < encoder or not encoder:
            return _span(0, last)
        return f"{_span(encoder, last)}; the encoder's {_span(0, encoder - 1)}"

    def _summary(self) -> str:
        knows, says = self.knows(), self.wiring().says[self._picked()]
        said = "nothing" if says is None else f"\u201c{visible(says)}\u201d"
        return (
            f"{self.family}, {plural(self.num_layers, 'block')}: position {self._picked()} knows "
            f"{int(knows.sum())} of {len(knows)} tokens, says {said}"
        )

    def _table(self) -> Table:
        inputs, says, _, _ = self.wiring()
        words = ["" if word is None else visible(word) for word in says]
        known = ["yes" if knows else "no" for knows in self.knows().tolist()]
        names = [f"{n} {visible(token)}" for n, token in enumerate(inputs)]
        reads = [self._reads(n) for n in range(len(inputs))]
        rows = list(zip(names, reads, words, known, strict=True))
        header = ["reads in each block", "is trained to say", f"known at {self._picked()}"]
        return f"{self.family}, {self.num_layers} blocks: what each position reads.", header, rows


def _first_position(family: str, data: dict[str, Any]) -> int:
    """The position that predicts the masked word, or the target's word at the same place."""
    if family in ("encoder-decoder", "prefix"):
        return len(data["source"]) + min(data["masked"], len(data["target"]))
    return data["masked"]


def _prefix(L: int, prefix: int) -> Tensor:
    """(L, L): every wiring's mask is one of these: all open, causal, or between the two."""
    return prefix_mask(L, prefix=prefix, device="cpu")


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
