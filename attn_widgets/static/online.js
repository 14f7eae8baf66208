// The softmax tile by tile: the running maximum and sum move, and what was summed before is rescaled.
// Traits: data {values, tokens}, scores, masked, tile, step, key, forget.

import { checked, distinct, maskedSoftmax, PALETTE, quoted, shown, visible } from "./numbers.js";
import {
  choice, dragging, foldedTable, frame, h, handle, lifetime, mayMove, part, put, sharpCanvas, slider, tick,
} from "./controls.js";
import { hatch, heatmap } from "./weights.js";
import { stepper } from "./steps.js";

const MOST_KEYS = 64; // as in attn_widgets.online
const SLIDE = 700; // milliseconds from one tile to the next
const PACE = 1900; // and until it plays on
const BEFORE = PALETTE.categorical[0], TILE = PALETTE.categorical[1], WRONG = PALETTE.categorical[3];

// One entry a tile: {start, end, old, maximum, rescale, exps, added, total, sums, output}. `old` is what the
// tile found, {maximum, total, sums, exps, output}, and `added` what it adds to both sums. Whoever forgets
// the factor `rescale` goes on with sums that were measured against another maximum.
function onlineSoftmax(scores, values, tile, forget = false) {
  const S = scores.length, steps = [];
  let now = { maximum: -Infinity, total: 0, sums: [0, 0], exps: new Float64Array(S), output: [0, 0] };
  for (let start = 0; start < S; start += tile) {
    const end = Math.min(S, start + tile), old = now, added = { total: 0, sums: [0, 0] };
    let { maximum } = old;
    for (let j = start; j < end; j++) maximum = Math.max(maximum, scores[j]);
    // Before the first score that is open, there is nothing to rescale.
    const rescale = old.maximum === -Infinity ? 0 : Math.exp(old.maximum - maximum), factor = forget ? 1 : rescale;
    const exps = old.exps.map((x) => x * factor);
    for (let j = start; j < end; j++) {
      if (scores[j] === -Infinity) continue;
      exps[j] = Math.exp(scores[j] - maximum);
      added.total += exps[j];
      values[j].forEach((value, c) => { added.sums[c] += exps[j] * value; });
    }
    const total = factor * old.total + added.total;
    const sums = old.sums.map((sum, c) => factor * sum + added.sums[c]);
    now = { maximum, total, sums, exps, output: sums.map((sum) => (total > 0 ? sum / total : 0)) };
    steps.push({ ...now, start, end, old, rescale, factor, added });
  }
  return steps;
}

// ---------------------------------------------------------------- words

const minus = (text) => text.replace("-", "\u2212");
const limited = (x, write) => (x === -Infinity ? "\u2212\u221e" : minus(write(x)));
const scoreWords = (x) => limited(x,
  (s) => (Math.abs(s) >= 1e5 ? s.toExponential(0) : s.toFixed(Math.abs(s) < 100 ? 2 : 0)));
const numberWords = (x) => minus(x > 0 && x < 5e-4 ? x.toExponential(1) : shown(x));
const vectorWords = (x) => `(${x.map(numberWords).join(", ")})`;

// The step as formulas, with its numbers.
function formulas({ old, maximum, rescale, added, total, sums, output, start, end, scores }, forget) {
  const best = Math.max(...scores.slice(start, end)), [a, b] = [old.maximum, maximum].map(scoreWords);
  const power = maximum === -Infinity ? "" : `e^(${a} \u2212 ${b}) = `, factor = numberWords(rescale);
  const times = forget ? "" : `${factor} \u00d7 `;
  return [`m = max(${a}, ${scoreWords(best)}) = ${b}`,
    `r = ${power}${factor}${forget ? ", forgotten" : ""}`,
    `Z = ${times}${numberWords(old.total)} + ${numberWords(added.total)} = ${numberWords(total)}`,
    `u = ${times}${vectorWords(old.sums)}`, `  + ${vectorWords(added.sums)}`, `  = ${vectorWords(sums)}`,
    `output = u / Z = ${vectorWords(output)}`].join("\n");
}

