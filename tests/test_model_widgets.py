"""The widgets in which a whole model runs: what they compute is what the model itself computes."""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from traitlets import TraitError

from attn_notes import transformer
from attn_notes.data import END, START, Vocabulary
from attn_notes.decoding import greedy, sampling_distribution
from attn_notes.masks import prefix_mask
from attn_notes.transformer import DecoderOnly, Encoder, Transformer
from attn_widgets import FamilyDiagram, FollowToken, HeadSwitches, TransformerPlayer
from attn_widgets.encoding import decode
from attn_widgets.family import FAMILIES
from attn_widgets.packing import checksum, unpack_transformer
from attn_widgets.player import chance, cut
from attn_widgets.sampler import window_start
from tests import widgets as build
from tests.parts import shown
from tests.players import next_logits
from tests.widget_errors import writer_of
from tests.widgets import WORDS

# A Transformer that translates

KNOWN = ("0", "1", "9", "ninety", "nine", "-nine", "thousand,", "teen", "nineteen", "Haus")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1,999", "1 9 9 9"),
        ("1.999", "1 9 9 9"),
        ("ninety-nine", "ninety -nine"),
        ("nineteen", "nineteen"),
        ("thousand", "thousand,"),
        ("Haus 9", "Haus 9"),
        ("", ""),
    ],
)
def test_a_text_is_cut_at_spaces_and_into_few_known_tokens(text, tokens):
    assert cut(text, KNOWN) == tokens.split()


@pytest.mark.parametrize("text", ["9x", "9.1", "1,9", "haus", "ninety-", "\u0669", "\ud800"])
def test_a_word_that_is_not_made_of_known_tokens_is_named(text):
    with pytest.raises(TraitError, match=r"text must be made of known tokens, got '"):
        cut(text, KNOWN)


@given(st.lists(st.sampled_from(["a", "ab", "b", "ba", "bab"]), min_size=1, max_size=8))
def test_no_way_to_cut_a_word_has_fewer_tokens(tokens):
    known, word = ["a", "ab", "b", "ba", "bab", ""], "".join(tokens)
    found = cut(word, known)
    assert "".join(found) == word
    assert len(found) <= len(tokens)


@torch.no_grad()
def test_at_temperature_0_it_says_what_greedy_says():
    player = build.of_player()
    model = unpack_transformer(player.data["model"])
    for player.text in ("407", "1999", "0", "5550123"):
        made = player.translation()
        ids = torch.tensor([[player.data["source"].index(token) + 4 for token in made.source]])
        decoded = greedy(model, ids, max_length=7)
        assert decoded.tokens[0].tolist() == made.tokens
        inputs, lengths = torch.tensor([[START, *made.tokens[:-1]]]), torch.tensor([ids.shape[1]])
        logits, weights = model(ids, lengths, inputs, need_weights=True)
        logits[..., :END] = -torch.inf
        assert_close(made.probabilities, logits[0].softmax(-1))
        assert_close([*made.weights], [*weights])


@pytest.mark.slow
def test_a_temperature_flattens_what_is_drawn_from_and_seeds_draw_from_it():
    player = build.of_player()
    cold = player.translation().probabilities[0]
    player.temperature = 2.0
    hot = player.translation().probabilities[0]
    squared = hot[2:].square()
    assert_close(squared / squared.sum(), cold[2:])
    player.data = {**player.data, "most": 1}
    drawn = [player.translation().tokens[0] for player.seed in range(100)]
    share = torch.bincount(torch.tensor(drawn), minlength=9) / 100
    assert (share - hot).abs().max() < 0.12
    assert not share[:2].any()


def test_what_the_reader_put_there_is_said_and_the_model_goes_on_from_it():
    player = build.of_player()
    own = player.translation()
    player.prefix = [own.tokens[0], 7]
    made = player.translation()
    assert made.tokens[:2] == [own.tokens[0], 7]
    assert_close(made.probabilities[:2], own.probabilities[:2])
    assert not made.probabilities[2].allclose(own.probabilities[2])
    player.prefix = [END]
    assert player.translation().tokens == [END]
    player.prefix = [7] * 30
    assert player.translation().tokens == [7] * 7


