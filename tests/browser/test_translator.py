"""The Transformer in the page: logits and words are torch's, and the reader can steer it."""

import itertools
import re

import pytest
import torch
from playwright.sync_api import expect
from traitlets import TraitError

from attn_notes.data import join_words, number_pairs
from attn_notes.data.numbers import BELOW_TEN_THOUSAND
from attn_notes.decoding import translate
from attn_notes.stored import load_translator
from attn_widgets import TransformerPlayer
from attn_widgets.packing import pack_transformer, unpack_transformer
from attn_widgets.player import cut
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.modules import assert_close
from tests.browser.panel import Panel, settle, stop_time, watched, written
from tests.hostile import TYPABLE
from tests.oracles import rng
from tests.widgets import WORDS, of_player, random_transformer

MODULE = "translator"
LANGUAGES = {"de": "German", "fr": "French", "es": "Spanish"}


# The forward pass

# Teacher forcing: logits and weights of each step, as plain lists.
FORCED = """(stored, sources, targets) => {
  const plain = (x) => Array.from(x, (y) => (y.length ? plain(y) : y));
  const model = new TransformerModel(stored);
  return sources.map((source, n) => {
    const state = model.start(source), steps = targets[n].map((token) => model.step(token, state));
    const all = (name) => plain(steps.map((step) => step[name]));
    return { encoder: plain(state.maps), logits: all("logits"), decoder: all("decoder"), cross: all("cross") };
  });
}"""  # noqa: E501

CONFIGS = {
    "as trained": {},
    "post-norm, gelu": {"norm": "post", "activation": "gelu"},
    "learned positions": {"positions": "learned", "max_length": 11},
    "no positions, one head": {"positions": "none", "num_heads": 1},
    "untied, unscaled": {"tie_embeddings": False, "scale_embeddings": False, "activation": "gelu"},
    "one vocabulary, all tied": {"vocab_size": 23, "target_vocab_size": None, "norm": "post"},
    "deep decoder": {"num_layers": 1, "num_decoder_layers": 11, "num_heads": 6, "embed_dim": 30},
    "wide, large epsilon": {"embed_dim": 64, "layer_norm_eps": 0.1, "activation": "gelu"},
}


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_logits_and_weights_are_those_of_torch_on_the_rounded_weights(js, changes):
    packed = pack_transformer(random_transformer(**changes))
    model, generator = unpack_transformer(packed), rng(5)
    texts = [torch.randint(2, 17, (n,), generator=generator).tolist() for n in (1, 5, 9, 2, 10)]
    sources, targets = texts[:3], [[1], [1, *texts[3]], [1, *texts[4]]]
    found = js(FORCED, packed, sources, targets)
    for source, target, here in zip(sources, targets, found, strict=True):
        inputs = torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([target])
        with torch.no_grad():
            logits, weights = model(*inputs, need_weights=True)
        assert_close(here["logits"], logits[0])
        for layer, expected in enumerate(weights.encoder):
            of_tokens = expected[0].transpose(0, 1)  # a token's heads together
            assert_close(here["encoder"][layer], of_tokens)
        for step, layer in itertools.product(range(len(target)), range(len(weights.cross))):
            assert_close(here["cross"][step][layer], weights.cross[layer][0, :, step])
            own = weights.decoder[layer][0, :, step, : step + 1]
            assert_close(here["decoder"][step][layer], own)


# Whole translations

TRANSLATE = """(stored, sources, options) => {
  const model = new TransformerModel(stored);
  return sources.map((source) => translateTokens(model, source, options).steps.map((step) => step.token));
}"""  # noqa: E501


@pytest.fixture(scope="module")
def stored():
    return load_translator("book/_data/transformer-numbers")


