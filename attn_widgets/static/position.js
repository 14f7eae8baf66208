// Positions under one slider: clock hands, the encoding's row, the similarity curve, a pair that turns.
// Traits: data {length, dimensions, bases, schemes}, scheme, embed_dim, base, position,
// distance (the other position is position - distance), pair (of ALiBi the head), unlike.

import { checked, largest, maskedSoftmax, minus, PALETTE, shown } from "./numbers.js";
import {
  arrow, choice, dragging, foldedTable, frame, h, lifetime, part, put, sharpCanvas, slider, tick,
} from "./controls.js";
import { colourScale } from "./weights.js";
import { folded } from "./folds.js";
import { tabsOnPhone } from "./tabs.js";
import { heatmap } from "./map.js";
import { ATTENTION } from "./map_layout.js";

/** @typedef {import("./controls.js").Life} Life */

const HEADS = 8, APART = 2.4; // as in attn_widgets.position
const LARGEST = 4096; // positions, or dimensions
const NARROWEST = 38; // pixels of a clock, so that eight stand in a row on a phone
const [QUERY, KEY] = PALETTE.categorical; // the hues of the position and of the other
const slope = (head) => 2 ** (-8 * (head + 1) / HEADS);
const speed = (j, { width, base }) => base ** ((-2 * j) / width);

// (count, width): the encodings of the positions from `first` on; where a scheme adds none, a query
// that is (1, 0) in each pair, or a key, as it stands or turned to them.
function positionVectors(settings, first, count, key = false) {
  const { scheme, width, unlike } = settings;
  const out = new Float64Array(count * width), clocks = scheme === "sinusoidal";
  for (let j = 0; j < width / 2; j++) {
    const start = key && unlike ? APART * (j + 1) : 0;
    const step = clocks || scheme === "rotary" ? speed(j, settings) : 0;
    for (let n = 0; n < count; n++) {
      const angle = (first + n) * step + (clocks ? 0 : start);
      const sine = Math.sin(angle), cosine = Math.cos(angle);
      out[n * width + 2 * j] = clocks ? sine : cosine;
      out[n * width + 2 * j + 1] = clocks ? cosine : sine;
    }
  }
  return out;
}

// (count, L): what ALiBi adds to a head's scores of the queries from `first` on.
const alibiBias = (head, L, first = 0, count = L) => Float64Array.from({ length: count * L },
  (_, n) => -slope(head) * Math.abs(first + ((n / L) | 0) - (n % L)));

// (L,): the dot product of a position, or of the query there, with each position from `first` on; of
// ALiBi the weights that a head gives them where all scores are alike.
function similarities(settings, position, first, L, head = 0) {
  if (settings.scheme === "alibi") return maskedSoftmax(alibiBias(head, L, position, 1), null, 1, L);
  const mine = positionVectors(settings, position, 1);
  const theirs = positionVectors(settings, first, L, true);
  return Float64Array.from({ length: L }, (_, n) =>
    mine.reduce((sum, x, d) => sum + x * theirs[n * settings.width + d], 0));
}

// (L, width) in L rows: the largest squared length that one has.
const longest = (rows, width) => largest(Float64Array.from({ length: rows.length / width }, (_, n) =>
  rows.subarray(n * width, (n + 1) * width).reduce((sum, x) => sum + x * x, 0)));

const grouped = (x) => x.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
const period = (j, settings) => {
  const x = (2 * Math.PI) / speed(j, settings);
  return x < 100 ? x.toFixed(1) : x < 1e4 ? grouped(x) : x < 1e6
    ? `${Math.round(x / 1e3)}k` : `${(x / 1e6).toFixed(1)}M`;
};

