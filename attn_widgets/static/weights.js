// The colours of weights, the pattern of a masked cell, and the scale that explains them.

import {
  channels, css, distinct, DIVERGING, inkOn, inks, inQuotes, largest, level, mix, packed, SEQUENTIAL, shown,
} from "./numbers.js";
import {
  byFinger, dragging, foldedTable, h, handle, KEEP_KEYS, labelled, outline, sharpCanvas, tick, withModifier,
} from "./controls.js";

// ---------------------------------------------------------------- colours of weights

// How far up the colours a share of the largest weight lies. The cube root tells small weights apart,
// such as a 64th, which it takes to a quarter; "row" measures each row by its own largest.
const SCALES = [["linear", "linear"], ["root", "cube root"], ["row", "each row by its largest"]];
const STEPS = 65535, ALMOST = 1 - 1e-9; // as many as Python sends
const RAMPS = new Map(); // for each step up to the largest weight its colour, once it is wanted
function ramp(scale) {
  const shade = scale === "root" ? Math.cbrt : (share) => share;
  if (!RAMPS.has(scale)) {
    RAMPS.set(scale, Uint32Array.from({ length: STEPS + 2 },
      (_, n) => SEQUENTIAL[Math.round(255 * shade(Math.min(1, n / STEPS)))]));
  }
  return RAMPS.get(scale);
}

// The largest weight in a row that is open.
function rowTop(values, mask, row, S) {
  let top = 0;
  for (let n = row; n < row + S; n++) if (values[n] > top && !(mask && !mask[n])) top = values[n];
  return top;
}

// The cells of a map as the words of an image, whose rows are `stride` apart from `start` on. A weight
// of 0 has the colour `zero`, which no other weight has, and a masked cell the colour `closed`.
function colourCells(words, map, { zero, closed, start = 0, stride = map.S }) {
  const { values, L, S, mask, top = 1, scale = "linear" } = map;
  const colours = ramp(scale);
  colours[0] = zero; // any weight above 0 is taken to the step above it, and one near 0 to the first
  for (let i = 0; i < L; i++) {
    const step = STEPS / ((scale === "row" ? rowTop(values, mask, i * S, S) : top) || 1);
    for (let j = 0, n = i * S, word = start + i * stride; j < S; j++, n++, word++) {
      words[word] = mask && !mask[n] ? closed : colours[(values[n] * step + ALMOST) | 0 || +(values[n] > 0)];
    }
  }
}

// Where the colours end: at 1, or at the largest weight if the reader wants it so.
const scaleTop = (model, values) => (model.get("shared_scale") ? Math.max(largest(values), 1e-9) : 1);
const sharedScale = (model, life) => tick(model, life, "shared_scale", { label: "Colour up to the largest weight" });

// Fine diagonal lines: a cell that may not be read. One pattern a colour.
const HATCHES = new Map();
function hatch(context, colour) {
  if (!HATCHES.has(colour)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
    pen.stroke();
    HATCHES.set(colour, context.createPattern(tile, "repeat"));
  }
  return HATCHES.get(colour);
}

// The colour scale: 0 and a strip from there to `top`, with its two numbers. Of another scale than the
// linear one, `words` say what it does.
function colourScale(life) {
  const low = h("span", {}), high = h("span", {}), words = h("span", {});
  const strip = h("canvas", { width: 140, height: 10, "aria-hidden": "true" });
  const view = h("div", { class: "attn-scale" }, low, strip, high, words);
  const short = (x) => shown(x).replace(/\.?0+$/, "");
  let paint = () => {};
  life.onTheme(() => paint());
  life.onResize(view, () => paint()); // put on the page, it has colours
  return {
    el: view,
    show(top, signed = false, scale = "linear") {
      low.textContent = short(signed ? -top : 0);
      high.textContent = scale === "row" ? "the row\u2019s largest" : short(top);
      words.textContent = scale === "root" ? `(half way up: ${short(top / 8)})` : "";
      paint = () => {
        const context = strip.getContext("2d"), { panel, muted } = inks(strip), from = signed ? 0 : 12;
        context.fillStyle = panel;
        context.fillRect(0, 0, 140, 10);
        for (let n = from; n < 140; n++) {
          context.fillStyle = css((signed ? DIVERGING : SEQUENTIAL)[Math.floor((255 * (n - from)) / (139 - from))]);
          context.fillRect(n, 0, 1, 10);
        }
        if (from) { // a weight of 0 has a colour of its own
          context.strokeStyle = muted;
          context.strokeRect(0.5, 0.5, from - 1, 9);
        }
      };
      paint();
    },
  };
}

