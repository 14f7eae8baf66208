// One diagram, three wirings: what an output may read in each block, and what it can know in the end.
// Traits: data {source, target, masked}, family, num_layers, position (counted through both stacks).

import { checked, namedMask, PALETTE, quoted, visible } from "./numbers.js";
import {
  arrow, choice, foldedTable, frame, h, lifetime, mayMove, nearest, part, put, sharpCanvas, slider,
  withModifier,
} from "./controls.js";
import { folded } from "./folds.js";
import { heatmap, HINT } from "./map.js";

/** @typedef {import("./controls.js").Life} Life */

const DEEPEST = 6; // blocks
const FALL = 130; // milliseconds that the light takes through a block
const MASK = "[MASK]", START = "<start>", END = "<end>"; // as in attn_widgets.family

// What goes in, what each position is trained to say (null: nothing is asked), the mask (C, C), how
// many of the positions are an encoder's that stands apart, and the prefix that all may read.
function wiring(family, { source, target, masked }) {
  const S = source.length, alone = family === "encoder-only";
  const text = family === "decoder-only";
  const inputs = alone ? source.map((token, n) => (n === masked ? MASK : token))
    : text ? [START, ...source] : [...source, START, ...target];
  const says = alone ? source.map((token, n) => (n === masked ? token : null))
    : text ? [...source, END] : [...source.map(() => null), ...target, END];
  const C = inputs.length, prefix = text ? 0 : S;
  const encoder = family === "encoder-decoder" ? S : 0;
  return { inputs, says, C, prefix, encoder, mask: namedMask("prefix", C, C, prefix) };
}

// The position that is asked for the masked word, or for the one beside it.
const firstPosition = (family, { source, target, masked }) => (
  family === "encoder-only" || family === "decoder-only" ? masked : source.length + Math.min(masked, target.length));

// Which positions the output at `picked` depends on at each level: level 0 holds the tokens, the
// last one the outputs. An encoder is through before the decoder's first block: its last level is
// read at every level of the decoder.
function cone({ mask, C, encoder }, layers, picked) {
  const levels = Array.from({ length: layers + 1 }, () => new Uint8Array(C));
  levels[layers][picked] = 1;
  // position i reads its own stack at level l, itself too, and the memory
  const read = (i, memory, l) => {
    for (let j = 0; j < C; j++) if (mask[i * C + j]) levels[j < encoder ? memory : l][j] = 1;
  };
  for (let l = layers; l > 0; l--) for (let i = encoder; i < C; i++) if (levels[l][i]) read(i, layers, l - 1);
  for (let l = layers; l > 0; l--) for (let i = 0; i < encoder; i++) if (levels[l][i]) read(i, l - 1, l - 1);
  return levels;
}

// ---------------------------------------------------------------- words

const span = (first, last) => (first === last ? String(first) : `${first} to ${last}`);
function lastRead({ mask, C }, i) {
  let last = i;
  for (let j = i; j < C; j++) if (mask[i * C + j]) last = j;
  return last;
}
function reads(now, i) {
  const { encoder } = now, last = lastRead(now, i);
  return i < encoder || !encoder ? span(0, last) : `${span(encoder, last)}; the encoder's ${span(0, encoder - 1)}`;
}