def test_the_shown_map_is_that_of_the_kind_layer_and_head_and_of_the_steps_so_far():
    player = build.of_player()
    weights = player.translation().weights
    player.step, player.layer, player.head = 2, 1, 1
    assert player.shown().equal(weights.cross[1][0, 1, :3])
    player.attention = "decoder"
    assert player.shown().equal(weights.decoder[1][0, 1, :3])
    assert not player.shown().triu(1).any()
    player.attention = "encoder"
    assert player.shown().equal(weights.encoder[1][0, 1])
    player.step, player.layer, player.head, player.attention = 99, 99, 99, "cross"
    assert player.shown().equal(weights.cross[1][0, 1, :-1])  # but for END


def test_a_model_without_languages_reads_the_text_alone_and_learned_positions_end_it():
    kind = {"positions": "learned", "max_length": 5, "target_vocab_size": None}
    model, digits = build.random_transformer(vocab_size=14, **kind), Vocabulary([*"0123456789"])
    player = TransformerPlayer(model, digits, digits, examples=("42", "7"), most=9)
    assert player.translation().source == ["4", "2"]
    assert repr(player).startswith("TransformerPlayer(42: ")
    player.prefix = [7] * 9
    assert len(player.translation().tokens) == 5
    player.text = "12345"
    with pytest.raises(TraitError, match="text must have from 1 to 5 tokens, got 6"):
        player.text = "123456"


# A language model that writes


def test_a_window_holds_the_position_and_never_more_than_the_context():
    for context in range(1, 12):
        starts = [window_start(i, context) for i in range(60)]
        assert all(start <= i < start + context for i, start in enumerate(starts))
        for i in range(1, 60):
            if starts[i] != starts[i - 1]:  # full, and gone on with from the last half
                assert i - starts[i - 1] == context
                assert i - starts[i] + 1 == max(1, context // 2)


@pytest.mark.parametrize("context", [1, 2, 5, 6])
def test_the_probabilities_are_those_after_the_window_and_sampled_as_decoding_does(context):
    widget = build.of_writer()
    widget.data = {**widget.data, "context": context}
    model, tokens = unpack_transformer(widget.data["model"]), [START, *widget._tokens()]
    logits = next_logits(model, tokens, context)
    for widget.position, row in enumerate(logits):
        own, after = widget.distributions()
        assert own.sum() == pytest.approx(1)
        assert own[: START + 1].eq(0).all()
        assert_close(own, row.softmax(-1))
        assert_close(after, sampling_distribution(row, temperature=0.8, top_k=3, top_p=0.9))
        assert 1 <= (after > 0).sum() <= 3


def test_a_seed_says_the_same_one_by_one_and_all_at_once():
    widget, texts = build.of_writer(), []
    widget.top_k = 19
    for widget.seed, pieces in ((9, [9]), (9, [1] * 9), (10, [9])):
        widget.said = []
        for count in pieces:
            widget.generate(count)
        texts.append(widget.said)
    assert texts[0] == texts[1] != texts[2]
    assert widget._at() == len(widget._tokens())


def test_what_is_said_falls_as_the_shares_do():
    widget = build.of_writer()
    widget.said, widget.position = [], 99
    shares, drawn = widget.distributions()[1], []
    below = shares.cumsum(0) - shares
    for widget.seed in range(100):
        widget.said = []
        widget.generate()
        drawn += widget.said
        assert 0 <= chance(widget.seed, 0) - below[drawn[-1]] < shares[drawn[-1]]
    counts = torch.bincount(torch.tensor(drawn), minlength=21) / 100
    assert (counts - shares).abs().max() < 0.12


def test_a_text_ends_with_the_token_that_ends_it_or_when_it_is_full():
    widget = build.of_writer()
    widget.said = [*widget.said, END]
    ended = widget.said
    widget.generate(5)
    assert widget.said == ended
    assert widget._at() == len(widget._tokens()) - 1
    assert widget.text == "4078like8\nlike\ufffd"
    widget.said = [12] * 12
    widget.generate(99)
    assert len(widget._tokens()) == widget.data["most"] == 16
    widget.prompt, widget.said = "", []
    widget.generate(3)
    assert len(widget.said) == 3


def test_lines_are_read_as_one_writes_them_on_any_system():
    widget = build.of_writer()
    widget.prompt = "4\r\n0\r7"
    assert widget.prompt == "4\n0\n7"
    again = writer_of(vocab=Vocabulary([*"a\n"]), prompt="a\r\na", examples=["\r"])
    assert (again.prompt, again.data["examples"]) == ("a\na", ["\n"])


# A token followed

KINDS = {
    "pre-norm": {"norm": "pre"},
    "post-norm, gelu": {"norm": "post", "activation": "gelu"},
    "no positions, one head": {"positions": "none", "num_heads": 1},
    "one block": {"num_layers": 1, "num_decoder_layers": 3},
}
every_kind = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)


