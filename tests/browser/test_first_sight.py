"""What a reader of chapters 1 to 4 sees first of a widget, and what is folded, named and held."""

import itertools
import math
import re

import pytest
import torch

from attn_notes.masks import masked_softmax
from attn_widgets import AlignmentSteps, AttentionHeatmap, KernelExplorer, ScoreExplorer, page_style
from attn_widgets.assets import ELEMENT, reserve_room
from tests.browser.bare import page_of
from tests.browser.journeys import assert_shown
from tests.browser.panel import Panel, number, settle, watched, written
from tests.widgets import EVERY, decoded, of_arrows, of_mask, of_points, of_scores, scores

NAMES = (
    *(
        "points",
        "arrows",
        "scores",
        "layers",
        "mask",
        "steps",
        "memory",
        "budget",
        "positions",
        "online",
        "follow",
    ),
)
MOST = 3  # controls, or groups of buttons, that stand there at first
TALL = 40  # pixels of a picture
WIDE = "document.body.style.maxWidth = '906px'"  # as wide as a widget with the book's margin

# The controls that are seen, a group of buttons with its slider as one; of single buttons, each.
SEEN = """(el) => [...el.querySelectorAll(".attn-controls")]
  .filter((row) => !row.parentElement.closest(".attn-controls"))
  .flatMap((row) => [...row.children])
  .filter((one) => one.matches("button, .attn-control, [role=group]") && one.checkVisibility())
  .map((one) => [one.textContent, one.getBoundingClientRect().top])"""

# How much of each cell is drawn on, and in which colours: the hatching of one looks like another's.
INKED = """async (canvas, places) => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return places.map(([x, y]) => {
    const { data } = pen.getImageData(x - 12, y - 12, 24, 24);
    const alphas = [...data].filter((_, n) => n % 4 === 3), sum = alphas.reduce((a, b) => a + b, 0);
    return [sum / alphas.length, Math.max(...alphas)];
  });
}"""


# Order and number


@pytest.mark.parametrize("name", NAMES)
def test_a_few_controls_are_seen_at_first_and_the_rest_is_one_fold_away(visit, bare, name):
    panel = Panel(visit(bare(name)))
    seen = [text for text, _ in panel.el.evaluate(SEEN)]
    assert 1 <= len(seen) <= MOST, seen
    folds = panel.el.locator("details.attn-more")
    assert not any(fold.get_attribute("open") for fold in folds.all())
    for fold in folds.all():
        fold.locator("summary").press("Enter")
    assert len(panel.el.evaluate(SEEN)) >= len(seen) + (folds.count() > 0)


@pytest.mark.parametrize("name", [*NAMES, "family"])
def test_on_a_phone_the_picture_stands_above_its_controls(visit, bare, name):
    panel = Panel(visit(bare(name), width=390, height=844))
    tops = [top for _, top in panel.el.evaluate(SEEN)]
    boxes = [canvas.bounding_box() for canvas in panel.el.locator("canvas:visible").all()]
    first = min(box["y"] for box in boxes if box["height"] >= TALL)
    assert first < min(tops)
    assert first - panel.el.bounding_box()["y"] < 80


def test_a_picture_stays_in_view_on_a_phone_unless_it_is_too_tall(visit, bare):
    page = visit(bare("points"), width=390, height=844)
    page.evaluate("document.body.style.paddingBottom = '2000px'")
    picture = page.locator(".attn-picture")
    for height, stays in ((844, True), (500, False)):
        page.set_viewport_size({"width": 390, "height": height})
        query = Panel(page).control("Query")
        query.evaluate("(one) => scrollTo(0, one.getBoundingClientRect().top + scrollY - 450)")
        settle(page)
        assert (picture.bounding_box()["y"] == 0) == stays


