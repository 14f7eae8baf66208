"""How a reader moves every control of every widget, and what torch says is shown then."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from attn_notes.widgets import (
    AttentionHeatmap,
    KernelExplorer,
    MaskPainter,
    ScoreExplorer,
    SpellingAttention,
)
from attn_notes.widgets.base import BookWidget
from attn_notes.widgets.kernel import KERNELS
from attn_notes.widgets.mask import PRESETS
from attn_notes.widgets.score import _module
from tests.browser.panel import Panel, assert_cells


@dataclass(frozen=True)
class Move:
    """Keys on the control with this label, and the same move in Python, given where it stands."""

    label: str
    keys: list[str]
    on: Callable[[BookWidget, float], None]
    numbers: bool = True  # whether the weights change, or the picture alone


def to(trait: str, value: Callable[[float], object], widget: BookWidget, at: float) -> None:
    setattr(widget, trait, value(at))


def sets(trait: str, value: Callable[[float], object] = float) -> Callable:
    return partial(to, trait, value)


def power(at: float) -> float:
    """A logarithmic slider: it stands at the exponent, and gives four digits."""
    return float(f"{10**at:.4g}")


def one_of(choices: list) -> Callable[[float], object]:
    return lambda at: choices[int(at)]


def moves_point(trait: str, widget: KernelExplorer, at: float) -> None:
    setattr(
        widget,
        trait,
        [at if n == widget.point else old for n, old in enumerate(getattr(widget, trait))],
    )


def moves_arrow(axis: int, widget: ScoreExplorer, at: float) -> None:
    def moved(end: list[float]) -> list[float]:
        return [round(at, 4) if n == axis else old for n, old in enumerate(end)]

    if widget.arrow < 0:
        widget.query = moved(widget.query)
    else:
        keys = enumerate(widget.key_vectors)
        widget.key_vectors = [moved(end) if n == widget.arrow else end for n, end in keys]


def explores(name: str, choices: list, widget: BookWidget, at: float) -> None:
    widget.values = {**widget.values, name: choices[int(at)]}


COLOUR = Move("Colour up to the largest weight", ["Space"], sets("shared_scale", bool), False)
OVERVIEW = Move("All heads at once", ["Space"], sets("overview", bool), False)
TEMPERATURE = Move("Temperature", ["PageUp"] * 3, sets("temperature", power))
COOLER = Move("Temperature", ["ArrowLeft"] * 7, sets("temperature", power))
SCORES = ["dot", "scaled_dot", "gaussian", "bilinear", "additive"]
SLIDE = "Size of window, prefix, padding, block"
ARROW = sets("arrow", lambda at: int(at) - 1)
HALVES = [0.5, 1.0, 1.5, 2.0]

JOURNEYS: dict[str, list[Move]] = {
    "scores": [
        TEMPERATURE,
        Move("Head", ["ArrowDown"], sets("head", int)),
        Move("Mask", ["ArrowUp"], sets("mask_choice", one_of(["none", "causal", "given"]))),
        COOLER,
        Move("Mask", ["Home"], sets("mask_choice", one_of(["none", "causal", "given"]))),
        Move("Temperature", ["End"], sets("temperature", power)),
        COLOUR,
        OVERVIEW,
        Move("Head", ["ArrowDown"], sets("head", int)),
    ],
    "layers": [
        Move("Layer", ["ArrowDown"], sets("layer", int)),
        Move("Head", ["End"], sets("head", int)),
        COLOUR,
        OVERVIEW,
        Move("Layer", ["ArrowUp"], sets("layer", int)),
    ],
    "points": [
        Move("Width", ["ArrowRight"] * 5, sets("bandwidth", power)),
        Move("Query", ["ArrowLeft"] * 3, sets("query")),
        *(
            Move("Kernel", ["ArrowDown"], sets("kernel", one_of(list(KERNELS))))
            for _ in range(len(KERNELS) - 1)
        ),
        Move("Point", ["ArrowRight"] * 4, sets("point", int), False),
        Move("its x", ["End"], partial(moves_point, "xs")),
        Move("its x", ["PageDown"], partial(moves_point, "xs")),
        Move("its y", ["Home"], partial(moves_point, "ys"), False),
        COLOUR,
        Move("Width", ["Home"], sets("bandwidth", power)),
        Move("Query", ["Home"], sets("query")),
    ],
    "arrows": [
        TEMPERATURE,
        *(
            Move("Score", ["ArrowDown"], sets("score", one_of(SCORES)))
            for _ in range(len(SCORES) - 1)
        ),
        Move("its x", ["ArrowRight"] * 4, partial(moves_arrow, 0)),
        Move("Move", ["ArrowDown"] * 2, ARROW, False),
        Move("its y", ["Home"], partial(moves_arrow, 1)),
        Move("Score", ["Home"], sets("score", one_of(SCORES))),
        Move("its x", ["PageUp"], partial(moves_arrow, 0)),
        COOLER,
        COLOUR,
    ],
    "mask": [
        Move("Combine with", ["End"], sets("second", one_of(list(PRESETS)))),
        Move("its size", ["ArrowRight"], sets("second_size", int)),
        Move("Combine with", ["ArrowUp"], sets("second", one_of(list(PRESETS)))),
        Move("by", ["ArrowDown"], sets("combine", one_of(["and", "or"]))),
        COLOUR,
        Move("Combine with", ["ArrowUp"] * 2, sets("second", one_of(list(PRESETS)))),
        Move("by", ["ArrowUp"], sets("combine", one_of(["and", "or"]))),
        Move("Layers", ["ArrowRight"] * 3, sets("layers", int), False),
        Move(SLIDE, ["ArrowRight"], sets("size", int), False),
    ],
    "letters": [
        TEMPERATURE,
        COLOUR,
        Move("Read no later word (causal mask)", ["Space"], sets("causal", bool)),
        COOLER,
    ],
    "function": [
        Move("width", ["ArrowRight"] * 2, partial(explores, "width", HALVES)),
        COLOUR,
        Move("causal", ["Space"], partial(explores, "causal", [False, True])),
        Move("falls", ["ArrowDown"], partial(explores, "falls", ["round", "sharp"])),
        Move("width", ["Home"], partial(explores, "width", HALVES)),
    ],
}
BUTTONS = {"mask": [*PRESETS, "invert"]}


def assert_shown(panel: Panel, widget: BookWidget) -> None:
    """The table, and whatever else the widget writes, is what Python says is shown."""
    if isinstance(widget, ScoreExplorer):
        return assert_arrows(panel, widget)
    if isinstance(widget, KernelExplorer):
        return assert_points(panel, widget)
    mask = None
    if isinstance(widget, AttentionHeatmap | SpellingAttention):
        mask = widget._mask()
    if isinstance(widget, MaskPainter):
        mask = widget.attn_mask
    assert_cells(panel.table()[1:], widget.shown(), mask)


def assert_points(panel: Panel, widget: KernelExplorer) -> None:
    prediction, weights = widget.predict()
    header, row = panel.table()
    order = sorted(range(len(widget.xs)), key=widget.xs.__getitem__)
    assert [float(x) for x in header[1:]] == pytest.approx(sorted(widget.xs), abs=0.00501)
    assert_cells([row], weights[order][None])
    note = panel.el.locator(".attn-note").inner_text()
    if weights.any():
        found = re.search(r"Prediction at (\S+): (\S+), an average of (\d+) points", note)
        assert [float(number) for number in found.groups()] == [
            pytest.approx(widget.query, abs=0.00501),
            pytest.approx(prediction, abs=0.00501),
            int((weights > 0.005).sum()),
        ]
    else:
        assert note.startswith("No point lies within one width of")


def assert_arrows(panel: Panel, widget: ScoreExplorer) -> None:
    query = torch.tensor([widget.query], dtype=torch.float64)
    keys = torch.tensor(widget.key_vectors, dtype=torch.float64)
    scores = _module(widget.score, widget.data["parameters"])(query, keys).detach()
    columns = torch.cat([keys, scores.T, widget.shown()[:, None]], dim=1)
    assert_cells(panel.table()[1:], columns)
    weights = widget.shown()
    entropy = -float(torch.special.xlogy(weights, weights).sum())
    note = panel.el.locator(".attn-note").inner_text()
    found = re.match(r"Entropy (\S+) nats of at most (\S+)\. ", note)
    assert float(found[1]) == pytest.approx(entropy, abs=0.00501)
    assert float(found[2]) == pytest.approx(torch.tensor(len(weights)).log().item(), abs=0.00501)
