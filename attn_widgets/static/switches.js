// Heads of a Transformer switched off, scaled, or given another output, in the page, and what comes of it.
// Traits: text, language, data {model, source, target, ... as in texts.js, means (of what the heads of each attention
// write, in the order of the forward pass, or null)}, other (a text), head ("cross.1.2": layer 1, head 2), edits
// ("cross.1.2:0,encoder.0.3:mean": by what each head is multiplied, or whose output it writes).

import { decode, minus, namedMask, visible } from "./numbers.js";
import {
  button, byFinger, choice, foldedTable, frame, h, KEEP_KEYS, lifetime, part, put, slider, unique,
  withModifier,
} from "./controls.js";
import { heatmap } from "./map.js";
import { foldedOnPhone } from "./folds.js";
import { headGrid } from "./grid.js";
import { tabsOnPhone } from "./tabs.js";
import { languageChoice, sourceReader, SPECIAL, textBox, together } from "./texts.js";
import { END, START, TransformerModel, translateTokens } from "./transformer_model.js";

const SWITCH = 24, TOUCHED = 44; // pixels that a switch is high, for a mouse and for a finger
const SLICE = 8; // milliseconds of a frame that the ranking may take
const MOST_SCALE = 2, HALF = 0.5;
const EDIT = /^((?:encoder|decoder|cross)\.[0-9]+\.[0-9]+):(mean|other|[0-9](?:\.[0-9]+)?)$/;
const KINDS = { encoder: ["Encoder\u2019s self-attention", "Encoder: source reads source"],
  decoder: ["Decoder\u2019s self-attention", "Decoder: output reads output"],
  cross: ["Cross-attention", "Cross: output reads source"] };
const kindAt = ({ kind }) => Object.keys(KINDS).indexOf(kind);

// ---------------------------------------------------------------- what is computed

// All heads in the order of the forward pass, each with the attention that it is part of.
function headsOf(network) {
  const found = [];
  const add = (kind, layer, attention) => {
    for (let head = 0; head < network.config.num_heads; head++) {
      found.push({ name: `${kind}.${layer}.${head}`, kind, layer, head, attention });
    }
  };
  Object.values(network.encoder.blocks).forEach((block, layer) => add("encoder", layer, block.self_attn));
  Object.values(network.decoder.blocks).forEach((block, layer) => {
    add("decoder", layer, block.self_attn);
    add("cross", layer, block.cross_attn);
  });
  return found;
}

// The edits as a Map: from a head to its factor, "mean" or "other".
function readEdits(text, heads, means) {
  const edits = new Map();
  for (const one of text.split(",").filter(Boolean)) {
    const [, name, to] = EDIT.exec(one) || [], head = heads.find((some) => some.name === name);
    const change = to === "mean" || to === "other" ? to : Number(to);
    if (!head || Number(change) > MOST_SCALE || (to === "mean" && !means)) {
      throw new RangeError(`no edit of a head: "${one}"`);
    }
    edits.set(head, change);
  }
  return edits;
}
const writeEdits = (edits, heads) => heads.filter((head) => edits.has(head) && edits.get(head) !== 1)
  .map((head) => `${head.name}:${edits.get(head)}`).join(",");

// For each attention the mean of what its heads write, joined.
function unpackMeans(packed, heads, E) {
  if (!packed) return null;
  const numbers = decode(packed), attentions = [...new Set(heads.map(({ attention }) => attention))];
  if (numbers.length !== attentions.length * E) throw new RangeError(`${numbers.length} numbers of means do not fit`);
  return new Map(attentions.map((attention, n) => [attention, numbers.subarray(n * E, (n + 1) * E)]));
}

