"""One token followed through a Transformer, number by number (chapters 5 and 7)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from attn_notes.data import Vocabulary
from attn_notes.inside import record
from attn_notes.multihead import split_heads
from attn_notes.palette import visible
from attn_notes.special_tokens import START
from attn_notes.transformer import DecoderOnly, Encoder, Transformer
from attn_widgets.base import Offered, Table
from attn_widgets.encoding import check_tokens
from attn_widgets.packing import checksum, pack_transformer
from attn_widgets.player import ModelWidget, check_vocabulary
from attn_widgets.translator import SPECIAL, TransformerPlayer

MOST_TOKENS = 64
READ = ("scores", "scale", "mask", "softmax", "values")  # the steps of one head
TABLE = ("q \u00b7 k", "\u00f7 \u221aD", "mask", "e^s", "weight")  # from score to weight
PROJECTIONS = ("q_proj", "k_proj", "v_proj")


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

    Example:
        >>> from attn_notes.transformer import TransformerConfig
        >>> config = TransformerConfig(vocab_size=3, embed_dim=8, num_heads=2)
        >>> FollowToken(Encoder(config), ["a", "rose", "is", "a", "rose"])
        FollowToken(“a” in block 0, head 0; step 1 of 21: start)
    """

    _widget = "follow"
    sentence = Offered(lambda self: range(len(self.data["sentences"])))
    token = traitlets.Int(0, min=0).tag(sync=True)  # of the source, then of the target
    head = traitlets.Int(0, min=0).tag(sync=True)
    step = traitlets.Int(0, min=0).tag(sync=True)  # through all blocks

    def __init__(
        self,
        model: TransformerPlayer | Encoder | DecoderOnly,
        *sentences: Any,
        vocab: Vocabulary | None = None,
        attention_only: bool = False,
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
        }
        super().__init__(data=data)
        for self.sentence in reversed(range(len(read))):
            self.shown()  # raises where a sentence is too long for the model

    def page_state(self) -> dict[str, Any]:
        """As `BookWidget.page_state`, but the model of a player is only named."""
        state = super().page_state()
        if self._elsewhere:
            state["data"] = {**self.data, "model": {"same": checksum(self.data["model"])}}
        return state

    def _now(self) -> tuple[list[str], int, bool]:
        """The tokens on the side of ours, its position among them, and whether it is the target."""
        read = self.data["sentences"][self.sentence]
        source, target = read["source"][1], read["target"][1]
        at = min(self.token, len(source) + len(target) - 1) - len(source)
        return (target, at, True) if at >= 0 else (source, at + len(source), False)

    @property
    def _blocks(self) -> Any:
        """Those that the token passes."""
        model = self._model
        stack = model.decoder if self._now()[2] else getattr(model, "encoder", model)
        return getattr(stack, "body", stack).blocks

    def _here(self) -> tuple[int, str, int, str]:
        """The number of the step, its name, its block, and its attention."""
        steps = self._steps()
        number = min(self.step, len(steps) - 1)
        return number, *steps[number]

    def _steps(self) -> list[tuple[str, int, str]]:
        """On the way of the token: the name of each step, its block, and its attention."""
        norm = ("norm",) * (self._model.config.norm == "pre")
        attends = ("self_attn", "cross_attn") if self._now()[2] else ("self_attn",)
        steps = []
        for n in range(len(self._blocks)):
            steps.append(("start", n, "self_attn"))
            for attn in attends:
                steps += [(name, n, attn) for name in (*norm, *READ, "heads", "add")]
            steps += [(name, n, "self_attn") for name in (*norm, "think", "add")]
        steps.append(("out", n, "self_attn"))
        return steps[: 1 + len(norm + READ)] if self.data["attention_only"] else steps

    @torch.no_grad()
    def shown(self) -> dict[str, Tensor]:
        """The numbers by name, in float64, of the head at the step; NaN where the mask closes.

        They belong to the attention of the step, or, outside of one, to the first of its block.
        """
        (_, at, in_target), (_, _, block, attn), model = self._now(), self._here(), self._model
        read = self.data["sentences"][self.sentence]
        ids = [torch.tensor([read[side][0]], device="cpu") for side in ("source", "target")]
        length = torch.tensor([ids[0].shape[1]], device="cpu")
        layer = getattr(self._blocks[block], attn)
        with record(layer, PROJECTIONS) as found:
            model(*((ids[0], length, ids[1]) if isinstance(model, Transformer) else ids[:1]))
        heads = (split_heads(found[place][0], layer.num_heads) for place in PROJECTIONS)
        q, k, v = (x[min(self.head, len(x) - 1)] for x in heads)  # each (L or S, D)
        causal = attn == "self_attn" and (in_target or isinstance(model, DecoderOnly))
        mask = torch.arange(len(k), device="cpu") <= (at if causal else len(k))  # (S,)
        return of_head(q[at], k, v, mask)

    def _summary(self) -> str:
        names, at, _ = self._now()
        number, name, block, _ = self._here()
        where = f"block {block}, head {min(self.head, self._model.config.num_heads - 1)}"
        count = len(self._steps())
        return f"\u201c{visible(names[at])}\u201d in {where}; step {number + 1} of {count}: {name}"

    def _table(self) -> Table:
        found, rows = self.shown(), []
        for name in TABLE:
            cells = ["masked" if math.isnan(x) else f"{x:.3f}" for x in found[name].tolist()]
            rows.append([name, *cells])
        across = self._here()[-1] == "cross_attn"
        keys = self.data["sentences"][self.sentence]["source"][1] if across else self._now()[0]
        caption = f"{self._summary()}. From the scores of its query with each key to the weights."
        return caption, keys, rows


def of_head(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """What a head computes of one query (D,), of keys and values (S, D), and of a mask (S,)."""
    found, scores = {"q": query}, keys @ query  # (S,)
    for j, key in enumerate(keys):
        found |= {f"k {j}": key, f"q \u00d7 k {j}": query * key}
    scaled = scores / math.sqrt(len(query))
    closed = scaled.masked_fill(~mask, math.nan)
    exps = (closed - scaled[mask].max()).exp()
    weights = exps / exps.nansum()
    found |= dict(zip(TABLE, (scores, scaled, closed, exps, weights), strict=True))
    products = weights.nan_to_num()[:, None] * values  # (S, D)
    for j, (value, product) in enumerate(zip(values, products, strict=True)):
        found |= {f"v {j}": value, f"weight \u00d7 v {j}": product}
    return {**found, "z": products.sum(0)}


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
        first = [START] * isinstance(model, DecoderOnly)
        lists = [[names[n] for n in first + vocab.encode(tokens)] for tokens in lists]
    if len(names) > size or not all(0 < len(tokens) <= MOST_TOKENS for tokens in lists):
        wanted = f"1 to {MOST_TOKENS} tokens, of at most vocab_size = {size} kinds"
        raise ValueError(f"sentences must have {wanted}, got {lists}")
    names += [f"id {n}" for n in range(len(names), size)]
    sources = [[[names.index(token) for token in tokens], tokens] for tokens in lists]
    read = [{"source": source, "target": [[], []]} for source in sources]
    return names if isinstance(model, DecoderOnly) else [], read
