// Where the parts of a heatmap lie, what its tokens are called, and what a cell holds, in words.

import { distinct, inQuotes, shown } from "./numbers.js";

/** @typedef {[row: number, column: number]} Cell */
/**
 * What rows and columns are, where they are not queries and keys.
 * @typedef {object} Axes
 * @property {string} columns
 * @property {string} rows
 * @property {string} corner of the table
 * @property {(row: number, column: number) => string} [cell] a cell in words
 */
/**
 * What a map shows. Rows are queries ("read"), columns are keys ("are read").
 * @typedef {object} MapData
 * @property {ArrayLike<number> & Iterable<number>} values (L, S), row by row
 * @property {number} L
 * @property {number} S
 * @property {ArrayLike<number> | null} mask (L, S), 1 where a query may attend
 * @property {string[] | null} [queries] tokens of the rows
 * @property {string[] | null} [keys] tokens of the columns
 * @property {number} [top] the value with the last colour, 1 by default
 * @property {string} [scale] one of SCALES
 * @property {boolean} [signed] from -top to top
 * @property {ArrayLike<number>} [ramp] 256 colours of signed values
 * @property {string} [rowInk] the colour of the rows' names
 * @property {boolean} [flat] shows the mask alone: open cells in one colour
 * @property {number} [room] how many rows there will be, where not all are there yet
 * @property {number} [broad] how many columns there will be
 * @property {number | null} [mark] the row that is framed
 * @property {Axes} [axes]
 */
/**
 * The part of a map on show, and where it is drawn, in pixels.
 * @typedef {object} Place
 * @property {number} rows on show
 * @property {number} columns on show
 * @property {number} i0 the first row on show
 * @property {number} j0 the first column on show
 * @property {number} left
 * @property {number} top
 * @property {number} below for the names of the columns
 * @property {number} cellWidth
 * @property {number} cellHeight
 * @property {boolean} upright whether the names of the columns need no turning
 * @property {number} every which columns have a name: each so many
 * @property {number} width of all cells
 * @property {number} height of all cells
 */
/**
 * A heatmap at work.
 * @typedef {object} MapState
 * @property {MapData} data null until something is shown
 * @property {Place} place null until something is drawn
 * @property {any} names of rows and columns, short for the axes and long for words
 * @property {number} version counts what was shown
 * @property {number} side how many rows and columns are on show, at most
 * @property {Cell} corner the first row and column on show
 * @property {Cell} cursor where the reader is
 * @property {Cell | null} hover where the pointer is
 * @property {Cell | null} announced the cell that the readout tells of
 * @property {any} options of `heatmap`
 * @property {any} view the canvas
 */

/** @type {Axes} */
const ATTENTION = { columns: "keys (are read)", rows: "queries (read)", corner: "query \u2193 key \u2192" };
const ZOOMABLE = 64; // more tokens than can be told apart on a page
const LARGEST_CELL = 42, LABEL = 14, LONG_LABEL = 24; // pixels; characters on an axis, and in words
const LINE = 12, APART = 12; // pixels of a line of text, and between two names beside each other

// ---------------------------------------------------------------- words

/**
 * What the tokens are called, on the axes and in words; numbers where there are none.
 * @param {MapState} map
 */
function nameTokens(map) {
  const { data: { queries, keys, L, S }, names } = map;
  const cut = (tokens, most) => tokens && distinct(tokens, most);
  if (names.queries === queries && names.keys === keys && names.L === L && names.S === S) return;
  map.names = { queries, keys, L, S, rows: cut(queries, LABEL), columns: cut(keys, LABEL),
    longRows: cut(queries, LONG_LABEL), longColumns: cut(keys, LONG_LABEL), widths: new Map() };
}
const nameOf = (tokens, n) => (tokens ? inQuotes(tokens[n]) : String(n));

/**
 * @param {MapData} data
 * @param {number} i
 * @param {number} j
 */
const isClosed = (data, i, j) => Boolean(data.mask && !data.mask[i * data.S + j]);

/**
 * @param {MapData} data
 * @param {number} i
 * @param {number} j
 */
function valueText(data, i, j) {
  if (isClosed(data, i, j)) return "masked";
  return data.flat ? "open" : shown(data.values[i * data.S + j]);
}

/**
 * A cell in words: its query, its key and its value.
 * @param {MapState} map
 * @param {number} i
 * @param {number} j
 */
function describe({ data, names }, i, j) {
  const { flat, axes } = data, value = valueText(data, i, j);
  if (axes) return `${axes.cell(i, j)}: ${value}`;
  return `query ${nameOf(names.longRows, i)} (row ${i}), key ${nameOf(names.longColumns, j)} (column ${j}): `
    + (flat || isClosed(data, i, j) ? value : `weight ${value}`);
}

