"""How a reader moves every control of every widget, and what torch says is shown then."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor

from attn_notes.widgets import (
    AttentionHeatmap,
    KernelExplorer,
    MaskPainter,
    ScoreExplorer,
    SpellingAttention,
    explore,
)
from attn_notes.widgets.base import BookWidget
from attn_notes.widgets.encoding import decode
from attn_notes.widgets.kernel import KERNELS
from attn_notes.widgets.mask import PRESETS
from attn_notes.widgets.score import _module
from tests.browser.panel import Panel, assert_cells

# ---- What a control does, in Python. A move gets the widget and where the control stands now.

Same = Callable[[BookWidget, float], None]


def sets(trait: str, value: Callable[[float], object] = float) -> Same:
    return lambda widget, at: setattr(widget, trait, value(at))


def one_of(*choices: object) -> Callable[[float], object]:
    return lambda at: choices[int(at)]


def two_digits(low: float, high: float) -> Callable[[float], object]:
    """A logarithmic slider stands at an index into all the numbers of two digits."""
    numbers = (float(f"{n}e{power}") for power in range(-3, 2) for n in range(10, 100))
    return one_of(*(number for number in numbers if low <= number <= high))


def score_offered(widget: ScoreExplorer, at: float) -> None:
    widget.score = widget.data["offered"][int(at)]


def move_point(trait: str, widget: KernelExplorer, at: float) -> None:
    moved = list(getattr(widget, trait))
    moved[widget.point] = at
    setattr(widget, trait, moved)


def move_arrow(axis: int, widget: ScoreExplorer, at: float) -> None:
    ends = [list(end) for end in (widget.query, *widget.key_vectors)]
    ends[widget.arrow + 1][axis] = round(at, 4)
    widget.query, *widget.key_vectors = ends


def explored(label: str, widget: BookWidget, at: float) -> None:
    for control in widget.data["controls"]:
        if control["name"].replace("_", " ") == label:
            chosen = control["choices"][int(at)]
            widget.values = {**widget.values, control["name"]: chosen}


COLOUR = "Colour up to the largest weight"
OVERVIEW = "All heads at once"
CAUSAL = "Read no later word (causal mask)"
SIZE = "Size of window, prefix, padding, block"

SAME: dict[str, dict[str, Same]] = {
    "heatmap": {
        "Layer": sets("layer", int),
        "Head": sets("head", int),
        "Temperature": sets("temperature", two_digits(0.05, 20)),
        "Mask": sets("mask_choice", one_of("none", "causal", "given")),
        OVERVIEW: sets("overview", bool),
    },
    "kernel": {
        "Kernel": sets("kernel", one_of(*KERNELS)),
        "Width": sets("bandwidth", two_digits(0.02, 10)),
        "Query": sets("query"),
        "Point": sets("point", int),
        "its x": partial(move_point, "xs"),
        "its y": partial(move_point, "ys"),
    },
    "score": {
        "Score": score_offered,
        "Temperature": sets("temperature", two_digits(0.05, 20)),
        "Move": sets("arrow", lambda at: int(at) - 1),
        "its x": partial(move_arrow, 0),
        "its y": partial(move_arrow, 1),
    },
    "mask": {
        SIZE: sets("size", int),
        "Combine with": sets("second", one_of(*PRESETS)),
        "its size": sets("second_size", int),
        "by": sets("combine", one_of("and", "or")),
        "Layers": sets("layers", int),
    },
    "spelling": {
        "Temperature": sets("temperature", two_digits(0.02, 5)),
        CAUSAL: sets("causal", bool),
    },
    "explore": {},
}


def same_move(widget: BookWidget, label: str, at: float) -> None:
    """Do in Python what the control with this label did on the page."""
    if label == COLOUR:
        widget.shared_scale = bool(at)
    elif widget._widget == "explore":
        explored(label, widget, at)
    else:
        SAME[widget._widget][label](widget, at)


# ---- Journeys: what keys to press on which control, so that each does something visible.


@dataclass(frozen=True)
class Move:
    """Keys on the control with this label; whether the weights change, and the picture."""

    label: str
    keys: list[str]
    numbers: bool = True
    drawn: bool = True


JOURNEYS = {
    "scores": [
        Move("Temperature", ["PageUp"] * 3),
        Move("Head", ["ArrowDown"]),
        Move("Mask", ["ArrowUp"]),
        Move("Temperature", ["ArrowLeft"] * 7),
        Move("Mask", ["Home"]),
        Move("Temperature", ["End"]),
        Move(COLOUR, ["Space"], numbers=False),
        Move(OVERVIEW, ["Space"], numbers=False),
        Move("Head", ["ArrowDown"]),
    ],
    "layers": [
        Move("Layer", ["ArrowDown"]),
        Move("Head", ["End"]),
        Move(COLOUR, ["Space"], numbers=False),
        Move(OVERVIEW, ["Space"], numbers=False),
        Move("Layer", ["ArrowUp"]),
    ],
    "points": [
        Move("Width", ["ArrowRight"] * 5),
        Move("Query", ["ArrowLeft"] * 3),
        *(Move("Kernel", ["ArrowDown"]) for _ in range(len(KERNELS) - 1)),
        Move("Point", ["ArrowRight"] * 4, numbers=False),
        Move("its x", ["End"]),
        Move("its x", ["PageDown"]),
        Move("its y", ["Home"], numbers=False),
        Move(COLOUR, ["Space"], numbers=False),
        Move("Width", ["Home"]),
        Move("Query", ["Home"]),
    ],
    "arrows": [
        Move("Temperature", ["PageUp"] * 3),
        *(Move("Score", ["ArrowDown"]) for _ in range(4)),
        Move("its x", ["ArrowRight"] * 4),
        Move("Move", ["ArrowDown"] * 2, numbers=False),
        Move("its y", ["Home"]),
        Move("Score", ["Home"]),
        Move("its x", ["PageUp"]),
        Move("Temperature", ["ArrowLeft"] * 7),
        Move(COLOUR, ["Space"], numbers=False),
    ],
    "mask": [
        Move("Combine with", ["End"]),
        Move("its size", ["ArrowRight"]),
        Move("Combine with", ["ArrowUp"]),
        Move("by", ["ArrowDown"]),
        Move(COLOUR, ["Space"], numbers=False),
        Move("Combine with", ["ArrowUp"] * 2),
        Move("by", ["ArrowUp"]),
        Move("Layers", ["ArrowRight"] * 3, numbers=False),
        Move(SIZE, ["ArrowRight"], numbers=False, drawn=False),
    ],
    "letters": [
        Move("Temperature", ["PageUp"] * 3),
        Move(COLOUR, ["Space"], numbers=False),
        Move(CAUSAL, ["Space"]),
        Move("Temperature", ["ArrowLeft"] * 7),
    ],
    "function": [
        Move("width", ["ArrowRight"] * 2),
        Move(COLOUR, ["Space"], numbers=False),
        Move("causal", ["Space"]),
        Move("falls", ["ArrowDown"]),
        Move("width", ["Home"]),
    ],
}
BUTTONS = {"mask": [*PRESETS, "invert"]}


# ---- What is shown.


def assert_shown(panel: Panel, widget: BookWidget) -> None:
    """The table, and whatever else the widget writes, is what Python says is shown."""
    if isinstance(widget, ScoreExplorer):
        assert_arrows(panel, widget)
    elif isinstance(widget, KernelExplorer):
        assert_points(panel, widget)
    else:
        assert_cells(panel.table()[1:], widget.shown(), mask_of(widget))


def mask_of(widget: BookWidget) -> Tensor | None:
    """The mask in force, which hatches the cells of a heatmap."""
    if isinstance(widget, AttentionHeatmap | SpellingAttention):
        return widget._mask()
    return widget.attn_mask if isinstance(widget, MaskPainter) else None


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
    weights = widget.shown()
    assert_cells(panel.table()[1:], torch.cat([keys, scores.T, weights[:, None]], dim=1))
    entropy = -float(torch.special.xlogy(weights, weights).sum())
    note = panel.el.locator(".attn-note").inner_text()
    found = re.match(r"Entropy (\S+) nats of at most (\S+)\. ", note)
    assert float(found[1]) == pytest.approx(entropy, abs=0.00501)
    assert float(found[2]) == pytest.approx(torch.tensor(len(weights)).log().item(), abs=0.00501)


# ---- The widget that a page holds, live again.


def from_page(widget: str, state: dict) -> BookWidget:
    """A widget in Python with the state that stands on a page."""
    if widget == "explore":
        return explorer_from_page(state)
    one = torch.eye(1)
    made = {
        "heatmap": lambda: AttentionHeatmap(one),
        "kernel": lambda: KernelExplorer([0.0], [0.0]),
        "score": ScoreExplorer,
        "mask": lambda: MaskPainter(one),
        "spelling": SpellingAttention,
    }[widget]()
    with made.hold_trait_notifications():
        for name, value in state.items():
            setattr(made, name, value)
    return made


def explorer_from_page(state: dict) -> BookWidget:
    """An explorer whose function looks its weights up in the page's frames."""
    grid = {control["name"]: control["choices"] for control in state["data"]["controls"]}
    frames = decode(state["frames"])

    def frame(**values: object) -> Tensor:
        at = 0
        for name, choices in grid.items():
            at = at * len(choices) + choices.index(values[name])
        return frames[at]

    shown = {"query_tokens": state["data"]["queries"], "key_tokens": state["data"]["keys"]}
    made = explore(frame, **shown, **{name: list(choices) for name, choices in grid.items()})
    made.values = state["values"]
    return made
