// The heatmap every chapter uses: weights, or scores that it turns into weights itself.
// Traits: data {kind, values, mask, queries, keys, title, heads, layers}, and the controls layer,
// head, temperature, mask_choice, shared_scale, scale, overview; row and column are the cell that the reader is at.

import { decode, largest, maskedSoftmax, namedMask } from "./numbers.js";
import {
  choice, frame, h, lifetime, numbered, put, renewed, sized, slider, tick, twoDigits,
} from "./controls.js";
import { folded } from "./folds.js";
import { colourScale, SCALES, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";
import { headGrid } from "./grid.js";
import { within } from "./map_layout.js";
import { isSentence, rowName, rowWords } from "./row_words.js";

const MANY = 24; // tokens from which on weights may be too small for a linear scale
const FIRST = 3; // controls at first sight

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

// The chosen row as a sentence, where the keys are words.
function sentenceOf(model, { data, L, S, mask }) {
  const { queries, keys } = data, words = isSentence(keys) ? rowWords(keys) : null;
  const isShared = JSON.stringify(queries) === JSON.stringify(keys); // the tokens read one another
  const sentence = { el: words && words.el, row: within(model.get("row"), L - 1), draw(values, top) {
    const { row } = sentence, [from, to] = [row * S, (row + 1) * S], now = mask();
    words.show({ query: rowName(queries, row), itself: isShared ? row : -1, weights: values.subarray(from, to),
      mask: now && now.subarray(from, to), top });
  } };
  return sentence;
}

/** @param {import("./controls.js").Mount} mount */
function renderOnce({ model, el }) {
  const life = lifetime(model), reader = headReader(model), { data, layers, heads, L, S } = reader;
  const sentence = sentenceOf(model, reader);
  const look = (row) => { if (row !== sentence.row) { sentence.row = row; draw(); } };
  const map = heatmap(life, { label: "Attention weights. Arrow keys walk the cells.",
    onPick: (row, column) => { put(model, { row, column }); look(row); }, onHover: look });
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
    const values = reader.read(model.get("layer"), model.get("head")), mask = reader.mask();
    top = findTop();
    const { queries, keys } = data, colours = model.get("scale");
    map.show({ values, L, S, mask, queries, keys, top, scale: colours, mark: sentence.el ? sentence.row : null });
    scale.show(top, false, colours, Boolean(mask));
    shared.querySelector("input").disabled = colours === "row"; // where each row has an end of its own
    if (overview) overview.draw();
    if (!sentence.el) return;
    sentence.draw(values, top);
    sentence.el.parentElement.style.setProperty("--attn-map", `${map.wanted()}px`);
  }

  const { controls, shared } = controlsFor(model, life, reader), picture = [map.el, scale.el];
  if (layers * heads > 1) {
    controls.push(tick(model, life, "overview", { label: "All heads at once" }));
    overview = overviewOf(model, life, reader, room, () => top);
    picture.unshift(overview.el);
  }
  const opens = ["mask_choice", "scale", "shared_scale", "overview"];
  const rest = controls.length > FIRST ? controls.splice(FIRST - 1) : [];
  const more = rest.length
    ? [folded(model, life, "More controls", { opens }, h("div", { class: "attn-controls" }, ...rest))] : [];
  frame(el, life, { title: data.title, picture, controls, more, aside: sentence.el, body: [map.table] });
  life.watch(["layer", "head", "temperature", "mask_choice", "shared_scale", "overview", "scale"], draw);
  life.watch(["row"], () => look(within(model.get("row"), L - 1)));
  draw();
  return life.end;
}

const render = renewed(renderOnce);
export default { render };
