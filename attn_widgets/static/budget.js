// What a cache costs in bytes, and what saving on it does to a head's output, as Python has measured it.
// Traits: data {errors, heads, widths, measured, group, tokens, lengths, said}, method, kv_heads, latent, window, bits,
// length, num_layers, num_heads, head_dim.

import { checked, largest, minus, PALETTE } from "./numbers.js";
import { choice, foldedTable, frame, h, lifetime, put, sharpCanvas, slider } from "./controls.js";
import { folded } from "./folds.js";
import { write } from "./pen.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Model} Model */
/** @typedef {import("./pen.js").Pen} Pen */
/** @typedef {[setting: number, error: number][]} Measured */

// As in attn_widgets.budget.
const METHODS = ["full", "grouped", "single", "latent", "window", "bits"], FULL = 16, MOST = 4096, LONGEST = 2 ** 20;
const SETTINGS = { grouped: "kv_heads", latent: "latent", window: "window", bits: "bits" };
const NAMES = { full: "all heads (MHA)", grouped: "grouped (GQA)", single: "one head (MQA)", latent: "latent (MLA)",
  window: "window", bits: "fewer bits" };
const SERIES = { grouped: "heads", latent: "latent", window: "window", bits: "bits" }; // as the plot names them
const [, KEY, VALUE, WRONG, , LATENT] = PALETTE.categorical;

// ---------------------------------------------------------------- what is shown

/**
 * What the traits say, checked.
 * @param {Model} model
 */
function readBudget(model) {
  const data = model.get("data"), { errors, group, tokens, measured: [heads, width] } = data;
  /** @type {(name: string, all: number[]) => number} */
  const offered = (name, all) => {
    const value = model.get(name);
    if (!all.includes(value)) throw new RangeError(`${name} must be one of ${all}, got ${value}`);
    return value;
  };
  const chosen = Object.fromEntries(Object.entries(SETTINGS).map(([method, name]) => [method,
    offered(name, errors[method].map(([setting]) => checked(setting, MOST)))]));
  const H = offered("num_heads", data.heads.map((n) => checked(n, MOST)));
  const D = offered("head_dim", data.widths.map((n) => checked(n, MOST)));
  const length = offered("length", data.lengths.map((n) => checked(n, LONGEST)));
  const method = model.get("method"), layers = checked(model.get("num_layers"), 128);
  const isKnown = METHODS.includes(method) && layers && checked(tokens, LONGEST);
  if (!isKnown) throw new RangeError("the budget has no such setting");
  return { errors, chosen, H, D, length, method, layers, group, tokens, heads, width };
}
/** @typedef {ReturnType<typeof readBudget>} Settings */

// The setting of a method in a model of this size: heads, numbers, tokens or bits.
/** @type {(now: Settings, method: string, chosen?: number) => number} */
function settingOf({ chosen: all, H, D, heads, width }, method, chosen = all[method]) {
  if (method === "full" || method === "single") return method === "full" ? H : 1;
  if (method === "grouped") return (chosen * H) / heads;
  return method === "latent" ? Math.round((chosen * H * D) / (heads * width)) : chosen;
}

// What a method costs in bytes, at its setting or another: {perToken, total}, for each token of the measured texts, and
// for a text of the length that is set.
/** @type {(now: Settings, method: string, chosen?: number) => { perToken: number, total: number }} */
function costOf(now, method, chosen = now.chosen[method]) {
  const { H, D, length, layers, group, tokens } = now, setting = settingOf(now, method, chosen);
  const numbers = method === "latent" ? setting : 2 * D * (method === "grouped" || method === "single" ? setting : H);
  const bits = method === "bits" && setting < FULL ? setting + (2 * FULL) / group : FULL;
  const kept = (numbers * bits) / 8, reach = method === "window" ? setting : Infinity;
  return { perToken: kept * Math.min(1, reach / tokens), total: kept * Math.min(length, reach) * layers };
}

// The bytes of a method for each token of the measured texts, as a share of those of all heads.
/** @type {(now: Settings, method: string, chosen?: number) => number} */
const shareOf = (now, method, chosen) => costOf(now, method, chosen).perToken / costOf(now, "full").perToken;

// As it was measured; NaN for a key that more heads share than were measured.
/** @type {(now: Settings, method: string) => number} */
function errorOf({ errors, chosen, H, heads }, method) {
  if (method === "full") return 0;
  if (method === "single") return H === heads ? errors.grouped[0][1] : NaN;
  return errors[method].find(([setting]) => setting === chosen[method])[1];
}

// ---------------------------------------------------------------- words