// A Transformer some of whose heads are changed; it starts and steps as a TransformerModel does. The output of a head
// in another text is taken at the same position, after the same tokens of the translation; a position that the other
// text lacks keeps its own.
class Switched {
  /** @type {Map<any, any[][]>} of each attention its heads that are changed, and how */
  changes = new Map();
  constructor(network, edits, { means = null, other = null } = {}) {
    const reads = [...edits.values()].includes("other");
    this.network = network;
    this.means = means;
    this.other = reads ? other : null;
    for (const [{ attention, head }, change] of edits) {
      this.changes.set(attention, [...(this.changes.get(attention) || []), [head, change]]);
    }
  }
  start(source) {
    this.written = new Map();
    this.count = new Map();
    if (this.other) this.twin = this.during(this.note, () => this.network.start(this.other));
    return this.during(this.change, () => this.network.start(source));
  }
  step(token, state) {
    if (this.other) this.during(this.note, () => this.network.step(token, this.twin));
    return this.during(this.change, () => this.network.step(token, state));
  }
  during(edit, run) {
    this.network.edit = edit.bind(this);
    try { return run(); } finally { this.network.edit = null; }
  }
  note(heads, attention) {
    if (!this.written.has(attention)) this.written.set(attention, []);
    this.written.get(attention).push(heads.slice());
  }
  change(heads, attention) {
    const at = this.count.get(attention) || 0, D = heads.length / this.network.config.num_heads;
    this.count.set(attention, at + 1);
    for (const [head, change] of this.changes.get(attention) || []) {
      const from = change === "mean" ? this.means.get(attention)
        : change === "other" ? this.written.get(attention)[at] || heads : null;
      for (let d = head * D; d < (head + 1) * D; d++) heads[d] = from ? from[d] : change * heads[d];
    }
  }
}

// The base-2 logarithm of the probability of a token among those that can be said.
function bitsOf(logits, token) {
  const sayable = logits.subarray(END), top = Math.max(...sayable);
  return (logits[token] - top) / Math.LN2 - Math.log2(sayable.reduce((sum, x) => sum + Math.exp(x - top), 0));
}

// The log-probabilities of the tokens of a translation, each after those before it; a pause after each.
function* forced(model, source, tokens) {
  const state = model.start(source), bits = [];
  for (let n = 0; n < tokens.length; n++) {
    yield;
    bits.push(bitsOf(model.step(n ? tokens[n - 1] : START, state).logits, tokens[n]));
  }
  return bits;
}
const total = (numbers) => numbers.reduce((sum, x) => sum + x, 0);

// By how many bits the log-probability of a translation changes when each head alone is switched off.
function* ranking(network, heads, source, tokens) {
  const whole = total(yield* forced(network, source, tokens)), found = [];
  for (const head of heads) {
    found.push(total(yield* forced(new Switched(network, new Map([[head, 0]])), source, tokens)) - whole);
  }
  return found;
}

// Work that pauses: all of it at once, or a slice at a time, so that the page stays quick.
function finish(work) {
  let now;
  do now = work.next(); while (!now.done);
  return now.value;
}
function inSlices(life) {
  let timer = 0;
  life.onEnd(() => clearTimeout(timer));
  return (work, done) => {
    clearTimeout(timer);
    const go = () => {
      const begun = performance.now();
      let now;
      do now = work.next(); while (!now.done && performance.now() - begun < SLICE);
      if (now.done) done(now.value);
      else timer = setTimeout(go);
    };
    timer = setTimeout(go);
  };
}

// Which tokens of two lists belong to their longest common subsequence.
function common(a, b) {
  const most = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  const found = [new Set(), new Set()];
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    most[i][j] = a[i] === b[j] ? most[i + 1][j + 1] + 1 : Math.max(most[i + 1][j], most[i][j + 1]);
  }
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { found[0].add(i++); found[1].add(j++); }
    else if (most[i + 1][j] >= most[i][j + 1]) i++;
    else j++;
  }
  return found;
}

