"""The language model in the page: what it says is torch's, and the reader has the last word."""

import re

import pytest
import torch

from attn_notes.decoding import sampling_distribution
from attn_widgets.packing import pack_transformer, unpack_transformer
from attn_widgets.sampler import window_start
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.modules import assert_close
from tests.browser.panel import Panel, stop_time
from tests.oracles import rng
from tests.players import next_logits, next_weights, surprise
from tests.widgets import of_writer, random_decoder

MODULE = "sampler"

# The forward pass

# One reader for all texts, so that a text is read on from where the last one was the same.
READ = """(stored, context, texts) => {
  const reader = new Reader(new LanguageModel(stored), context), plain = (x) => Array.from(x);
  return texts.map((text) => reader.read(text).map(({ logits, weights, start }) => (
    { start, logits: plain(logits), weights: weights.flat().map(plain) })));
}"""
CONFIGS = {
    "as trained": {"positions": "learned", "max_length": 7, "activation": "gelu"},
    "as GPT-2": {"positions": "learned", "max_length": 40, "activation": "gelu_tanh"},
    "post-norm, sinusoidal": {"norm": "post", "tie_embeddings": False},
    "no positions, unscaled": {"positions": "none", "scale_embeddings": False, "num_heads": 1},
    "deep": {"num_layers": 11, "num_heads": 6, "embed_dim": 30, "layer_norm_eps": 0.1},
}


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_logits_and_weights_are_those_of_torch_on_the_rounded_weights(js, changes):
    packed = pack_transformer(random_decoder(**changes))
    model, context = unpack_transformer(packed), changes.get("max_length", 9)
    text = [1, *torch.randint(2, 17, (25,), generator=rng(5)).tolist()]
    texts = [text, text[:9], [*text[:9], *text[:9]], text[:3], [1], text]
    for read, found in zip(texts, js(READ, packed, context, texts), strict=True):
        logits = next_logits(model, read, context)
        starts = [window_start(i, context) for i in range(len(read))]
        assert [one["start"] for one in found] == starts
        assert_close([one["logits"][2:] for one in found], logits[:, 2:])
        for i in (0, len(read) // 2, len(read) - 1):
            assert_close(found[i]["weights"], next_weights(model, read[: i + 1], context))


# What is drawn from

SAMPLED = """(cases) => cases.map(([logits, temperature, top_k, top_p]) =>
  Array.from(samplingDistribution(Float64Array.from(logits), { temperature, top_k, top_p })))"""


def sampling_cases() -> list[tuple]:
    """Random, tied, one-sided and huge logits; no share that only rounding could tell from p."""
    rows = [scale * torch.randn(19, generator=rng(n)).double() for n, scale in enumerate((1, 5))]
    rows += [torch.zeros(16).double(), torch.tensor([0, 0, 0.0, 1, 1, 1, 0, 0, 9, 9]).double()]
    rows += [torch.tensor([0, 0, 1e30, 1.0, -1e30]).double(), torch.arange(40.0).double().neg()]
    exact = [(torch.zeros(6).double(), 0.8, 4, top_p) for top_p in (0.25, 0.5, 0.75)]  # quarters
    return exact + [
        (logits, temperature, top_k, top_p)
        for logits in rows
        for temperature in (0.1, 0.8, 1.0, 3.0)
        for top_k in (1, 2, 5, len(logits) - 2)
        for top_p in (0.01, 0.26, 0.51, 0.91, 1.0)
    ]


def test_the_tokens_that_are_kept_are_torch_s_and_so_are_their_shares(js):
    cases = sampling_cases()
    found = js(SAMPLED, [(logits.tolist(), *choices) for logits, *choices in cases])
    for here, (logits, temperature, top_k, top_p) in zip(found, cases, strict=True):
        barred = logits.clone()
        barred[:2] = -torch.inf
        expected = sampling_distribution(barred, temperature=temperature, top_k=top_k, top_p=top_p)
        assert [share > 0 for share in here] == (expected > 0).tolist()
        assert_close(here, expected)


# The text that a page opens with


def test_a_page_opens_with_half_a_text_that_no_link_has_to_say(visit, tmp_path):
    widget = of_writer()
    widget.said, widget.position = [], 99
    page = visit(page_of(tmp_path, widget.page_html()))
    widget.generate(16 // 2 - len(widget.prompt))
    opening = list(widget.said)
    assert len(opening) == 5
    panel = Panel(page)
    assert_shown(panel, widget)
    panel.press("Temperature", "ArrowRight")
    widget.temperature = 0.9
    assert_shown(panel, widget)
    panel.press_button("Copy link")
    assert page.url.endswith("#sampler?temperature=0.9")
    page.evaluate("location.hash = '#sampler?prompt=19'")
    assert_shown(panel, widget, prompt="19", said=[])
    page.evaluate("location.hash = '#sampler?seed=3'")
    assert_shown(panel, widget, prompt="407", seed=3)


# Saying


def test_the_buttons_say_what_python_says_and_take_it_back(visit, bare):
    panel, widget = Panel(visit(bare("writer"))), of_writer()
    panel.press_button("Clear")
    assert_shown(panel, widget, said=[], position=99)
    for _ in range(2):
        panel.press_button("Say one")
        widget.generate()
        assert_shown(panel, widget)
    panel.press("Top k", "End")
    panel.press("Top p", "End")
    panel.press("Seed", "ArrowRight", "ArrowRight")
    widget.top_k, widget.top_p, widget.seed = 19, 1.0, 11
    panel.press_button("Say 100")
    widget.generate(100)
    assert widget._full()
    assert_shown(panel, widget)
    for name in ("Say one", "Say 100", "Play"):
        button = panel.button(name)
        assert button.get_attribute("aria-disabled") == "true"
        button.press("Enter")
    assert_shown(panel, widget)
    panel.press_button("Take back")
    assert_shown(panel, widget, said=widget.said[:-1])


def test_a_pressed_character_is_put_there_and_what_followed_is_gone(visit, bare):
    panel, widget = Panel(visit(bare("writer"))), of_writer()
    options = panel.el.locator(".attn-option")
    for position, nth in ((6, 4), (99, 0), (1, 3)):
        panel.press("Character", "Home", *["ArrowRight"] * min(position, 8))
        assert_shown(panel, widget, position=position)
        token = int(widget.distributions()[0].argsort(descending=True)[nth])
        before = widget._tokens()[: widget._at()]
        widget.prompt = "407"[: len(before)]
        widget.said, widget.position = [*before[3:], token], 99
        options.nth(nth).press("Enter")
        assert_shown(panel, widget)
        assert panel.control("Prompt").input_value() == widget.prompt
    panel.press_button("Clear")
    panel.press("Prompt", "Control+a", "Delete")
    assert_shown(panel, widget, prompt="", said=[])


def test_play_goes_on_until_it_is_stopped_and_not_faster_for_two_presses(visit, bare):
    page = visit(bare("writer"))
    stop_time(page)
    panel, widget = Panel(page), of_writer()
    panel.press_button("Clear")
    widget.said, widget.position = [], 99
    play = panel.button(re.compile("Play|Pause"))
    status = panel.el.locator(".attn-said")
    play.press("Enter")
    page.clock.run_for(10)
    page.clock.run_for(2 * 480)  # readers who asked for less motion get a slower pace
    widget.generate(3)
    assert (play.inner_text(), status.get_attribute("aria-live")) == ("Pause", "off")
    assert_shown(panel, widget)
    play.press("Enter")
    page.clock.run_for(5000)
    assert (play.inner_text(), status.get_attribute("aria-live")) == ("Play", "polite")
    assert_shown(panel, widget)
    for _ in range(3):
        play.press("Enter")
    page.clock.run_for(10)
    widget.generate(1)
    assert_shown(panel, widget)
    panel.press("Prompt", "End", "5")  # whatever is typed is where it begins again
    page.clock.run_for(5000)
    assert_shown(panel, widget, prompt="4075", said=[])
    play.press("Enter")
    page.clock.run_for(100 * 480)
    widget.generate(100)
    assert play.inner_text() == "Play"
    assert_shown(panel, widget)


def test_any_character_of_the_text_is_looked_at_by_pointer_and_by_key(visit, bare):
    panel, widget = Panel(visit(bare("writer"))), of_writer()
    text, spans = panel.el.locator(".attn-page"), panel.el.locator(".attn-page span")
    for nth in (5, 0, 9):
        spans.nth(nth).click()
        assert_shown(panel, widget, position=nth)
    for key, position in (("ArrowLeft", 8), ("Home", 0), ("ArrowRight", 1), ("End", 9)):
        text.press(key)
        assert_shown(panel, widget, position=position)
    spans.nth(1).hover()
    says = panel.el.locator(".attn-note").all_inner_texts()
    assert f"Character 2, \u201c\u20680\u2069\u201d: {surprise(widget)[1]:.2f} bits." in says
    panel.el.locator(".attn-legend").hover()
    notes = panel.el.locator(".attn-note").all_inner_texts()
    assert any(note.startswith("Surprise in bits") for note in notes)


# Prompts


def test_what_the_model_has_never_seen_is_left_out_and_said(visit, bare):
    panel, widget = Panel(visit(bare("writer"))), of_writer()
    trouble = panel.el.locator(".attn-begin [role=status]")
    panel.control("Prompt").fill("4x0\u00fc x7")
    assert_shown(panel, widget, prompt="40 7", said=[], position=99)
    unknown = "\u201c\u2068x\u2069\u201d, \u201c\u2068\u00fc\u2069\u201d"
    assert trouble.inner_text() == f"The model has never seen {unknown}: left out."
    assert panel.control("Prompt").input_value() == "4x0\u00fc x7"
    panel.control("Prompt").fill("0" * 16)
    assert trouble.inner_text() == ""
    assert_shown(panel, widget, prompt="0" * 16)
    panel.press_button("19\u21b5")
    assert_shown(panel, widget, prompt="19\n")
    assert panel.control("Prompt").input_value() == "19\n"
