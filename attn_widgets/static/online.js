// The softmax tile by tile: the running maximum and sum move, and what was summed before is rescaled.
// Traits: data {values, tokens}, scores, masked, tile, step, key, forget.

import { checked, distinct, maskedSoftmax, PALETTE, quoted, shown, visible } from "./numbers.js";
import {
  choice, dragging, foldedTable, frame, h, handle, lifetime, mayMove, part, put, sharpCanvas, slider, tick,
} from "./controls.js";
import { folded } from "./folds.js";
import { tabsOnPhone } from "./tabs.js";
import { hatch } from "./weights.js";
import { heatmap } from "./map.js";
import { between, transition } from "./moments.js";
import { stepper } from "./steps.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Model} Model */

const MOST_KEYS = 64; // as in attn_widgets.online
const PACE = 1900; // milliseconds from one tile to the next, as it plays
const RIGHT = 60, TOP = 30, FLOOR = 124, STRIP = 16; // pixels: for numbers; where scores begin and end; for masked keys
const [, KEY, VALUE, WRONG] = PALETTE.categorical;

// One entry a tile: {start, end, old, maximum, rescale, exps, added, total, sums, output}. `old` is what the
// tile found, {maximum, total, sums, exps, output}, and `added` what it adds to both sums. Whoever forgets
// the factor `rescale` goes on with sums that were measured against another maximum.
function onlineSoftmax(scores, values, tile, forget = false) {
  const S = scores.length, steps = [];
  let now = { maximum: -Infinity, total: 0, sums: [0, 0], exps: new Float64Array(S), output: [0, 0] };
  for (let start = 0; start < S; start += tile) {
    const end = Math.min(S, start + tile), old = now, added = { total: 0, sums: [0, 0] };
    let { maximum } = old;
    for (let j = start; j < end; j++) maximum = Math.max(maximum, scores[j]);
    // Before the first score that is open, there is nothing to rescale.
    const rescale = old.maximum === -Infinity ? 0 : Math.exp(old.maximum - maximum), factor = forget ? 1 : rescale;
    const exps = old.exps.map((x) => x * factor);
    for (let j = start; j < end; j++) {
      if (scores[j] === -Infinity) continue;
      exps[j] = Math.exp(scores[j] - maximum);
      added.total += exps[j];
      values[j].forEach((value, c) => { added.sums[c] += exps[j] * value; });
    }
    const total = factor * old.total + added.total;
    const sums = old.sums.map((sum, c) => factor * sum + added.sums[c]);
    now = { maximum, total, sums, exps, output: sums.map((sum) => (total > 0 ? sum / total : 0)) };
    steps.push({ ...now, start, end, old, rescale, factor, added });
  }
  return steps;
}

// ---------------------------------------------------------------- words

const minus = (text) => text.replace("-", "\u2212");
const limited = (x, write) => (x === -Infinity ? "\u2212\u221e" : minus(write(x)));
const scoreWords = (x) => limited(x,
  (s) => (Math.abs(s) >= 1e5 ? s.toExponential(0) : s.toFixed(Math.abs(s) < 100 ? 2 : 0)));
const numberWords = (x) => minus(x > 0 && x < 5e-4 ? x.toExponential(1) : shown(x));
const vectorWords = (x) => `(${x.map(numberWords).join(", ")})`;

// The step as formulas, with its numbers.
function formulas({ old, maximum, rescale, added, total, sums, output, start, end, scores }, forget) {
  const best = Math.max(...scores.slice(start, end)), [a, b] = [old.maximum, maximum].map(scoreWords);
  const power = maximum === -Infinity ? "" : `e^(${a} \u2212 ${b}) = `, factor = numberWords(rescale);
  const times = forget ? "" : `${factor} \u00d7 `;
  return [`m = max(${a}, ${scoreWords(best)}) = ${b}`,
    `r = ${power}${factor}${forget ? ", forgotten" : ""}`,
    `Z = ${times}${numberWords(old.total)} + ${numberWords(added.total)} = ${numberWords(total)}`,
    `u = ${times}${vectorWords(old.sums)}`, `  + ${vectorWords(added.sums)}`, `  = ${vectorWords(sums)}`,
    `output = u / Z = ${vectorWords(output)}`];
}

