// Step through a decoding: two rows of words and their links, and the weights of all steps so far.
// Traits: data {examples, states, model}, example, state, step, shared_scale; typing, text, reply.
// The model, if there is one, translates on a page what the reader types: {weights, source, target, most, asks}.
// An example is {group, source, reference, states: [{name, target, weights, wrong}]}; what was typed here has
// no reference, and its weights are rows.

import { decode, joined, quoted, visible } from "./numbers.js";
import { choice, frame, h, lifetime, put } from "./controls.js";
import { folded } from "./folds.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";
import { cut } from "./cutting.js";
import { links, strongest } from "./links.js";
import { RecurrentModel } from "./recurrent_model.js";
import { stepper } from "./steps.js";
import { typingBox } from "./typing.js";

const MOST_TYPED = 40, SPECIALS = 4; // words; ids that are no word
const PACE = 900; // milliseconds a step

// A short row of tokens as one would write it: characters stand together, words apart.
function written(tokens, most = 40) {
  const letters = tokens.every((token) => Array.from(token).length === 1);
  return visible(joined(tokens, () => letters), most);
}

// What the controls say is shown; a state without this state or step shows its last. `peek` is an earlier step that the
// reader looks back at.
function readStep(model, data, peek) {
  const n = model.get("example"), typed = model.get("reply").example, count = data.examples.length;
  const example = n < count || !typed ? data.examples[Math.min(n, count - 1)] : typed, { states } = example;
  const state = states.find(({ name }) => name === model.get("state")) || states[states.length - 1];
  const T = state.target.length, step = Math.min(model.get("step"), T - 1);
  return { example, states, state, T, S: example.source.length, step, chosen: Math.min(peek ?? step, step) };
}

function stepWords({ example, state, T, S, chosen }, weights) {
  const row = weights.subarray(chosen * S, (chosen + 1) * S);
  return `Step ${chosen + 1} of ${T}, ${quoted(state.target[chosen])}: reads ${strongest(example.source, row)}.`;
}
function judgement({ example: { reference }, state: { target, wrong } }) {
  if (reference === null) return "The network's own translation: the page has no reference for it.";
  if (wrong === null) return "Right: the output is the reference.";
  const wanted = quoted(Array.isArray(reference) ? written(reference, 200) : reference, 200);
  return `${wrong < target.length ? `Wrong at step ${wrong + 1}` : "It ends too early"}: the reference is ${wanted}.`;
}

// On a page the model itself answers, as the last of the states.
function pageAnswer(model, data) {
  let reader = null;
  return (text) => {
    const { weights, source, target, most } = data.model, name = data.states[data.states.length - 1];
    const known = new Map(source.map((token, id) => [token.toLowerCase(), id]));
    const { tokens = [], wrong } = cut(text.toLowerCase(), [...known.keys()]);
    const say = (error, example = model.get("reply").example) => put(model, { reply: { text, error, example } });
    if (wrong) return say(`${quoted(wrong)} is not made of words that the network knows`);
    if (tokens.length > MOST_TYPED) return say(`at most ${MOST_TYPED} words, got ${tokens.length}`);
    reader ??= new RecurrentModel(weights);
    const ids = tokens.map((token) => known.get(token)), made = reader.translate(ids.map((id) => id + SPECIALS), most);
    if (!made.tokens.length) return say("the network ends at once");
    const words = made.tokens.map((id) => target[id - SPECIALS] ?? "<unk>");
    const state = { name, target: words, weights: made.weights, wrong: null };
    say("", { group: "", source: ids.map((id) => source[id]), reference: null, states: [state] });
    return put(model, { example: data.examples.length, state: name, step: 0 });
  };
}

// The menus of examples and networks, and which of their options there are now.
function menusOf(model, life, data) {
  const { length: count } = data.examples;
  const texts = data.examples.map(({ source, group }, n) => [n, written(source), group]);
  if (model.get("typing") !== "off") texts.push([count, "what you typed"]);
  const examples = choice(model, life, "example", { label: "Example", choices: texts });
  const states = choice(model, life, "state", { label: "Network", choices: data.states.map((name) => [name, name]) });
  const exampleMenu = examples.querySelector("select"), stateMenu = states.querySelector("select");
  return { examples, states, exampleMenu, draw({ states: there, state }) {
    [...stateMenu.options].forEach((option, n) => {
      option.disabled = !there.some(({ name }) => name === data.states[n]);
    });
    stateMenu.value = String(data.states.indexOf(state.name));
    const own = exampleMenu.options[count];
    if (own) own.disabled = !model.get("reply").example;
  } };
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), data = model.get("data");
  let peek = null;
  const now = () => readStep(model, data, peek);
  const look = (row) => { if (row !== peek) { peek = row; draw(); } };
  const figure = links(life, {
    label: "Words that are read, above, and words that read, below. Arrow keys walk the words below.",
    captions: ["source (is read)", "output (reads)"], onPick: look });
  const map = heatmap(life, { label: "Weights of the steps so far. Arrow keys walk the cells.", tallest: 26,
    onPick: look });
  const scale = colourScale(life), aside = h("div", { class: "attn-map" }, map.el, scale.el);
  const sentence = h("p", { class: "attn-said", role: "status" });
  const verdict = h("p", { class: "attn-note attn-verdict" });
  const menus = menusOf(model, life, data);
  const steps = stepper(model, life, { pace: PACE, place: () => ({ step: now().step, count: now().T }) });
  function draw() {
    const shows = now(), { example, state, T, S, step, chosen } = shows;
    const weights = Array.isArray(state.weights) ? Float64Array.from(state.weights.flat()) : decode(state.weights);
    const top = scaleTop(model, weights);
    figure.show({ above: example.source, below: state.target, weights, reach: step + 1, chosen, wrong: state.wrong,
      top });
    map.show({ values: weights.subarray(0, (step + 1) * S), L: step + 1, S, mask: null, room: T, mark: chosen,
      queries: state.target, keys: example.source, top });
    scale.show(top);
    aside.parentElement.style.setProperty("--attn-map", `${map.wanted()}px`);
    sentence.textContent = stepWords(shows, weights);
    verdict.textContent = judgement(shows);
    menus.draw(shows);
    steps.draw();
  }
  const isTyped = model.get("typing") !== "off", { length: count } = data.examples;
  menus.examples.hidden = count < 2 && !isTyped;
  menus.states.hidden = data.states.length < 2;
  const label = model.get("typing") === "page" && data.model ? `Type ${data.model.asks}` : "Type your own";
  const box = isTyped ? [typingBox(model, life, { label, send: "Decode", waiting: "The network reads \u2026",
    page: "Run the notebook to try a text of your own.", answer: data.model ? pageAnswer(model, data) : null })] : [];
  const more = folded(model, life, isTyped ? "A text of your own; colours" : "Colours", { opens: ["text"] },
    h("div", { class: "attn-controls" }, ...box, sharedScale(model, life)));
  frame(el, life, { picture: [figure.el, sentence, verdict], controls: [steps.el, menus.examples, menus.states],
    more: [more], aside, body: [map.table] });
  life.listen(menus.exampleMenu, "change", () => { steps.stop(); put(model, { step: 0 }); });
  life.watch(["example", "state", "step"], () => { peek = null; draw(); });
  life.watch(["shared_scale", "reply"], draw);
  draw();
  return life.end;
}

export default { render };
