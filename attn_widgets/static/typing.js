// A box that a live kernel answers, or on a page the function `answer`; without that, one sentence says
// where it works. Traits: typing ("live" or "page"), text, and reply, whose {text, error} say what was
// answered and what went wrong.

import { h, KEEP_KEYS, labelled, put } from "./controls.js";

/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {{ label: string, send: string, waiting: string, page: string, answer?: (text: string) => void }} options
 */
function typingBox(model, life, { label, send, waiting, page, answer }) {
  const here = model.get("typing") === "page";
  if (here && !answer) return h("p", { class: "attn-note" }, page);
  const input = h("input", { type: "text", maxlength: 200, spellcheck: "false", autocomplete: "off", ...KEEP_KEYS });
  const reply = h("span", { class: "attn-note", role: "status" });
  const form = h("form", { class: "attn-typing" },
    labelled(label, input, h("button", { type: "submit", ...KEEP_KEYS }, send)), reply);
  const show = () => {
    const { text, error } = model.get("reply"), asked = model.get("text");
    if (input.value !== asked) input.value = asked;
    reply.textContent = asked !== text ? waiting : error && `Not read: ${error}`;
  };
  const ask = (event) => {
    event.preventDefault();
    if (input.value.trim()) put(model, { text: input.value });
  };
  life.listen(form, "submit", ask);
  life.listen(input, "keydown", (event) => { // JupyterLab submits no form by it
    if (event.key === "Enter" && !event.isComposing) ask(event);
  });
  const answered = () => {
    const text = model.get("text");
    if (text.trim() && text !== model.get("reply").text) answer(text);
  };
  life.watch(["text", "reply"], show);
  if (here) life.watch(["text"], answered);
  show();
  if (here) answered(); // what a link has typed
  return form;
}

export { typingBox };
