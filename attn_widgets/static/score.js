// A query and keys as arrows in the plane: drag them, choose a score, see the weights.
// Traits: data {tokens, offered, parameters}, query, key_vectors, score, temperature, arrow, shared_scale.

import { dot, maskedSoftmax, PALETTE, quoted, scoreMatrix, shown, visible } from "./numbers.js";
import {
  arrow, choice, dragging, foldedTable, frame, h, handle, lifetime, part, put, sharpCanvas, sized, slider,
  twoDigits,
} from "./controls.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

function render({ model, el }) {
  const life = lifetime(model);
  const { tokens, offered, parameters } = model.get("data");
  const names = { dot: "dot product", scaled_dot: "scaled dot product", gaussian: "Gaussian", bilinear: "bilinear",
    additive: "additive" };
  const reach = 3;
  const colour = (n) => PALETTE.categorical[n % PALETTE.categorical.length];

  function answer() {
    const scores = scoreMatrix(model.get("score"), [model.get("query")], model.get("key_vectors"), parameters);
    return { scores, weights: maskedSoftmax(scores, null, 1, scores.length, model.get("temperature")) };
  }

  // ---- the plane
  let unit = 40, middle = [150, 150];
  const px = ([x, y]) => [middle[0] + x * unit, middle[1] - y * unit];
  // Against which vector a score measures the keys: a key's score is the product of that vector's length
  // with the key's shadow on its line. The Gaussian score measures the distance from the query's end.
  function against() {
    const query = model.get("query"), W = parameters.bilinear;
    return { dot: query, scaled_dot: query,
      bilinear: W && [0, 1].map((c) => query[0] * W[0][c] + query[1] * W[1][c]) }[model.get("score")];
  }
  const shadow = (key, line) => dot(key, line) / (Math.hypot(...line) || 1);
  function stroke(context, from, to, colour, dash) {
    context.setLineDash(dash); context.strokeStyle = colour;
    context.beginPath(); context.moveTo(...px(from)); context.lineTo(...px(to)); context.stroke();
    context.setLineDash([]);
  }
  function paintShadows(context, colours) {
    const line = against(), length = line && Math.hypot(...line);
    context.lineWidth = 1;
    if (length) {
      const far = line.map((x) => (2 * reach * x) / length);
      context.save();
      context.beginPath(); context.rect(...px([-reach, reach]), 2 * reach * unit, 2 * reach * unit); context.clip();
      stroke(context, far.map((x) => -x), far, colours.muted, [2, 4]);
      context.restore();
    }
    model.get("key_vectors").forEach((key, n) => {
      if (model.get("score") === "gaussian") stroke(context, key, model.get("query"), colour(n), [4, 3]);
      if (!length) return;
      const foot = line.map((x) => (shadow(key, line) * x) / length);
      stroke(context, key, foot, colour(n), [4, 3]);
      context.fillStyle = colour(n); context.beginPath(); context.arc(...px(foot), 4, 0, 7); context.fill();
    });
  }
  // The chosen arrow's score, as the picture shows it.
  function reading() {
    const n = Math.max(0, model.get("arrow")), key = model.get("key_vectors")[n], score = model.get("score");
    const line = against(), token = quoted(tokens[n], 12), two = (x) => x.toFixed(2);
    if (score === "gaussian") {
      const distance = Math.hypot(key[0] - model.get("query")[0], key[1] - model.get("query")[1]);
      return ` Score of ${token}: \u2212\u00bd \u00d7 ${two(distance)}\u00b2, the distance from the query squared.`;
    }
    if (!line) return "";
    const vector = score === "bilinear" ? "W\u1d40q" : "query";
    return ` Score of ${token}: ${two(Math.hypot(...line))} (length of the ${vector}) \u00d7 ${two(shadow(key, line))} `
      + `(the key\u2019s shadow on its line)${score === "scaled_dot" ? " / \u221a2" : ""}.`;
  }

  // A name beyond the arrow's end, where it does not lie on the arrow; or beside it, where it would cover
  // another end or name, which `taken` lists as places [left, right, y].
  function name(context, text, end, colour, taken) {
    const [a, b] = px(end), words = visible(text, 12), room = context.measureText(words).width;
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
  function paint(context, width, tall) {
    const { colours } = view, side = Math.min(width, tall);
    unit = side / (2 * reach + 0.4); middle = [width / 2, tall / 2];
    context.strokeStyle = colours.line; context.lineWidth = 1; context.beginPath();
    for (let n = -reach; n <= reach; n++) {
      context.moveTo(...px([n, -reach])); context.lineTo(...px([n, reach]));
      context.moveTo(...px([-reach, n])); context.lineTo(...px([reach, n]));
    }
    context.stroke();
    context.strokeStyle = colours.muted; context.beginPath();
    context.moveTo(...px([0, -reach])); context.lineTo(...px([0, reach]));
    context.moveTo(...px([-reach, 0])); context.lineTo(...px([reach, 0])); context.stroke();
    paintShadows(context, colours);
    const keys = model.get("key_vectors"), { weights } = answer();
    context.font = `12px ${colours.font}`; context.textBaseline = "middle";
    const ends = [...keys, model.get("query")], taken = ends.map(px).map(([x, y]) => [x - 6, x + 6, y]);
    keys.forEach((key, n) => {
      arrow(context, px([0, 0]), px(key), colour(n), 1.2 + 5 * weights[n]);
      name(context, tokens[n], key, colours.ink, taken);
    });
    const output = [0, 1].map((c) => keys.reduce((sum, key, n) => sum + weights[n] * key[c], 0));
    context.fillStyle = colours.muted; context.fillRect(px(output)[0] - 5, px(output)[1] - 5, 10, 10);
    arrow(context, px([0, 0]), px(model.get("query")), colours.ink, 2.4);
    context.font = `600 12px ${colours.font}`;
    name(context, "query", model.get("query"), colours.ink, taken);
    for (const end of ends) handle(context, colours, ...px(end), 5);
    const chosen = px(vector(model.get("arrow")));
    context.strokeStyle = colours.accent; context.lineWidth = 2; context.beginPath();
    context.arc(...chosen, 11, 0, 7); context.stroke();
  }
  const view = sharpCanvas(life, {
    label: "Query and keys as arrows from the origin; the square is the weighted average of the keys.",
    height: (width) => Math.min(width, 340), paint });
  view.canvas.classList.add("attn-drag");

  // ---- scores and weights as bars
  const barsView = sharpCanvas(life, {
    label: "For each key its score and its weight; the same numbers are in the table.",
    height: () => 30 * tokens.length + 22,
    paint(context, width) {
      const { colours } = barsView, { scores, weights } = answer();
      context.font = `12px ${colours.font}`; context.textBaseline = "middle";
      const left = 86, room = width - left - 58;
      context.fillStyle = colours.muted; context.textAlign = "right"; context.fillText("score", left - 8, 9);
      context.textAlign = "left"; context.fillText("weight", left, 9);
      tokens.forEach((token, n) => {
        const y = 36 + 30 * n;
        context.fillStyle = colours.ink; context.textAlign = "left"; context.fillText(visible(token, 6), 0, y);
        context.textAlign = "right"; context.fillText(scores[n].toFixed(2), left - 8, y);
        context.fillStyle = colours.panel; context.fillRect(left, y - 8, room, 16);
        context.fillStyle = colour(n); context.fillRect(left, y - 8, room * weights[n], 16);
        context.fillStyle = colours.ink;
        context.textAlign = "left";
        context.fillText(weights[n].toFixed(3), left + room + 8, y);
      });
    } });

  const map = heatmap(life, { label: "The query's row of weights. Arrow keys walk the cells." });
  const scale = colourScale(life);
  const table = foldedTable(life, "Scores and weights as a table", () => {
    const { scores, weights } = answer();
    return { corner: "key", columns: ["x", "y", "score", "weight"],
      rows: tokens.map((token, n) => [visible(token), ...model.get("key_vectors")[n].map(shown), shown(scores[n]),
        shown(weights[n])]) };
  });
  const note = h("p", { class: "attn-note" });
  function draw() {
    view.draw(); barsView.draw();
    const { weights } = answer();
    const top = scaleTop(model, weights);
    map.show({ values: weights, L: 1, S: weights.length, mask: null, queries: ["query"], keys: tokens, top });
    scale.show(top);
    const entropy = -weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);
    note.textContent = `Entropy ${Math.abs(entropy).toFixed(2)} nats of at most `
      + `${Math.log(weights.length).toFixed(2)}. The square is the output if each key is its own value.${reading()}`;
    table.fill();
  }

  // ---- moving the arrows
  const vector = (n) => (n < 0 ? model.get("query") : model.get("key_vectors")[n]);
  function moved(n, end) {
    const to = end.map((v) => Number(Math.max(-reach, Math.min(reach, v)).toFixed(4)));
    return n < 0 ? { query: to } : { key_vectors: model.get("key_vectors").map((key, m) => (m === n ? to : key)) };
  }
  function grab([a, b]) {
    const far = [-1, ...tokens.keys()].map((n) => [Math.hypot(px(vector(n))[0] - a, px(vector(n))[1] - b), n]);
    const [distance, nearest] = far.reduce((best, one) => (one[0] < best[0] ? one : best));
    if (distance > 24) return null;
    put(model, { arrow: nearest });
    return nearest;
  }
  dragging(life, view, grab, (held, [a, b]) =>
    put(model, moved(held, [(a - middle[0]) / unit, (middle[1] - b) / unit])));

  // One coordinate of the chosen arrow, as a model for a slider.
  const coordinate = (c) => part(model, ["query", "key_vectors", "arrow"], () => vector(model.get("arrow"))[c],
    (value) => {
    const end = vector(model.get("arrow")).map((old, m) => (m === c ? value : old));
    for (const [name, to] of Object.entries(moved(model.get("arrow"), end))) model.set(name, to);
  });
  const two = (x) => x.toFixed(2);
  const controls = [
    choice(model, life, "score", { label: "Score", choices: offered.map((name) => [name, names[name]]) }),
    slider(model, life, "temperature", { label: "Temperature", places: twoDigits(0.05, 20), format: sized }),
    choice(model, life, "arrow",
      { label: "Move", choices: [[-1, "query"], ...tokens.map((token, n) => [n, visible(token)])] }),
    slider(coordinate(0), life, "x", { label: "Arrow x", min: -reach, max: reach, step: 0.05, format: two }),
    slider(coordinate(1), life, "y", { label: "Arrow y", min: -reach, max: reach, step: 0.05, format: two }),
    sharedScale(model, life),
  ];
  const panels = h("div", { class: "attn-panels" }, view.el,
    h("div", {}, barsView.el, note, map.el, scale.el, table.el));
  frame(el, life, { controls, body: [panels] });
  life.watch(["query", "key_vectors", "score", "temperature", "arrow", "shared_scale"], draw);
  draw();
  return life.end;
}

export default { render };
