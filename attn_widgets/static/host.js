// Mounts widgets on a page without a kernel: the same render({model, el}) that anywidget calls,
// on a model that holds its state itself.

import { button, h, lifetime, mayMove, withModifier } from "./controls.js";

/** @type {Record<string, { render: (mount: import("./controls.js").Mount) => () => void }>} */
const WIDGETS = {};

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

// As attn_widgets.packing.checksum.
function adler32(text) {
  let a = 1, b = 0;
  for (let n = 0; n < text.length; n++) { a = (a + text.charCodeAt(n)) % 65521; b = (b + a) % 65521; }
  return b * 65536 + a;
}

const STATES = "script[type='application/json']", KIND = /"widget": "([a-z]+)"\}$/;

// The model with this checksum, which another element of the page holds.
function modelOnPage(checksum) {
  for (const { textContent: text } of document.querySelectorAll(`attn-widget > ${STATES}`)) {
    const model = text.includes('"tensors"') && JSON.parse(text).state.data.model;
    if (model && adler32(model.bytes.b64 + model.floats.b64) === checksum) return model;
  }
  throw new Error("no element on this page holds the model");
}

// A widget is mounted when it comes within a screen of what is seen, a link names it, or the page is printed.
// Until then its table stands there.
const waiting = new Set();
function mount(element) {
  if (!waiting.delete(element)) return;
  nearby.unobserve(element);
  try { element.mount(); } catch (error) { reportError(error); } // the table stays, and the console says why
}
const nearby = new IntersectionObserver((found) => {
  for (const { isIntersecting, target } of found) if (isIntersecting) mount(target);
}, { rootMargin: "100% 0px" });
addEventListener("beforeprint", () => waiting.forEach(mount));

class AttnWidget extends HTMLElement {
  /** @type {(() => void) | null} */
  end = null;
  /** @type {PageModel | null} */
  model = null;
  /** @type {Record<string, any>} the opening state */
  start = {};
  /** @type {Record<string, any>} the state before the widget opened it */
  stored = {};
  /** @type {string[]} what a link has set */
  linked = [];

  connectedCallback() {
    const script = this.querySelector(STATES);
    if (this.end || !script) return;
    [, this.dataset.widget] = KIND.exec(script.textContent) || ["", ""];
    // The book's style lets such an element take the margin; one small map has no use for it. Now, because the theme
    // looks once for what its contents must make way for.
    this.classList.toggle("full-width", this.dataset.widget !== "explore");
    waiting.add(this);
    nearby.observe(this);
  }
  mount() {
    const { widget, state } = JSON.parse(this.querySelector(STATES).textContent);
    if (state.data?.model?.same) state.data.model = modelOnPage(state.data.model.same);
    this.stored = { ...state };
    this.model = new PageModel(state);
    const el = document.createElement("div");
    /** @type {HTMLElement | null} */
    const fallback = this.querySelector(".attn-fallback");
    this.prepend(el);
    try {
      const end = WIDGETS[widget].render({ model: this.model, el, opens: true }), life = lifetime(this.model);
      this.start = { ...state };
      this.end = () => { life.end(); end(); el.remove(); };
      el.firstElementChild.append(copyLink(life, this));
      if (fallback) fallback.hidden = true;
    } catch (error) {
      el.remove();
      throw error;
    }
  }
  disconnectedCallback() {
    waiting.delete(this);
    nearby.unobserve(this);
    if (this.end) this.end();
    this.end = null;
  }
}

// ---------------------------------------------------------------- states as links

// A link such as #kernel?bandwidth=0.3, in the text or in the address, sets the state of the page's first
// kernel widget; #kernel-2? is for the second.
/** @returns {AttnWidget[]} */
const widgetsOnPage = (which = "") => [.../** @type {NodeListOf<AttnWidget>} */ (
  document.querySelectorAll(`attn-widget${which}`))];
/** @param {string} widget */
const ofKind = (widget) => widgetsOnPage(`[data-widget="${CSS.escape(widget)}"]`);

function readState(hash) {
  const [, widget, nth = "1", traits] = /^#([a-z]+)(?:-([0-9]+))?\?(.+)$/.exec(hash) || [];
  const element = widget && ofKind(widget)[Number(nth) - 1];
  return element ? { element, traits: [...new URLSearchParams(traits)] } : null;
}

// A value as a trait can take it, whose present value is known, or undefined: links may say anything.
function fitting(text, now) {
  if (typeof now === "string") return text.slice(0, 1000);
  let value;
  try { value = JSON.parse(text); } catch { return undefined; }
  const fits = (x, like) => typeof x === typeof like
    && (typeof x === "boolean" || (Number.isFinite(x) && Math.abs(x) <= 1e4 * Math.max(1, Math.abs(like))));
  if (Array.isArray(now) && Array.isArray(value) && value.length <= 1000) {
    return value.every((x, n) => fits(x, now[n] ?? 1)) ? value : undefined;
  }
  return fits(value, now) ? value : undefined;
}

// What a link can name: the traits; of `explore`, its controls.
const named = (state) => (
  state.values ? { shared_scale: state.shared_scale, ...(state.frames && state.values) } : state);