// What happens in this step, in words.
function stepWords({ start, end, old, maximum, rescale }, forget) {
  const keys = end - start > 1 ? `Keys ${start} to ${end - 1}` : `Key ${start}`, factor = numberWords(rescale);
  const [a, b] = [old.maximum, maximum].map(scoreWords);
  const what = maximum === -Infinity ? "every key so far is masked, and there is nothing to sum"
    : old.maximum === -Infinity ? `the first maximum is ${b}`
      : rescale === 1 ? `the maximum stays ${b}, so nothing is rescaled`
        : `the maximum rises from ${a} to ${b}, so the old sums `
          + (forget ? `should be multiplied by ${factor}, but are not` : `are multiplied by ${factor}`);
  return `${keys}: ${what}.`;
}

// What the end shows: the softmax, or what came of forgetting the factor.
function verdict({ at, run, last, output }) {
  const apart = Math.hypot(...output.map((x, c) => x - last.output[c]));
  if (at < run.length - 1 || !(last.total > 0)) return "";
  return apart > 5e-4 ? " The output is not the softmax\u2019s." : " The output is the softmax\u2019s.";
}

// ---------------------------------------------------------------- what is shown

/**
 * @typedef {object} Key data that stay
 * @property {number[][]} values
 * @property {string[]} tokens
 * @property {string[]} names tokens as they are drawn
 * @property {number} S
 * @property {number} low of the scores that the picture holds
 * @property {number} high
 */

// The window of scores stays where they were at first: it must not move under a dragging hand.
function fixedData(model) {
  const { values, tokens } = model.get("data"), S = checked(values.length, MOST_KEYS);
  const open = model.get("scores").filter((_, n) => !model.get("masked").includes(n));
  const ends = [Math.min(0, ...open), Math.max(0, ...open)], pad = Math.max(1, (ends[1] - ends[0]) / 4);
  return { values, tokens, names: distinct(tokens, 10), S, low: Math.floor(ends[0] - pad),
    high: Math.ceil(ends[1] + pad) };
}

/**
 * What the traits say is shown: the step, all steps, and the last of those that forget nothing.
 * @param {Model} model
 * @param {Key} data
 */
function readStep(model, { values, S }) {
  const given = model.get("scores"), masked = model.get("masked"), forget = model.get("forget");
  if (checked(given.length, S) !== S || !given.every(Number.isFinite)) throw new RangeError("a size must be S");
  const scores = given.map((score, n) => (masked.includes(n) ? -Infinity : score));
  const tile = Math.max(1, Math.min(S, checked(model.get("tile"), MOST_KEYS)));
  const right = onlineSoftmax(scores, values, tile), run = forget ? onlineSoftmax(scores, values, tile, true) : right;
  const at = Math.min(run.length - 1, checked(model.get("step"), MOST_KEYS));
  const key = Math.min(S - 1, checked(model.get("key"), MOST_KEYS));
  const most = Math.max(1e-9, ...run.map(({ total, old }) => Math.max(total, old.total)));
  return { scores, masked, forget, tile, right, run, at, key, most, ...run[at], last: right.at(-1) };
}
const isClosed = ({ scores }, n) => scores[n] === -Infinity;
const isInTile = ({ start, end }, n) => n >= start && n < end;
// What stands for a key, or its value, has that hue while its tile is read, and is grey later.
const hueOf = (now, n, hue, { muted }) => (isInTile(now, n) ? hue : muted);

// ---------------------------------------------------------------- the picture: where things lie

/**
 * Where the parts of the picture lie on a canvas of this width.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} font
 * @param {Key} data
 * @param {number} width
 */
