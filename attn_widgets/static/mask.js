// Paint a mask cell by cell, combine it with a second, see weights, empty rows and sources.
// Traits: data {scores, queries, keys}, painted, size, second, second_size, combine, layers, shared_scale.

import { checked, decode, maskedSoftmax, namedMask, quoted } from "./numbers.js";
import { button, choice, frame, h, lifetime, put, slider } from "./controls.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

const DEEPEST = 8; // layers

function encodeBits(cells, shape) {
  const bytes = new Uint8Array(Math.ceil(cells.length / 8));
  cells.forEach((cell, n) => { if (cell) bytes[n >> 3] |= 128 >> (n & 7); });
  return { b64: btoa(String.fromCharCode(...bytes)), shape, bits: 1 };
}

// (L, L): from which position something can have come after this many layers; each layer also
// carries its own position along (the residual connection of chapter 7).
function reachable(mask, L, layers) {
  const step = mask.map((cell, n) => +(cell || n % L === ((n / L) | 0)));
  let now = step;
  for (let layer = 1; layer < layers; layer++) {
    const next = new Uint8Array(L * L);
    for (let i = 0; i < L; i++) for (let k = 0; k < L; k++) {
      if (step[i * L + k]) for (let j = 0; j < L; j++) next[i * L + j] |= now[k * L + j];
    }
    now = next;
  }
  return now;
}

// A shortest way from position j to output i over at most so many layers: the positions passed, j first;
// null where there is none.
function shortestWay(mask, L, layers, i, j) {
  let ways = [[i]];
  const seen = new Set([i]);
  for (let layer = 0; layer <= layers; layer++) {
    const found = ways.find(([first]) => first === j);
    if (found) return found;
    ways = ways.flatMap((way) => Array.from({ length: L }, (_, k) => k)
      .filter((k) => mask[way[0] * L + k] && !seen.has(k) && seen.add(k)).map((k) => [k, ...way]));
  }
  return null;
}

