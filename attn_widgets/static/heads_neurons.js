// Where a score comes from: for the chosen token and head, the product of query and key in each feature, whose sum over
// the features is the score. Of the layers whose queries and keys the view holds (neurons.py).

import { decode, diverging, PALETTE, quoted, shown, two } from "./numbers.js";
import { foldedTable, h } from "./controls.js";
import { heatmap } from "./map.js";
import { columnX, rowY } from "./map_layout.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./numbers.js").Floats} Floats */
/**
 * What a token's scores are made of.
 * @typedef {object} Terms
 * @property {Floats} query (D)
 * @property {Floats[]} keys (D) each
 * @property {Floats[]} products (D) each, scaled
 * @property {number[]} scores their sums
 * @property {number} scale
 */

/** @typedef {{ terms: Terms, weights: number[], names: string[] }} Shown the keys that are read most */

const EMPTY = { corner: "key", columns: [], rows: [] };
const [BLUE, OCHRE] = PALETTE.categorical, RAMP = diverging("#7a4fae", PALETTE.positive); // neither query nor key
const MOST = 8, ABOVE = 46, RIGHT = 96, TOP = 30; // keys; pixels above the cells, right of them, of the query's bars

// The vectors of the head: decoded once, and of a group's keys for each head that shares them.
function vectorReader() {
  const kept = new WeakMap();
  const read = (packed) => {
    if (!kept.has(packed)) kept.set(packed, decode(packed));
    return kept.get(packed);
  };
  /**
   * @param {{ queries: any[], keys: any[] }} layer
   * @param {number} head
   */
  return ({ queries, keys }, head) => ({ queries: read(queries[head]),
    keys: read(keys[Math.floor((head * keys.length) / queries.length)]), width: queries[head].shape[1] });
}

/**
 * @param {{ queries: Floats, keys: Floats, width: number }} vectors
 * @param {number} scale
 * @param {number} token the query's place
 * @param {number[]} places of the keys
 * @returns {Terms}
 */
function termsOf({ queries, keys, width }, scale, token, places) {
  const row = (all, n) => /** @type {Floats} */ (all.subarray(n * width, (n + 1) * width));
  const query = row(queries, token), own = places.map((n) => row(keys, n));
  const products = own.map((key) => key.map((x, d) => x * query[d] * scale));
  return { query, keys: own, products, scale, scores: products.map((all) => all.reduce((sum, x) => sum + x, 0)) };
}

// The keys that are read most, of those that may be read.
function mostRead(weights, mask, from, S) {
  const open = [...Array(S).keys()].filter((j) => !mask || mask[from + j]);
  return open.sort((a, b) => weights[from + b] - weights[from + a]).slice(0, MOST);
}

// The query above the products, a bar for each feature, and right of them the sums and weights.
function paintBeside(context, { data, place, view }, { query, scores }, weights) {
  const { font, ink, muted } = view.colours, most = query.reduce((top, x) => Math.max(top, Math.abs(x)), 1e-9);
  const half = TOP / 2, middle = 6 + half, end = place.left + place.width, bar = Math.max(1, place.cellWidth - 1);
  context.fillStyle = BLUE;
  query.forEach((x, d) => {
    const height = (x / most) * half;
    context.fillRect(columnX(place, d), middle - Math.max(0, height), bar, Math.max(0.5, Math.abs(height)));
  });
  context.font = `600 12px ${font}`; context.textBaseline = "middle"; context.textAlign = "right";
  context.fillText("query", place.left - 6, middle);
  context.font = `11px ${font}`; context.fillStyle = muted;
  context.fillText("score", end + 46, ABOVE - 9);
  context.fillText("weight", end + RIGHT - 6, ABOVE - 9);
  context.font = `12px ${font}`; context.fillStyle = ink;
  for (let i = 0; i < data.L; i++) {
    context.fillText(two(scores[i]), end + 46, rowY(place, i + 0.5));
    context.fillText(weights[i].toFixed(2), end + RIGHT - 6, rowY(place, i + 0.5));
  }
}

/** @param {Shown} now */
const tableOf = ({ terms: { query, products, scores }, weights, names }) => ({ corner: "key",
  columns: ["score", "weight", ...Array.from(query, (_, d) => String(d))],
  rows: names.map((name, i) => [name, shown(scores[i]), shown(weights[i]), ...Array.from(products[i], shown)]) });

/** @param {Life} life */
function neuronView(life) {
  const vectorsOf = vectorReader(), heading = h("p", { class: "attn-heading" }), words = h("p", { class: "attn-note" });
  /** @type {Shown | null} */
  let now = null;
  const map = heatmap(life, { label: "The products of query and key in each feature. Arrow keys walk the cells.",
    tallest: 20, shortest: 20, sparse: true, zooms: false, above: ABOVE, right: RIGHT,
    beside: (context, drawn) => { if (now) paintBeside(context, drawn, now.terms, now.weights); } });
  const table = foldedTable(life, "The products as a table", () => (now ? tableOf(now) : EMPTY));
  const el = h("div", { class: "attn-neurons" }, heading, map.el, words);
  // The cell in words: what is multiplied, and by what.
  const cell = (i, d) => `${quoted(now.names[i])}, feature ${d}: ${two(now.terms.query[d])} \u00d7 `
    + `${two(now.terms.keys[i][d])} \u00d7 ${now.terms.scale.toFixed(3)}`;
  return { el, table: table.el, draw(shows, layer, head, weights, chosen) {
    const packed = shows.view.neurons, own = packed && packed[layer];
    map.el.hidden = table.el.hidden = !own;
    now = null;
    heading.textContent = packed ? "Where the scores come from" : "";
    words.textContent = own || !packed ? "" : "Of this layer the view holds no queries and keys: it does of "
      + `${Object.keys(packed).join(", ")}.`;
    if (!own) return;
    const [, S] = shows.size, mask = shows.mask([layer * shows.heads + head]);
    const best = mostRead(weights, mask, chosen * S, S), names = best.map((j) => shows.keys[j]);
    const terms = termsOf(vectorsOf(own, head), own.scale, shows.rows[chosen], best.map((j) => shows.columns[j]));
    now = { terms, names, weights: best.map((j) => weights[chosen * S + j]) };
    const D = terms.query.length, values = Float64Array.from(terms.products.flatMap((row) => [...row]));
    const top = values.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);
    heading.textContent = `Where the scores of ${quoted(shows.queries[chosen])} come from`;
    map.show({ values, L: best.length, S: D, mask: null, queries: names, keys: null, signed: true, ramp: RAMP, top,
      room: Math.min(MOST, S), rowInk: OCHRE,
      axes: { columns: `features 0 to ${D - 1}`, rows: "keys", corner: "key", cell } });
    words.textContent = `A cell is query times key times ${own.scale.toFixed(3)} in one feature: orange raises the `
      + `score, violet lowers it, at most by ${two(top)}. A row adds up to its score.`;
    table.fill();
  } };
}

export { neuronView };
