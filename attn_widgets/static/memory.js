// A memory that is written: pairs of keys and values are added into one matrix, and a query reads it.
// Traits: data {keys, values, again, tokens, sharpness}, count, step, query, features, forget, erase, rewrite.

import { checked, css, distinct, DIVERGING, dot, largest, level, matvec, maskedSoftmax, PALETTE, quoted, two,
  visible } from "./numbers.js";
import {
  byFinger, choice, dragging, foldedTable, frame, h, handle, lifetime, mayMove, part, put, sharpCanvas, slider, tick,
} from "./controls.js";
import { colourScale } from "./weights.js";
import { folded } from "./folds.js";
import { handKeys } from "./hands.js";
import { between, transition } from "./moments.js";
import { write } from "./pen.js";
import { stepper } from "./steps.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Model} Model */
/** @typedef {number[]} Vector */

const MOST = 24, WIDEST = 16, SHORTEST = 1e-6, FEATURES = ["identity", "elu"]; // as in attn_widgets.memory
const PACE = 1500; // milliseconds until it plays on
const STRIDE = 0.25; // of the way from one key to the next, which a drag or a key moves the query
const WORST = 1.5; // the error of a full bar
const [QUERY, KEY, VALUE, WRONG] = PALETTE.categorical;

// ---------------------------------------------------------------- the memory

/** @type {(x: Vector, by: number) => Vector} */
const scaled = (x, by) => x.map((v) => v * by);
/** @type {(x: Vector) => Vector} */
const unit = (x) => scaled(x, 1 / Math.max(SHORTEST, Math.hypot(...x)));
/** @type {(a: Vector, b: Vector) => number} relative to the length of b */
const apart = (a, b) => Math.hypot(...a.map((x, c) => x - b[c])) / Math.max(SHORTEST, Math.hypot(...b));
// What a vector reads from a state, whose rows are the numbers of a key.
/** @type {(x: Vector, state: Vector[]) => Vector} */
const reading = (x, state) => state[0].map((_, c) => x.reduce((sum, v, r) => sum + v * state[r][c], 0));

// The features of a key of length 1.
function featuresOf(key, { features, erase, sharpness }) {
  if (features === "identity") return key;
  const found = key.map((x) => { const y = Math.sqrt(sharpness) * x; return (y > 0 ? y : Math.expm1(y)) + 1; });
  return erase ? unit(found) : found;
}

// One entry a write: {before, feature, value, old, state, sum}. `old` is what the key read just before.
/**
 * @param {Vector[]} keys
 * @param {Vector[]} values
 * @param {{ features: string, erase: boolean, sharpness: number, forget: number }} settings
 */
function writeAll(keys, values, settings) {
  const { forget, erase } = settings;
  /** @type {Vector[]} */
  let before = keys[0].map(() => values[0].map(() => 0));
  let sum = keys[0].map(() => 0);
  return keys.map((key, n) => {
    const feature = featuresOf(key, settings), value = values[n], kept = before.map((row) => scaled(row, 1 - forget));
    const old = reading(feature, kept), added = erase ? value.map((x, c) => x - old[c]) : value;
    const state = kept.map((row, r) => row.map((x, c) => x + feature[r] * added[c]));
    sum = sum.map((x, r) => (1 - forget) * x + feature[r]);
    const step = { before, feature, value, old, state, sum };
    before = state;
    return step;
  });
}

// What a query of length 1 reads from the state after a write.
function readState(query, { state, sum }, settings) {
  const feature = featuresOf(query, settings), read = reading(feature, state);
  return settings.features === "elu" && !settings.erase ? scaled(read, 1 / dot(feature, sum)) : read;
}

// What the softmax over these pairs answers.
function readPairs(query, keys, values, sharpness) {
  const weights = maskedSoftmax(scaled(matvec(keys, query), sharpness), null, 1, keys.length);
  return values[0].map((_, c) => values.reduce((sum, value, n) => sum + weights[n] * value[c], 0));
}