// What happens in this step, in words.
function toldStep({ start, end, old, maximum, rescale }, forget) {
  const keys = end - start > 1 ? `Keys ${start} to ${end - 1}` : `Key ${start}`, factor = numberWords(rescale);
  const [a, b] = [old.maximum, maximum].map(scoreWords);
  const what = maximum === -Infinity ? "every key so far is masked, and there is nothing to sum"
    : old.maximum === -Infinity ? `the first maximum is ${b}`
      : rescale === 1 ? `the maximum stays ${b}, so nothing is rescaled`
        : `the maximum rises from ${a} to ${b}, so the old sums `
          + (forget ? `should be multiplied by ${factor}, but are not` : `are multiplied by ${factor}`);
  return `${keys}: ${what}.`;
}

// ---------------------------------------------------------------- the widget

function render({ model, el }) {
  const life = lifetime(model), { values, tokens } = model.get("data"), S = checked(values.length, MOST_KEYS);
  const names = distinct(tokens, 10);
  const open = model.get("scores").filter((_, n) => !model.get("masked").includes(n));
  const ends = [Math.min(0, ...open), Math.max(0, ...open)], pad = Math.max(1, (ends[1] - ends[0]) / 4);
  const low = Math.floor(ends[0] - pad), high = Math.ceil(ends[1] + pad); // of the scores, wherever they go

  function read() {
    const given = model.get("scores"), masked = model.get("masked"), forget = model.get("forget");
    if (checked(given.length, S) !== S || !given.every(Number.isFinite)) throw new RangeError("a size must be S");
    const scores = given.map((score, n) => (masked.includes(n) ? -Infinity : score));
    const tile = Math.max(1, Math.min(S, checked(model.get("tile"), MOST_KEYS)));
    const right = onlineSoftmax(scores, values, tile), run = forget ? onlineSoftmax(scores, values, tile, true) : right;
    const at = Math.min(run.length - 1, checked(model.get("step"), MOST_KEYS));
    const key = Math.min(S - 1, checked(model.get("key"), MOST_KEYS));
    const most = Math.max(1e-9, ...run.map(({ total, old }) => Math.max(total, old.total)));
    return { scores, masked, forget, tile, right, run, at, key, most, ...run[at], last: right.at(-1) };
  }
  let now = read();
  const isClosed = (n) => now.scores[n] === -Infinity;

  // ---- from one tile to the next: first what was there shrinks, then what is new grows
  let began = -1, request = 0;
  function moments() {
    const p = began < 0 ? 1 : Math.min(1, (performance.now() - began) / SLIDE);
    const ease = (x) => { const t = Math.max(0, Math.min(1, x)); return t * t * (3 - 2 * t); };
    return [ease(2 * p), ease(2 * p - 1)];
  }
  function animate() {
    if (moments()[1] >= 1) began = -1;
    picture.draw();
    plane.draw();
    if (began >= 0) request = requestAnimationFrame(animate);
  }
  life.onEnd(() => cancelAnimationFrame(request));
  const between = (a, b, t) => a + (b - a) * t;

  // ---- scores, what is summed, and the sum
  const right = 60, top = 30, floor = 124, strip = 16;
  let width = 500, left = 4, labels = { upright: true, tall: 16, every: 1 };
  const pitch = () => (width - left - right) / S;
  const side = (n) => left + n * pitch(), px = (n) => side(n + 0.5);
  const py = (score) => (score === -Infinity ? floor + strip / 2
    : floor - 4 - ((Math.max(low, Math.min(high, score)) - low) / (high - low)) * (floor - 4 - top));
  function layLabels() {
    const pen = picture.canvas.getContext("2d");
    pen.font = `12px ${picture.colours.font}`;
    const longest = Math.max(...names.map((name) => pen.measureText(name).width)), upright = longest + 4 < pitch();
    left = upright ? 4 : Math.max(4, (longest - pitch()) / 2); // for the first one, which leans out
    labels = { upright, tall: upright ? 16 : Math.min(64, 0.87 * longest + 10), every: Math.ceil(13 / pitch()) };
  }
  const rows = () => {
    const above = floor + strip + labels.tall + 6;
    return { label: floor + strip + 3, head: above + 12, top: above + 32, base: above + 96, sum: above + 122 };
  };
  function words(context, text, x, y, { colour = picture.colours.muted, align = "left", bold = false, size = 11,
    halo = null } = {}) {
    context.font = `${bold ? "600 " : ""}${size}px ${picture.colours.font}`;
    context.textAlign = align; context.textBaseline = "alphabetic";
    if (halo) { // for a number that a line may cross
      context.strokeStyle = halo; context.lineWidth = 4; context.lineJoin = "round";
      context.strokeText(text, x, y);
    }
    context.fillStyle = colour; context.fillText(text, x, y);
  }
  function rule(context, x0, y0, x1, y1, { colour = picture.colours.line, dash = [], thick = 1 } = {}) {
    context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1);
    context.setLineDash(dash); context.strokeStyle = colour; context.lineWidth = thick;
    context.stroke(); context.setLineDash([]);
  }
  function ghost(context, x, y, wide, tall) { // what was there before it shrank
    context.setLineDash([3, 2]); context.strokeStyle = picture.colours.muted; context.lineWidth = 1;
    context.strokeRect(x, y, wide, tall);
    context.setLineDash([]);
  }
  const hueOf = (n) => (n >= now.start && n < now.end ? TILE : BEFORE);
  const isRoomy = () => pitch() >= 31;

  function paintTiles(context) {
    const { colours } = picture, { tile, start, end } = now, foot = rows().base + 6;
    context.fillStyle = colours.panel; // the tile in hand
    context.fillRect(side(start), 0, side(end) - side(start), foot);
    context.fillStyle = TILE; context.fillRect(side(start), 0, side(end) - side(start), 3);
    for (let n = tile; n < S; n += tile) rule(context, side(n), 0, side(n), foot, { dash: [1, 3] });
    rule(context, left, floor, width - right, floor);
    context.fillStyle = hatch(context, colours.line);
    context.fillRect(left, floor + 1, width - left - right, strip - 2);
    words(context, "scores", left + 2, 15);
    words(context, "\u2212\u221e", width - right + 5, floor + strip - 3);
  }
  function paintMaximum(context, [a]) { // where it has been, and where it is
    const { colours } = picture, { run, at, old, maximum, end } = now, colour = colours.accent;
    for (const { maximum: m, start: s, end: e } of run.slice(0, at)) {
      if (m > -Infinity) rule(context, side(s), py(m), side(e), py(m), { colour, thick: 1.5 });
    }
    if (maximum === -Infinity) return;
    const y = old.maximum === -Infinity ? py(maximum) : between(py(old.maximum), py(maximum), a);
    rule(context, left, y, side(end), y, { colour, dash: [6, 3], thick: 2 });
    rule(context, side(end), y, width - right, y, { colour, dash: [1, 4] });
    words(context, `m ${scoreWords(maximum)}`, width - right + 5, y + 4, { colour, bold: true });
  }
  function paintScores(context) {
    const { colours } = picture, { start, end } = now, reach = Math.min(9, pitch() / 2);
    now.scores.forEach((score, n) => {
      const x = px(n), y = py(score), later = n >= end, ink = later ? colours.muted : colours.ink;
      const line = later ? { colour: colours.muted, dash: [2, 3] } : { colour: hueOf(n), thick: 3 };
      if (!isClosed(n)) rule(context, x, floor, x, y, line);
      handle(context, colours, x, y, Math.min(5, 0.6 * reach));
      if (n === now.key) {
        context.strokeStyle = colours.accent; context.lineWidth = 2; context.beginPath();
        context.arc(x, y, reach, 0, 7); context.stroke();
      }
      const halo = n >= start && n < end ? colours.panel : colours.paper;
      if (isRoomy()) words(context, scoreWords(score), x, y - 11, { align: "center", colour: ink, halo });
    });
  }
  function paintNames(context) {
    const { colours } = picture, y = rows().label;
    names.forEach((name, n) => {
      if (n % labels.every && n !== now.key) return;
      context.save();
      context.translate(px(n), labels.upright ? y + 11 : y + 6);
      if (!labels.upright) context.rotate(-Math.PI / 3);
      words(context, name, 0, labels.upright ? 0 : 4, { size: 12, align: labels.upright ? "center" : "right",
        bold: n === now.key, colour: n >= now.start && n < now.end ? colours.ink : colours.muted });
      context.restore();
    });
  }
  // The heights of the bars at this moment: the old ones shrink, then the new ones grow.
  function heights([a, b]) {
    const { old, factor, exps, start, end } = now;
    return Array.from(exps, (x, n) => (n < start ? old.exps[n] * between(1, factor, a) : n < end ? x * b : 0));
  }
  function paintExps(context, moment) {
    const { colours } = picture, { head, top: peak, base } = rows(), { old, start, end, rescale, forget } = now;
    const wide = Math.min(26, 0.6 * pitch()), all = heights(moment);
    words(context, "e^(score \u2212 m), of what has been seen", left + 2, head);
    rule(context, left, base, width - right, base);
    rule(context, left, peak, side(end), peak, { dash: [1, 3], colour: colours.muted });
    all.forEach((x, n) => {
      const x0 = px(n) - wide / 2, tall = x * (base - peak);
      context.fillStyle = hueOf(n); context.fillRect(x0, base - tall, wide, tall);
      const was = n < start ? old.exps[n] * (base - peak) : 0;
      if (was - tall > 1.5 && !forget && rescale < 1) ghost(context, x0 + 0.5, base - was, wide - 1, was - tall);
      if (!isRoomy() || n >= end || isClosed(n)) return;
      const number = pitch() < 38 ? now.exps[n].toFixed(2) : numberWords(now.exps[n]);
      words(context, number, px(n), base - Math.max(tall, was) - 4, { align: "center", colour: colours.ink });
    });
  }
    function paintSum(context, moment) {
    const { colours } = picture, { sum } = rows(), { old, total, most, factor, forget, rescale } = now;
    const unit = (width - left - right) / most, thick = 15;
    const was = forget || rescale === 1 || !old.total ? "" : ` (before this tile ${numberWords(old.total)})`;
    words(context, `their sum${was}`, left + 2, sum - 5);
    words(context, `Z ${numberWords(total)}`, width - right + 5, sum + 12, { colour: colours.ink, bold: true });
    context.fillStyle = colours.panel; context.fillRect(left, sum, width - left - right, thick);
    let x = left;
    heights(moment).forEach((part, n) => {
      context.fillStyle = hueOf(n); context.fillRect(x, sum, part * unit, thick);
      x += part * unit;
      if (part * unit > 4) { context.fillStyle = colours.paper; context.fillRect(x - 1, sum, 1, thick); }
    });
    const before = old.total * unit;
    if (!forget && factor < 1 && before > 2) ghost(context, left + 0.5, sum - 2.5, before, thick + 5);
  }
  const picture = sharpCanvas(life, {
    label: "The scores with the tile in hand and the maximum so far, below them what is summed, and the sum. "
      + "The controls move them all; the numbers are in the table.",
    height: (wide) => { [width, left] = [wide, 4]; layLabels(); return rows().sum + 20; },
    paint(context, wide) {
      width = wide;
      const moment = moments();
      paintTiles(context); paintMaximum(context, moment); paintScores(context); paintNames(context);
      paintExps(context, moment); paintSum(context, moment);
    } });
  picture.canvas.classList.add("attn-drag");

  // A score goes where its knob is put; into the hatched strip, and its key is masked.
  function setScore(n, score) {
    const masked = now.masked.filter((m) => m !== n);
    if (score === -Infinity) return put(model, { masked: [...masked, n].sort((a, b) => a - b) });
    const scores = now.scores.map((_, m) => (m === n ? Number(score.toFixed(4)) : model.get("scores")[m]));
    put(model, { scores, masked: masked.length < now.masked.length ? masked : now.masked });
  }
  function grab([x, y]) {
    const n = Math.max(0, Math.min(S - 1, Math.floor((x - left) / pitch())));
    if (Math.hypot(px(n) - x, py(now.scores[n]) - y) > 20) return null;
    put(model, { key: n });
    return n;
  }
  dragging(life, picture, grab, (n, [, y]) => {
    const score = low + ((floor - 4 - Math.max(top, y)) / (floor - 4 - top)) * (high - low);
    setScore(n, y > floor + 2 ? -Infinity : Math.max(low, Number(score.toFixed(high - low > 20 ? 0 : 1))));
  });

  // ---- the values in the plane, and their mean on its way to the answer
  const [xs, ys] = [0, 1].map((c) => values.map((value) => value[c]));
  const middle = [xs, ys].map((all) => (Math.min(...all) + Math.max(...all)) / 2);
  const spans = [xs, ys].map((all) => Math.max(...all) - Math.min(...all) || 1);
  function paintPlane(context, wide, tall) {
    const { colours } = plane, [, b] = moments(), { start, end, exps, total, run, at, forget, old, last } = now;
    const unit = Math.min((wide - 70) / spans[0], (tall - 44) / spans[1]);
    const spot = (value) => [wide / 2 + (value[0] - middle[0]) * unit, tall / 2 - (value[1] - middle[1]) * unit];
    context.strokeStyle = colours.line; context.lineWidth = 1;
    context.strokeRect(0.5, 0.5, wide - 1, tall - 1);
    const disc = (place, radius, fill, stroke) => {
      context.beginPath(); context.arc(...place, radius, 0, 7);
      if (fill) { context.fillStyle = fill; context.fill(); }
      if (stroke) { context.strokeStyle = stroke; context.lineWidth = 1.5; context.stroke(); }
    };
    values.forEach((value, n) => {
      const place = spot(value), share = total > 0 ? exps[n] / total : 0, seen = n < end && !isClosed(n);
      disc(place, 3 + 9 * Math.sqrt(share), seen ? hueOf(n) : null, seen ? null : colours.muted);
      if (S > 24 && (n < start || n >= end)) return;
      const near = place[0] > wide - 60, gap = 6 + 9 * Math.sqrt(share);
      words(context, names[n], place[0] + (near ? -gap : gap), place[1] + 4, { align: near ? "right" : "left" });
    });
    if (last.total > 0) {
      disc(spot(last.output), 10, null, colours.ink);
      const [x, y] = spot(last.output);
      words(context, "softmax", x, y - 14, { align: "center", colour: colours.ink });
    }
    const hue = forget ? WRONG : colours.accent;
    const path = run.slice(0, at).filter((one) => one.total > 0).map(({ output }) => spot(output));
    if (!(total > 0)) return;
    const [from, to] = [old.total > 0 ? old.output : now.output, now.output].map(spot);
    const here = [0, 1].map((c) => between(from[c], to[c], b));
    [...path, here].reduce((a, z) => { rule(context, ...a, ...z, { colour: hue, thick: 1.5 }); return z; });
    path.forEach((place) => disc(place, 2.5, hue));
    disc(here, 6, hue, colours.paper);
  }
  const plane = sharpCanvas(life, {
    label: "The values as points, the mean of those seen so far on its way, and the softmax of all as a ring.",
    height: (wide) => Math.min(wide, 194), paint: paintPlane });

  // ---- the weights so far beside the softmax of all
  const map = heatmap(life, { label: "The weights so far and those of the softmax of all. Arrow keys walk the cells.",
    tallest: 24 });
  const both = new Float64Array(2 * S);
  let mask = null;
  const weightAt = (n) => (mask[n] ? shown(both[n]) : "masked");
  function drawMap() {
    const { exps, total, end } = now;
    both.set(exps.map((x) => (total > 0 ? x / total : 0)));
    both.set(maskedSoftmax(now.scores, null, 1, S), S);
    mask = Uint8Array.from({ length: 2 * S }, (_, n) => Number(!isClosed(n % S) && (n >= S || n < end)));
    map.show({ values: both, L: 2, S, mask, queries: rowNames, keys: null, top: 1, axes });
  }
  const rowNames = ["so far", "softmax"];
  const axes = { columns: "weights of the keys", rows: "", corner: "",
    cell: (i, j) => `${rowNames[i]}, key ${j} ${quoted(tokens[j])}` };

  const keyTable = foldedTable(life, "The keys as a table", () => ({
    corner: "key", columns: ["score", "e^(score \u2212 m)", "weight so far", "softmax"],
    rows: tokens.map((token, n) => {
      const weights = [0, S].map((row) => weightAt(row + n)), isSeen = n < now.end;
      return [`${n} ${visible(token)}`, isClosed(n) ? scoreWords(-Infinity) : shown(now.scores[n]),
        isSeen ? shown(now.exps[n]) : "", ...weights];
    }) }));
  const stepTable = foldedTable(life, "The steps as a table", () => ({
    corner: "keys", columns: ["maximum", "factor", "sum", "output x", "output y"],
    rows: now.run.map(({ start, end, maximum, rescale, total, output }) => [`${start} to ${end - 1}`,
      maximum === -Infinity ? scoreWords(maximum) : shown(maximum), ...[rescale, total, ...output].map(shown)]) }));
  const said = h("p", { class: "attn-said", role: "status" });
  const sums = h("pre", {}), held = h("p", { class: "attn-note" });
  const steps = stepper(model, life, { pace: PACE, place: () => ({ step: now.at, count: now.run.length }) });

  // What the end shows: the softmax, or what came of forgetting the factor.
  function verdict() {
    const { at, run, last, output } = now, apart = Math.hypot(...output.map((x, c) => x - last.output[c]));
    if (at < run.length - 1 || !(last.total > 0)) return "";
    return apart > 5e-4 ? " The output is not the softmax\u2019s." : " The output is the softmax\u2019s.";
  }
  function draw() {
    const from = now;
    now = read();
    cancelAnimationFrame(request);
    const isSame = ["scores", "tile", "forget"].every((name) => String(now[name]) === String(from[name]));
    const isNext = isSame && now.at === from.at + 1;
    began = isNext && mayMove() ? performance.now() : -1;
    if (began < 0) { picture.ask(); plane.ask(); } else animate();
    drawMap();
    steps.draw();
    said.textContent = toldStep(now, now.forget) + verdict();
    sums.textContent = `${formulas(now, now.forget)}\nsoftmax of all = ${vectorWords(now.last.output)}`;
    const count = now.end - now.start;
    held.textContent = `In fast memory: ${count} score${count > 1 ? "s" : ""}, and m, Z, u. A plain softmax `
      + `needs all ${S}. Of earlier tiles only the sums are kept, not the bars.`;
    keyTable.fill(); stepTable.fill();
  }

  const score = part(model, ["scores", "masked", "key"], () => model.get("scores")[now.key],
    (x) => setScore(now.key, x));
  const closed = part(model, ["masked", "key"], () => model.get("masked").includes(now.key),
    (is) => setScore(now.key, is ? -Infinity : model.get("scores")[now.key]));
  life.watch(["scores", "masked", "tile", "step", "key", "forget"], draw);
  const fine = high - low > 20 ? Number(((high - low) / 200).toPrecision(1)) : 0.1;
  const group = { class: "attn-controls attn-buttons attn-inline attn-one", role: "group", "aria-label": "One key" };
  const one = h("div", group,
    choice(model, life, "key", { label: "Key", choices: tokens.map((token, n) => [n, `${n} ${visible(token, 14)}`]) }),
    slider(score, life, "score", { label: "its score", min: low, max: high, step: fine, format: (x) => x.toFixed(2) }),
    tick(closed, life, "closed", { label: "Masked (\u2212\u221e)" }));
  steps.el.classList.add("attn-inline");
  const size = slider(part(model, ["tile"], () => now.tile, (tile) => model.set("tile", tile)), life, "tile",
    { label: "Tile", min: 1, max: S, step: 1 });
  const controls = [steps.el, size, one, tick(model, life, "forget", { label: "Forget to rescale" })];
  frame(el, life, { controls, body: [said, h("div", { class: "attn-player attn-online" },
    h("div", {}, picture.el, map.el, keyTable.el), h("div", {}, plane.el, sums, held, stepTable.el))] });
  draw();
  return life.end;
}

export default { render };
