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

/** @typedef {import("./controls.js").Model} Model */

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

// ---------------------------------------------------------------- the heads on show

/**
 * What the parts of the widget share: the model, what is on show, and how heads are ranked and named.
 * @typedef {ReturnType<typeof explorer>} Explorer
 */
/**
 * @param {Model} model
 * @param {(error?: string) => void} arrived
 */
function explorer(model, arrived) {
  const reader = viewReader(model, arrived), ranking = headRanking(model, reader.data);
  const { sentences, title, special } = reader.data();
  const pinned = () => model.get("pinned");
  const here = { reader, ranking, sentences, title, special, kinds: sentences[0].views,
    live: model.get("typing") !== "off", top: 1, // where the colours end
    get kind() { return Math.min(model.get("kind"), here.kinds.length - 1); },
    // The chosen head first, then those pinned.
    shownHeads() {
      const { layers, heads } = reader.now();
      const chosen = Math.min(model.get("layer"), layers - 1) * heads + Math.min(model.get("head"), heads - 1);
      return [chosen, ...pinned().filter((n) => n !== chosen && n < layers * heads)];
    },
    name: (n) => here.place(n).join("."),
    /** @returns {[layer: number, head: number]} */
    place: (n) => [(n / reader.now().heads) | 0, n % reader.now().heads],
    // The hue of each pinned head; the chosen one has the accent's.
    hueOf: (n) => PALETTE.categorical[1 + pinned().indexOf(n)],
    togglePin(n) {
      if (pinned().includes(n)) put(model, { pinned: pinned().filter((other) => other !== n) });
      else if (pinned().length < MOST_PINNED) put(model, { pinned: [...pinned(), n] });
    },
    look(shownRow) { // at a token that reads
      const { rows } = reader.now();
      if (shownRow === null || rows[shownRow] === model.get("token")) return;
      put(model, { token: rows[shownRow] });
    },
    findTop() {
      here.top = model.get("shared_scale") ? Math.max(largest(reader.now().thumbnails.maps), 1e-9) : 1;
    },
  };
  return here;
}

// One grid for each kind: an encoder and a decoder may differ in their layers and heads.
function gridsOf(model, life, here) {
  const { reader, ranking, kinds } = here, current = () => reader.now().thumbnails;
  function marks() {
    const { means, order } = ranking.now(), { heads } = reader.now();
    if (!means) return null;
    return { strength: (layer, head) => ranking.strength(layer * heads + head),
      best: order.slice(0, BEST).map((n) => here.place(n)) };
  }
  return kinds.map(({ size: [layers, heads] }, kind) => headGrid(life, model, { layers, heads, marks,
    outlined: () => kind === here.kind,
    pins: () => model.get("pinned").map((n) => [(n / heads) | 0, n % heads, here.hueOf(n)]),
    onPin: (layer, head) => here.togglePin(layer * heads + head),
    made: () => [current(), here.top, model.get("scale")], size: () => current().size,
    map: (layer, head) => ({ ...reader.thumbnail(reader.now(), layer * heads + head), top: here.top,
      scale: model.get("scale") }) }));
}

// Links between the tokens; of a long text between some, as a note then says.
function linkView(model, life, here) {
  let linked = null; // the tokens between which links are now drawn
  const figure = links(life, {
    label: "Tokens that are read, and tokens that read. Arrow keys walk the tokens that read.",
    captions: ["keys (are read)", "queries (read)"],
    onPick: (at) => here.look(at === null ? null : linked.rows[at]) });
  const note = h("p", { class: "attn-note" });
  return { el: figure.el, note, show({ queries, keys, size }, values, strands, chosen) {
    const options = { top: here.top, power: model.get("scale") === "linear" ? 1 : 1 / 3,
      columns: model.get("columns") };
    const { rows, columns, part } = linked = linkedTokens(values, size, chosen);
    const cut = (weights) => Float64Array.from(rows.flatMap((i) => columns.map((j) => weights[i * size[1] + j])));
    note.hidden = !part;
    if (!part) return figure.show({ above: keys, below: queries, weights: values, strands, chosen, ...options });
    note.textContent = `Links from ${rows.length} of the ${queries.length} tokens, to the ${columns.length} of `
      + `${keys.length} that the chosen one reads most. Press a token to choose it.`;
    return figure.show({ above: columns.map((j) => keys[j]), below: rows.map((i) => queries[i]), weights: cut(values),
      strands: strands.map(({ weights, colour }) => ({ weights: cut(weights), colour })),
      chosen: rows.indexOf(chosen), byPress: true, ...options });
  } };
}

