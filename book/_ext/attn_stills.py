"""Figures of the notebooks, which are SVG, as a part of the page: sharp, and in its colours.

The palette's colours become the variables of the style sheet, so that one drawing serves light
pages, dark ones and paper; its text takes the page's sans.
"""

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, TypeGuard

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from attn_notes.palette import CATEGORICAL, FIGURE_INK, NEGATIVE, POSITIVE

SVG, HREF = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
GREYS = (FIGURE_INK, "#808080", "#999999")  # and matplotlib's "0.5" and "0.6"
HUES = {colour: f"--attn-category-{n}" for n, colour in enumerate(CATEGORICAL, 1)}
HUES |= {NEGATIVE: "--attn-negative", POSITIVE: "--attn-positive"}
COLOUR = re.compile(r"#[0-9a-f]{6}\b")
REFERENCE = re.compile(r"url\(#")
FAMILY = re.compile(r"font-family: [^;]*(; )?")
SIDES = "width", "height"
WIDGET = "<attn-widget"
LETTERING = {f"{{{SVG}}}{tag}" for tag in ("text", "tspan")}


def inlined(svg: str, name: str, label: str) -> str:
    """The drawing as an element of a page: `name` begins its ids, `label` says what is in it."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", HREF[1:].partition("}")[0])
    root = ET.fromstring(svg)
    for one in root.iter():
        for key, text in one.attrib.items():
            if key == "id":
                one.set(key, f"{name}-{text}")
            elif key == HREF:
                one.set(key, re.sub("^#", f"#{name}-", text))
            elif key == "style":
                one.set(key, _themed(FAMILY.sub("", text), one.tag in LETTERING))
            if "url(#" in text:
                one.set(key, REFERENCE.sub(f"url(#{name}-", one.get(key, "")))
    width, height = (float(root.get(key, "0pt").removesuffix("pt")) * 4 / 3 for key in SIDES)
    root.attrib |= {"width": f"{width:.0f}", "height": f"{height:.0f}"}
    root.attrib |= {"class": "attn-still", "role": "img", "aria-label": label}
    # On a telephone a drawing is not made so narrow that its letters could not be read.
    drawn = ET.tostring(root, encoding="unicode")
    return f'<div class="attn-wide" style="--attn-width: {width:.0f}px">{drawn}</div>'


def _themed(style: str, is_lettering: bool) -> str:
    """The same style with variables in place of colours; a letter's hue is a little stronger."""

    def variable(found: re.Match[str]) -> str:
        colour = found[0]
        if colour in GREYS:
            return f"var(--attn-muted, {colour})"
        if colour not in HUES:
            return colour
        hue = f"var({HUES[colour]}, {colour})"
        return f"color-mix(in srgb, {hue} 70%, var(--attn-ink))" if is_lettering else hue

    return COLOUR.sub(variable, style).removesuffix("; ")


class InlineStills(SphinxPostTransform):
    """Puts each drawing of a cell's output into the page itself."""

    default_priority = 950  # when captions are in place, and code is folded that draws an image
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        number = itertools.count(1)
        for image in list(self.document.findall(nodes.image)):
            source = Path(self.app.srcdir, image["uri"])
            if source.suffix == ".svg" and self.is_an_output(image):
                svg = source.read_text(encoding="utf-8")
                drawn = inlined(svg, f"still-{next(number)}", image.get("alt", ""))
                image.replace_self(nodes.raw("", drawn, format="html"))

    @staticmethod
    def is_an_output(image: nodes.image) -> bool:
        above = image.parent
        while above is not None and "cell_output" not in above.get("classes", []):
            above = above.parent
        return above is not None


class CaptionWidgets(SphinxPostTransform):
    """Puts a widget's caption below it: the italic paragraph that follows its cell, or its still.

    The still for print keeps the words, too. Those about the still alone are tagged `own-caption`.
    """

    default_priority = 19  # before stills take their captions
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for cell in list(self.document.findall(nodes.container)):
            if "cell" not in cell["classes"] or not cell.children:
                continue
            if any(WIDGET in raw.astext() for raw in cell[-1].findall(nodes.raw)):
                self.caption(cell)

    @staticmethod
    def caption(cell: nodes.container) -> None:
        after, classes = next_of(cell), ["attn-caption"]
        if isinstance(after, nodes.paragraph) and is_caption(after):
            after.parent.remove(after)
        else:
            while isinstance(after, nodes.container) and "tag_print-only" not in after["classes"]:
                after = next_of(after)  # a cell between the widget and its still
            if not isinstance(after, nodes.container) or "tag_own-caption" in after["classes"]:
                return
            after, classes = next_of(after), [*classes, "attn-instead"]
            if not is_caption(after):
                return
        words = after[0].deepcopy().children
        cell[-1] += nodes.container("", nodes.paragraph("", "", *words), classes=classes)


def next_of(node: nodes.Element) -> nodes.Node | None:
    return node.next_node(descend=False, siblings=True)


def is_caption(node: nodes.Node | None) -> TypeGuard[nodes.paragraph]:
    return isinstance(node, nodes.paragraph) and [*map(type, node)] == [nodes.emphasis]


def setup(app: Sphinx) -> None:
    app.add_post_transform(CaptionWidgets)
    app.add_post_transform(InlineStills)
