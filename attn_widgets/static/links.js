// Two rows of tokens, or two columns, joined by links as strong as the weights: above, or on the right,
// are those that are read, below, or on the left, those that read.

import { PALETTE, quoted, visible } from "./numbers.js";
import { h, mayMove, nearest, shadeEdges, sharpCanvas, withModifier } from "./controls.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Point} Point */
/**
 * What the links show.
 * @typedef {object} LinksData
 * @property {string[]} above tokens that are read
 * @property {string[]} below tokens that read
 * @property {ArrayLike<number>} weights (below, above)
 * @property {{ weights: ArrayLike<number>, colour?: string }[]} [strands] where several maps lie over one another
 * @property {number} chosen the row whose links are drawn; those of the others are hinted at
 * @property {boolean} [columns] whether the tokens stand in columns
 * @property {number} [reach] how many tokens of `below` are there yet, all by default
 * @property {number | null} [wrong] the token of `below` that is framed
 * @property {number} [top] the weight of the strongest link, 1 by default
 * @property {number} [power] to which a share of it is taken
 * @property {boolean} [swipes] whether tokens that do not fit stand upright on a wider canvas, which scrolls sideways
 * @property {boolean} [byPress] whether a token is chosen by a press alone, and not by pointing at it
 */
/**
 * Where the tokens of a row stand.
 * @typedef {object} Row
 * @property {string[]} texts
 * @property {number[]} sizes widths of the texts
 * @property {number} longest
 * @property {number} pad on both sides of a text; 0 of slanted ones
 * @property {number[]} [places] where their links run to
 * @property {number} [every] which labels have room: each so many
 * @property {number} [height]
 */
/**
 * Where everything stands.
 * @typedef {object} Layout
 * @property {Row} above
 * @property {Row} below
 * @property {boolean} columns
 * @property {number} height
 * @property {number} slant angle of labels that do not fit
 * @property {number} [top] of the links, in rows
 * @property {number} [bottom]
 * @property {number} [left] of the links, in columns
 * @property {number} [right]
 * @property {number} [chip] height of a chip, in columns
 */

const SPAN = 104, CHIP = 24, EDGE = 6, PADS = [8, 3]; // pixels of the links, of a chip, beside a row, and in a chip
const FADE = 260; // milliseconds from one token's links to another's
const WRITTEN = 0.095; // a weight that is written out

// ---------------------------------------------------------------- where things lie

const roomFor = (bare, count, pad) => bare + count * 2 * pad + (count - 1) * 4;

// How wide a row of upright tokens is, or the width that there is where they fit.
function wantedWidth(pen, font, tokens, width) {
  pen.font = `600 14px ${font}`;
  const bare = tokens.reduce((sum, token) => sum + pen.measureText(visible(token, 14)).width, 2 * EDGE);
  return roomFor(bare, tokens.length, PADS[1]) <= width ? width : roomFor(bare, tokens.length, PADS[0]);
}

// Where the tokens of a row stand: upright where they fit, slanted where they don't.
function layTokens(pen, font, tokens, width) {
  pen.font = `600 14px ${font}`;
  const texts = tokens.map((token) => visible(token, 14)), count = texts.length;
  const sizes = texts.map((text) => pen.measureText(text).width);
  const longest = Math.max(...sizes), bare = sizes.reduce((sum, size) => sum + size, 2 * EDGE);
  const pad = PADS.find((n) => roomFor(bare, count, n) <= width);
  if (pad === undefined) return { texts, sizes, longest, pad: 0 };
  const free = width - bare - count * 2 * pad, gap = Math.min(18, free / Math.max(1, count - 1));
  let x = EDGE + (free - gap * (count - 1)) / 2 - gap;
  const places = sizes.map((size) => (x += gap + size + 2 * pad) - size / 2 - pad);
  return { texts, sizes, longest, pad, places, every: 1, height: CHIP + 4 };
}