// ---------------------------------------------------------------- what is shown

/**
 * @typedef {object} Data
 * @property {Vector[]} keys
 * @property {Vector[]} values
 * @property {Vector} again
 * @property {string[]} tokens
 * @property {string[]} names tokens as they are drawn
 * @property {number} sharpness
 * @property {number} S
 * @property {number} D
 * @property {number} Dv
 */
/** @typedef {ReturnType<typeof readMemory>} Shown */

/** @param {Model} model @returns {Data} */
function fixedData(model) {
  const data = model.get("data"), { keys, values, again, tokens } = data, S = checked(keys.length, MOST);
  const D = checked(keys[0].length, WIDEST), Dv = checked(again.length, WIDEST);
  const fits = keys.every((key) => key.length === D) && values.every((value) => value.length === Dv);
  if (!fits || values.length !== S || tokens.length !== S) throw new RangeError(`a size must be ${S}, ${D} or ${Dv}`);
  return { ...data, names: distinct(tokens, 5), S, D, Dv };
}

/**
 * What the traits say is shown.
 * @param {Model} model
 * @param {Data} data
 */
function readMemory(model, data) {
  const { sharpness, S } = data, rewrite = model.get("rewrite");
  const features = model.get("features"), forget = model.get("forget");
  const settings = { features, forget, erase: model.get("erase"), sharpness };
  const count = checked(model.get("count"), S), total = count + Number(rewrite);
  if (!FEATURES.includes(features) || !(count > 0 && forget >= 0 && forget <= 0.5 && model.get("query") >= 0)) {
    throw new RangeError("the memory has no such setting");
  }
  const keys = data.keys.slice(0, count), values = data.values.slice(0, count), wanted = [...values];
  if (rewrite) { keys.push(keys[0]); values.push(data.again); }
  const at = Math.min(total - 1, checked(model.get("step"), MOST));
  if (at >= count) wanted[0] = data.again;
  const place = Math.min(count - 1, model.get("query")), low = Math.floor(place);
  const next = data.keys[Math.min(S - 1, low + 1)], nearest = Math.floor(place + 0.5);
  const query = unit(data.keys[low].map((x, n) => between(x, next[n], place - low)));
  const steps = writeAll(keys, values, settings), step = steps[at];
  const answer = readState(query, step, settings);
  const softmax = readPairs(query, keys.slice(0, at + 1), values.slice(0, at + 1), sharpness);
  const errors = wanted.map((value, n) => (n > at ? NaN : apart(readState(keys[n], step, settings), value)));
  return { settings, rewrite, count, total, at, place, nearest, query, steps, step, answer, softmax, errors,
    wanted: wanted[nearest], isWritten: nearest <= at,
    top: Math.max(1, Math.ceil(10 * largest(steps.flatMap(({ state }) => state.flat().map(Math.abs))) - 0.1) / 10) };
}

// ---------------------------------------------------------------- words

// What this write does.
function writeWords({ at, total, count, settings: { erase, forget }, step: { old } }, { tokens }) {
  const token = quoted(tokens[at < count ? at : 0], 12), length = Math.hypot(...old);
  const fades = forget > 0 ? `Of the state ${two(1 - forget)} is kept. ` : "";
  const which = at < count ? `Pair ${at + 1} of ${total}, key ${token}: `
    : `Key ${token} once more, with a new value: `;
  if (!erase) return `${fades}${which}the product of key and value is added to the state.`;
  return `${fades}${which}${length < 5e-3 ? "its key reads nothing yet, so there is nothing to erase."
    : `what its key reads, of length ${two(length)}, is erased first.`}`;
}

