"""Matplotlib's SVG, made small and the same in every run: what a notebook stores of a figure.

A drawing keeps its paths, images and texts. Coordinates are rounded to a hundredth of a point, ids
that nothing refers to go, and what every text repeats stands once, at the root.
"""

import re
import xml.etree.ElementTree as ET

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
HREF = f"{{{XLINK}}}href"
NUMBER = re.compile(r"-?\d+\.\d+")
MATRIX = re.compile(r"matrix\([^)]*\)")
NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)|rotate\(-?0\)")
FAMILY = re.compile(r"font-family: 'DejaVu Sans', sans-serif(; )?")
# Where there is no DejaVu Sans, for whose widths the drawing has room, Verdana has nearly the same.
ROOT_STYLE = "font-family: 'DejaVu Sans', Verdana, sans-serif; stroke-linejoin: round"
REFERENCE = re.compile(r"url\(#([^)]+)\)")
GROUP, DEFS, PATH, TEXT, SPAN, STYLE, METADATA = (
    f"{{{SVG}}}{tag}" for tag in ("g", "defs", "path", "text", "tspan", "style", "metadata")
)


def tidy(svg: str) -> str:
    """The drawing in as few characters as show the same; a tidy one stays as it is."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    root = ET.fromstring(svg)
    root.attrib.pop("version", None)
    root.set("style", ROOT_STYLE)
    _name(root)
    _thin(root)
    return ET.tostring(root, encoding="unicode").strip()


def _name(root: ET.Element) -> None:
    """Short names, in their order, for what is referred to; none for what is not."""
    elements = list(root.iter())
    used = {one.get(HREF, "")[1:] for one in elements} - {""}
    for one in elements:
        used |= {name for text in one.attrib.values() for name in REFERENCE.findall(text)}
    names = [one.attrib.pop("id", "") for one in elements]
    short: dict[str, str] = {}
    for one, name in zip(elements, names, strict=True):
        if name in used:
            short.setdefault(name, f"s{len(short)}")
            one.set("id", short[name])
    for one in elements:
        for key, text in one.attrib.items():
            if key == HREF and text.startswith("#"):
                one.set(key, f"#{short[text[1:]]}")
            elif "url(#" in text:
                one.set(key, REFERENCE.sub(lambda found: f"url(#{short[found[1]]})", text))


def _thin(element: ET.Element) -> None:
    """Round the numbers of an element and of all in it; drop what shows nothing."""
    for key, text in list(element.attrib.items()):
        thinner = _thinner(key, text)
        if thinner or key not in {"style", "transform"}:
            element.set(key, thinner)
        else:
            del element.attrib[key]
    children: list[ET.Element] = []
    for child in list(element):
        element.remove(child)
        _thin(child)
        if child.tag == GROUP and not child.attrib:
            children += list(child)
        elif not _is_invisible(child):
            children.append(child)
    if element.tag != SPAN and (element.tag != TEXT or children):
        element.text = None
    for child in children:
        child.tail = (
            None if child.tag == SPAN else "\n"
        )  # a line an element, for those who read a diff
    element.extend(children)


def _thinner(key: str, text: str) -> str:
    if key == HREF:
        return re.sub(r"\s+", "", text)
    if key == "style":
        text = FAMILY.sub("", text).removesuffix("; ")
    if key == "transform":
        text = NO_TURN.sub("", text).strip()
    places = 4 if MATRIX.search(text) else 2
    text = NUMBER.sub(lambda found: _short(found[0], places), text)
    return re.sub(r"\s+", " ", text).strip() if key == "d" else text


def _short(number: str, places: int) -> str:
    text = f"{float(number):.{places}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _is_invisible(element: ET.Element) -> bool:
    """A path without ink, or a group or list of definitions with nothing in it."""
    if element.tag in {STYLE, METADATA}:  # the root has the one style that matters
        return True
    if element.tag in {GROUP, DEFS}:
        return not len(element)
    without_ink = element.tag == PATH and element.get("style") == "fill: none"
    return without_ink and not element.get("id")