/**
 * A cell as its pair of tokens.
 * @param {MapState} map
 * @param {number} i
 * @param {number} j
 */
const pairText = ({ data: { axes }, names }, i, j) => (
  axes ? axes.cell(i, j) : `${nameOf(names.longRows, i)} \u2192 ${nameOf(names.longColumns, j)}`);

// ---------------------------------------------------------------- places

// The map on show: all of it, until the reader zooms in.
/** @param {MapState} map */
const wholeSize = ({ data }) => Math.max(data.L, data.S);
/** @param {MapState} map */
const isNear = (map) => map.side < wholeSize(map);
/** @param {MapState} map */
const isLarge = (map) => map.options.zooms && wholeSize(map) > ZOOMABLE;
/**
 * The nearest number from 0 to `most`.
 * @param {number} n
 * @param {number} most
 */
const within = (n, most) => Math.max(0, Math.min(most, n));

/** @param {MapState} map */
function onShow({ data, side, corner }) {
  const rows = Math.min(data.L, side), columns = Math.min(data.S, side);
  return { rows, columns, i0: within(corner[0], data.L - rows), j0: within(corner[1], data.S - columns) };
}

// The longest label, in pixels.
function longestLabel(pen, names, tokens, size) {
  const key = `${pen.font} ${tokens === names.rows}`, known = names.widths.get(key);
  if (tokens && known !== undefined) return known;
  const found = (tokens || [String(size)]).reduce((most, text) => Math.max(most, pen.measureText(text).width), 0);
  if (tokens) names.widths.set(key, found);
  return found;
}

/**
 * Where everything lies on a canvas of this width.
 * @param {MapState} map
 * @param {number} width
 * @returns {Place}
 */
function measure(map, width) {
  const { data, names, view, options: { tallest, shortest, widest, sparse, above, right } } = map;
  const pen = view.canvas.getContext("2d"), shows = onShow(map), near = isNear(map);
  const L = near ? shows.rows : data.room ?? data.L, S = near ? shows.columns : data.broad ?? data.S;
  pen.font = `600 12px ${view.colours.font}`;
  const across = longestLabel(pen, names, names.columns, data.S);
  const left = Math.min(0.4 * width, 26 + longestLabel(pen, names, names.rows, data.room ?? data.L));
  const fitting = (width - left - right) / Math.max(S, 1);
  const cellWidth = Math.min(LARGEST_CELL, fitting < 3 ? fitting : Math.floor(fitting),
    Math.max(widest, Math.floor(640 / Math.max(L, 1))));
  // a long row is no hairline
  const cellHeight = Math.min(tallest, Math.max(cellWidth, shortest, Math.min(24, 60 / Math.max(L, 1))));
  const upright = sparse || across + 4 < cellWidth; // short labels need no turning
  const every = Math.max(1, Math.ceil((sparse ? across + APART : LINE) / cellWidth));
  const below = upright ? 38 : 26 + Math.min(90, 0.87 * across + 10);
  return { ...shows, left, top: above, cellWidth, cellHeight, below, upright, every,
    width: cellWidth * shows.columns, height: cellHeight * L };
}

/**
 * The left edge of a column.
 * @param {Place} place
 * @param {number} j
 */
const columnX = (place, j) => place.left + (j - place.j0) * place.cellWidth;
/**
 * The upper edge of a row.
 * @param {Place} place
 * @param {number} i
 */
const rowY = (place, i) => place.top + (i - place.i0) * place.cellHeight;

/**
 * Whether a cell, or a row, is on show.
 * @param {Place} place
 * @param {number} i
 */
const isOnShow = (place, i, j = place.j0) => i >= place.i0 && i < place.i0 + place.rows
  && j >= place.j0 && j < place.j0 + place.columns;

/**
 * The cell at a place on the canvas, or null.
 * @param {MapState} map
 * @param {[x: number, y: number]} point
 * @returns {Cell | null}
 */
function cellAt({ data, place }, [x, y]) {
  if (!data || !place) return null;
  const j = place.j0 + Math.floor((x - place.left) / place.cellWidth);
  const i = place.i0 + Math.floor((y - place.top) / place.cellHeight);
  return isOnShow(place, i, j) && i < data.L && j < data.S ? [i, j] : null; // fewer than when it was drawn, perhaps
}

export {
  ATTENTION, cellAt, columnX, describe, isClosed, isLarge, isNear, isOnShow, LINE, measure, nameTokens, onShow,
  pairText, rowY, valueText, wholeSize, within, ZOOMABLE,
};