// What the query gets.
function readWords({ place, nearest, isWritten, answer, softmax, wanted }, { tokens }) {
  const token = quoted(tokens[nearest], 12), isBetween = place !== nearest;
  if (!isWritten) return ` The query asks for key ${token}, which is not written yet.`;
  return ` The query ${isBetween ? `is nearest to key ${token}` : `asks for key ${token}`}: error `
    + `${two(apart(answer, wanted))} from the state, ${two(apart(softmax, wanted))} from the softmax.`;
}

// ---------------------------------------------------------------- the picture: where things lie

const HEAD = 16, ARM = 34, GAP = 5, FOOT = 66; // pixels: titles, vectors beside the state, between them, the counts

/**
 * Where the parts of the picture lie on a canvas of this width.
 * @param {number} width
 * @param {Data} data
 */
function layout(width, { D, Dv }) {
  const isWide = width >= 560, most = Math.max(D, Dv);
  const cell = Math.floor((isWide ? 200 : 152) / Math.max(8, most)), [across, down] = [Dv * cell, D * cell];
  const block = 2 * (ARM + GAP) + across, space = isWide ? 26 : 12;
  const answers = isWide ? Math.max(120, Math.min(200, 0.22 * width)) : width;
  const list = Math.min(330, width - block - space - (isWide ? answers + space : 0));
  const left = isWide ? list + (width - list - block - answers) / 2 : width - block;
  const top = HEAD + ARM + GAP, tall = top + down;
  const under = isWide ? tall + 16 : tall + 124;
  return { width, isWide, cell, across, down, list, height: tall, under, foot: under + FOOT,
    state: [left + ARM + GAP, top],
    answers: isWide ? [[width - answers, HEAD], [width - answers, HEAD + tall / 2]]
      : [[0, tall + 26], [width / 2 + 6, tall + 26]],
    panel: isWide ? [answers, tall / 2 - 24] : [width / 2 - 6, 78], hasStrips: list >= 230 };
}

// Where the rows of the list lie now.
function rowsOf({ height }, { total }) {
  const pitch = Math.min(26, (height - HEAD) / total);
  return { pitch, middle: (n) => HEAD + (n + 0.5) * pitch };
}

// ---------------------------------------------------------------- the picture: what is painted

/**
 * @typedef {object} Picture what is painted, and where
 * @property {CanvasRenderingContext2D} context
 * @property {import("./controls.js").Colours} colours
 * @property {ReturnType<typeof layout>} at
 * @property {Shown} now
 * @property {Data} data
 * @property {number[]} moment how far the old has gone and the new has come
 * @property {Vector} before what the query read before this step
 */

// A vector as signed bars: side by side, or below one another if not `upright`. Its box is [left, top, pitch, room].
/**
 * @param {Picture} picture
 * @param {ArrayLike<number>} vector
 * @param {number[]} box
 * @param {{ colour: string, scale: number, upright?: boolean, share?: number, isHollow?: boolean }} style
 */
function bars({ context, colours }, vector, [left, top, pitch, room], { colour, scale, upright = true, share = 0.7,
  isHollow = false }) {
  const middle = (upright ? top : left) + room / 2, end = pitch * vector.length, thick = Math.max(2, share * pitch);
  context.fillStyle = colours.line;
  if (upright) context.fillRect(left, middle - 0.5, end, 1);
  else context.fillRect(middle - 0.5, top, 1, end);
  context.fillStyle = context.strokeStyle = colour; context.lineWidth = 1;
  context.setLineDash(isHollow ? [3, 2] : []);
  context.beginPath();
  for (let n = 0; n < vector.length; n++) {
    const long = (Math.max(-1, Math.min(1, vector[n] / scale)) * room) / 2, start = (n + 0.5) * pitch - thick / 2;
    if (upright) context.rect(left + start, middle - long, thick, long);
    else context.rect(middle, top + start, long, thick);
  }
  if (isHollow) context.stroke(); else context.fill();
  context.setLineDash([]);
}

// How long the bars are: the largest number of a key, and of a value.
const scalesOf = ({ keys, values, again }) => [keys, [...values, again]]
  .map((all) => largest(all.flat().map(Math.abs)) || 1);

