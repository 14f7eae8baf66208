// A language model at work: a text is begun, and transformer_model.js goes on with it here, token by
// token. Traits: data {model, tokens, context, most, examples}, prompt, said (the ids after it),
// position (the one looked at: at the end, the next), temperature, top_k, top_p, seed, shared_scale.

import { checked, quoted, visible } from "./numbers.js";
import {
  button, foldedTable, frame, h, KEEP_KEYS, labelled, lifetime, mayMove, put, slider, withModifier,
} from "./controls.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { folded } from "./folds.js";
import { tabsOnPhone } from "./tabs.js";
import { heatmap } from "./map.js";
import { likeliest, optionList } from "./options.js";
import {
  chance, drawn, END, LanguageModel, nextProbabilities, Reader, samplingDistribution, START,
} from "./transformer_model.js";

/** @typedef {import("./controls.js").Model} Model */

const SPECIAL = ["padding", "start", "end of text", "unknown"], FIRST = SPECIAL.length;
const SPACES = new Map([[" ", "space"], ["\n", "new line"], ["\t", "tab"], ["\u00a0", "no-break space"]]);
// a space is made visible anyway
const GLYPHS = new Map([["\n", "\u21b5"], ["\t", "\u21e5"], ["\u00a0", "\u237d"]]);
// milliseconds a token
const OPTIONS = 10, MANY = 100, SEEDS = 100, HOTTEST = 3, PACE = 120;
const LONGEST_TEXT = 65_536;
const OPENING = 100; // characters that a page opens with, or half of what there is room for
const RECENT = 32; // tokens that stand in the map, each in a column of its own
const LOUDEST = 8; // bits, at which the bar under a token is full

// in bits
const entropy = (probabilities) => Math.abs(probabilities.reduce((sum, p) => sum + (p > 0 ? p * Math.log2(p) : 0), 0));
const mean = (numbers) => numbers.reduce((sum, x) => sum + x, 0) / numbers.length;

// What stands in the vocabulary for an id, and how it is shown.
function characters(data) {
  const ids = new Map(data.tokens.map((token, n) => [token, n + FIRST]));
  const token = (id) => data.tokens[id - FIRST];
  const name = (id) => SPECIAL[id] ?? SPACES.get(token(id)); // of what cannot be seen
  return { token, name, vocabulary: data.tokens.length + 2,
    label: (id, most) => name(id) ?? visible(token(id), most),
    spoken: (id) => name(id) ?? quoted(token(id)),
    glyph: (id) => ({ [START]: "\u22a2", [END]: "\u220e", 3: "\ufffd" })[id]
      ?? GLYPHS.get(token(id)) ?? visible(token(id)),
    // A text as the ids of its known characters; which others there are; whether it is too long.
    read(text) {
      const all = Array.from(text.replace(/\r\n?/g, "\n"));
      const known = all.filter((character) => ids.has(character));
      const unknown = [...new Set(all.filter((character) => !ids.has(character)))];
      const kept = known.slice(0, data.most);
      return { ids: kept.map((character) => ids.get(character)), text: kept.join(""), unknown,
        long: known.length > data.most };
    },
  };
}

// What each head reads at a place: the last tokens one by one, and all earlier ones together.
function readingAt({ weights, start }, text, { spoken, glyph }) {
  const read = text.slice(start), many = Math.max(0, read.length - RECENT), earlier = many > 0;
  const rows = weights.flat().map((row) =>
    [...(earlier ? [row.subarray(0, many).reduce((sum, w) => sum + w, 0)] : []), ...row.subarray(many)]);
  const keys = read.slice(many), words = keys.map((id) => (id === START ? "the start" : spoken(id)));
  return { rows, keys: [...(earlier ? ["\u2026"] : []), ...keys.map(glyph)],
    spoken: [...(earlier ? [`the ${many} earlier ones together`] : []), ...words] };
}

