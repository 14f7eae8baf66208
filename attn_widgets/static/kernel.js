// Kernel regression: points and query to drag, the fit, the weights as bars and as a heatmap row.
// Traits: data {truth}, xs, ys, query, kernel, bandwidth, point, shared_scale.

import { kernelWeights, largest, minus, PALETTE, shown, two } from "./numbers.js";
import {
  byFinger, choice, dragging, frame, h, handle, lifetime, part, put, sharpCanvas, sized, slider,
  twoDigits,
} from "./controls.js";
import { folded } from "./folds.js";
import { handKeys } from "./hands.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Model} Model */

const NAMES = { gaussian: "Gaussian", boxcar: "boxcar", triangular: "triangular", epanechnikov: "Epanechnikov" };
const BOX = { left: 42, right: 12, top: 10, bottom: 250 }; // pixels of the plot
const BARS = { top: 292, base: 372, below: 6 }; // the weights, from 1 to 0, stand below it
const CURVE = 241; // places at which the fit is computed
const COUNTED = 0.005, SEEN = 0.0005; // a weight that counts, and one of which a line is drawn at least
const MANY = 32; // keys from which on most weights are too small for a linear scale of colours
const STRIDE = 0.01; // of the plot, which a key moves a point
const HINT = ["Drag the query, or a point. On the keyboard, arrow keys choose a point, and with Shift they move it.",
  "Drag the query by its knob, or drag a point."];

// ---------------------------------------------------------------- what is on show

// What the traits say, and what follows from them.
/** @param {Model} model */
function regression(model) {
  const { truth } = model.get("data");
  const here = { truth,
    get keys() { return model.get("xs"); },
    get values() { return model.get("ys"); },
    get query() { return model.get("query"); },
    get chosen() { return model.get("point"); },
    get order() { return here.keys.map((_, n) => n).sort((a, b) => here.keys[a] - here.keys[b]); },
    weightsAt: (queries) => kernelWeights(model.get("kernel"), queries, here.keys, model.get("bandwidth")),
    predict(weights, row = 0) {
      const { values } = here;
      return values.reduce((sum, y, n) => sum + y * weights[row * values.length + n], 0);
    },
    move(n, x, y) {
      put(model, { xs: here.keys.map((old, m) => (m === n ? x : old)),
        ys: here.values.map((old, m) => (m === n ? y : old)) });
    },
  };
  return here;
}

// The window stays where the points were at first: it must not move under a dragging hand.
function windowOf({ truth, keys, values, query }) {
  const pad = (numbers, share) => {
    const low = Math.min(...numbers), high = Math.max(...numbers), margin = (high - low || 1) * share;
    return [low - margin, high + margin];
  };
  return [...pad(keys.concat(truth ? truth.x : [], [query]), 0.04), ...pad(values.concat(truth ? truth.y : []), 0.12)];
}

/**
 * Where the plot lies on a canvas of this width.
 * @param {number[]} bounds
 * @param {number} width
 */
function plotOn([x0, x1, y0, y1], width) {
  const across = width - BOX.left - BOX.right, down = BOX.bottom - BOX.top;
  return { x0, x1, y0, y1, width,
    px: (x) => BOX.left + ((x - x0) / (x1 - x0)) * across,
    py: (y) => BOX.bottom - ((y - y0) / (y1 - y0)) * down,
    inverse: ([a, b]) => [Math.max(x0, Math.min(x1, x0 + ((a - BOX.left) / across) * (x1 - x0))),
      Math.max(y0, Math.min(y1, y0 + ((BOX.bottom - b) / down) * (y1 - y0)))] };
}

// ---------------------------------------------------------------- the picture

function polyline(context, points, colour, dash = []) {
  context.beginPath();
  points.forEach((at, n) => at && (points[n - 1] ? context.lineTo(at[0], at[1]) : context.moveTo(at[0], at[1])));
  context.setLineDash(dash); context.strokeStyle = colour; context.lineWidth = 2;
  context.stroke(); context.setLineDash([]);
}

