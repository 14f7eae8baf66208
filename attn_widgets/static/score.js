// A query and keys as arrows in the plane: drag them, choose a score, see the weights.
// Traits: data {tokens, offered, parameters}, query, key_vectors, score, temperature, arrow, shared_scale.

import { dot, maskedSoftmax, PALETTE, quoted, scoreMatrix, shown, visible } from "./numbers.js";
import {
  arrow, choice, dragging, foldedTable, frame, h, handle, lifetime, part, put, sharpCanvas, sized, slider,
  twoDigits,
} from "./controls.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

/** @typedef {import("./controls.js").Point} Point */

const REACH = 3; // of the plane, on each side
const STEP = 30; // pixels from one bar to the next
const NAMES = { dot: "dot product", scaled_dot: "scaled dot product", gaussian: "Gaussian", bilinear: "bilinear",
  additive: "additive" };
const hueOf = (n) => PALETTE.categorical[n % PALETTE.categorical.length];
const two = (x) => x.toFixed(2);

// ---------------------------------------------------------------- what is on show

// What the traits say: arrows, of which -1 is the query, and what a score makes of them.
function arrowsOf(model) {
  const { tokens, offered, parameters } = model.get("data");
  const here = { tokens, offered,
    get query() { return model.get("query"); },
    get keys() { return model.get("key_vectors"); },
    get score() { return model.get("score"); },
    get chosen() { return model.get("arrow"); },
    vector: (n) => (n < 0 ? here.query : here.keys[n]),
    answer() {
      const scores = scoreMatrix(here.score, [here.query], here.keys, parameters);
      return { scores, weights: maskedSoftmax(scores, null, 1, scores.length, model.get("temperature")) };
    },
    // Against which vector a score measures the keys: a key's score is the product of that vector's length
    // with the key's shadow on its line. The Gaussian score measures the distance from the query's end.
    against() {
      const { query } = here, W = parameters.bilinear;
      return { dot: query, scaled_dot: query,
        bilinear: W && [0, 1].map((c) => query[0] * W[0][c] + query[1] * W[1][c]) }[here.score];
    },
    // The traits that move an arrow's end there, as far as the plane reaches.
    moved(n, end) {
      const to = end.map((v) => Number(Math.max(-REACH, Math.min(REACH, v)).toFixed(4)));
      return n < 0 ? { query: to } : { key_vectors: here.keys.map((key, m) => (m === n ? to : key)) };
    },
  };
  return here;
}
const shadow = (key, line) => dot(key, line) / (Math.hypot(...line) || 1);

// The chosen arrow's score, as the picture shows it.
function scoreWords({ chosen, keys, query, score, tokens, against }) {
  const n = Math.max(0, chosen), key = keys[n], line = against(), token = quoted(tokens[n], 12);
  if (score === "gaussian") {
    const distance = Math.hypot(key[0] - query[0], key[1] - query[1]);
    return ` Score of ${token}: \u2212\u00bd \u00d7 ${two(distance)}\u00b2, the distance from the query squared.`;
  }
  if (!line) return "";
  const vector = score === "bilinear" ? "W\u1d40q" : "query";
  return ` Score of ${token}: ${two(Math.hypot(...line))} (length of the ${vector}) \u00d7 ${two(shadow(key, line))} `
    + `(the key\u2019s shadow on its line)${score === "scaled_dot" ? " / \u221a2" : ""}.`;
}

// ---------------------------------------------------------------- the plane

/**
 * Where the plane lies on a canvas.
 * @param {number} width
 * @param {number} height
 */
function planeOn(width, height) {
  const unit = Math.min(width, height) / (2 * REACH + 0.4), middle = [width / 2, height / 2];
  /** @param {number[]} vector @returns {Point} */
  const at = ([x, y]) => [middle[0] + x * unit, middle[1] - y * unit];
  return { unit, middle, at, vectorAt: ([a, b]) => [(a - middle[0]) / unit, (middle[1] - b) / unit] };
}

function line(context, { at }, from, to) {
  const [a, b] = [from, to].map(at);
  context.moveTo(a[0], a[1]); context.lineTo(b[0], b[1]);
}
function dashed(context, plane, from, to, colour, dash) {
  context.setLineDash(dash); context.strokeStyle = colour;
  context.beginPath(); line(context, plane, from, to); context.stroke();
  context.setLineDash([]);
}

