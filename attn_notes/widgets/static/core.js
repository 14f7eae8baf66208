// What every widget shares: numbers, colours, controls and the heatmap.
// Import-free: Python puts this file in front of each widget's own (see assets.py).

// ---------------------------------------------------------------- numbers

// Undo attn_notes.widgets.encoding: quanta or packed bits, with their shape.
function decode({ b64, shape, bits, lo, hi, power = 1 }) {
  const bytes = Uint8Array.from(atob(b64), (c) => c.charCodeAt(0));
  const size = shape.reduce((product, n) => product * n, 1);
  if (bits === 1) {
    return Uint8Array.from({ length: size }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
  }
  const view = new DataView(bytes.buffer);
  const level = {
    12: (i) => { // three hexadecimal digits each, in a row
      const at = (3 * i) >> 1;
      return i & 1 ? ((bytes[at] & 15) << 8) | bytes[at + 1] : (bytes[at] << 4) | (bytes[at + 1] >> 4);
    },
    8: (i) => bytes[i],
    16: (i) => view.getUint16(2 * i, true),
  }[bits];
  const quantum = (hi - lo) / (2 ** bits - 1);
  return Float64Array.from({ length: size }, (_, i) => (lo + level(i) * quantum) ** power);
}

// Row by row; masked keys get 0, and so does every key of an empty row. Many heads may share one
// array for their weights: making 144 of them takes as long as filling them.
function maskedSoftmax(scores, mask, L, S, temperature = 1, weights = new Float64Array(L * S)) {
  weights.fill(0);
  for (let i = 0; i < L; i++) {
    let top = -Infinity;
    for (let n = i * S; n < (i + 1) * S; n++) {
      if ((!mask || mask[n]) && scores[n] > top) top = scores[n];
    }
    if (top === -Infinity) continue;
    let total = 0;
    for (let n = i * S; n < (i + 1) * S; n++) {
      if (!mask || mask[n]) total += weights[n] = Math.exp((scores[n] - top) / temperature);
    }
    for (let n = i * S; n < (i + 1) * S; n++) weights[n] /= total;
  }
  return weights;
}

const KERNELS = {
  gaussian: (u) => Math.exp(-u * u / 2) / Math.sqrt(2 * Math.PI),
  boxcar: (u) => (Math.abs(u) <= 1 ? 0.5 : 0),
  triangular: (u) => Math.max(0, 1 - Math.abs(u)),
  epanechnikov: (u) => 0.75 * Math.max(0, 1 - u * u),
};

// (L, S) weights of Nadaraya-Watson; a row with no key in reach is 0.
function kernelWeights(kernel, queries, keys, bandwidth) {
  const L = queries.length, S = keys.length;
  const u = (i, j) => (queries[i] - keys[j]) / bandwidth;
  if (kernel === "gaussian") { // in log space: e^-200 is no weight to divide by
    const scores = Float64Array.from({ length: L * S }, (_, n) => -(u((n / S) | 0, n % S) ** 2) / 2);
    return maskedSoftmax(scores, null, L, S);
  }
  const weights = new Float64Array(L * S);
  for (let i = 0; i < L; i++) {
    let total = 0;
    for (let j = 0; j < S; j++) total += weights[i * S + j] = KERNELS[kernel](u(i, j));
    if (total > 0) for (let j = 0; j < S; j++) weights[i * S + j] /= total;
  }
  return weights;
}

function dot(a, b) { // a loop and not reduce: a Transformer spends its time here
  let sum = 0;
  for (let n = 0; n < a.length; n++) sum += a[n] * b[n];
  return sum;
}
const matvec = (rows, x) => rows.map((row) => dot(row, x));

const SCORES = {
  dot: (q, k) => dot(q, k),
  scaled_dot: (q, k) => dot(q, k) / Math.sqrt(q.length),
  gaussian: (q, k) => -q.reduce((sum, x, n) => sum + (x - k[n]) ** 2, 0) / 2,
  bilinear: (q, k, { bilinear }) => dot(q, matvec(bilinear, k)),
  additive: (q, k, { q_proj, k_proj, v_proj }) => {
    const keyed = matvec(k_proj, k);
    return dot(v_proj, matvec(q_proj, q).map((x, n) => Math.tanh(x + keyed[n])));
  },
};

function scoreMatrix(score, queries, keys, parameters = {}) {
  return Float64Array.from(
    queries.flatMap((q) => keys.map((k) => SCORES[score](q, k, parameters))),
  );
}

// (L, S) masks by name, 1 = may attend; the same rules as attn_notes.masks.
const MASKS = {
  none: () => 1,
  causal: (i, j) => j <= i,
  window: (i, j, size) => j <= i && i - j < size,
  prefix: (i, j, size) => j <= i || j < size,
  padding: (i, j, size) => j < size,
  block: (i, j, size) => ((i / size) | 0) === ((j / size) | 0),
};

function namedMask(name, L, S, size = 1) {
  return Uint8Array.from({ length: L * S }, (_, n) => +MASKS[name]((n / S) | 0, n % S, size));
}

function largest(values) {
  let top = 0;
  for (let n = 0; n < values.length; n++) if (values[n] > top) top = values[n];
  return top;
}

// ---------------------------------------------------------------- words

// C1 controls, line separators and marks that turn the text around them, isolates whose end could
// be forged, halves of a surrogate pair: as in attn_notes.widgets.encoding.
const UNPRINTABLE = [[0x80, 0x9f], [0x2028, 0x202e], [0x2066, 0x2069], [0xd800, 0xdfff]];

// A token as it can be drawn: control characters and lone spaces made visible.
function visible(token, most = 24) {
  const text = Array.from(String(token), (c) => {
    const code = c.codePointAt(0);
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    if (code === 127) return "\u2421";
    if (UNPRINTABLE.some(([first, last]) => code >= first && code <= last)) return "\ufffd";
    return c;
  });
  if (text.every((c) => c === " ")) return "\u2423".repeat(Math.max(1, Math.min(text.length, most)));
  return text.length > most ? text.slice(0, most - 1).join("") + "\u2026" : text.join("");
}

// First-strong isolates keep a right-to-left token from turning the words around it.
const quoted = (token, most) => `\u201c\u2068${visible(token, most)}\u2069\u201d`;
const shown = (x) => (Math.abs(x) >= 1000 ? x.toExponential(1) : x.toFixed(Math.abs(x) < 10 ? 3 : 1));

// ---------------------------------------------------------------- colours

// The 256 colours of matplotlib's cividis, six hexadecimal digits each.
const CIVIDIS =
  "00224e00234f00245100255300255400265600275800285900285b00295d002a5f002a61002b62002c64002c66002d68" +
  "002e6a002e6c002f6d00306f0030700031700031710132710533710833700c34700f357012357014367016377018376f" +
  "1a386f1c396f1e3a6f203a6f213b6e233c6e243c6e263d6e273e6e293f6e2a3f6d2b406d2d416d2e416d2f426d31436d" +
  "32436d33446d34456c35456c36466c38476c39486c3a486c3b496c3c4a6c3d4a6c3e4b6c3f4c6c404c6c414d6c424e6c" +
  "434e6c444f6c45506c46516c47516c48526c49536c4a536c4b546c4c556c4d556c4e566c4f576c50576c51586d52596d" +
  "535a6d545a6d555b6d555c6d565c6d575d6d585e6d595e6e5a5f6e5b606e5c616e5d616e5e626e5e636f5f636f60646f" +
  "61656f62656f636670646770656870656870666970676a71686a71696b716a6c716b6d726c6d726c6e726d6f726e6f73" +
  "6f70737071737172747272747273747374757474757575757676767777767777777878777979777a7a787b7a787c7b78" +
  "7d7c787e7c787e7d787f7e78807f78817f788280798381798482798582798683798784788885788985788a86788b8778" +
  "8c88788d88788e89788f8a78908b78918b78928c78928d78938e78948e77958f779690779791779892779992779a9376" +
  "9b94769c95769d95769e96769f9775a09875a19975a29975a39a74a49b74a59c74a69c74a79d73a89e73a99f73aaa073" +
  "aba072aca172ada272aea371afa471b0a571b1a570b3a670b4a76fb5a86fb6a96fb7a96eb8aa6eb9ab6dbaac6dbbad6d" +
  "bcae6cbdae6cbeaf6bbfb06bc0b16ac1b26ac2b369c3b369c4b468c5b568c6b667c7b767c8b866c9b965cbb965ccba64" +
  "cdbb63cebc63cfbd62d0be62d1bf61d2c060d3c05fd4c15fd5c25ed6c35dd7c45cd9c55cdac65bdbc75adcc859ddc858" +
  "dec958dfca57e0cb56e1cc55e2cd54e4ce53e5cf52e6d051e7d150e8d24fe9d34eead34cebd44bedd54aeed649efd748" +
  "f0d846f1d945f2da44f3db42f5dc41f6dd3ff7de3ef8df3cf9e03afbe138fce236fde334fee434fee535fee636fee838";
// The hues of attn_notes.palette.
const PALETTE = { categorical: ["#4a7fc1", "#b9812a", "#3f9a6b", "#cf5f57", "#9a70c4", "#2f97a3"],
  negative: "#3f7fbf", neutral: "#e9e6df", positive: "#c9643c" };

const rgb = (hex) => [0, 2, 4].map((n) => parseInt(hex.slice(n, n + 2), 16));
const mix = (a, b, t) => a.map((x, n) => Math.round(x + (b[n] - x) * t));
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// 256 colours as the words of an ImageData (little-endian: every browser there is).
const SEQUENTIAL = Uint32Array.from({ length: 256 }, (_, i) => packed(rgb(CIVIDIS.slice(6 * i, 6 * i + 6))));
const DIVERGING = Uint32Array.from({ length: 256 }, (_, i) => {
  const ends = [PALETTE.negative, PALETTE.neutral, PALETTE.positive].map((hex) => rgb(hex.slice(1)));
  const t = i / 127.5;
  return packed(t < 1 ? mix(ends[0], ends[1], t) : mix(ends[1], ends[2], t - 1));
});
const css = (word) => `rgb(${word & 255},${(word >> 8) & 255},${(word >> 16) & 255})`;
// Black on light and white on dark: WCAG's luminance, above which black has the more contrast.
const linear = (byte) => (byte <= 10 ? byte / 3294.6 : ((byte / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (word) => 0.2126 * linear(word & 255) + 0.7152 * linear((word >> 8) & 255) + 0.0722 * linear((word >> 16) & 255);
const inkOn = (word) => (luminance(word) > 0.179 ? "#000000" : "#ffffff");
const level = (x, low, high) => Math.max(0, Math.min(255, Math.round((255 * (x - low)) / (high - low || 1))));

// The page's colours as they are now; widgets.css defines them for light and dark.
function inks(el) {
  const style = getComputedStyle(el);
  const read = (name) => style.getPropertyValue(`--attn-${name}`).trim();
  return { paper: read("paper"), panel: read("surface"), ink: read("ink"), muted: read("muted"),
    line: read("rule"), accent: read("accent"), font: style.fontFamily };
}

// ---------------------------------------------------------------- life and state

// Everything that a widget starts, and one call that ends it all.
function lifetime(model) {
  const ends = [];
  const life = {
    onEnd: (end) => ends.push(end),
    watch(names, callback, source = model) { // a control may stand on a part of the model
      for (const name of names) {
        source.on(`change:${name}`, callback);
        ends.push(() => source.off && source.off(`change:${name}`, callback)); // some hosts have no off
      }
    },
    listen(target, type, callback, options) {
      target.addEventListener(type, callback, options);
      ends.push(() => target.removeEventListener(type, callback, options));
    },
    // Call back whenever the page turns dark or light.
    onTheme(callback) {
      const observer = new MutationObserver(callback);
      const watched = { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "class"] };
      observer.observe(document.documentElement, watched);
      if (document.body) observer.observe(document.body, watched);
      ends.push(() => observer.disconnect());
      life.listen(matchMedia("(prefers-color-scheme: dark)"), "change", callback);
    },
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

function put(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  if (model.save_changes) model.save_changes();
}

// A part of the model as a model for a control: `get()` reads it from these traits, `set(value)`
// sets them.
const part = (model, names, get, set) => ({
  get, set: (_, value) => set(value),
  save_changes: () => model.save_changes && model.save_changes(),
  on: (_, callback) => names.forEach((name) => model.on(`change:${name}`, callback)),
  off: (_, callback) => names.forEach((name) => model.off && model.off(`change:${name}`, callback)),
});

// ---------------------------------------------------------------- elements and controls

// An element with attributes and children; strings become text, never markup.
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
const withModifier = (event) => event.altKey || event.ctrlKey || event.metaKey;

// JupyterLab takes arrow keys away from focused elements unless they say this themselves.
const KEEP_KEYS = { "data-lm-suppress-shortcuts": "true" };
// Ids count on the document: in JupyterLab every widget has a copy of this file of its own.
const unique = (stem) => `attn-${stem}-${(document.attnNotesIds = (document.attnNotesIds || 0) + 1)}`;

function labelled(label, input, ...rest) {
  const id = unique("control");
  input.id = id;
  return h("div", { class: "attn-control" }, h("label", { for: id }, label), input, ...rest);
}

// Every number of two digits from `min` to `max`: a logarithmic scale, nearly, on which each step
// is a number that one can say, and a step back returns to where one was.
function twoDigits(min, max) {
  const all = [];
  for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power++) {
    for (let n = 10; n < 100; n++) all.push(Number(`${n}e${power - 1}`));
  }
  return all.filter((x) => x >= min && x <= max);
}
const sized = (x) => x.toFixed(x < 0.1 ? 3 : 2);

const nearest = (places, x) => places.reduce(
  (best, place, n) => (Math.abs(place - x) < Math.abs(places[best] - x) ? n : best), 0);

// A slider tied to a trait: from `min` to `max`, or over the numbers of the list `places`.
function slider(model, life, name, { label, min, max, step, places, format = (x) => String(x) }) {
  const into = places ? (x) => nearest(places, x) : (x) => x;
  const out = places ? (n) => places[n] : (x) => x;
  const ends = places ? { min: 0, max: places.length - 1, step: 1 } : { min, max, step };
  const input = h("input", { type: "range", ...ends, ...KEEP_KEYS });
  const output = h("output", {});
  const show = () => {
    input.value = into(model.get(name));
    output.textContent = format(model.get(name));
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
function choice(model, life, name, { label, choices }) {
  const input = h("select", KEEP_KEYS);
  let place = input;
  choices.forEach(([, text, heading = ""], n) => {
    if (heading !== (place.label || "")) {
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

function tick(model, life, name, { label }) {
  const input = h("input", { type: "checkbox", ...KEEP_KEYS });
  const show = () => { input.checked = model.get(name); };
  life.listen(input, "change", () => put(model, { [name]: input.checked }));
  life.watch([name], show, model);
  show();
  return labelled(label, input);
}

function button(life, label, onClick) {
  const el = h("button", { type: "button", ...KEEP_KEYS }, label);
  life.listen(el, "click", onClick);
  return el;
}

// A folded table that is filled only while it is open: `read()` gives {corner, columns, rows},
// each row [header, ...cells].
function foldedTable(life, summary, read) {
  const table = h("table", {});
  const details = h("details", { class: "attn-table" }, h("summary", KEEP_KEYS, summary),
    h("div", { class: "attn-scroll", tabindex: 0, role: "group", "aria-label": summary }, table));
  const fill = () => {
    if (!details.open) return;
    const { corner, columns, rows } = read();
    table.replaceChildren(
      h("thead", {}, h("tr", {}, h("td", {}, corner),
        ...columns.map((text) => h("th", { scope: "col" }, h("bdi", {}, text))))),
      h("tbody", {}, ...rows.map(([header, ...cells]) =>
        h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, header)), ...cells.map((text) => h("td", {}, text))))));
  };
  life.listen(details, "toggle", fill);
  return { el: details, fill };
}

// A canvas as wide as its place, sharp on every screen. `paint(context, width)` draws and
// `height(width)` says how tall it is.
function sharpCanvas(life, { label, height, paint, keyboard = false }) {
  const canvas = h("canvas", keyboard
    ? { tabindex: 0, role: "application", "aria-label": label, ...KEEP_KEYS }
    : { role: "img", "aria-label": label });
  const place = h("div", { class: "attn-canvas" }, canvas);
  let colours = null;
  const view = {
    el: place, canvas,
    get colours() { // a notebook draws before it puts us on the page, where no colour is known yet
      if (!colours || !colours.ink) colours = inks(canvas);
      return colours;
    },
    draw() {
      if (!place.clientWidth && place.isConnected) return; // folded away: drawn when it shows
      const width = Math.max(200, Math.floor(place.clientWidth || 600));
      const tall = Math.ceil(height(width));
      const ratio = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(tall * ratio);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${tall}px`;
      }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, tall);
      paint(context, width, tall);
    },
    // Where on the canvas an event happened, in CSS pixels.
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
  life.onResize(place, () => view.draw());
  return view;
}

// Dragging on a canvas: `grab(place)` says what is held from there on, or null for nothing, and
// `drag(held, place)` moves it.
function dragging(life, view, grab, drag) {
  let held = null;
  life.listen(view.canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    held = grab(view.at(event));
    if (held !== null) view.canvas.setPointerCapture(event.pointerId);
  });
  life.listen(view.canvas, "pointermove", (event) => { if (held !== null) drag(held, view.at(event)); });
  for (const type of ["pointerup", "pointercancel"]) life.listen(view.canvas, type, () => { held = null; });
}

// Fine diagonal lines: a cell that may not be read. One pattern a colour.
const HATCHES = {};
function hatch(context, colour) {
  if (HATCHES[colour]) return HATCHES[colour];
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
  pen.stroke();
  return (HATCHES[colour] = context.createPattern(tile, "repeat"));
}

// A frame that shows on every colour: dark inside light.
function outline(context, x, y, width, height) {
  for (const [colour, thick] of [["#ffffff", 5], ["#000000", 2]]) {
    context.strokeStyle = colour; context.lineWidth = thick;
    context.strokeRect(x, y, width, height);
  }
}

// From a place on a canvas to another.
function arrow(context, from, to, stroke, thick) {
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  context.strokeStyle = context.fillStyle = stroke; context.lineWidth = thick;
  context.beginPath(); context.moveTo(...from);
  context.lineTo(to[0] - 6 * Math.cos(angle), to[1] - 6 * Math.sin(angle)); context.stroke();
  context.beginPath(); context.moveTo(...to);
  for (const turn of [2.7, -2.7]) context.lineTo(to[0] + (7 + thick) * Math.cos(angle + turn), to[1] + (7 + thick) * Math.sin(angle + turn));
  context.fill();
}

// ---------------------------------------------------------------- the heatmap

const HINT = "Point at a cell, or focus the map and walk it with the arrow keys.";

// Rows are queries ("read"), columns are keys ("are read"). Call `show(data)` with
// {values, L, S, mask, queries, keys, top, signed, flat, power, room, broad, mark}; `onPick(i, j)` hears of the
// chosen cell, `onHover(i, j)` of the one pointed at, `onPaint` makes the map paintable. A flat map
// shows its mask alone: open cells in one colour. `room` is how many rows there will be, where not
// all are there yet, and `broad` how many columns; `mark` frames a row. `axes` says what else rows and columns are: {columns, rows,
// corner, cell(i, j)}.
const ATTENTION = { columns: "keys (are read)", rows: "queries (read)", corner: "query \u2193 key \u2192" };
function heatmap(life, { label, hint = HINT, tableLabel = "The numbers as a table", tallest = 42, widest = 3, onPick = () => {}, onHover = () => {}, onPaint = null }) {
  let data = null, place = null, pixels = null, hover = null, cursor = [0, 0], told = null;
  const readout = h("p", { class: "attn-readout", role: "status" }, hint);

  const name = (tokens, n) => (tokens ? quoted(tokens[n]) : String(n));
  function describe(i, j) {
    const { values, S, mask, queries, keys, flat, axes } = data;
    const pair = axes ? axes.cell(i, j) : `query ${name(queries, i)} (row ${i}), key ${name(keys, j)} (column ${j})`;
    if (mask && !mask[i * S + j]) return `${pair}: masked`;
    if (axes) return `${pair}: ${shown(values[i * S + j])}`;
    return flat ? `${pair}: open` : `${pair}: weight ${shown(values[i * S + j])}`;
  }

  function measure(width) {
    const { S, queries, keys, room: L = data.L, broad = S } = data;
    const pen = view.canvas.getContext("2d");
    pen.font = `600 12px ${view.colours.font}`;
    const longest = (tokens, size) => (tokens || [String(size)])
      .reduce((most, token) => Math.max(most, pen.measureText(visible(token, 14)).width), 0);
    const across = longest(keys, S);
    const left = Math.min(0.4 * width, 26 + longest(queries, L));
    const wide = (width - left - 10) / Math.max(broad, 1);
    const cell = Math.min(42, wide < 3 ? wide : Math.floor(wide), Math.max(widest, Math.floor(640 / Math.max(L, 1))));
    const tall = Math.min(tallest, Math.max(cell, Math.min(24, 60 / Math.max(L, 1)))); // a long row is no hairline
    const upright = across + 4 < cell; // short labels need no turning
    const below = upright ? 38 : 26 + Math.min(90, 0.87 * across + 10);
    return { left, top: 6, cell, tall, below, upright, width: cell * S, height: tall * L };
  }

  function paintCells(context) {
    const { values, L, S, mask, top = 1, signed = false, flat = false, power = 1 } = data;
    const colours = signed ? DIVERGING : SEQUENTIAL;
    const open = flat ? packed(rgb(view.colours.accent.slice(1))) : 0;
    if (!pixels || pixels.canvas.width !== S || pixels.canvas.height !== L) {
      const canvas = document.createElement("canvas");
      canvas.width = S; canvas.height = L;
      const pen = canvas.getContext("2d");
      pixels = { canvas, pen, image: pen.createImageData(S, L) };
      pixels.words = new Uint32Array(pixels.image.data.buffer);
    }
    const low = signed ? -top : 0;
    for (let n = 0; n < L * S; n++) {
      pixels.words[n] = mask && !mask[n] ? 0 : open || colours[level(values[n] ** power, low, top ** power)];
    }
    pixels.pen.putImageData(pixels.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels.canvas, place.left, place.top, place.width, L * place.tall);
    if (flat && place.cell >= 12) paintGrid(context);
    context.fillStyle = view.colours.panel; // rows that are still to come
    context.fillRect(place.left, place.top + L * place.tall, place.width, place.height - L * place.tall);
    if (!mask) return;
    context.beginPath();
    for (let i = 0; i < L; i++) {
      for (let j = 0, start = -1; j <= S; j++) { // a rectangle for each run of closed cells
        const closed = j < S && !mask[i * S + j];
        if (closed && start < 0) start = j;
        if (!closed && start >= 0) {
          context.rect(place.left + start * place.cell, place.top + i * place.tall, (j - start) * place.cell, place.tall);
          start = -1;
        }
      }
    }
    context.fillStyle = hatch(context, view.colours.muted);
    context.globalAlpha = 0.6;
    context.fill();
    context.globalAlpha = 1;
  }

  // Where all cells have one colour, what tells one from the next.
  function paintGrid(context) {
    context.beginPath();
    for (let i = 1; i < data.L; i++) { context.moveTo(place.left, place.top + i * place.tall); context.lineTo(place.left + place.width, place.top + i * place.tall); }
    for (let j = 1; j < data.S; j++) { context.moveTo(place.left + j * place.cell, place.top); context.lineTo(place.left + j * place.cell, place.top + data.L * place.tall); }
    context.strokeStyle = view.colours.paper; context.lineWidth = 1; context.stroke();
  }

  function paintNumbers(context) {
    const { values, L, S, mask, top = 1, signed = false, flat = false, power = 1 } = data;
    if (flat || Math.min(place.cell, place.tall) < 22 || place.cell < 32 || L * S > 150) return;
    const colours = signed ? DIVERGING : SEQUENTIAL;
    context.font = `${place.cell < 38 ? 10 : 11}px ${view.colours.font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    for (let n = 0; n < L * S; n++) {
      if (mask && !mask[n]) continue;
      context.fillStyle = inkOn(colours[level(values[n] ** power, signed ? -top : 0, top ** power)]);
      context.fillText(values[n].toFixed(Math.abs(values[n]) >= 10 ? 0 : 2),
        place.left + ((n % S) + 0.5) * place.cell, place.top + (((n / S) | 0) + 0.5) * place.tall);
    }
  }

  function paintLabels(context) {
    const { L, S, queries, keys, mark, axes = ATTENTION } = data;
    const active = hover || (document.activeElement === view.canvas ? cursor : null);
    const every = Math.max(1, Math.ceil(12 / place.cell)), everyRow = Math.max(1, Math.ceil(12 / place.tall));
    const write = (text, bold, room) => {
      context.font = `${bold ? "600 " : ""}12px ${view.colours.font}`;
      context.fillStyle = bold ? view.colours.ink : view.colours.muted;
      context.fillText(text, 0, 0, room);
    };
    for (let i = 0; i < L; i += everyRow) {
      context.save();
      context.translate(place.left - 6, place.top + (i + 0.5) * place.tall);
      context.textAlign = "right"; context.textBaseline = "middle";
      write(queries ? visible(queries[i], 14) : String(i), i === mark || (active && active[0] === i), place.left - 22);
      context.restore();
    }
    for (let j = 0; j < S; j += every) {
      context.save();
      context.translate(place.left + (j + 0.5) * place.cell, place.top + place.height + 6);
      context.textAlign = place.upright ? "center" : "right";
      context.textBaseline = place.upright ? "top" : "middle";
      if (!place.upright) context.rotate(-Math.PI / 3);
      write(keys ? visible(keys[j], 14) : String(j), active && active[1] === j, 100);
      context.restore();
    }
    context.fillStyle = view.colours.muted;
    context.font = `11px ${view.colours.font}`;
    context.textAlign = "center"; context.textBaseline = "bottom";
    const half = context.measureText(axes.columns).width / 2; // under a map of few columns it would begin outside
    context.fillText(axes.columns, Math.max(half, place.left + place.width / 2), place.top + place.height + place.below);
    context.save();
    context.translate(2, place.top + place.height / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = "top";
    if (place.height > 84) context.fillText(axes.rows, 0, 0);
    context.restore();
    if (mark != null && data.flat) { // where open cells have the accent's colour themselves
      outline(context, place.left, place.top + mark * place.tall, place.width, place.tall);
    } else if (mark != null) {
      context.strokeStyle = view.colours.accent; context.lineWidth = 2;
      context.strokeRect(place.left - 1, place.top + mark * place.tall, place.width + 2, place.tall);
    }
    if (active) {
      outline(context, place.left + active[1] * place.cell, place.top + active[0] * place.tall, place.cell, place.tall);
    }
  }

  // The cells from one to another, so that a quick stroke leaves no holes.
  function between([i, j], [k, l]) {
    const steps = Math.max(Math.abs(k - i), Math.abs(l - j));
    return Array.from({ length: steps }, (_, n) => [
      Math.round(i + ((k - i) * (n + 1)) / steps), Math.round(j + ((l - j) * (n + 1)) / steps)]);
  }

  const view = sharpCanvas(life, {
    label, keyboard: true,
    height(width) {
      if (!data) return 40;
      place = measure(width);
      return place.top + place.height + place.below + 4;
    },
    paint(context) {
      if (!data) return;
      if (data.L && data.S) paintCells(context);
      paintNumbers(context);
      paintLabels(context);
    },
  });

  if (onPaint) view.canvas.classList.add("attn-paint");
  function cellAt(event) {
    if (!data || !place) return null;
    const [x, y] = view.at(event);
    const j = Math.floor((x - place.left) / place.cell), i = Math.floor((y - place.top) / place.tall);
    return i >= 0 && j >= 0 && i < data.L && j < data.S ? [i, j] : null;
  }
  // Say what a cell holds, and go on saying it while the numbers change.
  function tell(cell) {
    told = cell;
    readout.textContent = describe(...cell);
  }
  function settle(cell) {
    if (!cell) return;
    cursor = cell;
    tell(cell);
    onPick(...cell);
  }
  life.listen(view.canvas, "pointermove", (event) => {
    const now = cellAt(event);
    if (String(now) === String(hover)) return;
    if (now && hover && onPaint && event.buttons & 1) {
      for (const cell of between(hover, now)) onPaint(...cell, "move");
    }
    hover = now;
    if (hover) { tell(hover); onHover(...hover); }
    view.draw();
  });
  life.listen(view.canvas, "pointerleave", () => { hover = null; view.draw(); });
  life.listen(view.canvas, "pointerdown", (event) => {
    const cell = event.button === 0 ? cellAt(event) : null;
    if (cell && onPaint) onPaint(...cell, "down");
    settle(cell);
  });
  life.listen(view.canvas, "focus", () => view.draw());
  life.listen(view.canvas, "blur", () => view.draw());
  life.listen(view.canvas, "keydown", (event) => {
    if (!data || !data.L || !data.S || withModifier(event)) return;
    const [i, j] = cursor;
    const go = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
      Home: [i, 0], End: [i, data.S - 1], PageUp: [0, j], PageDown: [data.L - 1, j] }[event.key];
    if (go) {
      event.preventDefault();
      hover = null;
      settle([Math.max(0, Math.min(data.L - 1, go[0])), Math.max(0, Math.min(data.S - 1, go[1]))]);
      view.draw();
    } else if (onPaint && (event.key === " " || event.key === "Enter")) {
      event.preventDefault();
      onPaint(i, j, "down");
      tell(cursor);
    }
  });

  const table = foldedTable(life, tableLabel, () => {
    const { values, L, S, mask, queries, keys, axes = ATTENTION } = data;
    const head = (tokens, n) => (tokens ? visible(tokens[n]) : String(n));
    return {
      corner: axes.corner,
      columns: Array.from({ length: S }, (_, j) => head(keys, j)),
      rows: Array.from({ length: L }, (_, i) => [head(queries, i), ...Array.from({ length: S },
        (_, j) => (mask && !mask[i * S + j] ? "masked" : data.flat ? "open" : shown(values[i * S + j])))]),
    };
  });

  return {
    el: h("div", { class: "attn-heatmap" }, view.el, readout), table: table.el, canvas: view.canvas,
    show(next) {
      data = next;
      cursor = [Math.min(cursor[0], Math.max(0, data.L - 1)), Math.min(cursor[1], Math.max(0, data.S - 1))];
      if (hover && (hover[0] >= data.L || hover[1] >= data.S)) hover = null;
      view.draw();
      if (told && (told[0] >= data.L || told[1] >= data.S)) told = null;
      if (told) tell(told);
      else readout.textContent = hint;
      table.fill();
    },
  };
}

// The colour scale: a strip from `low` to `top`, with its two numbers.
function colourScale(life) {
  let ends = [0, 1, false];
  const low = h("span", {}), high = h("span", {});
  const strip = h("canvas", { width: 128, height: 10, "aria-hidden": "true" });
  const view = h("div", { class: "attn-scale" }, low, strip, high);
  return {
    el: view,
    show(top, signed = false, power = 1) {
      ends = [signed ? -top : 0, top, signed];
      low.textContent = shown(ends[0]).replace(/\.?0+$/, "");
      high.textContent = shown(ends[1]).replace(/\.?0+$/, "");
      const context = strip.getContext("2d");
      for (let n = 0; n < 128; n++) {
        context.fillStyle = css((signed ? DIVERGING : SEQUENTIAL)[Math.round(255 * (n / 127.5) ** power)]);
        context.fillRect(n, 0, 1, 10);
      }
    },
  };
}

// A widget that is made anew whenever its data are: weights set in Python show at once.
const renewed = (render) => ({ model, el }) => {
  const life = lifetime(model);
  let end = render({ model, el });
  life.watch(["data"], () => {
    end();
    end = render({ model, el });
  });
  life.onEnd(() => end());
  return life.end;
};

// The frame of a widget: title, controls, then whatever it draws.
function frame(el, life, { title, controls = [], body }) {
  const root = h("div", { class: "attn-root" });
  if (title) root.append(h("p", { class: "attn-title" }, title));
  if (controls.length) root.append(h("div", { class: "attn-controls" }, ...controls));
  root.append(...body);
  el.append(root);
  life.onEnd(() => root.remove());
  return root;
}