def random_encoder(**changes: object) -> Encoder:
    return build.random_transformer(Encoder, target_vocab_size=None, **changes).eval()


def numbers(widget: FollowToken, name: str, strip: str) -> torch.Tensor:
    """A strip of all steps with this name, one below the other."""
    steps = [n for n, (one, *_) in enumerate(widget._steps()) if one == name]
    return torch.stack([shown(widget)[strip] for widget.step in steps])


@every_kind
@pytest.mark.parametrize("make", [random_encoder, build.random_decoder])
def test_streams_weights_and_outputs_are_those_of_the_model(make, changes):
    widget = FollowToken(make(**changes), WORDS)
    model = widget._model
    body = getattr(model, "body", model)
    causal = isinstance(model, DecoderOnly)
    ids = torch.tensor([[0, 1, 2, 3, 4]])
    options = {"need_weights": True, "need_hidden_states": True, "is_causal": causal}
    with torch.no_grad():
        read = body(ids, **options)
    last = "LN(x)" if body.config.norm == "pre" else "x"
    for widget.token in range(5):
        t = widget.token
        before = torch.stack(read.hidden_states)[:-1, 0, t]
        assert_close(numbers(widget, "start", "x"), before)
        assert_close(numbers(widget, "out", last)[0], read.output[0, t])
        for widget.head in range(body.config.num_heads):
            weights = torch.stack(read.weights)[:, 0, widget.head, t]
            found = numbers(widget, "softmax", "weight")
            assert_close(found.nan_to_num(), weights)
            assert found.isnan().equal((torch.arange(5) > t).expand_as(found) & causal)


def test_a_decoder_s_last_step_gives_the_model_s_probabilities_in_order():
    widget = build.of_follow()
    ids = torch.tensor([[START, 4, 5, 6, 7, 8]])
    with torch.no_grad():
        logits = widget._model(ids).logits[0]
    for widget.token in range(6):
        widget.step = len(widget._steps()) - 1
        last_step = shown(widget)
        best = logits[widget.token].topk(6)
        assert_close(last_step["logit"], best.values)
        assert_close(last_step["probability"], logits[widget.token].softmax(-1)[best.indices])


@every_kind
def test_a_translation_is_followed_on_both_sides(changes):
    sizes = {"vocab_size": 14, "target_vocab_size": 9, "tie_embeddings": False}
    model = build.random_transformer(**sizes, noise=0.9, seed=13, **changes)
    player = build.of_player()
    digits, words = Vocabulary([*"0123456789"]), Vocabulary(WORDS)
    player = type(player).__mro__[1](model, digits, words, examples=("407",), most=5)
    widget, made = FollowToken(player, "19"), player.translation("19")
    assert isinstance(widget._model, Transformer)
    source = torch.tensor([digits.encode([*"19"])])
    inputs = torch.tensor([[START, *made.tokens[:-1]]])
    with torch.no_grad():
        logits, weights = widget._model(source, torch.tensor([2]), inputs, need_weights=True)
    assert_close(torch.stack(weights.cross), torch.stack(made.weights.cross))
    for widget.token in range(2):
        expected = torch.stack(weights.encoder)[:, 0, 0, widget.token]
        assert_close(numbers(widget, "softmax", "weight"), expected)
    for t in range(len(made.tokens)):
        widget.token = 2 + t
        softmax = [n for n, (name, *_) in enumerate(widget._steps()) if name == "softmax"]
        found = [shown(widget)["weight"] for widget.step in softmax]
        assert_close(torch.stack(found[::2]).nan_to_num(), torch.stack(weights.decoder)[:, 0, 0, t])
        assert_close(torch.stack(found[1::2]), torch.stack(weights.cross)[:, 0, 0, t])
        expected = logits[0, t].softmax(-1).topk(6).values
        assert_close(numbers(widget, "out", "probability")[0], expected)