def test_held_out_numbers_are_translated_as_torch_translates_them(js, stored):
    _, held_out = number_pairs(("digits", "en"), tuple(LANGUAGES), count=10_000, digits=(1, 4))
    pairs = held_out[::7]  # 7 shares no factor with the six directions: all of them come
    assert len(pairs) >= 500
    packed = pack_transformer(stored.model)
    sources = [stored.source_vocab.encode(source) for source, _ in pairs]
    said = js(TRANSLATE, packed, sources, {"most": 32})
    found = [tuple(stored.target_vocab.decode(ids)) for ids in said]
    vocabularies = stored.source_vocab, stored.target_vocab
    rounded = unpack_transformer(packed)
    assert found == translate(rounded, [s for s, _ in pairs], *vocabularies, max_length=32)
    right = sum(words == target for words, (_, target) in zip(found, pairs, strict=True))
    assert right / len(pairs) >= 0.97


def test_a_text_is_cut_as_in_python(js, stored):
    known = stored.source_vocab.tokens
    _, pairs = number_pairs("en", "de", count=10_000, digits=(1, 4))
    texts = [join_words(source, "en") for source, _ in pairs[:200]]
    texts += ["1999", "1,999", "One Thousand", "x", "12x", "", " \t", "ninety-", "\u0130", "5 five"]
    texts += TYPABLE
    found = js("(texts, known) => texts.map((text) => cut(text, known))", texts, known)
    for text, here in zip(texts, found, strict=True):
        if "tokens" in here:
            assert cut(text, known) == here["tokens"], text
        else:
            with pytest.raises(TraitError, match=re.escape(f"got {here['wrong']!r}")):
                cut(text, known)
    commas = ["two", "thousand,", "ninety", "-nine", "1", "9"]
    texts = ["two thousand", "Thousand, ninety-nine", "1.919,", "two, thousand"]
    found = js("(texts, known) => texts.map((text) => cut(text, known).tokens)", texts, commas)
    assert found == [cut(text, commas) for text in texts]


@pytest.mark.parametrize("temperature", [0.3, 3.0])
def test_a_seed_draws_in_the_page_what_it_draws_in_python(js, temperature):
    player = of_player()
    player.temperature = temperature
    source = player.translation().source
    ids = [player.data["source"].index(token) + 4 for token in source]
    for player.seed in range(0, 100, 9):
        options = {"temperature": temperature, "seed": player.seed, "most": 7}
        assert js(TRANSLATE, player.data["model"], [ids], options) == [player.translation().tokens]


# Steering


def headline(panel: Panel) -> str:
    return panel.el.locator(".attn-translation bdi").inner_text()


def trouble(panel: Panel) -> str:
    return panel.el.locator("[role=status]:has(.attn-error)").inner_text()


def type_text(panel: Panel, text: str) -> None:
    panel.press("Translate", "Control+a", "Delete")
    panel.page.keyboard.type(text)


def stored_player(stored) -> TransformerPlayer:
    """The stored model, as the opening page shows it."""
    vocabularies = stored.source_vocab, stored.target_vocab
    domain = BELOW_TEN_THOUSAND, "numbers below ten thousand"
    options = {"languages": LANGUAGES, "examples": ("4729", "73"), "domain": domain}
    return TransformerPlayer(stored.model, *vocabularies, **options, compact=True)


@pytest.fixture(scope="module")
def compact(tmp_path_factory, stored):
    """The address of a page with it."""
    return page_of(tmp_path_factory.mktemp("compact"), stored_player(stored).page_html())


WHOLE = "viertausendsiebenhundertneunundzwanzig"


def test_a_compact_player_plays_once_by_itself_and_stands_still_for_who_wants_it(visit, compact):
    page = visit("about:blank")
    stop_time(page)
    page.goto(compact)
    panel = Panel(page)
    page.clock.run_for(1500)
    assert headline(panel) == WHOLE  # reduced motion
    page.emulate_media(reduced_motion="no-preference")
    page.reload()
    page.clock.run_for(100)
    expect(panel.button("Pause")).to_be_visible()
    words = {headline(panel)}
    while panel.button("Pause").is_visible():
        words.add(headline(panel))
        page.clock.run_for(100)
    assert {"viertausend", "viertausendsieben", WHOLE} <= words
    page.clock.run_for(1500)
    assert headline(panel) == WHOLE  # once
    assert panel.output("Step") == "7 of 8"