/** @typedef {ReturnType<typeof writer>} Writer */
// The text so far, what the model had to say at each place of it, and the place looked at.
/** @param {Model} model */
function writer(model) {
  const data = model.get("data");
  checked(data.most, LONGEST_TEXT);
  const network = new LanguageModel(data.model), reader = new Reader(network, data.context);
  const shownAs = characters(data), { token } = shownAs;
  const traits = (...names) => Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const distribution = ({ logits }) => samplingDistribution(logits, traits("temperature", "top_k", "top_p"));
  /** @type {{ begun: number[], text: number[], records: any[], bits: number[] }} */
  const now = { begun: [], text: [], records: [], bits: [] };
  const here = { ...shownAs, data, layers: Object.keys(network.body.blocks).length,
    heads: data.model.config.num_heads,
    get begun() { return now.begun; },
    get text() { return now.text; },
    get bits() { return now.bits; },
    renew() {
      now.begun = shownAs.read(model.get("prompt")).ids;
      now.text = [...now.begun, ...model.get("said")];
      now.records = reader.read([START, ...now.text]);
      now.bits = now.text.map((id, n) => -Math.log2(nextProbabilities(now.records[n].logits, 1)[id]));
    },
    get full() { return now.text.at(-1) === END || now.text.length >= data.most; },
    get last() { return now.text.length - Number(here.full); },
    get at() { return Math.min(model.get("position"), here.last); },
    get own() { return nextProbabilities(now.records[here.at].logits, 1); },
    get drawn() { return distribution(now.records[here.at]); },
    // `count` tokens more, or as many as there is room for.
    say(count) {
      const written = [...model.get("said")], room = Math.min(count, data.most - now.text.length);
      for (let n = 0; n < room && !here.full; n++) {
        const record = reader.read([START, ...now.begun, ...written]).at(-1);
        written.push(drawn(distribution(record), chance(model.get("seed"), written.length)));
        if (written.at(-1) === END) break;
      }
      put(model, { position: data.most, said: written });
    },
    // A text to look at: what follows a few letters alone says little.
    open() {
      here.renew();
      const wanted = Math.min(OPENING, data.most >> 1) - now.text.length;
      if (!model.get("said").length && wanted > 0) here.say(wanted);
    },
    // This token in the place looked at, and nothing after it.
    put(id) {
      const before = now.text.slice(0, here.at), begun = before.slice(0, now.begun.length);
      put(model, { prompt: begun.map(token).join(""), said: [...before.slice(begun.length), id], position: data.most });
    },
    reading: () => readingAt(now.records[here.at], [START, ...now.text].slice(0, here.at + 1), shownAs),
  };
  return here;
}

// The text, each token over a bar that is as high as it was surprising. A click or the arrow keys look
// back at one; `point(n)` hears of the one under the pointer, or of null.
function textPage(model, life, here, point) {
  const el = h("div", { class: "attn-page", tabindex: 0, role: "group",
    "aria-label": "The text so far. Left and right look at its characters.", ...KEEP_KEYS });
  const places = []; // {span, is}: what it shows, so that only what changes is touched
  const look = (position) => put(model, { position: Math.max(0, Math.min(here.last, position)) });
  const under = (event) => places.findIndex(({ span }) => span === event.target);
  life.listen(el, "click", (event) => { if (under(event) >= 0 && getSelection().isCollapsed) look(under(event)); });
  life.listen(el, "pointerover", (event) => point(here.text[under(event)] === undefined ? null : under(event)));
  life.listen(el, "pointerleave", () => point(null));
  life.listen(el, "keydown", (event) => {
    const go = { ArrowLeft: here.at - 1, ArrowRight: here.at + 1, Home: 0, End: here.last }[event.key];
    if (go === undefined || withModifier(event)) return;
    event.preventDefault();
    look(go);
  });
  function fill(n) {
    const id = here.text[n], bits = here.bits[n], is = `${id} ${bits}`;
    if (places[n].is === is) return;
    places[n].is = is;
    const { span } = places[n], next = id === undefined;
    const token = here.data.tokens[id - FIRST];
    span.textContent = next ? "\u00a0" : SPACES.has(token) ? token : here.glyph(id);
    span.style.setProperty("--attn-bits", next ? 0 : Math.min(1, bits / LOUDEST));
    span.classList.toggle("attn-line", token === "\n");
  }
  return { el, draw() {
    const count = here.last + 1;
    while (places.length > count) places.pop().span.remove();
    while (places.length < count) {
      const span = h("span");
      places.push({ span });
      el.append(span);
    }
    places.forEach(({ span }, n) => {
      fill(n);
      span.classList.toggle("attn-said-here", n >= here.begun.length && n < here.text.length);
      span.classList.toggle("attn-here", n === here.at);
    });
    const { span } = places[here.at], top = span.offsetTop, end = top + span.offsetHeight;
    if (top < el.scrollTop) el.scrollTop = top - 8;
    if (end > el.scrollTop + el.clientHeight) el.scrollTop = end - el.clientHeight + 8;
  } };
}