def test_the_numbers_of_a_step_add_up_to_those_of_the_next():
    widget = build.of_follow()
    for widget.token in range(6):
        steps = [(name, shown(widget)) for widget.step, (name, *_) in enumerate(widget._steps())]
        for (name, here), (_, after) in itertools.pairwise(steps):
            if name == "scores":
                sums = torch.stack([here[f"q \u00d7 k {j}"].sum() for j in range(6)])
                assert_close(sums, here["q \u00b7 k"])
                assert_close(after["\u00f7 \u221aD"], sums / 2)  # D = 4
            if name == "values":
                assert_close(sum(here[f"weight \u00d7 v {j}"] for j in range(6)), after["z 0"])


def test_the_model_of_a_player_stands_in_a_page_once_and_is_named_by_its_checksum():
    player = build.of_player()
    widget = FollowToken(player, "407", "19")
    state = json.loads(json.dumps(widget.page_state()))
    assert state["data"]["model"] == {"same": checksum(player.data["model"])}
    assert widget.data["model"] is player.data["model"]
    assert len(widget.page_html()) < 5000
    other = FollowToken(random_encoder(seed=4), ["a"])
    assert checksum(player.data["model"]) != checksum(other.data["model"])


def test_the_table_says_what_the_head_reads_in_the_block_of_the_step():
    widget = build.of_follow()
    widget.step, widget.head = 14, 1
    caption, columns, rows = widget._table()
    assert caption.startswith("\u201cflies\u201d in block 1, head 1; step 15 of 25: scores. ")
    assert columns == ["<start>", *WORDS]
    assert [row[0] for row in rows] == ["q \u00b7 k", "\u00f7 \u221aD", "mask", "e^s", "weight"]
    assert rows[-1][4:] == ["masked"] * 3
    assert sum(float(cell) for cell in rows[-1][1:4]) == pytest.approx(1, abs=0.002)


def test_a_vocabulary_gives_the_ids_and_a_decoder_reads_start_first():
    for make, first in ((build.random_decoder, [1]), (random_encoder, [])):
        widget = FollowToken(make(vocab_size=9), ["like", "?", "an"], vocab=Vocabulary(WORDS))
        ids, tokens = widget.data["sentences"][0]["source"]
        assert ids == [*first, 6, 3, 7]
        assert tokens == [*["<start>"][: len(first)], "like", "<unk>", "an"]


# Heads switched off, scaled and patched

D = 4  # dimensions of a head: two of them share eight
HEADS = ("encoder.0.1", "encoder.1.0", "decoder.1.1", "cross.0.0")
every_head = pytest.mark.parametrize("head", HEADS)


def plain(**changes: object) -> HeadSwitches:
    widget = build.of_switches()
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
    widget, player = plain(), build.of_player()
    made, expected = widget.shown(), player.translation()
    for one in (made.untouched, made.switched):
        assert one.tokens == expected.tokens
        assert_close(one.probabilities, expected.probabilities)
        assert_close(one.weights.cross, expected.weights.cross)
    assert_as(widget, unpack_transformer(widget.data["model"]))
    assert repr(widget).endswith("; all 12 heads on)")


@pytest.mark.slow
@every_head
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


@pytest.mark.slow
@every_head
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


def test_the_means_are_over_all_positions_of_all_texts_in_all_languages():
    widget = plain()
    model = unpack_transformer(widget.data["model"])
    kept, languages = {name: [] for name in widget._heads}, dict(widget.data["languages"])
    with ExitStack() as hooks:
        for name, found in kept.items():
            hooks.enter_context(hooked(model, name, found.append))
        for widget.text in ("407", "1999", "5550123"):
            for widget.language in languages:
                logits_of(widget, model, widget.text, widget.shown().untouched.tokens)
    expected = torch.stack([torch.cat(found).mean(0) for found in kept.values()])
    quantum = 2 * float(expected.abs().max()) / 65535
    assert_close(decode(widget.data["means"]), expected, rtol=0, atol=quantum)
    assert build.translating(HeadSwitches, WORDS).data["means"] is None


@pytest.mark.slow
def test_the_effects_are_those_of_each_head_alone_whatever_the_edits():
    widget = build.of_switches()
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


# The three families: masks, and what an output can know, as models have it

SOURCE, TARGET = ["time", "flies", "like", "an", "arrow"], ["Zeit", "vergeht", "schnell"]
SIZES = [(1, 1), (1, 4), (5, 1), (5, 3), (7, 11)]
every_family = pytest.mark.parametrize("family", FAMILIES)