function paintListHeads(picture, pitch, columns) {
  const { at } = picture;
  write(picture, at.hasStrips ? "pair" : "key", 26, 7);
  if (at.hasStrips) {
    write(picture, "key", columns.key, 7, { colour: KEY, bold: true });
    write(picture, "value", columns.value, 7, { colour: VALUE, bold: true });
  }
  write(picture, "error", columns.error, 7);
}

// Where the columns of the list begin.
function columnsOf({ list, hasStrips }, { D, Dv }) {
  const strip = Math.min(9, (list - 148) / (D + Dv)), key = 66, value = key + D * strip + 12;
  const error = hasStrips ? value + Dv * strip + 12 : 58;
  return { strip, key, value, error, room: list - error };
}

// The pairs in the order in which they are written, each with the error with which its key is read.
function paintList(picture) {
  const { context, colours, at, now, data } = picture, { pitch, middle } = rowsOf(at, now);
  const columns = columnsOf(at, data), high = Math.min(18, pitch - 2), [longKey, longValue] = scalesOf(data);
  paintListHeads(picture, pitch, columns);
  context.fillStyle = colours.panel; context.fillRect(20, middle(now.at) - pitch / 2, at.list - 20, pitch);
  for (let n = 0; n < now.total; n++) {
    const y = middle(n), isWritten = n <= now.at, again = n >= now.count, key = again ? 0 : n;
    context.globalAlpha = isWritten ? 1 : 0.35;
    if (at.hasStrips) {
      const value = again ? data.again : data.values[n];
      bars(picture, data.keys[key], [columns.key, y - high / 2, columns.strip, high], { colour: KEY, scale: longKey });
      bars(picture, value, [columns.value, y - high / 2, columns.strip, high], { colour: VALUE, scale: longValue });
    }
    context.globalAlpha = 1;
    const name = `${data.names[key]}${again ? "\u2032" : ""}`, colour = isWritten ? colours.ink : colours.muted;
    write(picture, name, 26, y, { size: Math.min(12, pitch - 1), bold: n === now.at, colour });
    if (isWritten && !again) paintError(picture, now.errors[n], columns, y, high);
  }
}

function paintError(picture, error, { error: left, room }, y, high) {
  const { context, colours } = picture, hasNumber = room > 70, width = room - (hasNumber ? 32 : 4);
  context.fillStyle = colours.line; context.fillRect(left, y - high / 4, 1, high / 2);
  context.fillStyle = WRONG; context.fillRect(left, y - high / 4, width * Math.min(1, error / WORST), high / 2);
  if (hasNumber) write(picture, two(error), left + room - 2, y, { align: "right", colour: colours.ink });
}

// The track on which the query is dragged from key to key, and its knob.
function paintQuery(picture) {
  const { context, colours, at, now } = picture, { middle } = rowsOf(at, now), y = middle(now.place);
  context.strokeStyle = colours.line; context.lineWidth = 3; context.lineCap = "round";
  context.beginPath(); context.moveTo(9, middle(0)); context.lineTo(9, middle(now.count - 1)); context.stroke();
  context.lineCap = "butt";
  handle(context, { paper: colours.paper, ink: QUERY }, 9, y, 8);
}

// The state at this moment: what was there fades or is erased, then the products of key and value come.
function stateNow({ now: { step, settings: { forget, erase } }, moment: [gone, come] }) {
  const { before, feature, value, old } = step;
  return before.map((row, r) => row.map((x, c) => x * (1 - forget * gone)
    - (erase ? gone * feature[r] * old[c] : 0) + come * feature[r] * value[c]));
}

