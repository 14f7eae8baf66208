// How a heatmap is painted: its cells, the numbers in them, and what stands around them.

import { channels, DIVERGING, inkOn, level, minus, mix, packed } from "./numbers.js";
import { byFinger, handle, outline } from "./controls.js";
import { colourCells, hatch } from "./weights.js";
import { ATTENTION, columnX, isClosed, isNear, isOnShow, LINE, rowY } from "./map_layout.js";

/** @typedef {import("./map_layout.js").MapState} MapState */
/** @typedef {import("./map_layout.js").Cell} Cell */

const FINE = 3; // pixels of a cell that is too small to be hatched
const ROOMY = [32, 22], NUMBERED = 150; // pixels of a cell that has room for its number; cells on show

// ---------------------------------------------------------------- the cells

// A pixel each, coloured when their numbers change or the page's colours.
const newPixels = () => ({ key: "", image: null, words: null, canvas: document.createElement("canvas") });
const isFine = ({ cellWidth, cellHeight }) => Math.min(cellWidth, cellHeight) < FINE;

function colourPixels({ data, place, view, version }, pixels) {
  const { values, L, S, top = 1, signed = false, flat = false, ramp = DIVERGING, mask } = data;
  const { accent, panel, line, muted } = view.colours;
  const key = [version, accent, panel, isFine(place)].join();
  if (pixels.key === key) return;
  pixels.key = key;
  const pen = pixels.canvas.getContext("2d");
  if (!pixels.image || pixels.image.width !== S || pixels.image.height !== L) {
    pixels.canvas.width = S; pixels.canvas.height = L;
    pixels.image = pen.createImageData(S, L);
    pixels.words = new Uint32Array(pixels.image.data.buffer);
  }
  const { image, words } = pixels;
  const closed = isFine(place) ? packed(mix(channels(line), channels(muted), 0.3)) : 0;
  if (signed || flat) {
    const open = packed(channels(accent));
    for (let n = 0; n < L * S; n++) {
      words[n] = mask && !mask[n] ? closed : flat ? open : ramp[level(values[n], -top, top)];
    }
  } else {
    colourCells(words, data, { zero: packed(channels(panel)), closed });
  }
  pen.putImageData(image, 0, 0);
}

function paintCells(context, map, pixels) {
  const { data: { L, mask, flat = false }, place, view } = map;
  const { rows, columns, i0, j0, left, top, width, height, cellWidth, cellHeight } = place;
  colourPixels(map, pixels);
  context.imageSmoothingEnabled = cellWidth * view.ratio < 1;
  context.drawImage(pixels.canvas, j0, i0, columns, rows, left, top, width, rows * cellHeight);
  if (flat && cellWidth >= LINE) paintGrid(context, map);
  if (!isNear(map)) {
    context.fillStyle = view.colours.panel; // rows that are still to come
    context.fillRect(left, top + L * cellHeight, width, height - L * cellHeight);
  }
  if (mask && !isFine(place)) hatchCells(context, map);
  context.strokeStyle = view.colours.line; context.lineWidth = 1; // where cells without weight meet the page
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
}

function hatchCells(context, { data, place, view }) {
  const { rows, columns, i0, j0, cellWidth, cellHeight } = place;
  context.beginPath();
  for (let i = i0; i < i0 + rows; i++) {
    for (let j = j0, start = -1; j <= j0 + columns; j++) { // a rectangle for each run of closed cells
      const closed = j < j0 + columns && isClosed(data, i, j);
      if (closed && start < 0) start = j;
      if (!closed && start >= 0) {
        context.rect(columnX(place, start), rowY(place, i), (j - start) * cellWidth, cellHeight);
        start = -1;
      }
    }
  }
  context.fillStyle = hatch(context, view.colours.muted);
  context.globalAlpha = 0.6;
  context.fill();
  context.globalAlpha = 1;
}

// Where all cells have one colour, what tells one from the next.
function paintGrid(context, { place, view }) {
  const { rows, columns, left, top, width, cellWidth, cellHeight } = place;
  context.beginPath();
  for (let i = 1; i < rows; i++) {
    context.moveTo(left, top + i * cellHeight);
    context.lineTo(left + width, top + i * cellHeight);
  }
  for (let j = 1; j < columns; j++) {
    context.moveTo(left + j * cellWidth, top);
    context.lineTo(left + j * cellWidth, top + rows * cellHeight);
  }
  context.strokeStyle = view.colours.paper; context.lineWidth = 1; context.stroke();
}

// The ink on a cell is read off its colour, whatever the scale.
function paintNumbers(context, { data, place, view }, { words }) {
  const { values, S, flat = false } = data, { rows, columns, i0, j0, cellWidth, cellHeight } = place;
  const [roomy, high] = ROOMY;
  if (flat || Math.min(cellWidth, cellHeight) < high || cellWidth < roomy || rows * columns > NUMBERED) return;
  context.font = `${cellWidth < 38 ? 10 : 11}px ${view.colours.font}`;
  context.textAlign = "center"; context.textBaseline = "middle";
  for (let i = i0; i < i0 + rows; i++) for (let j = j0; j < j0 + columns; j++) {
    const n = i * S + j;
    if (isClosed(data, i, j)) continue;
    context.fillStyle = inkOn(words[n]);
    context.fillText(minus(values[n].toFixed(Math.abs(values[n]) >= 10 ? 0 : 2)),
      columnX(place, j + 0.5), rowY(place, i + 0.5));
  }
}

