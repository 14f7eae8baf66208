// What every widget is built of: life and state, elements and controls, canvases.

import { FORCED, inks, minus } from "./numbers.js";

// ---------------------------------------------------------------- life and state

/**
 * The state of a widget, as anywidget gives it or host.js.
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} set
 * @property {() => void} [save_changes]
 * @property {(event: string, callback: () => void) => void} on
 * @property {(event: string, callback: () => void) => void} [off] some hosts have none
 */
/**
 * What every widget's `render` is given; `opens` on a page, where a widget may move its state to where it opens.
 * @typedef {{ model: Model, el: HTMLElement, opens?: boolean }} Mount
 */
/** @typedef {ReturnType<typeof lifetime>} Life */
/** @typedef {ReturnType<typeof sharpCanvas>} View */
/** @typedef {ReturnType<typeof inks>} Colours of the page */
/** @typedef {[x: number, y: number]} Point in CSS pixels */

// Everything that a widget starts, and one call that ends it all.
/** @param {Model} model */
function lifetime(model) {
  const ends = [];
  const life = {
    /** @param {() => void} end */
    onEnd: (end) => { ends.push(end); },
    /**
     * @param {string[]} names
     * @param {() => void} callback
     */
    watch(names, callback, source = model) { // a control may stand on a part of the model
      for (const name of names) {
        source.on(`change:${name}`, callback);
        ends.push(() => source.off && source.off(`change:${name}`, callback)); // some hosts have no off
      }
    },
    /**
     * @param {EventTarget} target
     * @param {string} type
     * @param {(event: any) => void} callback
     * @param {AddEventListenerOptions} [options]
     */
    listen(target, type, callback, options) {
      target.addEventListener(type, callback, options);
      ends.push(() => target.removeEventListener(type, callback, options));
    },
    /** @param {() => void} callback */
    onTheme(callback) { watchTheme(life, callback); },
    /** @param {() => void} callback */
    onSharpness(callback) { watchSharpness(life, callback); },
    /**
     * @param {Element} el
     * @param {() => void} callback
     */
    onResize(el, callback) {
      let width = 0; // only the width: drawing changes the height
      const observer = new ResizeObserver(([entry]) => {
        const now = Math.round(entry.contentRect.width);
        if (now !== width) { width = now; callback(); }
      });
      observer.observe(el);
      ends.push(() => observer.disconnect());
    },
    end: () => ends.splice(0).forEach((end) => end()),
  };
  return life;
}

// Call back whenever the page turns dark or light, or its font has come, which a canvas does not notice.
function watchTheme(life, callback) {
  const observer = new MutationObserver(callback);
  const watched = { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "class"] };
  observer.observe(document.documentElement, watched);
  if (document.body) observer.observe(document.body, watched);
  life.onEnd(() => observer.disconnect());
  for (const query of ["(prefers-color-scheme: dark)", "print", FORCED]) {
    life.listen(matchMedia(query), "change", callback);
  }
  life.listen(document.fonts, "loadingdone", callback);
}

// Call back whenever the page is shown on pixels of another size: on another screen, or zoomed.
function watchSharpness(life, callback) {
  let query = null;
  const next = () => {
    if (query) query.removeEventListener("change", changed);
    query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    query.addEventListener("change", changed);
  };
  const changed = () => { next(); callback(); };
  next();
  life.onEnd(() => query.removeEventListener("change", changed));
}

// Whether the reader lets things move by themselves.
const mayMove = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * Set traits, and tell Python.
 * @param {Model} model
 * @param {Record<string, any>} values
 */
function put(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  if (model.save_changes) model.save_changes();
}

// A part of the model as a model for a control: `get()` reads it from these traits, `set(value)`
// sets them.
/**
 * @param {Model} model
 * @param {string[]} names
 * @param {() => any} get
 * @param {(value: any) => void} set
 * @returns {Model}
 */
const part = (model, names, get, set) => ({
  get, set: (_, value) => set(value),
  save_changes: () => model.save_changes && model.save_changes(),
  on: (_, callback) => names.forEach((name) => model.on(`change:${name}`, callback)),
  off: (_, callback) => names.forEach((name) => model.off && model.off(`change:${name}`, callback)),
});

// ---------------------------------------------------------------- elements and controls

// An element with attributes and children; strings become text, never markup.
/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
function h(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) el.setAttribute(name, "");
    else if (value !== false && value != null) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}