// ---------------------------------------------------------------- the heatmap

const HINT = ["Point at a cell, or focus the map and walk it with the arrow keys.", "Tap a cell to read it."];
const ZOOMABLE = 64; // more tokens than can be told apart on a page
const NEAREST = 12; // tokens on show when the reader is as near as can be
const MOST_CELLS = 10_000, STRONGEST = 5; // of a table; beyond, keys of each row

// Rows are queries ("read"), columns are keys ("are read"). Call `show(data)` with
// {values, L, S, mask, queries, keys, top, scale, signed, flat, room, broad, mark}; `onPick(i, j)` hears
// of the chosen cell, `onHover(i, j)` of the one pointed at, `onPaint` makes the map paintable. A flat
// map shows its mask alone: open cells in one colour. `room` is how many rows there will be, where not
// all are there yet, and `broad` how many columns; `mark` frames a row. `axes` says what else rows and
// columns are: {columns, rows, corner, cell(i, j)}. A `hint` of two is one for a mouse, one for a finger;
// a large map can be zoomed into, unless `zooms` is false.
const ATTENTION = { columns: "keys (are read)", rows: "queries (read)", corner: "query \u2193 key \u2192" };
function heatmap(life, { label, hint = HINT, tableLabel = "The numbers as a table", tallest = 42, shortest = 0,
  widest = 3, zooms = true, onPick = () => {}, onHover = () => {}, onPaint = null }) {
  let data = null, place = null, hover = null, cursor = [0, 0], told = null, version = 0;
  let side = Infinity, corner = [0, 0]; // how many rows and columns are on show, and the first of each
  const advice = Array.isArray(hint) ? hint[Number(byFinger())] : hint;
  const readout = h("p", { class: "attn-readout", role: "status" }, advice);

  // What the tokens are called, on the axes and in words; numbers where there are none.
  let names = {};
  function nameTokens({ queries, keys, L, S }) {
    const few = (tokens, most) => tokens && distinct(tokens, most);
    if (names.queries === queries && names.keys === keys && names.L === L && names.S === S) return;
    names = { queries, keys, L, S, rows: few(queries, 14), columns: few(keys, 14),
      longRows: few(queries, 24), longColumns: few(keys, 24), widths: new Map() };
  }
  const named = (all, n) => (all ? inQuotes(all[n]) : String(n));
  const isClosed = (i, j) => data.mask && !data.mask[i * data.S + j];
  function valueAt(i, j) {
    if (isClosed(i, j)) return "masked";
    return data.flat ? "open" : shown(data.values[i * data.S + j]);
  }
  function describe(i, j) {
    const { flat, axes } = data, value = valueAt(i, j);
    if (axes) return `${axes.cell(i, j)}: ${value}`;
    return `query ${named(names.longRows, i)} (row ${i}), key ${named(names.longColumns, j)} (column ${j}): `
      + (flat || isClosed(i, j) ? value : `weight ${value}`);
  }

  // ---- the part of the map on show: all of it, until the reader zooms in
  const whole = () => Math.max(data.L, data.S);
  const isNear = () => side < whole(), isLarge = () => zooms && whole() > ZOOMABLE;
  const within = (n, most) => Math.max(0, Math.min(most, n));
  function onShow() {
    const rows = Math.min(data.L, side), columns = Math.min(data.S, side);
    return { rows, columns, i0: within(corner[0], data.L - rows), j0: within(corner[1], data.S - columns) };
  }
  function moveTo(i, j) {
    corner = [i, j].map(Math.round);
    view.ask();
    followZoom();
  }
  function zoomTo(size) { // around the cell that the reader is at, or in the marked row, if they are in no cell of it
    const { mark, L, S } = data, elsewhere = Number.isInteger(mark) && mark !== cursor[0];
    const [i, j] = elsewhere ? [mark, ((mark + 0.5) * S) / L] : cursor;
    side = size;
    const { rows, columns } = onShow();
    moveTo(i - rows / 2, j - columns / 2);
  }
  function bringIn([i, j]) { // a cell that the reader has walked to
    const { rows, columns, i0, j0 } = onShow();
    const into = (n, first, count) => Math.min(n, Math.max(first, n - count + 1));
    if (isNear()) moveTo(into(i, i0, rows), into(j, j0, columns));
  }

  function longestLabel(pen, tokens, size) { // the longest label, in pixels
    const key = `${pen.font} ${tokens === names.rows}`, known = names.widths.get(key);
    if (tokens && known !== undefined) return known;
    const found = (tokens || [String(size)]).reduce((most, text) => Math.max(most, pen.measureText(text).width), 0);
    if (tokens) names.widths.set(key, found);
    return found;
  }
  function measure(width) {
    const pen = view.canvas.getContext("2d"), shows = onShow();
    const L = isNear() ? shows.rows : data.room ?? data.L, broad = isNear() ? shows.columns : data.broad ?? data.S;
    pen.font = `600 12px ${view.colours.font}`;
    const across = longestLabel(pen, names.columns, data.S);
    const left = Math.min(0.4 * width, 26 + longestLabel(pen, names.rows, data.room ?? data.L));
    const wide = (width - left - 10) / Math.max(broad, 1);
    const cell = Math.min(42, wide < 3 ? wide : Math.floor(wide), Math.max(widest, Math.floor(640 / Math.max(L, 1))));
    // a long row is no hairline
    const tall = Math.min(tallest, Math.max(cell, shortest, Math.min(24, 60 / Math.max(L, 1))));
    const upright = across + 4 < cell; // short labels need no turning
    const below = upright ? 38 : 26 + Math.min(90, 0.87 * across + 10);
    return { ...shows, left, top: 6, cell, tall, below, upright, width: cell * shows.columns, height: tall * L };
  }
  const xOf = (j) => place.left + (j - place.j0) * place.cell;
  const yOf = (i) => place.top + (i - place.i0) * place.tall;

  // ---- the cells, a pixel each, coloured when their numbers change or the page's colours
  const pixels = { key: "", image: null, words: null, canvas: document.createElement("canvas") };
  const isFine = () => Math.min(place.cell, place.tall) < 3; // too small to be hatched
  function colourPixels() {
    const { values, L, S, top = 1, signed = false, flat = false, mask } = data;
    const { accent, panel, line, muted } = view.colours;
    const key = [version, accent, panel, isFine()].join();
    if (pixels.key === key) return;
    pixels.key = key;
    const pen = pixels.canvas.getContext("2d");
    if (!pixels.image || pixels.image.width !== S || pixels.image.height !== L) {
      pixels.canvas.width = S; pixels.canvas.height = L;
      pixels.image = pen.createImageData(S, L);
      pixels.words = new Uint32Array(pixels.image.data.buffer);
    }
    const { image, words } = pixels;
    const closed = isFine() ? packed(mix(channels(line), channels(muted), 0.3)) : 0;
    if (signed || flat) {
      const open = packed(channels(accent));
      for (let n = 0; n < L * S; n++) {
        words[n] = mask && !mask[n] ? closed : flat ? open : DIVERGING[level(values[n], -top, top)];
      }
    } else {
      colourCells(words, data, { zero: packed(channels(panel)), closed });
    }
    pen.putImageData(image, 0, 0);
  }

  function paintCells(context) {
    const { L, flat = false } = data, { rows, columns, i0, j0, left, top, width } = place, tall = rows * place.tall;
    colourPixels();
    context.imageSmoothingEnabled = place.cell * view.ratio < 1;
    context.drawImage(pixels.canvas, j0, i0, columns, rows, left, top, width, tall);
    if (flat && place.cell >= 12) paintGrid(context);
    if (!isNear()) {
      context.fillStyle = view.colours.panel; // rows that are still to come
      context.fillRect(left, top + L * place.tall, width, place.height - L * place.tall);
    }
    if (data.mask && !isFine()) hatchCells(context);
    context.strokeStyle = view.colours.line; context.lineWidth = 1; // where cells without weight meet the page
    context.strokeRect(left - 0.5, top - 0.5, width + 1, place.height + 1);
  }
  function hatchCells(context) {
    const { rows, columns, i0, j0 } = place;
    context.beginPath();
    for (let i = i0; i < i0 + rows; i++) {
      for (let j = j0, start = -1; j <= j0 + columns; j++) { // a rectangle for each run of closed cells
        const closed = j < j0 + columns && isClosed(i, j);
        if (closed && start < 0) start = j;
        if (!closed && start >= 0) {
          context.rect(xOf(start), yOf(i), (j - start) * place.cell, place.tall);
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
  function paintGrid(context) {
    context.beginPath();
    for (let i = 1; i < place.rows; i++) {
      context.moveTo(place.left, place.top + i * place.tall);
      context.lineTo(place.left + place.width, place.top + i * place.tall);
    }
    for (let j = 1; j < place.columns; j++) {
      context.moveTo(place.left + j * place.cell, place.top);
      context.lineTo(place.left + j * place.cell, place.top + place.rows * place.tall);
    }
    context.strokeStyle = view.colours.paper; context.lineWidth = 1; context.stroke();
  }

  // The ink on a cell is read off its colour, whatever the scale.
  function paintNumbers(context) {
    const { values, S, flat = false } = data, { rows, columns, i0, j0 } = place;
    if (flat || Math.min(place.cell, place.tall) < 22 || place.cell < 32 || rows * columns > 150) return;
    context.font = `${place.cell < 38 ? 10 : 11}px ${view.colours.font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    for (let i = i0; i < i0 + rows; i++) for (let j = j0; j < j0 + columns; j++) {
      const n = i * S + j;
      if (isClosed(i, j)) continue;
      context.fillStyle = inkOn(pixels.words[n]);
      context.fillText(values[n].toFixed(Math.abs(values[n]) >= 10 ? 0 : 2), xOf(j + 0.5), yOf(i + 0.5));
    }
  }

  // ---- what stands around the cells
  // Labels `every` so many, and always those of the rows or columns that matter now.
  function labelPlaces(from, count, every, wanted) {
    const kept = wanted.filter((n) => n >= from && n < from + count), all = [];
    for (let n = Math.ceil(from / every) * every; n < from + count; n += every) {
      if (kept.every((one) => one === n || Math.abs(one - n) >= every)) all.push(n);
    }
    return [...new Set([...all, ...kept])];
  }
  function paintLabels(context) {
    const { mark, axes = ATTENTION } = data, active = hover || (document.activeElement === view.canvas ? cursor : null);
    const every = Math.max(1, Math.ceil(12 / place.cell)), everyRow = Math.max(1, Math.ceil(12 / place.tall));
    const write = (text, bold, room) => {
      context.font = `${bold ? "600 " : ""}12px ${view.colours.font}`;
      context.fillStyle = bold ? view.colours.ink : view.colours.muted;
      context.fillText(text, 0, 0, room);
    };
    const wanted = [mark, active && active[0]].filter((i) => i !== null && i !== undefined);
    for (const i of labelPlaces(place.i0, place.rows, everyRow, wanted)) {
      context.save();
      context.translate(place.left - 6, yOf(i + 0.5));
      context.textAlign = "right"; context.textBaseline = "middle";
      write(names.rows ? names.rows[i] : String(i), wanted.includes(i), place.left - 22);
      context.restore();
    }
    for (const j of labelPlaces(place.j0, place.columns, every, active ? [active[1]] : [])) {
      context.save();
      context.translate(xOf(j + 0.5), place.top + place.height + 6);
      context.textAlign = place.upright ? "center" : "right";
      context.textBaseline = place.upright ? "top" : "middle";
      if (!place.upright) context.rotate(-Math.PI / 3);
      write(names.columns ? names.columns[j] : String(j), active && active[1] === j, 100);
      context.restore();
    }
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
    paintFrames(context, active);
  }
  const isOnShow = (i, j = place.j0) => i >= place.i0 && i < place.i0 + place.rows
    && j >= place.j0 && j < place.j0 + place.columns;
  function paintFrames(context, active) {
    const { mark, flat } = data, { cell, tall } = place;
    const marked = mark !== null && mark !== undefined && isOnShow(mark);
    if (marked && flat) { // where open cells have the accent's colour themselves
      outline(context, place.left, yOf(mark), place.width, tall);
    } else if (marked) {
      context.strokeStyle = view.colours.accent; context.lineWidth = 2;
      context.strokeRect(place.left - 1, yOf(mark), place.width + 2, tall);
    }
    if (active && isOnShow(...active)) outline(context, xOf(active[1]), yOf(active[0]), cell, tall);
    if (onPaint && byFinger() && isOnShow(...cursor)) { // from here a finger paints
      handle(context, view.colours, xOf(cursor[1] + 0.5), yOf(cursor[0] + 0.5));
    }
  }

  // The cells from one to another, so that a quick stroke leaves no holes.
  function between([i, j], [k, l]) {
    const steps = Math.max(Math.abs(k - i), Math.abs(l - j));
    return Array.from({ length: steps }, (_, n) => [
      Math.round(i + ((k - i) * (n + 1)) / steps), Math.round(j + ((l - j) * (n + 1)) / steps)]);
  }

  // While only the pointer moves, cells and numbers are copied from the first picture without it.
  const still = { key: [], isKept: false, canvas: document.createElement("canvas") };
  function paintStill(context) {
    const { canvas } = view, key = [version, view.colours, canvas.width, canvas.height, place.i0, place.j0,
      place.rows, place.columns];
    if (key.some((part, n) => part !== still.key[n])) {
      Object.assign(still, { key, isKept: false });
      paintCells(context);
      paintNumbers(context);
      return;
    }
    if (!still.isKept) {
      still.isKept = true;
      still.canvas.width = canvas.width; still.canvas.height = canvas.height;
      const pen = still.canvas.getContext("2d");
      pen.setTransform(context.getTransform());
      paintCells(pen);
      paintNumbers(pen);
    }
    context.save();
    context.resetTransform();
    context.drawImage(still.canvas, 0, 0);
    context.restore();
  }
  const view = sharpCanvas(life, {
    label, keyboard: true,
    height(width) {
      if (!data) return 40;
      place = measure(width);
      return place.top + place.height + place.below + 4;
    },
    paint(context) {
      if (!data) return;
      if (data.L && data.S) paintStill(context);
      paintLabels(context);
    },
  });

  // ---- the number beside the pointer
  const value = h("strong", {}), pair = h("span", {});
  const tip = h("div", { class: "attn-tip", "aria-hidden": "true", hidden: true }, value, pair);
  function showTip(event) {
    tip.hidden = !hover || !place;
    if (tip.hidden) return;
    const { axes } = data, [i, j] = hover, [x, y] = view.at(event), wide = view.canvas.clientWidth;
    value.textContent = valueAt(i, j);
    pair.textContent = axes ? axes.cell(i, j) : `${named(names.longRows, i)} \u2192 ${named(names.longColumns, j)}`;
    const over = event.pointerType === "touch" ? 56 : 0; // not under the finger
    tip.style.left = x > wide / 2 ? "auto" : `${x + 14}px`;
    tip.style.right = x > wide / 2 ? `${view.el.clientWidth - x + 8}px` : "auto";
    tip.style.top = `${Math.max(0, y + 14 - over)}px`;
  }
  function leave() {
    if (!hover) return;
    hover = null;
    tip.hidden = true;
    view.ask();
  }

  // ---- pointer and keys
  if (onPaint) view.canvas.classList.add("attn-paint");
  function cellAt(event) {
    if (!data || !place) return null;
    const [x, y] = view.at(event), { i0, j0 } = place;
    const j = j0 + Math.floor((x - place.left) / place.cell), i = i0 + Math.floor((y - place.top) / place.tall);
    const isIn = i >= i0 && j >= j0 && i < i0 + place.rows && j < j0 + place.columns;
    return isIn && i < data.L && j < data.S ? [i, j] : null; // there may be fewer than when it was drawn
  }
  const isSame = (a, b) => a === b || Boolean(a && b && a[0] === b[0] && a[1] === b[1]);
  // Say what a cell holds, and go on saying it while the numbers change.
  function tell(cell) {
    told = cell;
    readout.textContent = describe(...cell);
  }
  function settle(cell) {
    if (!cell) return;
    cursor = cell;
    tell(cell);
    onPick(...cell);
  }
  // A finger that taps chooses; one that moves scrolls the page, unless it began on the framed cell of a
  // map that can be painted.
  let stroke = false, tapping = false;
  life.listen(view.canvas, "pointermove", (event) => {
    const now = cellAt(event), touch = event.pointerType === "touch";
    if (touch && !stroke) { tapping = tapping && isSame(now, hover); return; }
    if (isSame(now, hover)) return hover && showTip(event);
    if (now && hover && onPaint && event.buttons & 1) {
      for (const cell of between(hover, now)) onPaint(...cell, "move");
      if (touch) cursor = now;
    }
    hover = now;
    showTip(event);
    if (hover) { tell(hover); onHover(...hover); }
    view.ask();
  });
  life.listen(view.canvas, "pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
  life.listen(view.canvas, "pointercancel", () => { stroke = tapping = false; leave(); });
  life.listen(view.canvas, "pointerdown", (event) => {
    const cell = event.button === 0 ? cellAt(event) : null, touch = event.pointerType === "touch";
    stroke = Boolean(touch && onPaint && cell && isSame(cell, cursor));
    tapping = touch && !stroke;
    if (touch) hover = cell;
    if (touch && !stroke) return;
    if (stroke) view.canvas.setPointerCapture(event.pointerId);
    if (cell && onPaint) onPaint(...cell, "down");
    settle(cell);
  });
  life.listen(view.canvas, "pointerup", (event) => {
    const cell = tapping ? cellAt(event) : null;
    if (cell) {
      hover = cell;
      if (onPaint) onPaint(...cell, "down");
      settle(cell);
      showTip(event);
      view.ask();
    }
    stroke = tapping = false;
  });
  if (onPaint) { // elsewhere the browser need not ask before it scrolls
    life.listen(view.canvas, "touchstart", (event) => { if (stroke) event.preventDefault(); }, { passive: false });
  }
  life.listen(view.canvas, "focus", () => view.ask());
  life.listen(view.canvas, "blur", () => { leave(); view.ask(); });
  life.listen(view.canvas, "keydown", (event) => {
    if (!data || !data.L || !data.S || withModifier(event)) return;
    const [i, j] = cursor;
    const go = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
      Home: [i, 0], End: [i, data.S - 1], PageUp: [0, j], PageDown: [data.L - 1, j] }[event.key];
    if (go) {
      event.preventDefault();
      leave();
      settle([within(go[0], data.L - 1), within(go[1], data.S - 1)]);
      bringIn(cursor);
      view.ask();
    } else if (onPaint && (event.key === " " || event.key === "Enter")) {
      event.preventDefault();
      onPaint(i, j, "down");
      tell(cursor);
    } else if (event.key === "Escape") {
      tip.hidden = true;
    } else if (isLarge() && "+=-".includes(event.key)) {
      zoom.step(event.key === "-" ? -1 : 1);
    }
  });

  const table = foldedTable(life, tableLabel, () => {
    const { values, L, S, axes = ATTENTION } = data, { longRows, longColumns } = names;
    const head = (all, n) => (all ? all[n] : String(n)), range = (size) => Array.from({ length: size }, (_, n) => n);
    if (L * S <= MOST_CELLS || data.flat) {
      return { corner: axes.corner, columns: range(S).map((j) => head(longColumns, j)),
        rows: range(L).map((i) => [head(longRows, i), ...range(S).map((j) => valueAt(i, j))]) };
    }
    const best = (i) => range(S).filter((j) => !isClosed(i, j))
      .sort((a, b) => Math.abs(values[i * S + b]) - Math.abs(values[i * S + a])).slice(0, STRONGEST);
    return { note: `Of each row the ${STRONGEST} strongest of ${S} columns; all ${L * S} cells would be too many.`,
      corner: axes.rows, columns: range(Math.min(STRONGEST, S)).map((n) => `strongest ${n + 1}`),
      rows: range(L).map((i) => [head(longRows, i),
        ...best(i).map((j) => `${head(longColumns, j)} ${valueAt(i, j)}`)]) };
  });
  const root = h("div", { class: "attn-heatmap" }, view.el, tip, readout);
  let zoom = null;
  function followZoom() {
    if (!zoom && isLarge()) {
      zoom = zoomControl(life, { sheet: pixels.canvas, whole, onShow, zoomTo, moveTo, size: () => side });
      readout.before(zoom.el);
    }
    if (zoom) zoom.follow();
  }

  return {
    el: root, table: table.el, canvas: view.canvas,
    show(next) {
      if (!data || data.L !== next.L || data.S !== next.S) side = Infinity;
      data = next;
      version++;
      nameTokens(data);
      cursor = [within(cursor[0], Math.max(0, data.L - 1)), within(cursor[1], Math.max(0, data.S - 1))];
      if (hover && (hover[0] >= data.L || hover[1] >= data.S)) leave();
      if (hover) value.textContent = valueAt(...hover);
      view.ask();
      if (told && (told[0] >= data.L || told[1] >= data.S)) told = null;
      if (told) tell(told);
      else readout.textContent = advice;
      table.fill();
      followZoom();
    },
  };
}

// How near the reader is to a map of many tokens: a slider, and the whole map small, with a frame around
// what is on show, which can be dragged.
function zoomControl(life, { sheet, whole, onShow, zoomTo, moveTo, size }) {
  const input = h("input", { type: "range", min: 0, step: 1, ...KEEP_KEYS }), output = h("output", {});
  const places = () => { // all, and nearer and nearer
    const all = [whole()];
    for (let n = 2 ** Math.floor(Math.log2(whole() - 1)); n >= NEAREST; n /= 2) all.push(n, Math.round(0.75 * n));
    return all.filter((n, at) => n >= NEAREST && (at === 0 || n < all[0]));
  };
  const frameAt = (width, tall) => {
    const { rows, columns, i0, j0 } = onShow(), x = width / sheet.width, y = tall / sheet.height;
    return [j0 * x, i0 * y, columns * x, rows * y];
  };
  let at = [1, 1];
  const mini = sharpCanvas(life, { least: 80,
    label: "The whole map; the frame is the part on show, and can be dragged.",
    height: (width) => Math.max(24, Math.min(160, (width * sheet.height) / Math.max(1, sheet.width))),
    paint(context, width, tall) {
      at = [width, tall];
      context.drawImage(sheet, 0, 0, width, tall);
      outline(context, ...frameAt(width, tall));
    } });
  mini.canvas.classList.add("attn-drag");
  // From where in the frame it is held; a mouse may take it to another place at once.
  function grab([x, y], touch) {
    const [left, top, wide, tall] = frameAt(...at), reach = touch ? 16 : 0;
    const isIn = x >= left - reach && x <= left + wide + reach && y >= top - reach && y <= top + tall + reach;
    if (isIn) return [x - left, y - top];
    if (touch) return null;
    drag([wide / 2, tall / 2], [x, y]);
    return [wide / 2, tall / 2];
  }
  function drag([dx, dy], [x, y]) {
    moveTo(((y - dy) / at[1]) * sheet.height, ((x - dx) / at[0]) * sheet.width);
  }
  dragging(life, mini, grab, drag);
  life.listen(input, "input", () => zoomTo(places()[Number(input.value)]));
  const el = h("div", { class: "attn-zoom attn-controls", hidden: true }, labelled("Zoom", input, output), mini.el);
  return {
    el,
    step(by) { zoomTo(places()[Math.max(0, Math.min(places().length - 1, Number(input.value) + by))]); },
    follow() {
      el.hidden = whole() <= ZOOMABLE;
      if (el.hidden) return;
      const now = Math.min(size(), whole()), all = places();
      input.max = all.length - 1;
      input.value = all.findIndex((n) => n <= now);
      output.textContent = now === whole() ? `all ${now}` : `${now} of ${whole()}`;
      input.setAttribute("aria-valuetext", output.textContent);
      mini.el.hidden = now === whole();
      mini.ask();
    },
  };
}

export { ATTENTION, colourCells, colourScale, hatch, heatmap, HINT, SCALES, scaleTop, sharedScale };
