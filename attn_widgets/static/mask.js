// Paint a mask cell by cell, combine it with a second, see weights, empty rows and sources.
// Traits: data {scores, queries, keys}, painted, size, second, second_size, combine, layers, shared_scale.

import { checked, decode, maskedSoftmax, namedMask, quoted } from "./numbers.js";
import { button, choice, frame, h, lifetime, put, slider } from "./controls.js";
import { folded } from "./folds.js";
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

const PRESETS = [["none", "none (all may attend)"], ["causal", "causal"], ["window", "window"], ["prefix", "prefix"],
  ["padding", "padding"], ["block", "blocks"]];
const PLAIN = ["none", "causal"], SIZED = ["window", "prefix", "padding", "block"]; // what a size changes
const SOURCES = 6; // of an output that are named
const tokenName = (tokens, n) => (tokens ? quoted(tokens[n]) : String(n));

// ---------------------------------------------------------------- what is on show

// The mask as it is painted and combined, and the weights under it.
function maskOf(model) {
  const { scores: packed, queries, keys } = model.get("data"), scores = decode(packed), [L, S] = packed.shape;
  const here = { queries, keys, L, S,
    painted: () => decode(model.get("painted")),
    paint: (cells) => put(model, { painted: encodeBits(cells, [L, S]) }),
    combined() {
      const first = here.painted(), name = model.get("second");
      if (name === "none") return first;
      const second = namedMask(name, L, S, model.get("second_size"));
      return first.map((cell, n) => (model.get("combine") === "and" ? cell & second[n] : cell | second[n]));
    },
    weights: (mask) => maskedSoftmax(scores, mask, L, S),
  };
  return here;
}

// A way from token j to output i, in words.
function wayWords({ queries, L, combined }, layers, i, j) {
  const found = shortestWay(combined(), L, layers, i, j);
  if (!found) return `Nothing of ${tokenName(queries, j)} reaches output ${tokenName(queries, i)}.`;
  if (i === j) return `Each layer carries ${tokenName(queries, i)} along, by the residual connection.`;
  return `${found.map((n) => tokenName(queries, n)).join(" \u2192 ")}: ${found.length - 1} `
    + `layer${found.length > 2 ? "s" : ""} of ${layers}.`;
}

function sourceWords({ queries, keys, S }, weights, chosen) {
  const parts = Array.from({ length: S }, (_, j) => [weights[chosen * S + j], j]).filter(([w]) => w > 0)
    .sort((a, b) => b[0] - a[0]).slice(0, SOURCES).map(([w, j]) => `${tokenName(keys, j)} ${w.toFixed(2)}`);
  return `Output ${tokenName(queries, chosen)} is made of: ${parts.join(", ") || "nothing, so it is 0"}.`;
}

function emptyWords({ queries, L, S }, mask) {
  const empty = Array.from({ length: L }, (_, i) => i)
    .filter((i) => !mask.subarray(i * S, (i + 1) * S).some(Boolean));
  if (!empty.length) return "No row is empty.";
  return `Empty rows: ${empty.map((i) => tokenName(queries, i)).join(", ")}. `
    + "Their weights are 0 and so are their outputs.";
}

// ---------------------------------------------------------------- the parts

// A stroke paints what its first cell becomes, so that crossing a cell twice does not undo it.
function maskEditor(life, { S, painted, paint }, onPick) {
  let brush = 1;
  return heatmap(life, { label: "The mask to paint. Arrow keys walk the cells, space opens or closes one.",
    onPaint(i, j, kind) {
      const cells = painted();
      if (kind === "down") brush = 1 - cells[i * S + j];
      if (cells[i * S + j] === brush) return;
      cells[i * S + j] = brush;
      paint(cells);
    },
    hint: ["Paint with the pointer, or walk with the arrow keys and press space.",
      "Tap a cell to open or close it. To paint more, drag the knob."],
    onPick });
}

// From where something reaches where, and a way there.
function reachView(model, life, here) {
  const { L, S, queries, keys } = here;
  const way = h("p", { class: "attn-note", role: "status" }, "Point at a cell, and a way through the layers is named.");
  const nameWay = (i, j) => { way.textContent = wayWords(here, model.get("layers"), i, j); };
  const map = heatmap(life, { hint: "",
    label: "From which position something can reach which output. Arrow keys walk the cells.",
    onPick: nameWay, onHover: nameWay });
  return { els: [map.el, way], draw(mask) {
    const reach = reachable(mask, L, checked(model.get("layers"), DEEPEST));
    map.show({ values: Float64Array.from(reach), L, S, mask: reach, queries, keys, flat: true });
  } };
}

// ---------------------------------------------------------------- the controls