// What the views show, in words: a sentence each for the clocks, the pair, the matrix and the curve.
function sentences(now, { theirs, value, most }) {
  const { scheme, count, chosen, i, other, apart, unlike, length } = now;
  const turn = speed(chosen, now);
  const by = `${apart} \u00d7 ${turn.toPrecision(4)} = ${(apart * turn).toPrecision(4)} rad`;
  const lost = apart * slope(chosen);
  const turns = `One turn takes ${period(0, now)} positions in pair 0 `
    + `and ${period(count - 1, now)} in pair ${count - 1}.`;
  const adds = `Row ${i} is what position ${i} adds to its token`;
  const keeps = "Move the position: the curve goes along and keeps its shape.";
  const all = {
    none: ["No clock runs: the hands stay where the content puts them.",
      "Nothing is turned: query and key point where their content says, at every position.",
      "All rows are alike: nothing says where a token stands.",
      `Query at ${i} with key at ${other}: ${value}, and the same from everywhere.`],
    sinusoidal: [`${turns} The thin hands stand at position ${other}.`,
      `From ${other} to ${i} the hand turns by ${by}, wherever the two stand.`,
      `${adds}: sines in even columns, cosines in odd ones.`,
      `Position ${i} with position ${other}: ${value} of at most ${most}. ${keeps}`],
    rotary: [`${turns} The thin hands are the key's, at ${other}.`,
      `Query and key are turned apart by ${by}, wherever they stand`
        + `${unlike ? "; their contents are apart besides" : ""}.`,
      `Row ${i}: a query that is (1, 0) in each pair, turned to position ${i}.`,
      `Query at ${i} with key at ${other}: ${value}${unlike ? "" : ` of at most ${most}`}. ${keeps}`],
    alibi: ["No clocks: for each position away a head takes its slope off the score, much in head 0, "
      + "hardly anything in head 7.",
      `A key ${apart} away loses ${apart} \u00d7 1/${1 / slope(chosen)} = ${shown(lost)} in head ${chosen}, `
        + "wherever the two stand.",
      `Row ${i}: what head ${chosen} takes off the scores of the query at ${i}.`,
      `Where all scores are alike, head ${chosen} gives position ${other} the weight ${value}.`],
  }[scheme];
  const none = `There is no position ${other}: the text goes from 0 to ${length - 1}.`;
  return theirs ? all : [all[0], none, all[2], none];
}
function titles({ i, chosen, adds, bias }) {
  if (bias) {
    return ["Slopes, one a head", `Head ${chosen}: what it takes off`, `Bias of head ${chosen}`,
      `Weights that the query at ${i} gives`];
  }
  return ["Clocks, one a pair of dimensions", `Pair ${chosen}: dimensions ${2 * chosen} and ${2 * chosen + 1}`,
    ...(adds ? ["The encoding", `Dot product of position ${i} with each`]
      : ["A query at each position", `Score of the query at ${i} with a key at each`])];
}

// ---------------------------------------------------------------- lines and discs

// A line through places, and a disc with an edge.
function trace(context, colour, thick, places) {
  context.beginPath(); places.forEach(([x, y]) => context.lineTo(x, y));
  context.strokeStyle = colour; context.lineWidth = thick; context.stroke();
}
function disc(context, place, r, fill, edge, thick = 1) {
  context.beginPath(); context.arc(place[0], place[1], r, 0, 7);
  context.fillStyle = fill; context.fill();
  context.strokeStyle = edge; context.lineWidth = thick; context.stroke();
}
// ALiBi's slope of a head: what is lost on both sides of a query; its place at a share of the width.
const onTent = (place, r, head, share) => [place[0] + 0.85 * r * share,
  place[1] + r * (2.2 * slope(head) * Math.abs(share) - 0.55)];
const tent = (context, place, r, head, colour, thick) =>
  trace(context, colour, thick, [-1, 0, 1].map((share) => onTent(place, r, head, share)));

// ---------------------------------------------------------------- what is on show

// What the traits say.
function readSettings(model, L) {
  const scheme = model.get("scheme"), width = checked(model.get("embed_dim"), LARGEST);
  const bias = scheme === "alibi", count = bias ? HEADS : width / 2;
  const i = model.get("position"), distance = model.get("distance"), other = i - distance;
  return { scheme, width, base: model.get("base"), unlike: model.get("unlike"), count, i, other,
    apart: Math.abs(distance), length: L, bias,
    chosen: Math.min(model.get("pair"), count - 1), inside: other >= 0 && other < L,
    adds: scheme === "sinusoidal", turns: scheme === "sinusoidal" || scheme === "rotary" };
}

/**
 * The settings with what they give.
 * @typedef {ReturnType<typeof readShown>} Shown
 */