function layout(pen, font, { names, S, low, high }, width) {
  pen.font = `12px ${font}`;
  const longest = Math.max(...names.map((name) => pen.measureText(name).width));
  const left = 4, pitch = (width - left - RIGHT) / S, upright = longest + 4 < pitch;
  const nameHeight = upright ? 16 : Math.min(64, longest + 8);
  const above = FLOOR + STRIP + nameHeight + 6, edge = (n) => left + n * pitch;
  const scoreY = (score) => (score === -Infinity ? FLOOR + STRIP / 2
    : FLOOR - 4 - ((Math.max(low, Math.min(high, score)) - low) / (high - low)) * (FLOOR - 4 - TOP));
  return { width, left, right: width - RIGHT, pitch, isRoomy: pitch >= 31, edge, x: (n) => edge(n + 0.5), scoreY,
    upright, every: Math.ceil(13 / pitch), names: FLOOR + STRIP + 3, title: above + 12, peak: above + 32,
    base: above + 96, sum: above + 122 };
}

// ---------------------------------------------------------------- the picture: what is painted

/**
 * @typedef {object} Picture what is painted, and where
 * @property {CanvasRenderingContext2D} context
 * @property {import("./controls.js").Colours} colours
 * @property {ReturnType<typeof layout>} at
 * @property {ReturnType<typeof readStep>} now
 * @property {Key} data
 * @property {number[]} moment how far the old has shrunk and the new has grown
 */

function write({ context, colours }, text, x, y, { colour = colours.muted, align = "left", bold = false, size = 11,
  halo = null } = {}) {
  context.font = `${bold ? "600 " : ""}${size}px ${colours.font}`;
  context.textAlign = align; context.textBaseline = "alphabetic";
  if (halo) { // for a number that a line may cross
    context.strokeStyle = halo; context.lineWidth = 4; context.lineJoin = "round";
    context.strokeText(text, x, y);
  }
  context.fillStyle = colour; context.fillText(text, x, y);
}
function rule({ context, colours }, x0, y0, x1, y1, { colour = colours.line, dash = [], thick = 1 } = {}) {
  context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1);
  context.setLineDash(dash); context.strokeStyle = colour; context.lineWidth = thick;
  context.stroke(); context.setLineDash([]);
}
function ghost({ context, colours }, x, y, width, height) { // what was there before it shrank
  context.setLineDash([3, 2]); context.strokeStyle = colours.muted; context.lineWidth = 1;
  context.strokeRect(x, y, width, height);
  context.setLineDash([]);
}

function paintTiles(picture) {
  const { context, colours, at, now: { tile, start, end }, data: { S } } = picture, { edge } = at, foot = at.base + 6;
  context.fillStyle = colours.panel; // the tile in hand
  context.fillRect(edge(start), 0, edge(end) - edge(start), foot);
  context.fillStyle = KEY; context.fillRect(edge(start), 0, edge(end) - edge(start), 3);
  for (let n = tile; n < S; n += tile) rule(picture, edge(n), 0, edge(n), foot, { dash: [1, 3] });
  rule(picture, at.left, FLOOR, at.right, FLOOR);
  context.fillStyle = hatch(context, colours.line);
  context.fillRect(at.left, FLOOR + 1, at.right - at.left, STRIP - 2);
  write(picture, "scores", at.left + 2, 15);
  write(picture, "\u2212\u221e", at.right + 5, FLOOR + STRIP - 3);
}

function paintMaximum(picture) { // where it has been, and where it is
  const { colours: { ink: colour }, at, now, moment: [shrunk] } = picture, { edge, scoreY } = at;
  const { run, old, maximum, end } = now;
  for (const { maximum: m, start: s, end: e } of run.slice(0, now.at)) {
    if (m > -Infinity) rule(picture, edge(s), scoreY(m), edge(e), scoreY(m), { colour, thick: 1.5 });
  }
  if (maximum === -Infinity) return;
  const y = old.maximum === -Infinity ? scoreY(maximum) : between(scoreY(old.maximum), scoreY(maximum), shrunk);
  rule(picture, at.left, y, edge(end), y, { colour, dash: [6, 3], thick: 2 });
  rule(picture, edge(end), y, at.right, y, { colour, dash: [1, 4] });
  write(picture, `m ${scoreWords(maximum)}`, at.right + 5, y + 4, { colour, bold: true });
}