// Both translations, what the edits do to the first, and what the heads read in the second.
function switchboard(model) {
  const data = model.get("data"), network = new TransformerModel(data.model), reads = sourceReader(data);
  const heads = headsOf(network), means = unpackMeans(data.means, heads, data.model.config.embed_dim);
  const tokensOf = ({ steps }) => steps.map(({ token }) => token);
  const measured = ({ steps }) => steps.map(({ logits, token }) => bitsOf(logits, token));
  /** @type {any} with {source, ids}, tokens, plain, now, edits, bits and stays, which `begin` and `change` set */
  const board = { ...reads, heads, means, bits: null,
    // Another text or language: what the model says with all heads on, and how probable that is.
    begin() {
      Object.assign(board, reads.read(model.get("text"), model.get("language")));
      board.plain = translateTokens(network, board.ids, { most: data.most });
      board.tokens = tokensOf(board.plain);
      board.plain.bits = measured(board.plain);
    },
    // Other edits, or another text that they read.
    change() {
      const edits = readEdits(model.get("edits"), heads, means);
      const { ids: other } = reads.read(model.get("other"), model.get("language"));
      const switched = new Switched(network, edits, { means, other });
      const found = edits.size ? translateTokens(switched, board.ids, { most: data.most }) : board.plain;
      const tokens = tokensOf(found), stays = String(tokens) === String(board.tokens);
      const bits = stays ? measured(found) : finish(forced(switched, board.ids, board.tokens));
      Object.assign(board, { edits, now: { ...found, tokens }, bits, stays });
    },
    rank: () => ranking(network, heads, board.ids, board.tokens),
    get chosen() {
      const head = heads.find(({ name }) => name === model.get("head"));
      if (!head) throw new RangeError(`there is no head "${visible(model.get("head"))}"`);
      return head;
    },
    size: (kind) => [kind === "encoder" ? board.source.length : board.now.tokens.length,
      kind === "decoder" ? board.now.tokens.length : board.source.length],
    // What is read and who reads, and with which weights, in the translation as it now is.
    map(kind, layer, head) {
      const { now: { encoder, steps, tokens }, source } = board, words = tokens.map(board.name);
      const before = [SPECIAL[START], ...words.slice(0, -1)];
      const rows = kind === "encoder" ? encoder[layer].map((token) => token[head])
        : steps.map((step) => step[kind][layer][head]);
      const keys = kind === "decoder" ? before : source, [L, S] = board.size(kind);
      return { queries: kind === "encoder" ? source : words, keys, L, S, values: together(rows, S),
        mask: kind === "decoder" ? namedMask("causal", L, S) : null, top: 1 };
    },
  };
  return board;
}

// ---------------------------------------------------------------- what is shown

const short = ({ kind, layer, head }) => `${kind} ${layer}.${head}`;
const long = ({ kind, layer, head }) => `${KINDS[kind][0]}, layer ${layer}, head ${head}`;
const signed = (x) => `${x < -0.005 ? "\u2212" : x > 0.005 ? "+" : ""}${Math.abs(x).toFixed(2)}`;

