"""The colours of light and dark pages, as the book's style sheet states them."""

import re
from pathlib import Path

STYLE_SHEET = Path(__file__).parents[1] / "book" / "_static" / "book.css"


def css_variables(selector: str) -> dict[str, str]:
    """The colours that begin with `--attn-` in the first block of this selector."""
    css = STYLE_SHEET.read_text(encoding="utf-8")
    block = css.split(f"{selector} {{", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--attn-([\w-]+): (#[0-9a-f]{6});", block))


NAMES = ("paper", "surface", "rule", "muted", "ink", "accent")  # from the background to links
LIGHT, DARK = (
    {name: css_variables(selector)[name] for name in NAMES}
    for selector in (":root", 'html[data-theme="dark"]')
)