// Vectors of all positions, of this one, and of the other or null; the curve, and the most that it can be.
function readShown(model, L) {
  const settings = readSettings(model, L), { width, i, other, chosen, bias, inside } = settings;
  const rows = positionVectors(settings, 0, L);
  return { ...settings, rows, mine: positionVectors(settings, i, 1),
    theirs: inside || !bias ? positionVectors(settings, other, 1, true) : null,
    curve: similarities(settings, i, 0, L, chosen),
    most: bias ? similarities(settings, 0, 0, L)[0] : longest(rows, width) || 1 }; // the same wherever one stands
}

// ---------------------------------------------------------------- clocks, one a pair

/**
 * The hand of the position, and a thin one of the other; `choose` hears which clock is pressed.
 * @param {Life} life
 * @param {() => Shown} current
 * @param {(pair: number) => void} choose
 */
function clockView(life, current, choose) {
  let clock = { per: 1, side: 46, height: 60 };
  const view = sharpCanvas(life, {
    label: "A clock for each pair of dimensions, or a slope for each head; press one to choose it.",
    height(width) {
      const { count } = current();
      const per = Math.ceil(count / Math.ceil(count / Math.max(1, Math.floor(width / NARROWEST))));
      const side = Math.min(64, width / per);
      clock = { per, side, height: side + 14 };
      return Math.ceil(count / per) * clock.height + 2;
    },
    paint(context) {
      const { colours } = view, now = current(), { count, chosen, bias, turns, mine, theirs } = now;
      const { per, side, height } = clock, r = side / 2 - 4;
      const scale = (0.88 * r) / Math.sqrt(longest(now.rows, 2) || 1);
      context.font = `10px ${colours.font}`;
      context.textAlign = "center";
      context.textBaseline = "top";
      context.lineCap = "round";
      for (let n = 0; n < count; n++) {
        const lit = n === chosen, x = ((n % per) + 0.5) * side, y = ((n / per) | 0) * height + side / 2 + 1;
        const hand = (vector, colour, thick) => vector
          && trace(context, colour, thick, [[x, y], [x + scale * vector[2 * n], y - scale * vector[2 * n + 1]]]);
        disc(context, [x, y], r, colours.panel, lit ? colours.ink : colours.line, lit ? 2.5 : 1);
        if (bias) tent(context, [x, y], r, n, QUERY, 2);
        else { hand(mine, QUERY, 3); hand(theirs, KEY, 1.5); }
        context.fillStyle = lit ? colours.ink : colours.muted;
        context.fillText(bias ? `1/${1 / slope(n)}` : turns ? period(n, now) : String(n), x, y + r + 4);
      }
    } });
  view.canvas.classList.add("attn-press");
  life.listen(view.canvas, "click", (event) => {
    const [x, y] = view.at(event), across = Math.floor(x / clock.side);
    const n = Math.floor(y / clock.height) * clock.per + across;
    if (across < clock.per && n < current().count) choose(n);
  });
  return view;
}

// ---------------------------------------------------------------- the chosen pair, or the chosen slope

function writeAt(context, text, x, y, align = "center") {
  context.textAlign = align;
  context.fillText(String(text), x, y);
}

function paintSlopes(context, colours, { chosen, count, i, other, theirs, length }, middle, r) {
  const [x, y] = middle, far = length - 1, top = [x, y - 0.15 * r];
  for (let head = 0; head < count; head++) if (head !== chosen) tent(context, top, r, head, colours.muted, 0.7);
  tent(context, top, r, chosen, QUERY, 2.5);
  for (const end of [-1, 0, 1]) writeAt(context, Math.abs(end) * far, x + 0.85 * r * end, y + 0.65 * r);
  writeAt(context, "positions away", x, y + 0.85 * r);
  if (theirs) disc(context, onTent(top, r, chosen, (other - i) / far), 5, KEY, colours.paper, 1.5);
}

// The plane with its axes, and where in it the pair of each position ends.
function paintAxes(context, colours, chosen, middle, r, ends) {
  const [x, y] = middle;
  writeAt(context, `dimension ${2 * chosen}`, 2 * x - 8, y + r + 20, "right");
  writeAt(context, `dimension ${2 * chosen + 1}`, x, 8);
  disc(context, middle, r, "transparent", colours.line);
  trace(context, colours.line, 1, [[x - r - 10, y], [x + r + 10, y]]);
  trace(context, colours.line, 1, [[x, y - r - 10], [x, y + r + 10]]);
  for (const end of ends) disc(context, end, 1.5, colours.muted, "transparent");
}

