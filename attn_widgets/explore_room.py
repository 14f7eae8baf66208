"""How much room an explored function will take, before its script has come and drawn it.

As `heads_room.py` says it of cards of heads: the style sheet makes the element as high as is said
here, before and after. What is said follows `static/explore.js`.
"""

import math
from typing import Any

from attn_widgets.heads_room import (
    ALONE,
    BUTTON,
    FINGER,
    FOLD,
    LINE,
    NARROW,
    SLACK,
    WIDE,
    Room,
    _text,
    map_height,
)

GAPS, BETWEEN = (22.4, 8.0), 25.6  # pixels between controls, across and down, and between columns
CURVE, COLOUR = 236.0, 227.0  # the curve's height, and the width of the box about colours
SLIDER, OUTPUT, PLAY, BOX, MENU = 152.0, 44.8, 67.2, 18.0, 44.0
HINT = 430.0  # pixels of the line that says what can be pointed at
FRAME, FOOT, SPARE = 26.0, 31.2, 6.0


def _width(control: dict[str, Any], *, plays: bool) -> float:
    """How wide a control is, with its label."""
    label, choices = _text(control["name"], 13) + 8, map(str, control["choices"])
    if control["kind"] == "box":
        return label + BOX + 6
    if control["kind"] == "menu":
        return label + max(_text(choice, 14) for choice in choices) + MENU
    output = max(OUTPUT, *(_text(choice, 14) for choice in choices))
    return label + SLIDER + 8 + output + plays * (PLAY + 8)


def _controls(data: dict[str, Any], room: Room, width: float) -> float:
    """The rows of controls, wrapped."""
    first = next((one for one in data["controls"] if one["kind"] == "slider"), None)
    wide = [min(width, _width(one, plays=one is first)) for one in data["controls"]] + [COLOUR]
    rows, at = 1, 0.0
    for one in wide:
        if at and at + GAPS[0] + one > width:
            rows, at = rows + 1, 0.0
        at += one + GAPS[0] * bool(at)
    each = FINGER if room.touch else BUTTON + 3
    return rows * each + (rows - 1) * GAPS[1] + 12.8


def height(state: dict[str, Any], room: Room) -> float:
    """All of it, with its frame."""
    data, (L, S) = state["data"], state["frame"]["shape"]
    queries, keys = data["queries"] or [str(L)], data["keys"] or [str(S)]
    view = {"size": (1, 1, L, S), "queries": queries, "keys": keys}
    curve = "curve" in data
    half = (room.width - BETWEEN) / 2 if curve and room.wide else room.width
    hint = LINE * (1 if room.touch else math.ceil(HINT / half))
    picture = map_height(view, half, 42) + hint + 20
    stage = picture + 9.6 + _controls(data, room, half)
    if curve and room.wide:
        stage = max(picture + 9.6, CURVE + GAPS[1] + _controls(data, room, half))
    elif curve:
        stage += BETWEEN / 2 + CURVE
    note = 0 if state["frames"] is not None else LINE + 9.6
    tables = (1 + curve) * ((FINGER if room.touch else FOLD) + 8)
    foot = FOOT + (16 if room.touch else 0)
    return SPARE + FRAME + 30 * bool(data["title"]) + stage + note + tables + foot


def reserved(state: dict[str, Any], *, alone: bool = False) -> dict[str, int]:
    """The heights of the element, by what the style sheet calls them."""
    wide, narrow = ALONE if alone else (WIDE, NARROW)
    return {
        f"--attn-{name}{'-touch' * touch}": SLACK * alone
        + math.ceil(max(height(state, Room(width, name == "wide", touch)) for width in widths))
        for name, widths in (("wide", wide), ("narrow", narrow))
        for touch in (False, True)
    }