// The same in the part of a wider canvas that is in sight, where they fit there; or else on the whole canvas.
function layInSight(pen, font, tokens, width, { start, seen }) {
  const row = layTokens(pen, font, tokens, seen);
  if (!row.pad) return layTokens(pen, font, tokens, width);
  return { ...row, places: row.places.map((x) => start + x) };
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {string} font
 * @param {LinksData} data
 * @param {number} width
 * @param {{ start: number, seen: number }} sight the part of the canvas that is in sight
 * @returns {Layout}
 */
function layRows(pen, font, data, width, sight) {
  /** @type {Row} */
  const above = layInSight(pen, font, data.above, width, sight);
  /** @type {Row} */
  const below = layTokens(pen, font, data.below, width);
  const slanted = [above, below].filter((row) => !row.pad);
  // Slanted labels lean over to the right above and to the left below: the less, the narrower.
  const crowded = slanted.some((row) => width - 120 < 14 * row.texts.length);
  const slant = crowded ? 1.3 : 0.98;
  const lean = (row) => (row.pad ? 8 : row.longest * Math.cos(slant) + 14);
  const room = width - lean(above) - lean(below);
  for (const row of slanted) {
    const count = row.texts.length, pitch = Math.min(40, room / count);
    const start = lean(below) + (room - pitch * count) / 2;
    row.places = row.texts.map((_, n) => start + (n + 0.5) * pitch);
    row.every = Math.ceil(13 / (pitch * Math.sin(slant)));
    row.height = row.longest * Math.sin(slant) + 14;
  }
  const top = (above.pad === 8 || data.swipes ? 34 : 18) + above.height, bottom = top + SPAN; // numbers need room
  return { above, below, columns: false, top, bottom, slant, height: bottom + below.height + 20 };
}

/**
 * Columns: tokens may be long, and their pitch is at most a chip's height.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} font
 * @param {LinksData} data
 * @param {number} width
 * @returns {Layout}
 */
function layColumns(pen, font, data, width) {
  const count = Math.max(data.above.length, data.below.length), top = 22;
  const pitch = Math.max(2, Math.min(CHIP, 960 / count)), chip = Math.max(15, Math.min(CHIP, pitch));
  const column = (tokens) => {
    pen.font = `600 ${chip < 20 ? 12 : 14}px ${font}`;
    const texts = tokens.map((token) => visible(token, 32));
    const sizes = texts.map((text) => Math.min(pen.measureText(text).width, 0.32 * width));
    const places = texts.map((_, n) => top + (n + 0.5) * pitch);
    return { texts, sizes, places, pad: 6, every: Math.ceil(14 / pitch), longest: Math.max(...sizes) + 12 };
  };
  const above = column(data.above), below = column(data.below), numbers = 36;
  const span = Math.max(60, Math.min(420, width - above.longest - below.longest - numbers));
  const left = Math.max(below.longest, (width - span + below.longest - above.longest - numbers) / 2);
  return { above, below, columns: true, left, right: left + span, chip, slant: 0, height: top + count * pitch + 6 };
}

/**
 * Where the chip of a token begins, from the point to which its links run, and how large it is.
 * @param {Layout} layout
 * @param {Row} row
 * @param {number} n
 * @param {boolean} up whether the token is read
 * @returns {{ at: Point, box: number[] }}
 */
function chipBox({ columns, left, right, top, bottom, chip }, row, n, up) {
  const size = row.sizes[n] + 2 * (row.pad || 4);
  if (columns) return { at: [up ? right : left, row.places[n]], box: [up ? 0 : -size, -chip / 2, size, chip] };
  return { at: [row.places[n], up ? top - 2 : bottom + 2],
    box: row.pad ? [-size / 2, up ? -CHIP : 0, size, CHIP] : [up ? 0 : -size, -CHIP / 2, size, CHIP] };
}

// ---------------------------------------------------------------- what is painted

/**
 * @typedef {object} Picture what is painted, and where
 * @property {CanvasRenderingContext2D} context
 * @property {import("./controls.js").Colours} colours
 * @property {LinksData} data
 * @property {Layout} layout
 * @property {string[]} captions
 * @property {number} begin where the captions of rows begin
 * @property {number | null} before the row whose links fade
 * @property {(row: number) => number} part how far a row's links are drawn
 */

// A token: its text on a chip, which is coloured as far as it is `lit`, filled as far as `solid`.
function paintChip({ context, colours, layout }, row, n, { up, lit = 0, solid = 0, wrong = false }) {
  const { ink, muted, panel, paper, accent, font } = colours;
  const stands = Math.max(lit, solid) > 0.3;
  if (n % row.every && !stands) return; // no room for every label
  const { at, box: [x, y, width, height] } = chipBox(layout, row, n, up);
  context.save();
  context.translate(at[0], at[1]);
  if (!row.pad) context.rotate(-layout.slant);
  const shape = (fill, alpha, edge = false) => {
    context.globalAlpha = alpha;
    context.beginPath();
    context.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, 5);
    context.fillStyle = context.strokeStyle = fill;
    if (edge) context.stroke(); else context.fill();
  };
  context.lineWidth = 1;
  if (row.pad || stands) shape(stands ? paper : panel, 1);
  shape(accent, solid || 0.3 * lit);
  if (lit > 0.05) shape(accent, lit, true);
  context.globalAlpha = 1;
  context.fillStyle = solid > 0.5 ? paper : lit > 0.1 || !up ? ink : muted;
  context.font = `${lit > 0.5 || solid ? "600 " : ""}${height < 20 ? 12 : 14}px ${font}`;
  context.textAlign = "center"; context.textBaseline = "middle";
  context.fillText(row.texts[n], x + width / 2, y + height / 2 + 1, row.sizes[n] + 4);
  if (wrong) {
    context.lineWidth = 2; context.setLineDash([4, 2]);
    shape(PALETTE.categorical[3], 1, true);
  }
  context.restore();
}