// Alt and an arrow turn the browser's page: such keys are not ours.
/** @param {KeyboardEvent | MouseEvent} event */
const withModifier = (event) => event.altKey || event.ctrlKey || event.metaKey;

// JupyterLab takes arrow keys away from focused elements unless they say this themselves.
const KEEP_KEYS = { "data-lm-suppress-shortcuts": "true" };
// Ids count on the document: in JupyterLab every widget has a copy of this file of its own.
/** @type {Document & { attnNotesIds?: number }} */
const counted = document;
/** @param {string} stem */
const unique = (stem) => `attn-${stem}-${(counted.attnNotesIds = (counted.attnNotesIds || 0) + 1)}`;

/**
 * A control with its label.
 * @param {string} label
 * @param {HTMLElement} input
 * @param {...Node} rest
 */
function labelled(label, input, ...rest) {
  const id = unique("control");
  input.id = id;
  return h("div", { class: "attn-control" }, h("label", { for: id }, label), input, ...rest);
}

// Every number of two digits from `min` to `max`: a logarithmic scale, nearly, on which each step
// is a number that one can say, and a step back returns to where one was.
/**
 * @param {number} min
 * @param {number} max
 */
function twoDigits(min, max) {
  const all = [];
  for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power++) {
    for (let n = 10; n < 100; n++) all.push(Number(`${n}e${power - 1}`));
  }
  return all.filter((x) => x >= min && x <= max);
}
/** @param {number} x */
const sized = (x) => x.toFixed(x < 0.1 ? 3 : 2);

// Which of the places is nearest to x.
/**
 * @param {number[]} places
 * @param {number} x
 * @returns {number}
 */
const nearest = (places, x) => places.reduce(
  (best, place, n) => (Math.abs(place - x) < Math.abs(places[best] - x) ? n : best), 0);

// A slider tied to a trait: from `min` to `max`, or over the numbers of the list `places`.
/**
 * @param {Model} model
 * @param {Life} life
 * @param {string} name
 * @param {{ label: string, min?: number, max?: number, step?: number, places?: number[],
 *   format?: (x: number) => string }} options
 */
function slider(model, life, name, { label, min, max, step, places, format = (x) => String(x) }) {
  const into = places ? (x) => nearest(places, x) : (x) => x;
  const out = places ? (n) => places[n] : (x) => x;
  const ends = places ? { min: 0, max: places.length - 1, step: 1 } : { min, max, step };
  const input = h("input", { type: "range", ...ends, ...KEEP_KEYS });
  const output = h("output", {});
  const show = () => {
    input.value = into(model.get(name));
    output.textContent = minus(format(model.get(name)));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  life.listen(input, "input", () => put(model, { [name]: out(Number(input.value)) }));
  life.watch([name], show, model);
  show();
  const control = labelled(label, input, output);
  output.htmlFor = input.id;
  return control;
}

// A choice tied to a trait; choices are [value, label] or [value, label, heading].
/**
 * @param {Model} model
 * @param {Life} life
 * @param {string} name
 * @param {{ label: string, choices: any[][] }} options
 */
function choice(model, life, name, { label, choices }) {
  const input = h("select", KEEP_KEYS);
  /** @type {HTMLElement} */
  let place = input;
  let before = "";
  choices.forEach(([, text, heading = ""], n) => {
    if (heading !== before) {
      before = heading;
      place = heading ? h("optgroup", { label: heading }) : input;
      if (heading) input.append(place);
    }
    place.append(h("option", { value: n }, text));
  });
  const show = () => {
    input.value = String(choices.findIndex(([value]) => value === model.get(name)));
  };
  life.listen(input, "change", () => put(model, { [name]: choices[Number(input.value)][0] }));
  life.watch([name], show, model);
  show();
  return labelled(label, input);
}

// The choices of a number from 0 on.
/**
 * @param {number} size
 * @returns {[number, string][]}
 */
const numbered = (size) => Array.from({ length: size }, (_, n) => [n, String(n)]);

/**
 * A box to tick, tied to a trait.
 * @param {Model} model
 * @param {Life} life
 * @param {string} name
 * @param {{ label: string }} options
 */
function tick(model, life, name, { label }) {
  const input = h("input", { type: "checkbox", ...KEEP_KEYS });
  const show = () => { input.checked = model.get(name); };
  life.listen(input, "change", () => put(model, { [name]: input.checked }));
  life.watch([name], show, model);
  show();
  return labelled(label, input);
}

/**
 * @param {Life} life
 * @param {string} label
 * @param {() => void} onClick
 */
function button(life, label, onClick) {
  const el = h("button", { type: "button", ...KEEP_KEYS }, label);
  life.listen(el, "click", onClick);
  return el;
}

// A folded table that is filled only while it is open: `read()` gives {corner, columns, rows},
// each row [header, ...cells], and perhaps a note that stands above.
/**
 * @param {Life} life
 * @param {string} summary
 * @param {() => { corner: string, columns: string[], rows: string[][], note?: string }} read
 */
function foldedTable(life, summary, read) {
  const table = h("table", {});
  const details = h("details", { class: "attn-table" }, h("summary", KEEP_KEYS, summary),
    h("div", { class: "attn-scroll", tabindex: 0, role: "group", "aria-label": summary }, table));
  const fill = () => {
    if (!details.open) return;
    const { corner, columns, rows, note } = read();
    table.replaceChildren(...(note ? [h("caption", {}, note)] : []),
      h("thead", {}, h("tr", {}, h("td", {}, corner),
        ...columns.map((text) => h("th", { scope: "col" }, h("bdi", {}, text))))),
      h("tbody", {}, ...rows.map(([header, ...cells]) =>
        h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, header)), ...cells.map((text) => h("td", {}, text))))));
  };
  life.listen(details, "toggle", fill);
  return { el: details, fill };
}