function paintState(picture) {
  const { context, colours, at: { state: [left, top], cell, across, down }, now, moment: [gone, come] } = picture;
  stateNow(picture).forEach((row, r) => row.forEach((x, c) => {
    context.fillStyle = css(DIVERGING[level(x, -now.top, now.top)]);
    context.fillRect(left + c * cell, top + r * cell, cell - 1, cell - 1);
  }));
  context.strokeStyle = colours.muted; context.lineWidth = 1;
  context.strokeRect(left - 1.5, top - 1.5, across + 2, down + 2);
  if (come >= 1) return;
  const { feature, value, old } = now.step, isErasing = come === 0 && now.settings.erase;
  const what = isErasing ? old : value;
  const most = largest(feature.map(Math.abs)) * largest(what.map(Math.abs)) || 1, glow = isErasing ? gone : come;
  context.strokeStyle = isErasing ? WRONG : colours.ink; context.lineWidth = 2;
  feature.forEach((k, r) => what.forEach((v, c) => { // cells light up as far as the product changes them
    context.globalAlpha = (Math.abs(k * v) / most) * Math.sin(Math.PI * glow);
    context.strokeRect(left + c * cell + 1, top + r * cell + 1, cell - 3, cell - 3);
  }));
  context.globalAlpha = 1;
}

// The pair in hand beside the state, the query on the other side, and what the key read before.
function paintVectors(picture) {
  const { at: { state: [left, top], cell, across }, now, data, colours } = picture, { feature, value, old } = now.step;
  const query = featuresOf(now.query, now.settings), longest = largest([...feature, ...query].map(Math.abs)) || 1;
  const [, longValue] = scalesOf(data), { erase, features } = now.settings, isElu = features === "elu";
  const scale = Math.max(longValue, erase ? largest(old.map(Math.abs)) : 0);
  const beside = { scale: longest, upright: false };
  bars(picture, feature, [left - GAP - ARM, top, cell, ARM], { ...beside, colour: KEY });
  bars(picture, query, [left + across + GAP, top, cell, ARM], { ...beside, colour: QUERY });
  bars(picture, value, [left, HEAD, cell, ARM], { colour: VALUE, scale });
  if (erase) {
    bars(picture, old, [left, HEAD, cell, ARM], { colour: WRONG, scale, share: 0.9, isHollow: true });
    write(picture, "what the key read", left + across, 7, { colour: colours.muted, align: "right" });
  }
  /** @type {import("./pen.js").Style} */
  const name = { bold: true, align: "center", size: 13 }, middle = top - GAP - 8;
  write(picture, isElu ? "\u03c6(k)" : "k", left - GAP - ARM / 2, middle, { ...name, colour: KEY });
  write(picture, isElu ? "\u03c6(q)" : "q", left + across + GAP + ARM / 2, middle, { ...name, colour: QUERY });
  write(picture, "v", left, 7, { ...name, align: "left", colour: VALUE });
}

// The answers of the state and of the softmax, with the wanted value as lines.
function paintAnswers(picture) {
  const { context, colours, at, now, before, moment: [, come], data: { Dv } } = picture;
  const { answer, softmax, wanted } = now, [, longValue] = scalesOf(picture.data);
  const [width, height] = at.panel, pitch = width / Dv;
  const scale = Math.max(longValue, largest([...answer, ...softmax].map(Math.abs)));
  const all = [["q reads from S", answer.map((x, c) => between(before[c], x, come)), VALUE],
    ["and by the softmax", softmax, VALUE]];
  all.forEach(([title, vector, colour], n) => {
    const [left, top] = at.answers[n];
    write(picture, title, left, top - 8, { colour: colours.ink });
    bars(picture, vector, [left, top, pitch, height], { colour, scale, share: 0.6 });
    if (!now.isWritten) return;
    context.fillStyle = colours.ink;
    wanted.forEach((x, c) => context.fillRect(left + (c + 0.08) * pitch,
      top + (1 - x / scale) * (height / 2) - 1, 0.84 * pitch, 2));
  });
}

