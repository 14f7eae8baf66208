// Kernel regression: points and query to drag, the fit, the weights as bars and as a heatmap row.
// Traits: data {truth}, xs, ys, query, kernel, bandwidth, point, shared_scale.

import { kernelWeights, largest, PALETTE, shown } from "./numbers.js";
import {
  choice, dragging, frame, h, handle, lifetime, part, put, sharpCanvas, sized, slider, twoDigits,
} from "./controls.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

function render({ model, el }) {
  const life = lifetime(model);
  const { truth } = model.get("data");
  const kernelNames = { gaussian: "Gaussian", boxcar: "boxcar", triangular: "triangular",
    epanechnikov: "Epanechnikov" };

  // The window stays where the points were at first: it must not move under a dragging hand.
  const pad = (low, high, share) => { const m = (high - low || 1) * share; return [low - m, high + m]; };
  const across = model.get("xs").concat(truth ? truth.x : [], [model.get("query")]);
  const up = model.get("ys").concat(truth ? truth.y : []);
  const [x0, x1] = pad(Math.min(...across), Math.max(...across), 0.04);
  const [y0, y1] = pad(Math.min(...up), Math.max(...up), 0.12);
  const box = { left: 42, right: 12, top: 10, bottom: 250, bars: 330 };
  let width = 600;
  const px = (x) => box.left + ((x - x0) / (x1 - x0)) * (width - box.left - box.right);
  const py = (y) => box.bottom - ((y - y0) / (y1 - y0)) * (box.bottom - box.top);
  const inverse = ([a, b]) => [
    Math.max(x0, Math.min(x1, x0 + ((a - box.left) / (width - box.left - box.right)) * (x1 - x0))),
    Math.max(y0, Math.min(y1, y0 + ((box.bottom - b) / (box.bottom - box.top)) * (y1 - y0)))];

  const weightsAt = (queries) => kernelWeights(model.get("kernel"), queries, model.get("xs"), model.get("bandwidth"));
  const predict = (weights, row = 0) => {
    const values = model.get("ys");
    return values.reduce((sum, y, n) => sum + y * weights[row * values.length + n], 0);
  };

  function polyline(context, points, colour, dash = []) {
    context.beginPath();
    points.forEach((at, n) => at && (points[n - 1] ? context.lineTo(...at) : context.moveTo(...at)));
    context.setLineDash(dash); context.strokeStyle = colour; context.lineWidth = 2;
    context.stroke(); context.setLineDash([]);
  }
  function axes(context, colours) {
    context.strokeStyle = colours.line; context.fillStyle = colours.muted; context.lineWidth = 1;
    context.font = `11px ${colours.font}`;
    context.strokeRect(box.left, box.top, width - box.left - box.right, box.bottom - box.top);
    const step = (span) => { const s = 10 ** Math.floor(Math.log10(span)); return span / s > 4 ? s : s / 2; };
    context.textAlign = "right"; context.textBaseline = "middle";
    for (let s = step(y1 - y0), y = Math.ceil(y0 / s) * s; y <= y1; y += s)
      context.fillText(+y.toFixed(3), box.left - 6, py(y));
    context.textAlign = "center"; context.textBaseline = "top";
    for (let s = step(x1 - x0), x = Math.ceil(x0 / s) * s; x <= x1; x += s)
      context.fillText(+x.toFixed(3), px(x), box.bottom + 3);
  }
  function bars(context, colours, weights, top) {
    const keys = model.get("xs"), base = box.bars - 2, tall = box.bars - box.bottom - 32;
    context.fillStyle = colours.muted; context.textAlign = "left"; context.textBaseline = "bottom";
    context.fillText(`weights, up to ${shown(top)}`, box.left, box.bars - tall - 1);
    context.strokeStyle = colours.line; context.beginPath();
    context.moveTo(box.left, base); context.lineTo(width - box.right, base); context.stroke();
    context.fillStyle = PALETTE.categorical[1];
    keys.forEach((x, n) => context.fillRect(px(x) - 2, base, 4, (-weights[n] / (top || 1)) * (tall - 6)));
  }
  function paint(context, wide) {
    width = wide;
    const { colours } = view, keys = model.get("xs"), values = model.get("ys"), query = model.get("query");
    axes(context, colours);
    if (truth) polyline(context, truth.x.map((x, n) => [px(x), py(truth.y[n])]), colours.muted, [5, 5]);
    const grid = Float64Array.from({ length: 241 }, (_, n) => x0 + (n / 240) * (x1 - x0));
    const all = weightsAt(grid);
    const reached = (n) => largest(all.subarray(n * keys.length, (n + 1) * keys.length)) > 0;
    const curve = Array.from(grid, (x, n) => reached(n) && [px(x), py(predict(all, n))]); // else a gap
    polyline(context, curve, PALETTE.categorical[0]);
    const weights = weightsAt([query]), top = largest(weights);
    keys.forEach((x, n) => {
      context.beginPath();
      context.arc(px(x), py(values[n]), 3.5 + 5 * Math.sqrt(weights[n] / (top || 1)), 0, 7);
      context.fillStyle = weights[n] > 0 ? PALETTE.categorical[1] : colours.muted;
      context.globalAlpha = 0.35 + 0.65 * (weights[n] / (top || 1));
      context.fill(); context.globalAlpha = 1;
      context.beginPath(); // each can be dragged
      context.arc(px(x), py(values[n]), 9, 0, 7);
      context.strokeStyle = colours.line; context.lineWidth = 1.5; context.stroke();
      if (n === model.get("point")) { context.strokeStyle = colours.ink; context.lineWidth = 1.5; context.stroke(); }
    });
    polyline(context, [[px(query), box.top], [px(query), box.bars]], colours.accent, [2, 3]);
    const answer = predict(weights);
    context.fillStyle = colours.accent; context.beginPath();
    context.arc(px(query), py(answer), 5.5, 0, 7); context.fill();
    handle(context, colours, px(query), box.top, 8);
    bars(context, colours, weights, top);
  }
  const view = sharpCanvas(life, {
    label: "Points, the fitted curve, the query and its weights. The controls above move them all.",
    height: () => box.bars + 4, paint });
  view.canvas.classList.add("attn-drag");

  const map = heatmap(life, { label: "The query's row of weights, keys in order of x. Arrow keys walk the cells." });
  const scale = colourScale(life);
  const note = h("p", { class: "attn-note" });
  function draw() {
    view.draw();
    const keys = model.get("xs"), query = model.get("query");
    const order = keys.map((_, n) => n).sort((a, b) => keys[a] - keys[b]);
    const weights = weightsAt([query]);
    const values = Float64Array.from(order, (n) => weights[n]);
    const top = scaleTop(model, values);
    map.show({ values, L: 1, S: keys.length, mask: null, queries: [query.toFixed(2)],
      keys: order.map((n) => keys[n].toFixed(2)), top });
    scale.show(top);
    const count = weights.filter((w) => w > 0.005).length;
    note.textContent = largest(weights) > 0
      ? `Prediction at ${query.toFixed(2)}: ${predict(weights).toFixed(2)}, an average of `
        + `${count} point${count === 1 ? "" : "s"} with a weight above 0.005.`
      : `No point lies within one width of ${query.toFixed(2)}: every weight is 0, and so is the prediction.`;
  }

  // Dragging: the point under the hand, else the query; this a finger takes by its knob.
  function grab(at, touch) {
    const values = model.get("ys");
    const far = model.get("xs").map((x, n) => Math.hypot(px(x) - at[0], py(values[n]) - at[1]));
    const nearest = far.indexOf(Math.min(...far)), held = far[nearest] < (touch ? 20 : 14) ? nearest : "query";
    if (touch && held === "query" && Math.hypot(px(model.get("query")) - at[0], box.top - at[1]) > 26) return null;
    if (held !== "query") put(model, { point: held });
    drag(held, at);
    return held;
  }
  function drag(held, at) {
    const [x, y] = inverse(at).map((v) => Number(v.toFixed(4)));
    if (held === "query") return put(model, { query: x });
    move(held, x, y);
  }
  function move(n, x, y) {
    put(model, { xs: model.get("xs").map((old, m) => (m === n ? x : old)),
      ys: model.get("ys").map((old, m) => (m === n ? y : old)) });
  }
  dragging(life, view, grab, drag);

  // One coordinate of the chosen point, as a model for a slider.
  const coordinate = (name) => part(model, [name, "point"], () => model.get(name)[model.get("point")],
    (value) => model.set(name, model.get(name).map((old, m) => (m === model.get("point") ? value : old))));
  const two = (x) => x.toFixed(2);
  const fine = (low, high) => Number(((high - low) / 200).toPrecision(2));
  const controls = [
    choice(model, life, "kernel", { label: "Kernel", choices: Object.entries(kernelNames) }),
    slider(model, life, "bandwidth", { label: "Width", places: twoDigits(0.02, 10), format: sized }),
    slider(model, life, "query", { label: "Query", min: x0, max: x1, step: fine(x0, x1), format: two }),
    slider(model, life, "point", { label: "Point", min: 0, max: model.get("xs").length - 1, step: 1 }),
    slider(coordinate("xs"), life, "x", { label: "Point x", min: x0, max: x1, step: fine(x0, x1), format: two }),
    slider(coordinate("ys"), life, "y", { label: "Point y", min: y0, max: y1, step: fine(y0, y1), format: two }),
    sharedScale(model, life),
  ];
  frame(el, life, { controls, body: [view.el, note, map.el, scale.el, map.table] });
  life.watch(["xs", "ys", "query", "kernel", "bandwidth", "point", "shared_scale"], draw);
  draw();
  return life.end;
}

export default { render };