def of_size(S: int, T: int, **given: object) -> FamilyDiagram:
    return FamilyDiagram([f"s{n}" for n in range(S)], [f"t{n}" for n in range(T)], **given)


MASKED = ["time", "flies", "[MASK]", "an", "arrow"]
PAIR = [*SOURCE, "<start>", *TARGET], [None] * 5 + [*TARGET, "<end>"]
WIRED = {
    "encoder-only": (MASKED, [None, None, "like", None, None]),
    "decoder-only": (["<start>", *SOURCE], [*SOURCE, "<end>"]),
    "encoder-decoder": PAIR,
    "prefix": PAIR,
}


@every_family
def test_each_family_is_asked_for_its_words_at_their_places(family):
    inputs, says, _, encoder = FamilyDiagram(SOURCE, TARGET, family=family).wiring()
    assert (inputs, says) == WIRED[family]
    assert encoder == 5 * (family == "encoder-decoder")


@every_family
def test_the_place_picked_first_is_asked_for_the_masked_word_or_the_one_beside_it(family):
    for masked, (S, T) in ((2, (5, 3)), (3, (7, 1)), (0, (1, 1))):
        widget = of_size(S, T, family=family)
        asked = widget.wiring().says[widget.position]
        if family in ("encoder-only", "decoder-only"):
            assert asked == f"s{masked}"
        else:
            assert asked == (f"t{masked}" if masked < T else "<end>")


@every_family
@pytest.mark.parametrize(("S", "T"), SIZES)
@pytest.mark.parametrize("layers", [1, 2, 6])
def test_what_an_output_can_know_is_a_power_of_the_masks(family, S, T, layers):
    widget = of_size(S, T, family=family)
    widget.num_layers = layers
    columns = len(widget.wiring().inputs)
    for widget.position in range(columns):
        mask, at = build.wired(family, S, T, layers, widget.position)
        assert widget.wiring().mask.equal(mask)
        assert widget.knows().equal(at[0]), widget


MODELS = {"encoder-only": transformer.MaskedLanguageModel, "decoder-only": transformer.DecoderOnly}
MODELS |= {"encoder-decoder": transformer.Transformer, "prefix": transformer.Encoder}


def outputs(model: torch.nn.Module, tokens: Tensor, S: int) -> Tensor:
    """From tokens (C,) to what each position says or hands on, (C, anything)."""
    if isinstance(model, transformer.Encoder):
        return model(tokens[None], attn_mask=prefix_mask(len(tokens), prefix=S)).output[0]
    if not isinstance(model, transformer.Transformer):
        return model(tokens[None]).logits[0]
    source, target = tokens[None, :S], tokens[None, S:]
    memory = model.encoder(source).output[0]
    logits = model(source, torch.tensor([S]), target)[0][0]
    return torch.cat([memory, logits[:, : memory.shape[1]]])


@pytest.mark.parametrize(("family", "kind"), MODELS.items())
@torch.no_grad()
def test_the_package_s_own_models_know_what_the_diagram_says_and_nothing_else(family, kind):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "embed_dim": 8, "num_heads": 2, "num_layers": 2, "ffn_dim": 12}
    model = kind(transformer.TransformerConfig(**sizes))
    widget = FamilyDiagram(SOURCE, TARGET, family=family)
    L, S = len(widget.wiring().inputs), len(SOURCE)
    tokens = torch.arange(L) % 6 + 4
    before = outputs(model, tokens, S)
    for changed in range(L):
        other = tokens.clone()
        other[changed] = 10
        moved = ((outputs(model, other, S) - before).abs() > 1e-9).any(-1)
        for widget.position in range(L):
            assert bool(widget.knows()[changed]) == bool(moved[widget.position])


def test_the_table_says_what_each_reads_and_whether_the_picked_output_can_know_it():
    widget = FamilyDiagram(["a", "b"], ["c"], family="encoder-decoder")
    caption, columns, rows = widget._table()
    assert caption == "encoder-decoder, 2 blocks: what each position reads."
    assert columns == ["reads in each block", "is trained to say", "known at 2"]
    assert rows == [
        ("0 a", "0 to 1", "", "yes"),
        ("1 b", "0 to 1", "", "yes"),
        ("2 <start>", "2; the encoder's 0 to 1", "c", "yes"),
        ("3 c", "2 to 3; the encoder's 0 to 1", "<end>", "no"),
    ]
