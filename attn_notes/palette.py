"""What figures, widgets and pages share: the colours, and how a token is written.

The colours stand in `book/_static/book.css` too, as variables that begin with `--attn-`, beside
those of light and dark pages; a test holds the two together. Weights from 0 to 1 are drawn in
cividis, and signed quantities run from `NEGATIVE` through the page to `POSITIVE`.
"""

import re

CATEGORICAL = ("#4a7fc1", "#b9812a", "#3f9a6b", "#cf5f57", "#9a70c4", "#2f97a3")
"""Six hues of medium lightness, each with a contrast above 3 on light and dark pages."""

QUERY, KEY, VALUE = CATEGORICAL[:3]
"""Blue, ochre and green, in every figure, widget and drawing that shows one of the three."""

NEGATIVE, POSITIVE = "#3f7fbf", "#c9643c"
"""The two ends of the diverging scale."""

FIGURE_INK = "#6d737d"
"""The grey of axes and labels, with a contrast above 4.5 on white. No one grey has it on dark pages
as well, so the book replaces this one by the muted ink of its theme."""

SEQUENTIAL = "cividis"
"""Matplotlib's colour map for weights; it is legible to colour-blind readers."""

# C1 controls; line separators and marks that would turn the text around them; isolates, whose end
# could be forged; halves of a surrogate pair, which no file can hold; and what no XML may hold.
UNPRINTABLE = "[\x80-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"


def visible(token: str) -> str:
    """The token on one line, with control characters and lone spaces made visible."""
    if not token.strip(" "):
        return "␣" * max(1, len(token))
    text = re.sub(UNPRINTABLE, "\ufffd", token).replace("\x7f", "␡")
    return re.sub("[\x00-\x1f]", lambda found: chr(0x2400 + ord(found[0])), text)