/**
 * What paints cells and numbers. While only the pointer moves, they are copied from the first picture without it.
 * @param {MapState} map
 */
function cellPainter(map) {
  const pixels = newPixels(), still = { key: [], isKept: false, canvas: document.createElement("canvas") };
  function paintAnew(context) {
    paintCells(context, map, pixels);
    paintNumbers(context, map, pixels);
  }
  return {
    sheet: pixels.canvas,
    /** @param {CanvasRenderingContext2D} context */
    paint(context) {
      const { view: { canvas, colours }, place: { i0, j0, rows, columns } } = map;
      const key = [map.version, colours, canvas.width, canvas.height, i0, j0, rows, columns];
      if (key.some((part, n) => part !== still.key[n])) {
        Object.assign(still, { key, isKept: false });
        paintAnew(context);
        return;
      }
      if (!still.isKept) {
        still.isKept = true;
        still.canvas.width = canvas.width; still.canvas.height = canvas.height;
        const pen = still.canvas.getContext("2d");
        pen.setTransform(context.getTransform());
        paintAnew(pen);
      }
      context.save();
      context.resetTransform();
      context.drawImage(still.canvas, 0, 0);
      context.restore();
    },
  };
}

// ---------------------------------------------------------------- what stands around them

// Labels `every` so many, and always those of the rows or columns that matter now.
function labelPlaces(from, count, every, wanted) {
  const kept = wanted.filter((n) => n >= from && n < from + count), all = [];
  for (let n = Math.ceil(from / every) * every; n < from + count; n += every) {
    if (kept.every((one) => one === n || Math.abs(one - n) >= every)) all.push(n);
  }
  return [...new Set([...all, ...kept])];
}

function writeLabel(context, { font, ink, muted }, text, bold, room, colour = muted) {
  context.font = `${bold ? "600 " : ""}12px ${font}`;
  context.fillStyle = bold ? ink : colour;
  context.fillText(text, 0, 0, room);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {MapState} map
 * @param {Cell | null} active
 */
function paintRowNames(context, { data: { mark, rowInk }, place, names, view }, active) {
  const every = Math.max(1, Math.ceil(LINE / place.cellHeight));
  const wanted = [mark, active && active[0]].filter((i) => i !== null && i !== undefined);
  for (const i of labelPlaces(place.i0, place.rows, every, wanted)) {
    context.save();
    context.translate(place.left - 6, rowY(place, i + 0.5));
    context.textAlign = "right"; context.textBaseline = "middle";
    const name = names.rows ? names.rows[i] : String(i);
    writeLabel(context, view.colours, name, wanted.includes(i), place.left - 22, rowInk);
    context.restore();
  }
}

function paintColumnNames(context, { place, names, view }, active) {
  const room = place.upright ? 100 : place.below - 26; // the axis has its name below them
  for (const j of labelPlaces(place.j0, place.columns, place.every, active ? [active[1]] : [])) {
    context.save();
    context.translate(columnX(place, j + 0.5), place.top + place.height + 6);
    context.textAlign = place.upright ? "center" : "right";
    context.textBaseline = place.upright ? "top" : "middle";
    if (!place.upright) context.rotate(-Math.PI / 2);
    writeLabel(context, view.colours, names.columns ? names.columns[j] : String(j), active && active[1] === j, room);
    context.restore();
  }
}

function paintAxes(context, { data: { axes = ATTENTION }, place, view }) {
  context.fillStyle = view.colours.muted;
  context.font = `11px ${view.colours.font}`;
  context.textAlign = "center"; context.textBaseline = "bottom";
  const half = context.measureText(axes.columns).width / 2; // under a map of few columns it would begin outside
  const foot = place.top + place.height + place.below;
  context.fillText(axes.columns, Math.max(half, place.left + place.width / 2), foot);
  context.save();
  context.translate(2, place.top + place.height / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "top";
  if (place.height > 84) context.fillText(axes.rows, 0, 0);
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {MapState} map
 * @param {Cell | null} active
 */
function paintFrames(context, { data: { mark, flat }, place, view, cursor, options }, active) {
  const { left, width, cellWidth, cellHeight } = place;
  const marked = mark !== null && mark !== undefined && isOnShow(place, mark);
  if (marked && flat) { // where open cells have the accent's colour themselves
    outline(context, left, rowY(place, mark), width, cellHeight);
  } else if (marked) {
    context.strokeStyle = view.colours.accent; context.lineWidth = 2;
    context.strokeRect(left - 1, rowY(place, mark), width + 2, cellHeight);
  }
  if (active && isOnShow(place, ...active)) {
    outline(context, columnX(place, active[1]), rowY(place, active[0]), cellWidth, cellHeight);
  }
  if (options.onPaint && byFinger() && isOnShow(place, ...cursor)) { // from here a finger paints
    handle(context, view.colours, columnX(place, cursor[1] + 0.5), rowY(place, cursor[0] + 0.5));
  }
}

/**
 * The names of rows and columns, and the frames of the marked row and of the cell that the reader is at.
 * @param {CanvasRenderingContext2D} context
 * @param {MapState} map
 */
function paintAround(context, map) {
  /** @type {Cell | null} */
  const active = map.hover || (document.activeElement === map.view.canvas ? map.cursor : null);
  paintRowNames(context, map, active);
  paintColumnNames(context, map, active);
  paintAxes(context, map);
  paintFrames(context, map, active);
}

export { cellPainter, paintAround };