@pytest.mark.parametrize(
    "name", ["points", "arrows", "scores", "player", "switches", "positions", "online"]
)
def test_every_minus_sign_is_one(visit, bare, name):
    panel = watched(visit, bare(name))
    for label in {*panel.labels()} & {"Query", "Arrow x", "Point y"}:
        panel.press(label, "Home")
    for nth in range(panel.el.locator("details.attn-table:visible").count()):
        panel.table(nth)
    on_canvas = panel.page.evaluate("written.map(({ text }) => text)")
    shown = [panel.el.inner_text(), *map(str, on_canvas)]
    assert not [text for text in shown if re.search(r"(?<![\w\u2069])-\d", text)]
    assert any("\u2212" in text for text in shown) == (name != "scores")


def test_an_element_is_found_with_its_kind_and_takes_the_room_that_is_measured():
    for make in EVERY.values():
        widget = make()
        element = widget.page_html()
        assert ELEMENT.findall(element) == [widget._widget]
        two = reserve_room(element * 2, [{"wide": 700, "touch": 900}])
        sized = '<attn-widget style="--attn-wide: 700px; --attn-touch: 900px">'
        assert two == element.replace("<attn-widget>", sized, 1) + element
    for kind in re.findall(r'data-widget="(\w+)"', page_style()):
        assert kind in {make()._widget for make in EVERY.values()}


# The kernel


def bar_heights(panel: Panel) -> list[float]:
    """How high the bars stand on the canvas, of which 80 pixels are a weight of 1."""
    panel.page.evaluate("window.bars = []")
    panel.page.evaluate("""() => {
      const { fillRect } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillRect = function (x, y, w, height) {
        if (w === 4) bars.push(height);
        fillRect.call(this, x, y, w, height);
      };
    }""")
    panel.page.evaluate("document.documentElement.dataset.theme = 'dark'")  # all is drawn anew
    settle(panel.page)
    return panel.page.evaluate("bars.splice(0)")


@pytest.mark.parametrize("width", [0.02, 0.3, 10.0])
def test_the_bars_are_as_high_as_the_weights_and_their_axis_ends_at_1(visit, tmp_path, width):
    widget = of_points()
    widget.bandwidth = width
    panel = watched(visit, page_of(tmp_path, widget.page_html()))
    weights, found = widget.predict()[1], bar_heights(panel)
    assert len(found) == len(weights)
    assert found == pytest.approx((80 * weights).tolist(), abs=1.0)
    texts = [text for text, *_ in written(panel, panel.el.locator("canvas").first)]
    assert {"0", "0.5", "1"} <= {*texts}
    assert f"{float(weights.max()):.3f}" in texts


def test_the_knob_says_that_it_can_be_dragged_until_it_has_been(visit, bare):
    panel = watched(visit, bare("points"))
    plot = panel.el.locator("canvas").first

    def invites() -> bool:
        return any("drag" in text for text, *_ in written(panel, plot))

    assert invites()
    panel.press("Width", "ArrowRight")
    assert invites()
    panel.press("Query", "ArrowRight")
    assert not invites()
    panel.press("Query", "ArrowLeft")
    assert not invites()


def test_fifty_keys_are_named_upright_and_apart(visit, tmp_path):
    x = torch.linspace(-2, 5, 50)
    address = page_of(tmp_path, KernelExplorer(x, x.sin()).page_html())
    for width in (390, 900):
        panel = watched(visit, address, width=width)
        names = written(panel, panel.map())
        assert not any(turned for text, turned, _ in names if not text.startswith("queries"))
        keys = {f"{value:.2f}".replace("-", "\u2212") for value in x.tolist()}
        boxes = sorted(box for text, _, box in names if text in keys and box[1] > 20)
        assert 4 <= len(boxes) < 25
        assert all(left[2] + 4 < right[0] for left, right in itertools.pairwise(boxes))