// A canvas as wide as its place, sharp on every screen. `paint(context, width)` draws and
// `height(width)` says how tall it is. `draw()` draws at once, `ask()` with the page's next frame.
/**
 * @param {Life} life
 * @param {{ label: string, height: (width: number) => number, keyboard?: boolean, least?: number,
 *   paint: (context: CanvasRenderingContext2D, width: number, height: number) => void }} options
 */
function sharpCanvas(life, { label, height: heightFor, paint, keyboard = false, least = 200 }) {
  const canvas = h("canvas", keyboard
    ? { tabindex: 0, role: "application", "aria-label": label, ...KEEP_KEYS }
    : { role: "img", "aria-label": label });
  const place = h("div", { class: "attn-canvas" }, canvas);
  let colours = null, asked = 0, isDrawn = false;
  const view = {
    el: place, canvas, ratio: 1,
    /** @returns {Colours} */
    get colours() { // a notebook draws before it puts us on the page, where no colour is known yet
      if (!colours || !colours.ink) colours = inks(canvas);
      return colours;
    },
    ask() { // the first picture at once: then it is known where things lie
      if (!isDrawn) view.draw();
      else asked ||= requestAnimationFrame(view.draw);
    },
    draw() {
      cancelAnimationFrame(asked);
      asked = 0;
      if (!place.clientWidth && place.isConnected) return; // folded away: drawn when it shows
      isDrawn = true;
      const width = Math.max(least, Math.floor((place.clientWidth || 606) - 6)); // the frame of the focus has 3 each
      const height = Math.ceil(heightFor(width));
      const ratio = view.ratio = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      paint(context, width, height);
    },
    /**
     * Where on the canvas an event happened.
     * @param {MouseEvent} event
     * @returns {Point}
     */
    at(event) {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    },
  };
  life.onTheme(() => { // classes of a page change for many reasons: draw only where colours did
    const now = inks(canvas);
    if (JSON.stringify(now) === JSON.stringify(colours)) return;
    colours = now;
    view.draw();
  });
  life.onResize(place, view.draw);
  life.onSharpness(view.draw);
  life.onEnd(() => cancelAnimationFrame(asked));
  return view;
}

// Whether the reader's main pointer is a finger, which hovers over nothing and covers what it points at.
const byFinger = () => matchMedia("(hover: none) and (pointer: coarse)").matches;

// Dragging on a canvas: `grab(place, touch)` says what is held from there on, or null for nothing, and
// `drag(held, place)` moves it. A finger that holds nothing scrolls the page.
/**
 * @template Held
 * @param {Life} life
 * @param {View} view
 * @param {(place: Point, touch: boolean) => Held | null} grab
 * @param {(held: Held, place: Point) => void} drag
 */
function dragging(life, view, grab, drag) {
  let held = null;
  life.listen(view.canvas, "pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    held = grab(view.at(event), event.pointerType === "touch");
    if (held !== null) view.canvas.setPointerCapture(event.pointerId);
  });
  life.listen(view.canvas, "touchstart", (event) => { if (held !== null) event.preventDefault(); }, { passive: false });
  life.listen(view.canvas, "pointermove", (event) => { if (held !== null) drag(held, view.at(event)); });
  for (const type of ["pointerup", "pointercancel"]) life.listen(view.canvas, type, () => { held = null; });
}

