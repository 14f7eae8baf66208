"""A widget on a page, as a reader meets it: controls, table, readout, canvas."""

import math
import re
from collections.abc import Callable

import matplotlib as mpl
from playwright.sync_api import Locator, Page
from torch import Tensor

from attn_notes.palette import visible
from tests.colours import LIGHT

# Sweeps the pointer over a heatmap and asks the readout which cell it is in: the centres of the
# columns and of the rows, in the canvas's own pixels.
FIND_CELLS = r"""(canvas) => {
  const box = canvas.getBoundingClientRect();
  const map = canvas.closest(".attn-heatmap"), within = (one) => one.querySelector(".attn-readout");
  const readout = within(map) || within(map.closest(".attn-root").querySelector(".attn-answer"));
  const cell = (x, y) => {
    readout.textContent = "";
    canvas.dispatchEvent(new PointerEvent("pointerleave")); // a cell speaks when it is entered
    const at = { clientX: box.left + x, clientY: box.top + y };
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
    const said = readout.textContent, found = said.match(/\(row (\d+)\), key [^]*\(column (\d+)\)/)
      || said.match(/^(?:position|query) (\d+), (?:dimension|key) (\d+)/);
    return found && [Number(found[1]), Number(found[2])];
  };
  const columns = [], rows = [];
  for (let x = 0; x < box.width; x++) {
    const found = cell(x, 10);
    if (found) (columns[found[1]] ??= []).push(x);
  }
  const [first] = Object.values(columns), inside = first[0]; // of a map zoomed into not column 0
  for (let y = 0; y < box.height; y++) {
    const found = cell(inside, y);
    if (found) (rows[found[0]] ??= []).push(y);
  }
  canvas.dispatchEvent(new PointerEvent("pointerleave"));
  readout.textContent = "";
  const middle = (all) => all.map((of) => (of[0] + of.at(-1)) / 2);
  const size = [first.length, Object.values(rows)[0].length];
  return { columns: middle(columns), rows: middle(rows), size };
}"""