// Three digits and a unit.
function inBytes(number) {
  let size = number, unit = 0;
  for (; size >= 1000 && unit < 4; unit++) size /= 1024;
  return `${Number(size.toPrecision(3))} ${["bytes", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
const errorWords = (x) => (Number.isNaN(x) ? "not measured" : x.toFixed(x < 0.0995 ? 3 : 2));

function settingWords(now, method) {
  const setting = settingOf(now, method);
  return { full: `${setting} of ${setting}`, grouped: `${setting} of ${now.H}`, single: `1 of ${now.H}`,
    latent: `${setting} numbers`, window: `${setting} tokens`, bits: `${setting} bits` }[method];
}

function sentence(now) {
  const { method, length, layers } = now, { perToken, total } = costOf(now, method), all = costOf(now, "full");
  const error = errorOf(now, method), share = Math.round((1000 * perToken) / all.perToken) / 10;
  const less = method === "full" ? "" : `, ${share < 0.1 ? "less than 0.1" : share} % of what all heads keep`;
  const cost = `${Number(perToken.toFixed(2))} bytes a token and layer${less}`;
  const where = `${layers} layer${layers > 1 ? "s" : ""}`;
  const off = { full: "Nothing is lost." }[method] || (Number.isNaN(error)
    ? "Its error was not measured with so many heads."
    : `Error ${errorWords(error)}.`);
  const name = NAMES[method][0].toUpperCase() + NAMES[method].slice(1);
  return `${name}, ${settingWords(now, method)}: ${cost}. ${off} A text of ${grouped(length)} tokens takes `
    + `${inBytes(total)} in ${where}.`;
}

// ---------------------------------------------------------------- the bars

const TOP = 18, COLUMN = 78; // pixels: above the first method, of the error's number
const rowOn = (width) => (width < 400 ? 31 : 36); // and of a method

// The bytes of one method: keys and values, or a latent.
function paintBar({ context }, now, method, [left, top, room, high]) {
  const long = Math.max(1, room * shareOf(now, method));
  context.fillStyle = method === "latent" ? LATENT : KEY; context.fillRect(left, top, long, high);
  if (method === "latent") return;
  context.fillStyle = VALUE; context.fillRect(left + long / 2, top, long / 2, high);
}

// The error of a full bar.
const worstOf = (now) => Math.max(1, ...METHODS.map((method) => errorOf(now, method) || 0));

function paintRow(pen, now, method, n, width) {
  const { context, colours } = pen, row = rowOn(width), y = TOP + n * row, right = width - COLUMN;
  const isLit = method === now.method, error = errorOf(now, method);
  const style = { colour: isLit ? colours.ink : colours.muted, bold: isLit, size: 12 };
  if (isLit) {
    context.fillStyle = colours.panel; context.fillRect(0, y, width, row - 2);
    context.fillStyle = colours.accent; context.fillRect(0, y, 3, row - 2);
  }
  write(pen, NAMES[method], 9, y + 10, style);
  write(pen, settingWords(now, method), 15 + context.measureText(NAMES[method]).width, y + 10);
  write(pen, grouped(Math.round(costOf(now, method).perToken)), right - 12, y + 10, { ...style, align: "right" });
  write(pen, errorWords(error), width - 4, y + 10, { ...style, align: "right" });
  context.globalAlpha = isLit ? 1 : 0.6;
  paintBar(pen, now, method, [9, y + 19, right - 21, 8]);
  context.fillStyle = WRONG;
  context.fillRect(right, y + 19, (COLUMN - 4) * ((error || 0) / worstOf(now)), 8);
  context.globalAlpha = 1;
}

/**
 * A row for each method; `choose` hears which is pressed.
 * @param {Life} life
 * @param {() => Settings} current
 * @param {(method: string) => void} choose
 */
function barsView(life, current, choose) {
  const view = sharpCanvas(life, {
    label: "For each way to keep keys and values its bytes and its error; press one to choose it. "
      + "The numbers are in the table.",
    height: (width) => TOP + METHODS.length * rowOn(width),
    paint(context, width) {
      const pen = { context, colours: view.colours };
      write(pen, "keys", 9, 7, { colour: KEY, bold: true });
      write(pen, "values", 42, 7, { colour: VALUE, bold: true });
      write(pen, "bytes a token", width - COLUMN - 12, 7, { align: "right" });
      write(pen, "error", width - 4, 7, { align: "right" });
      METHODS.forEach((method, n) => paintRow(pen, current(), method, n, width));
    } });
  view.canvas.classList.add("attn-press");
  life.listen(view.canvas, "click", (event) => {
    const n = Math.floor((view.at(event)[1] - TOP) / rowOn(view.canvas.clientWidth));
    if (METHODS[n]) choose(METHODS[n]);
  });
  return view;
}

// ---------------------------------------------------------------- bytes against error

const LEFT = 34, RIGHT = 12, FLOOR = 40, HEAD = 20; // pixels around the plot

// Every measured setting as a place: {method, setting, share of all heads' bytes, error}.
function placesOf(now) {
  return Object.keys(SETTINGS).flatMap((method) => now.errors[method].map(([setting, error]) => (
    { method, setting, error, share: shareOf(now, method, setting) })));
}

// Where things lie on a plot of this size.
function plotOn(width, height, places) {
  const least = Math.floor(Math.log2(Math.min(1 / 16, ...places.map(({ share }) => share))));
  const most = Math.max(0.5, Math.ceil(10 * largest(places.map(({ error }) => error))) / 10);
  const x = (share) => LEFT + (1 - Math.log2(share) / least) * (width - LEFT - RIGHT);
  const y = (error) => height - FLOOR - (error / most) * (height - FLOOR - HEAD);
  return { least, most, x, y, floor: height - FLOOR, right: width - RIGHT };
}

function paintAxes(pen, now, { least, most, x, y, floor, right }) {
  const { context, colours } = pen, every = Math.max(1, Math.round(-least / 5));
  context.strokeStyle = colours.line; context.lineWidth = 1;
  for (const error of [0, most / 2, most]) {
    context.beginPath(); context.moveTo(LEFT, y(error)); context.lineTo(right, y(error)); context.stroke();
    write(pen, String(Number(error.toFixed(2))), LEFT - 5, y(error), { align: "right" });
  }
  const all = costOf(now, "full").perToken, first = Math.floor(Math.log2(all));
  for (let power = first; 2 ** power >= all * 2 ** least; power -= every) {
    const words = power < 0 ? `1/${2 ** -power}` : grouped(2 ** power);
    write(pen, words, Math.max(LEFT + 12, Math.min(right - 8, x(2 ** power / all))), floor + 12, { align: "center" });
  }
  write(pen, "error", 2, 8);
  write(pen, `bytes a token, measured on texts of ${now.tokens} tokens`, right + 8, floor + 30, { align: "right" });
}

// One method's settings, joined; the chosen one has a ring.
function paintSeries(pen, now, method, places, { x, y }) {
  const { context, colours } = pen, isLit = method === seriesOf(now);
  const mine = places.filter((one) => one.method === method); // the least setting, and share, first
  context.globalAlpha = isLit ? 1 : 0.5;
  context.strokeStyle = context.fillStyle = isLit ? colours.accent : colours.muted;
  context.lineWidth = isLit ? 2 : 1.2;
  context.beginPath();
  mine.forEach(({ share, error }) => context.lineTo(x(share), y(error)));
  context.stroke();
  for (const { share, error } of mine) {
    context.beginPath(); context.arc(x(share), y(error), isLit ? 4 : 2.5, 0, 7); context.fill();
  }
  context.globalAlpha = 1;
}

// The names of the lines, each beside its first point, where it covers least.
function paintNames(pen, now, places, { x, y, right }) {
  const taken = places.map((one) => [x(one.share) - 5, y(one.error) - 5, x(one.share) + 5, y(one.error) + 5]);
  const covered = (a) => taken.reduce((sum, b) => sum + Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]))
    * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1])), 0);
  for (const method of Object.keys(SETTINGS)) {
    const isLit = method === seriesOf(now), first = places.find((one) => one.method === method);
    pen.context.font = `600 11px ${pen.colours.font}`;
    const wide = pen.context.measureText(SERIES[method]).width, [a, b] = [x(first.share), y(first.error)];
    const ways = [11, 0, 24].flatMap((far) => [[6, -far], [6, far], [-wide - 6, -far], [-wide - 6, far]])
      .map(([dx, dy]) => {
        const left = Math.max(LEFT + 2, Math.min(right - wide, a + dx)), top = Math.max(8, b + dy);
        return [left, top - 7, left + wide, top + 7];
      });
    const best = ways.reduce((one, other) => (covered(other) < covered(one) ? other : one));
    taken.push(best);
    write(pen, SERIES[method], best[0], best[1] + 7, { colour: isLit ? pen.colours.ink : undefined, bold: isLit });
  }
}
const seriesOf = ({ method }) => (method === "single" ? "grouped" : method);

function paintRing({ context, colours }, now, { x, y }) {
  const { method } = now, error = errorOf(now, method);
  if (Number.isNaN(error)) return;
  const place = [x(shareOf(now, method)), y(error)];
  context.beginPath(); context.arc(place[0], place[1], 7.5, 0, 7);
  context.strokeStyle = colours.ink; context.lineWidth = 2; context.stroke();
}

/**
 * Every measured setting by what it keeps and how far it is off; `choose` hears which is pressed.
 * @param {Life} life
 * @param {() => Settings} current
 * @param {(method: string, setting: number) => void} choose
 */
function plotView(life, current, choose) {
  let plot = null;
  const view = sharpCanvas(life, {
    label: "Every measured setting: the bytes that it keeps across, its error upwards; press one to choose it.",
    height: (width) => (width < 380 ? 178 : 234),
    paint(context, width, height) {
      const pen = { context, colours: view.colours }, now = current(), places = placesOf(now);
      plot = plotOn(width, height, places);
      paintAxes(pen, now, plot);
      for (const method of Object.keys(SETTINGS)) paintSeries(pen, now, method, places, plot);
      paintNames(pen, now, places, plot);
      paintRing(pen, now, plot);
    } });
  view.canvas.classList.add("attn-press");
  life.listen(view.canvas, "click", (event) => {
    const [a, b] = view.at(event);
    const far = placesOf(current()).map((one) => (
      { ...one, away: Math.hypot(plot.x(one.share) - a, plot.y(one.error) - b) }));
    const nearest = far.reduce((best, one) => (one.away < best.away ? one : best));
    if (nearest.away < 24) choose(nearest.method, nearest.setting);
  });
  return view;
}

// ---------------------------------------------------------------- tables and controls

function tablesOf(life, current) {
  return [foldedTable(life, "The bars as a table", () => ({ corner: "kept",
    columns: ["setting", "bytes a token and layer", "in all", "error"],
    rows: METHODS.map((method) => {
      const now = current(), { perToken, total } = costOf(now, method);
      return [NAMES[method], String(settingOf(now, method)), String(Number(perToken.toFixed(3))), inBytes(total),
        Number.isNaN(errorOf(now, method)) ? "not measured" : errorOf(now, method).toFixed(4)];
    }) })),
  foldedTable(life, "All errors as a table", () => ({ corner: "kept",
    columns: ["setting", "bytes a token and layer", "error"],
    rows: Object.keys(SETTINGS).flatMap((method) => current().errors[method].map(([setting, error]) => [NAMES[method],
      String(settingOf(current(), method, setting)),
      String(Number(costOf(current(), method, setting).perToken.toFixed(3))), error.toFixed(4)])) }))];
}

const LABELS = { grouped: "Key-value heads", latent: "Numbers of the latent", window: "Tokens of the window",
  bits: "Bits a number" };

// A slider for the setting of each method, of which one is seen.
function settingControls(model, life, { errors }) {
  const all = Object.keys(SETTINGS).map((method) => {
    const places = errors[method].map(([setting]) => setting), name = SETTINGS[method];
    const format = (x) => minus(String(settingOf(readBudget(model), method, x)));
    return { method, el: slider(model, life, name, { label: LABELS[method], places, format }) };
  });
  const renew = () => all.forEach(({ method, el }) => {
    el.hidden = method !== model.get("method");
    const now = readBudget(model), output = el.querySelector("output"), text = String(settingOf(now, method));
    output.textContent = text; // a larger model has more of the same share
    el.querySelector("input").setAttribute("aria-valuetext", text);
  });
  return { els: all.map(({ el }) => el), renew };
}

function controlsFor(model, life, data) {
  const setting = settingControls(model, life, data);
  const opens = ["length", "num_layers", "num_heads", "head_dim"];
  const more = folded(model, life, "Length of the text, size of the model", { opens },
    h("div", { class: "attn-controls" },
      slider(model, life, "length", { label: "Length", places: data.lengths }),
      slider(model, life, "num_layers", { label: "Layers", min: 1, max: 128, step: 1 }),
      slider(model, life, "num_heads", { label: "Heads", places: data.heads }),
      slider(model, life, "head_dim", { label: "Numbers of a head", places: data.widths })));
  return { more, renew: setting.renew, row: [
    choice(model, life, "method", { label: "Keep", choices: METHODS.map((method) => [method, NAMES[method]]) }),
    ...setting.els] };
}

// ---------------------------------------------------------------- the widget

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), data = model.get("data");
  let now = readBudget(model);
  const current = () => now, controls = controlsFor(model, life, data), tables = tablesOf(life, current);
  const bars = barsView(life, current, (method) => put(model, { method }));
  const plot = plotView(life, current, (method, setting) => put(model, { method, [SETTINGS[method]]: setting }));
  const words = h("p", { class: "attn-said", role: "status" });
  const note = h("p", { class: "attn-note" }, `Error: how far the heads\u2019 outputs are from those with everything `
    + `kept, relative to their length. Measured on ${data.said}; nothing was trained anew.`);
  function draw() {
    now = readBudget(model);
    controls.renew();
    bars.ask(); plot.ask();
    words.textContent = sentence(now);
    tables.forEach((table) => table.fill());
  }
  const picture = [h("div", { class: "attn-panels attn-budget" }, bars.el, plot.el), words];
  frame(el, life, { picture, controls: controls.row, more: [controls.more],
    body: [note, h("div", { class: "attn-columns" }, ...tables.map((table) => table.el))] });
  life.watch(["method", ...Object.values(SETTINGS), "length", "num_layers", "num_heads", "head_dim"], draw);
  draw();
  return life.end;
}

export default { render };
