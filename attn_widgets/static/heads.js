// All heads of a model: choose one, walk the tokens, find heads by what they read. Traits: data
// {sentences: [{views, name, next?, image?}], special, title, beside?}, where a view is one kind of attention
// (views.py); packed, the heads that are sent by themselves; sentence, kind, layer, head, pinned, combine, token,
// hide_special, shared_scale, scale, columns, pattern; typing, text, reply.

import { largest, PALETTE, quoted, shown, visible } from "./numbers.js";
import { button, choice, foldedTable, frame, h, lifetime, numbered, put, renewed, tick } from "./controls.js";
import { colourScale, SCALES, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";
import { folded } from "./folds.js";
import { headGrid } from "./grid.js";
import { besideView } from "./heads_beside.js";
import { neuronView } from "./heads_neurons.js";
import { combined, headRanking, viewReader } from "./heads_reader.js";
import { links } from "./links.js";
import { patchView } from "./patches.js";
import { tabs } from "./tabs.js";
import { typingBox } from "./typing.js";

/** @typedef {import("./controls.js").Model} Model */

const RANKINGS = [["", "anything"], ["previous", "the previous token"], ["next", "the next token"],
  ["same", "the same token elsewhere"], ["itself", "the token itself"], ["first", "the first token"],
  ["separator", "a separator, such as [SEP]"], ["focused", "few tokens (low entropy)"],
  ["spread", "many tokens (high entropy)"]];
const STORIES = [["previous", "previous word", "the patch before"], ["same", "same word", ""],
  ["first", "first token", "the class token"]];
const KINDS = { "": "weights", encoder: "encoder: source reads source", decoder: "decoder: target reads target",
  cross: "cross: target reads source" };
const SHOWN = { values: "weighted by values", rollout: "rollout" };
const MEANS = {
  values: "Each weight times the length of the value that it reads, as a share of the row: a token read strongly whose "
    + "value is short adds little.",
  rollout: "The mean of all heads, and half of each token itself, multiplied through the layers up to this one: how "
    + "much of a token comes from each input, if values changed nothing." };
const HUES = [...PALETTE.categorical.slice(3), "#8a6d5c", "#7d8794"]; // of pinned heads
const BEST = 5, MOST_PINNED = HUES.length;
const FAINT = 0.1; // FAINT: a head that reaches no such weight has a scale of its own
const MOST_LINKED = 100, EXCERPT = 41; // tokens between which links are drawn; of a longer text
const SCORE = "Score: the weight that a token gives there. A mean over the tokens that have such a place "
  + "(special ones left out), then over the sentences. What is hidden changes no score.";
const ENTROPY = "Score: the entropy of what a token reads, in bits. A mean over the tokens (special ones left "
  + "out), then over the sentences. What is hidden changes no score.";

// The tokens between which links are drawn: all, or of a long text those around the chosen one and those
// that it reads most.
function linkedTokens(values, [L, S], chosen) {
  if (Math.max(L, S) <= MOST_LINKED) return { rows: [...Array(L).keys()], columns: [...Array(S).keys()] };
  const count = Math.min(L, EXCERPT), start = Math.max(0, Math.min(L - count, chosen - (count >> 1)));
  const most = [...Array(S).keys()].sort((a, b) => values[chosen * S + b] - values[chosen * S + a]);
  return { rows: Array.from({ length: count }, (_, n) => start + n),
    columns: most.slice(0, EXCERPT).sort((a, b) => a - b), part: true };
}

// What a view is called: its kind of attention, and what of it is shown.
function kindName(name) {
  const parts = name.split(" "), what = parts.at(-1) in SHOWN ? parts.pop() : "", kind = parts.join(" ");
  return [kind || !what ? KINDS[kind] || kind : "", SHOWN[what]].filter(Boolean).join(", ");
}

// A weight with two digits that count.
const weighed = (w) => (w === 0 || w >= 0.095 ? w.toFixed(2) : w < 1e-4 ? "below 0.0001" : String(+w.toPrecision(2)));

// What a token reads, in words: the strongest first, three at most, and none that is weak beside it.
function strongest(tokens, weights) {
  const most = Array.from(weights, (w, j) => /** @type {[number, number]} */ ([w, j])).sort((a, b) => b[0] - a[0]);
  return most.slice(0, 3).filter(([w], n) => n === 0 || (w > 0 && w >= Math.min(0.095, most[0][0] / 2)))
    .map(([w, j]) => `${quoted(tokens[j])} ${weighed(w)}`).join(", then ");
}

// The row of a map as a sentence.
function readingOf({ queries, keys, size: [, S] }, values, row) {
  return `${quoted(queries[row])} reads ${strongest(keys, values.subarray(row * S, (row + 1) * S))}.`;
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
  const { sentences, title, special, beside: names } = reader.data();
  const pinned = () => model.get("pinned");
  const here = { reader, ranking, sentences, title, special, names, kinds: sentences[0].views,
    live: model.get("typing") !== "off", top: 1, // where the colours end
    get kind() { return Math.min(model.get("kind"), here.kinds.length - 1); },
    // The chosen head first, then those pinned.
    shownHeads() {
      const { layers, heads } = reader.now();
      const chosen = Math.min(model.get("layer"), layers - 1) * heads + Math.min(model.get("head"), heads - 1);
      return [chosen, ...pinned().filter((n) => n !== chosen && n < layers * heads)];
    },
    name: (n) => here.place(n).join("."),
    // The maps of these heads laid over one another, or null while one is on its way.
    combinedOf(shows, all) {
      const maps = all.map((n) => reader.head(shows, n));
      return maps.includes(null) ? null : combined(maps, model.get("combine"));
    },
    /** @returns {[layer: number, head: number]} */
    place: (n) => [(n / reader.now().heads) | 0, n % reader.now().heads],
    // The hue of each pinned head, none of which means query, key or value; the chosen one has the accent's.
    hueOf: (n) => HUES[pinned().indexOf(n)],
    togglePin(n) {
      if (pinned().includes(n)) put(model, { pinned: pinned().filter((other) => other !== n) });
      else if (pinned().length < MOST_PINNED) put(model, { pinned: [...pinned(), n] });
    },
    look(shownRow) { // at a token that reads
      const { rows } = reader.now();
      if (shownRow === null || shownRow < 0 || rows[shownRow] === model.get("token")) return;
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
  return kinds.map(({ size: [layers, heads], kv_heads: groups }, kind) => headGrid(life, model, { layers, heads, marks,
    groups,
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

// The picture whose patches are read; each row has a scale of its own.
function pictureView(life, here) {
  const { image } = here.sentences[0], names = here.kinds[0].queries.slice(0, image.first);
  const figure = patchView(life, { onPick: (token) => here.look(here.reader.now().rows.indexOf(token)) });
  return { el: figure.el, note: "", show({ rows, columns, size }, values, _, chosen) {
    const row = values.subarray(chosen * size[1], (chosen + 1) * size[1]), at = new Map(columns.map((t, j) => [t, j]));
    const patches = row.filter((_, j) => columns[j] >= image.first);
    const top = Math.max(largest(patches), 1e-9);
    figure.show({ image, chosen: rows[chosen], top, names: rows.includes(0) ? names : [],
      weight: (token) => (at.has(token) ? row[at.get(token)] : null) });
  } };
}

// What a model that writes expects after the chosen token: words filled as high as they are likely.
function nextTokens() {
  const heading = h("p", { class: "attn-heading" }), words = h("div", { class: "attn-words" });
  const el = h("div", { class: "attn-row attn-following", hidden: true }, heading, words);
  return { el, draw({ sentence: { next }, view, queries, rows }, chosen) {
    el.hidden = !next || view.name.startsWith("encoder");
    if (el.hidden) return;
    heading.textContent = `After ${quoted(queries[chosen])} the model expects`;
    words.replaceChildren(...next[rows[chosen]].map(([token, share]) => {
      const word = h("span", { class: "attn-word" }, h("bdi", {}, visible(token, 14)),
        h("span", { class: "attn-share" }, share.toFixed(2)));
      word.style.setProperty("--attn-weight", String(share));
      return word;
    }));
  } };
}

// The map and the links of the heads on show, and what the chosen token reads. `failed()` is why a head did not come.
function tokenView(model, life, here, failed) {
  const { reader } = here, figure = here.sentences[0].image ? pictureView(life, here) : linkView(model, life, here);
  const map = heatmap(life, { label: "Weights of the head. Arrow keys walk the cells.", tallest: 32,
    onPick: here.look, onHover: here.look });
  const said = () => h("p", { class: "attn-said attn-reads", role: "status" });
  const sentence = said(), scaled = h("p", { class: "attn-note" });
  const following = nextTokens();
  const beside = here.names && besideView(model, life, here, here.names, readingOf);
  const neurons = !beside && here.kinds.some((kind) => kind.neurons) && neuronView(life);
  const rowOf = ({ rows }) => Math.max(0, rows.findLastIndex((t) => t <= model.get("token")));
  return { map, figure, sentence, scaled, following, beside, neurons, draw() {
    const shows = reader.now(), all = here.shownHeads(), maps = all.map((n) => reader.head(shows, n));
    const waiting = maps.includes(null);
    for (const part of [map.el, figure.el]) part.classList.toggle("attn-stale", waiting);
    if (waiting) {
      sentence.textContent = failed() ? `This head cannot be read: ${failed()}.` : "The head is on its way \u2026";
      return;
    }
    const { queries, keys, size: [L, S] } = shows, mask = shows.mask(all), chosen = rowOf(shows);
    const values = combined(maps, model.get("combine")), most = largest(values);
    const isFaint = here.top === 1 && model.get("scale") !== "row" && most < FAINT;
    const top = isFaint ? most || 1 : here.top;
    scaled.hidden = !isFaint;
    scaled.textContent = `No weight of this head reaches ${FAINT}: the colours of this map end at its largest, `
      + `${weighed(most)}.`;
    map.show({ values, L, S, mask, queries, keys, top, scale: model.get("scale"), mark: chosen });
    if (beside) beside.draw(values, chosen, top);
    if (neurons) neurons.draw(shows, ...here.place(all[0]), maps[0], chosen);
    following.draw(shows, chosen);
    const strands = maps.map((weights, k) => ({ weights, colour: k ? here.hueOf(all[k]) : undefined }));
    figure.show(shows, values, strands, chosen);
    sentence.textContent = readingOf(shows, values, chosen);
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
  const later = h("p", { class: "attn-note" }, "Here the five best heads will be listed.");
  const place = h("div", { class: "attn-listed" }, list, later);
  const about = h("p", { class: "attn-note" });
  const table = foldedTable(life, "The scores of all heads as a table", () => {
    const { layers, heads } = reader.now(), { means } = ranking.now();
    return { note: means ? "" : "So far nothing ranks the heads.",
      corner: "layer \u2193 head \u2192", columns: numbered(heads).map(([, text]) => text),
      rows: numbered(layers).map(([layer, text]) => [text, ...numbered(heads).map(([head]) =>
        (means ? shown(means[layer * heads + head]) : "\u2013"))]) };
  });
  return { place, about, table, draw() {
    const { means, order, pattern } = ranking.now(), [chosen] = here.shownHeads();
    best.forEach((el, k) => {
      el.hidden = k >= order.length;
      if (means && !el.hidden) el.textContent = `${here.name(order[k])}: ${means[order[k]].toFixed(2)}`;
      el.setAttribute("aria-pressed", String(Boolean(means) && order[k] === chosen));
    });
    const entropy = ["focused", "spread"].includes(pattern);
    about.textContent = entropy ? ENTROPY : SCORE;
    about.hidden = list.hidden = !means;
    later.hidden = Boolean(means) || !isTold(here);
    place.hidden = table.el.hidden = !means && later.hidden;
    table.fill();
  } };
}

// The things that the heads on show may do, as [pattern, word].
function storiesOf({ sentences: [{ image }] }) {
  const all = STORIES.map(([name, word, patch]) => [name, image ? patch : word]);
  return all.filter(([name, word]) => word && (name !== "first" || !image || image.first));
}
const isTold = (here) => storiesOf(here).some(([pattern]) => here.ranking.score(here.reader.now().view, pattern));

// Three things that heads do, as buttons: each leads to the head that does it most.
function storyButtons(model, life, here) {
  const { reader, ranking, place, shownHeads } = here;
  const stories = storiesOf(here).map(([pattern, word]) => {
    const el = button(life, word, () => {
      put(model, { pattern });
      const [layer, head] = place(ranking.now().order[0]);
      put(model, { layer, head });
    });
    return { pattern, el };
  });
  const label = "Show the head that reads most";
  const named = { class: "attn-controls attn-buttons attn-stories", role: "group", "aria-label": label };
  const el = h("div", named, h("span", {}, `${label}:`), ...stories.map((one) => one.el));
  return { el, draw() {
    const { order } = ranking.now(), [chosen] = shownHeads();
    for (const { pattern, el: press } of stories) {
      press.hidden = !ranking.score(reader.now().view, pattern);
      press.setAttribute("aria-pressed", String(pattern === model.get("pattern") && order[0] === chosen));
    }
    el.hidden = !isTold(here);
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
      { label: "Attention", choices: kinds.map(({ name }, n) => [n, kindName(name)]) }),
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

// The controls at first sight, and those that are folded away.
function controlsFor(model, life, here, menus, stories, ranked) {
  const { kinds, sentences, special, live, names } = here, first = [stories.el, ranked.place];
  if (!names && (sentences.length > 1 || model.get("typing") === "live" || model.get("reply").sentence)) {
    first.unshift(menus.sentence);
  }
  if (kinds.length > 1) first.unshift(menus.kind);
  const box = live && typingBox(model, life, { label: "Type your own", send: "Read",
    waiting: "The model reads \u2026", page: "Run the notebook to try a text of your own." });
  const answers = model.get("typing") === "live";
  if (box && answers) first.push(box);
  const rest = [menus.layer, menus.head, menus.pattern];
  if (special.length) rest.push(tick(model, life, "hide_special", { label: "Hide special tokens" }));
  rest.push(choice(model, life, "scale", { label: "Colours", choices: SCALES }), sharedScale(model, life));
  if (!sentences[0].image) rest.push(tick(model, life, "columns", { label: "Tokens in columns" }));
  const opens = ["hide_special", "scale", "shared_scale", "columns"];
  return { first, more: folded(model, life, "Choose a head by number, rank heads, colours", { opens },
    h("div", { class: "attn-controls" }, ...rest), ...(box && !answers ? [box] : [])) };
}

// Which heads share their keys and values with the chosen one, in words.
function sharing({ kv_heads: groups, size: [, heads] }, head) {
  if (!groups) return "";
  const each = heads / groups, from = head - (head % each);
  if (each === heads) return " All heads of a layer share their keys and values.";
  return ` Heads ${from} ${each > 2 ? "to" : "and"} ${from + each - 1} share their keys and values.`;
}

// The pictures of the heads on show, between what chooses a head and the other controls: side by side on a wide page,
// and one at a time under tabs on a phone, where they fit one screen with the overview.
function picturesOf(model, life, here, { map, scaled, figure, sentence, beside, neurons }, scale) {
  const whole = [map.el, scaled], panel = (name, ...children) => h("div", { class: name }, ...children);
  if (here.sentences[0].image) {
    return { pictures: [panel("attn-first", figure.el, sentence, scale)],
      below: [folded(model, life, "All patches as a map", {}, ...whole)] };
  }
  const linked = [figure.el, figure.note], name = "What is shown of the head";
  const readout = map.el.querySelector(".attn-readout");
  if (beside) {
    readout.before(sentence); // under its own map, as that of the second is
    const either = tabs(life, name, { [beside.names[0]]: panel("attn-first", beside.first, ...whole),
      [beside.names[1]]: panel("attn-second", ...beside.second),
      [beside.fits() ? "difference, links" : "links"]: panel("attn-last", beside.apart, ...linked) });
    either.classList.add("attn-either");
    return { pictures: [either], below: [] };
  }
  const views = { map: panel("attn-first", map.el), links: panel("attn-last", ...linked) };
  const either = tabs(life, name, neurons ? { ...views, features: neurons.el } : views, neurons ? 2 : 0);
  either.classList.add("attn-either");
  if (neurons) either.classList.add("attn-featured"); // links or features below the map on a wide page, too
  // What the row says, then what the cell says: right under the map, and the row on a phone under the links as well.
  return { pictures: [either, panel("attn-answer", panel("attn-lines", sentence, scaled, readout), scale)], below: [] };
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
  const which = h("p", { class: "attn-said attn-which", role: "status" });
  const menus = menusOf(model, life, here), ranked = rankingView(model, life, here);
  const pins = pinControls(model, life, here), stories = storyButtons(model, life, here);
  const about = h("p", { class: "attn-note" });

  function draw() {
    const [n] = here.shownHeads(), [layer, head] = here.place(n);
    here.findTop();
    grids.forEach((grid, k) => { grid.el.hidden = k !== here.kind; });
    grids[here.kind].draw();
    const { view, mask } = reader.now(), bits = ranking.score(view, "spread")[n], shared = sharing(view, head);
    scale.show(here.top, false, model.get("scale"), Boolean(mask([n])));
    tokens.draw();
    const judged = judgement(here, n) || (shared && ".");
    which.textContent = `Layer ${layer}, head ${head}, entropy ${bits.toFixed(2)} bits${judged}${shared}`;
    which.classList.toggle("attn-judged", isTold(here));
    which.classList.toggle("attn-shared", Boolean(shared));
    about.textContent = MEANS[view.name.split(" ").at(-1)] || "";
    about.hidden = !about.textContent;
    for (const part of [menus, ranked, pins, stories]) part.draw();
  }
  // A kind with fewer layers or heads: the nearest there are.
  life.watch(["kind"], () => {
    const [layer, head] = here.place(here.shownHeads()[0]);
    if (layer !== model.get("layer") || head !== model.get("head")) put(model, { layer, head });
  });
  const { first, more } = controlsFor(model, life, here, menus, stories, ranked), { beside, neurons } = tokens;
  if (beside) first.push(beside.press);
  more.append(ranked.about);
  const top = h("div", {}, ...grids.map((grid) => grid.el), which, about);
  const rest = h("div", { class: "attn-rest" }, tokens.following.el, h("div", { class: "attn-controls" }, ...first),
    more, pins.el, ...(beside ? [scale.el] : []));
  const { pictures, below } = picturesOf(model, life, here, tokens, scale.el);
  const tables = [...(neurons ? [neurons.table] : []), tokens.map.table, ...(beside ? beside.tables : []),
    ranked.table.el];
  const apart = beside ? ` attn-pair${beside.fits() ? " attn-three" : ""}` : "";
  frame(el, life, { title: here.title, body: [h("div", { class: `attn-heads${apart}` }, top, ...pictures, rest),
    ...below, h("div", { class: "attn-folds" }, ...tables)] });
  life.watch(["token"], tokens.draw);
  life.watch(["sentence", "kind", "layer", "head", "pinned", "combine", "hide_special", "shared_scale", "scale",
    "columns", "pattern", "reply", "packed"], draw);
  draw();
  return life.end;
}

const render = renewed(renderOnce);
export default { render };
