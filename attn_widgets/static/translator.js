// A Transformer at work: a text is typed, and transformer_model.js translates it here, token by token.
// Traits: data {model, source, target, languages, compound, examples, domain, compact, most, most_source},
// text, language, temperature (0: always the likeliest), seed, prefix (ids that the reader put there), step
// (from the number of steps on: the last word), attention ("cross", "decoder" or "encoder"), layer, head.

import { joined, minus, namedMask, quoted, visible } from "./numbers.js";
import {
  button, choice, foldedTable, frame, h, lifetime, mayMove, numbered, put, slider,
} from "./controls.js";
import { colourScale } from "./weights.js";
import { heatmap } from "./map.js";
import { folded, foldedOnPhone } from "./folds.js";
import { headGrid } from "./grid.js";
import { links, strongest } from "./links.js";
import { likeliest, optionList } from "./options.js";
import { stepper } from "./steps.js";
import { tabs } from "./tabs.js";
import { languageChoice, sourceReader, SPECIAL, textBox, together } from "./texts.js";
import { END, START, TransformerModel, translateTokens } from "./transformer_model.js";

const UNSAID = "\u00b7";
const OPTIONS = 5, HOTTEST = 3, SEEDS = 100, PACE = 650; // milliseconds a step

// Tokens as one writes them: a hyphen joins, and so does a language whose words are written as one.
function written(tokens, compound) {
  const joins = (a, b) => b.startsWith("-") || (compound && [a, b].every((token) => token === token.toLowerCase()));
  return joined(tokens, joins);
}

// The translation that the traits ask for, where in it one is, and what its heads read.
function translator(model) {
  const data = model.get("data"), network = new TransformerModel(data.model), heads = data.model.config.num_heads;
  const reads = sourceReader(data), { name } = reads;
  const depth = (part) => Object.keys(network[part === "encoder" ? part : "decoder"].blocks).length;
  /** @type {any} with source, encoder and steps, as translateTokens gives them, and the words of both */
  const here = { ...reads, heads, depth,
    // The whole translation, made anew where something that it hangs on has changed.
    renew() {
      const { source, ids } = reads.read(model.get("text"), model.get("language"));
      const options = { temperature: model.get("temperature"), seed: model.get("seed"), prefix: model.get("prefix") };
      Object.assign(here, translateTokens(network, ids, { ...options, most: data.most }), { source, peek: null });
      here.words = here.steps.map(({ token }) => name(token));
      here.before = [SPECIAL[START], ...here.words.slice(0, -1)];
    },
    peek: null, // an earlier step that the reader looks back at
    asker: 0, // the source token whose reading is shown
    get whole() { return here.steps.length - (here.steps.at(-1).token === END && here.steps.length > 1 ? 2 : 1); },
    get last() { return model.get("step") < here.steps.length ? model.get("step") : here.whole; },
    get step() { return Math.min(here.peek ?? here.last, here.last); },
    get kind() { return model.get("attention"); },
    get layer() { return Math.min(model.get("layer"), depth(here.kind) - 1); },
    get head() { return Math.min(model.get("head"), heads - 1); },
    get chosen() { return here.kind === "encoder" ? Math.min(here.asker, here.source.length - 1) : here.step; },
  };
  // Of each kind of attention who reads, who is read up to a step, and the rows of a head's weights.
  here.kinds = {
    cross: { noun: "cross-attention", captions: ["source (is read)", "output (reads)"], label: "output reads source",
      queries: () => here.words, keys: () => here.source,
      rows: (layer, head) => here.steps.map(({ cross }) => cross[layer][head]) },
    decoder: { noun: "decoder\u2019s self-attention", captions: ["output so far (is read)", "output (reads)"],
      label: "output reads output", queries: () => here.words,
      keys: (step) => here.before.map((token, n) => (n <= step ? token : UNSAID)),
      rows: (layer, head) => here.steps.map(({ decoder }) => decoder[layer][head]) },
    encoder: { noun: "encoder\u2019s self-attention", captions: ["source (is read)", "source (reads)"],
      label: "source reads source", queries: () => here.source, keys: () => here.source,
      rows: (layer, head) => here.encoder[layer].map((token) => token[head]) },
  };
  return here;
}

