// Kernel regression: points and query to drag, the fit, the weights as bars and as a heatmap row.
// Traits: data {truth}, xs, ys, query, kernel, bandwidth, point, shared_scale.

import { kernelWeights, largest, PALETTE, shown } from "./numbers.js";
import {
  choice, dragging, frame, h, handle, lifetime, part, put, sharpCanvas, sized, slider, twoDigits,
} from "./controls.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Model} Model */

const NAMES = { gaussian: "Gaussian", boxcar: "boxcar", triangular: "triangular", epanechnikov: "Epanechnikov" };
const BOX = { left: 42, right: 12, top: 10, bottom: 250, bars: 330 }; // pixels; the bars stand below the plot
const CURVE = 241; // places at which the fit is computed
const COUNTED = 0.005; // a weight that counts
const two = (x) => x.toFixed(2);

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
    context.fillText(String(+y.toFixed(3)), BOX.left - 6, py(y));
  context.textAlign = "center"; context.textBaseline = "top";
  for (let s = step(x1 - x0), x = Math.ceil(x0 / s) * s; x <= x1; x += s)
    context.fillText(String(+x.toFixed(3)), px(x), BOX.bottom + 3);
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

function paintPoints(context, colours, { px, py }, { keys, values, chosen }, weights, top) {
  keys.forEach((x, n) => {
    context.beginPath();
    context.arc(px(x), py(values[n]), 3.5 + 5 * Math.sqrt(weights[n] / (top || 1)), 0, 7);
    context.fillStyle = weights[n] > 0 ? PALETTE.categorical[1] : colours.muted;
    context.globalAlpha = 0.35 + 0.65 * (weights[n] / (top || 1));
    context.fill(); context.globalAlpha = 1;
    context.beginPath(); // each can be dragged
    context.arc(px(x), py(values[n]), 9, 0, 7);
    context.strokeStyle = colours.line; context.lineWidth = 1.5; context.stroke();
    if (n === chosen) { context.strokeStyle = colours.ink; context.lineWidth = 1.5; context.stroke(); }
  });
}

function paintBars(context, colours, { px, width }, keys, weights, top) {
  const base = BOX.bars - 2, height = BOX.bars - BOX.bottom - 32;
  context.fillStyle = colours.muted; context.textAlign = "left"; context.textBaseline = "bottom";
  context.fillText(`weights, up to ${shown(top)}`, BOX.left, BOX.bars - height - 1);
  context.strokeStyle = colours.line; context.beginPath();
  context.moveTo(BOX.left, base); context.lineTo(width - BOX.right, base); context.stroke();
  context.fillStyle = PALETTE.categorical[1];
  keys.forEach((x, n) => context.fillRect(px(x) - 2, base, 4, (-weights[n] / (top || 1)) * (height - 6)));
}

function paintPlot(context, colours, plot, here) {
  const { px, py } = plot, { query, keys, weightsAt, predict } = here;
  paintAxes(context, colours, plot);
  paintCurves(context, colours, plot, here);
  const weights = weightsAt([query]), top = largest(weights);
  paintPoints(context, colours, plot, here, weights, top);
  polyline(context, [[px(query), BOX.top], [px(query), BOX.bars]], colours.accent, [2, 3]);
  context.fillStyle = colours.accent; context.beginPath();
  context.arc(px(query), py(predict(weights)), 5.5, 0, 7); context.fill();
  handle(context, colours, px(query), BOX.top, 8);
  paintBars(context, colours, plot, keys, weights, top);
}

/**
 * The plot, in which points and query can be dragged.
 * @param {Model} model
 * @param {Life} life
 * @param {ReturnType<typeof regression>} here
 * @param {number[]} bounds
 */
function plotView(model, life, here, bounds) {
  let plot = plotOn(bounds, 600);
  const view = sharpCanvas(life, {
    label: "Points, the fitted curve, the query and its weights. The controls above move them all.",
    height: () => BOX.bars + 4,
    paint(context, width) {
      plot = plotOn(bounds, width);
      paintPlot(context, view.colours, plot, here);
    } });
  view.canvas.classList.add("attn-drag");
  // The point under the hand, else the query; this a finger takes by its knob.
  function grab(at, touch) {
    const { keys, values, query } = here, { px, py } = plot;
    const far = keys.map((x, n) => Math.hypot(px(x) - at[0], py(values[n]) - at[1]));
    const nearest = far.indexOf(Math.min(...far)), held = far[nearest] < (touch ? 20 : 14) ? nearest : "query";
    if (touch && held === "query" && Math.hypot(px(query) - at[0], BOX.top - at[1]) > 26) return null;
    if (held !== "query") put(model, { point: held });
    drag(held, at);
    return held;
  }
  function drag(held, at) {
    const [x, y] = plot.inverse(at).map((v) => Number(v.toFixed(4)));
    if (held === "query") put(model, { query: x });
    else here.move(held, x, y);
  }
  dragging(life, view, grab, drag);
  return view;
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

function controlsFor(model, life, here, bounds) {
  const [x0, x1, y0, y1] = bounds;
  // One coordinate of the chosen point, as a model for a slider.
  const coordinate = (name) => part(model, [name, "point"], () => model.get(name)[here.chosen],
    (value) => model.set(name, model.get(name).map((old, m) => (m === here.chosen ? value : old))));
  const range = (low, high) => ({ min: low, max: high, format: two,
    step: Number(((high - low) / 200).toPrecision(2)) });
  return [
    choice(model, life, "kernel", { label: "Kernel", choices: Object.entries(NAMES) }),
    slider(model, life, "bandwidth", { label: "Width", places: twoDigits(0.02, 10), format: sized }),
    slider(model, life, "query", { label: "Query", ...range(x0, x1) }),
    slider(model, life, "point", { label: "Point", min: 0, max: here.keys.length - 1, step: 1 }),
    slider(coordinate("xs"), life, "x", { label: "Point x", ...range(x0, x1) }),
    slider(coordinate("ys"), life, "y", { label: "Point y", ...range(y0, y1) }),
    sharedScale(model, life),
  ];
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), here = regression(model), bounds = windowOf(here);
  const view = plotView(model, life, here, bounds);
  const map = heatmap(life, { label: "The query's row of weights, keys in order of x. Arrow keys walk the cells." });
  const scale = colourScale(life), note = h("p", { class: "attn-note" });
  function draw() {
    view.draw();
    const { keys, query } = here, order = keys.map((_, n) => n).sort((a, b) => keys[a] - keys[b]);
    const weights = here.weightsAt([query]), values = Float64Array.from(order, (n) => weights[n]);
    const top = scaleTop(model, values);
    map.show({ values, L: 1, S: keys.length, mask: null, queries: [two(query)],
      keys: order.map((n) => two(keys[n])), top });
    scale.show(top);
    note.textContent = predictionWords(here, weights);
  }
  frame(el, life, { controls: controlsFor(model, life, here, bounds),
    body: [view.el, note, map.el, scale.el, map.table] });
  life.watch(["xs", "ys", "query", "kernel", "bandwidth", "point", "shared_scale"], draw);
  draw();
  return life.end;
}

export default { render };