// How many numbers each keeps: a cache as many as there are pairs, the state always as many.
function paintCounts(picture) {
  const { context, colours, at, now, data: { D, Dv } } = picture, { features, erase } = now.settings;
  const hasSum = features === "elu" && !erase;
  const state = D * Dv + (hasSum ? D : 0), cache = (now.at + 1) * (D + Dv), label = 46, number = 34;
  const room = at.width - label - number, most = Math.max(state, now.total * (D + Dv));
  write(picture, "Numbers kept", 0, at.under + 8, { colour: colours.ink });
  [["cache", cache, now.at + 1], ["state", state, 1]].forEach(([name, count, parts], n) => {
    const y = at.under + 28 + 20 * n, long = (room * count) / most;
    write(picture, name, 0, y);
    for (let m = 0; m < parts; m++) { // a pair each, half of it key and half value
      const left = label + (m * long) / parts, one = long / parts - 1, key = parts > 1 || n === 0 ? D / (D + Dv) : 0;
      context.fillStyle = n ? colours.accent : KEY; context.fillRect(left, y - 6, n ? one : one * key, 12);
      if (!n) { context.fillStyle = VALUE; context.fillRect(left + one * key, y - 6, one * (1 - key), 12); }
    }
    write(picture, String(count), label + long + 6, y, { colour: colours.ink, bold: true });
  });
}

// ---------------------------------------------------------------- the hands

/**
 * The whole picture; the query is dragged along the list, and moved by arrow keys.
 * @param {Life} life
 * @param {Data} data
 * @param {() => Shown} shown
 * @param {{ moments: () => number[], before: () => Vector, ask: (place: number) => void }} rest
 */
function pictureView(life, data, shown, { moments, before, ask }) {
  let at = null;
  const view = sharpCanvas(life, { keyboard: true,
    label: "Pairs of keys and values, the state into which they are written, and what the query reads from it. "
      + "Arrow keys move the query to the next key, with Shift a quarter of the way; the numbers are in the tables.",
    height: (width) => (at = layout(width, data)).foot,
    paint(context) {
      const picture = { context, colours: view.colours, at, now: shown(), data, moment: moments(), before: before() };
      for (const paint of [paintList, paintQuery, paintState, paintVectors, paintAnswers, paintCounts]) paint(picture);
    } });
  view.canvas.classList.add("attn-drag");
  const placeAt = (y) => {
    const { pitch } = rowsOf(at, shown());
    return Math.round(((y - HEAD) / pitch - 0.5) / STRIDE) * STRIDE;
  };
  // A finger takes the query by its knob, or taps a pair; a mouse may press anywhere in the list.
  const press = ([x, y]) => {
    const isPair = x <= at.list && y >= HEAD && y <= at.height;
    if (isPair) ask(Math.round(placeAt(y)));
    return isPair || null;
  };
  dragging(life, view, ([x, y], touch) => {
    const { middle } = rowsOf(at, shown()), isKnob = Math.hypot(x - 9, y - middle(shown().place)) < 26;
    return isKnob || (touch ? null : press([x, y]));
  }, (_, [, y]) => ask(placeAt(y)));
  life.listen(view.canvas, "click", (event) => { if (event.pointerType === "touch") press(view.at(event)); });
  handKeys(life, view, {
    choose: (by) => ask(Math.abs(by) === Infinity ? by : Math.round(shown().place) + by),
    move: (right, up) => ask(shown().place + (right - up) * STRIDE),
  });
  return view;
}

// ---------------------------------------------------------------- tables and controls

const numbersFrom1 = (n) => Array.from({ length: n }, (_, m) => String(m + 1));
const precise = (x) => x.toFixed(3).replace("-", "\u2212");