const group = (label, ...inside) => h("div",
  { class: "attn-controls attn-buttons", role: "group", "aria-label": label }, h("span", {}, label), ...inside);

// What the painting can start from. A pattern that has a size follows its slider as long as nothing else is painted.
function patternsOf(model, life, { L, S, painted, paint }) {
  const most = Math.max(L, S);
  let last = null; // the pattern that was painted last, and as what
  const stands = () => last && SIZED.includes(last.name) && model.get("painted").b64 === last.b64;
  function start(name) {
    paint(namedMask(name, L, S, model.get("size")));
    last = { name, b64: model.get("painted").b64 };
    follow();
  }
  const press = (name) => button(life, name, () => start(name));
  const size = slider(model, life, "size", { label: "Size of the pattern", min: 1, max: most, step: 1 });
  const follow = () => { size.querySelector("input").disabled = !stands(); };
  life.watch(["size"], () => { if (stands()) start(last.name); });
  life.watch(["painted"], follow);
  follow();
  const invert = button(life, "invert", () => paint(painted().map((cell) => 1 - cell)));
  return { buttons: group("Start from", ...PLAIN.map(press), invert),
    sized: [group("Start from", ...SIZED.map(press)), size] };
}

// A second mask, and how both are combined: of no interest while there is none.
function secondOf(model, life, { L, S }) {
  const size = slider(model, life, "second_size", { label: "its size", min: 1, max: Math.max(L, S), step: 1 });
  const how = choice(model, life, "combine",
    { label: "by", choices: [["and", "& (both allow)"], ["or", "| (either allows)"]] });
  function follow() {
    const name = model.get("second");
    size.hidden = !SIZED.includes(name);
    how.hidden = name === "none";
  }
  life.watch(["second"], follow);
  follow();
  return [choice(model, life, "second", { label: "Combine with", choices: PRESETS }), size, how];
}

// ---------------------------------------------------------------- the widget

const row = (...controls) => h("div", { class: "attn-controls" }, ...controls);

// All that a first painting needs nothing of, folded; what a link sets unfolds.
function foldsOf(model, life, here, sized) {
  const { L, S } = here, isCombined = model.get("second") !== "none";
  const patterns = folded(model, life, "Patterns with a size; colours", {}, ...sized.slice(0, 1),
    row(sized[1], sharedScale(model, life)));
  const second = folded(model, life, "A second mask", { opens: ["second", "second_size", "combine"], open: isCombined },
    row(...secondOf(model, life, here)));
  if (L !== S) return { all: [patterns, second], layers: null };
  const layers = folded(model, life, "Through several layers", { opens: ["layers"] },
    row(slider(model, life, "layers", { label: "Layers", min: 1, max: DEEPEST, step: 1 })));
  return { all: [patterns, second, layers], layers };
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), here = maskOf(model), { L, S, queries, keys } = here;
  let chosen = 0;
  const choose = (i) => { chosen = i; nameSources(); };
  const editor = maskEditor(life, here, choose), { buttons, sized } = patternsOf(model, life, here);
  const map = heatmap(life, { hint: "", label: "Weights under the mask. Arrow keys walk the cells.", onPick: choose });
  const folds = foldsOf(model, life, here, sized), reach = folds.layers ? reachView(model, life, here) : null;
  const scale = colourScale(life);
  const empties = h("p", { class: "attn-note attn-wait attn-empties", role: "status" });
  const sources = h("p", { class: "attn-note attn-sources" });
  function nameSources() { sources.textContent = sourceWords(here, here.weights(here.combined()), chosen); }
  const panel = (heading, ...inside) => h("div", {}, h("p", { class: "attn-heading" }, heading), ...inside);
  const through = reach && panel("Reach through the layers", ...reach.els);
  function draw() {
    const mask = here.combined(), weights = here.weights(mask), top = scaleTop(model, weights);
    editor.show({ values: Float64Array.from(mask), L, S, mask, queries, keys, flat: true });
    map.show({ values: weights, L, S, mask, queries, keys, top });
    scale.show(top, false, "linear", true);
    if (reach) {
      through.hidden = !folds.layers.open;
      reach.draw(mask);
    }
    empties.textContent = emptyWords(here, mask);
    nameSources();
  }
  const panels = [panel("Mask, to paint", editor.el, buttons), panel("Weights", map.el, scale.el, empties, sources)];
  frame(el, life, { body: [h("div", { class: "attn-panels" }, ...panels, ...(reach ? [through] : [])),
    ...folds.all, map.table] });
  life.watch(["painted", "second", "second_size", "combine", "layers", "shared_scale"], draw);
  if (reach) life.listen(folds.layers, "toggle", draw);
  draw();
  return life.end;
}

export default { render };