// The map and the links of the heads on show, and what the chosen token reads. `failed()` is why a head did not come.
function tokenView(model, life, here, failed) {
  const { reader } = here, figure = linkView(model, life, here);
  const map = heatmap(life, { label: "Weights of the head. Arrow keys walk the cells.", tallest: 32,
    onPick: here.look, onHover: here.look });
  const sentence = h("p", { class: "attn-said", role: "status" });
  const rowOf = ({ rows }) => Math.max(0, rows.findLastIndex((t) => t <= model.get("token")));
  return { map, figure, sentence, draw() {
    const shows = reader.now(), all = here.shownHeads(), maps = all.map((n) => reader.head(shows, n));
    const waiting = maps.includes(null);
    for (const part of [map.el, figure.el]) part.classList.toggle("attn-stale", waiting);
    if (waiting) {
      sentence.textContent = failed() ? `This head cannot be read: ${failed()}.` : "The head is on its way \u2026";
      return;
    }
    const { queries, keys, size: [L, S], mask } = shows, chosen = rowOf(shows);
    const values = combined(maps, model.get("combine"));
    map.show({ values, L, S, mask, queries, keys, top: here.top, scale: model.get("scale"), mark: chosen });
    const strands = maps.map((weights, k) => ({ weights, colour: k ? here.hueOf(all[k]) : undefined }));
    figure.show(shows, values, strands, chosen);
    const reads = strongest(keys, values.subarray(chosen * S, (chosen + 1) * S));
    sentence.textContent = `${quoted(queries[chosen])} reads ${reads}.`;
  } };
}

// ---------------------------------------------------------------- ranking and pins

// How well the chosen head does what the ranking asks for, in words.
function judgement({ ranking, reader, sentences: { length: count } }, n) {
  const { pattern, scored, means } = ranking.now();
  if (!pattern) return "";
  if (!means) return ": none of the sentences has such a pair.";
  const own = ranking.score(reader.now().view, pattern), better = pattern === "focused" ? -1 : 1;
  const ahead = means.filter((x) => better * (x - means[n]) > 0).length; // ties share a rank
  const rank = `rank ${ahead + 1} of ${means.length}`;
  const across = `${scored < count ? `${scored} of ` : ""}${count} sentence${count > 1 ? "s" : ""}`;
  return `: score ${means[n].toFixed(2)} over ${across}, ${rank}; `
    + (own ? `${own[n].toFixed(2)} in this one.` : "this one has no such pair.");
}

// The best heads as buttons, and the scores of all as a table.
function rankingView(model, life, here) {
  const { reader, ranking, kinds } = here;
  const most = (n) => Math.max(...kinds.map(({ size }) => size[n]));
  const best = Array.from({ length: Math.min(BEST, most(0) * most(1)) }, (_, n) => button(life, "", () => {
    const [layer, head] = here.place(ranking.now().order[n]);
    put(model, { layer, head });
  }));
  const list = h("div", { class: "attn-buttons attn-controls attn-best", role: "group",
    "aria-label": "The best heads, layer.head: score" }, ...best);
  const about = h("p", { class: "attn-note" });
  const table = foldedTable(life, "The scores of all heads as a table", () => {
    const { layers, heads } = reader.now(), { means } = ranking.now();
    return { corner: "layer \u2193 head \u2192", columns: numbered(heads).map(([, text]) => text),
      rows: numbered(layers).map(([layer, text]) => [text, ...numbered(heads).map(([head]) =>
        (means ? shown(means[layer * heads + head]) : "\u2013"))]) };
  });
  return { list, about, table, draw() {
    const { means, order, pattern } = ranking.now(), [chosen] = here.shownHeads();
    best.forEach((el, k) => {
      el.hidden = k >= order.length;
      if (means && !el.hidden) el.textContent = `${here.name(order[k])}: ${means[order[k]].toFixed(2)}`;
      el.setAttribute("aria-pressed", String(Boolean(means) && order[k] === chosen));
    });
    const entropy = ["focused", "spread"].includes(pattern);
    about.textContent = means ? (entropy ? ENTROPY : SCORE)
      : "Choose a head among all of them, or let a pattern find it.";
    list.hidden = table.el.hidden = !means;
    table.fill();
  } };
}

// Heads laid over one another: the chosen one is pinned, or let go, and each pin is a button.
function pinControls(model, life, here) {
  const pin = button(life, "", () => here.togglePin(here.shownHeads()[0]));
  const pins = Array.from({ length: MOST_PINNED }, (_, k) => {
    const swatch = h("span", { class: "attn-swatch" }), name = h("span", {});
    const el = button(life, "", () => here.togglePin(model.get("pinned")[k]));
    el.append(swatch, name);
    return { el, swatch, name };
  });
  const combine = choice(model, life, "combine",
    { label: "The map shows their", choices: [["mean", "mean"], ["max", "maximum"]] });
  const el = h("div", { class: "attn-controls attn-overlay", role: "group",
    "aria-label": "Heads laid over one another" }, pin, ...pins.map((one) => one.el), combine);
  return { el, draw() {
    const all = here.shownHeads(), pinned = model.get("pinned"), isPinned = pinned.includes(all[0]);
    const full = !isPinned && pinned.length >= MOST_PINNED;
    pin.textContent = isPinned ? `Let go of head ${here.name(all[0])}` : `Pin head ${here.name(all[0])}`;
    pin.setAttribute("aria-disabled", String(full));
    pin.title = full ? `At most ${MOST_PINNED} heads can be pinned` : "";
    pins.forEach(({ el: press, swatch, name }, k) => {
      press.hidden = k >= pinned.length || pinned[k] === all[0] || !all.includes(pinned[k]);
      if (press.hidden) return;
      swatch.style.background = here.hueOf(pinned[k]);
      name.textContent = `${here.name(pinned[k])} \u00d7`;
      press.setAttribute("aria-label", `Let go of head ${here.name(pinned[k])}`);
    });
    combine.hidden = all.length < 2;
  } };
}

