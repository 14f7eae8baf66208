"""Widgets say on the page what they hold in Python, run nothing, and refuse what is wrong."""

import base64
import itertools
import json
import math
import re
import time
from functools import partial

import pytest
import torch
import traitlets
from bs4 import BeautifulSoup
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import attn_widgets as widgets
from attn_notes.kernels import boxcar_kernel, epanechnikov_kernel, nadaraya_watson
from attn_notes.masks import causal_mask, masked_softmax
from attn_notes.palette import visible
from attn_notes.patterns import select_cells
from attn_notes.scores import AdditiveScore, GaussianScore
from attn_widgets import assets
from attn_widgets.base import BookWidget, Offered
from attn_widgets.encoding import (
    decode,
    encode,
    encode_mask,
    encode_roots,
    encode_weights,
)
from tests import widgets as made
from tests.hostile import HOSTILE
from tests.oracles import coin
from tests.widget_errors import WRONG
from tests.widgets import WORDS

every_widget = pytest.mark.parametrize("make", made.EVERY.values(), ids=made.EVERY)


class Element:
    """What a page's parser makes of an element: tags, attributes, the state and the table."""

    def __init__(self, source: str) -> None:
        page = BeautifulSoup(source, "html.parser")
        self.tags = [tag.name for tag in page.find_all()]
        self.attributes = {name for tag in page.find_all() for name in tag.attrs}
        self.state = page.script.string
        self.cells = [cell.get_text() for cell in page.find_all(["th", "td"])]


def page_state(widget: BookWidget) -> dict:
    return json.loads(Element(widget.page_html()).state)["state"]


def assert_true_to_a_page(found: torch.Tensor, weights: torch.Tensor) -> None:
    """Weights in twelve bits each: the smaller they are, the nearer."""
    assert bool(((found - weights).abs() <= weights.sqrt() / 4095 + 1e-7).all())


# What a page gets


@every_widget
def test_the_element_is_one_small_line_and_holds_nothing_that_changes(make):
    element = make().page_html()
    assert element == make().page_html()
    assert len(element) < 20_000
    assert re.fullmatch("<attn-widget>.*</attn-widget>", element)
    text = re.sub(r'"b64": "[^"]*"', "", element)
    assert not re.search(r"0x[0-9a-f]{6}|[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{32}", text)
    assert not re.search(r"\bid=|IPY_MODEL|_esm|_css|layout|anywidget", text)
    assert Element(element).attributes <= {"type", "class", "scope"}


@every_widget
def test_a_notebook_gets_the_view_and_the_element_whose_state_is_every_trait_of_ours(make):
    widget = make()
    data, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert (data["text/html"], data["text/plain"]) == (widget.page_html(), repr(widget))
    ours = next(kind for kind in type(widget).__mro__ if kind.__dict__.get("_widget"))
    family = ours.__mro__[: ours.__mro__.index(BookWidget)]
    traits = {name for kind in family for name in kind.class_own_traits(sync=True)}
    frames = {"frames"} if make is made.of_function else set()
    assert set(page_state(widget)) == traits | frames


# Tokens are data