// One step of all heads: a row for each, of what it reads. To walk to a row is to choose its head.
function headRows(life, here, { kind, columns, hint, choose }) {
  const { heads } = here, { label, keys } = here.kinds[kind];
  const at = (row) => [(row / heads) | 0, row % heads];
  const view = heatmap(life, { hint, tallest: 22, tableLabel: `Each head at this step, ${label}, as a table`,
    label: `What each head reads at this step: ${label}. Arrow keys walk the cells and choose the head.`,
    onPick: (row) => choose(kind, ...at(row)) });
  const axes = { columns, rows: "layer . head", corner: "layer.head \u2193 token \u2192", cell(row, key) {
    const [layer, head] = at(row), token = keys(here.step)[key];
    return `layer ${layer}, head ${head}, reads ${token === UNSAID ? "what is not said yet" : quoted(token)}`;
  } };
  const names = Array.from({ length: here.depth(kind) * heads }, (_, row) => at(row).join("."));
  return { ...view, draw() {
    const tokens = keys(here.step), S = tokens.length, values = together(here.steps[here.step][kind].flat(), S);
    const mask = kind === "cross" ? null : Uint8Array.from(values, (_, n) => +(n % S <= here.step));
    view.show({ values, L: names.length, S, mask, queries: names, keys: tokens, axes,
      mark: here.kind === kind ? here.layer * heads + here.head : null });
  } };
}

// What could be said at this step, the likeliest first. To press another is to have it said.
function stepOptions(model, life, here, { play }) {
  const probabilities = () => here.steps[here.step].probabilities;
  const options = optionList(life, Math.min(OPTIONS, here.data.target.length + 2), {
    make() {
      const bar = h("span", { class: "attn-filled" });
      return { bar, middle: h("span", { class: "attn-bar" }, bar) };
    },
    fill({ el, word, bar, share }, token, all) {
      const p = all[token];
      word.textContent = visible(here.name(token), 16);
      bar.style.width = `${100 * p}%`;
      share.textContent = p.toFixed(3);
      el.setAttribute("aria-pressed", String(token === here.steps[here.step].token));
    },
    press(token) {
      const before = here.steps.slice(0, here.step).map((one) => one.token);
      put(model, { prefix: [...before, token], step: here.step });
      play();
    },
  });
  const title = h("p", { class: "attn-heading" }), note = h("p", { class: "attn-note" });
  const table = foldedTable(life, "All probabilities of this step as a table", () => ({
    corner: "token", columns: ["probability", "logit"],
    rows: likeliest(probabilities()).map((token) => [visible(here.name(token)), probabilities()[token].toFixed(4),
      minus(here.steps[here.step].logits[token].toFixed(4))]),
  }));
  const again = button(life, "Draw again", () => {
    if (model.get("temperature")) put(model, { seed: (model.get("seed") + 1) % SEEDS });
  });
  const undo = button(life, "Undo", () => {
    if (model.get("prefix").length) put(model, { prefix: [] });
  });
  const drawing = here.data.compact ? [] : [folded(model, life, "Draw at random", { opens: ["temperature", "seed"] },
    h("div", { class: "attn-controls" }, slider(model, life, "temperature",
      { label: "Temperature", min: 0, max: HOTTEST, step: 0.1, format: (t) => t.toFixed(1) }),
    slider(model, life, "seed", { label: "Seed", min: 0, max: SEEDS - 1, step: 1 }), again))];
  const below = h("div", { class: "attn-folds attn-again" }, undo, ...drawing);
  return { el: h("div", {}, title, ...options.els, note, below), table: table.el, draw() {
    const temperature = model.get("temperature");
    options.show(probabilities(), probabilities());
    title.textContent = `Candidates for step ${here.step + 1}`;
    note.textContent = temperature
      ? "The token is drawn at random, with the seed below. Press another: the model continues from it."
      : "The model writes the most likely token. Press another: the model continues from it.";
    again.setAttribute("aria-disabled", String(!temperature)); // and not disabled: it would lose the focus
    undo.setAttribute("aria-disabled", String(!model.get("prefix").length));
    table.fill();
  } };
}