// The share of the strongest link that a weight has.
const shareOf = ({ above, top, power }, weights, i, j) => Math.min(1, weights[i * above.length + j] / top) ** power;

function paintLink({ context, layout }, i, j, colour, alpha, thick, aside = 0) {
  const from = layout.above.places[j] + aside, to = layout.below.places[i] + aside;
  context.globalAlpha = alpha; context.strokeStyle = colour; context.lineWidth = thick;
  context.beginPath();
  if (layout.columns) {
    const middle = (layout.left + layout.right) / 2;
    context.moveTo(layout.right, from);
    context.bezierCurveTo(middle, from, middle, to, layout.left, to);
  } else {
    const middle = (layout.top + layout.bottom) / 2;
    context.moveTo(from, layout.top);
    context.bezierCurveTo(from, middle, to, middle, to, layout.bottom);
  }
  context.stroke();
}

function paintLinks(picture) {
  const { context, colours: { muted, accent }, data, before, part } = picture;
  const { above, reach, chosen, strands, weights: all } = data;
  for (let i = 0; i < reach; i++) {
    for (let j = 0; j < above.length; j++) {
      const w = shareOf(data, all, i, j);
      if (w > 0.15 && part(i) < 1) paintLink(picture, i, j, muted, 0.4 * w * (1 - part(i)), 1.25);
    }
  }
  const drawnRows = before === null || before >= reach ? [chosen] : [before, chosen];
  for (const i of drawnRows) {
    strands.forEach(({ weights, colour = accent }, n) => {
      const aside = 3 * (n - (strands.length - 1) / 2);
      for (let j = 0; j < above.length; j++) {
        const w = shareOf(data, weights, i, j);
        if (w > 0.004 && part(i) > 0) paintLink(picture, i, j, colour, w * part(i), 1 + 4 * w, aside);
      }
    });
  }
  context.globalAlpha = 1;
}

