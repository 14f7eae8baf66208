"""All heads of a model on one text or several: those of chapter 5, and the reader's own."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor

from attn_notes.patterns import PATTERNS, SPECIAL, select_cells
from attn_widgets import encoding, views
from attn_widgets.answering import AnsweringWidget
from attn_widgets.base import Offered, Pictured, Table, plural, table_html
from attn_widgets.heatmap import LARGE, weights_table
from attn_widgets.layers import as_kinds, as_layers

MOST_PINNED = 5  # with the chosen head as many as there are hues
MOST_STORED = 1_100_000  # weights in heads by themselves that a notebook keeps with an output
ALL_HEADS = "Run the cell to see all heads, or write them to a page with save_html."


PLACE = Offered(lambda self: range(len(self._most(0)) * len(self._most(1))))


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


class HeadExplorer(AnsweringWidget, Pictured):
    """The heads of a whole model: choose one, walk its tokens, find heads by what they read.

    Other heads can be pinned and laid over the chosen one, special tokens be hidden
    (`attn_notes.patterns.select_cells`), and heads be ranked by a pattern
    (`attn_notes.patterns.pattern_score`, a mean over all the sentences given) or by their entropy.
    `show_attention` makes one of a published model.

    Args:
        sentences: pairs of tokens and weights, at least one; the same layers and heads in all.
        title: a line above the widget.
        encode: with a live kernel, turns what the reader typed into such a pair.
        special: the tokens that the model adds to a text; BERT's by default.
        names: of two sentences, whose maps are then shown side by side.

    Example:
        >>> import torch
        >>> weights = torch.full((6, 12, 3, 3), 1 / 3, device="cpu")
        >>> HeadExplorer([(["[CLS]", "rose", "[SEP]"], weights)])
        HeadExplorer(1 sentence, 6 layers x 12 heads;
                     layer 0, head 0: 3 tokens, weights 0.33 to 0.33)
    """

    _widget = "heads"
    _answers, _starts = "sentence", "token"
    sentence = Offered(lambda self: range(len(self._all())))
    kind = Offered(lambda self: range(len(self.data["sentences"][0]["views"])))
    layer = Offered(lambda self: self._most(0))
    head = Offered(lambda self: self._most(1))
    pinned = traitlets.List(PLACE, maxlen=MOST_PINNED).tag(sync=True)
    combine = traitlets.Enum(("mean", "max"), "mean").tag(sync=True)
    token = traitlets.Int(0, min=0).tag(sync=True)
    hide_special = traitlets.Bool(False).tag(sync=True)
    shared_scale = traitlets.Bool(False).tag(sync=True)
    scale = traitlets.Enum(("linear", "root", "row"), "linear").tag(sync=True)
    columns = traitlets.Bool(False).tag(sync=True)
    pattern = traitlets.Enum(("", *PATTERNS, "focused", "spread"), "").tag(sync=True)
    packed = traitlets.Dict().tag(sync=True)  # live: the heads now chosen; on a page, all

    def __init__(
        self,
        sentences: Sequence[Any],
        *,
        title: str = "",
        encode: Callable[[str], Any] | None = None,
        special: Sequence[str] = SPECIAL,
        names: Sequence[str] = (),
    ) -> None:
        self._special, self._keys = list(special), map(str, itertools.count())
        self._maps: dict[str, views.Maps] = {}  # of each view, by its key
        encoded = [self._encode_sentence(sentence) for sentence in sentences]
        sizes = {tuple((*view["size"][:2],) for view in one["views"]) for one in encoded}
        if len(sizes) > 1:
            raise ValueError(f"all sentences must have the same layers and heads, got {sizes}")
        long = any(max(view["size"][2:]) > LARGE for one in encoded for view in one["views"])
        data = {
            "sentences": encoded,
            "special": encoding.check_tokens("special", special),
            "title": encoding.replace_surrogates(title),
        }
        if names:
            data["beside"] = encoding.check_tokens("names", names, len(encoded))
        scale = "root" if long else "linear"
        super().__init__(encode, self._encode_sentence, data=data, scale=scale)
        self.observe(self._unpack, ["data", "sentence", "kind", "layer", "head", "pinned", "reply"])
        self._unpack()

    def _most(self, axis: int) -> range:
        """The numbers of all layers (axis 0) or heads (axis 1), of the kind that has most."""
        return range(max(view["size"][axis] for view in self.data["sentences"][0]["views"]))

    @traitlets.observe("kind")
    def _stay_inside(self, _: Any) -> None:
        """Another kind may have fewer layers and heads."""
        layers, heads = self._view()["size"][:2]
        self.layer, self.head = min(self.layer, layers - 1), min(self.head, heads - 1)

    def _encode_sentence(self, sentence: Any) -> dict[str, Any]:
        """A sentence as the front end reads it: its views, and a name to choose it by."""
        if not isinstance(sentence, views.Reading):
            sentence = views.Reading({"": _as_maps(*sentence, special=self._special)})
        sizes = [(len(maps.layers), *maps.layers[0].shape) for maps in sentence.maps.values()]
        views.check_size(sizes)
        made = []
        for name, maps in sentence.maps.items():
            made.append(views.encode_maps(name, maps, self._special) | {"key": next(self._keys)})
            self._maps[made[-1]["key"]] = maps
        return {"views": made, "name": _name(made[0]["queries"], self._special), **sentence.extra}

    def reading(self) -> views.Reading:
        """The sentence on show, as another view can be made of it."""
        shown = self._all()[self.sentence]
        maps = {view["name"]: self._maps[view["key"]] for view in shown["views"]}
        extra = {name: shown[name] for name in shown if name not in ("views", "name")}
        return views.Reading(maps, self._special, extra)

    def _view(self) -> dict[str, Any]:
        return self._all()[self.sentence]["views"][self.kind]

    def _shown_heads(self) -> list[int]:
        """The heads laid over one another, the chosen one first."""
        layers, heads = self._view()["size"][:2]
        chosen = min(self.layer, layers - 1) * heads + min(self.head, heads - 1)
        return [chosen, *(n for n in self.pinned if n != chosen and n < layers * heads)]

    def _unpack(self, _: Any = None) -> None:
        """Send the heads on show, where they are not all in the view, and forget those replaced."""
        alive = {view["key"] for one in self._all() for view in one["views"]}
        self._maps = {key: maps for key, maps in self._maps.items() if key in alive}
        shown = [self._view()]
        if "beside" in self.data:  # the same heads of both
            shown = [one["views"][self.kind] for one in self.data["sentences"]]
        if "weights" not in shown[0]:
            heads = self._shown_heads()
            self.packed = {k: x for view in shown for k, x in self._squeeze(view, heads).items()}

    def _heads(self, view: dict[str, Any]) -> list[Tensor]:
        """Every head of a view, (L, S) each."""
        return [head for layer in self._maps[view["key"]].layers for head in layer]

    def _squeeze(self, view: dict[str, Any], heads: Sequence[int]) -> dict[str, str]:
        """Heads of a view by themselves, by its key and their number."""
        every = self._heads(view)
        return {f"{view['key']}.{n}": views.squeeze_head(every[n]) for n in heads}

    def shown(self) -> Tensor:
        """The weights on show, (L, S): of the chosen head, combined with those that are pinned.

        Special tokens are left out if they are hidden.
        """
        every = self._heads(self._view())
        chosen = torch.stack([every[n] for n in self._shown_heads()]).double()
        if self.hide_special:
            chosen = select_cells(chosen, *self._kept())
        return chosen.mean(0) if self.combine == "mean" else chosen.amax(0)

    def _kept(self) -> list[list[int]]:
        """The places of the queries and of the keys on show."""
        view, special = self._view(), self.data["special"]
        both = (view["queries"], view["keys"] or view["queries"])
        return [views.kept_places(each, special, self.hide_special) for each in both]

    def _picture(self) -> dict[str, Any]:
        view, (rows, columns) = self._view(), self._kept()
        mask = None if view["mask"] is None else encoding.decode(view["mask"])
        if mask is not None and mask.dim() > 2:  # one a layer: what any head on show may read
            mask = mask[[n // view["size"][1] for n in self._shown_heads()]].any(0)
        keys = view["keys"] or view["queries"]
        return {
            "weights": self.shown(),
            "mask": None if mask is None else views.cut_mask(mask, rows, columns),
            "query_tokens": [view["queries"][n] for n in rows],
            "key_tokens": [keys[n] for n in columns],
            "title": self._place(),
        }

    def _place(self) -> str:
        heads = self._view()["size"][1]
        chosen, *pinned = self._shown_heads()
        over = f", {self.combine} with {', '.join(f'{n // heads}.{n % heads}' for n in pinned)}"
        kind = f"{self._view()['name']}, " * bool(self._view()["name"])
        return f"{kind}layer {chosen // heads}, head {chosen % heads}{over * bool(pinned)}"

    def _summary(self) -> str:
        shown, (layers, heads) = self.shown(), self._view()["size"][:2]
        known = f"{plural(len(self._all()), 'sentence')}, {layers} layers x {heads} heads"
        square = self._view()["keys"] is None
        tokens = f"{len(shown)} tokens" if square else "{} queries x {} keys".format(*shown.shape)
        return f"{known}; {self._place()}: {tokens}, weights {shown.min():.2f} to {shown.max():.2f}"

    def _table(self) -> Table:
        picture = self._picture()
        of = (picture[name] for name in ("weights", "mask", "query_tokens", "key_tokens"))
        caption, columns, rows = weights_table(*of)
        return f"{self._place().capitalize()}. {caption} {ALL_HEADS}", columns, rows

    def page_state(self) -> dict[str, Any]:
        """As in `AnsweringWidget.page_state`, with every head that is not in its view."""
        packed: dict[str, str] = {}
        for view in self._large():
            packed |= self._squeeze(view, range(math.prod(view["size"][:2])))
        return {**super().page_state(), "packed": packed}

    def _large(self) -> list[dict[str, Any]]:
        """The views whose heads are sent by themselves."""
        every = [view for one in self._all() for view in one["views"]]
        return [view for view in every if "weights" not in view]

    def stored_html(self) -> str:
        """As in `BookWidget.stored_html`, or the table alone where the heads would be too large."""
        vectors = [x for maps in self._maps.values() for x in maps.vectors.values()]
        more = sum(x.query.numel() + x.key.numel() for x in vectors)  # of 16 bits
        if sum(math.prod(view["size"]) for view in self._large()) + 2 * more <= MOST_STORED:
            return super().stored_html()
        return table_html(*self._table())

    @property
    def weights(self) -> Tensor:
        """The weights on show of every head, (layers, heads, L, S); others can be set, live."""
        return torch.stack([*self._maps[self._view()["key"]].layers])

    @weights.setter
    def weights(self, new: Any) -> None:
        """Show other weights of the same tokens, of every kind; where the reader stands stays."""
        now = self._all()[self.sentence]["views"]
        if len(kinds := as_kinds(new)) != len(now):
            raise ValueError(f"weights must be of {plural(len(now), 'kind')}, got {len(kinds)}")
        before = self.reading()
        given = {
            name: maps._replace(layers=layers, mask=views.find_mask(layers), vectors={})
            for (name, maps), layers in zip(before.maps.items(), kinds.values(), strict=True)
        }
        # What the model would write next is not known any more.
        extra = {name: one for name, one in before.extra.items() if name != "next"}
        sentences, given_at_first = self._all(), len(self.data["sentences"])
        sentences[self.sentence] = self._encode_sentence(views.Reading(given, extra=extra))
        with self.hold_sync():
            self.data = {**self.data, "sentences": sentences[:given_at_first]}
            if self.sentence == given_at_first:  # what the reader typed
                self.reply = {**self.reply, "sentence": sentences[-1]}


def _as_maps(tokens: Any, weights: Any, *, special: Sequence[str]) -> views.Maps:
    """The maps of a sentence given as a pair, checked."""
    tokens, L = encoding.check_tokens("tokens", tokens), len(tokens)
    if set(tokens) <= set(special):
        raise ValueError(f"a sentence must hold a token that is not special, got {tokens}")
    layers = as_layers(weights, layered=True)
    for layer in layers:
        encoding.check_weights("weights", layer, normalised=True)
    if (shape := tuple(layers[0].shape))[1:] != (L, L):
        wanted = f"(layers, heads, {L}, {L}) for {L} tokens"
        raise ValueError(f"weights must be {wanted}, got {(len(layers), *shape)}")
    return views.Maps(layers, tokens, None, views.find_mask(layers))


def _name(tokens: Sequence[str], special: Sequence[str]) -> str:
    """A sentence as it was before it was cut: "##" begins a piece that continues a word."""
    words = [token for token in tokens if token not in special] or list(tokens)
    spaced = any(word.startswith("␣") for word in words)
    text = "".join(words).replace("␣", " ") if spaced else " ".join(words).replace(" ##", "")
    return text.strip()