// The names of both arrows beyond their ends, and on the canvas; of arrows that meet, one name.
function nameArrows(context, colours, { adds, i, other }, middle, mine, theirs) {
  const [x, y] = middle;
  const name = (text, [u, v]) => {
    const room = context.measureText(text).width, left = u < x ? u - 6 - room : u + 6;
    writeAt(context, text, Math.max(0, Math.min(2 * x - 8 - room, left)), v + (v > y ? 10 : -10), "left");
  };
  const [one, two] = adds ? [i, other] : [`query ${i}`, `key ${other}`];
  const close = theirs && Math.hypot(mine[0] - theirs[0], mine[1] - theirs[1]) < 20;
  context.font = `600 12px ${colours.font}`; context.fillStyle = colours.ink;
  if (theirs && !close) name(String(two), theirs);
  name(close ? `${one}, ${two}` : String(one), mine);
}

function paintPair(context, colours, now, middle, r) {
  const { chosen, i, other, turns, adds, unlike, scheme, count, rows } = now, [x, y] = middle;
  const ends = [];
  for (let n = chosen; n < rows.length / 2; n += count) ends.push([rows[2 * n], rows[2 * n + 1]]);
  const reach = Math.max(...ends.map((end) => Math.hypot(...end))) || 1;
  /** @returns {import("./controls.js").Point} */
  const place = ([a, b]) => [x + (r * a) / reach, y - (r * b) / reach];
  const pair = (vector) => place([vector[2 * chosen], vector[2 * chosen + 1]]);
  const mine = pair(now.mine), theirs = now.theirs && pair(now.theirs);
  paintAxes(context, colours, chosen, middle, r, ends.map(place));
  if (turns && (adds || !unlike)) { // the angle between, the way it was turned
    const from = Math.atan2(theirs[1] - y, theirs[0] - x);
    const sweep = (i - other) * speed(chosen, now) * (scheme === "rotary" ? -1 : 1);
    context.beginPath(); context.arc(x, y, 0.32 * r, from, from + sweep, sweep < 0);
    context.strokeStyle = colours.muted; context.lineWidth = 1.5; context.stroke();
  }
  if (theirs) arrow(context, middle, theirs, KEY, 2);
  arrow(context, middle, mine, QUERY, 2.6);
  nameArrows(context, colours, now, middle, mine, theirs);
}

/**
 * The chosen pair in its plane, or the chosen slope among the others.
 * @param {Life} life
 * @param {() => Shown} current
 */
function planeView(life, current) {
  const view = sharpCanvas(life, {
    label: "The chosen pair at the two positions, as arrows in its plane; or what the chosen head takes off.",
    height: (width) => Math.min(width, 250),
    paint(context, width, height) {
      const { colours } = view;
      context.textBaseline = "middle";
      context.font = `11px ${colours.font}`;
      context.fillStyle = colours.muted;
      (current().bias ? paintSlopes : paintPair)(context, colours, current(), [width / 2, height / 2], height / 2 - 30);
    } });
  return view;
}

// ---------------------------------------------------------------- the curve

const BOX = { left: 34, right: 10, top: 16, bottom: 176 }, SHORT = 136;
const bottomNow = () => (matchMedia("(max-width: 600px)").matches ? SHORT : BOX.bottom); // so that it stays in view

function paintCurveAxes(context, colours, { low, most, length, at, x, width, bottom }) {
  context.font = `11px ${colours.font}`;
  context.fillStyle = colours.muted;
  context.lineJoin = "round";
  context.textAlign = "right"; context.textBaseline = "middle";
  for (const y of new Set([low, 0, most])) {
    trace(context, colours.line, 1, [at(y, 0), at(y, length - 1)]);
    context.fillText(minus(String(+y.toFixed(most < 1 ? 2 : 1))), BOX.left - 6, at(y, 0)[1]);
  }
  context.textAlign = "center"; context.textBaseline = "top";
  for (let p = 0; p < length; p += Math.ceil(length / 8)) context.fillText(String(p), x(p), bottom + 4);
  context.fillText("position", (BOX.left + width - BOX.right) / 2, bottom + 20);
}