// All heads: of each kind what they read at this step, or everywhere, and the chosen one in full.
function allHeads(model, life, here, { look, optionTable }) {
  const { kinds, heads, depth } = here;
  const choose = (attention, layer, head) => {
    if (attention !== here.kind || layer !== here.layer || head !== here.head) put(model, { attention, layer, head });
  };
  const strips = [
    headRows(life, here, { kind: "cross", columns: "source (is read)",
      hint: "Press a row, or walk to it, to choose its head.", choose }),
    headRows(life, here, { kind: "decoder", columns: "output so far (is read)", hint: "", choose })];
  /** @type {any} what stands for the traits layer and head */
  const asEncoder = { get: (trait) =>
    (trait === "head" ? here.head : Math.min(model.get("layer"), depth("encoder") - 1)),
    set: (trait, value) => { model.set(trait, value); model.set("attention", "encoder"); },
    save_changes: () => model.save_changes && model.save_changes() };
  const grid = headGrid(life, asEncoder,
    { layers: depth("encoder"), heads, side: 72, outlined: () => here.kind === "encoder",
    size: () => [here.source.length, here.source.length],
    map: (layer, head) => ({ values: together(kinds.encoder.rows(layer, head), here.source.length), mask: null,
      top: 1 }) });
  const map = heatmap(life, { label: "Weights of the chosen head. Arrow keys walk the cells.", tallest: 26,
    tableLabel: "The chosen head as a table", onPick: look });
  const scale = colourScale(life);
  scale.show(1);
  const which = h("div", { class: "attn-controls" },
    choice(model, life, "attention",
      { label: "Attention", choices: Object.entries(kinds).map(([kind, { label }]) => [kind, label]) }),
    choice(model, life, "layer", { label: "Layer", choices: numbered(Math.max(depth("decoder"), depth("encoder"))) }),
    choice(model, life, "head", { label: "Head", choices: numbered(heads) }), scale.el);
  const panel = (title, ...inside) => h("div", {}, h("p", { class: "attn-heading" }, title), ...inside);
  const columns = (...inside) => h("div", { class: "attn-columns" }, ...inside);
  const maps = tabs(life, "Maps", {
    "This step": columns(panel("Each head: output reads source", strips[0].el),
      panel("Each head: output reads output", strips[1].el)),
    "All heads": panel("Each head, all tokens: source reads source", grid.el,
      h("p", { class: "attn-note" }, "The same at every step. Press a map to choose its head.")),
    "The chosen head": panel("The chosen head, all tokens", map.el),
  });
  const all = [map.table, strips[0].table, strips[1].table, optionTable];
  const tables = h("div", { class: "attn-folds" }, ...all);
  const opens = ["attention", "layer", "head"];
  return { els: [foldedOnPhone(model, life, "What every head reads", opens, which, maps, tables)],
    draw({ above, below, weights, reach }) {
      const S = above.length;
      map.show({ values: weights.subarray(0, reach * S), L: reach, S, queries: below, keys: above, room: below.length,
        mark: here.chosen, mask: here.kind === "decoder" ? namedMask("causal", reach, S) : null });
      for (const one of [...strips, grid]) one.draw();
    } };
}

// Tokens as one writes them, as nodes: a line that is too long breaks where one token meets the next.
function withJoints(tokens, compound) {
  const all = Array.from(visible(written(tokens, compound), 300));
  const begins = tokens.map((_, n) => Array.from(written(tokens.slice(0, n), compound)).length);
  return begins.flatMap((begin, n) => [...(n ? [h("wbr")] : []), all.slice(begin, begins[n + 1]).join("")]);
}

