"""What a notebook stores of a figure, and what a page shows, is the figure that was drawn."""

import io
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.pyplot as plt
import nbclient
import nbformat
import pytest
import torch
from docutils import nodes

from attn_notes import palette
from attn_notes.plotting import NO_METADATA, STYLE, plot_attention
from tests.colours import css_variables
from tests.hostile import HOSTILE
from tools.stills import tidy

EXTENSIONS = Path(__file__).parents[1] / "book" / "_ext"
SVG, HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
TOKENS = ["a", "b\N{COMBINING ACUTE ACCENT}", "c & d", "<e>", "f g", "$h$"]


@pytest.fixture
def inlined(monkeypatch):
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    from attn_stills import inlined

    yield inlined
    del sys.modules["attn_stills"]


@pytest.fixture
def caption(monkeypatch):
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    from attn_stills import CaptionWidgets

    yield CaptionWidgets.caption
    del sys.modules["attn_stills"]


def drawn(*tokens: str) -> str:
    """A map under a causal mask with a curve over it, as matplotlib writes it."""
    with plt.rc_context(STYLE):
        size, file = len(tokens), io.StringIO()
        mask = torch.ones(size, size, dtype=torch.bool).tril()
        ax = plot_attention(torch.eye(size), query_tokens=tokens, mask=mask, title="A title")
        ax.plot(range(size), range(size), "o--", label="curve", color="0.5")
        ax.figure.legend()
        ax.figure.savefig(file, format="svg", metadata=NO_METADATA)
        plt.close("all")
    return file.getvalue()