// The value of a link for this name, or undefined where the widget cannot take it.
function taken(state, name, text) {
  const now = named(state), control = state.values && state.data.controls.find((one) => one.name === name);
  if (!Object.hasOwn(now, name)) return undefined;
  return control ? control.choices.find((choice) => fitting(text, choice) === choice) : fitting(text, now[name]);
}

// Move a widget to values of what a link can name, or leave it where one of them is unknown to it.
function moveTo({ model }, values) {
  const before = { ...model.state };
  const isControl = (/** @type {any[]} */ [name]) => Object.hasOwn(before.values || {}, name);
  const all = Object.entries(values), controls = Object.fromEntries(all.filter(isControl));
  try {
    if (all.some(isControl)) model.set("values", { ...before.values, ...controls });
    for (const [name, value] of all) if (!isControl([name])) model.set(name, value);
    return true;
  } catch {
    for (const name of Object.keys(before)) model.set(name, before[name]);
    return false;
  }
}

// Whether a widget can be seen whole, below the page's header. Of one that cannot, a link shows the beginning, with
// the picture that it has changed.
function fitsInView(element) {
  const header = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0; // of a saved page "auto"
  return element.offsetHeight <= innerHeight - header;
}

// A link sets what it names. What the link before it set goes back to its opening value, and so do the tokens that
// the reader put into a text that is replaced: else the temperature of one link would still hold at the next. All
// else that the reader has moved by hand stays, such as the head that they look at.
const IN_TEXT = { prefix: ["text", "language"], said: ["prompt"] };
function setState({ element, traits }) {
  const { model, start, stored, linked = [] } = element, opening = named(start), before = named(stored);
  const wanted = traits.map(([name, text]) => [name, taken(model.state, name, text)])
    .filter(([, value]) => value !== undefined), names = wanted.map(([name]) => name);
  const replaced = Object.keys(IN_TEXT)
    .filter((name) => name in opening && IN_TEXT[name].some((text) => names.includes(text)));
  const undone = [...linked.map((name) => [name, opening[name]]), ...replaced.map((name) => [name, before[name]])];
  if (names.length && moveTo(element, Object.fromEntries([...undone, ...wanted]))) element.linked = names;
  element.scrollIntoView({ block: fitsInView(element) ? "nearest" : "start", behavior: mayMove() ? "smooth" : "auto" });
}

// What the reader has moved, as a link.
function stateLink(element) {
  const { model, start, dataset: { widget } } = element, nth = ofKind(widget).indexOf(element) + 1;
  const first = named(start), now = named(model.state);
  const moved = Object.keys(first).filter((name) => asText(now[name]) !== asText(first[name])
    && taken(start, name, asText(first[name])) !== undefined);
  const traits = new URLSearchParams(moved.map((name) => [name, asText(now[name])]));
  return `#${widget}${nth > 1 ? `-${nth}` : ""}?${traits}`;
}
const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

function copyLink(life, element) {
  const notice = h("span", { class: "attn-copied", role: "status" });
  const press = button(life, "Copy link", async () => {
    history.replaceState(null, "", stateLink(element));
    try {
      await navigator.clipboard.writeText(location.href);
      notice.textContent = "Copied: the link opens this page with the widget as it is now.";
    } catch { // not on every page may a script write to the clipboard
      notice.textContent = "The address of this page is now the link.";
    }
  });
  press.classList.add("attn-link");
  return h("div", { class: "attn-foot" }, notice, press);
}

// Follow the links that name a widget: in the address, now and later, and in the text.
function followLink(hash) {
  const state = readState(hash);
  if (!state) return false;
  mount(state.element);
  if (state.element.end) setState(state);
  return Boolean(state.element.end);
}

// How every widget of the page stands, so that Back can return from a link to where the reader was.
const standing = (state) => Object.fromEntries(Object.entries(named(state))
  .filter(([, value]) => Array.isArray(value) || typeof value !== "object"));
const remembered = () => widgetsOnPage()
  .map(({ end, model, linked }) => end && { linked, values: standing(model.state) });
function goBack(all) {
  widgetsOnPage().forEach((element, n) => {
    if (!element.end) return;
    moveTo(element, all[n]?.values ?? standing(element.start));
    element.linked = all[n]?.linked;
  });
}

// Take the widgets that a page needs, and mount them wherever they stand on it.
function start(wanted) {
  if (customElements.get("attn-widget")) return;
  Object.assign(WIDGETS, wanted);
  customElements.define("attn-widget", AttnWidget);
  addEventListener("hashchange", () => {
    if (history.state?.widgets) goBack(history.state.widgets);
    else followLink(location.hash);
  });
  document.addEventListener("click", (event) => {
    const { target } = event, link = target instanceof Element && target.closest("a[href^='#']");
    const hash = link && link.getAttribute("href");
    const widgets = link && !withModifier(event) && remembered();
    if (!widgets || !followLink(hash)) return;
    event.preventDefault();
    if (hash === location.hash) return;
    history.replaceState({ ...history.state, widgets }, "");
    history.pushState(null, "", hash);
  });
  followLink(location.hash);
}

export { start };
