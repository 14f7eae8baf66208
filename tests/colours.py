"""The colours of light and dark pages, as the book's style sheet states them."""

import re
from pathlib import Path

STYLE_SHEET = Path(__file__).parents[1] / "book" / "_static" / "book.css"


def css_variables(selector: str) -> dict[str, str]:
    """The colours that begin with `--attn-` in the first block of this selector."""
    css = STYLE_SHEET.read_text(encoding="utf-8")
    block = css.split(f"{selector} {{", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--attn-([\w-]+): (#[0-9a-f]{6});", block))


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' luminances, as WCAG 2.2 measures it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


NAMES = ("paper", "surface", "rule", "muted", "ink", "accent")  # from the background to links
LIGHT, DARK = (
    {name: css_variables(selector)[name] for name in NAMES}
    for selector in (":root", 'html[data-theme="dark"]')
)
