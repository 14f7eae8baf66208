// A query and keys as arrows in the plane: drag them, choose a score, see the weights.
// Traits: data {tokens, offered, parameters}, query, key_vectors, score, temperature, arrow.

import { dot, maskedSoftmax, PALETTE, quoted, scoreMatrix, shown, two, visible } from "./numbers.js";
import {
  arrow, byFinger, choice, dragging, foldedTable, frame, h, handle, lifetime, part, put, sharpCanvas,
  sized, slider, twoDigits,
} from "./controls.js";
import { folded } from "./folds.js";
import { handKeys } from "./hands.js";

/** @typedef {import("./controls.js").Point} Point */

const REACH = 3; // of the plane, on each side
const STEP = 30; // pixels from one bar to the next
const NAMES = { dot: "dot product", scaled_dot: "scaled dot product", gaussian: "Gaussian", bilinear: "bilinear",
  additive: "additive" };
const [QUERY, KEY, VALUE] = PALETTE.categorical;
const STRIDE = 0.05; // of the plane, which a key moves an arrow
const HINT = ["Drag the end of an arrow. On the keyboard, arrow keys choose one, and with Shift they move it.",
  "Drag the end of an arrow."];

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
    // What attention returns where each key is its own value.
    output(weights) {
      return [0, 1].map((c) => here.keys.reduce((sum, key, n) => sum + weights[n] * key[c], 0));
    },
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
  keys.forEach((key) => {
    if (score === "gaussian") dashed(context, plane, key, query, KEY, [4, 3]);
    if (!length) return;
    const foot = measure.map((x) => (shadow(key, measure) * x) / length), [x, y] = plane.at(foot);
    dashed(context, plane, key, foot, KEY, [4, 3]);
    context.fillStyle = KEY; context.beginPath(); context.arc(x, y, 4, 0, 7); context.fill();
  });
}

// How far two boxes [left, top, right, bottom] lie over each other, in square pixels.
const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]))
  * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
const around = ([x, y], r) => [x - r, y - r, x + r, y + r];

// What a name must not cover: ends, shadows, the square, and the shafts of the arrows, in short pieces.
function obstacles({ at }, { against, chosen, keys, query, output }, weights) {
  const measure = against(), length = measure && Math.hypot(...measure), ends = [...keys, query];
  const feet = length ? keys.map((key) => measure.map((x) => (shadow(key, measure) * x) / length)) : [];
  const shafts = ends.flatMap((end) => Array.from({ length: 12 }, (_, n) => end.map((x) => (x * n) / 12)));
  const ringed = chosen < 0 ? keys.length : chosen;
  return [...ends.map((end, n) => around(at(end), n === ringed ? 13 : 8)), ...feet.map((foot) => around(at(foot), 7)),
    ...shafts.map((point) => around(at(point), 3)), around(at(output(weights)), 9)];
}

// A name beside a point: where it is free, first of all outwards from the origin, then around it and further off.
// `taken` are the boxes that it must not cover; it becomes one of them.
function paintName(context, { at, middle }, colours, text, end, taken,
  { colour = colours.ink, rings = [14, 22, 32] } = {}) {
  const [a, b] = at(end), words = visible(text, 12), half = context.measureText(words).width / 2;
  const outwards = Math.atan2(end[1], end[0]), [right, bottom] = middle.map((x) => 2 * x);
  const ways = rings.flatMap((far) => [0, 1, -1, 2, -2, 3, -3, 4].map((turn) => {
    const angle = outwards + (turn * Math.PI) / 4;
    const x = Math.max(half, Math.min(right - half, a + (far + half - 6) * Math.cos(angle)));
    const y = Math.max(8, Math.min(bottom - 8, b - far * Math.sin(angle)));
    return { far, x, y, box: [x - half - 2, y - 7, x + half + 2, y + 7] };
  }));
  const cost = ({ far, box }) => taken.reduce((sum, other) => sum + overlap(box, other), 2 * far);
  const { x, y, box } = ways.reduce((best, way) => (cost(way) < cost(best) ? way : best));
  taken.push(box);
  context.textAlign = "center"; context.lineJoin = "round";
  context.strokeStyle = colours.paper; context.lineWidth = 4; context.strokeText(words, x, y); // over a line it is read
  context.fillStyle = colours.ink;
  context.fillStyle = `color-mix(in srgb, ${colour} 70%, ${colours.ink})`; // as dark as a text must be
  context.fillText(words, x, y);
}

// The arrows, the average of the keys, the ends, which can be dragged, and the names of all.
function paintArrows(context, colours, plane, here) {
  const { keys, query, tokens, output } = here, { at } = plane, { weights } = here.answer(), origin = at([0, 0]);
  keys.forEach((key, n) => arrow(context, origin, at(key), KEY, 1.2 + 5 * weights[n]));
  const [x, y] = at(output(weights));
  context.fillStyle = colours.panel; context.fillRect(x - 7, y - 7, 14, 14);
  context.strokeStyle = VALUE; context.lineWidth = 3; context.strokeRect(x - 7, y - 7, 14, 14);
  arrow(context, origin, at(query), QUERY, 2.4);
  for (const end of keys.map(at)) handle(context, colours, end[0], end[1], 5);
  const end = at(query);
  handle(context, { paper: QUERY, ink: colours.ink }, end[0], end[1], 6);
  const taken = obstacles(plane, here, weights);
  context.textBaseline = "middle"; context.font = `600 12px ${colours.font}`;
  paintName(context, plane, colours, "output", output(weights), taken,
    { colour: VALUE, rings: [16, 22, 28] });
  paintName(context, plane, colours, "query", query, taken, { colour: QUERY });
  context.font = `12px ${colours.font}`;
  keys.forEach((key, n) => paintName(context, plane, colours, tokens[n], key, taken));
}