// What could stand there, the likeliest first: as the model has it, and as it is drawn. To press one is
// to have it said. With the controls of what is drawn, and the slider `place`.
function characterOptions(model, life, here, { press, place }) {
  const options = optionList(life, Math.min(OPTIONS, here.vocabulary), { press,
    make() {
      const own = h("span", { class: "attn-own" }), after = h("span", { class: "attn-after" });
      const before = h("span"), drawn = h("span");
      return { own, after, before, drawn, middle: h("span", { class: "attn-twin" }, own, after),
        share: h("span", { class: "attn-share" }, before, drawn) };
    },
    fill({ el, word, own, after, before, drawn }, id, all, kept) {
      const p = all[id], q = kept[id];
      word.textContent = here.label(id, 12);
      word.classList.toggle("attn-named", here.name(id) !== undefined);
      own.style.width = `${100 * p}%`;
      after.style.width = `${100 * q}%`;
      before.textContent = p.toFixed(3);
      drawn.textContent = q > 0 ? ` \u2192 ${q.toFixed(3)}` : " cut";
      el.classList.toggle("attn-cut", !(q > 0));
      el.setAttribute("aria-pressed", String(id === here.text[here.at]));
    },
  });
  const title = h("p", { class: "attn-heading" }), note = h("p", { class: "attn-note" });
  const swatch = (name, words) => h("span", {}, h("span", { class: `attn-swatch ${name}` }), words);
  const legend = h("p", { class: "attn-note attn-legend" }, swatch("attn-own", "the model"),
    swatch("attn-after", "what is drawn from"), swatch("attn-gone", "cut"));
  const table = foldedTable(life, "All probabilities here as a table", () => {
    const { own, drawn: after } = here;
    return { corner: "character", columns: ["of the model", "drawn from"],
      rows: likeliest(own).map((id) => [here.label(id), own[id].toFixed(4),
        after[id] > 0 ? after[id].toFixed(4) : "cut"]) };
  });
  const controls = h("div", { class: "attn-controls" }, slider(model, life, "temperature",
    { label: "Temperature", min: 0.1, max: HOTTEST, step: 0.1, format: (t) => t.toFixed(1) }));
  const more = folded(model, life, "More controls", { opens: ["top_k", "top_p", "seed"] },
    h("div", { class: "attn-controls" }, place, slider(model, life, "top_k",
      { label: "Top k", min: 1, max: here.vocabulary, step: 1, format: (k) => `${k} of ${here.vocabulary}` }),
    slider(model, life, "top_p", { label: "Top p", min: 0.01, max: 1, step: 0.01, format: (p) => p.toFixed(2) }),
    slider(model, life, "seed", { label: "Seed", min: 0, max: SEEDS - 1, step: 1 })));
  return { el: h("div", {}, title, legend, ...options.els, note, controls, more), table: table.el, draw() {
    const { own, drawn: after } = here;
    options.show(own, own, after);
    title.textContent = here.at === here.text.length
      ? "The next character: press one to say it" : `Character ${here.at + 1}: press another to put it there`;
    note.textContent = `Entropy ${entropy(own).toFixed(2)} \u2192 ${entropy(after).toFixed(2)} bits. `
      + `${after.filter((p) => p > 0).length} of ${here.vocabulary} characters remain.`;
    table.fill();
  } };
}