// ---------------------------------------------------------------- the widget

// The menus, and which of their options there are now.
function menusOf(model, life, here) {
  const { reader, ranking, kinds, sentences } = here, count = sentences.length;
  const most = (n) => Math.max(...kinds.map(({ size }) => size[n]));
  const texts = sentences.map(({ name }, n) => [n, visible(name, 60)]);
  if (here.live || model.get("reply").sentence) texts.push([count, "what you typed"]);
  const menus = {
    sentence: choice(model, life, "sentence", { label: "Sentence", choices: texts }),
    kind: choice(model, life, "kind",
      { label: "Attention", choices: kinds.map(({ name }, n) => [n, KINDS[name] || name]) }),
    layer: choice(model, life, "layer", { label: "Layer", choices: numbered(most(0)) }),
    head: choice(model, life, "head", { label: "Head", choices: numbered(most(1)) }),
    pattern: choice(model, life, "pattern", { label: "Heads that read", choices: RANKINGS }),
  };
  const options = (name) => [...menus[name].querySelector("select").options];
  return { ...menus, draw() {
    const { layers, heads, view } = reader.now();
    const own = options("sentence")[count];
    if (own) own.disabled = !model.get("reply").sentence;
    options("layer").forEach((option, at) => { option.disabled = at >= layers; });
    options("head").forEach((option, at) => { option.disabled = at >= heads; });
    options("pattern").forEach((option, at) => {
      const name = RANKINGS[at][0];
      option.disabled = Boolean(name && view.keys && !ranking.score(view, name)); // of two texts
    });
  } };
}

function controlsFor(model, life, { kinds, sentences, special, live }, menus) {
  /** @type {HTMLElement[]} */
  const controls = [menus.layer, menus.head, menus.pattern];
  if (sentences.length > 1 || model.get("typing") === "live" || model.get("reply").sentence) {
    controls.unshift(menus.sentence);
  }
  if (kinds.length > 1) controls.unshift(menus.kind);
  if (special.length) controls.push(tick(model, life, "hide_special", { label: "Hide special tokens" }));
  controls.push(choice(model, life, "scale", { label: "Colours", choices: SCALES }), sharedScale(model, life),
    tick(model, life, "columns", { label: "Tokens in columns" }));
  if (live) {
    controls.push(typingBox(model, life, { label: "Type your own", send: "Read", waiting: "The model reads \u2026",
      page: "Run the notebook to try a text of your own." }));
  }
  return controls;
}

/** @param {import("./controls.js").Mount} mount */
function renderOnce({ model, el }) {
  const life = lifetime(model);
  let failed = "", over = false;
  life.onEnd(() => { over = true; });
  const here = explorer(model, (error) => {
    failed = error || "";
    if (!over) draw();
  });
  const { reader, ranking } = here, grids = gridsOf(model, life, here);
  const tokens = tokenView(model, life, here, () => failed), scale = colourScale(life);
  const which = h("p", { class: "attn-said", role: "status" });
  const menus = menusOf(model, life, here), ranked = rankingView(model, life, here);
  const pins = pinControls(model, life, here);

  function draw() {
    const [n] = here.shownHeads(), [layer, head] = here.place(n);
    here.findTop();
    grids.forEach((grid, k) => { grid.el.hidden = k !== here.kind; });
    grids[here.kind].draw();
    scale.show(here.top, false, model.get("scale"));
    tokens.draw();
    const bits = ranking.score(reader.now().view, "spread")[n];
    which.textContent = `Layer ${layer}, head ${head}, entropy ${bits.toFixed(2)} bits${judgement(here, n)}`;
    for (const part of [menus, ranked, pins]) part.draw();
  }
  // A kind with fewer layers or heads: the nearest there are.
  life.watch(["kind"], () => {
    const [layer, head] = here.place(here.shownHeads()[0]);
    if (layer !== model.get("layer") || head !== model.get("head")) put(model, { layer, head });
  });
  frame(el, life, { title: here.title, controls: controlsFor(model, life, here, menus), body: [
    h("div", { class: "attn-heads" },
      h("div", {}, ...grids.map((grid) => grid.el), which, ranked.list, ranked.about, pins.el, scale.el),
      h("div", {}, tokens.map.el)),
    tokens.figure.el, tokens.figure.note, tokens.sentence, tokens.map.table, ranked.table.el] });
  life.watch(["token"], tokens.draw);
  life.watch(["sentence", "kind", "layer", "head", "pinned", "combine", "hide_special", "shared_scale", "scale",
    "columns", "pattern", "reply", "packed"], draw);
  draw();
  return life.end;
}

const render = renewed(renderOnce);
export default { render };