function paintScores(picture) {
  const { context, colours, at, now } = picture, radius = Math.min(9, at.pitch / 2);
  now.scores.forEach((score, n) => {
    const x = at.x(n), y = at.scoreY(score), later = n >= now.end, ink = later ? colours.muted : colours.ink;
    const line = later ? { colour: colours.muted, dash: [2, 3] } : { colour: hueOf(now, n, KEY, colours), thick: 3 };
    if (!isClosed(now, n)) rule(picture, x, FLOOR, x, y, line);
    handle(context, colours, x, y, Math.min(5, 0.6 * radius));
    if (n === now.key) {
      context.strokeStyle = colours.ink; context.lineWidth = 2; context.beginPath();
      context.arc(x, y, radius, 0, 7); context.stroke();
    }
    const halo = isInTile(now, n) ? colours.panel : colours.paper;
    if (at.isRoomy) write(picture, scoreWords(score), x, y - 11, { align: "center", colour: ink, halo });
  });
}

function paintNames(picture) {
  const { context, colours, at, now, data: { names } } = picture, { upright } = at;
  names.forEach((name, n) => {
    if (n % at.every && n !== now.key) return;
    context.save();
    context.translate(at.x(n), upright ? at.names + 11 : at.names + 6);
    if (!upright) context.rotate(-Math.PI / 2);
    write(picture, name, 0, upright ? 0 : 4, { size: 12, align: upright ? "center" : "right", bold: n === now.key,
      colour: isInTile(now, n) ? colours.ink : colours.muted });
    context.restore();
  });
}

// The heights of the bars at this moment: the old ones shrink, then the new ones grow.
function heights({ now: { old, factor, exps, start, end }, moment: [shrunk, grown] }) {
  return Array.from(exps, (x, n) => (
    n < start ? old.exps[n] * between(1, factor, shrunk) : n < end ? x * grown : 0));
}

function paintExps(picture) {
  const { context, colours, at, now } = picture, { title, peak, base } = at, { old, start, end, rescale, forget } = now;
  const width = Math.min(26, 0.6 * at.pitch), unit = base - peak;
  write(picture, "e^(score \u2212 m), of what has been seen", at.left + 2, title);
  rule(picture, at.left, base, at.right, base);
  rule(picture, at.left, peak, at.edge(end), peak, { dash: [1, 3], colour: colours.muted });
  heights(picture).forEach((share, n) => {
    const left = at.x(n) - width / 2, height = share * unit, before = n < start ? old.exps[n] * unit : 0;
    context.fillStyle = hueOf(now, n, KEY, colours); context.fillRect(left, base - height, width, height);
    if (before - height > 1.5 && !forget && rescale < 1) {
      ghost(picture, left + 0.5, base - before, width - 1, before - height);
    }
    if (!at.isRoomy || n >= end || isClosed(now, n)) return;
    const number = at.pitch < 38 ? now.exps[n].toFixed(2) : numberWords(now.exps[n]);
    write(picture, number, at.x(n), base - Math.max(height, before) - 4, { align: "center", colour: colours.ink });
  });
}

function paintSum(picture) {
  const { context, colours, at, now } = picture, { left, sum } = at;
  const { old, total, most, factor, forget, rescale } = now;
  const unit = (at.right - left) / most, thick = 15;
  const before = forget || rescale === 1 || !old.total ? "" : ` (before this tile ${numberWords(old.total)})`;
  write(picture, `their sum${before}`, left + 2, sum - 5);
  write(picture, `Z ${numberWords(total)}`, at.right + 5, sum + 12, { colour: colours.ink, bold: true });
  context.fillStyle = colours.panel; context.fillRect(left, sum, at.right - left, thick);
  let x = left;
  heights(picture).forEach((share, n) => {
    context.fillStyle = hueOf(now, n, KEY, colours); context.fillRect(x, sum, share * unit, thick);
    x += share * unit;
    if (share * unit > 4) { context.fillStyle = colours.paper; context.fillRect(x - 1, sum, 1, thick); }
  });
  const length = old.total * unit;
  if (!forget && factor < 1 && length > 2) ghost(picture, left + 0.5, sum - 2.5, length, thick + 5);
}

