"""Heads switched off, scaled and patched: against weights changed by hand, and forward passes."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attn_notes.data import END, START
from attn_notes.decoding import greedy
from attn_notes.transformer import Transformer
from attn_notes.widgets import HeadSwitches
from attn_notes.widgets.encoding import decode
from attn_notes.widgets.packing import unpack_transformer
from tests.widgets import WORDS, of_player, of_switches, translating

D = 4  # dimensions of a head: two of them share eight
HEADS = ("encoder.0.1", "encoder.1.0", "decoder.1.1", "cross.0.0")
every_kind = pytest.mark.parametrize("head", HEADS)


def plain(**changes: object) -> HeadSwitches:
    widget = of_switches()
    widget.edits = ""
    for name, value in changes.items():
        setattr(widget, name, value)
    return widget


def attention(model: Transformer, head: str) -> tuple[torch.nn.Module, slice]:
    """The layer of a head, and its slice of what `out_proj` reads."""
    kind, layer, index = head.split(".")
    block = (model.encoder if kind == "encoder" else model.decoder).blocks[int(layer)]
    own = slice(int(index) * D, (int(index) + 1) * D)
    return block.cross_attn if kind == "cross" else block.self_attn, own


def ids_of(widget: HeadSwitches, text: str) -> Tensor:
    source = [widget.language, *text]
    return torch.tensor([[widget.data["source"].index(token) + 4 for token in source]])


@torch.no_grad()
def logits_of(widget: HeadSwitches, model: Transformer, text: str, tokens: list[int]) -> Tensor:
    """(T, V): after START and each of these tokens but the last, of a text."""
    ids, inputs = ids_of(widget, text), torch.tensor([[START, *tokens[:-1]]])
    return model(ids, torch.tensor([ids.shape[1]]), inputs)[0][0]


def log_probabilities(widget: HeadSwitches, model: Transformer, tokens: list[int]) -> Tensor:
    """(T,), in bits, of these tokens after those before them."""
    logits = logits_of(widget, model, widget.text, tokens)
    logits[:, :END] = -torch.inf
    return logits.log_softmax(-1)[torch.arange(len(tokens)), tokens] / math.log(2)


@contextmanager
def hooked(model: Transformer, head: str, look: Callable[[Tensor], None]) -> Iterator[None]:
    """Before each use, `look` gets what a head passes on, (L, D), and may change it in place."""
    layer, own = attention(model, head)
    hook = layer.out_proj.register_forward_pre_hook(lambda _, args: look(args[0][0, :, own]))
    yield
    hook.remove()


def assert_as(widget: HeadSwitches, model: Transformer) -> None:
    """What the widget shows is what this model says."""
    made = widget.shown()
    ids = ids_of(widget, widget.text)
    said = greedy(model, ids, max_length=widget.data["most"])
    assert made.switched.tokens == said.tokens[0].tolist()
    expected = log_probabilities(widget, model, made.untouched.tokens)
    assert_close(made.bits[1], expected, rtol=1e-12, atol=1e-12)


def test_with_all_heads_on_both_translations_are_the_player_s():
    widget, player = plain(), of_player()
    made, expected = widget.shown(), player.translation()
    for one in (made.untouched, made.switched):
        assert one.tokens == expected.tokens
        assert_close(one.probabilities, expected.probabilities)
        assert_close(one.weights.cross, expected.weights.cross)
    assert_as(widget, unpack_transformer(widget.data["model"]))
    assert repr(widget).endswith("; all 12 heads on)")


@every_kind
@pytest.mark.parametrize("change", [0, 0.5, 2, "mean"])
def test_an_edit_is_a_change_of_the_weights_that_read_the_head(head, change):
    widget = plain(edits=f"{head}:{change}")
    model = unpack_transformer(widget.data["model"])
    layer, own = attention(model, head)
    with torch.no_grad():
        columns = layer.out_proj.weight[:, own]
        if change == "mean":
            means = decode(widget.data["means"])
            layer.out_proj.bias += columns @ means[list(widget._heads).index(head)]
        columns *= 0 if change == "mean" else change
    assert_as(widget, model)
    assert not widget.shown().bits[0].equal(widget.shown().bits[1])


@every_kind
@pytest.mark.parametrize("other", ["408", "1999", "7"])  # as long, longer, shorter
def test_a_patched_head_writes_what_it_writes_in_the_other_text(head, other):
    widget = plain(other=other, edits=f"{head}:other")
    model, made, kept = unpack_transformer(widget.data["model"]), widget.shown(), []
    tokens = made.untouched.tokens
    with hooked(model, head, lambda z: kept.append(z.clone())):
        logits_of(widget, model, other, tokens)  # the same translation so far, of the other text

    def overwrite(z: Tensor) -> None:
        count = min(len(z), len(kept[0]))
        z[:count] = kept[0][:count]

    with hooked(model, head, overwrite):
        expected = log_probabilities(widget, model, tokens)
    assert_close(made.bits[1], expected, rtol=1e-12, atol=1e-12)
    assert not made.bits[0].equal(made.bits[1])


def test_a_text_patched_from_itself_is_as_it_was():
    widget = plain(other="407")
    widget.edits = ",".join(f"{name}:other" for name in widget._heads)
    made = widget.shown()
    assert_close(made.bits[1], made.bits[0], rtol=1e-12, atol=1e-12)


def test_the_means_are_over_all_positions_of_all_texts_in_all_languages():
    widget = plain()
    model = unpack_transformer(widget.data["model"])
    kept, languages = {name: [] for name in widget._heads}, dict(widget.data["languages"])
    with ExitStack() as hooks:
        for name, found in kept.items():
            hooks.enter_context(hooked(model, name, found.append))
        for widget.text, widget.language in product(("407", "1999", "5550123"), languages):
            logits_of(widget, model, widget.text, widget.shown().untouched.tokens)
    expected = torch.stack([torch.cat(found).mean(0) for found in kept.values()])
    quantum = 2 * float(expected.abs().max()) / 65535
    assert_close(decode(widget.data["means"]), expected, rtol=0, atol=quantum)
    assert translating(HeadSwitches, WORDS).data["means"] is None


def test_the_effects_are_those_of_each_head_alone_whatever_the_edits():
    widget = of_switches()
    effects = dict(zip(widget._heads, widget.effects().values(), strict=True))
    assert str([*widget.effects()][5]) == "decoder.blocks.0.self_attn.1"
    for name, effect in effects.items():
        before, after = plain(edits=f"{name}:0").shown().bits.sum(1).tolist()
        assert effect == pytest.approx(after - before, abs=1e-12)
    caption, columns, rows = widget._table()
    assert columns == ["in all", "a token"]
    assert [row[0] for row in rows] == sorted(effects, key=effects.get)
    assert float(rows[0][1]) == pytest.approx(min(effects.values()), abs=0.00501)
    assert caption.startswith("407 in time: ")


def test_edits_are_kept_in_the_order_of_the_heads_and_the_last_of_a_head_counts():
    widget = plain(edits="cross.1.0:0.50,encoder.0.0:mean,,cross.1.0:0,decoder.0.1:1")
    assert widget.edits == "encoder.0.0:mean,cross.1.0:0"
    assert "; encoder.0.0:mean, cross.1.0:0: " in repr(widget)
