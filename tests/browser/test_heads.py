"""All heads of an encoder: chosen in the grid, walked by token, found by what they read."""

import re

import matplotlib as mpl
import pytest
from torch import Tensor

from attn_notes import palette
from attn_notes.patterns import PATTERNS, select_cells
from attn_notes.widgets import HeadExplorer
from tests.browser.journeys import COLOUR, FIND, HIDE, assert_shown, scores_of
from tests.browser.panel import PIXELS, Panel, recording, strengths
from tests.widgets import of_heads


def grid_of(panel: Panel):
    return panel.el.get_by_role("application", name="All 6 heads")


def links_of(panel: Panel):
    return panel.el.locator(".attn-links canvas")


def said(panel: Panel) -> str:
    return panel.el.locator(".attn-said").nth(1).inner_text()


def all_shown(widget: HeadExplorer) -> Tensor:
    """(layers, heads, L, S): the weights of all heads, without special tokens if hidden."""
    return select_cells(widget.weights, *widget._kept())


def reader(panel: Panel) -> str:
    """The token whose links are shown."""
    return re.match("\u201c\u2068(.*?)\u2069\u201d reads ", said(panel))[1]


# Heads


def test_the_grid_can_be_walked_and_clicked(visit, bare):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    grid = grid_of(panel)
    walk = {"ArrowUp": (0, 0), "ArrowRight": (0, 1), "ArrowDown": (1, 1), "ArrowLeft": (1, 0)}
    for key, (layer, head) in walk.items():
        grid.press(key)
        widget.layer, widget.head = layer, head
        assert (panel.value("Layer"), panel.value("Head")) == (layer, head)
        assert_shown(panel, widget)
    grid.press("ArrowDown")  # there is no third layer
    assert panel.value("Layer") == 1
    wide, tall = Cells(panel, 7).size
    grid.click(position={"x": 22 + 2.5 * wide, "y": 0.5 * tall})
    widget.layer, widget.head = 0, 2
    assert_shown(panel, widget)


class Cells:
    """Where the cells of the grid's maps lie: it is as wide as 160 pixels and its two labels."""

    def __init__(self, panel: Panel, tokens: int) -> None:
        self.canvas, self.tokens = grid_of(panel), tokens
        self.pitch = 160 / (3 * (tokens + 1))
        self.size = ((tokens + 1) * self.pitch,) * 2

    def place(self, layer: int, head: int, i: float, j: float) -> list[float]:
        across = 22 + (head * (self.tokens + 1) + j + 0.5) * self.pitch
        return [across, (layer * (self.tokens + 1) + i + 0.5) * self.pitch]


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_every_cell_of_the_grid_is_coloured_by_its_weight(visit, bare, hide, shared):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    panel.press(FIND, "Home")  # nothing is faded
    if hide:
        panel.press(HIDE, "Space")
    if shared:
        panel.press(COLOUR, "Space")
    widget.hide_special = hide
    weights = all_shown(widget)
    L, top = weights.shape[-1], float(weights.max()) if shared else 1.0
    cells, cividis = Cells(panel, L), mpl.colormaps["cividis"]
    for layer, head in ((0, 0), (0, 2), (1, 1), (1, 2)):  # (1, 0) is framed
        inner = [(i, j) for i in range(1, L - 1) for j in range(1, L - 1)]  # no frame over these
        pixels = cells.canvas.evaluate(PIXELS, [cells.place(layer, head, *at) for at in inner])
        for (i, j), pixel in zip(inner, pixels, strict=True):
            level = round(255 * float(weights[layer, head, i, j]) / top)
            near = [cividis(n) for n in range(max(level - 1, 0), min(level + 2, 256))]
            assert pixel in [[round(255 * part) for part in colour] for colour in near]


def test_the_best_heads_are_framed_and_the_others_fade_with_their_score(visit, bare):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    scores, cells = scores_of(widget), Cells(panel, 7)
    frame = [int(palette.CATEGORICAL[3][n : n + 2], 16) for n in (1, 3, 5)]
    paper = [int(palette.LIGHT["paper"][n : n + 2], 16) for n in (1, 3, 5)]
    worst = int(scores.argmin())
    cividis = mpl.colormaps["cividis"]
    for n in range(6):
        layer, head = divmod(n, 3)
        wide, tall = cells.size
        edge = [[22 + (head + 1) * wide - back / 2, (layer + 0.5) * tall] for back in range(1, 7)]
        pixels = cells.canvas.evaluate(PIXELS, edge)
        if (layer, head) != (1, 0):  # which is chosen, and framed as that
            near = [pixel[:3] == pytest.approx(frame, abs=12) for pixel in pixels]
            assert any(near) == (n != worst)
        (pixel,) = cells.canvas.evaluate(PIXELS, [cells.place(layer, head, 3, 4)])
        bare_colour = cividis(round(255 * float(all_shown(widget)[layer, head, 3, 4])))
        faded = 0.7 * (1 - float(scores[layer, head] / scores.max()))
        for part, under, over in zip(pixel, bare_colour, paper, strict=False):
            assert part == pytest.approx(255 * under * (1 - faded) + over * faded, abs=3)