def test_a_compact_player_goes_on_from_a_candidate_step_by_step(visit, compact):
    page = visit(compact)
    page.emulate_media(reduced_motion="no-preference")
    panel = Panel(page)
    panel.press("Step", "Home")
    stop_time(page)
    first = panel.el.locator(".attn-option").nth(1)
    other = first.locator("bdi").inner_text()
    first.click()
    assert headline(panel) == other
    page.clock.run_for(20_000)
    assert headline(panel).startswith(other)
    assert panel.button("Play").is_visible()
    panel.button("Undo").click()
    assert other not in headline(panel)


def test_what_is_no_number_is_refused_and_what_was_not_trained_on_comes_with_a_warning(
    visit, compact
):
    panel = Panel(visit(compact))
    for text in ("3.5", "1,99", "7 cats"):
        panel.control("Translate").fill(text)
        assert trouble(panel).startswith("The model does not know \u201c\u2068")
        assert headline(panel) == WHOLE
    for text, is_known in (
        *(("9999", True), ("Nine thousand and  one", True), ("1,999", True)),
        *(("12345", False), ("07", False), ("ninety thousand", False), ("hundred", False)),
    ):
        type_text(panel, text)
        warned = f"numbers below ten thousand only. What it writes for \u201c\u2068{text}"
        found = trouble(panel)
        assert (warned in found, found == "") == (not is_known, is_known)
        assert headline(panel) not in (WHOLE, "")


@pytest.mark.parametrize("before", ["", "Eight hundred and ", "two thousand, one hundred and "])
def test_a_number_whose_hyphen_is_missing_is_read_as_what_it_means(visit, compact, stored, before):
    panel = Panel(visit(compact))
    player, found = stored_player(stored), []
    for text in (f"{before}eighty-one", f"{before}Eighty  one"):
        type_text(panel, text)
        assert trouble(panel) == ""
        player.text = text
        assert player.translation().source[-2:] == ["eighty", "-one"]
        found.append(headline(panel))
    assert (
        found[0] == found[1] == "".join(player._names[n] for n in player.translation().tokens[:-1])
    )


def test_what_is_typed_is_translated_at_every_key(visit, compact):
    panel = Panel(visit(compact))
    type_text(panel, "47")
    assert headline(panel) == "siebenundvierzig"
    panel.page.keyboard.press("1")
    assert headline(panel) == "vierhunderteinundsiebzig"
    panel.press("into", "ArrowDown")
    assert headline(panel) == "quatre cent soixante et onze"
    type_text(panel, "Eight thousand and ninety-two")
    assert headline(panel) == "huit mille quatre-vingt-douze"
    assert trouble(panel) == ""
    assert panel.output("Step") == "5 of 6"


def test_what_the_model_does_not_know_is_said_kindly_and_the_last_translation_stays(visit, bare):
    panel, widget = Panel(visit(bare("player"))), of_player()
    type_text(panel, "19x")
    assert_shown(panel, widget, text="19", step=7)
    assert "\u201c\u206819x\u2069\u201d" in trouble(panel)
    assert all(f"\u2068{token}\u2069" in trouble(panel) for token in WORDS)
    assert panel.control("Translate").input_value() == "19x"
    panel.press("Translate", "End", "Backspace")
    assert not panel.el.locator(".attn-error").is_visible()
    assert_shown(panel, widget)
    for token in TYPABLE:
        panel.control("Translate").fill(token[:120])
        assert trouble(panel)
    assert panel.page.evaluate("window.ran") is None
    assert panel.el.locator("img, iframe, svg, a, style").count() == 0
    type_text(panel, "")
    assert trouble(panel)
    type_text(panel, "9" * 40)
    assert trouble(panel) == "That makes 40 tokens; the model reads at most 39."
    assert_shown(panel, widget, text="9" * 39)
    panel.press("into", "ArrowDown")  # what cannot be read gives way to what is shown
    widget.language = "<fr>"
    assert panel.control("Translate").input_value() == "9" * 39
    assert not panel.el.locator(".attn-error").is_visible()
    assert_shown(panel, widget)