function paintGrid(context, colours, plane) {
  context.strokeStyle = colours.line; context.lineWidth = 1; context.beginPath();
  for (let n = -REACH; n <= REACH; n++) {
    line(context, plane, [n, -REACH], [n, REACH]);
    line(context, plane, [-REACH, n], [REACH, n]);
  }
  context.stroke();
  context.strokeStyle = colours.muted; context.beginPath();
  line(context, plane, [0, -REACH], [0, REACH]);
  line(context, plane, [-REACH, 0], [REACH, 0]); context.stroke();
}

function paintShadows(context, colours, plane, { against, keys, query, score }) {
  const measure = against(), length = measure && Math.hypot(...measure);
  context.lineWidth = 1;
  if (length) {
    const far = measure.map((x) => (2 * REACH * x) / length), [left, top] = plane.at([-REACH, REACH]);
    context.save();
    context.beginPath(); context.rect(left, top, 2 * REACH * plane.unit, 2 * REACH * plane.unit); context.clip();
    dashed(context, plane, far.map((x) => -x), far, colours.muted, [2, 4]);
    context.restore();
  }
  keys.forEach((key, n) => {
    if (score === "gaussian") dashed(context, plane, key, query, hueOf(n), [4, 3]);
    if (!length) return;
    const foot = measure.map((x) => (shadow(key, measure) * x) / length), [x, y] = plane.at(foot);
    dashed(context, plane, key, foot, hueOf(n), [4, 3]);
    context.fillStyle = hueOf(n); context.beginPath(); context.arc(x, y, 4, 0, 7); context.fill();
  });
}

// A name beyond the arrow's end, where it does not lie on the arrow; or beside it, where it would cover
// another end or name, which `taken` lists as places [left, right, y].
function paintName(context, { at, middle }, text, end, colour, taken) {
  const [a, b] = at(end), words = visible(text, 12), room = context.measureText(words).width;
  const ways = [0, 0.9, -0.9, 1.8, -1.8, 2.7, -2.7].map((turn) => { // and on the canvas
    const angle = Math.atan2(end[1], end[0]) + turn, along = Math.cos(angle);
    const x = Math.max(0, Math.min(2 * middle[0] - room, a + 10 * along - (along < 0 ? room : 0)));
    return [x, x + room, Math.max(8, Math.min(2 * middle[1] - 8, b - 16 * Math.sin(angle)))];
  });
  const isFree = ([left, right, y]) => taken.every((other) => left > other[1] || right < other[0]
    || Math.abs(y - other[2]) > 11);
  const place = ways.find(isFree) || ways[0];
  taken.push(place);
  context.fillStyle = colour;
  context.textAlign = "left";
  context.fillText(words, place[0], place[2]);
}

// The arrows with their names, the average of the keys, and the ends, which can be dragged.
function paintArrows(context, colours, plane, { keys, query, tokens, chosen, vector, answer }) {
  const { at } = plane, { weights } = answer(), origin = at([0, 0]);
  context.font = `12px ${colours.font}`; context.textBaseline = "middle";
  const ends = [...keys, query], taken = ends.map(at).map(([x, y]) => [x - 6, x + 6, y]);
  keys.forEach((key, n) => {
    arrow(context, origin, at(key), hueOf(n), 1.2 + 5 * weights[n]);
    paintName(context, plane, tokens[n], key, colours.ink, taken);
  });
  const [x, y] = at([0, 1].map((c) => keys.reduce((sum, key, n) => sum + weights[n] * key[c], 0)));
  context.fillStyle = colours.muted; context.fillRect(x - 5, y - 5, 10, 10);
  arrow(context, origin, at(query), colours.ink, 2.4);
  context.font = `600 12px ${colours.font}`;
  paintName(context, plane, "query", query, colours.ink, taken);
  for (const end of ends.map(at)) handle(context, colours, end[0], end[1], 5);
  const ring = at(vector(chosen));
  context.strokeStyle = colours.accent; context.lineWidth = 2; context.beginPath();
  context.arc(ring[0], ring[1], 11, 0, 7); context.stroke();
}

// The plane, in which each arrow's end can be dragged.
function planeView(model, life, here) {
  let plane = null;
  const view = sharpCanvas(life, {
    label: "Query and keys as arrows from the origin; the square is the weighted average of the keys.",
    height: (width) => Math.min(width, 340),
    paint(context, width, height) {
      plane = planeOn(width, height);
      paintGrid(context, view.colours, plane);
      paintShadows(context, view.colours, plane, here);
      paintArrows(context, view.colours, plane, here);
    } });
  view.canvas.classList.add("attn-drag");
  function grab([a, b]) {
    const far = [-1, ...here.tokens.keys()].map((n) => {
      const [x, y] = plane.at(here.vector(n));
      return [Math.hypot(x - a, y - b), n];
    });
    const [distance, nearest] = far.reduce((best, one) => (one[0] < best[0] ? one : best));
    if (distance > 24) return null;
    put(model, { arrow: nearest });
    return nearest;
  }
  dragging(life, view, grab, (held, place) => put(model, here.moved(held, plane.vectorAt(place))));
  return view;
}