// The curve, and the place of the other position on it, or null.
function paintCurve(context, colours, now, width) {
  const { i, other, chosen, bias, inside, curve, most, length } = now, low = bias ? 0 : -most;
  const bottom = bottomNow(), x = (p) => BOX.left + (p / (length - 1)) * (width - BOX.left - BOX.right);
  const at = (y, p) => [x(p), bottom - ((y - low) / (most - low)) * (bottom - BOX.top)];
  paintCurveAxes(context, colours, { low, most, length, at, x, width, bottom });
  const line = (values, colour, thick) => trace(context, colour, thick, Array.from(values, at));
  for (let head = 0; head < (bias ? HEADS : 0); head++)
    if (head !== chosen) line(similarities(now, i, 0, length, head), colours.muted, 0.7);
  line(curve, colours.ink, 2);
  context.setLineDash([2, 3]);
  trace(context, QUERY, 2, [[x(i), BOX.top], [x(i), bottom]]);
  context.setLineDash([]);
  context.font = `600 11px ${colours.font}`;
  context.fillStyle = colours.ink;
  context.textBaseline = "bottom";
  context.fillText(String(i), x(i), BOX.top - 4);
  disc(context, at(curve[i], i), 5, QUERY, colours.paper, 1.5);
  const knob = inside ? at(curve[other], other) : null;
  if (knob) disc(context, knob, 7, KEY, colours.ink, 1.5);
  return knob;
}

/**
 * The curve of what the position has with each; `choose` hears to which position the other is moved.
 * @param {Life} life
 * @param {() => Shown} current
 * @param {(position: number) => void} choose
 */
function curveView(life, current, choose) {
  let width = 600, knob = null;
  const view = sharpCanvas(life, { label: "The chosen position with each; press or drag to choose the other position.",
    height: () => bottomNow() + 36,
    paint(context, whole) {
      width = whole;
      knob = paintCurve(context, view.colours, current(), width);
    } });
  view.canvas.classList.add("attn-slide");
  /** @param {import("./controls.js").Point} place */
  function move([x]) {
    const last = current().length - 1, p = Math.round(((x - BOX.left) / (width - BOX.left - BOX.right)) * last);
    choose(Math.max(0, Math.min(last, p)));
  }
  // A finger takes the other position by its knob, or taps where it should go.
  dragging(life, view, (place, touch) => {
    if (touch && !(knob && Math.hypot(place[0] - knob[0], place[1] - knob[1]) < 24)) return null;
    move(place);
    return true;
  }, (_, place) => move(place));
  life.listen(view.canvas, "click", (event) => move(view.at(event)));
  return view;
}

// ---------------------------------------------------------------- the matrix, and the controls

// A row for each position; of ALiBi the bias of a head.
function matrixView(model, life, current) {
  const { length: L } = current();
  const map = heatmap(life, { label: "A row for each position. Arrow keys walk the cells and choose position and pair.",
    hint: ["Press a number, or walk with the arrow keys: its row becomes the position.",
      "Tap a number: its row becomes the position."],
    zooms: false, // its pattern is what counts
    tallest: Math.max(2.5, Math.min(14, 280 / L)), widest: 24,
    onPick(i, c) {
      put(model, current().bias ? { position: i, distance: i - c } : { position: i, pair: c >> 1 });
    } });
  const scale = colourScale(life);
  const axes = (bias) => (bias ? { ...ATTENTION, cell: (i, j) => `query ${i}, key ${j}, ${Math.abs(i - j)} away` }
    : { columns: "dimensions", rows: "positions", corner: "position \u2193 dimension \u2192",
      cell: (i, c) => `position ${i}, dimension ${c}` });
  return { el: map.el, table: map.table, scale: scale.el, draw() {
    const { width, i, chosen, bias, rows } = current(), values = bias ? alibiBias(chosen, L) : rows;
    const top = largest(values.map(Math.abs)) || 1;
    map.show({ values, L, S: bias ? L : width, mask: null, queries: null, keys: null, top, signed: true, mark: i,
      axes: axes(bias) });
    scale.show(top, true);
  } };
}

// Every view with its title, and a sentence on what it shows.
function panelOf(view, kind) {
  const heading = h("p", { class: "attn-heading" });
  const words = h("p", { class: `attn-${kind}`, role: kind === "said" && "status" });
  return { heading, words, el: h("div", {}, heading, view, words) };
}

