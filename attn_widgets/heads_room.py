"""How much room a card of heads will take, before its script has come and drawn it.

Cards differ more than any other widget: in layers, heads, tokens, and in what they show of a head.
So their element says itself how high it will be, and the style sheet makes it that high, before
and after. What is said here follows `static/heads.js` and the files that it imports; a card that
turns out lower keeps a little air at its foot, and one that turns out higher grows.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from attn_notes.palette import visible

WIDE, NARROW = (853.0, 870.0), (314.0, 324.0)  # pixels inside a card, on the book's pages
ALONE = (894.0,), (340.0,)  # and on a page of its own,
SLACK = 24  # whose typeface is the system's
GAP = 19.2  # between columns
LINE, SMALL, BUTTON, FOLD, FINGER = 20.3, 18.85, 28.0, 24.0, 44.0  # heights of lines and controls
LINKED, EXCERPT = 100, 41  # tokens between which links are drawn, and of a longer text
USUAL = 12  # characters of a token at most, so that a row is said in two lines
MANY = 64  # tokens of a map that can be zoomed into
MEANS = {"values": 152, "rollout": 170}  # characters of the note about a kind
STORIES = ("previous", "same", "first")

# Widths of letters in ems, as far as a label's length depends on them.
NARROW_LETTERS, SLIM, BROAD = "'IJijl|", ' ,-./:;\\f!()[]rt"', "mwMW@%+&#"


class Room(NamedTuple):
    """Where a card stands: its inner width in pixels, whether it has columns, and the pointer."""

    width: float
    wide: bool
    touch: bool

    @property
    def button(self) -> float:
        """How high a button is, and a list."""
        return FINGER if self.touch else BUTTON

    @property
    def fold(self) -> float:
        """How high the summary of a fold is."""
        return FINGER if self.touch else FOLD

    def lines(self, characters: float, width: float, each: float = SMALL) -> float:
        """So many characters of running text."""
        return each * math.ceil(characters * 6.3 / width)


def _text(text: str, size: float) -> float:
    """How wide a text is, in half bold type of so many pixels."""
    ems = 0.0
    for c in text:
        ems += 0.27 if c in NARROW_LETTERS else 0.34 if c in SLIM else 0.82 if c in BROAD else 0.55
        ems += 0.08 * c.isupper() + 0.45 * (ord(c) > 0x2E80)
    return 1.03 * ems * size


def _longest(tokens: Iterable[str], size: float) -> float:
    return max((_text(visible(token)[:14], size) for token in tokens), default=0)


def grid_height(view: dict[str, Any], width: float) -> float:
    """The overview of all heads, as grid.js lays it out."""
    layers, heads, rows, columns = view["size"]
    if "thumbnails" in view:
        rows, columns = view["thumbnails"][0]["weights"]["shape"][2:]
    shape = layers * (rows + 1) / (heads * (columns + 1))
    across = min(width - 26, max(heads * 44, min(160, max(220, 20 * layers) / shape)))
    down = across * shape
    return math.ceil(down + 18 + 6 * ("kv_heads" in view))


def map_height(view: dict[str, Any], width: float, tallest: int = 32) -> float:
    """The map of a head, as map_layout.js measures it."""
    _, _, L, S = view["size"]
    across = _longest(view["keys"] or view["queries"], 12)
    left = min(0.4 * width, 26 + _longest(view["queries"], 12))
    fitting = (width - left - 10) / S
    cell = min(42.0, fitting if fitting < 3 else math.floor(fitting), max(3, 640 // L))
    high = min(tallest, max(cell, min(24.0, 60 / L)))
    below = 38 if across + 4 < cell else 36 + min(80, across)  # in a wider typeface, perhaps
    return math.ceil(10 + high * L + below) + (36 if max(L, S) > MANY else 0)


def links_height(view: dict[str, Any], width: float) -> float:
    """The links between two rows of tokens, as links.js lays them out, and the note below."""
    queries, keys = view["queries"], view["keys"] or view["queries"]
    if part := max(len(queries), len(keys)) > LINKED:
        queries, keys = queries[:EXCERPT], keys[:EXCERPT]
    pads = [_pad(tokens, width) for tokens in (keys, queries)]
    slanted = [row for row, pad in zip((keys, queries), pads, strict=True) if not pad]
    lean = math.sin(1.3 if any(width - 120 < 14 * len(row) for row in slanted) else 0.98)
    rows = [28.0] * (2 - len(slanted)) + [_longest(row, 14) * lean + 14 for row in slanted]
    return math.ceil((34 if pads[0] == 8 else 18) + sum(rows) + 124) + 8 + 28.5 * part


def _pad(tokens: Sequence[str], width: float) -> int:
    """The air beside upright tokens, or 0 where they are slanted."""
    bare = 12 + sum(_text(visible(token)[:14], 14) for token in tokens) + 4 * (len(tokens) - 1)
    return next((pad for pad in (8, 3) if bare + 2 * pad * len(tokens) <= width), 0)


class Card:
    """A card as it opens, from the state of its element."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state, self.data = state, state["data"]
        self.sentence = self.data["sentences"][state["sentence"]]
        self.views = [one["views"][state["kind"]] for one in self.data["sentences"]]
        self.view = self.sentence["views"][state["kind"]]
        self.image = self.sentence.get("image")
        self.pair = "beside" in self.data
        sides = [[view["queries"], view["keys"]] for view in self.views]
        self.three = self.pair and sides[0] == sides[1]
        self.featured = not self.pair and any("neurons" in v for v in self.sentence["views"])
        self.told = any(self.view["scores"].get(name) for name in STORIES)
        self.kinds = len(self.sentence["views"])

    def height(self, room: Room) -> float:
        """All of it, with its frame."""
        body = self.columns(room) if room.wide else self.stack(room)
        title = 30.0 if self.data["title"] else 0.0
        patches = room.fold + 8 if self.image else 0
        tables = (
            1 + self.featured + self.pair + self.three + (self.told or bool(self.state["pattern"]))
        )
        if room.wide:
            return 38.8 + title + body + patches + 8 + room.fold + room.button - BUTTON
        return 51 + room.button + title + body + patches + tables * (8 + room.fold)

    def columns(self, room: Room) -> float:
        """The overview and the controls beside the map, and the links below both."""
        width = room.width
        if self.three:
            third = (width - 5 * GAP) / 3 + GAP
            over = 2 + max(self.top(room, third), self.controls(room, 2 * third))
            return over + self.beside(third - GAP) + 12.8 + links_height(self.view, width)
        if self.pair:
            left, right = ((width - 2 * GAP) * share / 2.9 for share in (0.9, 1))
            both = self.top(room, left) + self.controls(room, left)
            return max(both, self.beside(right)) + 12.8 + links_height(self.view, width)
        right = (width - GAP) / (2.35 if self.featured else 2)
        left = width - GAP - right
        over, rest = self.top(room, left), self.controls(room, left)
        if self.image:
            return max(over + rest, self.picture(room, right))
        shown = map_height(self.view, right)
        under = max(self.answer(75.2, right), rest - max(0, shown - over))
        below = 12.8 + links_height(self.view, width)
        if self.featured:
            below = self.features(room) + room.button + 10.6
        return max(over, shown) + under + below

    def stack(self, room: Room) -> float:
        """On a phone: one thing under the other, the pictures of a head under tabs."""
        width = room.width
        own = self.top(room, width) + self.controls(room, width)
        if self.image:
            return own + self.picture(room, width)
        tabs = 17 + room.button
        if self.pair:
            return own + tabs + map_height(self.view, width) + 2 * LINE + 2 * SMALL + 11.2
        if self.featured:
            return own + tabs + self.features(room) + 2 * LINE
        return own + tabs + map_height(self.view, width) + self.answer(94.4, width)

    def top(self, room: Room, width: float) -> float:
        """The overview and what is said of the chosen head."""
        shared, means = "kv_heads" in self.view, MEANS.get(self.view["name"].rpartition(" ")[2])
        lines = 3 if shared or (self.told and self.pair and room.wide) else 1 + self.told
        note = 9.6 + room.lines(means, width) if means else 0
        return grid_height(self.view, width) + lines * LINE + note

    def controls(self, room: Room, width: float) -> float:
        """All that is not folded away."""
        lists = (self.kinds > 1) + (not self.pair and len(self.views) > 1)
        rows = [max(30.8, room.button)] * lists
        if self.told:
            labels = room.button if self.three and room.wide else 22 + room.button
            wraps = (width < 290) * (room.button + 6.4)
            rows += [labels + wraps, 30 if width > 370 and not room.touch else 44]
        rows += [room.button] * self.three
        shown = sum(rows) + 8 * max(0, len(rows) - 1) + 12.8
        writes = "next" in self.sentence and not self.view["name"].startswith("encoder")
        folded = room.fold if width > 300 else 38 + room.fold - FOLD
        if self.three and room.wide:
            return shown + room.button + 14.4 + self.scale(width)
        scale = self.scale(width) if self.pair else 0
        return 6.4 + 77.4 * writes + shown + folded + 8 + room.button + 6.4 + scale

    def answer(self, least: float, width: float) -> float:
        """What a row and a cell say, which takes more lines where tokens are long; the colours."""
        keys = self.view["keys"] or []
        longest = max(min(24, len(token)) for token in [*self.view["queries"], *keys])
        if longest <= USUAL:
            return least + self.scale(width)
        row, cell = (math.ceil(n * 6.3 / width) for n in (4 * longest + 40, 2 * longest + 44))
        return max(least, row * LINE + cell * SMALL + 11.2) + self.scale(width)

    def scale(self, width: float) -> float:
        """The colours and what they stand for, in one line or two."""
        long = 282 + 124 * (self.state["scale"] == "root") + 78 * (self.view["mask"] is not None)
        return 17.4 if long <= width else 38

    def beside(self, width: float) -> float:
        """Two maps, or three, with what their rows say."""
        return SMALL + max(map_height(v, width) for v in self.views) + 2 * LINE + 2 * SMALL + 11.2

    def picture(self, room: Room, width: float) -> float:
        """What is read and how much of it, side by side."""
        high, broad = self.image["pixels"]["shape"][:2]
        side = min(300, (width - 16) // 2)
        names = 8 + room.button if self.image["first"] else 0
        note = 9.6 + room.lines(162, width)
        said = LINE if room.wide else 2 * LINE
        return round(side * high / broad) + names + note + said + self.scale(width)

    def features(self, room: Room) -> float:
        """The products that add up to a score."""
        keys = min(8, self.view["size"][3])
        return (160.5 if room.wide else 212.3) + 20 * keys


def reserved(state: dict[str, Any], *, alone: bool = False) -> dict[str, int]:
    """The heights of a card, by what the style sheet calls them."""
    card, (wide, narrow) = Card(state), ALONE if alone else (WIDE, NARROW)
    slack = SLACK * (alone and not card.three)  # three maps fill a screen
    return {
        f"--attn-{name}{'-touch' * touch}": slack
        + math.ceil(max(card.height(Room(width, name == "wide", touch)) for width in widths))
        for name, widths in (("wide", wide), ("narrow", narrow))
        for touch in (False, True)
    }