// The box that the text begins with, and the examples.
function promptBox(model, life, here, begin) {
  const input = h("textarea", { rows: 2, maxlength: here.data.most, spellcheck: "false", autocomplete: "off",
    ...KEEP_KEYS });
  const trouble = h("p", { class: "attn-note", role: "status" });
  function read(text) {
    const { text: prompt, unknown, long } = here.read(text);
    const names = unknown.slice(0, 8).map((character) => quoted(character)).join(", ")
      + (unknown.length > 8 ? " and more" : "");
    trouble.textContent = (unknown.length ? `The model has never seen ${names}: left out. ` : "")
      + (long ? `Only the first ${here.data.most} characters are read.` : "");
    begin(prompt);
  }
  const examples = here.data.examples.map((text) => {
    const press = button(life, "", () => { input.value = text; read(text); });
    press.append(h("bdi", {}, visible(text.replace(/\n/g, GLYPHS.get("\n")), 28)));
    return { el: press, draw() {
      press.setAttribute("aria-pressed", String(here.read(text).text === model.get("prompt")));
    } };
  });
  life.listen(input, "input", () => read(input.value));
  const box = labelled("Prompt", input);
  box.classList.add("attn-prompt");
  const list = h("div", { class: "attn-controls attn-buttons attn-examples", role: "group", "aria-label": "Examples" },
    ...examples.map(({ el }) => el));
  return { el: h("div", { class: "attn-begin" }, box, trouble, ...(examples.length ? [list] : [])), draw() {
    if (here.read(input.value).text !== model.get("prompt")) {
      input.value = model.get("prompt");
      trouble.textContent = "";
    }
    examples.forEach((example) => example.draw());
  } };
}

// Say one, say many, play, and back again.
function sayButtons(model, life, here, { playing }) {
  let timer = 0;
  function stop() {
    clearTimeout(timer);
    if (!timer) return;
    timer = 0;
    play.textContent = "Play";
    playing(false);
  }
  function advance() {
    here.say(1);
    if (here.full) return stop();
    timer = setTimeout(advance, PACE * (mayMove() ? 1 : 4));
  }
  function start() {
    play.textContent = "Pause";
    playing(true);
    timer = setTimeout(advance, 0);
  }
  const saying = (count) => () => { stop(); if (!here.full) here.say(count); };
  const cutTo = (size) => () => {
    stop();
    if (model.get("said").length) put(model, { position: here.data.most, said: model.get("said").slice(0, size) });
  };
  const play = button(life, "Play", () => (timer ? stop() : here.full || start()));
  play.classList.add("attn-main");
  const one = button(life, "Say one", saying(1));
  const many = button(life, `Say ${MANY}`, saying(MANY));
  const back = button(life, "Take back", cutTo(-1));
  const clear = button(life, "Clear", cutTo(0));
  life.onEnd(stop);
  return { stop, el: h("div", { class: "attn-controls attn-buttons", role: "group", "aria-label": "Say" }, one, play,
    many, back, clear), draw() {
    // and not disabled: it would lose the focus
    for (const press of [one, many, play]) press.setAttribute("aria-disabled", String(here.full && !timer));
    for (const press of [back, clear]) press.setAttribute("aria-disabled", String(!model.get("said").length));
  } };
}

// The place looked at, in words: what may follow there, or how surprising what stands there was.
function placeWords({ at, text, own, drawn: after, spoken, bits, vocabulary, data }) {
  const id = text[at];
  if (id === undefined) {
    const best = [...after.keys()].sort((a, b) => after[b] - after[a]).slice(0, 3).filter((n) => after[n] > 0);
    const before = text.slice(-20).map((n) => data.tokens[n - FIRST] ?? "\ufffd").join("");
    const likely = best.map((n) => `${spoken(n)} ${after[n].toFixed(3)}`).join(", ");
    return `After ${before ? quoted(before) : "nothing"}: ${likely}.`;
  }
  const rank = own.filter((p) => p > own[id]).length + 1;
  return `Character ${at + 1}, ${spoken(id)}: ${bits[at].toFixed(2)} bits, `
    + `probability ${own[id].toFixed(3)}, rank ${rank} of ${vocabulary}.`;
}
// Under the text: of the token under the pointer, or else on average.
function surpriseWords({ text, bits, begun, spoken, full, data }, place) {
  if (place !== null) return `Character ${place + 1}, ${spoken(text[place])}: ${bits[place].toFixed(2)} bits.`;
  const parts = [["the prompt", bits.slice(0, begun.length)], ["what was said", bits.slice(begun.length)]];
  const known = parts.filter(([, some]) => some.length).map(([name, some]) => `${name} ${mean(some).toFixed(2)}`);
  const end = text.at(-1) === END ? " The model has ended its text." : full
    ? ` ${data.most} characters are as many as there is room for.` : "";
  if (!known.length) return `Nothing has been said yet.${end}`;
  return `Surprise in bits, a bar is full at ${LOUDEST}. On average: ${known.join(", ")}.${end}`;
}

