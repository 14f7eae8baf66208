// All heads of a model: choose one, walk the tokens, find heads by what they read. Traits: data
// {sentences: [{views, name}], special, title}, where a view is one kind of attention (views.py);
// packed, the heads that are sent by themselves; sentence, kind, layer, head, pinned, combine, token,
// hide_special, shared_scale, scale, columns, pattern; typing, text, reply.

import { decode, largest, PALETTE, quoted, shown, visible } from "./numbers.js";
import { button, choice, foldedTable, frame, h, lifetime, numbered, put, renewed, tick } from "./controls.js";
import { colourScale, SCALES, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";
import { headGrid } from "./grid.js";
import { links, strongest } from "./links.js";
import { typingBox } from "./typing.js";

const RANKINGS = [["", "anything"], ["previous", "the previous token"], ["next", "the next token"],
  ["same", "the same token elsewhere"], ["itself", "the token itself"], ["first", "the first token"],
  ["separator", "a separator, such as [SEP]"], ["focused", "few tokens (low entropy)"],
  ["spread", "many tokens (high entropy)"]];
const KINDS = { encoder: "encoder: source reads source", decoder: "decoder: target reads target",
  cross: "cross: target reads source" };
const BEST = 5, MOST_PINNED = 5, KEPT = 24; // KEPT: heads that stay unpacked
const MOST_LINKED = 100, EXCERPT = 41; // tokens between which links are drawn; of a longer text
const SCORE = "Score: the weight that a token gives there. A mean over the tokens that have such a place "
  + "(special ones left out), then over the sentences. What is hidden changes no score.";
const ENTROPY = "Score: the entropy of what a token reads, in bits. A mean over the tokens (special ones left "
  + "out), then over the sentences. What is hidden changes no score.";

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
  const told = all.filter(Boolean);
  if (!told.length) return null;
  return Array.from(told[0], (_, n) => told.reduce((sum, scores) => sum + scores[n], 0) / told.length);
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

// The tokens between which links are drawn: all, or of a long text those around the chosen one and those
// that it reads most.
function linkedTokens(values, [L, S], chosen) {
  if (Math.max(L, S) <= MOST_LINKED) return { rows: [...Array(L).keys()], columns: [...Array(S).keys()] };
  const count = Math.min(L, EXCERPT), start = Math.max(0, Math.min(L - count, chosen - (count >> 1)));
  const most = [...Array(S).keys()].sort((a, b) => values[chosen * S + b] - values[chosen * S + a]);
  return { rows: Array.from({ length: count }, (_, n) => start + n),
    columns: most.slice(0, EXCERPT).sort((a, b) => a - b), part: true };
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

// What is on show: the view, its tokens with or without special ones, its maps and thumbnails. `arrived`
// is called when a head that was asked for has been unpacked, or could not be.
function viewReader(model, arrived) {
  const cache = new WeakMap(), unpacked = new Map();
  const data = () => model.get("data");
  const own = (view) => { // decoded once
    if (!cache.has(view)) {
      const mask = view.mask && decode(view.mask);
      cache.set(view, { whole: view.weights && decode(view.weights), mask, shown: {} });
    }
    return cache.get(view);
  };
  function now() {
    const all = data().sentences, n = model.get("sentence"), typed = model.get("reply").sentence;
    const sentence = n < all.length || !typed ? all[Math.min(n, all.length - 1)] : typed;
    const view = sentence.views[Math.min(model.get("kind"), sentence.views.length - 1)];
    const hide = model.get("hide_special"), { whole, mask, shown } = own(view);
    if (!shown[hide]) {
      const [layers, heads, L, S] = view.size, special = new Set(hide ? data().special : []);
      const kept = (tokens) => [...tokens.keys()].filter((t) => !special.has(tokens[t]));
      const keyTokens = view.keys || view.queries, rows = kept(view.queries), columns = kept(keyTokens);
      const everything = rows.length === L && columns.length === S;
      const cut = (maps) => (everything ? maps : selectCells(maps, [L, S], rows, columns));
      shown[hide] = { view, layers, heads, rows, columns, cut, size: [rows.length, columns.length],
        queries: rows.map((t) => view.queries[t]), keys: columns.map((t) => keyTokens[t]),
        mask: mask && Uint8Array.from(rows.flatMap((i) => columns.map((j) => mask[i * S + j]))),
        whole: whole && cut(whole) };
      const small = view.thumbnails && view.thumbnails[Math.min(+!everything, view.thumbnails.length - 1)];
      shown[hide].thumbnails = small
        ? { maps: decode(small.weights), mask: small.mask && decode(small.mask), size: small.weights.shape.slice(2) }
        : { maps: shown[hide].whole, mask: shown[hide].mask, size: shown[hide].size };
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
  const thumbnail = ({ thumbnails: { maps, mask, size } }, n) => {
    const cells = size[0] * size[1];
    return { values: maps.subarray(n * cells, (n + 1) * cells), mask };
  };
  return { data, now, head, thumbnail };
}

// How the heads of the kind on show are ranked: {told, means, order} of the ranking now chosen.
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
      last = { pattern, kind, sentences, told: all.filter(Boolean).length, means, order };
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

function renderOnce({ model, el }) {
  const life = lifetime(model);
  let failed = "", over = false;
  life.onEnd(() => { over = true; });
  const reader = viewReader(model, (error) => {
    failed = error || "";
    if (!over) draw();
  });
  const ranking = headRanking(model, reader.data);
  const { sentences, title, special } = reader.data(), kinds = sentences[0].views, count = sentences.length;
  const live = model.get("typing") !== "off";

  // The chosen head first, then those pinned.
  function shownHeads() {
    const { layers, heads } = reader.now();
    const chosen = Math.min(model.get("layer"), layers - 1) * heads + Math.min(model.get("head"), heads - 1);
    return [chosen, ...model.get("pinned").filter((n) => n !== chosen && n < layers * heads)];
  }
  const named = (n) => `${(n / reader.now().heads) | 0}.${n % reader.now().heads}`;
  const row = ({ rows }) => Math.max(0, rows.findLastIndex((t) => t <= model.get("token")));
  const look = (shownRow) => {
    if (shownRow === null || reader.now().rows[shownRow] === model.get("token")) return;
    put(model, { token: reader.now().rows[shownRow] });
  };

  const scaleTop = () => (model.get("shared_scale") ? Math.max(largest(reader.now().thumbnails.maps), 1e-9) : 1);
  let top = 1;
  const thumbnail = (n) => ({ ...reader.thumbnail(reader.now(), n), top, scale: model.get("scale") });
  function marks() {
    const { means, order } = ranking.now(), { heads } = reader.now();
    if (!means) return null;
    return { strength: (layer, head) => ranking.strength(layer * heads + head),
      best: order.slice(0, BEST).map((n) => [(n / heads) | 0, n % heads]) };
  }
  // One grid for each kind: an encoder and a decoder may differ in their layers and heads.
  const grids = kinds.map(({ size: [layers, heads] }, kind) => headGrid(life, model, { layers, heads, marks,
    outlined: () => kind === Math.min(model.get("kind"), kinds.length - 1),
    pins: () => model.get("pinned").map((n) => [(n / heads) | 0, n % heads, hueOf(n)]),
    onPin: (layer, head) => toggle(layer * heads + head),
    made: () => [reader.now().thumbnails, top, model.get("scale")],
    size: () => reader.now().thumbnails.size, map: (layer, head) => thumbnail(layer * heads + head) }));
  const figure = links(life, {
    label: "Tokens that are read, and tokens that read. Arrow keys walk the tokens that read.",
    captions: ["keys (are read)", "queries (read)"], onPick: (at) => look(at === null ? null : linked.rows[at]) });
  const map = heatmap(life, { label: "Weights of the head. Arrow keys walk the cells.", tallest: 32, onPick: look,
    onHover: look });
  const scale = colourScale(life);
  const aboutLinks = h("p", { class: "attn-note" });
  const which = h("p", { class: "attn-said", role: "status" });
  const said = h("p", { class: "attn-said", role: "status" });

  function drawToken() {
    const shows = reader.now(), all = shownHeads(), maps = all.map((n) => reader.head(shows, n));
    const waiting = maps.includes(null);
    for (const part of [map.el, figure.el]) part.classList.toggle("attn-stale", waiting);
    if (waiting) {
      said.textContent = failed ? `This head cannot be read: ${failed}.` : "The head is on its way \u2026";
      return;
    }
    const { queries, keys, size: [L, S], mask } = shows, chosen = row(shows);
    const values = combined(maps, model.get("combine"));
    map.show({ values, L, S, mask, queries, keys, top, scale: model.get("scale"),
      mark: chosen });
    showLinks(shows, values, maps.map((weights, k) => ({ weights, colour: k ? hueOf(all[k]) : undefined })), chosen);
    const reads = strongest(keys, values.subarray(chosen * S, (chosen + 1) * S));
    said.textContent = `${quoted(queries[chosen])} reads ${reads}.`;
  }
  let linked = null; // the tokens between which links are now drawn
  function showLinks({ queries, keys, size }, values, strands, chosen) {
    const options = { top, power: model.get("scale") === "linear" ? 1 : 1 / 3, columns: model.get("columns") };
    const { rows, columns, part } = linked = linkedTokens(values, size, chosen);
    const cut = (weights) => Float64Array.from(rows.flatMap((i) => columns.map((j) => weights[i * size[1] + j])));
    aboutLinks.hidden = !part;
    if (!part) return figure.show({ above: keys, below: queries, weights: values, strands, chosen, ...options });
    aboutLinks.textContent = `Links from ${rows.length} of the ${queries.length} tokens, to the ${columns.length} of `
      + `${keys.length} that the chosen one reads most. Press a token to choose it.`;
    return figure.show({ above: columns.map((j) => keys[j]), below: rows.map((i) => queries[i]), weights: cut(values),
      strands: strands.map(({ weights, colour }) => ({ weights: cut(weights), colour })),
      chosen: rows.indexOf(chosen), byPress: true, ...options });
  }
  function draw() {
    const [n] = shownHeads(), { heads, view } = reader.now(), kind = Math.min(model.get("kind"), kinds.length - 1);
    top = scaleTop();
    grids.forEach((grid, k) => { grid.el.hidden = k !== kind; });
    grids[kind].draw();
    scale.show(top, false, model.get("scale"));
    drawToken();
    const bits = ranking.score(view, "spread")[n];
    which.textContent = `Layer ${(n / heads) | 0}, head ${n % heads}, entropy ${bits.toFixed(2)} bits${judgement(n)}`;
    follow();
  }
  function judgement(n) {
    const { pattern, told, means } = ranking.now();
    if (!pattern) return "";
    if (!means) return ": none of the sentences has such a pair.";
    const here = ranking.score(reader.now().view, pattern), better = pattern === "focused" ? -1 : 1;
    const ahead = means.filter((x) => better * (x - means[n]) > 0).length; // ties share a rank
    const rank = `rank ${ahead + 1} of ${means.length}`;
    const across = `${told < count ? `${told} of ` : ""}${count} sentence${count > 1 ? "s" : ""}`;
    return `: score ${means[n].toFixed(2)} over ${across}, ${rank}; `
      + (here ? `${here[n].toFixed(2)} in this one.` : "this one has no such pair.");
  }

  const most = (n) => Math.max(...kinds.map(({ size }) => size[n]));
  const texts = sentences.map(({ name }, n) => [n, visible(name, 60)]);
  if (live || model.get("reply").sentence) texts.push([count, "what you typed"]);
  const select = {
    sentence: choice(model, life, "sentence", { label: "Sentence", choices: texts }),
    kind: choice(model, life, "kind",
      { label: "Attention", choices: kinds.map(({ name }, n) => [n, KINDS[name] || name]) }),
    layer: choice(model, life, "layer", { label: "Layer", choices: numbered(most(0)) }),
    head: choice(model, life, "head", { label: "Head", choices: numbered(most(1)) }),
    pattern: choice(model, life, "pattern", { label: "Heads that read", choices: RANKINGS }),
  };
  const options = (name) => [...select[name].querySelector("select").options];

  const best = Array.from({ length: Math.min(BEST, most(0) * most(1)) }, (_, n) => button(life, "", () => {
    const at = ranking.now().order[n], { heads } = reader.now();
    put(model, { layer: (at / heads) | 0, head: at % heads });
  }));
  const list = h("div", { class: "attn-buttons attn-controls attn-best", role: "group",
    "aria-label": "The best heads, layer.head: score" }, ...best);
  const about = h("p", { class: "attn-note" });
  const scoreTable = foldedTable(life, "The scores of all heads as a table", () => {
    const { layers, heads } = reader.now(), { means } = ranking.now();
    return { corner: "layer \u2193 head \u2192", columns: numbered(heads).map(([, text]) => text),
      rows: numbered(layers).map(([layer, text]) => [text, ...numbered(heads).map(([head]) =>
        (means ? shown(means[layer * heads + head]) : "\u2013"))]) };
  });

  // Heads laid over one another: the chosen one is pinned, or let go, and each pin is a button.
  const toggle = (n) => {
    const pinned = model.get("pinned");
    if (pinned.includes(n)) put(model, { pinned: pinned.filter((other) => other !== n) });
    else if (pinned.length < MOST_PINNED) put(model, { pinned: [...pinned, n] });
  };
  const pin = button(life, "", () => toggle(shownHeads()[0]));
  const held = Array.from({ length: MOST_PINNED }, (_, k) => {
    const swatch = h("span", { class: "attn-swatch" }), name = h("span", {});
    const el = button(life, "", () => toggle(model.get("pinned")[k]));
    el.append(swatch, name);
    return { el, swatch, name };
  });
  const combine = choice(model, life, "combine",
    { label: "The map shows their", choices: [["mean", "mean"], ["max", "maximum"]] });
  const overlay = h("div", { class: "attn-controls attn-overlay", role: "group",
    "aria-label": "Heads laid over one another" }, pin, ...held.map(({ el }) => el), combine);
  // The hue of each pinned head; the chosen one has the accent's.
  const hueOf = (n) => PALETTE.categorical[1 + model.get("pinned").indexOf(n)];
  function followPins() {
    const all = shownHeads(), pinned = model.get("pinned"), isHeld = pinned.includes(all[0]);
    const full = !isHeld && pinned.length >= MOST_PINNED;
    pin.textContent = isHeld ? `Let go of head ${named(all[0])}` : `Pin head ${named(all[0])}`;
    pin.setAttribute("aria-disabled", full);
    pin.title = full ? `At most ${MOST_PINNED} heads can be pinned` : "";
    held.forEach(({ el, swatch, name }, k) => {
      el.hidden = k >= pinned.length || pinned[k] === all[0] || !all.includes(pinned[k]);
      if (el.hidden) return;
      swatch.style.background = hueOf(pinned[k]);
      name.textContent = `${named(pinned[k])} \u00d7`;
      el.setAttribute("aria-label", `Let go of head ${named(pinned[k])}`);
    });
    combine.hidden = all.length < 2;
  }

  function follow() {
    const { means, order, pattern } = ranking.now(), [n] = shownHeads(), { layers, heads, view } = reader.now();
    const own = options("sentence")[count];
    if (own) own.disabled = !model.get("reply").sentence;
    options("layer").forEach((option, at) => { option.disabled = at >= layers; });
    options("head").forEach((option, at) => { option.disabled = at >= heads; });
    options("pattern").forEach((option, at) => {
      const name = RANKINGS[at][0];
      option.disabled = Boolean(name && view.keys && !ranking.score(view, name)); // of two texts
    });
    best.forEach((el, k) => {
      el.hidden = k >= order.length;
      if (means && !el.hidden) el.textContent = `${named(order[k])}: ${means[order[k]].toFixed(2)}`;
      el.setAttribute("aria-pressed", Boolean(means) && order[k] === n);
    });
    const entropy = ["focused", "spread"].includes(pattern);
    about.textContent = means ? (entropy ? ENTROPY : SCORE)
      : "Choose a head among all of them, or let a pattern find it.";
    list.hidden = scoreTable.el.hidden = !means;
    scoreTable.fill();
    followPins();
  }
  // A kind with fewer layers or heads: the nearest there are.
  life.watch(["kind"], () => {
    const [n] = shownHeads(), { heads } = reader.now(), place = { layer: (n / heads) | 0, head: n % heads };
    if (place.layer !== model.get("layer") || place.head !== model.get("head")) put(model, place);
  });

  const controls = [select.layer, select.head, select.pattern];
  if (count > 1 || model.get("typing") === "live" || model.get("reply").sentence) controls.unshift(select.sentence);
  if (kinds.length > 1) controls.unshift(select.kind);
  if (special.length) controls.push(tick(model, life, "hide_special", { label: "Hide special tokens" }));
  controls.push(choice(model, life, "scale", { label: "Colours", choices: SCALES }), sharedScale(model, life),
    tick(model, life, "columns", { label: "Tokens in columns" }));
  if (live) {
    controls.push(typingBox(model, life, { label: "Type your own", send: "Read", waiting: "The model reads \u2026",
      page: "Run the notebook to try a text of your own." }));
  }
  frame(el, life, { title, controls, body: [
    h("div", { class: "attn-heads" },
      h("div", {}, ...grids.map((grid) => grid.el), which, list, about, overlay, scale.el),
      h("div", {}, map.el)),
    figure.el, aboutLinks, said, map.table, scoreTable.el] });
  life.watch(["token"], drawToken);
  life.watch(["sentence", "kind", "layer", "head", "pinned", "combine", "hide_special", "shared_scale", "scale",
    "columns", "pattern", "reply", "packed"], draw);
  draw();
  return life.end;
}

const render = renewed(renderOnce);
export default { render };