function paintTokens(picture) {
  const { context, colours, data, layout, before, part } = picture;
  const { above, below, reach, chosen, wrong, weights } = data;
  const lit = above.map((_, j) => part(chosen) * shareOf(data, weights, chosen, j)
    + (before === null ? 0 : part(before) * shareOf(data, weights, before, j)));
  const faintFirst = above.map((_, j) => j).sort((i, j) => lit[i] - lit[j]);
  for (const j of faintFirst) paintChip(picture, layout.above, j, { up: true, lit: lit[j] });
  const paintReader = (i) => paintChip(picture, layout.below, i, { up: false, solid: part(i), wrong: i === wrong });
  for (let i = 0; i < reach; i++) paintReader(i);
  paintReader(chosen); // on top
  context.fillStyle = colours.line;
  for (let i = reach; i < below.length; i++) { // places that are still to be filled
    const { at: [x, y] } = chipBox(layout, layout.below, i, false);
    context.beginPath();
    context.arc(layout.columns ? x - 12 : x, layout.columns ? y : y + 12, 2.5, 0, 7);
    context.fill();
  }
}

// The captions, and the weights of the chosen row where there is room for them.
function paintWords({ context, colours, data, layout, captions, begin }) {
  const { columns, above, left, right, height } = layout;
  context.fillStyle = colours.muted; context.font = `11px ${colours.font}`;
  context.textAlign = columns ? "right" : "left"; context.textBaseline = "top";
  if (columns) context.fillText(captions[1], left, 0);
  context.textAlign = "left";
  context.fillText(captions[0], columns ? right : begin, 0);
  context.textBaseline = "bottom";
  if (!columns) context.fillText(captions[1], begin, height);
  if (!columns && above.pad < 8) return; // no room for numbers
  context.textAlign = columns ? "left" : "center";
  if (columns) context.textBaseline = "middle";
  for (let j = 0; j < data.above.length; j++) {
    const w = data.weights[data.chosen * data.above.length + j];
    if (w < WRITTEN) continue;
    const { at, box: [x, , width] } = chipBox(layout, above, j, true);
    context.fillText(w.toFixed(2), columns ? at[0] + x + width + 5 : at[0], columns ? at[1] : 33);
  }
}

// ---------------------------------------------------------------- the links at work

// Which token of those that read is at a place on the canvas, or null.
function tokenAt({ data, layout }, [x, y]) {
  const { below, bottom, columns, left, slant } = layout, places = below.places.slice(0, data.reach);
  if (columns) return x > left + 60 ? null : nearest(places, y);
  if (y < bottom - SPAN / 3) return null;
  const along = x + (below.pad ? 0 : Math.max(0, y - bottom) / Math.tan(slant));
  const found = nearest(places, along);
  return Math.abs(places[found] - along) < 40 ? found : null;
}

function listen(life, view, state, onPick) {
  const pick = (row) => { if (row !== state.data.chosen) onPick(row); };
  // A mouse picks what it points at; a finger what it taps, as one that is put down may scroll the page.
  for (const type of ["pointermove", "pointerdown", "click"]) {
    life.listen(view.canvas, type, (event) => {
      const { data } = state, waits = type === "pointermove" && data && data.byPress;
      if (data && !waits && (type === "click" || event.pointerType !== "touch")) pick(tokenAt(state, view.at(event)));
    });
  }
  life.listen(view.canvas, "pointerleave", (event) => { if (event.pointerType === "mouse") onPick(null); });
  life.listen(view.canvas, "keydown", (event) => {
    const { data } = state;
    if (!data || withModifier(event)) return;
    const [back, on] = data.columns ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    const go = { [back]: data.chosen - 1, [on]: data.chosen + 1, Home: 0, End: data.reach - 1 }[event.key];
    if (go === undefined) return;
    event.preventDefault();
    pick(Math.max(0, Math.min(data.reach - 1, go)));
  });
}

/**
 * The links. `onPick` hears which token is pointed at, or pressed where it is to be `byPress`, or walked to by arrow
 * keys, and null where the pointer is at none.
 * @param {Life} life
 * @param {{ label: string, captions: string[], onPick: (row: number | null) => void }} options
 */