// What each head reads at the place looked at, a head a row.
function readingMap(model, life, here) {
  const { heads, layers } = here;
  const names = Array.from({ length: layers * heads },
    (_, n) => `${(n / heads) | 0}.${n % heads}`);
  const map = heatmap(life, { label: "What each head reads in this place. Arrow keys walk the cells.",
    tallest: 22, shortest: 15,
    tableLabel: "What each head reads as a table",
    hint: ["Point at a cell, or walk the map with the arrow keys.", "Tap a cell to read it."]
      .map((how) => `Each row is a head, each column a character before this place. ${how}`) });
  const scale = colourScale(life), heading = h("p", { class: "attn-heading" });
  return { heading, map, scale: scale.el, draw() {
    const { rows, keys, spoken } = here.reading(), values = Float64Array.from(rows.flat());
    const top = scaleTop(model, values);
    heading.textContent = here.at === here.text.length
      ? "What each head reads, to say what comes next" : `What each head read, to say character ${here.at + 1}`;
    const axes = { columns: "characters before (are read)", rows: "layer . head",
      corner: "layer.head \u2193 character \u2192",
      cell: (row, key) => `layer ${(row / heads) | 0}, head ${row % heads}, reads ${spoken[key]}` };
    map.show({ values, L: names.length, S: keys.length, broad: RECENT + 1, mask: null, queries: names, keys, top,
      axes });
    scale.show(top);
  } };
}

// The slider of the place looked at, which ends where the text does.
function placeSlider(model, life, here) {
  const el = slider(model, life, "position", { label: "Character", min: 0, max: 1, step: 1 });
  const input = el.querySelector("input"), output = el.querySelector("output");
  return { el, draw() {
    const text = `${here.at + 1} of ${here.last + 1}`;
    input.max = String(here.last);
    input.value = String(here.at);
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  } };
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el, opens = false }) {
  const life = lifetime(model), here = writer(model), { data } = here;
  if (opens) here.open();
  const sentence = h("p", { class: "attn-said", role: "status" }), surprise = h("p", { class: "attn-note" });
  const page = textPage(model, life, here, (at) => { surprise.textContent = surpriseWords(here, at); });
  const place = placeSlider(model, life, here), reading = readingMap(model, life, here);
  function draw() {
    place.draw();
    sentence.textContent = placeWords(here);
    surprise.textContent = surpriseWords(here, null);
    for (const part of [page, options, box, buttons, reading]) part.draw();
  }
  const buttons = sayButtons(model, life, here, { playing: (on) => {
    sentence.setAttribute("aria-live", on ? "off" : "polite");
    buttons.draw();
  } });
  const press = (id) => { buttons.stop(); here.put(id); };
  const options = characterOptions(model, life, here, { press, place: place.el });
  const box = promptBox(model, life, here, (prompt) => {
    buttons.stop();
    put(model, { prompt, said: [], position: data.most });
  });
  frame(el, life, { body: [
    h("div", { class: "attn-player attn-sampler" },
      h("div", {}, page.el, buttons.el, sentence, surprise),
      tabsOnPhone(life, "Views", { "What may come": options.el,
        "What each head reads": h("div", {}, reading.heading, reading.map.el,
          h("div", { class: "attn-controls" }, reading.scale, sharedScale(model, life))) })),
    folded(model, life, "Begin another text", { opens: ["prompt"] }, box.el), reading.map.table, options.table] });
  const renew = () => { here.renew(); draw(); };
  life.watch(["prompt", "said"], renew);
  life.watch(["position", "temperature", "top_k", "top_p", "shared_scale"], draw);
  renew();
  return life.end;
}

export default { render };