def words(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def paths(svg: str) -> list[list[float]]:
    """The coordinates of every path that has ink or is named."""
    shapes = ET.fromstring(svg).iter(f"{SVG}path")
    return [
        [float(number) for number in re.findall(r"-?[\d.]+", shape.get("d"))]
        for shape in shapes
        if shape.get("style") != "fill: none"
    ]


def references(svg: str) -> tuple[set[str], list[str]]:
    """What a drawing refers to within itself, and the ids that it has."""
    elements = list(ET.fromstring(svg).iter())
    said = " ".join(f"{key}={text}" for one in elements for key, text in one.attrib.items())
    used = set(re.findall(r"url\(#([^)]+)\)", said)) | set(re.findall(r"href=#(\S+)", said))
    return used, [one.get("id") for one in elements if one.get("id")]


def test_a_tidy_drawing_has_every_word_image_and_path_and_is_smaller():
    raw = drawn(*TOKENS)
    svg = tidy(raw)
    assert words(svg) == words(raw)
    assert words(svg)[:3] == TOKENS[:3]
    assert sum(map(len, paths(svg))) == sum(map(len, paths(raw))) > 100
    for ours, theirs in zip(paths(svg), paths(raw), strict=True):
        assert ours == pytest.approx(theirs, abs=0.0051)
    images = [re.sub(r"\s", "", "".join(re.findall(r"base64,[^\"]*", one))) for one in (raw, svg)]
    assert images[0] == images[1] != ""
    assert len(svg) < 0.7 * len(raw)


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font:UserWarning")
@pytest.mark.parametrize("tokens", [TOKENS, [f"t{i}" for i in range(20)], list(HOSTILE)])
def test_its_ids_are_those_it_refers_to_and_tidying_again_changes_nothing(tokens):
    svg = tidy(drawn(*tokens))
    used, ids = references(svg)
    assert sorted(used) == sorted(ids)
    assert len(used) >= 3  # a hatch, a clip, a mark
    assert tidy(svg) == svg
    assert svg == tidy(drawn(*tokens))


def test_a_page_shows_two_drawings_each_with_its_own_ids_and_words_for_who_does_not_see(inlined):
    svg = tidy(drawn(*TOKENS))
    pieces = [inlined(svg, name, 'a "map" of <e>') for name in ("one", "two")]
    for piece, name in zip(pieces, ("one", "two"), strict=True):
        used, ids = references(piece)
        assert sorted(used) == sorted(ids) == sorted(f"{name}-{i}" for i in references(svg)[1])
        (root,) = ET.fromstring(piece)  # in a frame that scrolls
        assert (root.get("role"), root.get("aria-label")) == ("img", 'a "map" of <e>')
        assert words(piece) == words(svg)
        assert "<style" not in piece  # it would hold for the whole page
        assert "font-family" not in piece


def test_an_inch_is_96_pixels_so_that_9_points_are_9_points(inlined):
    svg = tidy(drawn(*TOKENS))
    (root,) = ET.fromstring(inlined(svg, "one", ""))
    inches = float(re.search(r'width="([\d.]+)pt"', svg)[1]) / 72
    assert float(root.get("width")) == pytest.approx(96 * inches, abs=0.5)
    size = re.search(r"font-size: ([\d.]+)px", svg)[1]  # of the drawing: a point
    assert (float(size), root.get("viewBox").split()[2]) == (9, f"{72 * inches:.2f}".rstrip("0"))


def test_every_colour_of_the_palette_follows_the_page(inlined):
    colours = (*palette.CATEGORICAL, palette.NEGATIVE, palette.POSITIVE, palette.FIGURE_INK)
    style = "; ".join(f"stroke: {colour}" for colour in colours)
    svg = f'<svg xmlns="{SVG[1:-1]}" width="1pt" height="1pt"><path style="{style}"/></svg>'
    said = re.findall(r"stroke: var\(--attn-([\w-]+), (#\w+)\)", inlined(svg, "one", ""))
    known = css_variables(":root")
    assert [colour for _, colour in said] == list(colours)
    assert [known[name] for name, _ in said[:-1]] == list(colours[:-1])
    assert said[-1][0] == "muted"  # axes and words: 4.5 on light pages and on dark ones


def test_a_kernel_shows_the_same_drawing_in_every_run(monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the tests' own, which shows nothing
    source = "import torch; from attn_notes.plotting import plot_attention, use_style; use_style()"
    cells = [source, "plot_attention(torch.eye(3)).figure", "plot_attention(torch.eye(3)).figure"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    nbclient.execute(notebook, kernel_name="python3")
    first, again = (cell.outputs[0]["data"] for cell in notebook.cells[1:])
    assert first["image/svg+xml"] == again["image/svg+xml"]
    assert "image/png" not in first
    assert "metadata" not in first["image/svg+xml"]


# The caption of a widget


def cell_of(*classes: str) -> nodes.container:
    output = nodes.container("", nodes.raw("", "<attn-widget></attn-widget>", format="html"))
    return nodes.container("", nodes.container(), output, classes=["cell", *classes])


def words_of(text: str, *rest: nodes.Node) -> nodes.paragraph:
    return nodes.paragraph("", "", nodes.emphasis("", text), *rest)


@pytest.mark.parametrize(
    ("after", "captioned", "left"),
    [
        ([words_of("seen")], "seen", 0),  # moved: there is no still to keep it
        ([cell_of("tag_print-only"), words_of("seen")], "seen", 1),
        ([cell_of(), cell_of("tag_print-only"), words_of("seen")], "seen", 1),
        ([cell_of("tag_print-only", "tag_own-caption"), words_of("of a still")], "", 1),
        ([cell_of(), words_of("of another figure")], "", 1),
        ([words_of("Guess", nodes.Text(" and go on."))], "", 1),
        ([], "", 0),
    ],
)
def test_the_words_below_a_widget_are_those_that_follow_it_or_its_still(
    caption, after, captioned, left
):
    widget = cell_of()
    page = nodes.section("", widget, *(node.deepcopy() for node in after))
    caption(widget)
    found = [one for one in widget.findall(nodes.container) if "attn-caption" in one["classes"]]
    assert [one.astext() for one in found] == [captioned] * bool(captioned)
    assert len([one for one in page if isinstance(one, nodes.paragraph)]) == left
    for one in found:
        assert ("attn-instead" in one["classes"]) == bool(left)  # on paper the still has it