// All heads of one kind, each with a switch. To choose one is to walk to it or to press it.
function kindGrid(life, board, kind, { choose, toggle, nameOf }) {
  const own = board.heads.filter((head) => head.kind === kind), layers = Math.max(...own.map(({ layer }) => layer)) + 1;
  const at = (layer, head) => own.find((one) => one.layer === layer && one.head === head);
  let moved = {};
  /** @type {any} what stands for the traits layer and head */
  const chosen = { get: (trait) => (trait === "layer" ? Math.min(board.chosen.layer, layers - 1) : board.chosen.head),
    set(trait, value) { moved[trait] = value; },
    save_changes() { choose(at(moved.layer, moved.head)); moved = {}; } };
  function paintFoot(context, colours, layer, head, [x, y, width, height]) {
    const change = board.edits.get(at(layer, head)) ?? 1, isOn = change === 1;
    const thick = height > SWITCH ? 20 : 14, top = y + (height - thick) / 2;
    const length = Math.min(width - 6, 2 * thick + 2), left = x + (width - length) / 2;
    context.lineWidth = 1.5; context.strokeStyle = isOn ? colours.accent : colours.muted;
    context.fillStyle = isOn ? colours.accent : colours.paper;
    if (change === 1 || change === 0) {
      context.beginPath(); context.roundRect(left, top, length, thick, thick / 2); context.fill(); context.stroke();
      context.beginPath();
      context.arc(isOn ? left + length - thick / 2 : left + thick / 2, top + thick / 2, thick / 2 - 2.5, 0, 7);
      context.fillStyle = isOn ? colours.paper : colours.muted; context.fill();
      return;
    }
    context.strokeRect(x + 3, top, width - 6, thick);
    context.fillStyle = colours.ink; context.font = `600 11px ${colours.font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    context.fillText(nameOf(change), x + width / 2, top + thick / 2 + 0.5, width - 10);
  }
  const [, title] = KINDS[kind], strength = (layer, head) => {
    const change = board.edits.get(at(layer, head)) ?? 1;
    return typeof change === "number" ? Math.min(1, change) : HALF;
  };
  const grid = headGrid(life, chosen, { layers, heads: own.length / layers, side: 72, square: true,
    foot: byFinger() ? TOUCHED : SWITCH, paintFoot,
    size: () => board.size(kind), map: (layer, head) => board.map(kind, layer, head),
    marks: () => ({ strength, best: [] }), outlined: () => board.chosen.kind === kind,
    pinning: "switches it", onPin: (layer, head) => toggle(at(layer, head)) });
  return { el: h("div", {}, h("p", { class: "attn-heading" }, title), grid.el), draw: grid.draw };
}

// The heads by what each alone does, as a list of one stop: the arrow keys walk it, and choose.
function rankedList(life, board, { choose, toggle }) {
  let order = board.heads, effects = null, waits = true;
  const rows = board.heads.map(() => {
    const word = h("span"), bar = h("span", { class: "attn-filled" }), share = h("span", { class: "attn-share" });
    const el = h("div", { class: "attn-ranked", role: "option", id: unique("option") }, word,
      h("span", { class: "attn-bar" }, bar), share);
    return { el, word, bar, share };
  });
  const list = h("div", { class: "attn-ranking", role: "listbox", tabindex: 0, "aria-label":
    "Heads by what switching each off alone does to the log-probability, in bits", ...KEEP_KEYS },
  ...rows.map(({ el }) => el));
  rows.forEach(({ el }, n) => life.listen(el, "click", () => choose(order[n])));
  life.listen(list, "keydown", (event) => {
    const n = order.indexOf(board.chosen), last = order.length - 1;
    const to = { ArrowUp: n - 1, ArrowDown: n + 1, Home: 0, End: last }[event.key];
    if (withModifier(event) || (to === undefined && event.key !== " ")) return;
    event.preventDefault();
    if (event.key === " ") toggle(order[n]);
    else choose(order[Math.max(0, Math.min(last, to))]);
  });
  function draw() {
    const most = effects && Math.max(...effects.values(), -Math.min(...effects.values()), 1e-9);
    rows.forEach(({ el, word, bar, share }, n) => {
      const head = order[n], effect = effects ? effects.get(head) : 0;
      word.textContent = short(head);
      bar.style.width = effects ? `${(100 * Math.abs(effect)) / most}%` : "0";
      bar.classList.toggle("attn-gain", effect > 0);
      share.textContent = effects ? signed(effect) : "\u2026";
      el.setAttribute("aria-selected", String(head === board.chosen));
    });
    const { el } = rows[order.indexOf(board.chosen)];
    list.setAttribute("aria-activedescendant", el.id);
  }
  return { el: list, draw,
    get effects() { return waits ? null : effects; },
    rank: (head) => order.indexOf(head) + 1,
    wait() { waits = true; list.classList.add("attn-stale"); },
    show(found) {
      effects = new Map(board.heads.map((head, n) => [head, found[n]]));
      order = [...board.heads].sort((a, b) => effects.get(a) - effects.get(b));
      waits = false;
      list.classList.remove("attn-stale");
      draw();
    } };
}

// A translation token by token, each with its numbers; what the other translation lacks is marked.
function tokenRow(label) {
  const words = h("span", { class: "attn-tokens" });
  return { el: h("p", { class: "attn-translated" }, h("span", { class: "attn-heading" }, label), words),
    show(names, kept, mark, numbers) {
      words.replaceChildren(...names.map((name, n) => {
        const word = h("bdi", {}, visible(name, 16));
        return h("span", { class: "attn-token" }, kept.has(n) ? word : h(mark, {}, word), h("span", {}, numbers[n]));
      }));
    } };
}

// ---------------------------------------------------------------- the chosen head

// How a change of a head is called.
function changeName(model, change) {
  if (change === "other") return visible(model.get("other"), 12);
  return change === 0 ? "off" : typeof change === "number" ? `\u00d7${change}` : change;
}

// What is done with the output of the chosen head.
function outputControls(model, life, board, edit) {
  const current = () => board.edits.get(board.chosen) ?? 1, traits = ["edits", "head"];
  const choices = [["on", "on"], ["off", "off"], ["scaled", "scaled"], ...(board.means ? [["mean", "its mean"]] : []),
    ["other", "another text’s"]];
  const output = part(model, traits, () => {
    const change = current();
    return change === 1 ? "on" : change === 0 ? "off" : typeof change === "number" ? "scaled" : change;
  }, (name) => edit(board.chosen, { on: 1, off: 0, scaled: HALF }[name] ?? name));
  const scale = part(model, traits, () => (typeof current() === "number" ? current() : 1),
    (factor) => edit(board.chosen, factor));
  const els = [choice(output, life, "way", { label: "Output", choices }),
    slider(scale, life, "scale", { label: "times", min: 0, max: MOST_SCALE, step: 0.05, format: (x) => x.toFixed(2) })];
  const factor = els[1].querySelector("input");
  return { els, draw() { factor.disabled = typeof current() !== "number"; } };
}

// The controls of the chosen head; those of the other text only while a head reads it.
function headPanel(model, life, board, output) {
  const other = textBox(model, life, board, { trait: "other", label: "Other text", examples: [],
    begin: (values) => put(model, values) });
  const again = button(life, "All on again", () => { if (model.get("edits")) put(model, { edits: "" }); });
  const name = h("p", { class: "attn-heading" }), about = h("p", { class: "attn-said", role: "status" });
  const rule = h("p", { class: "attn-note" },
    "Patched heads read it at the same position, after the same words. Positions that it lacks stay as they are.");
  const controls = h("div", { class: "attn-controls" }, ...output.els, ...other.controls, again);
  return { about, el: h("div", {}, name, about, controls, rule, other.trouble), draw() {
    name.textContent = long(board.chosen);
    output.draw();
    const reads = [...board.edits.values()].includes("other");
    for (const one of [...other.controls, rule]) one.hidden = !reads;
    other.trouble.hidden ||= !reads;
    again.setAttribute("aria-disabled", String(!board.edits.size)); // and not disabled: it would lose the focus
    other.draw();
  } };
}

// ---------------------------------------------------------------- what the edits do, in words and numbers

function effectWords(model, { plain, bits, tokens, edits, heads, stays }) {
  const from = total(plain.bits), to = total(bits), many = edits.size;
  if (!many) return `All heads are on. Log-probability of the translation: ${signed(from)} bits.`;
  const which = many > 3 ? `${many} of ${heads.length} heads changed`
    : [...edits].map(([head, change]) => `${short(head)}: ${changeName(model, change)}`).join(", ");
  const found = `${signed(from)} \u2192 ${signed(to)} bits, a change of ${signed(to - from)}`;
  return `${which}. ${stays ? "The translation stays. " : ""}Log-probability of the first translation: `
    + `${found}, ${signed((to - from) / tokens.length)} a token.`;
}

function headWords({ chosen, heads }, { effects, rank }) {
  if (!effects) return "\u2026";
  return `Switched off alone: ${signed(effects.get(chosen))} bits, ${rank(chosen)} of ${heads.length}.`;
}

// Both translations, one below the other, and the first as a table.
function translationRows(life, board) {
  const first = tokenRow("All on"), second = tokenRow("Switched");
  const table = foldedTable(life, "The first translation as a table", () => ({
    corner: "token", columns: ["probability, all on", "switched", "bits, all on", "switched"],
    rows: board.tokens.map((token, n) => {
      const [a, b] = [board.plain.bits[n], board.bits[n]];
      return [visible(board.name(token)), ...[2 ** a, 2 ** b, a, b].map((x) => minus(x.toFixed(4)))];
    }) }));
  return { els: [first.el, second.el], table, draw() {
    const { plain, now, bits, tokens, edits } = board, names = (ids) => ids.map(board.name);
    const [mine, theirs] = common(tokens, now.tokens), p = (x) => (2 ** x).toFixed(2);
    first.show(names(tokens), mine, "del", plain.bits.map((x, n) =>
      (edits.size ? `${p(x)} \u2192 ${p(bits[n])}` : p(x))));
    second.show(names(now.tokens), theirs, "ins", now.steps.map(({ probabilities, token }) =>
      probabilities[token].toFixed(2)));
  } };
}

// ---------------------------------------------------------------- the widget

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), board = switchboard(model), { data, heads } = board;
  const begin = () => { board.begin(); board.change(); };
  begin();
  life.watch(["text", "language"], begin); // before the controls hear of it, which read the board
  life.watch(["other", "edits"], board.change);
  const deeds = {
    choose(head) { if (head.name !== model.get("head")) put(model, { head: head.name }); },
    toggle: (head) => edit(head, (board.edits.get(head) ?? 1) === 1 ? 0 : 1),
    nameOf: (change) => changeName(model, change),
  };
  function edit(head, change) {
    put(model, { edits: writeEdits(new Map(board.edits).set(head, change), heads), head: head.name });
  }
  const grids = Object.keys(KINDS).map((kind) => kindGrid(life, board, kind, deeds));
  const list = rankedList(life, board, deeds), rows = translationRows(life, board);
  const sentence = h("p", { class: "attn-said", role: "status" });
  const map = heatmap(life, { label: "Weights of the chosen head. Arrow keys walk the cells.", tallest: 22,
    tableLabel: "The chosen head as a table" });
  const type = (values) => put(model, values);
  const output = outputControls(model, life, board, edit);
  const box = textBox(model, life, board, { examples: data.examples, begin: type });
  const panel = headPanel(model, life, board, output);
  function draw() {
    rows.draw();
    sentence.textContent = effectWords(model, board);
    panel.about.textContent = headWords(board, list);
    map.show(board.map(board.chosen.kind, board.chosen.layer, board.chosen.head));
    for (const one of [panel, ...grids, list, box]) one.draw();
    rows.table.fill();
  }
  const maps = tabsOnPhone(life, "Attention", Object.fromEntries(grids.map(({ el: grid }, n) =>
    [Object.keys(KINDS)[n].replace(/^./, (first) => first.toUpperCase()), grid])), kindAt(board.chosen));
  life.watch(["head"], () => maps.querySelectorAll("button")[kindAt(board.chosen)].click()); // its map is in view
  const slice = inSlices(life);
  function rank() {
    list.wait();
    slice(board.rank(), (found) => { list.show(found); panel.about.textContent = headWords(board, list); });
  }
  frame(el, life, { // all in one stage: on a phone both translations stay in view down to the last switch
    picture: [...rows.els, sentence],
    more: [foldedOnPhone(model, life, "Another text or language", ["text", "language"], h("div",
      { class: "attn-controls" }, ...box.controls, ...languageChoice(model, life, data, type), ...box.examples)),
      box.trouble, h("div", { class: "attn-columns" }, maps),
      h("div", { class: "attn-switches" }, map.el, panel.el,
        h("div", {}, h("p", { class: "attn-heading" }, "Each head switched off alone: change in bits"), list.el)),
      h("div", { class: "attn-tables attn-panels" }, map.table, rows.table.el)] });
  life.watch(["text", "language"], rank);
  life.watch(["text", "language", "other", "edits", "head"], draw);
  draw();
  rank();
  return life.end;
}

export default { render };