const KINDS = ["scheme", "embed_dim"]; // traits on which the number of pairs hangs
// What changes nothing under a scheme, and is hidden: no clock runs without positions, the sinusoids are added to no
// query or key of this picture, and ALiBi has neither vectors nor clocks.
const IDLE = { none: ["base"], sinusoidal: ["unlike"], rotary: [], alibi: ["embed_dim", "base", "unlike"] };

function controlsFor(model, life, { length: L, dimensions, bases, schemes }) {
  const read = () => readSettings(model, L);
  const numbers = (all) => all.map((n) => [n, Number.isInteger(n) ? grouped(n) : String(n)]);
  let pairs = null;
  // before the slider itself hears of it
  life.watch(KINDS, () => { pairs.querySelector("input").max = read().count - 1; });
  pairs = slider(part(model, ["pair", ...KINDS], () => read().chosen, (n) => model.set("pair", n)), life, "pair",
    { label: "Pair", min: 0, max: read().count - 1, step: 1 });
  const some = {
    embed_dim: choice(model, life, "embed_dim", { label: "Dimensions", choices: numbers(dimensions) }),
    base: choice(model, life, "base", { label: "Base", choices: numbers(bases) }),
    unlike: tick(model, life, "unlike", { label: "Key unlike the query" }),
  };
  const first = [
    slider(model, life, "position", { label: "Position", min: 0, max: L - 1, step: 1 }),
    slider(model, life, "distance", { label: "Distance to the other", min: 1 - L, max: L - 1, step: 1 }),
    choice(model, life, "scheme",
      { label: "Scheme", choices: schemes.map((scheme) => [scheme, scheme === "alibi" ? "ALiBi" : scheme]) })];
  const more = folded(model, life, "More controls", { opens: ["embed_dim", "base", "unlike"] },
    h("div", { class: "attn-controls" }, pairs, ...Object.values(some)));
  return { first, more, draw() {
    const { bias, scheme } = read();
    pairs.querySelector("label").textContent = bias ? "Head" : "Pair";
    for (const [name, control] of Object.entries(some)) control.hidden = IDLE[scheme].includes(name);
  } };
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), data = model.get("data"), { length: L, dimensions } = data;
  for (const size of [L, ...dimensions]) checked(size, LARGEST);
  let now = readShown(model, L);
  const current = () => now;
  const clocks = clockView(life, current, (pair) => put(model, { pair })), plane = planeView(life, current);
  const curve = curveView(life, current, (other) => put(model, { distance: now.i - other }));
  const matrix = matrixView(model, life, current);
  const table = foldedTable(life, "The curve as a table", () => ({ corner: "position", columns: ["value"],
    rows: Array.from(now.curve, (x, p) => [String(p), shown(x)]) }));
  const panels = [panelOf(clocks.el, "note"), panelOf(plane.el, "said"), panelOf(matrix.el, "note"),
    panelOf(curve.el, "said")];
  const controls = controlsFor(model, life, data);
  panels[2].el.append(matrix.scale);
  function draw() {
    now = readShown(model, L);
    const { i, other, inside, theirs, curve: values, most } = now;
    matrix.draw();
    controls.draw();
    for (const view of [clocks, plane, curve]) view.draw();
    const value = theirs && (inside ? values[other] : similarities(now, i, other, 1)[0]);
    const texts = sentences(now, { theirs, value: shown(value || 0), most: shown(most) });
    titles(now).forEach((title, n) => {
      panels[n].heading.textContent = title;
      panels[n].words.textContent = texts[n];
    });
    table.fill();
  }
  const [first, second, third, fourth] = panels.map((panel) => panel.el);
  // The clocks and the curve move with the position: together they are low enough to stay in view on a phone.
  frame(el, life, { picture: [h("div", { class: "attn-positions" }, first, fourth)], controls: controls.first,
    more: [controls.more], body: [h("div", { class: "attn-positions attn-places" },
      tabsOnPhone(life, "Views", { "All positions": third, "The two positions": second }),
      h("div", { class: "attn-folds" }, matrix.table, table.el))] });
  life.watch([...KINDS, "base", "position", "distance", "pair", "unlike"], draw);
  draw();
  return life.end;
}

export default { render };