// The translation so far, as nodes.
function translationWords(model, here) {
  const { data, last: at } = here, tag = model.get("language");
  const [, language] = data.languages.find(([one]) => one === tag) || [];
  const whole = here.words.filter((_, n) => n <= at && here.steps[n].token !== END), T = here.words.length;
  const stopped = here.steps.at(-1).token === END ? "" : ` \u2026 (stopped after ${T} tokens)`;
  const rest = at < here.whole ? " \u2026" : stopped;
  return [`${quoted(model.get("text"), 60)}${language ? ` in ${visible(language)}` : ""}: `,
    h("bdi", {}, ...withJoints(whole, data.compound.includes(tag))), rest];
}

// What is written at this step, and what the chosen head reads.
function stepWords({ step, chosen, kind, layer, head, kinds, steps, words }) {
  const { noun, rows, queries, keys } = kinds[kind], { token, probabilities } = steps[step];
  const who = kind === "encoder" ? `, ${quoted(queries()[chosen])}` : "";
  return `Step ${step + 1} of ${words.length} writes ${quoted(words[step])}, probability `
    + `${probabilities[token].toFixed(3)}. In the ${noun}, layer ${layer}, head ${head}${who} `
    + `reads ${strongest(keys(step), rows(layer, head)[chosen])}.`;
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), here = translator(model), { data, kinds } = here;
  const headline = h("p", { class: "attn-translation" }), sentence = h("p", { class: "attn-said", role: "status" });
  function look(row) {
    if (here.kind !== "encoder") here.peek = row;
    else if (row !== null) here.asker = row;
    draw();
  }
  const captions = ["", ""];
  const figure = links(life, {
    label: "Tokens that are read, above, and tokens that read, below. Arrow keys walk those below.",
    captions, onPick: look });
  function draw() {
    const { kind, chosen, last, layer, head } = here, { queries, keys, rows } = kinds[kind];
    const below = queries(), above = keys(last), S = above.length, reach = kind === "encoder" ? S : last + 1;
    const weights = together(rows(layer, head), S);
    headline.replaceChildren(...translationWords(model, here));
    sentence.textContent = stepWords(here);
    Object.assign(captions, kinds[kind].captions);
    figure.show({ above, below, weights, reach, chosen, swipes: true });
    overview.draw({ above, below, weights, reach });
    for (const one of [options, box, steps]) one.draw();
  }

  // Another text or language is shown as a whole, and without what was put into the old one.
  function begin(values) {
    steps.stop();
    put(model, { ...(model.get("prefix").length && { prefix: [] }), ...values, step: data.most });
  }
  const place = () => ({ step: here.last, count: here.words.length, whole: here.whole });
  const steps = stepper(model, life, { pace: PACE, place });
  const box = textBox(model, life, here, { examples: data.examples, begin, play: () => { begin({}); steps.start(); } });
  // From a token that the reader chose, the rest comes step by step, or at once where nothing shall move.
  const options = stepOptions(model, life, here, { play: () => {
    if (here.last >= here.whole) return;
    if (mayMove()) steps.start(PACE);
    else put(model, { step: data.most });
  } });
  const languages = languageChoice(model, life, data, begin);
  const asked = h("div", { class: "attn-controls" }, ...box.controls, ...languages, ...box.examples);
  const stage = h("div", {}, figure.el, sentence, steps.el, asked, box.trouble); // the picture before its controls
  const player = h("div", { class: "attn-player" }, stage, options.el);
  const overview = data.compact ? { els: [options.table], draw() {} }
    : allHeads(model, life, here, { look, optionTable: options.table });
  const root = frame(el, life, { body: [headline, player, ...overview.els] });
  if (data.compact) steps.playOnce(root, figure.el);
  life.watch(["text", "language", "temperature", "seed", "prefix"], () => { here.renew(); draw(); });
  life.watch(["step"], () => { here.peek = null; draw(); });
  life.watch(["attention", "layer", "head"], draw);
  here.renew();
  draw();
  return life.end;
}

export default { render };