function links(life, { label, captions, onPick }) {
  /** @type {{ data: LinksData, layout: Layout, fit?: () => void, bring?: () => void }} */
  const state = { data: null, layout: null };
  let before = null, started = 0, request = 0;
  const el = h("div", { class: "attn-links" });
  const drawn = () => (before === null ? 1 : Math.min(1, (performance.now() - started) / FADE));
  const view = sharpCanvas(life, {
    label, keyboard: true,
    height(width) {
      const { data } = state, pen = view.canvas.getContext("2d");
      if (!data) return 40;
      const seen = Math.min(width, el.clientWidth - 6 || width), start = Math.min(el.scrollLeft, width - seen);
      state.layout = (data.columns ? layColumns : layRows)(pen, view.colours.font, data, width, { start, seen });
      return state.layout.height;
    },
    paint(context) {
      const { data, layout } = state;
      if (!data) return;
      const now = drawn(), part = (i) => (i === data.chosen ? now : i === before ? 1 - now : 0);
      const picture = { context, colours: view.colours, data, layout, captions, before, part,
        begin: el.scrollLeft && el.scrollLeft + 12 };
      shadeEdges(el);
      paintLinks(picture);
      paintTokens(picture);
      paintWords(picture);
      if (now === 1) before = null;
      else request = requestAnimationFrame(() => view.draw());
    },
  });
  listen(life, view, state, onPick);
  life.onEnd(() => cancelAnimationFrame(request));
  el.append(view.el);
  swiping(life, el, view, state);
  return {
    el, canvas: view.canvas,
    /** @param {LinksData} given */
    show(given) {
      const { data } = state, next = { reach: given.below.length, top: 1, power: 1, strands: [given], ...given };
      const moves = data && data.below === next.below && data.chosen !== next.chosen && data.chosen < next.reach;
      before = moves && mayMove() ? data.chosen : null;
      started = performance.now();
      cancelAnimationFrame(request);
      state.data = next;
      state.fit();
      view.draw();
      state.bring();
    },
  };
}

/**
 * The canvas as wide as its upright tokens: `fit()` sees to it, and `bring()` scrolls to the chosen one.
 * @param {Life} life
 * @param {HTMLElement} el
 * @param {import("./controls.js").View} view
 * @param {{ data: LinksData, layout: Layout, fit?: () => void, bring?: () => void }} state
 */
function swiping(life, el, view, state) {
  state.fit = () => {
    const { data } = state;
    if (!data || !data.swipes) return;
    const pen = view.canvas.getContext("2d"), width = Math.max(200, el.clientWidth - 6);
    const wanted = Math.max(...[data.above, data.below].map(
      (tokens) => wantedWidth(pen, view.colours.font, tokens, width)));
    el.classList.toggle("attn-swipes", wanted > width);
    view.el.style.minWidth = wanted > width ? `${Math.ceil(wanted) + 6}px` : "";
  };
  state.bring = () => {
    const { data, layout } = state;
    if (!data.swipes || !layout) return;
    const place = layout.below.places[data.chosen], half = el.clientWidth / 2;
    if (Math.abs(place - el.scrollLeft - half) > half - 44) el.scrollLeft = place - half; // and not what is pointed at
  };
  life.onResize(el, () => { state.fit(); view.draw(); });
  life.listen(el, "scroll", view.ask); // what is read and the captions stay in sight
  life.onTheme(state.fit);
}

/**
 * What a token reads, in words: the strongest first, three at most, and none that is weak.
 * @param {string[]} tokens
 * @param {Iterable<number> | ArrayLike<number>} weights
 */
function strongest(tokens, weights) {
  const most = Array.from(weights, (w, j) => [w, j]).sort((a, b) => b[0] - a[0])
    .filter(([w], n) => n === 0 || (n < 3 && w >= WRITTEN));
  return most.map(([w, j]) => `${quoted(tokens[j])} ${w.toFixed(2)}`).join(", then ");
}

export { links, strongest };