# What a change asks for is drawn before the second of the frames that come after it.
TWO_FRAMES = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
})"""

# The colours of a canvas at some places, in its own pixels: red, green, blue, alpha; once all that
# was asked for is drawn.
PIXELS = """async (canvas, places) => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const copy = document.createElement("canvas");
  copy.width = canvas.width; copy.height = canvas.height;
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const ratio = canvas.width / parseFloat(canvas.style.width);
  return places.map(([x, y]) => [...context.getImageData(x * ratio, y * ratio, 1, 1).data]);
}"""

# The size of each canvas on show, and a hash of its pixels (FNV): a picture in PNG takes longer.
PICTURE = """(el) => [...el.querySelectorAll("canvas")]
  .filter((canvas) => canvas.offsetWidth && canvas.width && canvas.height)
  .map((canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    let hash = 2166136261;
    for (const pixel of new Uint32Array(data.buffer)) hash = Math.imul(hash ^ pixel, 16777619);
    return `${copy.width} x ${copy.height}: ${hash >>> 0}`;
  }).join()"""

# Writes down how strongly each curve is drawn, and in which colour.
RECORD_CURVES = """
window.curves = [];
const pen = CanvasRenderingContext2D.prototype;
const { bezierCurveTo, stroke } = pen;
pen.bezierCurveTo = function (...all) { this.isCurve = true; bezierCurveTo.apply(this, all); };
pen.stroke = function (...all) {
  if (this.isCurve) curves.push([this.strokeStyle, this.globalAlpha]);
  this.isCurve = false;
  stroke.apply(this, all);
};
"""

# Writes down what is written on which canvas: text, colour, box, and whether it is turned.
RECORD = """
window.written = [];
const pen = CanvasRenderingContext2D.prototype, { fillText, clearRect } = pen;
pen.clearRect = function (...all) {
  if (this.canvas.isConnected) written = written.filter(({ canvas }) => canvas !== this.canvas);
  clearRect.apply(this, all);
};
pen.fillText = function (text, x, y, room) {
  const { width } = this.measureText(text), { a, b, e, f } = this.getTransform();
  const shift = { left: 0, start: 0, center: 0.5, right: 1, end: 1 }[this.textAlign];
  const ratio = Math.hypot(a, b), top = f / ratio + y;
  const left = e / ratio + x * (a / ratio) - width * shift;
  const size = parseFloat(this.font.match(/([0-9.]+)px/)[1]);
  written.push({ text, canvas: this.canvas, colour: this.fillStyle, turned: Math.abs(b) > 1e-6,
    box: [left, top - size / 2, left + width, top + size / 2] });
  fillText.call(this, text, x, y, room === undefined ? 1e4 : room);
};
"""
WRITTEN_ON = """(canvas) => written.filter((one) => one.canvas === canvas)
  .map(({ text, turned, box }) => [text, turned, box])"""


def rgb(colour: str) -> list[int]:
    """The red, green and blue of "#rrggbb"."""
    return [int(colour[n : n + 2], 16) for n in (1, 3, 5)]


def near_cividis(share: float) -> list[list[int]]:
    """What cividis gives this share of the way up, give or take one of its colours."""
    level = round(255 * share)
    near = mpl.colormaps["cividis"](range(max(level - 1, 0), min(level + 2, 256)))
    return (255 * near[:, :3]).round().astype(int).tolist()


def settle(page: Page) -> None:
    """Wait until the page has drawn what it was asked to, however busy the machine is."""
    page.evaluate(TWO_FRAMES)


def number(text: str) -> float:
    """A number as a page prints it, with a minus sign and no hyphen."""
    return float(text.replace("\u2212", "-"))


UNFOLD = "(el) => el.querySelectorAll('.attn-more').forEach((one) => { one.open = true; })"


class Panel:
    """The `nth` widget of a page, or the only one in a live output."""

    def __init__(self, page: Page, nth: int = 0, *, element: str = "attn-widget") -> None:
        self.page = page
        self.el = page.locator(element).nth(nth)

    def unfold(self) -> None:
        """Open what is folded at first sight, as a reader does who looks for a control there."""
        self.el.evaluate(UNFOLD)

    def control(self, label: str) -> Locator:
        self.unfold()
        return self.el.locator(".attn-control").get_by_label(label, exact=True)

    def labels(self) -> list[str]:
        self.unfold()
        return self.el.locator(".attn-control:visible label").all_inner_texts()

    def button(self, name: str | re.Pattern) -> Locator:
        self.unfold()
        return self.el.get_by_role("button", name=name, exact=True)

    def press_button(self, name: str) -> None:
        self.button(name).press("Enter")

    def press(self, label: str, *keys: str) -> None:
        """Focus a control and press keys on it, as somebody without a mouse does."""
        control = self.control(label)
        assert control.is_enabled(), f"{label} takes no focus: another control would get the keys"
        control.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def value(self, label: str) -> float:
        """Where a control stands: a slider's number, a choice's index, 1 for a ticked box."""
        read = "(input) => (input.type === 'checkbox' ? Number(input.checked) : input.value)"
        return float(self.control(label).evaluate(read))

    def output(self, label: str) -> str:
        return self.control(label).locator("xpath=../output").inner_text()

    def table(self, nth: int = 0) -> list[list[str]]:
        """The folded table, unfolded: its rows, the header first."""
        details = self.el.locator("details.attn-table:visible").nth(nth)
        if details.get_attribute("open") is None:
            details.locator("summary").press("Enter")
            details.locator("tbody tr, thead tr").first.wait_for()
        read = "(table) => [...table.rows].map((row) => [...row.cells].map((c) => c.textContent))"
        return details.locator("table").evaluate(read)

    def said(self, nth: int = 0) -> str:
        return self.el.locator(".attn-said").nth(nth).inner_text()

    def readout(self, nth: int = 0) -> str:
        return self.el.locator(".attn-readout").nth(nth).inner_text()

    def map(self, nth: int = 0) -> Locator:
        """The canvas of the `nth` heatmap."""
        return self.el.locator(".attn-heatmap canvas").nth(nth)

    def picture(self, *, settled: bool = True) -> str:
        """All that is drawn, in one word, once all that was asked for is."""
        if settled:  # where time stands, no frame ever comes
            settle(self.page)
        return self.el.evaluate(PICTURE)

    def cells(self, nth: int = 0) -> dict:
        return self.map(nth).evaluate(FIND_CELLS)

    def point_at(self, nth: int, row: int, column: int, found: dict | None = None) -> None:
        """Put the real pointer on a cell."""
        found = found or self.cells(nth)
        box = self.map(nth).bounding_box()
        x, y = found["columns"][column], found["rows"][row]
        self.page.mouse.move(box["x"] + x, box["y"] + y)


def stop_time(page: Page) -> None:
    """From here on the page's time stands, but for `page.clock.run_for`: slow machines too."""
    page.clock.install(time=0)
    page.clock.pause_at(24 * 3600 * 1000)  # far from 0: until this call the time has run on


def recording(
    visit: Callable[..., Page], address: str, script: str = RECORD_CURVES, **options: object
) -> Page:
    """A page that writes down from its first stroke how strongly each curve is drawn."""
    page = visit("about:blank", **options)
    page.add_init_script(script)
    page.goto(address)
    return page


def watched(visit: Callable[..., Page], address: str, **options: object) -> Panel:
    """A page that writes down from its first stroke what is written on each canvas."""
    page = recording(visit, address, RECORD, **options)
    settle(page)
    return Panel(page)


def written(panel: Panel, canvas: Locator) -> list[tuple[str, bool, list[float]]]:
    """What stands on this canvas now: each text, whether it is turned, and its box."""
    settle(panel.page)
    return canvas.evaluate(WRITTEN_ON)


def strengths(page: Page, hue: str) -> list[float]:
    """How strongly the curves of one of the palette's colours were drawn, one by one."""
    settle(page)
    drawn_so_far = page.evaluate("curves")
    return [strength for colour, strength in drawn_so_far if colour == LIGHT[hue]]


def drawn(token: str) -> str:
    """A token where there is little room."""
    text = visible(token)
    return text if len(text) <= 24 else text[:23] + "\u2026"


def assert_cells(rows: list[list[str]], weights: Tensor, mask: Tensor | None = None) -> None:
    """A table's cells are these weights, to the last digit that it shows."""
    assert len(rows) == weights.shape[0]
    for i, (_, *cells) in enumerate(rows):
        assert len(cells) == weights.shape[1]
        for j, cell in enumerate(cells):
            if mask is not None and not mask[i, j]:
                assert cell == "masked", (i, j)
            else:
                digits = len(cell.partition(".")[2])
                expected = float(weights[i, j])
                assert math.isclose(number(cell), expected, abs_tol=0.51 * 10**-digits), (i, j)