function tablesOf(life, { tokens, D, Dv }, shown) {
  return [foldedTable(life, "The state as a table", () => ({ corner: "key \u2193 value \u2192",
    columns: numbersFrom1(Dv), rows: shown().step.state.map((row, r) => [numbersFrom1(D)[r], ...row.map(precise)]) })),
  foldedTable(life, "The answers as a table", () => {
    const { answer, softmax, wanted, isWritten } = shown();
    return { corner: "number", columns: ["state", "softmax", "wanted"], rows: answer.map((x, c) => [String(c + 1),
      precise(x), precise(softmax[c]), isWritten ? precise(wanted[c]) : "not written"]) };
  }),
  foldedTable(life, "The keys as a table", () => ({ corner: "key", columns: ["error when read"],
    rows: shown().errors.map((error, n) => (
      [visible(tokens[n]), Number.isNaN(error) ? "not written" : precise(error)])) }))];
}

function controlsFor(model, life, { S }, shown) {
  const query = part(model, ["query", "count"], () => shown().place, (x) => model.set("query", x));
  const place = slider(query, life, "query",
    { label: "Query", min: 0, max: S - 1, step: STRIDE, format: (x) => String(x + 1) });
  const last = () => { place.querySelector("input").max = String(shown().count - 1); };
  last();
  const opens = ["features", "forget", "erase", "rewrite"];
  const features = [["identity", "the key itself"], ["elu", "elu + 1"]];
  const more = folded(model, life, "Features, forgetting, erasing", { opens },
    h("div", { class: "attn-controls" },
      choice(model, life, "features", { label: "Features", choices: features }),
      slider(model, life, "forget", { label: "Forget at each write", min: 0, max: 0.5, step: 0.05, format: two }),
      tick(model, life, "erase", { label: "Erase first (delta rule)" }),
      tick(model, life, "rewrite", { label: "Write the first key again" })));
  return { place, last, more, count: slider(model, life, "count", { label: "Keys", min: 1, max: S, step: 1 }) };
}

// ---------------------------------------------------------------- the widget

const SETTINGS = ["count", "query", "features", "forget", "erase", "rewrite"];
const HINT = ["press", "tap"].map((way) => `Drag the blue knob from key to key, or ${way} a pair.`);

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), data = fixedData(model);
  let now = readMemory(model, data), before = now.answer;
  const shown = () => now;
  const slide = transition(life, () => picture.draw());
  const picture = pictureView(life, data, shown, { moments: slide.moments, before: () => before,
    ask: (place) => put(model, { query: Math.max(0, Math.min(now.count - 1, place)) }) });
  const sentence = h("p", { class: "attn-said", role: "status" }), scale = colourScale(life);
  const steps = stepper(model, life, { pace: PACE, place: () => ({ step: now.at, count: now.total }) });
  const tables = tablesOf(life, data, shown);

  function draw() {
    const from = now;
    now = readMemory(model, data);
    before = from.answer;
    slide.stop();
    const isSame = SETTINGS.every((name) => String(seen[name]) === String(model.get(name)));
    SETTINGS.forEach((name) => { seen[name] = model.get(name); });
    if (isSame && now.at === from.at + 1 && mayMove()) slide.start();
    else picture.ask();
    scale.show(now.top, true);
    controls.last();
    steps.draw();
    sentence.textContent = writeWords(now, data) + readWords(now, data);
    tables.forEach((table) => table.fill());
  }
  const seen = {};
  life.watch(["count"], () => controls.last()); // before the slider itself hears of it
  const controls = controlsFor(model, life, data, () => readMemory(model, data));
  life.watch(["step", ...SETTINGS], draw);
  steps.el.classList.add("attn-inline");
  const legend = h("p", { class: "attn-note" }, `${HINT[Number(byFinger())]} Short lines mark the wanted value; `
    + "an error is the distance from it, divided by its length.");
  frame(el, life, { picture: [picture.el, sentence], controls: [steps.el, controls.count, controls.place],
    more: [controls.more], body: [h("div", { class: "attn-memory" }, scale.el, legend),
      h("div", { class: "attn-columns" }, ...tables.map((table) => table.el))] });
  draw();
  return life.end;
}

export default { render };