// The arrow that keys and sliders move.
function paintChosen(context, colours, { at }, { vector, chosen }) {
  const ring = at(vector(chosen));
  context.strokeStyle = colours.ink; context.lineWidth = 2; context.beginPath();
  context.arc(ring[0], ring[1], 11, 0, 7); context.stroke();
}

// ---------------------------------------------------------------- the hands

function arrowWords({ chosen, vector, tokens, answer }) {
  const [x, y] = vector(chosen), { scores, weights } = answer();
  const name = chosen < 0 ? "Query" : `Key ${quoted(tokens[chosen], 12)}`;
  const numbers = chosen < 0 ? "" : `, score ${two(scores[chosen])}, weight ${shown(weights[chosen])}`;
  return `${name}: x ${two(x)}, y ${two(y)}${numbers}.`;
}

// The plane, in which each arrow's end can be dragged, and moved by keys.
function planeView(model, life, here) {
  const words = h("p", { class: "attn-note attn-hint", role: "status" }, HINT[Number(byFinger())]);
  let plane = null;
  const view = sharpCanvas(life, { keyboard: true,
    label: "Query and keys as arrows from the origin; the square is the output, the weighted average of the keys. "
      + "Arrow keys choose an arrow, with Shift they move it.",
    height: (width) => (width < 380 ? 280 : 340), // on a phone the bars and a control are seen with it
    paint(context, width, height) {
      plane = planeOn(width, height);
      paintGrid(context, view.colours, plane);
      paintShadows(context, view.colours, plane, here);
      paintArrows(context, view.colours, plane, here);
      paintChosen(context, view.colours, plane, here);
    } });
  view.canvas.classList.add("attn-drag");
  const say = () => { words.textContent = arrowWords(here); };
  const moveTo = (n, end) => { put(model, here.moved(n, end)); say(); };
  function grab([a, b]) {
    const far = [-1, ...here.tokens.keys()].map((n) => {
      const [x, y] = plane.at(here.vector(n));
      return [Math.hypot(x - a, y - b), n];
    });
    const [distance, nearest] = far.reduce((best, one) => (one[0] < best[0] ? one : best));
    if (distance > 24) return null;
    put(model, { arrow: nearest });
    say();
    return nearest;
  }
  dragging(life, view, grab, (held, place) => moveTo(held, plane.vectorAt(place)));
  handKeys(life, view, {
    choose(by) {
      put(model, { arrow: Math.max(-1, Math.min(here.tokens.length - 1, here.chosen + by)) });
      say();
    },
    move(right, up) {
      const [x, y] = here.vector(here.chosen);
      moveTo(here.chosen, [x + right * STRIDE, y + up * STRIDE]);
    },
  });
  return { el: view.el, words, draw: view.draw };
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
        context.textAlign = "right"; context.fillText(two(scores[n]), left - 8, y);
        context.fillStyle = colours.panel; context.fillRect(left, y - 8, room, 16);
        context.fillStyle = KEY; context.fillRect(left, y - 8, room * weights[n], 16);
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
  return { controls: [
    choice(model, life, "score", { label: "Score", choices: here.offered.map((name) => [name, NAMES[name]]) }),
    slider(model, life, "temperature", { label: "Temperature", places: twoDigits(0.05, 20), format: sized }),
  ], more: folded(model, life, "Move an arrow by sliders", {}, h("div", { class: "attn-controls" },
    choice(model, life, "arrow",
      { label: "Move", choices: [[-1, "query"], ...here.tokens.map((token, n) => [n, visible(token)])] }),
    slider(coordinate(0), life, "x", { label: "Arrow x", ...ends }),
    slider(coordinate(1), life, "y", { label: "Arrow y", ...ends }))) };
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), here = arrowsOf(model), { controls, more } = controlsFor(model, life, here);
  const plane = planeView(model, life, here), bars = barsView(life, here);
  const table = scoreTable(life, here), note = h("p", { class: "attn-note attn-entropy" });
  function draw() {
    plane.draw(); bars.draw();
    const { weights } = here.answer();
    const entropy = -weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);
    note.textContent = `Entropy ${Math.abs(entropy).toFixed(2)} nats of at most `
      + `${Math.log(weights.length).toFixed(2)}. The square is the output if each key is its own value.${
        scoreWords(here)}`;
    table.fill();
  }
  const panels = h("div", { class: "attn-panels" }, h("div", {}, plane.el, plane.words),
    h("div", {}, bars.el, note));
  frame(el, life, { picture: [panels], controls, more: [more], body: [table.el] });
  life.watch(["query", "key_vectors", "score", "temperature", "arrow"], draw);
  draw();
  return life.end;
}

export default { render };