def test_another_token_is_put_there_and_the_model_goes_on_from_it(visit, bare):
    panel, widget = Panel(visit(bare("player"))), of_player()
    undo = panel.button("Undo")
    assert undo.get_attribute("aria-disabled") == "true"
    panel.press("Step", "ArrowRight")
    widget.step = 1
    for nth in (1, 4):
        made = widget.translation()
        order = made.probabilities[widget.step].argsort(descending=True).tolist()
        widget.prefix = [*made.tokens[: widget.step], order[nth]]
        panel.el.locator(".attn-option").nth(nth).press("Enter")
        at, widget.step = widget.step, 7  # where nothing shall move, the rest comes at once
        assert_shown(panel, widget)
        panel.press("Step", "Home", *["ArrowRight"] * at)
        assert_shown(panel, widget, step=at)
        pressed = [o.get_attribute("aria-pressed") for o in panel.el.locator(".attn-option").all()]
        assert [n for n, one in enumerate(pressed) if one == "true"] == [nth]
        panel.press("Step", "ArrowRight")
        widget.step += 1
    assert undo.get_attribute("aria-disabled") == "false"
    undo.press("Enter")
    assert_shown(panel, widget, prefix=[])
    assert undo.get_attribute("aria-disabled") == "true"


def test_a_row_of_all_heads_is_pressed_or_walked_to_and_its_head_is_shown(visit, bare):
    panel, widget = Panel(visit(bare("player"))), of_player()
    panel.press("Step", "End")
    widget.step = 5
    panel.map(0).press("PageDown")
    assert_shown(panel, widget, layer=1, head=1)
    panel.map(1).press("ArrowDown")
    assert_shown(panel, widget, attention="decoder", layer=0, head=1)
    assert panel.readout(1).startswith("layer 0, head 1, reads \u201c\u2068<start>\u2069\u201d: ")
    panel.map(0).click(position={"x": 60, "y": 10})
    assert_shown(panel, widget, attention="cross", head=0)
    panel.press("Step", "Home")
    for key in ("PageUp", "End"):
        panel.map(1).press(key)
    assert panel.readout(1) == "layer 0, head 0, reads what is not said yet: masked"


def test_enter_lets_the_words_come_one_by_one(visit, bare):
    page = visit(bare("player"))
    stop_time(page)
    panel = Panel(page)
    play = panel.button(re.compile("Play|Pause"))

    def after(milliseconds: int) -> tuple[str, str, str]:
        page.clock.run_for(milliseconds)
        return panel.output("Step"), play.inner_text(), headline(panel)

    panel.press("Translate", "Enter", "Enter")  # not twice as fast
    assert after(10) == ("1 of 6", "Pause", "like")
    assert after(650) == ("2 of 6", "Pause", "likelike")
    assert after(5000) == ("5 of 6", "Play", "likelikelikelikean")
    panel.press("Translate", "Enter")
    panel.press("Translate", "5")  # whatever is typed is there as a whole
    *whole, words = after(5000)
    assert whole in (["5 of 6", "Play"], ["7 of 7", "Play"])
    panel.press("Translate", "x", "Enter")  # not a text
    assert after(10) == (*whole, words)


# The maps under their tabs


