"""A Transformer whose heads the reader switches off, scales and patches (chapter 11)."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from traitlets import TraitError

from attn_notes import inside
from attn_notes.data import Vocabulary
from attn_notes.decoding import greedy
from attn_notes.inside import Change, Head, Place, find_heads
from attn_notes.special_tokens import PAD, START
from attn_notes.transformer import Transformer, TransformerWeights
from attn_widgets.base import Offered, Table, plural
from attn_widgets.encoding import decode, encode
from attn_widgets.packing import unpack_transformer
from attn_widgets.player import cut
from attn_widgets.translator import TextReader, Translation, text_data

__all__ = ["HeadSwitches", "Switched"]

SCALE = re.compile(r"[01](\.[0-9]+)?|2(\.0+)?")
Edits = Mapping[Head, str]  # its factor, "mean" or "other"


class Switched(NamedTuple):
    """A translation with all heads on, one with the edits, and what these do to the first."""

    untouched: Translation
    switched: Translation
    bits: Tensor
    """(2, T), float64: log2-probabilities of the T untouched tokens, all heads on and edited."""


class HeadSwitches(TextReader):
    """Heads of a Transformer switched off, scaled or patched, and what becomes of a translation.

    An edit multiplies what a head passes to `out_proj` by a number from 0 (off) to 2, or replaces
    it: by its `mean`, or by what the same head, all heads on, passes on for the `other` text at the
    same position, after the same tokens of the translation. A source position that the other text
    lacks keeps its own. The page computes all of it, from weights of 8 bits each.

    Args:
        model: as for `TransformerPlayer`.
        source_vocab: as there.
        target_vocab: as there.
        reference: texts over whose positions, and those of their translations into all languages,
            the means are taken. Without them no head can be set to its mean.
        **texts: `languages`, `examples`, `domain` and `most` of `TransformerPlayer`.

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> digits, words = Vocabulary([*"0123456789"]), Vocabulary(["eins", "zwei"])
        >>> config = TransformerConfig(vocab_size=14, target_vocab_size=6, embed_dim=8, num_heads=2)
        >>> switches = HeadSwitches(Transformer(config), digits, words, most=1)
        >>> switches.edits = "cross.1.0:0,encoder.0.1:0.5"
        >>> switches.shown().bits.shape
        torch.Size([2, 1])
    """

    _widget = "switches"
    other = traitlets.Unicode("").tag(sync=True)  # a text that patched heads read
    head = Offered(lambda self: list(self._heads), "")  # the chosen one, such as "cross.1.0"
    edits = traitlets.Unicode("").tag(sync=True)  # such as "cross.1.0:0,encoder.0.1:mean"

    def __init__(
        self,
        model: Transformer,
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        reference: Sequence[str] = (),
        **texts: Any,
    ) -> None:
        data = text_data(model, source_vocab, target_vocab, **texts)
        means = _means(data, reference) if reference else None
        other, head = data["examples"][:2][-1], _name(find_heads(model)[-1])
        super().__init__(data | {"means": means}, other=other, head=head)

    @property
    def _heads(self) -> dict[str, Head]:
        """The heads by name, in the order of the forward pass."""
        return {_name(head): head for head in find_heads(self._model)}

    @traitlets.validate("edits")
    def _check_edits(self, proposal: Any) -> str:
        changes = self._changes(proposal["value"])
        named = {name: changes.get(head) for name, head in self._heads.items()}
        return ",".join(f"{name}:{to}" for name, to in named.items() if to)

    def _changes(self, edits: str) -> Edits:
        """What is to become of each head that does not stay as it is."""
        heads, found = self._heads, {}
        offered = ["mean", "other"] if self.data["means"] else ["other"]
        for edit in filter(None, edits.split(",")):
            name, _, to = edit.partition(":")
            is_scale = SCALE.fullmatch(to) is not None
            if name not in heads or not (is_scale or to in offered):
                wanted = f"{next(iter(heads))}:0.5, from 0 to 2, or {' or '.join(offered)}"
                raise TraitError(f"edits must be such as {wanted}, got {edit!r}")
            found[heads[name]] = f"{float(to):.12g}" if is_scale else to
        return {head: to for head, to in found.items() if to != "1"}

    def shown(self) -> Switched:
        """Both translations, and how probable the first is before and after the edits."""
        changes = self._changes(self.edits)
        key = self.text, self.language, self.other, changes
        return self._once("shown", key, lambda: self._switch(changes))

    def effects(self) -> dict[Head, float]:
        """What each head does when it alone is switched off.

        Returns:
            From each head to the change in the log-probability of the untouched translation, in
            bits, in the order of the forward pass.
        """
        return self._once("effects", (self.text, self.language), self._effects)

    def _effects(self) -> dict[Head, float]:
        made = self.shown()
        before = made.bits[0].sum()
        alone = {head: self._bits(made.untouched, {head: "0"}) for head in self._heads.values()}
        return {head: float(bits.sum() - before) for head, bits in alone.items()}

    def _switch(self, changes: Edits) -> Switched:
        runs = [partial(self._patched, edits) for edits in ({}, changes)]
        untouched, switched = (self._translate(self.text, run) for run in runs)
        bits = [self._bits(untouched, edits) for edits in ({}, changes)]
        return Switched(untouched, switched, torch.stack(bits))

    def _bits(self, made: Translation, edits: Edits) -> Tensor:
        """(T,): the log2-probability of each token after those before it."""
        probabilities, _ = self._patched(edits, self.text, made.tokens[:-1])
        tokens = torch.tensor(made.tokens, device="cpu")
        return probabilities.gather(1, tokens[:, None])[:, 0].log2()

    def _patched(
        self, edits: Edits, text: str, tokens: Sequence[int]
    ) -> tuple[Tensor, TransformerWeights]:
        """As `_run`, with the edits, for which the other text is read first."""
        with inside.record(self._model, edits) as there:
            self._run(self.other, tokens)
        changes: dict[Place, Change] = {
            head: self._change(head, to, there[head]) for head, to in edits.items()
        }
        with inside.patch(self._model, changes):
            return self._run(text, tokens)

    def _change(self, head: Head, to: str, there: Tensor) -> Change:
        """The change of a head that passes on `there` for the other text."""
        if to == "mean":
            return decode(self.data["means"])[find_heads(self._model).index(head)]  # (D,)
        return partial(_overwritten, there) if to == "other" else float(to)

    def _summary(self) -> str:
        made, names = self.shown(), self._names
        first, then = (" ".join(names[token] for token in one.tokens) for one in made[:2])
        if not self.edits:
            return f"{self._asked()}: {first}; all {plural(len(self._heads), 'head')} on"
        change = float(made.bits.sum(1).diff())
        edits = self.edits.replace(",", ", ")
        return f"{self._asked()}: {first}; {edits}: {then}, {_signed(change)} bits"

    def _table(self) -> Table:
        count, found = len(self.shown().untouched.tokens), self.effects()
        order = sorted(found, key=lambda head: round(found[head], 6))
        rows = [[_name(one), *(_signed(found[one] / n) for n in (1, count))] for one in order]
        what = "What each head switched off alone adds to the translation's log-probability"
        return f"{self._summary()}. {what}, in bits.", ["in all", "a token"], rows


def _name(head: Head) -> str:
    """A head of a Transformer as the reader knows it: "cross.1.2" is layer 1, head 2."""
    stack, _, layer, kind = head.layer.split(".")
    return f"{'cross' if kind == 'cross_attn' else stack}.{layer}.{head.index}"


def _signed(number: float) -> str:
    return f"{number:+.2f}" if abs(number) >= 0.005 else "0.00"


def _overwritten(new: Tensor, x: Tensor) -> Tensor:
    """The activation x (B, L, D), overwritten by `new` (B, L', D) as far as both go."""
    count = min(new.shape[1], x.shape[1])
    return torch.cat([new[:, :count], x[:, count:]], dim=1)


def _means(data: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """(heads, D) encoded: over the positions of the texts, or those of their translations."""
    model, vocab = unpack_transformer(data["model"]), Vocabulary(data["source"])
    tags = [[tag] for tag, _ in data["languages"]]
    known = [token for token in data["source"] if [token] not in tags]
    rows = [vocab.encode([*tag, *cut(text, known)]) for tag in tags or [[]] for text in texts]
    ids = [torch.tensor(row, device="cpu") for row in rows]
    source = pad_sequence(ids, batch_first=True)  # (B, S)
    lengths = (source != PAD).sum(1)
    said = greedy(model, source, lengths, max_length=data["most"]).tokens  # (B, T)
    inputs = torch.cat([torch.full_like(said[:, :1], START), said[:, :-1]], dim=1)
    heads = find_heads(model)
    with torch.no_grad(), inside.record(model, heads) as found:
        model(source, lengths, inputs)
    real = {head: source != PAD if _name(head)[0] == "e" else said != PAD for head in heads}
    means = torch.stack([found[head][real[head]].mean(0) for head in heads])
    largest = float(means.abs().max())
    return encode(means, -largest, largest)