// What can be taken hold of: a knob, which stands out on every colour.
/**
 * @param {CanvasRenderingContext2D} context
 * @param {{ paper: string, ink: string }} colours
 * @param {number} x
 * @param {number} y
 */
function handle(context, { paper, ink }, x, y, radius = 7) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fillStyle = paper; context.fill();
  context.strokeStyle = ink; context.lineWidth = 1.5; context.stroke();
  context.beginPath();
  context.arc(x, y, radius / 3, 0, 7);
  context.fillStyle = ink; context.fill();
}

// A frame that shows on every colour: dark inside light.
/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function outline(context, x, y, width, height) {
  for (const [colour, thick] of /** @type {[string, number][]} */ ([["#ffffff", 5], ["#000000", 2]])) {
    context.strokeStyle = colour; context.lineWidth = thick;
    context.strokeRect(x, y, width, height);
  }
}

// From a place on a canvas to another.
/**
 * @param {CanvasRenderingContext2D} context
 * @param {Point} from
 * @param {Point} to
 * @param {string} stroke
 * @param {number} thick
 */
function arrow(context, from, to, stroke, thick) {
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  context.strokeStyle = context.fillStyle = stroke; context.lineWidth = thick;
  context.beginPath(); context.moveTo(...from);
  context.lineTo(to[0] - 6 * Math.cos(angle), to[1] - 6 * Math.sin(angle)); context.stroke();
  context.beginPath(); context.moveTo(...to);
  for (const turn of [2.7, -2.7])
    context.lineTo(to[0] + (7 + thick) * Math.cos(angle + turn), to[1] + (7 + thick) * Math.sin(angle + turn));
  context.fill();
}

// A widget that is made anew whenever its data are: weights set in Python show at once.
/** @param {(mount: Mount) => () => void} render */
const renewed = (render) => (/** @type {Mount} */ { model, el }) => {
  const life = lifetime(model);
  let end = render({ model, el });
  life.watch(["data"], () => {
    end();
    end = render({ model, el });
  });
  life.onEnd(() => end());
  return life.end;
};

// A picture stays in view on a phone, unless it is so tall that it would leave no room for what moves it.
/**
 * @param {Life} life
 * @param {HTMLElement} picture
 */
function staysInView(life, picture) {
  const check = () => picture.classList.toggle("attn-stays", picture.offsetHeight < 0.55 * innerHeight);
  const observer = new ResizeObserver(check);
  observer.observe(picture);
  life.onEnd(() => observer.disconnect());
  life.listen(window, "resize", check);
}

// The frame of a widget: title, the picture, the controls that move it, more of them folded, beside them what there
// is room for on a wide page, then the rest. On a phone the picture stays in view while the controls are moved.
/**
 * @param {HTMLElement} el
 * @param {Life} life
 * @param {{ title?: string, picture?: Node[], controls?: Node[], more?: Node[], aside?: HTMLElement,
 *   body?: (Node | string)[] }} parts
 */
function frame(el, life, { title, picture = [], controls = [], more = [], aside, body = [] }) {
  const root = h("div", { class: "attn-root" });
  if (title) root.append(h("p", { class: "attn-title" }, title));
  const row = controls.length ? [h("div", { class: "attn-controls" }, ...controls)] : [];
  if (picture.length) {
    const seen = h("div", { class: "attn-picture" }, ...picture);
    const stage = h("div", { class: "attn-stage" }, seen, ...row, ...more);
    staysInView(life, seen);
    root.append(aside ? h("div", { class: "attn-beside" }, stage, aside) : stage);
  } else {
    root.append(...row, ...more);
  }
  root.append(...body);
  el.append(root);
  life.onEnd(() => root.remove());
  return root;
}

// What scrolls sideways fades at an edge where there is more behind it.
/** @param {Element} el */
function shadeEdges(el) {
  const left = el.scrollLeft, right = el.scrollWidth - el.clientWidth - left;
  el.classList.toggle("attn-more-left", left > 1);
  el.classList.toggle("attn-more-right", right > 1);
}

export {
  arrow, button, byFinger, choice, dragging, foldedTable, frame, h, handle, KEEP_KEYS, labelled, lifetime,
  mayMove, nearest, numbered, outline, part, put, renewed, shadeEdges, sharpCanvas, sized, slider, tick, twoDigits,
  unique, withModifier,
};
