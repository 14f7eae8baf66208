// The heatmap of every chapter: map_layout.js says where things lie, map_paint.js paints them, and map_input.js and
// map_zoom.js hear what the reader does.

import { byFinger, foldedTable, h, sharpCanvas } from "./controls.js";
import { ATTENTION, isClosed, measure, nameTokens, valueText, within } from "./map_layout.js";
import { cellPainter, paintAround } from "./map_paint.js";
import { announcer, listenToKeys, listenToPointer, pointerTip } from "./map_input.js";
import { zooming } from "./map_zoom.js";

/** @typedef {import("./map_layout.js").MapState} MapState */
/** @typedef {import("./map_layout.js").MapData} MapData */
/** @typedef {import("./controls.js").Life} Life */
/**
 * How a heatmap is made.
 * @typedef {object} MapOptions
 * @property {string} label
 * @property {string | string[]} [hint] what the reader can do; of two, one for a mouse and one for a finger
 * @property {string} [tableLabel]
 * @property {number} [tallest] pixels of a row, at most
 * @property {number} [shortest] pixels of a row, at least
 * @property {number} [widest] pixels of a column, even where many rows would make it narrower
 * @property {boolean} [sparse] whether columns are named as far as names fit unturned, as those of numbers in order
 * @property {boolean} [zooms] whether a large map can be zoomed into
 * @property {number} [above] pixels left free above the cells
 * @property {number} [right] pixels left free right of them
 * @property {(context: CanvasRenderingContext2D, map: MapState) => void} [beside] paints there
 * @property {(row: number, column: number) => void} [onPick] hears of the cell that is chosen
 * @property {(row: number, column: number) => void} [onHover] hears of the cell that is pointed at
 * @property {((row: number, column: number, kind: "down" | "move") => void) | null} [onPaint] makes a map paintable
 */

const HINT = ["Point at a cell, or focus the map and walk it with the arrow keys.", "Tap a cell to read it."];
const AMPLE = 10_000; // pixels, more than any map needs
const MOST_CELLS = 10_000, STRONGEST = 5; // of a table; beyond, keys of each row
const DEFAULTS = { hint: HINT, tableLabel: "The numbers as a table", tallest: 42, shortest: 0, widest: 3, sparse: false,
  zooms: true, above: 6, right: 10, beside: () => {}, onPick: () => {}, onHover: () => {}, onPaint: null };

/**
 * What the table of a map holds: all cells, or the strongest of each row.
 * @param {MapState} map
 */
function tableOf({ data, names: { longRows, longColumns } }) {
  const { values, L, S, axes = ATTENTION, flat } = data;
  const head = (all, n) => (all ? all[n] : String(n)), range = (size) => Array.from({ length: size }, (_, n) => n);
  if (L * S <= MOST_CELLS || flat) {
    return { corner: axes.corner, columns: range(S).map((j) => head(longColumns, j)),
      rows: range(L).map((i) => [head(longRows, i), ...range(S).map((j) => valueText(data, i, j))]) };
  }
  const best = (i) => range(S).filter((j) => !isClosed(data, i, j))
    .sort((a, b) => Math.abs(values[i * S + b]) - Math.abs(values[i * S + a])).slice(0, STRONGEST);
  return { note: `Of each row the ${STRONGEST} strongest of ${S} columns; all ${L * S} cells would be too many.`,
    corner: axes.rows, columns: range(Math.min(STRONGEST, S)).map((n) => `strongest ${n + 1}`),
    rows: range(L).map((i) => [head(longRows, i),
      ...best(i).map((j) => `${head(longColumns, j)} ${valueText(data, i, j)}`)]) };
}

const NOTHING_YET = { corner: "", columns: [], rows: [] }; // of a map that has been given no data so far

// The canvas of a map.
function mapCanvas(life, map, painter) {
  return sharpCanvas(life, {
    label: map.options.label, keyboard: true,
    height(width) {
      if (!map.data) return 40;
      map.place = measure(map, width);
      return map.place.top + map.place.height + map.place.below + 4;
    },
    paint(context) {
      if (!map.data) return;
      if (map.data.L && map.data.S) painter.paint(context);
      paintAround(context, map);
      map.options.beside(context, map);
    },
  });
}

// Take new data, and keep the reader where they are, if that place is still there.
function take(map, next, leave) {
  if (!map.data || map.data.L !== next.L || map.data.S !== next.S) map.side = Infinity;
  map.data = next;
  map.version++;
  nameTokens(map);
  const { L, S } = next, isGone = (cell) => cell && (cell[0] >= L || cell[1] >= S);
  map.cursor = [within(map.cursor[0], Math.max(0, L - 1)), within(map.cursor[1], Math.max(0, S - 1))];
  if (isGone(map.hover)) leave();
  if (isGone(map.announced)) map.announced = null;
}

/**
 * A heatmap, its readout and its table.
 * @param {Life} life
 * @param {MapOptions} given
 */
function heatmap(life, given) {
  const options = { ...DEFAULTS, ...given }, { hint } = options;
  /** @type {MapState} */
  const map = { data: null, place: null, names: {}, version: 0, side: Infinity, corner: [0, 0], cursor: [0, 0],
    hover: null, announced: null, options, view: null };
  const advice = Array.isArray(hint) ? hint[Number(byFinger())] : hint;
  const readout = h("p", { class: "attn-readout", role: "status" }, advice);
  const painter = cellPainter(map);
  map.view = mapCanvas(life, map, painter);
  if (options.onPaint) map.view.canvas.classList.add("attn-paint");
  const tip = pointerTip(map), reader = announcer(map, readout, tip);
  const zoom = zooming(life, map, painter.sheet, readout);
  listenToPointer(life, map, tip, reader);
  listenToKeys(life, map, tip, reader, zoom);
  const table = foldedTable(life, options.tableLabel, () => (map.data ? tableOf(map) : NOTHING_YET));
  return {
    el: h("div", { class: "attn-heatmap" }, map.view.el, tip.el, readout), table: table.el, canvas: map.view.canvas,
    /** @returns {number} the pixels from left to right that it needs where there is more than enough room */
    wanted() {
      const { left, width } = measure(map, AMPLE);
      return Math.ceil(left + width + 16); // with the frames around it
    },
    /** @param {MapData} next */
    show(next) {
      take(map, next, reader.leave);
      tip.renew();
      map.view.ask();
      if (map.announced) reader.announce(map.announced);
      else readout.textContent = advice;
      table.fill();
      zoom.follow();
    },
  };
}

export { heatmap, HINT };
