// The heatmap every chapter uses: weights, or scores that it turns into weights itself.
// Traits: data {kind, values, mask, queries, keys, title, heads, layers}, and the controls layer,
// head, temperature, mask_choice, shared_scale, scale, overview.

import { decode, largest, maskedSoftmax, namedMask } from "./numbers.js";
import {
  choice, frame, h, lifetime, numbered, put, renewed, sized, slider, tick, twoDigits,
} from "./controls.js";
import { colourScale, SCALES, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";
import { headGrid } from "./grid.js";

const MANY = 24; // tokens from which on weights may be too small for a linear scale

// What the data and the controls say is shown: {values, mask} of one head.
function headReader(model) {
  const data = model.get("data");
  const values = decode(data.values), given = data.mask ? decode(data.mask) : null;
  const [layers, heads, L, S] = data.values.shape;
  const causal = namedMask("causal", L, S);
  const mask = () => {
    if (data.kind === "weights") return given;
    return { none: null, causal, given }[model.get("mask_choice")];
  };
  const read = (layer, head, room) => { // into `room`, if given
    const start = (layer * heads + head) * L * S;
    const one = values.subarray(start, start + L * S);
    return data.kind === "weights" ? one : maskedSoftmax(one, mask(), L, S, model.get("temperature"), room);
  };
  return { data, layers, heads, L, S, mask, read };
}

// The controls that these data need; `shared` is the one of a common scale, which each row may make idle.
function controlsFor(model, life, { data, layers, heads, L, S }) {
  const controls = [];
  if (layers > 1) controls.push(choice(model, life, "layer", { label: "Layer", choices: numbered(layers) }));
  if (heads > 1) controls.push(choice(model, life, "head", { label: "Head", choices: numbered(heads) }));
  if (data.kind === "scores") {
    controls.push(slider(model, life, "temperature",
      { label: "Temperature", places: twoDigits(0.05, 20), format: sized }));
    const choices = [["none", "none"], ["causal", "causal"]].concat(data.mask ? [["given", "the given one"]] : []);
    controls.push(choice(model, life, "mask_choice", { label: "Mask", choices }));
  }
  if (Math.max(L, S) >= MANY) controls.push(choice(model, life, "scale", { label: "Colours", choices: SCALES }));
  const shared = sharedScale(model, life);
  return { controls: [...controls, shared], shared };
}

// All heads at once, and which of them is chosen.
function overviewOf(model, life, { layers, heads, L, S, mask, read }, room, top) {
  const which = h("p", { class: "attn-note", role: "status" });
  const grid = headGrid(life, model, { layers, heads, size: () => [L, S], map: (layer, head) => (
    { values: read(layer, head, room), mask: mask(), top: top(), scale: model.get("scale") }) });
  const fold = () => { grid.el.hidden = which.hidden = !model.get("overview"); };
  life.watch(["overview"], fold);
  fold();
  return { el: h("div", {}, grid.el, which), draw() {
    which.textContent = `Layer ${model.get("layer")}, head ${model.get("head")}`;
    if (model.get("overview")) grid.draw();
  } };
}

/** @param {import("./controls.js").Mount} mount */
function renderOnce({ model, el }) {
  const life = lifetime(model), reader = headReader(model), { data, layers, heads, L, S } = reader;
  const map = heatmap(life, { label: "Attention weights. Arrow keys walk the cells.",
    onPick: (row, column) => put(model, { row, column }) });
  const scale = colourScale(life), room = new Float64Array(L * S); // for one head after the other
  let top = 1, overview = null;

  // One scale for all heads of all layers, or their colours could not be compared.
  function findTop() {
    if (!model.get("shared_scale")) return 1;
    let most = 1e-9;
    for (let n = 0; n < layers * heads; n++)
      most = Math.max(most, largest(reader.read((n / heads) | 0, n % heads, room)));
    return most;
  }
  function draw() {
    const values = reader.read(model.get("layer"), model.get("head"));
    top = findTop();
    const { queries, keys } = data, colours = model.get("scale");
    map.show({ values, L, S, mask: reader.mask(), queries, keys, top, scale: colours });
    scale.show(top, false, colours);
    shared.querySelector("input").disabled = colours === "row"; // where each row has an end of its own
    if (overview) overview.draw();
  }

  const { controls, shared } = controlsFor(model, life, reader), body = [map.el, scale.el, map.table];
  if (layers * heads > 1) {
    controls.push(tick(model, life, "overview", { label: "All heads at once" }));
    overview = overviewOf(model, life, reader, room, () => top);
    body.unshift(overview.el);
  }
  frame(el, life, { title: data.title, controls, body });
  life.watch(["layer", "head", "temperature", "mask_choice", "shared_scale", "overview", "scale"], draw);
  draw();
  return life.end;
}

const render = renewed(renderOnce);
export default { render };