def test_one_map_at_a_time_stands_under_the_tabs_which_the_arrow_keys_walk(visit, bare):
    panel = Panel(visit(bare("player")))
    tabs = panel.el.get_by_role("tab")
    names = tabs.all_inner_texts()

    def shown() -> list[str]:
        heading = panel.el.locator("[role=tabpanel]:visible .attn-heading")
        chosen = panel.el.locator("[role=tab][aria-selected=true]").all_inner_texts()
        assert panel.el.locator("[role=tabpanel]:visible").count() == len(chosen) == 1
        assert panel.el.locator("[role=tabpanel]:visible canvas:visible").count() >= 1
        return [*chosen, *heading.all_inner_texts()]

    assert shown()[0] == names[0] == "This step"
    found = {tuple(shown()[1:])}
    tabs.first.focus()
    for key, n in (("ArrowRight", 1), ("End", 2), ("ArrowRight", 2), ("Home", 0)):
        panel.page.keyboard.press(key)
        settle(panel.page)
        assert shown()[0] == names[n]
        found.add(tuple(shown()[1:]))
        assert tabs.nth(n).evaluate("(tab) => tab === document.activeElement")
    assert len(found) == len(names) == 3
    tabs.nth(1).click()
    grid = panel.el.locator("[role=tabpanel]:visible canvas").first
    assert grid.bounding_box()["height"] > 40
    panel.press("Layer", "Home")
    assert shown()[0] == names[1]  # and stays


FADES = """(el, side) => getComputedStyle(el).getPropertyValue(`--attn-${side}`) === "14px" """


def test_the_source_stays_in_sight_while_a_long_output_scrolls(visit, tmp_path):
    tokens = [f"{word}-and-more" for word in WORDS]
    panel = watched(visit, page_of(tmp_path, of_player(tokens).page_html()), width=390)
    panel.press("Step", "End")
    links = panel.el.locator(".attn-links")
    for share in (0, 0.5, 1):
        left, seen, hidden = links.evaluate(
            "(el, share) => { const hidden = el.scrollWidth - el.clientWidth;"
            " el.scrollLeft = share * hidden; return [el.scrollLeft, el.clientWidth, hidden]; }",
            share,
        )
        assert hidden > 40
        texts = written(panel, links.locator("canvas"))
        source = [box for text, _, box in texts if text in {"de", "4", "0", "7"}]
        assert len(source) == 4
        assert all(box[0] >= left and box[2] <= left + seen for box in source)
        faded = [side for side in ("left", "right") if links.evaluate(FADES, side)]
        assert faded == [
            side for side, is_more in (("left", left), ("right", left < hidden)) if is_more
        ]


def test_a_written_word_breaks_between_tokens_alone(visit, tmp_path):
    panel = watched(visit, page_of(tmp_path, of_player().page_html()), width=390)
    panel.press("Step", "End")
    said = panel.el.locator(".attn-translation bdi")
    pieces = said.evaluate(
        "(el) => [...el.childNodes].map((one) => one.textContent || one.nodeName)"
    )
    assert pieces[1::2] == ["WBR"] * (len(pieces) // 2)
    assert "".join(pieces[::2]) == said.inner_text()
    assert len(pieces[::2]) > 2
    assert {piece.strip() for piece in pieces[::2]} <= set(WORDS)


def test_what_heads_read_is_folded_on_a_phone_alone_until_a_link_asks_for_it(visit, bare):
    def is_open(address: str, width: int) -> bool:
        page = visit(address, width=width, height=844)
        summary = page.locator(".attn-phone > summary")
        assert summary.is_visible() == (width <= 600)
        assert page.get_by_role("tab", name="This step").is_visible() == (
            page.locator(".attn-phone").get_attribute("open") is not None
        )
        return page.locator(".attn-phone").get_attribute("open") is not None

    address = bare("player")
    assert [is_open(address, width) for width in (390, 900)] == [False, True]
    assert is_open(f"{address}#translator?head=1", 390)
    page = visit(address, width=390, height=844)
    page.set_viewport_size({"width": 900, "height": 844})
    page.get_by_role("tab", name="This step").wait_for()