// What the picked position reads, and what is asked of it.
function positionWords({ family, inputs, says, encoder, prefix, picked, layers, levels, C }) {
  const who = `Position ${picked}, ${quoted(inputs[picked])}, `;
  const asked = says[picked] !== null && quoted(says[picked]);
  const earlier = picked > encoder ? `positions ${span(encoder, picked)}` : "itself";
  const all = (n) => (n > 1 ? `all ${n} positions, on both sides` : "itself, the only one");
  const known = levels[0].reduce((sum, one) => sum + one, 0);
  const knows = ` Through ${layers} block${layers > 1 ? "s" : ""} its output can know ${known} of ${C} tokens.`;
  if (family === "encoder-only") {
    return `${who}reads ${all(C)}.${knows} ` + (asked
      ? `It is trained to say ${asked}: the word is hidden, so the others have to tell.`
      : "Nothing is asked here: its own word is among what it reads.");
  }
  if (family === "decoder-only")
    return `${who}reads ${earlier} and nothing later.${knows} It is trained to say the next token, ${asked}.`;
  if (picked < prefix) {
    const idle = "It says nothing: each block of the decoder reads what the encoder's last block makes here.";
    return encoder ? `${who}reads ${all(prefix)}.${knows} ${idle}`
      : `${who}reads the prefix, ${all(prefix)}, and nothing later.${knows} `
        + "Nothing is asked here: the source is given.";
  }
  const both = "of the target and, by cross-attention, what the encoder's last block makes of the whole source.";
  return (encoder ? `${who}reads ${earlier} ${both}`
    : `${who}reads positions ${span(0, picked)}: the source and the target so far, block by block.`)
    + `${knows} It is trained to say the target's next token, ${asked}.`;
}
const ABOUT = {
  "encoder-only": "No mask: each position reads all, before and after it. Only a hidden word is worth asking for, "
    + "since any other stands among the tokens that are read.",
  "decoder-only": "The same blocks under a causal mask: no position reads a later one. So each can be asked for "
    + "the token that comes next, and one pass trains them all.",
  "encoder-decoder": "An encoder on the source, a decoder on the target. The decoder's blocks have one part more, "
    + "\u25c6: it reads the encoder's last outputs, the memory, and brings the source to each word. The target stands "
    + "one place later below than above.",
  prefix: "One stack for both. What may be read is what the encoder-decoder's three masks allow, put together; but "
    + "the target reads the source as it stands in the same block, and the same weights serve both.",
};
const PARTS = "\u25cf attention reads along the lines, \u25a0 feed-forward works on each position alone";

// ---------------------------------------------------------------- the diagram: where things lie

const CHIP = 24, HEAD = 12, TURN = Math.PI / 3; // pixels of a token and of a block's head; of slanted labels
const SIDE = 24, ROOM = 92; // pixels beside the stacks; of a label, at most
const CROSS = PALETTE.categorical[4]; // of what the encoder's outputs bring; no query, key or value

/**
 * What is on show.
 * @typedef {ReturnType<typeof wiring> & { family: string, layers: number, picked: number,
 *   levels: Uint8Array[] }} Wired
 */
/**
 * What is painted, and where.
 * @typedef {object} Picture
 * @property {CanvasRenderingContext2D} context
 * @property {import("./controls.js").Colours} colours
 * @property {Wired} now
 * @property {ReturnType<typeof layout>} at
 */

// The type in which the labels of both rows fit upright, or else the larger one, which is then slanted.
function labelType(pen, font, texts, { pitch, gap, encoder }) {
  const measured = [13, 12].map((size) => {
    pen.font = `600 ${size}px ${font}`;
    const sizes = texts.map((row) => row.map((text) => Math.min(ROOM, pen.measureText(text).width)));
    const longest = Math.max(...sizes.flat()), pad = size === 13 ? 12 : 8;
    const upright = longest + pad <= pitch + SIDE
      && sizes.every((row) => row.every((width, c) => !c
        || (width + row[c - 1]) / 2 + pad + 2 <= pitch + (c === encoder ? gap : 0)));
    return { size, pad, sizes, longest, upright };
  });
  return measured.find((one) => one.upright) || measured[0];
}

/**
 * Where the parts of the diagram lie on a canvas of this width.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} font
 * @param {Wired} now
 * @param {number} width
 */