// ---------------------------------------------------------------- bars and tables

// Scores and weights as bars.
function barsView(life, { tokens, answer }) {
  const view = sharpCanvas(life, {
    label: "For each key its score and its weight; the same numbers are in the table.",
    height: () => STEP * tokens.length + 22,
    paint(context, width) {
      const { colours } = view, { scores, weights } = answer();
      context.font = `12px ${colours.font}`; context.textBaseline = "middle";
      const left = 86, room = width - left - 58;
      context.fillStyle = colours.muted; context.textAlign = "right"; context.fillText("score", left - 8, 9);
      context.textAlign = "left"; context.fillText("weight", left, 9);
      tokens.forEach((token, n) => {
        const y = 36 + STEP * n;
        context.fillStyle = colours.ink; context.textAlign = "left"; context.fillText(visible(token, 6), 0, y);
        context.textAlign = "right"; context.fillText(scores[n].toFixed(2), left - 8, y);
        context.fillStyle = colours.panel; context.fillRect(left, y - 8, room, 16);
        context.fillStyle = hueOf(n); context.fillRect(left, y - 8, room * weights[n], 16);
        context.fillStyle = colours.ink;
        context.textAlign = "left";
        context.fillText(weights[n].toFixed(3), left + room + 8, y);
      });
    } });
  return view;
}

const scoreTable = (life, here) => foldedTable(life, "Scores and weights as a table", () => {
  const { scores, weights } = here.answer();
  return { corner: "key", columns: ["x", "y", "score", "weight"],
    rows: here.tokens.map((token, n) => [visible(token), ...here.keys[n].map(shown), shown(scores[n]),
      shown(weights[n])]) };
});

// ---------------------------------------------------------------- the widget

function controlsFor(model, life, here) {
  // One coordinate of the chosen arrow, as a model for a slider.
  const coordinate = (c) => part(model, ["query", "key_vectors", "arrow"], () => here.vector(here.chosen)[c],
    (value) => {
      const end = here.vector(here.chosen).map((old, m) => (m === c ? value : old));
      for (const [name, to] of Object.entries(here.moved(here.chosen, end))) model.set(name, to);
    });
  const ends = { min: -REACH, max: REACH, step: 0.05, format: two };
  return [
    choice(model, life, "score", { label: "Score", choices: here.offered.map((name) => [name, NAMES[name]]) }),
    slider(model, life, "temperature", { label: "Temperature", places: twoDigits(0.05, 20), format: sized }),
    choice(model, life, "arrow",
      { label: "Move", choices: [[-1, "query"], ...here.tokens.map((token, n) => [n, visible(token)])] }),
    slider(coordinate(0), life, "x", { label: "Arrow x", ...ends }),
    slider(coordinate(1), life, "y", { label: "Arrow y", ...ends }),
    sharedScale(model, life),
  ];
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), here = arrowsOf(model);
  const plane = planeView(model, life, here), bars = barsView(life, here);
  const map = heatmap(life, { label: "The query's row of weights. Arrow keys walk the cells." });
  const scale = colourScale(life), table = scoreTable(life, here), note = h("p", { class: "attn-note" });
  function draw() {
    plane.draw(); bars.draw();
    const { weights } = here.answer(), top = scaleTop(model, weights);
    map.show({ values: weights, L: 1, S: weights.length, mask: null, queries: ["query"], keys: here.tokens, top });
    scale.show(top);
    const entropy = -weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);
    note.textContent = `Entropy ${Math.abs(entropy).toFixed(2)} nats of at most `
      + `${Math.log(weights.length).toFixed(2)}. The square is the output if each key is its own value.${
        scoreWords(here)}`;
    table.fill();
  }
  const panels = h("div", { class: "attn-panels" }, plane.el,
    h("div", {}, bars.el, note, map.el, scale.el, table.el));
  frame(el, life, { controls: controlsFor(model, life, here), body: [panels] });
  life.watch(["query", "key_vectors", "score", "temperature", "arrow", "shared_scale"], draw);
  draw();
  return life.end;
}

export default { render };