/**
 * The scores with the tile in hand, what is summed, and the sum; a score goes where its knob is put, and into the
 * hatched strip, and its key is masked.
 * @param {Life} life
 * @param {Key} data
 * @param {() => any} step what is shown now
 * @param {() => number[]} moments
 * @param {{ choose: (key: number) => void, setScore: (key: number, score: number) => void }} deeds
 */
function scorePicture(life, data, step, moments, { choose, setScore }) {
  const { S, low, high } = data;
  let at = null;
  const view = sharpCanvas(life, {
    label: "The scores with the tile in hand and the maximum so far, below them what is summed, and the sum. "
      + "The controls move them all; the numbers are in the table.",
    height(width) {
      at = layout(view.canvas.getContext("2d"), view.colours.font, data, width);
      return at.sum + 20;
    },
    paint(context) {
      const picture = { context, colours: view.colours, at, now: step(), data, moment: moments() };
      for (const paint of [paintTiles, paintMaximum, paintScores, paintNames, paintExps, paintSum]) paint(picture);
    } });
  view.canvas.classList.add("attn-drag");
  function grab([x, y]) {
    const n = Math.max(0, Math.min(S - 1, Math.floor((x - at.left) / at.pitch)));
    if (Math.hypot(at.x(n) - x, at.scoreY(step().scores[n]) - y) > 20) return null;
    choose(n);
    return n;
  }
  dragging(life, view, grab, (n, [, y]) => {
    const score = low + ((FLOOR - 4 - Math.max(TOP, y)) / (FLOOR - 4 - TOP)) * (high - low);
    setScore(n, y > FLOOR + 2 ? -Infinity : Math.max(low, Number(score.toFixed(high - low > 20 ? 0 : 1))));
  });
  return view;
}

// ---------------------------------------------------------------- the values in the plane

function disc({ context }, place, radius, fill, stroke) {
  context.beginPath(); context.arc(place[0], place[1], radius, 0, 7);
  if (fill) { context.fillStyle = fill; context.fill(); }
  if (stroke) { context.strokeStyle = stroke; context.lineWidth = 1.5; context.stroke(); }
}

function paintValues(picture, spot, width) {
  const { colours, now, data: { values, names, S } } = picture, { exps, total, end } = now;
  values.forEach((value, n) => {
    const place = spot(value), share = total > 0 ? exps[n] / total : 0, seen = n < end && !isClosed(now, n);
    const radius = 3 + 9 * Math.sqrt(share);
    disc(picture, place, radius, seen ? hueOf(now, n, VALUE, colours) : null, seen ? null : colours.muted);
    if (S > 24 && !isInTile(now, n)) return;
    const near = place[0] > width - 60, gap = 6 + 9 * Math.sqrt(share);
    write(picture, names[n], place[0] + (near ? -gap : gap), place[1] + 4, { align: near ? "right" : "left" });
  });
}

// The mean of the values seen so far on its way, and the softmax of all as a ring.
function paintMean(picture, spot) {
  const { colours, now, moment: [, grown] } = picture, { run, at, forget, old, last, total } = now;
  if (last.total > 0) {
    const [x, y] = spot(last.output);
    disc(picture, [x, y], 10, null, colours.ink);
    write(picture, "softmax", x, y - 14, { align: "center", colour: colours.ink });
  }
  const colour = forget ? WRONG : colours.ink;
  const path = run.slice(0, at).filter((one) => one.total > 0).map(({ output }) => spot(output));
  if (!(total > 0)) return;
  const [from, to] = [old.total > 0 ? old.output : now.output, now.output].map(spot);
  const here = [0, 1].map((c) => between(from[c], to[c], grown));
  [...path, here].reduce((a, z) => { rule(picture, a[0], a[1], z[0], z[1], { colour, thick: 1.5 }); return z; });
  path.forEach((place) => disc(picture, place, 2.5, colour));
  disc(picture, here, 6, colour, colours.paper);
}