function paintAxes(context, colours, { x0, x1, y0, y1, width, px, py }) {
  context.strokeStyle = colours.line; context.fillStyle = colours.muted; context.lineWidth = 1;
  context.font = `11px ${colours.font}`;
  context.strokeRect(BOX.left, BOX.top, width - BOX.left - BOX.right, BOX.bottom - BOX.top);
  const step = (span) => { const s = 10 ** Math.floor(Math.log10(span)); return span / s > 4 ? s : s / 2; };
  context.textAlign = "right"; context.textBaseline = "middle";
  for (let s = step(y1 - y0), y = Math.ceil(y0 / s) * s; y <= y1; y += s)
    context.fillText(minus(String(+y.toFixed(3))), BOX.left - 6, py(y));
  context.textAlign = "center"; context.textBaseline = "top";
  for (let s = step(x1 - x0), x = Math.ceil(x0 / s) * s; x <= x1; x += s)
    context.fillText(minus(String(+x.toFixed(3))), px(x), BOX.bottom + 3);
}

// The truth, if it is known, and the fit, with a gap where no key is in reach.
function paintCurves(context, colours, { x0, x1, px, py }, { truth, keys, weightsAt, predict }) {
  if (truth) polyline(context, truth.x.map((x, n) => [px(x), py(truth.y[n])]), colours.muted, [5, 5]);
  const grid = Float64Array.from({ length: CURVE }, (_, n) => x0 + (n / (CURVE - 1)) * (x1 - x0));
  const all = weightsAt(grid);
  const reached = (n) => largest(all.subarray(n * keys.length, (n + 1) * keys.length)) > 0;
  const curve = Array.from(grid, (x, n) => reached(n) && [px(x), py(predict(all, n))]);
  polyline(context, curve, PALETTE.categorical[0]);
}

function paintPoints(context, colours, { px, py }, { keys, values }, weights, top) {
  keys.forEach((x, n) => {
    context.beginPath();
    context.arc(px(x), py(values[n]), 3.5 + 5 * Math.sqrt(weights[n] / (top || 1)), 0, 7);
    context.fillStyle = weights[n] > 0 ? PALETTE.categorical[2] : colours.muted;
    context.globalAlpha = 0.35 + 0.65 * (weights[n] / (top || 1));
    context.fill(); context.globalAlpha = 1;
    context.beginPath(); // each can be dragged
    context.arc(px(x), py(values[n]), 9, 0, 7);
    context.strokeStyle = colours.line; context.lineWidth = 1.5; context.stroke();
  });
}

// The point that keys and sliders move.
function paintChosen(context, colours, { px, py }, { keys, values, chosen }) {
  context.beginPath();
  context.arc(px(keys[chosen]), py(values[chosen]), 10, 0, 7);
  context.strokeStyle = colours.ink; context.lineWidth = 2; context.stroke();
}

// The weights on an axis that ends at 1, whatever they are: together they are as high as that.
function paintBars(context, colours, { px, width }, keys, weights) {
  const { top, base } = BARS, y = (w) => base - w * (base - top);
  context.fillStyle = colours.muted; context.strokeStyle = colours.line; context.lineWidth = 1;
  context.textAlign = "left"; context.textBaseline = "bottom";
  context.fillText("weight of each point", BOX.left, top - 6);
  context.textAlign = "right"; context.textBaseline = "middle";
  context.beginPath();
  for (const w of [0, 0.5, 1]) {
    context.fillText(String(w), BOX.left - 6, y(w));
    context.moveTo(BOX.left, y(w)); context.lineTo(width - BOX.right, y(w));
  }
  context.stroke();
  context.fillStyle = PALETTE.categorical[1];
  keys.forEach((x, n) => {
    const height = Math.max(weights[n] > SEEN ? 1 : 0, base - y(weights[n]));
    context.fillRect(px(x) - 2, base - height, 4, height);
  });
  const most = weights.indexOf(largest(weights));
  context.fillStyle = colours.ink; context.textAlign = "center"; context.textBaseline = "bottom";
  const x = Math.max(BOX.left + 16, Math.min(width - 18, px(keys[most]))); // and whole, on the canvas
  if (weights[most] > 0) context.fillText(shown(weights[most]), x, y(weights[most]) - 2);
}