function layout(pen, font, { inputs, says, C, encoder, layers }, width) {
  const texts = [inputs, says].map((row) => row.map((token) => (token === null ? "" : visible(token, 14))));
  const gap = encoder ? 40 : 0;
  const pitchFor = (slack) => Math.min(84, (width - 2 * (SIDE + slack) - gap) / C), widest = pitchFor(0);
  const { size, pad, sizes, longest, upright } = labelType(pen, font, texts, { pitch: widest, gap, encoder });
  // Slanted labels lean out to the right above and to the left below.
  const pitch = upright ? widest : pitchFor(Math.max(0, longest * Math.cos(TURN) - SIDE - widest / 2) / 2);
  const start = (width - pitch * C - gap) / 2;
  const x = (c) => start + (c + 0.5) * pitch + (encoder && c >= encoder ? gap : 0);
  const labelHeight = upright ? CHIP : longest * Math.sin(TURN) + 14;
  const step = layers < 4 ? 82 : layers < 5 ? 74 : 62;
  const top = 18 + labelHeight + 16, bottom = top + layers * step;
  // The feed-forward part of a level, its cross-attention and its attention; level 0 is the tokens.
  const feedForward = (l) => (l ? bottom - l * step + HEAD : bottom + 8);
  return {
    texts, sizes, size, upright, pitch, x, step, top, bottom, feedForward, gap,
    cross: (l) => feedForward(l) + 14, attention: (l) => feedForward(l) + 28,
    span: (first, end, room = 0.5) => [x(first) - room * pitch, x(end - 1) + room * pitch],
    pad: upright ? pad : 8, every: upright ? 1 : Math.ceil(13 / (pitch * Math.sin(TURN))),
    radius: Math.min(5, pitch * 0.28), height: bottom + 8 + labelHeight + 26,
  };
}

// The stacks, from where to where each goes.
const stacksOf = ({ encoder, C }) => (encoder ? [[0, encoder], [encoder, C]] : [[0, C]]);

// What stands below, from which position on.
const captionsOf = ({ family, prefix }) => ({ "encoder-only": [[0, "the source, one word masked"]],
  "decoder-only": [[0, "the text so far"]],
  "encoder-decoder": [[0, "encoder: the source"], [prefix, "decoder: the target so far"]],
  prefix: [[0, "prefix: the source"], [prefix, "the target so far"]] }[family]);

// From where to where the cone goes at a level, or null.
function coneSpan(level, first, end) {
  const on = Array.from(level.subarray(first, end), (one, n) => (one ? first + n : -1)).filter((n) => n >= 0);
  return on.length ? [on[0], on[on.length - 1] + 1] : null;
}

// ---------------------------------------------------------------- the diagram: what is painted

function write({ context, colours }, text, x, y, options = {}) {
  const { align = "center", base = "middle", bold = false, colour = colours.muted, size = 11, room } = options;
  context.font = `${bold ? "600 " : ""}${size}px ${colours.font}`;
  context.textAlign = align; context.textBaseline = base; context.fillStyle = colour;
  context.fillText(text, x, y, room);
}

function stroke({ context }, colour, thick, alpha, lines) {
  context.beginPath(); lines();
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.globalAlpha = alpha;
  context.stroke();
  context.globalAlpha = 1;
}

function paintBlocks(picture) {
  const { context, colours: { line, panel }, now, at } = picture;
  stacksOf(now).forEach(([first, end], n) => {
    const [left, right] = at.span(first, end), room = right - left;
    for (let l = 1; l <= now.layers; l++) {
      const y = at.bottom - l * at.step;
      context.beginPath();
      context.roundRect(left - 18, y, room + 22, at.step - 6, 8);
      context.fillStyle = panel; context.fill();
      context.strokeStyle = line; context.lineWidth = 1; context.stroke();
      if (n) continue; // blocks side by side bear one number
      context.save();
      context.translate(left - 9, y + (at.step - 6) / 2);
      context.rotate(-Math.PI / 2);
      write(picture, `block ${l}`, 0, 0);
      context.restore();
    }
  });
}

