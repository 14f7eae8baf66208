// What widgets share in which the reader types a text that a Transformer of transformer_model.js translates.
// Traits: text, language, and data {source, target, languages, examples, domain, most, most_source}.

import { checked, quoted, visible } from "./numbers.js";
import { button, choice, h, KEEP_KEYS, labelled, part } from "./controls.js";
import { cut } from "./cutting.js";

const SPECIAL = ["<pad>", "<start>", "<end>", "<unk>"];
const MOST_STEPS = 4096;

// The text of the domain that is meant: as it was typed, or with the one hyphen that is missing, as in "eighty one".
function meantBy(text, domain) {
  const words = text.trim().split(/[ \t\r\n]+/);
  const joined = words.map((_, n) => `${words.slice(0, n).join(" ")}${n ? "-" : ""}${words.slice(n).join(" ")}`);
  return joined.find((one) => domain.test(one.toLowerCase()));
}

// Which tokens a text is made of, how many of them there is room for, and what a text is to the model.
/** @param {any} data of the widget, as the head of this file lists them */
function sourceReader(data) {
  checked(data.most, MOST_STEPS);
  const tags = data.languages.map(([tag]) => tag), known = data.source.filter((token) => !tags.includes(token));
  const domain = data.domain && new RegExp(`^(?:${data.domain[0]})$`);
  const meant = (text) => (domain ? meantBy(text, domain) : text), parts = (text) => cut(meant(text) ?? text, known);
  return { data, known, meant, parts, room: data.most_source - Number(tags.length > 0),
    name: (token) => SPECIAL[token] ?? data.target[token - SPECIAL.length],
    read(text, language) {
      const { tokens } = parts(text), source = tags.length ? [language, ...tokens] : tokens;
      const ids = source.map((token) => data.source.indexOf(token) + SPECIAL.length);
      if (ids.includes(SPECIAL.length - 1)) throw new RangeError("a token of the source is not known");
      return { source, ids };
    },
  };
}

// Rows of weights, the later ones perhaps longer, as one map of `width` columns.
/**
 * @param {ArrayLike<number>[]} rows
 * @param {number} width
 */
function together(rows, width) {
  const all = new Float64Array(rows.length * width);
  rows.forEach((row, i) => all.set(row, i * width));
  return all;
}

// The box and the examples. A new text is shown as a whole at once; Enter shows how it comes.
// `trait` is what it sets; `begin` hears of it, and `play`, if there is one, of Enter.
/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {ReturnType<typeof sourceReader>} here
 * @param {{ trait?: string, label?: string, examples: string[], begin: (values: Record<string, any>) => void,
 *   play?: () => void }} options
 */
function textBox(model, life, here, { trait = "text", label = "Translate", examples, begin, play = () => {} }) {
  const input = h("input", { type: "text", maxlength: 120, spellcheck: "false", autocomplete: "off", ...KEEP_KEYS });
  const { known, room, data, meant, parts } = here;
  const problem = h("p", { class: "attn-error" }), hint = h("p", { class: "attn-note" });
  const trouble = h("div", { role: "status" }, problem, hint);
  const byName = (a, b) => a.startsWith("-") - b.startsWith("-") || (a < b ? -1 : 1), MOST = 60;
  const words = [...known].sort(byName).slice(0, MOST).map((token) => `\u2068${visible(token)}\u2069`).join(" ");
  let readable = true;
  const help = `It knows: ${words}${known.length > MOST ? ` and ${known.length - MOST} more` : ""}.`;
  function say(what, more = "") {
    problem.textContent = what;
    hint.textContent = more;
    trouble.hidden = !what;
    return !what;
  }
  // Say where a text is not of the kind that the model was trained on: it translates that, too.
  function warn(text) {
    if (meant(text) !== undefined) return say("");
    return say(`The model was trained on ${visible(data.domain[1], 80)} only. `
      + `What it writes for ${quoted(text, 40)} is a guess.`);
  }
  function read(text) {
    const { tokens, wrong } = parts(text);
    readable = false;
    if (wrong) return say(`The model does not know ${quoted(wrong)}, nor its parts.`, help);
    if (!tokens.length) return say("Type what is to be translated.", help);
    if (tokens.length > room) return say(`That makes ${tokens.length} tokens; the model reads at most ${room}.`);
    readable = true;
    begin({ [trait]: text });
    return warn(text);
  }
  const offered = examples.map((text) => {
    const press = button(life, "", () => { input.value = text; read(text); });
    press.append(h("bdi", {}, visible(text, 40)));
    return { el: press, draw: () => press.setAttribute("aria-pressed", String(text === model.get(trait))) };
  });
  life.listen(input, "input", () => read(input.value));
  life.listen(input, "keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (readable) play();
  });
  const box = labelled(label, input);
  box.classList.add("attn-text");
  const list = h("div", { class: "attn-controls attn-buttons attn-inline", role: "group", "aria-label": "Examples" },
    ...offered.map(({ el }) => el));
  say("");
  return { controls: [box], examples: offered.length ? [list] : [], trouble, draw() {
    const same = (a, b) => JSON.stringify(parts(a)) === JSON.stringify(parts(b)); // "1,999" may stay
    if (!same(input.value, model.get(trait))) { input.value = model.get(trait); readable = true; warn(input.value); }
    offered.forEach((example) => example.draw());
  } };
}

// The language, where the model knows more than one; `begin` hears of it.
/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {{ languages: string[][] }} data
 * @param {(values: Record<string, any>) => void} begin
 */
function languageChoice(model, life, { languages }, begin) {
  const language = part(model, ["language"], () => model.get("language"), (tag) => begin({ language: tag }));
  return languages.length ? [choice(language, life, "language", { label: "into", choices: languages })] : [];
}

export { languageChoice, sourceReader, SPECIAL, textBox, together };