// Beside the knob, until somebody has moved the query.
function paintInvitation(context, colours, { px, width }, { query }) {
  context.font = `600 12px ${colours.font}`; context.textBaseline = "middle";
  const text = "\u2194 drag me", room = context.measureText(text).width + 12;
  const x = px(query) + 12 + room > width - BOX.right ? px(query) - 12 - room : px(query) + 12;
  context.fillStyle = colours.accent;
  context.beginPath(); context.roundRect(x, BOX.top + 4, room, 20, 5); context.fill();
  context.fillStyle = colours.paper; context.textAlign = "left";
  context.fillText(text, x + 6, BOX.top + 15);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./controls.js").Colours} colours
 * @param {ReturnType<typeof plotOn>} plot
 * @param {ReturnType<typeof regression>} here
 * @param {{ chosen: boolean, invites: boolean }} shows
 */
function paintPlot(context, colours, plot, here, { chosen, invites }) {
  const { px, py } = plot, { query, keys, weightsAt, predict } = here;
  paintAxes(context, colours, plot);
  paintCurves(context, colours, plot, here);
  const weights = weightsAt([query]), top = largest(weights);
  paintPoints(context, colours, plot, here, weights, top);
  if (chosen) paintChosen(context, colours, plot, here);
  paintBars(context, colours, plot, keys, weights);
  polyline(context, [[px(query), BOX.top], [px(query), BARS.base]], colours.accent, [2, 3]);
  context.fillStyle = colours.accent; context.beginPath();
  context.arc(px(query), py(predict(weights)), 5.5, 0, 7); context.fill();
  if (invites) paintInvitation(context, colours, plot, here);
  handle(context, colours, px(query), BOX.top, 8);
}

// ---------------------------------------------------------------- the hands

function pointWords({ keys, values, query, chosen, order, weightsAt }) {
  return `Point ${order.indexOf(chosen) + 1} of ${keys.length}: x ${two(keys[chosen])}, y ${two(values[chosen])}, `
    + `weight ${shown(weightsAt([query])[chosen])}.`;
}

/**
 * The plot, in which points and query can be dragged, and the points moved by keys; `isFolded()` says whether the
 * sliders of the chosen point are out of sight.
 * @param {Model} model
 * @param {Life} life
 * @param {ReturnType<typeof regression>} here
 * @param {number[]} bounds
 * @param {() => boolean} isFolded
 */
function plotView(model, life, here, bounds, isFolded) {
  const first = here.query, words = h("p", { class: "attn-note attn-hint", role: "status" }, HINT[Number(byFinger())]);
  let plot = plotOn(bounds, 600), invites = true, isHeld = false;
  const view = sharpCanvas(life, { keyboard: true,
    label: "Points, the fitted curve, the query and its weights. Arrow keys choose a point, with Shift they move it.",
    height: () => BARS.base + BARS.below,
    paint(context, width) {
      plot = plotOn(bounds, width);
      const chosen = isHeld || document.activeElement === view.canvas || !isFolded();
      paintPlot(context, view.colours, plot, here, { chosen, invites });
    } });
  view.canvas.classList.add("attn-drag");
  // The point under the hand, else the query; this a finger takes by its knob.
  function grab(at, touch) {
    const { keys, values, query } = here, { px, py } = plot;
    const far = keys.map((x, n) => Math.hypot(px(x) - at[0], py(values[n]) - at[1]));
    const nearest = far.indexOf(Math.min(...far)), held = far[nearest] < (touch ? 20 : 14) ? nearest : "query";
    if (touch && held === "query" && Math.hypot(px(query) - at[0], BOX.top - at[1]) > 26) return null;
    isHeld = held !== "query";
    if (isHeld) put(model, { point: held });
    drag(held, at);
    return held;
  }
  function drag(held, at) {
    const [x, y] = plot.inverse(at).map((v) => Number(v.toFixed(4)));
    if (held === "query") put(model, { query: x });
    else here.move(held, x, y);
    if (isHeld) say();
  }
  const say = () => { words.textContent = pointWords(here); };
  dragging(life, view, grab, drag);
  handKeys(life, view, {
    choose(by) {
      const { order, chosen } = here, to = order.indexOf(chosen) + by;
      put(model, { point: order[Math.max(0, Math.min(order.length - 1, to))] });
      say();
    },
    move(right, up) {
      const { chosen, keys, values } = here, [x0, x1, y0, y1] = bounds;
      const to = (now, by, low, high) => (
        Number(Math.max(low, Math.min(high, now + by * STRIDE * (high - low))).toFixed(4)));
      here.move(chosen, to(keys[chosen], right, x0, x1), to(values[chosen], up, y0, y1));
      say();
    },
  });
  for (const type of ["focus", "blur"]) life.listen(view.canvas, type, () => { isHeld = false; view.ask(); });
  life.watch(["query"], () => { invites &&= here.query === first; });
  return { el: view.el, words, draw: view.draw };
}

// ---------------------------------------------------------------- the widget

function predictionWords({ query, predict }, weights) {
  if (!(largest(weights) > 0)) {
    return `No point lies within one width of ${two(query)}: every weight is 0, and so is the prediction.`;
  }
  const count = weights.filter((w) => w > COUNTED).length;
  return `Prediction at ${two(query)}: ${two(predict(weights))}, an average of `
    + `${count} point${count === 1 ? "" : "s"} with a weight above ${COUNTED}.`;
}

// Those at first sight, and those of the chosen point and of the colours.
function controlsFor(model, life, here, bounds) {
  const [x0, x1, y0, y1] = bounds;
  // One coordinate of the chosen point, as a model for a slider.
  const coordinate = (name) => part(model, [name, "point"], () => model.get(name)[here.chosen],
    (value) => model.set(name, model.get(name).map((old, m) => (m === here.chosen ? value : old))));
  const range = (low, high) => ({ min: low, max: high, format: two,
    step: Number(((high - low) / 200).toPrecision(2)) });
  return { controls: [
    choice(model, life, "kernel", { label: "Kernel", choices: Object.entries(NAMES) }),
    slider(model, life, "bandwidth", { label: "Width", places: twoDigits(0.02, 10), format: sized }),
    slider(model, life, "query", { label: "Query", ...range(x0, x1) }),
  ], more: folded(model, life, "Move a point by sliders; colours", {}, h("div", { class: "attn-controls" },
    slider(model, life, "point", { label: "Point", min: 0, max: here.keys.length - 1, step: 1 }),
    slider(coordinate("xs"), life, "x", { label: "Point x", ...range(x0, x1) }),
    slider(coordinate("ys"), life, "y", { label: "Point y", ...range(y0, y1) }),
    sharedScale(model, life))) };
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), here = regression(model), bounds = windowOf(here);
  const { controls, more } = controlsFor(model, life, here, bounds);
  const view = plotView(model, life, here, bounds, () => !more.open);
  const map = heatmap(life, { sparse: true,
    label: "The query's row of weights, keys in order of x. Arrow keys walk the cells." });
  const scale = colourScale(life), note = h("p", { class: "attn-note attn-prediction" });
  function draw() {
    view.draw();
    const { keys, query, order } = here, weights = here.weightsAt([query]);
    const values = Float64Array.from(order, (n) => weights[n]), top = scaleTop(model, values);
    const colours = model.get("shared_scale") || keys.length <= MANY ? "linear" : "root";
    map.show({ values, L: 1, S: keys.length, mask: null, queries: [two(query)],
      keys: order.map((n) => two(keys[n])), top, scale: colours });
    scale.show(top, false, colours);
    note.textContent = predictionWords(here, weights);
  }
  frame(el, life, { picture: [view.el, note], controls, more: [view.words, more],
    body: [map.el, scale.el, map.table] });
  life.watch(["xs", "ys", "query", "kernel", "bandwidth", "point", "shared_scale"], draw);
  life.listen(more, "toggle", draw);
  draw();
  return life.end;
}

export default { render };
