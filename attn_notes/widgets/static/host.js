// Mounts widgets on a page without a kernel: the same render({model, el}) that anywidget calls,
// on a model that holds its state itself. Python puts what is shared and WIDGETS in front (assets.py).

class PageModel {
  constructor(state) { this.state = state; this.listeners = {}; }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (Object.is(this.state[name], value)) return;
    this.state[name] = value;
    for (const callback of (this.listeners[`change:${name}`] || []).slice()) callback();
  }
  on(event, callback) { (this.listeners[event] ??= []).push(callback); }
  off(event, callback) {
    this.listeners[event] = (this.listeners[event] || []).filter((other) => other !== callback);
  }
  save_changes() {} // nobody to tell
}

class AttnWidget extends HTMLElement {
  connectedCallback() {
    const script = this.querySelector("script[type='application/json']");
    if (this.end || !script) return;
    const { widget, state } = JSON.parse(script.textContent);
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
