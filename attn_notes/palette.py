"""One palette for the theme, the figures and the widgets, in light and dark.

The same colours stand in `book/_static/book.css` as variables that begin with `--attn-`; a test
holds the two together. Weights from 0 to 1 are drawn in cividis, and signed quantities run from
`NEGATIVE` through the page to `POSITIVE`.
"""

LIGHT = {
    "paper": "#fefefc",
    "surface": "#f6f6f2",
    "rule": "#dfdfd8",
    "muted": "#5c636d",
    "ink": "#1d2127",
    "accent": "#285a9c",
}
"""Light pages, from the background through hairlines and small print to links."""

DARK = {
    "paper": "#0f1318",
    "surface": "#171c23",
    "rule": "#2c333d",
    "muted": "#9aa4b1",
    "ink": "#dfe3e8",
    "accent": "#8ab4f0",
}
"""Dark pages."""

CATEGORICAL = ("#4a7fc1", "#b9812a", "#3f9a6b", "#cf5f57", "#9a70c4", "#2f97a3")
"""Six hues of medium lightness, each with a contrast above 3 on light and dark pages."""

NEGATIVE, POSITIVE = "#3f7fbf", "#c9643c"
"""The two ends of the diverging scale."""

FIGURE_INK = "#6d737d"
"""The grey of axes and labels: a contrast above 4.5 on light pages, and on dark ones, where the
page shows figures 15 % brighter, since no one grey has it on both."""

SEQUENTIAL = "cividis"
"""Matplotlib's colour map for weights; it is legible to colour-blind readers."""
