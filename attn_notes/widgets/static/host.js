// Mounts widgets on a page without a kernel: the same render({model, el}) that anywidget calls,
// on a model that holds its state itself. Python puts core.js and WIDGETS in front (assets.py).

class PageModel {
  constructor(state) { this.state = state; this.listeners = {}; }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (Object.is(this.state[name], value)) return;
    this.state[name] = value;
    for (const callback of [...(this.listeners[`change:${name}`] || [])]) callback();
  }
  on(event, callback) { (this.listeners[event] ??= []).push(callback); }
  off(event, callback) {
    this.listeners[event] = (this.listeners[event] || []).filter((other) => other !== callback);
  }
  save_changes() {} // nobody to tell
}

// As attn_notes.widgets.packing.checksum.
function adler32(text) {
  let a = 1, b = 0;
  for (let n = 0; n < text.length; n++) { a = (a + text.charCodeAt(n)) % 65521; b = (b + a) % 65521; }
  return b * 65536 + a;
}

const STATES = "script[type='application/json']";

// The model with this checksum, which another element of the page holds.
function modelOnPage(checksum) {
  for (const { textContent: text } of document.querySelectorAll(`attn-widget > ${STATES}`)) {
    const model = text.includes('"tensors"') && JSON.parse(text).state.data.model;
    if (model && adler32(model.bytes.b64 + model.floats.b64) === checksum) return model;
  }
  throw new Error("no element on this page holds the model");
}

class AttnWidget extends HTMLElement {
  connectedCallback() {
    const script = this.querySelector(STATES);
    if (this.end || !script) return;
    const { widget, state } = JSON.parse(script.textContent);
    if (state.data?.model?.same) state.data.model = modelOnPage(state.data.model.same);
    const el = document.createElement("div");
    const fallback = this.querySelector(".attn-fallback");
    this.prepend(el);
    try {
      const end = WIDGETS[widget].render({ model: new PageModel(state), el });
      this.end = () => { end(); el.remove(); };
      if (fallback) fallback.hidden = true;
    } catch (error) { // the table stays, and the console says why
      el.remove();
      throw error;
    }
  }
  disconnectedCallback() {
    if (this.end) this.end();
    this.end = null;
  }
}

if (!customElements.get("attn-widget")) customElements.define("attn-widget", AttnWidget);
