"""One diagram, three wirings: encoder only, decoder only, encoder-decoder (chapter 9)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import traitlets
from torch import Tensor

from attn_notes.masks import prefix_mask
from attn_notes.palette import visible
from attn_widgets.base import DataWidget, Table, plural
from attn_widgets.encoding import check_tokens

FAMILIES = ("encoder-only", "decoder-only", "encoder-decoder", "prefix")
MASK, START, END = "[MASK]", "<start>", "<end>"
MOST_TOKENS, MOST_LAYERS = 64, 6  # a page draws and lists them all


class Wiring(NamedTuple):
    """One family on an example: its inputs, its targets and its mask.

    A decoder's row of the mask that reads an encoder's column does so by cross-attention.
    """

    inputs: list[str]  # one token a position, L of them, through both stacks
    says: list[str | None]  # the token that each position is trained to predict, or None
    mask: Tensor  # (L, L) bool: what a block lets each position read
    encoder: int  # how many of the first positions belong to a separate encoder; 0 for one stack


class FamilyDiagram(DataWidget):
    """Pick an output: which positions it may read in each block, which tokens it can know.

    The same blocks, wired as an encoder (a word of the source is masked), as a decoder (the source
    is the text), as both, and as one stack that reads the source from both sides and the target
    from the left. Positions are counted through both stacks. Source and target have 1 to 64 tokens;
    the family to start with is one of `encoder-only decoder-only encoder-decoder prefix`.

    Example:
        >>> FamilyDiagram(["a", "rose"], ["eine", "Rose"], family="decoder-only")
        FamilyDiagram(decoder-only, 2 blocks: position 0 knows 1 of 3 tokens, says “a”)
    """

    _widget = "family"
    family = traitlets.Enum(FAMILIES, "encoder-only").tag(sync=True)
    num_layers = traitlets.Int(2, min=1, max=MOST_LAYERS).tag(sync=True)
    position = traitlets.Int(0, min=0).tag(sync=True)

    def __init__(
        self,
        source: Sequence[str] = ("time", "flies", "like", "an", "arrow"),
        target: Sequence[str] = ("die", "Zeit", "fliegt", "wie", "ein", "Pfeil"),
        *,
        family: str = "encoder-only",
    ) -> None:
        for name, tokens in (("source", source), ("target", target)):
            if not 1 <= len(tokens) <= MOST_TOKENS:
                raise ValueError(f"{name} must be 1 to {MOST_TOKENS} tokens, got {len(tokens)}")
        masked = position = (len(source) - 1) // 2
        if family in ("encoder-decoder", "prefix"):  # the target's word at the same place
            position = len(source) + min(masked, len(target))
        source, target = check_tokens("source", source), check_tokens("target", target)
        data = {"source": source, "target": target, "masked": masked}
        super().__init__(data=data, family=family, position=position)

    def wiring(self) -> Wiring:
        """The chosen family on the example."""
        source, target = self.data["source"], self.data["target"]
        S, hidden = len(source), self.data["masked"]
        if self.family == "encoder-only":
            inputs = [MASK if n == hidden else token for n, token in enumerate(source)]
            says = [token if n == hidden else None for n, token in enumerate(source)]
        elif self.family == "decoder-only":
            inputs, says = [START, *source], [*source, END]
        else:
            inputs, says = [*source, START, *target], [*[None] * S, *target, END]
        # All open, causal, or between the two.
        prefix = 0 if self.family == "decoder-only" else S
        mask = prefix_mask(len(inputs), prefix=prefix, device="cpu")
        return Wiring(inputs, says, mask, S if self.family == "encoder-decoder" else 0)

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
        known = f"position {self._picked()} knows {int(knows.sum())} of {len(knows)} tokens"
        return f"{self.family}, {plural(self.num_layers, 'block')}: {known}, says {said}"

    def _table(self) -> Table:
        inputs, says, _, _ = self.wiring()
        words = ["" if word is None else visible(word) for word in says]
        known = ["yes" if knows else "no" for knows in self.knows().tolist()]
        names = [f"{n} {visible(token)}" for n, token in enumerate(inputs)]
        rows = list(zip(names, map(self._reads, range(len(inputs))), words, known, strict=True))
        header = ["reads in each block", "is trained to say", f"known at {self._picked()}"]
        return f"{self.family}, {self.num_layers} blocks: what each position reads.", header, rows


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