function paintCaptions(picture) {
  const { context, colours, now, at } = picture;
  const begins = (first) => at.span(first, now.C)[0] - (first && !now.encoder ? -4 : 18);
  const below = captionsOf(now).map(([first, words]) => [begins(first), words]);
  below.forEach(([x, words], n) => {
    const room = n + 1 < below.length ? Math.max(8, below[n + 1][0] - x - 8) : undefined;
    write(picture, words, x, at.height, { align: "left", base: "bottom", room });
  });
  if (now.family !== "prefix") return;
  const [x] = at.span(now.prefix, now.C); // where the prefix ends
  context.setLineDash([2, 4]);
  stroke(picture, colours.muted, 1, 1, () => { context.moveTo(x, at.top - 6); context.lineTo(x, at.height); });
  context.setLineDash([]);
}

// What the picked output depends on: a light from its word down to the tokens.
function paintCone({ context, colours: { accent }, now: { levels, layers, encoder, C, picked }, at }) {
  for (const [first, end, colour] of [[encoder, C, accent], [0, encoder, picked < encoder ? accent : CROSS]]) {
    const ends = levels.map((level) => coneSpan(level, first, end))
      .map((positions) => positions && at.span(positions[0], positions[1], 0.42));
    if (!ends[layers]) continue;
    const left = [], right = [];
    for (let l = layers; l >= 0 && ends[l]; l--) {
      const head = at.feedForward(l) - 10;
      const foot = l ? at.attention(l) : at.bottom + 8 + (at.upright ? CHIP + 2 : 6);
      left.push([ends[l][0], head], [ends[l][0], foot]);
      right.push([ends[l][1], head], [ends[l][1], foot]);
    }
    context.beginPath();
    [...left, ...right.reverse()].forEach(([x, y]) => context.lineTo(x, y));
    context.fillStyle = colour;
    context.globalAlpha = 0.13;
    context.fill();
    context.globalAlpha = 1;
  }
}

// The lines of a level that the mask allows, from the positions of the level below to those that are `wanted`.
function wires({ context, now: { encoder, C, mask }, at }, l, wanted) {
  const low = at.feedForward(l - 1), high = at.attention(l), middle = (low + high) / 2;
  for (let i = 0; i < C; i++) {
    for (let j = i < encoder ? 0 : encoder; j < C; j++) if (mask[i * C + j] && wanted(i)) {
      context.moveTo(at.x(j), low); context.bezierCurveTo(at.x(j), middle, at.x(i), middle, at.x(i), high);
    }
  }
}

// Who reads whom: every line that the mask allows, and over it those that the output depends on; of
// many positions, whose lines would be one smear, the picked one's alone.
function paintLines(picture) {
  const { context, colours: { line, muted, accent }, now: { levels, layers, encoder, C, picked }, at } = picture;
  const few = C <= 32;
  if (few) {
    for (let l = 1; l <= layers; l++) {
      stroke(picture, muted, 0.6, Math.min(0.5, 6 / C), () => wires(picture, l, (i) => !levels[l][i]));
    }
  }
  // what each position carries along, past attention and feed-forward
  stroke(picture, line, 1.5, 1, () => {
    for (let c = 0; c < C; c++) for (let l = 1; l <= layers; l++) {
      context.moveTo(at.x(c), at.feedForward(l));
      context.lineTo(at.x(c), at.attention(l));
    }
  });
  const hue = (i) => (i < encoder && picked >= encoder ? CROSS : accent);
  for (let l = 1; l <= layers; l++) for (const colour of [CROSS, accent]) {
    const strong = (i) => i === picked && l === layers, faint = (i) => levels[l][i] && hue(i) === colour && !strong(i);
    if (few) stroke(picture, colour, 1, 0.5, () => wires(picture, l, faint));
    stroke(picture, colour, 1.8, 1, () => wires(picture, l, (i) => strong(i) && hue(i) === colour));
  }
  if (encoder) paintMemory(picture);
}