function valuePlane(life, data, step, moments) {
  const [xs, ys] = [0, 1].map((c) => data.values.map((value) => value[c]));
  const middle = [xs, ys].map((all) => (Math.min(...all) + Math.max(...all)) / 2);
  const spans = [xs, ys].map((all) => Math.max(...all) - Math.min(...all) || 1);
  const view = sharpCanvas(life, {
    label: "The values as points, the mean of those seen so far on its way, and the softmax of all as a ring.",
    height: (width) => Math.min(width, 194),
    paint(context, width, height) {
      const picture = { context, colours: view.colours, now: step(), data, moment: moments() };
      const unit = Math.min((width - 70) / spans[0], (height - 44) / spans[1]);
      const spot = (value) => [width / 2 + (value[0] - middle[0]) * unit, height / 2 - (value[1] - middle[1]) * unit];
      context.strokeStyle = view.colours.line; context.lineWidth = 1;
      context.strokeRect(0.5, 0.5, width - 1, height - 1);
      paintValues(picture, spot, width);
      paintMean(picture, spot);
    } });
  return view;
}

// ---------------------------------------------------------------- maps and tables

// The weights so far beside the softmax of all, as a map and with the keys' scores as a table.
function weightViews(life, { tokens, S }, step) {
  const rowNames = ["so far", "softmax"], both = new Float64Array(2 * S);
  let mask = null;
  const map = heatmap(life, { label: "The weights so far and those of the softmax of all. Arrow keys walk the cells.",
    tallest: 24 });
  const axes = { columns: "weights of the keys", rows: "", corner: "",
    cell: (i, j) => `${rowNames[i]}, key ${j} ${quoted(tokens[j])}` };
  const weightAt = (n) => (mask[n] ? shown(both[n]) : "masked");
  const table = foldedTable(life, "The keys as a table", () => ({
    corner: "key", columns: ["score", "e^(score \u2212 m)", "weight so far", "softmax"],
    rows: tokens.map((token, n) => {
      const now = step(), weights = [0, S].map((row) => weightAt(row + n)), isSeen = n < now.end;
      return [`${n} ${visible(token)}`, isClosed(now, n) ? scoreWords(-Infinity) : shown(now.scores[n]),
        isSeen ? shown(now.exps[n]) : "", ...weights];
    }) }));
  return { map, table, draw() {
    const now = step(), { exps, total, end } = now;
    both.set(exps.map((x) => (total > 0 ? x / total : 0)));
    both.set(maskedSoftmax(now.scores, null, 1, S), S);
    mask = Uint8Array.from({ length: 2 * S }, (_, n) => Number(!isClosed(now, n % S) && (n >= S || n < end)));
    map.show({ values: both, L: 2, S, mask, queries: rowNames, keys: null, top: 1, axes });
  } };
}

const stepTable = (life, step) => foldedTable(life, "The steps as a table", () => ({
  corner: "keys", columns: ["maximum", "factor", "sum", "output x", "output y"],
  rows: step().run.map(({ start, end, maximum, rescale, total, output }) => [`${start} to ${end - 1}`,
    maximum === -Infinity ? scoreWords(maximum) : shown(maximum), ...[rescale, total, ...output].map(shown)]) }));

// The formulas line by line; those whose text has changed are lit, until something changes again.
function formulaView() {
  const el = h("pre", {}), lines = [];
  return { el, show(texts) {
    const isFirst = !lines.length;
    while (lines.length < texts.length) {
      if (lines.length) el.append("\n");
      lines.push(h("span"));
      el.append(lines.at(-1));
    }
    if (!isFirst && texts.every((text, n) => text === lines[n].textContent)) return;
    lines.forEach((line, n) => {
      line.classList.toggle("attn-lit", !isFirst && line.textContent !== texts[n]);
      line.textContent = texts[n];
    });
  } };
}

