"""Heads switched off, scaled and patched: against weights changed by hand, and forward passes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from attn_notes.data import END, START
from attn_notes.decoding import greedy
from attn_notes.widgets import HeadSwitches
from attn_notes.widgets.encoding import decode
from attn_notes.widgets.packing import unpack_transformer
from tests.widgets import WORDS, of_player, of_switches, translating

D = 4  # dimensions of a head: two of them share eight


def plain(**changes: object) -> HeadSwitches:
    widget = of_switches()
    widget.edits = ""
    for name, value in changes.items():
        setattr(widget, name, value)
    return widget


def attention(model: torch.nn.Module, head: str) -> tuple[torch.nn.Module, slice]:
    """The layer of a head, and its slice of what `out_proj` reads."""
    kind, layer, index = head.split(".")
    block = (model.encoder if kind == "encoder" else model.decoder).blocks[int(layer)]
    own = slice(int(index) * D, (int(index) + 1) * D)
    return block.cross_attn if kind == "cross" else block.self_attn, own


def ids_of(widget: HeadSwitches, text: str) -> Tensor:
    source = [widget.language, *text]
    return torch.tensor([[widget.data["source"].index(token) + 4 for token in source]])


def log_probabilities(widget: HeadSwitches, model: torch.nn.Module, tokens: list[int]) -> Tensor:
    """(T,), in bits, of these tokens after those before them."""
    ids = ids_of(widget, widget.text)
    inputs = torch.tensor([[START, *tokens[:-1]]])
    with torch.no_grad():
        logits, _ = model(ids, torch.tensor([ids.shape[1]]), inputs)
    logits[..., :END] = -torch.inf
    return logits[0].log_softmax(-1)[torch.arange(len(tokens)), tokens] / math.log(2)


def assert_as(widget: HeadSwitches, model: torch.nn.Module) -> None:
    """What the widget shows is what this model says."""
    made = widget.shown()
    ids = ids_of(widget, widget.text)
    said = greedy(model, ids, max_length=widget.data["most"])
    assert made.switched.tokens == said.tokens[0].tolist()
    expected = log_probabilities(widget, model, made.untouched.tokens)
    torch.testing.assert_close(made.bits[1], expected, rtol=1e-12, atol=1e-12)


def test_with_all_heads_on_both_translations_are_the_player_s():
    widget, player = plain(), of_player()
    made, expected = widget.shown(), player.translation()
    for one in (made.untouched, made.switched):
        assert (one.source, one.tokens) == (expected.source, expected.tokens)
        torch.testing.assert_close(one.probabilities, expected.probabilities)
        torch.testing.assert_close(one.weights.cross, expected.weights.cross)
    assert made.bits[0].equal(made.bits[1])
    assert_as(widget, unpack_transformer(widget.data["model"]))
    assert repr(widget).endswith("; all 12 heads on)")


@pytest.mark.parametrize("head", ["encoder.0.1", "encoder.1.0", "decoder.1.1", "cross.0.0"])
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


@contextmanager
def overwritten(model: torch.nn.Module, head: str, there: dict[str, Tensor]) -> Iterator[None]:
    """A head passes on what was kept of another run, as far as that goes."""
    layer, own = attention(model, head)

    def change(_, args: tuple[Tensor]) -> Tensor:
        x = args[0].clone()
        count = min(x.shape[1], there[head].shape[1])
        x[:, :count, own] = there[head][:, :count]
        return x

    hook = layer.out_proj.register_forward_pre_hook(change)
    yield
    hook.remove()


@pytest.mark.parametrize("head", ["encoder.0.1", "encoder.1.0", "decoder.1.1", "cross.0.0"])
@pytest.mark.parametrize("other", ["408", "1999", "7"])  # as long, longer, shorter
def test_a_patched_head_writes_what_it_writes_in_the_other_text(head, other):
    widget = plain(other=other, edits=f"{head}:other")
    model = unpack_transformer(widget.data["model"])
    layer, own = attention(model, head)
    made, there = widget.shown(), {}
    tokens = made.untouched.tokens
    ids = ids_of(widget, other)
    hook = layer.out_proj.register_forward_pre_hook(
        lambda _, args: there.update({head: args[0][..., own]})
    )
    with torch.no_grad():  # the same translation so far, of the other text
        model(ids, torch.tensor([ids.shape[1]]), torch.tensor([[START, *tokens[:-1]]]))
    hook.remove()
    with overwritten(model, head, there):
        expected = log_probabilities(widget, model, tokens)
    torch.testing.assert_close(made.bits[1], expected, rtol=1e-12, atol=1e-12)
    assert not made.bits[0].equal(made.bits[1])


def test_a_text_patched_from_itself_is_as_it_was():
    widget = plain(other="407")
    widget.edits = ",".join(f"{name}:other" for name in widget._heads)
    made = widget.shown()
    torch.testing.assert_close(made.bits[1], made.bits[0], rtol=1e-12, atol=1e-12)


def test_the_means_are_over_all_positions_of_all_texts_in_all_languages():
    texts, widget = ("407", "1999", "5550123"), plain()
    model = unpack_transformer(widget.data["model"])
    sums, counts = {}, {}
    for text, language in ((text, tag) for text in texts for tag, _ in widget.data["languages"]):
        one = plain(text=text, language=language)
        ids = ids_of(one, text)
        inputs = torch.tensor([[START, *one.shown().untouched.tokens[:-1]]])
        for name in widget._heads:
            layer, own = attention(model, name)

            def keep(_, args: tuple[Tensor], name: str = name, own: slice = own) -> None:
                sums[name] = sums.get(name, 0) + args[0][0, :, own].sum(0)
                counts[name] = counts.get(name, 0) + args[0].shape[1]

            hook = layer.out_proj.register_forward_pre_hook(keep)
            with torch.no_grad():
                model(ids, torch.tensor([ids.shape[1]]), inputs)
            hook.remove()
    expected = torch.stack([sums[name] / counts[name] for name in widget._heads])
    quantum = 2 * float(expected.abs().max()) / 65535
    torch.testing.assert_close(decode(widget.data["means"]), expected, rtol=0, atol=quantum)
    assert translating(HeadSwitches, WORDS).data["means"] is None


def test_the_effects_are_those_of_each_head_alone_whatever_the_edits():
    widget = of_switches()
    effects = dict(zip(widget._heads, widget.effects().values(), strict=True))
    assert [str(head) for head in widget.effects()][::5] == [
        *("encoder.blocks.0.self_attn.0", "decoder.blocks.0.self_attn.1"),
        "decoder.blocks.1.cross_attn.0",
    ]
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
    widget.edits = ""
    assert widget.shown().bits.diff(dim=0).abs().max() == 0