// The encoder's outputs in one bar, and a branch from it into each of the decoder's blocks.
function paintMemory(picture) {
  const { context, colours: { muted }, now: { levels, layers, encoder, C, picked }, at } = picture;
  const lit = picked >= encoder, y = at.top - 12;
  const trunk = at.span(encoder, C)[0] - 18 - at.gap / 2 + 9, [left] = at.span(0, 1, 0.3);
  stroke(picture, lit ? CROSS : muted, lit ? 2.2 : 1, lit ? 1 : 0.6, () => {
    for (let c = 0; c < encoder; c++) {
      context.moveTo(at.x(c), at.feedForward(layers));
      context.lineTo(at.x(c), y);
    }
    context.moveTo(left, y); context.lineTo(trunk, y); context.lineTo(trunk, at.cross(1));
  });
  for (let l = 1; l <= layers; l++) {
    const ends = coneSpan(levels[l], encoder, C);
    const rail = (c) => { context.moveTo(trunk, at.cross(l)); context.lineTo(at.x(c), at.cross(l)); };
    stroke(picture, muted, 1, 0.6, () => rail(C - 1));
    if (lit && ends) stroke(picture, CROSS, 2.2, 1, () => rail(ends[1] - 1));
  }
  write(picture, "memory", left, y - 9, { align: "left", colour: lit ? CROSS : muted, bold: lit });
}

// The parts of each block: attention a disc, cross-attention a diamond, feed-forward a square.
function paintParts({ context, colours: { paper, muted, accent }, now: { levels, layers, encoder, C, picked }, at }) {
  const r = at.radius;
  const shape = (lit, fill, draw) => {
    context.beginPath(); draw();
    context.fillStyle = lit ? fill : paper; context.fill();
    context.strokeStyle = lit ? fill : muted; context.lineWidth = 1.2; context.stroke();
  };
  for (let l = 1; l <= layers; l++) for (let c = 0; c < C; c++) {
    const on = levels[l][c], x = at.x(c), colour = c < encoder && picked >= encoder ? CROSS : accent;
    shape(on, colour, () => context.arc(x, at.attention(l), r, 0, 7));
    if (encoder && c >= encoder) shape(on, CROSS, () => {
      for (const [u, v] of [[0, -1], [1, 0], [0, 1], [-1, 0]])
        context.lineTo(x + u * (r + 1), at.cross(l) + v * (r + 1));
      context.closePath();
    });
    shape(on, colour, () => context.rect(x - r, at.feedForward(l) - r, 2 * r, 2 * r));
  }
}

// One token: an input on a chip, or what is asked for.
function paintToken(picture, c, y, below) {
  const { context, colours, now, at } = picture, { levels, inputs, encoder, picked, family } = now, row = below ? 0 : 1;
  const { paper, panel, ink, muted, accent, line } = colours;
  const chosen = c === picked, lit = below ? levels[0][c] : chosen, size = at.sizes[row][c], width = size + at.pad;
  context.save();
  context.translate(at.x(c), y);
  if (!at.upright) context.rotate(-TURN);
  const [left, up] = at.upright ? [-width / 2, below ? 0 : -CHIP] : [below ? -width : 0, -CHIP / 2];
  const colour = below && c < encoder && picked >= encoder ? CROSS : accent;
  context.beginPath(); context.roundRect(left, up, width, CHIP, 5);
  context.fillStyle = chosen ? accent : below ? panel : paper;
  if (below || chosen) context.fill();
  if (lit && !chosen) {
    context.globalAlpha = 0.22;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = 1;
  }
  context.strokeStyle = lit ? colour : line; context.lineWidth = 1;
  if (below && inputs[c] === MASK && family === "encoder-only") { // hidden
    context.setLineDash([4, 2]); context.lineWidth = 1.6;
  }
  if (below || chosen) context.stroke();
  write(picture, at.texts[row][c], left + width / 2, up + CHIP / 2 + 1,
    { bold: chosen, size: at.size, room: size, colour: chosen ? paper : below && !lit ? muted : ink });
  context.restore();
}