// ---------------------------------------------------------------- the widget

// The key at hand: which it is, its score, and whether it is masked.
function keyControls(model, life, { tokens, low, high }, step, setScore) {
  const score = part(model, ["scores", "masked", "key"], () => model.get("scores")[step().key],
    (x) => setScore(step().key, x));
  const closed = part(model, ["masked", "key"], () => model.get("masked").includes(step().key),
    (is) => setScore(step().key, is ? -Infinity : model.get("scores")[step().key]));
  const fine = high - low > 20 ? Number(((high - low) / 200).toPrecision(1)) : 0.1;
  const group = { class: "attn-controls attn-buttons attn-inline attn-one", role: "group", "aria-label": "One key" };
  return h("div", group,
    choice(model, life, "key", { label: "Key", choices: tokens.map((token, n) => [n, `${n} ${visible(token, 14)}`]) }),
    slider(score, life, "score", { label: "its score", min: low, max: high, step: fine, format: (x) => x.toFixed(2) }),
    tick(closed, life, "closed", { label: "Masked (\u2212\u221e)" }));
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), data = fixedData(model), { S } = data;
  let now = readStep(model, data);
  const step = () => now;
  const slide = transition(life, () => { picture.draw(); plane.draw(); });
  function setScore(n, score) {
    const masked = now.masked.filter((m) => m !== n);
    if (score === -Infinity) return put(model, { masked: [...masked, n].sort((a, b) => a - b) });
    const scores = now.scores.map((_, m) => (m === n ? Number(score.toFixed(4)) : model.get("scores")[m]));
    put(model, { scores, masked: masked.length < now.masked.length ? masked : now.masked });
  }
  const picture = scorePicture(life, data, step, slide.moments, { setScore, choose: (key) => put(model, { key }) });
  const plane = valuePlane(life, data, step, slide.moments);
  const weights = weightViews(life, data, step), table = stepTable(life, step);
  const sentence = h("p", { class: "attn-said", role: "status" });
  const sums = formulaView(), memory = h("p", { class: "attn-note" });
  const steps = stepper(model, life, { pace: PACE, place: () => ({ step: now.at, count: now.run.length }) });

  function draw() {
    const from = now;
    now = readStep(model, data);
    slide.stop();
    const isSame = ["scores", "tile", "forget"].every((name) => String(now[name]) === String(from[name]));
    if (isSame && now.at === from.at + 1 && mayMove()) slide.start();
    else { picture.ask(); plane.ask(); }
    weights.draw();
    steps.draw();
    sentence.textContent = stepWords(now, now.forget) + verdict(now);
    sums.show([...formulas(now, now.forget), `softmax of all = ${vectorWords(now.last.output)}`]);
    const count = now.end - now.start;
    memory.textContent = `In fast memory: ${count} score${count > 1 ? "s" : ""}, and m, Z, u. A plain softmax `
      + `needs all ${S}. Of earlier tiles only the sums are kept, not the bars.`;
    weights.table.fill(); table.fill();
  }
  life.watch(["scores", "masked", "tile", "step", "key", "forget"], draw);
  const one = folded(model, life, "One key: its score and its mask", {},
    keyControls(model, life, data, step, setScore));
  steps.el.classList.add("attn-inline");
  const size = slider(part(model, ["tile"], () => now.tile, (tile) => model.set("tile", tile)), life, "tile",
    { label: "Tile", min: 1, max: S, step: 1 });
  const controls = [steps.el, size, tick(model, life, "forget", { label: "Forget to rescale" })];
  frame(el, life, { picture: [picture.el, sentence], controls, more: [one, weights.map.el],
    aside: h("div", { class: "attn-online" },
      tabsOnPhone(life, "Views", { "The mean": plane.el, "The sums": h("div", {}, sums.el, memory) }),
      weights.table.el, table.el) });
  draw();
  return life.end;
}

export default { render };
