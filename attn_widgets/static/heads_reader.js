// What the heads of a model read, as heads.js shows it: the maps of a sentence, decoded as they are needed, and
// how heads are ranked.

import { decode } from "./numbers.js";

/** @typedef {import("./controls.js").Model} Model */

const KEPT = 24; // heads that stay unpacked

// Maps without the special tokens; what is left of a row is divided by its sum.
function selectCells(weights, [L, S], rows, columns) {
  const R = rows.length, C = columns.length, left = new Float64Array((weights.length / (L * S)) * R * C);
  for (let row = 0; row < left.length / C; row++) {
    const from = (((row / R) | 0) * L + rows[row % R]) * S;
    let sum = 0;
    for (let j = 0; j < C; j++) sum += left[row * C + j] = weights[from + columns[j]];
    if (sum > 0) for (let j = 0; j < C; j++) left[row * C + j] /= sum;
  }
  return left;
}

// The mean over the sentences that can be scored, each counting alike; null where none can.
function meanScores(all) {
  const scored = all.filter(Boolean);
  if (!scored.length) return null;
  return Array.from(scored[0], (_, n) => scored.reduce((sum, scores) => sum + scores[n], 0) / scored.length);
}

// Several maps laid over one another.
function combined(maps, how) {
  if (maps.length === 1) return maps[0];
  const all = new Float64Array(maps[0].length), part = how === "mean" ? 1 / maps.length : 1;
  for (const map of maps) {
    for (let n = 0; n < all.length; n++) all[n] = how === "mean" ? all[n] + map[n] * part : Math.max(all[n], map[n]);
  }
  return all;
}

// The weights of a head that came by itself, as views.py packs them: 8 bits each, 0 for a weight of 0, and from 1
// on powers of 3/5, of which the first stands for all that are nearly 0.
const NEARLY_0 = 1e-6;
const EIGHT_BITS = Float64Array.from({ length: 256 }, (_, n) =>
  n && Math.max(NEARLY_0, ((n - 1) / 254) ** (5 / 3)));
async function unpackHead(text, size) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)), weights = new Float64Array(size);
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  let at = 0;
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    if (at + value.length > size) throw new Error("a head holds more weights than its tokens have pairs");
    for (const byte of value) weights[at++] = EIGHT_BITS[byte];
  }
  if (at < size) throw new Error("a head holds fewer weights than its tokens have pairs");
  return weights;
}

// The masks of a view, one or one a layer; none where all may be read.
/**
 * @param {any} encoded
 * @param {(mask: Uint8Array) => Uint8Array} cut
 * @returns {Uint8Array[]}
 */
function masksOf(encoded, cut = (mask) => mask) {
  if (!encoded) return [];
  const [L, S] = encoded.shape.slice(-2), all = /** @type {Uint8Array} */ (decode(encoded));
  return Array.from({ length: all.length / (L * S) }, (_, n) => cut(all.subarray(n * L * S, (n + 1) * L * S)));
}

// What any of these layers may read, or null where that is everything.
/**
 * @param {Uint8Array[]} masks
 * @param {number[]} layers
 */
function maskOf(masks, layers) {
  if (masks.length < 2) return masks[0] || null;
  const [first, ...others] = [...new Set(layers)].map((layer) => masks[layer]);
  return others.length ? first.map((open, n) => open | +others.some((mask) => mask[n])) : first;
}