@pytest.mark.parametrize("make", made.TOKENISED.values(), ids=made.TOKENISED)
def test_no_token_leaves_the_state_or_the_table(make):
    element = make(HOSTILE).page_html()
    assert len(element.splitlines()) == 1
    parsed = Element(element)
    tags = {"attn-widget", "script", "div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert set(parsed.tags) <= tags | {"bdi"}
    assert parsed.tags.count("script") == parsed.tags.count("table") == 1
    assert parsed.attributes <= {"type", "class", "scope"}
    assert not set("<>&") & set(parsed.state)
    assert parsed.state.isascii()


@pytest.mark.parametrize("token", HOSTILE, ids=ascii)
def test_a_token_comes_out_of_the_state_exactly_and_out_of_the_table_visibly(token):
    widget = widgets.AttentionHeatmap(torch.eye(2), query_tokens=[token, "b"], title=token)
    data, sent = page_state(widget)["data"], re.sub("[\ud800-\udfff]", "\ufffd", token)
    assert data["queries"] == data["keys"] == [sent, "b"]
    assert data["title"] == sent
    text, headers = visible(token), Element(widget.page_html()).cells
    assert [cell for cell in headers if cell.strip("01.")] == [text, "b"] * 2
    # Neither control nor line break nor half a character.
    text.encode("utf-8")
    assert text.strip()
    assert len(text.splitlines()) == 1
    controls = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    assert controls.isdisjoint(map(ord, text))


# Quanta

floats = st.floats(-1e6, 1e6, allow_subnormal=False)
lists = partial(st.lists, min_size=1, max_size=40)


@given(lists(floats), st.sampled_from([12, 16]), floats, st.floats(1e-3, 1e6))
def test_numbers_come_back_within_half_a_quantum_and_clamped(numbers, bits, low, span):
    tensor = torch.tensor(numbers, dtype=torch.float64)
    back = decode(encode(tensor, low=low, high=low + span, bits=bits))
    limit = span / (2**bits - 1) / 2 + 1e-9 * (abs(low) + span)
    assert_close(back, tensor.clamp(low, low + span), atol=limit, rtol=0)


@given(lists(st.floats(0, 1)))
def test_weights_come_back_in_two_characters_each_the_small_ones_truest(numbers):
    weights = torch.tensor(numbers, dtype=torch.float64)
    packed = encode_roots(weights)
    assert len(packed["b64"].rstrip("=")) in (2 * len(numbers), 2 * len(numbers) + 1)
    assert_true_to_a_page(decode(packed), weights)


@given(lists(st.sampled_from([0.0, 1e-300, 1e-9, 1e-4, 0.5, 1.0])))
def test_only_a_weight_of_zero_comes_back_as_zero(numbers):
    weights = torch.tensor(numbers, dtype=torch.float64)
    for packed in (encode_weights(weights), encode_roots(weights), encode_roots(weights, bits=8)):
        back = decode(packed)
        assert back.eq(0).equal(weights.eq(0))
        assert_close(back, weights, atol=3e-3, rtol=0)


@given(st.lists(st.integers(0, 7), max_size=3), st.integers(0, 99))
def test_a_mask_comes_back_exactly(shape, seed):
    mask = coin(*shape, seed=seed)
    packed = encode_mask(mask)
    assert decode(packed).equal(mask)
    assert len(base64.b64decode(packed["b64"])) == math.ceil(mask.numel() / 8)


@settings(max_examples=20)
@given(st.floats(-1e300, 1e300), st.sampled_from([1e-300, 1e-9, 1.0, 99.0]))
def test_scores_of_any_size_can_be_shown_constant_ones_too(centre, spread):
    assume(centre + spread - centre <= 100)
    for numbers in ([[centre, centre]], [[centre, centre + spread]]):
        wide = torch.tensor(numbers, dtype=torch.float64)
        shown = widgets.AttentionHeatmap(scores=wide).shown()
        assert shown.sum() == pytest.approx(1)
        if wide[0, 0] == wide[0, 1]:
            assert shown.tolist() == [[0.5, 0.5]]
        assert widgets.MaskPainter(wide).shown().equal(shown)


@pytest.mark.parametrize("error", [1e-7, 1e-4])
def test_a_rounding_error_outside_0_to_1_is_clamped(error):
    noisy = torch.tensor([[1 + error, -error]], dtype=torch.float64)
    assert widgets.AttentionHeatmap(noisy).shown().tolist() == [[1.0, 0.0]]
    assert widgets.HeadExplorer([(["a"], noisy[None, None, :, :1])]).shown().tolist() == [[1.0]]


def test_tensors_and_lists_of_the_caller_stay_as_they_were():
    tokens, mask, numbers = list(WORDS), made.gappy_mask(5, 5), made.scores(5, 5)
    widget = widgets.MaskPainter(numbers, mask=mask, query_tokens=tokens)
    widget.painted = encode_mask(~mask)
    heatmap = widgets.AttentionHeatmap(scores=numbers, mask=mask, query_tokens=tokens)
    heatmap.temperature = 3.0
    heatmap.data["queries"][0] = "changed"
    assert tokens == list(WORDS)
    assert mask.equal(made.gappy_mask(5, 5))
    assert numbers.equal(made.scores(5, 5))


# What Python says is shown


def test_the_heatmap_shows_the_softmax_under_the_temperature_and_the_mask_now_chosen():
    numbers, mask = made.scores(3, 5, 5), made.gappy_mask(5, 5)
    widget = widgets.AttentionHeatmap(scores=numbers, mask=mask)
    assert widget.mask_choice == "given"
    quantum = float(numbers.max() - numbers.min()) / 65535
    masks = {"given": mask, "causal": causal_mask(5), "none": None}
    for head, temperature, choice in itertools.product(range(3), (0.1, 1.0, 20.0), masks):
        widget.head, widget.temperature, widget.mask_choice = head, temperature, choice
        expected = masked_softmax(numbers[head] / temperature, masks[choice])
        assert_close(widget.shown(), expected, atol=quantum / temperature, rtol=0)


def test_the_kernel_explorer_predicts_what_nadaraya_watson_predicts():
    widget = made.of_points()
    kernels = {"boxcar": boxcar_kernel, "epanechnikov": epanechnikov_kernel}
    for name, query in itertools.product(kernels, (-50.0, 1.0, 4.2)):
        widget.kernel, widget.query, widget.bandwidth = name, query, 0.7
        points = (torch.tensor(x, dtype=torch.float64) for x in ([query], widget.xs, widget.ys))
        output, expected = nadaraya_watson(*points, kernel=kernels[name], bandwidth=0.7)
        prediction, found = widget.predict()
        assert_close(found, expected[0])
        assert prediction == pytest.approx(float(output))


def test_the_score_explorer_shows_the_package_s_own_scores_with_the_parameters_it_was_given():
    modules = made.learned()
    widget = widgets.ScoreExplorer((1.0, 0.6), [[1.6, 0.4], [0.5, 1.5], [-1.2, 0.9]], **modules)
    query, keys = torch.tensor([widget.query]), torch.tensor(widget.key_vectors)
    for name, module in {**modules, "gaussian": GaussianScore()}.items():
        widget.score, widget.temperature = name, 0.5
        expected = (module(query, keys)[0] / 0.5).softmax(-1)
        assert_close(widget.shown(), expected.detach().double(), atol=2e-3, rtol=0)
    widget.score, widget.temperature = "scaled_dot", 1.0
    expected = (query @ keys.T / math.sqrt(2)).softmax(-1)[0].double()
    assert_close(widget.shown(), expected)


@pytest.mark.parametrize("name", made.NAMED_MASKS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_painter_combines_what_is_painted_with_the_package_s_masks(name, size):
    painted, numbers = made.gappy_mask(5, 4), made.scores(5, 4)
    widget = widgets.MaskPainter(numbers, mask=painted)
    widget.second, widget.second_size = name, size
    second = made.NAMED_MASKS[name](5, 4, size)
    for widget.combine, both in (("and", painted & second), ("or", painted | second)):
        expected = painted if name == "none" else both
        assert widget.attn_mask.equal(expected)
        assert_close(widget.shown(), masked_softmax(numbers, expected), atol=1e-4, rtol=0)


# Steps of a decoding


def test_the_steps_so_far_show_the_rows_of_the_weights_they_were_given():
    widget = made.of_steps()
    for widget.state, (tokens, weights) in made.decoded(WORDS).states.items():
        for widget.step in range(len(tokens)):
            so_far = weights[: widget.step + 1]
            assert_close(widget.shown(), so_far, atol=0.5 / 65535 + 1e-9, rtol=0)


def test_an_example_or_state_with_fewer_steps_shows_its_last_and_one_without_the_state_another():
    short = widgets.Example(["a"], ["b"], {"trained": (["b"], torch.ones(1, 1))})
    widget = widgets.AlignmentSteps([made.decoded(WORDS), short])
    assert (widget.state, widget.data["states"]) == ("trained", ["untrained", "trained"])
    widget.step, widget.state = 4, "untrained"
    assert widget.shown().shape == (4, 5)
    widget.example = 1
    assert repr(widget) == "AlignmentSteps(2 examples; trained, right: 1 words from 1, step 1)"
    assert widget.shown().tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("target", "reference", "wrong"),
    [
        (["a", "b"], ["a", "b"], None),
        (["a", "b"], ["a", "c"], 1),
        (["a"], ["a", "b"], 1),
        (["drei", "und", "siebzig"], "dreiundsiebzig", None),
        (["two", "hundred", "one"], "two hundred", 2),
        (list("May 2"), "May 1", 4),
    ],
)
def test_the_first_wrong_word_is_found_in_tokens_and_in_text(target, reference, wrong):
    states = {"trained": (target, torch.full((len(target), 4), 0.25))}
    widget = widgets.AlignmentSteps([widgets.Example(["w"] * 4, reference, states)])
    assert page_state(widget)["data"]["examples"][0]["states"][0]["wrong"] == wrong
    verdict = "right" if wrong is None else "wrong"
    assert f"trained, {verdict}: " in repr(widget)
    assert widget._table()[0].startswith(f"trained, {verdict}. ")


def test_a_text_is_decoded_shown_from_its_first_step_and_kept_when_the_next_one_fails():
    widget = made.of_steps()
    widget.text = "b a"
    assert widget.reply["error"] == ""
    assert (widget.example, widget.step) == (3, 0)
    widget.step = 1
    before = widget.shown()
    assert_close(before, made.decoded("ba").states["trained"][1], atol=1e-5, rtol=0)
    errors = {"what?": "no word to begin with in 'what?'", " ": "IndexError: "}
    for text, words in errors.items():
        widget.text = text
        assert widget.reply["text"] == text
        assert widget.reply["error"].startswith(words)
        assert widget.shown().equal(before)
    widget.text = "c d e"
    assert widget.reply["error"] == ""
    assert widget.shown().shape == (1, 3)


def test_a_page_keeps_what_was_typed_and_knows_that_nobody_answers():
    assert page_state(widgets.AlignmentSteps([made.decoded(WORDS)]))["typing"] == "off"
    widget = made.of_steps()
    widget.text = "x y z"
    state = page_state(widget)
    assert (state["typing"], state["text"], state["example"]) == ("page", "", 3)
    assert (widget.typing, widget.text) == ("live", "x y z")
    assert state["reply"]["example"]["source"] == ["x", "y", "z"]


# Heads


def test_the_heads_show_the_weights_they_were_given_to_the_precision_of_a_page():
    widget = made.of_heads()
    for widget.sentence, (words, seed) in enumerate(((5, 7), (5, 5), (3, 0))):
        weights = made.encoded(WORDS[:words], seed=seed).weights
        for widget.layer, widget.head in itertools.product(range(2), range(3)):
            assert_true_to_a_page(widget.shown(), weights[widget.layer, widget.head])


def test_hiding_leaves_the_words_and_divides_what_they_read_by_its_sum():
    widget, words = made.of_heads(), [*range(1, 6)]  # between [CLS] and [SEP]
    before = widget.shown()
    widget.hide_special = True
    assert widget.shown().equal(select_cells(before, words, words))
    assert_close(widget.shown().sum(-1), torch.ones(5, dtype=torch.float64))
    assert widget._table()[1] == list(WORDS)
    assert repr(widget).endswith("3 heads; layer 1, head 0: 5 tokens, weights 0.00 to 0.94)")


# A function explored


def angles_of(dimensions: int, base: float) -> torch.Tensor:
    """(L, E / 2): how far the hand of each pair has turned at each of eleven positions."""
    pairs = [base ** (-2 * j / dimensions) for j in range(dimensions // 2)]
    return torch.arange(11)[:, None] * torch.tensor(pairs, dtype=torch.float64)


@pytest.mark.parametrize(("dimensions", "base"), [(4, 100.0), (8, 1e4), (64, 1e6)])
def test_positions_show_the_sinusoid_and_the_dot_products_of_two(dimensions, base):
    widget = widgets.PositionExplorer(dimensions, 11, position=7)
    widget.base = base
    angles = angles_of(dimensions, base)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    assert_close(widget.shown(), pairs)
    assert_close(widget.similarity(), (angles[7] - angles).cos().sum(-1))
    assert widget.meeting() == pytest.approx(float(widget.similarity()[7 - 5]))


@pytest.mark.parametrize("scheme", ["rotary", "none"])
@pytest.mark.parametrize("unlike", [False, True])
def test_positions_show_a_query_at_each_and_its_scores_with_a_key(scheme, unlike):
    widget = widgets.PositionExplorer(8, 11, position=3)
    widget.scheme, widget.unlike = scheme, unlike
    turns = angles_of(8, widget.base) * (scheme == "rotary")  # of the query (1, 0)
    assert_close(widget.shown(), torch.stack([turns.cos(), turns.sin()], dim=-1).flatten(1))
    apart = 2.4 * torch.arange(1, 5).double() * unlike  # of key and query in each pair
    assert_close(widget.similarity(), (turns[3] - turns - apart).cos().sum(-1))
    spread = float(widget.similarity().max() - widget.similarity().min())
    assert (spread < 1e-9) == (scheme == "none")


@pytest.mark.parametrize("head", [0, 3, 7])
def test_alibi_shows_a_head_s_bias_and_its_weights_where_scores_are_alike(head):
    widget = widgets.PositionExplorer(8, 9, position=6)
    widget.scheme, widget.pair = "alibi", head
    bias = [[-abs(i - j) / 2 ** (head + 1) for j in range(9)] for i in range(9)]
    assert widget.shown().tolist() == bias
    exps = [math.exp(b) for b in bias[6]]
    assert widget.similarity().tolist() == pytest.approx([e / sum(exps) for e in exps])
    assert f"head {head} of slope {1 / 2 ** (head + 1):g}: positions 6 and 1 give" in repr(widget)
    for widget.position, widget.distance in ((6, 7), (7, -5)):
        assert widget.meeting() is None
        assert "do not meet" in repr(widget)


def test_every_frame_on_the_page_is_what_the_function_gives():
    frames = decode(page_state(made.of_function())["frames"])
    grid = [(w, c, f) for w in (0.5, 1, 1.5, 2) for c in (False, True) for f in ("round", "sharp")]
    assert frames.shape == (16, 5, 5)
    for frame, (width, causal, falls) in zip(frames, grid, strict=True):
        expected = made.near(width, causal, falls).double()
        assert_close(frame, expected, atol=1 / 65535 + 1e-7, rtol=0)


def test_a_whole_number_from_the_browser_reaches_the_function_as_the_choice_it_stands_for():
    seen = []

    def function(width):
        seen.append(width)
        return torch.full((2, 2), 0.5)

    widget = widgets.explore(function, width=(0.5, 1.5, 0.5))
    widget.values = {"width": 1}  # JSON knows no 1.0
    assert [type(width) for width in seen] == [float] * len(seen)
    assert repr(widget) == "Explorer(width=1.0; 2 queries x 2 keys)"


@given(st.integers(-50, 50), st.integers(1, 40), st.sampled_from([1, 0.5, 0.1, 0.05, 0.3]))
def test_a_slider_holds_both_its_ends_and_equal_steps_between(low, steps, step):
    high = round(low + steps * step, 10)
    widget = widgets.explore(lambda x: torch.eye(1), x=(low, high, step))
    choices = widget.data["controls"][0]["choices"]
    assert len(choices) == steps + 1
    assert choices == pytest.approx([low + n * step for n in range(steps + 1)])
    assert (choices[0], choices[-1]) == (low, pytest.approx(high))


@pytest.mark.parametrize(
    ("controls", "losses", "wrong"),
    [
        ({"n": [1, 2]}, [1.0, 0.5], "needs a slider"),
        ({"n": (1, 3, 1)}, [1.0, 0.5], "slider's 3 positions, got 2"),
        ({"n": (1, 2, 1)}, [1.0, math.nan], "finite number"),
    ],
)
def test_a_curve_has_a_finite_number_for_each_position_of_the_first_slider(controls, losses, wrong):
    with pytest.raises(ValueError, match=wrong):
        widgets.explore(lambda n: torch.eye(2), curve=("loss", losses), **controls)
    steps = {"box": True, "n": (1, 2, 1), "m": (1, 3, 1)}
    widget = widgets.explore(
        lambda **_: torch.eye(2), curve=("loss", torch.tensor([2, 1])), **steps
    )
    assert widget.data["curve"] == {"label": "loss", "values": [2.0, 1.0]}


def test_what_a_function_raises_live_is_shown_and_the_last_map_stays():
    widget = widgets.explore(lambda n: torch.full((2, 2), 0.5 / (n - 2)), n=[3, 2, 4])
    widget.values = {"n": 2}
    assert widget.error.startswith("ZeroDivisionError")
    assert widget.shown() == pytest.approx(0.5, abs=1e-4)
    widget.values = {"n": 4}
    assert widget.error == ""
    assert widget.shown() == pytest.approx(0.25, abs=1e-4)


MANY = {"a": (0, 9, 1), "b": (0, 6, 1), "c": [1, 2, 3], "d": True}


@pytest.mark.parametrize(("size", "controls"), [(8, {"a": (0.0, 1.0, 0.001)}), (30, MANY)])
def test_too_many_frames_are_refused_with_a_grid_that_fits(size, controls):
    explored = partial(widgets.explore, lambda **_: torch.eye(size), page=True)
    with pytest.raises(ValueError, match="beyond 100 kB of a page; ") as caught:
        explored(**controls)
    grid, names = re.search(r"; ([\dx ]+) would fit \(([^)]*)\)", str(caught.value)).groups()
    assert names.split(", ") == list(controls)
    fitting = [list(range(int(count))) for count in grid.split(" x ")]
    state = page_state(explored(**dict(zip(controls, fitting, strict=True))))
    assert len(state["frames"]["b64"]) <= 100_000


def test_without_a_page_a_function_of_any_size_is_called_once_a_move_and_its_prints_shown(capsys):
    def function(n):
        print("called with", n)  # noqa: T201
        return torch.eye(300)

    widget = widgets.explore(function, n=(0, 1000, 1))
    assert page_state(widget)["frames"] is None
    assert capsys.readouterr().out == "called with 0\n"  # nor does displaying it call the function
    widget.values = {"n": 2}
    assert widget.printed == "called with 2\n"


def test_a_move_interrupts_a_slow_call_and_the_newest_is_answered():
    started, ended = [], []

    def slow(n):
        started.append(n)
        for _ in range(2000 if 0 < n < 9 else 1):  # 20 s in all but the first and the last
            time.sleep(0.01)
        ended.append(n)
        return torch.full((2, 2), n / 10)

    widget = widgets.explore(slow, n=[*range(10)])
    began = time.monotonic()
    for n in (1, 2, 3, 9):
        widget.set_state({"values": {"n": n}})
    while widget.answered != {"n": 9} and time.monotonic() < began + 15:
        time.sleep(0.01)
    assert widget.answered == {"n": 9}
    assert widget.shown() == pytest.approx(0.9, abs=1e-4)
    assert ended == [0, 9]
    assert set(started) <= {0, 1, 9}  # of those that waited only the newest began


OF_A_RANGE = (traitlets.Int, traitlets.Float, traitlets.Enum, Offered)
WITHOUT_END = {"row", "column", "query"}  # a page shows what it can of them
TWO_ENDS = {
    "bandwidth",
    "layers",
    "num_layers",
    "pair",
    "seed",
    "temperature",
    "tile",
    "top_p",
}


@every_widget
def test_a_number_out_of_range_and_a_choice_that_is_not_offered_are_refused(make):
    widget = make()
    for name in {*page_state(widget)} - WITHOUT_END - {"frames"}:
        if isinstance(widget.traits()[name], OF_A_RANGE):
            for wrong in (-(10**6), *[10**6] * (name in TWO_ENDS)):
                with pytest.raises(traitlets.TraitError, match=name):
                    setattr(widget, name, wrong)


@pytest.mark.parametrize("call", WRONG)
def test_wrong_input_is_refused(call):
    """By an error of our own, and not by torch's or JSON's later on."""
    with pytest.raises((ValueError, TypeError, traitlets.TraitError)):
        call()


def test_a_learned_score_that_reads_other_widths_is_refused_before_a_page_draws_it():
    with pytest.raises(RuntimeError, match="shapes"):
        widgets.ScoreExplorer((0, 0), torch.eye(2), additive=AdditiveScore(3, 2, 4))


# The front-end files

# Markup, the network, modules; the linter finds code from text.
FORBIDDEN = (
    r"(inner|outer)HTML|insertAdjacentHTML|document\.write|DOMParser|ContextualFragment",
    r"https?:|\bfetch\b|XMLHttpRequest|WebSocket|sendBeacon|\.src\s*=|importScripts",
    r"^\s*import\b|\bimport\(|\brequire\(",
)


def test_script_and_style_sheet_load_nothing_and_the_script_exports_nothing():
    script = widgets.page_script()
    assert max(map(len, script.splitlines())) <= 120
    for pattern in (*FORBIDDEN, r"\bexport\b", "(?i)</script"):
        assert re.findall(pattern, script, re.MULTILINE) == []
    assert not re.search(r"url\(|@import|https?:", widgets.page_style())


def test_each_widget_s_module_exports_one_render_and_is_small_enough_to_travel_live():
    for name in assets.WIDGETS:
        source = assets.module_source(name)
        assert source.count("export") == source.count("export default { render };") == 1
        assert len(source) < 150_000