// The inputs below, and what is asked for above, each with an arrow from the output to its word.
function paintTokens(picture) {
  const { context, colours: { accent, muted }, now: { layers, encoder, picked, C }, at } = picture;
  const above = at.top - 14, isShown = (text, c) => text && !(c % at.every && c !== picked); // room for every label?
  at.texts[1].forEach((text, c) => {
    if (!isShown(text, c)) return;
    paintToken(picture, c, above, false);
    const chosen = c === picked, x = at.x(c);
    arrow(context, [x, at.feedForward(layers) - at.radius], [x, above + 3], chosen ? accent : muted, chosen ? 2 : 1);
  });
  write(picture, "trained to say", at.span(encoder, C)[0] - 18, 0, { align: "left", base: "top" });
  at.texts[0].forEach((text, c) => { if (isShown(text, c)) paintToken(picture, c, at.bottom + 8, true); });
}

// ---------------------------------------------------------------- the diagram at work

function listen(life, view, shown, onPick) {
  const go = (c) => {
    const { now } = shown();
    if (c !== now.picked) onPick(Math.max(0, Math.min(now.C - 1, c)));
  };
  life.listen(view.canvas, "click", (event) => {
    const { now, at } = shown(), [x] = view.at(event), found = nearest(now.inputs.map((_, c) => at.x(c)), x);
    if (Math.abs(at.x(found) - x) <= Math.max(12, at.pitch)) go(found);
  });
  life.listen(view.canvas, "keydown", (event) => {
    if (withModifier(event)) return;
    const { picked, C } = shown().now;
    const to = { ArrowLeft: picked - 1, ArrowRight: picked + 1, Home: 0, End: C - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  });
}

/**
 * The diagram; `onPick` hears which position is pressed or walked to.
 * @param {Life} life
 * @param {{ label: string, onPick: (position: number) => void }} options
 */
function diagram(life, { label, onPick }) {
  let now = null, at = null, timer = 0;
  const view = sharpCanvas(life, { label, keyboard: true,
    height(width) {
      if (!now) return 40;
      at = layout(view.canvas.getContext("2d"), view.colours.font, now, width);
      return at.height;
    },
    paint(context) {
      if (!now) return;
      const picture = { context, colours: view.colours, now, at };
      for (const paint of [paintBlocks, paintCaptions, paintCone, paintLines, paintParts, paintTokens]) paint(picture);
    } });
  view.canvas.classList.add("attn-press");
  listen(life, view, () => ({ now, at }), onPick);

  // The light falls from the picked word, a block at a time; at once for who wants nothing to move.
  function shine(whole, depth) {
    const dark = whole.layers - depth;
    now = { ...whole, levels: whole.levels.map((level, l) => (l < dark ? level.map(() => 0) : level)) };
    view.draw();
    if (dark > 0) timer = setTimeout(shine, FALL, whole, depth + 1);
  }
  life.onEnd(() => clearTimeout(timer));
  return { el: view.el,
    /** @param {Wired} next */
    show(next) {
      clearTimeout(timer);
      shine(next, mayMove() ? 0 : next.layers);
    } };
}

// ---------------------------------------------------------------- the widget

// The masks: of the one stack, or of the encoder, the decoder, and between them. From which position on and how many
// rows, from which on and how many columns.
function masksOf({ encoder: E, C, prefix, family }) {
  if (E) {
    return [{ first: 0, L: E, from: 0, S: E, heading: "Encoder: no mask" },
      { first: E, L: C - E, from: E, S: C - E, heading: "Decoder: causal mask" },
      { first: E, L: C - E, from: 0, S: E, heading: "Cross-attention: no mask" }];
  }
  const headings = { "encoder-only": "No mask", "decoder-only": "Causal mask",
    prefix: `Prefix mask: ${prefix} open to all` };
  return [{ first: 0, L: C, from: 0, S: C, heading: headings[family] }];
}

// The n-th mask as a map, hidden where there is none.
function maskPanel(life, n, pick) {
  let first = 0;
  const map = heatmap(life, {
    label: "A mask: which keys each query may read. Arrow keys walk the cells and pick the query.",
    hint: n ? "" : HINT, tableLabel: "The mask as a table", tallest: 24, onPick: (i) => pick(first + i) });
  const heading = h("p", { class: "attn-heading" }), el = h("div", {}, heading, map.el, map.table);
  return { el, draw(now) {
    const shown = masksOf(now)[n];
    el.hidden = !shown;
    if (el.hidden) return;
    const { L, from, S } = shown, { mask, C, inputs, picked } = now;
    ({ first } = shown);
    const open = Uint8Array.from({ length: L * S }, (_, k) => mask[(first + ((k / S) | 0)) * C + from + (k % S)]);
    heading.textContent = shown.heading;
    map.show({ values: Float64Array.from(open), L, S, mask: open, flat: true,
      queries: inputs.slice(first, first + L), keys: inputs.slice(from, from + S),
      mark: picked >= first && picked < first + L ? picked - first : null });
  } };
}

// The controls. The slider ends where the family does: told so before the slider itself hears of it.
function controlsFor(model, life, data, read, pick) {
  let places = null;
  life.watch(["family"], () => {
    places.querySelector("input").max = String(wiring(model.get("family"), data).C - 1);
  });
  places = slider(part(model, ["position", "family"], () => read().picked, pick), life, "position",
    { label: "Position", min: 0, max: read().C - 1, step: 1 });
  const family = part(model, ["family"], () => model.get("family"),
    (name) => put(model, { family: name, position: firstPosition(name, data) }));
  return [
    choice(family, life, "family",
      { label: "Family", choices: [["encoder-only", "encoder only (BERT)"], ["decoder-only", "decoder only (GPT)"],
        ["encoder-decoder", "encoder-decoder (T5)"], ["prefix", "decoder with a prefix"]] }),
    slider(model, life, "num_layers", { label: "Blocks", min: 1, max: DEEPEST, step: 1 }), places];
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), data = model.get("data");
  /** @returns {Wired} */
  function read() {
    const family = model.get("family"), layers = checked(model.get("num_layers"), DEEPEST);
    const wired = wiring(family, data), picked = Math.min(model.get("position"), wired.C - 1);
    return { ...wired, family, layers, picked, levels: cone(wired, layers, picked) };
  }
  let now = read();
  const pick = (position) => put(model, { position });
  const picture = diagram(life, { onPick: pick,
    label: "The network, from the tokens below to what it says above. Left and right arrow keys pick a position." });
  const sentence = h("p", { class: "attn-said", role: "status" });
  const about = h("p", { class: "attn-note" }), parts = h("p", { class: "attn-note" });
  const table = foldedTable(life, "The diagram as a table", () => ({
    corner: "position", columns: ["reads in each block", "is trained to say", `known at ${now.picked}`],
    rows: now.inputs.map((token, n) => [`${n} ${visible(token)}`, reads(now, n),
      now.says[n] === null ? "" : visible(now.says[n]), now.levels[0][n] ? "yes" : "no"]) }));
  const masks = [0, 1, 2].map((n) => maskPanel(life, n, pick));
  // The diagram shows what one position can know through all blocks; a mask, what each may read in one.
  const fold = folded(model, life, "The mask: what each position may read in one block", {},
    h("div", { class: "attn-panels" }, ...masks.map((mask) => mask.el)));
  function draw() {
    now = read();
    picture.show(now);
    for (const mask of masks) mask.draw(now);
    sentence.textContent = positionWords(now);
    about.textContent = ABOUT[now.family];
    parts.textContent = `${PARTS}${now.encoder ? ", \u25c6 cross-attention reads the memory" : ""}.`;
    table.fill();
  }
  frame(el, life, { picture: [picture.el, sentence], controls: controlsFor(model, life, data, read, pick),
    body: [h("div", { class: "attn-family" }, about, parts), table.el, fold] });
  life.watch(["family", "num_layers", "position"], draw);
  draw();
  return life.end;
}

export default { render };
