// A box that a live kernel answers; on a page, one sentence that says where it works. Traits: typing
// ("live" or "page"), text, and reply, whose {text, error} say what was answered and what went wrong.
function typingBox(model, life, { label, send, waiting, page }) {
  if (model.get("typing") === "page") return h("p", { class: "attn-note" }, page);
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
  life.watch(["text", "reply"], show);
  show();
  return form;
}