// What is on show: the view, its tokens with or without special ones, its maps and thumbnails. `arrived`
// is called when a head that was asked for has been unpacked, or could not be.
function viewReader(model, arrived) {
  const cache = new WeakMap(), unpacked = new Map();
  const data = () => model.get("data");
  const own = (view) => { // decoded once
    if (!cache.has(view)) cache.set(view, { whole: view.weights && decode(view.weights), shown: {} });
    return cache.get(view);
  };
  // Of the sentence on show, or of the `n`th.
  function now(n = model.get("sentence")) {
    const all = data().sentences, typed = model.get("reply").sentence;
    const sentence = n < all.length || !typed ? all[Math.min(n, all.length - 1)] : typed;
    const view = sentence.views[Math.min(model.get("kind"), sentence.views.length - 1)];
    const hide = model.get("hide_special"), { whole, shown } = own(view);
    if (!shown[hide]) {
      const [layers, heads, L, S] = view.size, special = new Set(hide ? data().special : []);
      const kept = (tokens) => [...tokens.keys()].filter((t) => !special.has(tokens[t]));
      const keyTokens = view.keys || view.queries, rows = kept(view.queries), columns = kept(keyTokens);
      const everything = rows.length === L && columns.length === S;
      const cut = (maps) => (everything ? maps : selectCells(maps, [L, S], rows, columns));
      const cutMask = (mask) => Uint8Array.from(rows.flatMap((i) => columns.map((j) => mask[i * S + j])));
      const masks = masksOf(view.mask, cutMask);
      shown[hide] = { view, sentence, layers, heads, rows, columns, cut, size: [rows.length, columns.length],
        queries: rows.map((t) => view.queries[t]), keys: columns.map((t) => keyTokens[t]),
        masks, whole: whole && cut(whole),
        /** @param {number[]} numbers of heads */
        mask: (numbers) => maskOf(masks, numbers.map((n) => (n / heads) | 0)) };
      const small = view.thumbnails && view.thumbnails[Math.min(+!everything, view.thumbnails.length - 1)];
      shown[hide].thumbnails = small
        ? { maps: decode(small.weights), masks: masksOf(small.mask), size: small.weights.shape.slice(2) }
        : { maps: shown[hide].whole, masks, size: shown[hide].size };
    }
    return shown[hide];
  }
  // The weights of a head, or null while they are on their way.
  function head({ view, whole, cut, size }, n) {
    const cells = size[0] * size[1];
    if (whole) return whole.subarray(n * cells, (n + 1) * cells);
    const key = `${view.key}.${n}`, text = model.get("packed")[key];
    if (unpacked.has(key)) { // the last used stays longest
      const found = unpacked.get(key);
      unpacked.delete(key);
      unpacked.set(key, found);
      return found.weights && cut(found.weights);
    }
    if (text) {
      const wait = { weights: null };
      unpacked.set(key, wait);
      if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
      unpackHead(text, view.size[2] * view.size[3])
        .then((weights) => { wait.weights = weights; }, (error) => { wait.error = String(error.message); })
        .finally(() => arrived(wait.error));
    }
    return null;
  }
  const thumbnail = ({ heads, thumbnails: { maps, masks, size } }, n) => {
    const cells = size[0] * size[1];
    return { values: maps.subarray(n * cells, (n + 1) * cells), mask: maskOf(masks, [(n / heads) | 0]) };
  };
  return { data, now, head, thumbnail };
}

// How the heads of the kind on show are ranked: {scored, means, order} of the ranking now chosen.
function headRanking(model, data) {
  const scores = new WeakMap();
  const read = (view, name) => {
    if (!view.scores[name]) return null;
    if (!scores.has(view.scores[name])) scores.set(view.scores[name], decode(view.scores[name]));
    return scores.get(view.scores[name]);
  };
  const score = (view, ranking) => read(view, ["focused", "spread"].includes(ranking) ? "entropy" : ranking);
  let last = {};
  function now() {
    const pattern = model.get("pattern"), kind = model.get("kind"), { sentences } = data();
    if (last.pattern !== pattern || last.kind !== kind || last.sentences !== sentences) {
      const all = pattern ? sentences.map(({ views }) => score(views[kind], pattern)) : [];
      const means = meanScores(all), sign = pattern === "focused" ? 1 : -1;
      const order = means ? [...means.keys()].sort((a, b) => sign * (means[a] - means[b])) : [];
      last = { pattern, kind, sentences, scored: all.filter(Boolean).length, means, order };
    }
    return last;
  }
  // How far a head is from the worst to the best, from 0 to 1.
  function strength(n) {
    const { means, order, pattern } = now(), best = means[order[0]], worst = means[order.at(-1)];
    return pattern === "focused" ? (worst - means[n]) / Math.max(worst - best, 1e-9) : means[n] / Math.max(best, 1e-9);
  }
  return { now, score, strength };
}

export { combined, headRanking, selectCells, unpackHead, viewReader };