def test_a_point_is_chosen_and_moved_by_keys_on_the_plot(visit, bare):
    panel, widget = Panel(visit(bare("points"))), of_points()
    plot, said = panel.el.locator("canvas").first, panel.el.locator(".attn-hint")
    assert said.get_attribute("role") == "status"
    order = sorted(range(len(widget.xs)), key=widget.xs.__getitem__)
    plot.focus()
    for key, place in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        panel.page.keyboard.press(key)
        assert panel.value("Point") == order[place]
        plot.focus()
    n, before = order[1], panel.picture()
    span = [float(panel.control("Query").get_attribute(end)) for end in ("min", "max")]
    stride = (span[1] - span[0]) / 100
    x, y = widget.xs[n], widget.ys[n]
    plot.focus()
    panel.page.keyboard.press("Shift+ArrowLeft")
    panel.page.keyboard.press("Shift+ArrowUp")
    moved = [number(text) for text in re.findall(r"[xy] (\u2212?\d+\.\d\d)", said.inner_text())]
    assert moved[0] == pytest.approx(max(span[0], x - stride), abs=0.0051)
    assert moved[1] > y
    assert panel.picture() != before
    weight = float(re.search(r"weight (\d\.\d+)", said.inner_text())[1])
    table = panel.table()
    column = 1 + sorted([moved[0], *(v for m, v in enumerate(widget.xs) if m != n)]).index(moved[0])
    assert weight == pytest.approx(float(table[1][column]), abs=0.0011)


# The score


def overlap(a: list[float], b: list[float]) -> float:
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, across) * max(0.0, down)


def test_the_square_is_called_output_and_no_name_lies_on_another(visit, tmp_path):
    points = [[1.7, 0.3], [0.5, 1.3], [-1.3, 0.7], [-0.4, -1.3], [0.4, -0.3]]
    address = page_of(
        tmp_path, ScoreExplorer((1.0, 0.6), points, key_tokens=[*"abcde"]).page_html()
    )
    for width in (390, 900):
        panel = watched(visit, address, width=width)
        plane = panel.el.locator("canvas").first
        for step in range(12):
            angle = 2 * math.pi * step / 12
            x, y = (1 + step % 3 * 0.7) * math.cos(angle), (1 + step % 3 * 0.7) * math.sin(angle)
            panel.page.evaluate(
                "(query) => document.querySelector('attn-widget').model.set('query', query)", [x, y]
            )
            names = written(panel, plane)
            assert {text for text, *_ in names} == {*"abcde", "query", "output"}
            boxes = [box for *_, box in names]
            for n, box in enumerate(boxes):
                assert not any(overlap(box, other) for other in boxes[:n]), (step, names)


def test_an_arrow_is_chosen_and_moved_by_keys_on_the_plane(visit, bare):
    panel, widget = Panel(visit(bare("arrows"))), of_arrows()
    plane = panel.el.locator("canvas").first
    plane.focus()
    for key in ("Shift+ArrowRight", "Shift+ArrowDown", "ArrowRight", "End", "Shift+ArrowLeft"):
        panel.page.keyboard.press(key)
    last = widget.key_vectors[-1]
    moved = [round(last[0] - 0.05, 4), last[1]]
    keys = [*widget.key_vectors[:-1], moved]
    assert_shown(panel, widget, query=[1.05, 0.55], key_vectors=keys, arrow=len(keys) - 1)
    assert "\u201c\u2068arrow\u2069\u201d: x " in panel.el.locator(".attn-hint").inner_text()


# The mask


def test_a_window_s_past_is_hatched_as_its_future_is(visit, tmp_path):
    widget = of_mask()
    widget.second, widget.second_size = "window", 2
    panel = Panel(visit(page_of(tmp_path, widget.page_html())))
    for nth in (0, 1):
        found = panel.cells(nth)

        def place(i: int, j: int, found: dict = found) -> list[float]:
            return [found["columns"][j], found["rows"][i]]

        past, future, open_cell = panel.map(nth).evaluate(
            INKED, [place(4, 0), place(0, 4), place(2, 2)]
        )
        assert 0 < past[0] < 120
        assert past == pytest.approx(future, rel=0.1)
        assert open_cell[0] > 200


def test_a_link_unfolds_what_it_sets(visit, bare):
    panel = Panel(visit(f"{bare('mask')}#mask?second=window&layers=5"))
    settle(panel.page)
    folds = panel.el.locator("details.attn-more")
    assert [fold.get_attribute("open") is not None for fold in folds.all()] == [False, True, True]
    assert panel.el.locator(".attn-heatmap canvas:visible").count() == 3


# The heatmap