function render({ model, el }) {
  const life = lifetime(model);
  const { scores: packedScores, queries, keys } = model.get("data");
  const scores = decode(packedScores), [L, S] = packedScores.shape;
  const presets = [["none", "none (all may attend)"], ["causal", "causal"], ["window", "window"],
    ["prefix", "prefix"], ["padding", "padding"], ["block", "blocks"]];
  const most = Math.max(L, S);

  const painted = () => decode(model.get("painted"));
  const paintAll = (cells) => put(model, { painted: encodeBits(cells, [L, S]) });
  function combined() {
    const first = painted(), name = model.get("second");
    if (name === "none") return first;
    const second = namedMask(name, L, S, model.get("second_size"));
    return first.map((cell, n) => (model.get("combine") === "and" ? cell & second[n] : cell | second[n]));
  }

  // A stroke paints what its first cell becomes, so that crossing a cell twice does not undo it.
  let brush = 1;
  function onPaint(i, j, kind) {
    const cells = painted();
    if (kind === "down") brush = 1 - cells[i * S + j];
    if (cells[i * S + j] === brush) return;
    cells[i * S + j] = brush;
    paintAll(cells);
  }
  const editor = heatmap(life, { label: "The mask to paint. Arrow keys walk the cells, space opens or closes one.",
    onPaint,
    hint: ["Paint with the pointer, or walk with the arrow keys and press space.",
      "Tap a cell to open or close it. To paint more, drag the knob."],
    onPick: (i) => { chosen = i; sourcesOf(); } });
  const weightsMap = heatmap(life, { hint: "", label: "Weights under the mask. Arrow keys walk the cells.",
    onPick: (i) => { chosen = i; sourcesOf(); } });
  const square = L === S;
  const flow = square ? heatmap(life, { hint: "",
    label: "From which position something can reach which output. Arrow keys walk the cells.",
    onPick: tellWay, onHover: tellWay }) : null;
  const way = h("p", { class: "attn-note", role: "status" }, "Point at a cell, and a way through the layers is named.");
  const scale = colourScale(life);
  const empties = h("p", { class: "attn-note", role: "status" });
  const sources = h("p", { class: "attn-note" });

  function tellWay(i, j) {
    const found = shortestWay(combined(), L, model.get("layers"), i, j), names = [j, i].map((n) => token(queries, n));
    if (!found) way.textContent = `Nothing of ${names[0]} reaches output ${names[1]}.`;
    else if (i === j) way.textContent = `Each layer carries ${names[1]} along, by the residual connection.`;
    else way.textContent = `${found.map((n) => token(queries, n)).join(" \u2192 ")}: ${found.length - 1} `
      + `layer${found.length > 2 ? "s" : ""} of ${model.get("layers")}.`;
  }

  let chosen = 0;
  const token = (tokens, n) => (tokens ? quoted(tokens[n]) : String(n));
  function sourcesOf() {
    const mask = combined(), weights = maskedSoftmax(scores, mask, L, S);
    const parts = Array.from({ length: S }, (_, j) => [weights[chosen * S + j], j]).filter(([w]) => w > 0)
      .sort((a, b) => b[0] - a[0]).slice(0, 6).map(([w, j]) => `${token(keys, j)} ${w.toFixed(2)}`);
    sources.textContent = `Output ${token(queries, chosen)} is made of: ${parts.join(", ") || "nothing, so it is 0"}.`;
  }
  function draw() {
    const mask = combined(), weights = maskedSoftmax(scores, mask, L, S);
    const top = scaleTop(model, weights);
    const ones = Float64Array.from(mask);
    editor.show({ values: ones, L, S, mask, queries, keys, flat: true });
    weightsMap.show({ values: weights, L, S, mask, queries, keys, top });
    scale.show(top);
    if (flow) {
      const reach = reachable(mask, L, checked(model.get("layers"), DEEPEST));
      flow.show({ values: Float64Array.from(reach), L, S, mask: reach, queries, keys, flat: true });
    }
    const empty = Array.from({ length: L }, (_, i) => i)
      .filter((i) => !mask.subarray(i * S, (i + 1) * S).some(Boolean));
    empties.textContent = empty.length
      ? `Empty rows: ${empty.map((i) => token(queries, i)).join(", ")}. Their weights are 0 and so are their outputs.`
      : "No row is empty.";
    sourcesOf();
  }

  const buttons = h("div", { class: "attn-controls attn-buttons", role: "group", "aria-label": "Start from" },
    h("span", {}, "Start from"),
    ...presets.map(([name]) => button(life, name, () => paintAll(namedMask(name, L, S, model.get("size"))))),
    button(life, "invert", () => paintAll(painted().map((cell) => 1 - cell))));
  const controls = [
    slider(model, life, "size", { label: "Size of window, prefix, padding, block", min: 1, max: most, step: 1 }),
    choice(model, life, "second", { label: "Combine with", choices: presets }),
    slider(model, life, "second_size", { label: "its size", min: 1, max: most, step: 1 }),
    choice(model, life, "combine", { label: "by", choices: [["and", "& (both allow)"], ["or", "| (either allows)"]] }),
  ];
  if (flow) controls.push(slider(model, life, "layers", { label: "Layers", min: 1, max: DEEPEST, step: 1 }));
  controls.push(sharedScale(model, life));
  const panel = (heading, ...inside) => h("div", {}, h("p", { class: "attn-heading" }, heading), ...inside);
  const panels = [
    panel("Mask, to paint", editor.el),
    panel("Weights", weightsMap.el, scale.el, weightsMap.table)];
  if (flow) panels.push(panel("Reach through the layers", flow.el, way));
  frame(el, life, { controls: [buttons, ...controls], body: [h("div", { class: "attn-panels" }, ...panels), empties,
    sources] });
  life.watch(["painted", "second", "second_size", "combine", "layers", "shared_scale"], draw);
  draw();
  return life.end;
}

export default { render };
