"""Still figures in the book's one language: rows are queries, columns are keys.

A heatmap of weights runs from 0 to 1 in cividis on every page, so that two panels can be
compared; masked cells are hatched and not merely dark.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attn_notes.arguments import check_mask, check_shapes
from attn_notes.extras import extra
from attn_notes.palette import CATEGORICAL, FIGURE_INK, NEGATIVE, POSITIVE, SEQUENTIAL, visible

with extra("plot"):
    import matplotlib.pyplot as plt
    from cycler import cycler
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Rectangle
    from matplotlib.textpath import text_to_path
    from matplotlib.ticker import MaxNLocator

MOST_LABELS = 60  # of an axis
LONGEST_TOKEN, LONGEST_TITLE = 24, 60  # characters that are drawn; of a title, in a line
GAP = 3  # points between two labels
TURNED = {"rotation": 90, "rotation_mode": "anchor", "ha": "right", "va": "center"}

SIGNED = LinearSegmentedColormap.from_list("attn_signed", [NEGATIVE, "#e9e6df", POSITIVE])

STYLE: dict[str, Any] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), FIGURE_INK),
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "axes.titlecolor"), FIGURE_INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.grid", "legend.frameon"), False),
    "savefig.bbox": "tight",
    "figure.figsize": (6.4, 3.4),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.size": 9,  # points, at the size a page shows it; so are "medium" titles
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same on every machine
    "axes.titlesize": "medium",
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=CATEGORICAL),
    "lines.linewidth": 1.8,
    "hatch.linewidth": 0.6,
    "image.cmap": SEQUENTIAL,
    "image.interpolation": "none",  # a file holds one pixel a weight, and the viewer draws squares
    "svg.fonttype": "none",  # text stays text, in the type of the page
    "svg.hashsalt": "attn_notes",  # the same ids in every run
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
RASTER_DPI = 192  # of an artist with `rasterized=True` in a drawing


def use_style() -> None:
    """Set the book's matplotlib style for every figure that follows; in a notebook, as SVG too.

    A notebook whose figures open in a window, or in a widget, keeps them there.
    """
    plt.rcParams.update(STYLE)  # type: ignore[arg-type]  # keys are rcParams' own literals
    if "inline" in plt.get_backend():
        from matplotlib_inline.backend_inline import (  # noqa: PLC0415, comes with a kernel
            set_matplotlib_formats,
        )

        set_matplotlib_formats("svg", dpi=RASTER_DPI, metadata=NO_METADATA)


def plot_attention(
    weights: Tensor,
    *,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    mask: Tensor | None = None,
    ax: Axes | None = None,
    title: str = "",
    vmax: float = 1.0,
    signed: bool = False,
    annotate: bool | None = None,
    colorbar: bool = True,
) -> Axes:
    """A heatmap of weights: row i is what query i reads, column j how much key j is read.

    Args:
        weights: (L, S), from 0 to `vmax`; or any sign with `signed`.
        query_tokens: L labels, of which at most 24 characters are drawn.
        key_tokens: S labels; the rows' serve the columns too where L = S.
        mask: (L, S) bool, `True` = may attend; the cells that may not are hatched.
        ax: where to draw; a new figure by default.
        title: of the panel, as plain text: a dollar is a dollar.
        vmax: the top of the scale. Leave it at 1 so that panels can be compared.
        signed: colours diverge around 0, from `-vmax` to `vmax`.
        annotate: write the number in each cell; by default in panels of up to 8 by 8.
        colorbar: whether to draw the scale.

    Returns:
        The axes drawn on.

    Example:
        >>> ax = plot_attention(torch.eye(2), query_tokens=["a", "b"])
        >>> ax.get_xlabel()
        'keys (are read)'
    """
    weights, allowed = _checked(weights, mask)
    rows, columns = weights.shape
    if key_tokens is None and rows == columns:
        key_tokens = query_tokens
    for tokens, size in ((query_tokens, rows), (key_tokens, columns)):
        if tokens is not None and len(tokens) != size:
            raise ValueError(f"tokens must be {size}, one a row or column, got {len(tokens)}")
    if ax is None:
        beside, below = map(_room_for, (query_tokens, key_tokens))
        figsize = 1.8 + beside + 0.42 * min(columns, 24), 1.2 + below + 0.42 * min(rows, 24)
        _, ax = plt.subplots(figsize=figsize)
    cmap, vmin = (SIGNED, -vmax) if signed else (plt.get_cmap(SEQUENTIAL), 0.0)
    shown = weights.masked_fill(~allowed, float("nan"))
    image: Any = ax.imshow(shown.numpy(), cmap=cmap, vmin=vmin, vmax=vmax, aspect="equal")
    _label(ax, query_tokens, key_tokens)
    lines = title.split("\n")
    ax.set_title("\n".join(_drawn(line, LONGEST_TITLE) for line in lines), parse_math=False)
    hatching: Any = {"facecolor": "none", "edgecolor": FIGURE_INK, "hatch": "////", "linewidth": 0}
    for i, start, size in _runs(~allowed):
        ax.add_patch(Rectangle((start - 0.5, i - 0.5), size, 1, **hatching))
    if (max(rows, columns) <= 8) if annotate is None else annotate:
        style: Any = {"ha": "center", "va": "center", "fontsize": "small"}
        for i, j in allowed.nonzero().tolist():
            number = float(weights[i, j])
            said = f"{number:.2f}".replace("-", "\N{MINUS SIGN}")
            ax.text(j, i, said, color=_ink_on(image.cmap(image.norm(number))), **style)
    if colorbar and ax.figure is not None:
        ax.figure.colorbar(image, ax=ax, shrink=0.85).outline.set_visible(False)
    return ax


def plot_heads(
    weights: Tensor,
    *,
    mask: Tensor | None = None,
    titles: Sequence[str] | None = None,
    **options: Any,
) -> Figure:
    """Panels side by side on one scale, one for each head of weights (H, L, S).

    The mask is (L, S) or (H, L, S); titles are "head 0", "head 1", … by default. The options are
    `query_tokens`, `key_tokens`, `vmax` and others of `plot_attention`.

    Example:
        >>> len(plot_heads(torch.eye(2).expand(3, 2, 2)).axes)  # three panels and a scale
        4
    """
    check_shapes(weights=(weights, "H L S"))
    masks = [None] * len(weights) if mask is None else mask.expand_as(weights)
    heads = len(weights)
    titles = [f"head {h}" for h in range(heads)] if titles is None else titles
    figure, axes = plt.subplots(1, heads, squeeze=False, figsize=(0.8 + 2.3 * heads, 2.8))
    for h, ax in enumerate(axes[0]):
        panel: Any = {"mask": masks[h], "title": titles[h], "colorbar": False, **options}
        plot_attention(weights[h], ax=ax, **panel)
        ax.label_outer()
    figure.colorbar(ax.images[0], ax=list(axes[0]), shrink=0.8).outline.set_visible(False)
    return figure


def plot_band(
    x: Sequence[float] | Tensor, runs: Tensor, *, ax: Axes | None = None, label: str = ""
) -> Axes:
    """The median of several runs (R, N) as a line over x (N,), the middle half of them as a band.

    Example:
        >>> ax = plot_band([1, 2], torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
        >>> ax.lines[0].get_ydata().tolist()
        [1.0, 2.0]
    """
    x = torch.as_tensor(x, device="cpu")
    check_shapes(x=(x, "N"), runs=(runs, "R N"))
    if ax is None:
        _, ax = plt.subplots()
    quartiles = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64, device="cpu")
    low, middle, high = runs.detach().cpu().double().quantile(quartiles, dim=0)
    (line,) = ax.plot(x.numpy(), middle.numpy(), label=label)
    style: Any = {"color": line.get_color(), "alpha": 0.22, "linewidth": 0}
    ax.fill_between(x.numpy(), low.numpy(), high.numpy(), **style)
    return ax


def _checked(weights: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weights in float64 and the cells that may be read, both (L, S), on the CPU."""
    check_shapes(weights=(weights, "L S"))
    weights = weights.detach().cpu().double()
    if not bool(weights.isfinite().all()):
        raise ValueError("weights must be finite, got NaN or infinity")
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if mask is not None:
        check_mask(mask, weights.shape, of="weights")
        allowed = mask.cpu().expand_as(weights)
    return weights, allowed


def _runs(cells: Tensor) -> list[tuple[int, int, int]]:
    """(row, first column, size) of each run of `True` in a row: a mask has few, and many cells."""
    steps = F.pad(cells.int(), (1, 1)).diff()  # (L, S + 1): 1 where a run begins, -1 behind its end
    begins, ends = (steps == 1).nonzero().tolist(), (steps == -1).nonzero().tolist()
    return [(i, start, end - start) for (i, start), (_, end) in zip(begins, ends, strict=True)]


def _label(ax: Axes, query_tokens: Sequence[str] | None, key_tokens: Sequence[str] | None) -> None:
    """Tokens on both axes, and which axis is which."""
    for tokens, axis in ((key_tokens, ax.xaxis), (query_tokens, ax.yaxis)):
        if tokens is None:
            axis.set_major_locator(MaxNLocator("auto", integer=True))  # there is no cell 2.5
            continue
        every = 1 + len(tokens) // MOST_LABELS
        shown = [_drawn(token, LONGEST_TOKEN) for token in tokens[::every]]
        style: Any = {"parse_math": False}  # a dollar is a dollar
        if axis is ax.xaxis and not _fits(ax, shown, every):
            style |= TURNED
        axis.set_ticks(range(0, len(tokens), every), shown, **style)
    ax.set(xlabel="keys (are read)", ylabel="queries (read)")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _fits(ax: Axes, labels: Sequence[str], every: int) -> bool:
    """Whether the labels of every so many columns of a map can stand side by side."""
    (left, right), (bottom, top) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    figure: Any = ax.figure
    box = figure.transFigure.transform_bbox(ax.get_position())  # in dots
    column = min(box.size / (right - left, top - bottom)) / figure.dpi * 72
    font = FontProperties(size=plt.rcParams["xtick.labelsize"])
    sizes = [text_to_path.get_text_width_height_descent(label, font, False) for label in labels]
    return max((width for width, _, _ in sizes), default=0) + GAP <= column * every


def _room_for(tokens: Sequence[str] | None) -> float:
    """The inches that long tokens need beside what short ones need."""
    longest = max(map(len, tokens or ()), default=0)
    return 0.14 * max(min(longest, LONGEST_TOKEN) - 10, 0)


def _drawn(text: str, most: int) -> str:
    """A text on one line of at most so many characters, each of which the font or a file can hold.

    It is cut as in a widget; a control character has no picture in the font.
    """
    if text.strip(" "):
        text = re.sub("[\u2400-\u2421]", "\ufffd", visible(text[: most + 1]))
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def _ink_on(colour: Sequence[float]) -> str:
    """Black or white, whichever contrasts more: by 4.5 or better with any colour (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    red, green, blue = linear[:3]
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"