def sentence(panel: Panel) -> list[tuple[str, str]]:
    words = panel.el.locator(".attn-word").all()
    return [
        (one.locator("bdi").inner_text(), one.locator(".attn-share").text_content())
        for one in words
    ]


def assert_sentence(panel: Panel, widget: AttentionHeatmap, row: int) -> None:
    tokens, weights, mask = widget.data["queries"], widget.shown()[row], widget._mask()
    expected = [
        (token, f"{float(weight):.2f}" if mask is None or mask[row, n] else "masked")
        for n, (token, weight) in enumerate(zip(tokens, weights, strict=True))
    ]
    assert sentence(panel) == expected
    heading = panel.el.locator(".attn-row .attn-heading").inner_text()
    assert heading == f"\u201c\u2068{tokens[row]}\u2069\u201d reads"
    fills = panel.el.locator(".attn-word").evaluate_all(
        "(all) => all.map((one) => Number(one.style.getPropertyValue('--attn-weight')))"
    )
    assert fills == pytest.approx(weights.tolist(), abs=1e-6)


def test_the_row_that_is_pointed_at_is_read_as_a_sentence_beside_the_map(visit, bare):
    panel, widget = Panel(visit(bare("scores"))), of_scores()
    assert_sentence(panel, widget, 0)
    found = panel.cells()
    panel.point_at(0, 3, 1, found)
    assert_sentence(panel, widget, 3)
    panel.page.mouse.move(1, 1)
    assert_sentence(panel, widget, 3)  # and stays
    panel.map().press("PageUp")
    assert_sentence(panel, widget, 0)
    panel.map().press("ArrowDown")
    panel.press("Temperature", "ArrowRight")
    widget.temperature = number(panel.output("Temperature"))
    assert_sentence(panel, widget, 1)
    box, at = panel.el.locator(".attn-row").bounding_box(), panel.map().bounding_box()
    assert box["x"] >= at["x"] + found["columns"][-1]
    panel.page.set_viewport_size({"width": 390, "height": 844})
    settle(panel.page)
    assert panel.el.locator(".attn-row").bounding_box()["y"] > panel.map().bounding_box()["y"]


def test_a_map_without_words_or_with_many_has_no_sentence(visit, tmp_path):
    numbered = AttentionHeatmap(masked_softmax(scores(4, 4)))
    tokens = [f"w{n}" for n in range(70)]
    many = AttentionHeatmap(masked_softmax(scores(70, 70)), query_tokens=tokens)
    page = visit(page_of(tmp_path, numbered.page_html(), many.page_html()))
    assert page.locator(".attn-root").count() == 2
    assert page.locator(".attn-row").count() == 0


# The alignment


def test_the_steps_open_where_their_caller_says_with_the_map_beside_the_arcs(visit, tmp_path):
    examples = [decoded(["a", "b"]), decoded([*"vwxyz"], seed=3)]
    widget = AlignmentSteps(examples, example=1, step=2)
    panel = Panel(visit(page_of(tmp_path, widget.page_html()), width=1280))
    panel.page.evaluate(WIDE)
    settle(panel.page)
    assert_shown(panel, widget)
    assert panel.output("Step") == "3 of 5"
    arcs, beside = (
        panel.el.locator(f"{one} canvas").bounding_box()
        for one in (".attn-links", ".attn-map .attn-heatmap")
    )
    assert beside["x"] >= arcs["x"] + arcs["width"] - 6
    assert beside["y"] < arcs["y"] + arcs["height"]
    panel.page.set_viewport_size({"width": 390, "height": 844})
    settle(panel.page)
    arcs, below = (
        panel.el.locator(f"{one} canvas").bounding_box()
        for one in (".attn-links", ".attn-map .attn-heatmap")
    )
    assert below["y"] > arcs["y"] + arcs["height"]


def test_a_menu_with_nothing_to_choose_is_not_there(visit, tmp_path):
    one = AlignmentSteps([decoded(["a", "b"])])
    page = visit(page_of(tmp_path, one.page_html()))
    assert not {"Example"} & {*Panel(page).labels()}