# Finding


@pytest.mark.parametrize("pattern", [*PATTERNS, "focused", "spread"])
def test_the_best_five_are_listed_and_a_press_jumps_there(visit, bare, pattern):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    panel.press(
        FIND, "Home", *["ArrowDown"] * (1 + [*PATTERNS, "focused", "spread"].index(pattern))
    )
    widget.pattern = pattern
    scores = scores_of(widget)
    best = scores.flatten().argsort(descending=pattern != "focused")[:5].tolist()
    buttons = panel.el.locator(".attn-best button")
    expected = [f"{n // 3}.{n % 3}: {float(scores.flatten()[n]):.2f}" for n in best]
    assert buttons.all_inner_texts() == expected
    panel.table()  # unfolded first: that takes the focus
    for n in (4, 0, 2):
        buttons.nth(n).press("Enter")
        widget.layer, widget.head = divmod(best[n], 3)
        assert_shown(panel, widget)
        pressed = [one.get_attribute("aria-pressed") for one in buttons.all()]
        assert pressed == [str(m == n).lower() for m in range(5)]
        assert buttons.nth(n).evaluate("(button) => button === document.activeElement")


def test_the_scores_of_all_heads_are_a_table_too(visit, bare):
    panel, widget = Panel(visit(bare("heads"))), of_heads()
    for keys, pattern in (([], "previous"), (["End"], "spread"), (["Home"], "")):
        panel.press(FIND, *keys)
        table = panel.el.locator("details.attn-table").nth(1)
        assert table.is_visible() == bool(pattern)
        if pattern:
            widget.pattern = pattern
            _, *rows = panel.table(1)
            assert [[float(cell) for cell in row[1:]] for row in rows] == [
                pytest.approx(row, abs=0.0011) for row in scores_of(widget).tolist()
            ]


# Tokens


def test_the_token_pointed_at_in_the_links_or_the_map_is_shown_and_stays(visit, bare):
    panel = Panel(visit(bare("heads")))
    tokens, mouse = of_heads()._picture()["query_tokens"], panel.page.mouse
    box = links_of(panel).bounding_box()
    seen = []
    for x in range(int(box["x"]), int(box["x"] + box["width"]), 5):
        mouse.move(x, box["y"] + box["height"] - 34)
        seen.append(reader(panel))
    changes = [token for n, token in enumerate(seen) if n == 0 or token != seen[n - 1]]
    assert changes[-7:] == tokens
    mouse.move(box["x"], box["y"] - 80)
    assert reader(panel) == "[SEP]"
    found = panel.cells()
    for row in (0, 4, 2):
        panel.point_at(0, row, 1, found)
        assert reader(panel) == tokens[row]
        assert f"(row {row})" in panel.readout()
    mouse.move(2, 2)
    assert reader(panel) == tokens[2]


@pytest.mark.parametrize("shared", [False, True])
def test_links_are_as_strong_as_the_weights(visit, bare, shared):
    page = recording(visit, bare("heads"))
    panel, widget = Panel(page), of_heads()
    if shared:
        panel.press(COLOUR, "Space")
    for token in (3, 4):
        page.evaluate("curves.splice(0)")
        links_of(panel).press("ArrowRight")
        weights = widget.shown()
        top = float(all_shown(widget).max()) if shared else 1.0
        strong = [min(1, float(w) / top) for w in weights[token] if w / top > 0.004]
        assert strengths(page, "accent") == pytest.approx(strong, abs=1e-4)


# Sentences


def test_sentences_are_named_by_their_words_and_the_typed_one_comes_last(visit, bare):
    panel = Panel(visit(bare("heads")))
    options = panel.control("Sentence").locator("option")
    named = ["time flies like an arrow", "a rose is a rose", "unlikely", "what you typed"]
    assert options.all_inner_texts() == named
    assert options.last.is_disabled()
    assert "the model reads what you type" in panel.el.inner_text()
    plain = Panel(visit(bare("heads-plain")))
    assert plain.control("Sentence").count() == 0
    assert "what you type" not in plain.el.inner_text()
