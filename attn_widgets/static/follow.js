// One token on its way through a Transformer: what transformer_model.js computes, number by number.
// Traits: data {model, names, sentences: [{source: [ids, tokens], target: [ids, tokens]}],
// attention_only}, sentence, token (of the source, then of the target), head, step.
//
// A step is a scene: strips of cells, each cell with its value, its place, how it is computed, and
// from which cells. Between two scenes every cell moves: from where it stood, or from those cells.

import { css, DIVERGING, inkOn, largest, level, PALETTE, quoted, SEQUENTIAL, shown, visible } from "./numbers.js";
import {
  byFinger, choice, foldedTable, frame, h, KEEP_KEYS, lifetime, mayMove, numbered, outline, part, put, shadeEdges,
  sharpCanvas, withModifier,
} from "./controls.js";
import { folded } from "./folds.js";
import { colourScale, hatch } from "./weights.js";
import { stepper } from "./steps.js";
import { affine, Blocks, LanguageModel, plus, softmax, TransformerModel } from "./transformer_model.js";

/** @typedef {[strip: number, place: number]} Cell */
/**
 * Cells in a line, or in several.
 * @typedef {object} Strip
 * @property {string} id
 * @property {string} name
 * @property {ArrayLike<number> & Iterable<number>} values
 * @property {(n: number) => number[]} rect of a cell: [x, y, width, height]
 * @property {(n: number) => string} where names a cell
 * @property {(n: number) => string} how says its computation
 * @property {(n: number) => [id: string, n: number][]} from the cells that it is made of
 * @property {(n: number) => boolean} open false where the mask closes it
 * @property {boolean} signed or else from 0 to 1
 * @property {boolean} [plain] a number without a colour
 * @property {boolean} [bar]
 * @property {number} [most] the largest number of its own scale of colours, or else that of the scene
 * @property {boolean} [main] the sentence takes its example from it
 */
/**
 * A step laid out.
 * @typedef {object} Scene
 * @property {number} width
 * @property {number} height
 * @property {Strip[]} strips
 * @property {Map<string, Strip>} byId
 * @property {any[]} words
 * @property {string} text a sentence
 * @property {number} top the largest number that is coloured
 * @property {number} [longest] the largest number of the keys, which have a scale of their own
 */

const PACE = 3000, MOVE = 480; // milliseconds a step, and of the motion between two
const [QUERY, KEY, VALUE] = PALETTE.categorical;
const LIKELY = 6, MOST_LINES = 4;
const POINT = ["Point at a number, or focus the picture and walk its numbers with the arrow keys.",
  "Tap a number to read it."];
const READ = [["scores", "q \u00b7 k"], ["scale", "\u00f7 \u221aD"], ["mask", "Mask"], ["softmax", "Softmax"],
  ["values", "Values"]];
const SUBLAYERS = { self: "Self-attention", cross: "Cross-attention", ff: "Feed-forward" };

const span = (size) => Array.from({ length: size }, (_, n) => n);
const two = (x) => x.toFixed(2).replace("-", "\u2212");
const factor = (x) => (x < 0 ? `(${two(x)})` : two(x)); // a second number in a formula
const product = (x, y) => `${two(x)} \u00d7 ${factor(y)}`;
const added = (terms) => (terms.length < 4 ? terms.map((x, n) => (n ? factor(x) : two(x))).join(" + ")
  : `${two(terms[0])} + ${factor(terms[1])} + \u2026 + ${factor(terms.at(-1))}`);
// Row n of W x + b.
const projected = ({ weight, bias }, x) => (n) =>
  `${product(weight[n][0], x[0])} + \u2026 + ${product(weight[n].at(-1), x.at(-1))}`
  + (bias ? ` + ${factor(bias[n])}` : "");

// ---------------------------------------------------------------- the way of a token

// The model at work on the sentences: for a token, its steps in order.
function follower(model) {
  const data = model.get("data"), stored = data.model, { config } = stored, read = new Map();
  const families = { encoder: TransformerModel, body: LanguageModel, embeddings: Blocks };
  const network = new families[stored.tensors[0][0].split(".")[0]](stored), pre = config.norm === "pre";
  const stack = network.encoder || network.body || network;

  function sentence() { // read once
    const n = model.get("sentence");
    if (!read.has(n)) {
      const { source, target } = data.sentences[n], causal = stack === network.body;
      const encoded = network.run(stack, source[0], { causal }), memory = encoded.outputs;
      const decoded = target[0].length ? network.run(network.decoder, target[0], { causal: true, memory }) : null;
      read.set(n, { source, target, encoded, decoded, causal });
    }
    return read.get(n);
  }

  function way() {
    const { source, target, encoded, decoded, causal } = sentence(), size = source[0].length;
    const place = Math.min(model.get("token"), size + target[0].length - 1), inTarget = place >= size;
    const [ids, tokens] = inTarget ? target : source, t = inTarget ? place - size : place;
    const { blocks, outputs } = inTarget ? decoded : encoded, here = inTarget ? network.decoder : stack, steps = [];
    const add = (kind, label, block, part, more = {}) => steps.push({ kind, label, block, part, ...more });
    blocks.forEach((records, b) => {
      const block = here.blocks[b];
      add("start", b ? `Block ${b}` : "Embed", b, "self", { x: records[t].self.before });
      Object.entries(records[t]).filter(([, record]) => record).forEach(([part, record], n) => {
        const more = { record, norm: block[`norm${n + 1}`], attn: block[`${part}_attn`], network: block.feed_forward,
          keys: part === "cross" ? source[1] : tokens };
        if (pre) add("norm", "Norm", b, part, more);
        if (part === "ff") add("network", "Network", b, part, more);
        else for (const [kind, label] of [...READ, ["heads", "Heads"]]) add(kind, label, b, part, more);
        add("add", pre ? "Add" : "Add, norm", b, part, more);
      });
    });
    const writes = network.out_proj && (inTarget || !network.encoder);
    add("out", "Out", blocks.length - 1, "ff", { x: blocks.at(-1)[t].ff.after, output: outputs[t], norm: here.norm,
      logits: writes ? affine(network.out_proj, outputs[t]) : null });
    const end = data.attention_only ? steps.findIndex(({ kind }) => kind === "values") + 1 : steps.length;
    return { steps: steps.slice(0, end), place, t, tokens, id: ids[t], embeddings: here.embeddings,
      depth: data.attention_only ? 1 : blocks.length, causal: inTarget || causal,
      head: Math.min(model.get("head"), config.num_heads - 1) };
  }
  return { data, config, network, pre, sentence, way };
}

// ---------------------------------------------------------------- scenes

// Where strips and words are laid out. A strip is {id, name, values, rect(n)}; and `where(n)` names a
// cell, `how(n)` says its computation, `from(n)` lists the cells [id, n] that it is made of. It is
// signed, or else from 0 to 1, or plain: a number without a colour, or a bar. Where `open(n)` is
// false the mask closes it. The sentence takes its example from the strip that is `main`.
function stage(width, E) {
  const strips = [], words = [], narrow = width < 460;
  let y = 0;
  const scene = {
    width, narrow, strips, words,
    get height() { return Math.ceil(y); },
    reach: (low) => { y = Math.max(y, low); },
    write(text, x, at, align = "left", strong = false, room = width, hue = null) {
      words.push({ text, x, y: at, align, strong, room, hue });
    },
    strip(one) {
      strips.push({ where: (n) => `${one.name}, feature ${n}`, how: () => "", from: () => [], open: () => true,
        signed: true, ...one });
    },
    // A vector, in several lines if it is long, under its name.
    vector(one) {
      const size = one.values.length, per = Math.min(size, Math.max(E, Math.ceil(size / MOST_LINES)));
      const lines = Math.ceil(size / per), cellWidth = Math.min(70, width / per);
      const cellHeight = lines > 1 ? (narrow ? 12 : 16) : narrow ? 26 : 32;
      scene.write(one.label || one.name, 0, y + 13);
      const top = y + 19;
      scene.strip({ ...one, rect: (n) => [
        (n % per) * cellWidth, top + Math.floor(n / per) * cellHeight, cellWidth, cellHeight] });
      y = top + lines * cellHeight + 15;
    },
  };
  return scene;
}

// Where the keys of an attention stand, one a line, and their names.
function keyLines(scene, { keys, record }, { t, own }, top) {
  const S = keys.length, left = scene.narrow ? 62 : 104;
  const pitch = Math.max(9, Math.min(scene.narrow ? 24 : 27, Math.floor(330 / S)));
  const letters = scene.narrow ? 9 : 14;
  keys.forEach((token, j) => {
    if (pitch < 12 && j % 2) return;
    scene.write(visible(token, letters), left - 10, top + (j + 0.5) * pitch, "right", own && j === t, left - 12);
  });
  scene.reach(top + S * pitch);
  return { S, left, row: (j) => top + j * pitch, cellHeight: pitch - Math.min(3, pitch / 5),
    open: (j) => j < record.reach };
}

const ofKey = (keys, j) => `key ${j}, ${quoted(keys[j])}`;

// Beside the names two strips of D cells and a box stand in a line, with gaps between them.
function twoStrips(scene, left, D) {
  const gap = scene.narrow ? 8 : 24, box = scene.narrow ? 44 : 58;
  const cellWidth = Math.min(40, (scene.width - left - 2 * gap - box) / (2 * D));
  return { box, span: D * cellWidth + gap, gap,
    across: (x, y, height) => (d) => [x + d * cellWidth, y, cellWidth, height] };
}

const SCENES = {
  start(scene, { x, block }, { id, t, tokens, embeddings, follower: { network, config } }) {
    const token = quoted(tokens[t], 12);
    if (block) {
      scene.vector({ id: "x", name: "x", label: "x, the residual stream", values: x });
      return `Block ${block} begins with what block ${block - 1} has left in the residual stream of ${token}.`;
    }
    const [row, position] = network.embedding(embeddings, id, t);
    const scaled = config.scale_embeddings ? `, times \u221a${config.embed_dim}` : "";
    if (!position) {
      scene.vector({ id: "x", name: "x", label: `x, the vector of ${token}`, values: x });
      return `${token} enters as a vector x: its row of the embedding table${scaled}.`;
    }
    scene.vector({ id: "row", name: "embedding", label: `embedding of ${token}${scaled}`, values: row });
    scene.vector({ id: "position", name: "position", label: `+ position ${t}`, values: position });
    scene.vector({ id: "x", name: "x", label: "= x, which enters block 0", values: x, main: true,
      how: (n) => `${two(row[n])} + ${factor(position[n])}`, from: (n) => [["row", n], ["position", n]] });
    return `${token} enters as a vector: its row of the embedding table${scaled}, plus the vector of its position.`;
  },

  norm(scene, { record, norm }, { follower: { config } }) {
    return normed(scene, "x", record.before, record.input, norm, config);
  },

  scores(scene, step, at) {
    const { keys, record, attn, part } = step, { head, D, pre } = at, start = head * D;
    const q = record.query.subarray(start, start + D), top = 54, lines = keyLines(scene, step, at, top);
    const { left, cellHeight, row } = lines, { box, span: room, across } = twoStrips(scene, left, D);
    const second = left + room, third = second + room;
    scene.write("query", left - 10, 13, "right", true, left, QUERY);
    scene.write(scene.narrow ? "times each key," : "times each key, feature by feature,", second, 8);
    scene.write("and added up", second, 22);
    scene.write("keys", left, top - 11, "left", false, room, KEY);
    scene.write("q \u00d7 k", second, top - 9);
    scene.write("q \u00b7 k", third + box / 2, top - 9, "center");
    const input = () => span(record.input.length).map((e) => [pre ? "n" : "x", e]);
    scene.strip({ id: "q", name: "q", values: q, rect: across(left, 0, 26), where: (d) => `query, feature ${d}`,
      how: (d) => projected(attn.q_proj, record.input)(start + d), from: input });
    const products = keys.map((_, j) => q.map((x, d) => x * record.keys[j][start + d]));
    const ks = keys.map((_, j) => record.keys[j].subarray(start, start + D));
    scene.longest = largest(ks.flatMap((k) => Array.from(k, Math.abs))) || 1; // the products would leave them grey
    ks.forEach((k, j) => {
      scene.strip({ id: `k${j}`, name: `k ${j}`, values: k, most: scene.longest, rect: across(left, row(j), cellHeight),
        where: (d) => `${ofKey(keys, j)}, feature ${d}` });
      scene.strip({ id: `qk${j}`, name: `q \u00d7 k ${j}`, values: products[j],
        rect: across(second, row(j), cellHeight), where: (d) => `q \u00d7 k with ${ofKey(keys, j)}, feature ${d}`,
        how: (d) => product(q[d], k[d]), from: (d) => [["q", d], [`k${j}`, d]] });
    });
    const scores = record.scores[head].map((x) => x * Math.sqrt(D));
    scene.strip({ id: "scores", name: "q \u00b7 k", values: scores, rect: (j) => [third, row(j), box, cellHeight],
      where: (j) => `score of ${ofKey(keys, j)}`, how: (j) => added(products[j]),
      from: (j) => span(D).map((d) => [`qk${j}`, d]), main: true, plain: true });
    const [query, key] = part === "cross" ? ["target\u2019s query", "source token"] : ["query", "token"];
    return `The ${query} meets the key of every ${key}: `
      + `multiply feature by feature and add up, q \u00b7 k = \u03a3\u00a0q\u1d62\u00a0k\u1d62 over ${D} features.`;
  },

  scale: (scene, step, at) => columns(scene, step, at, 2, `Each score is divided by \u221aD = \u221a${at.D} = `
    + `${two(Math.sqrt(at.D))}. A sum of ${at.D} products would otherwise drive the softmax to 0 and 1.`),

  mask(scene, step, at) {
    const closed = step.keys.length - step.record.reach;
    let words = "The causal mask closes what comes later. Nothing does: this is the last token.";
    if (step.part === "cross") words = "Nothing is closed: the decoder may read the whole source.";
    else if (!at.causal) words = "Nothing is closed: an encoder may read the whole sentence, what follows as well.";
    else if (closed) {
      words = `The causal mask closes what comes later, ${plural(closed, "key")} (hatched): a weight there will be 0.`;
    }
    return columns(scene, step, at, 3, words);
  },

  softmax: (scene, step, at) => columns(scene, step, at, 5, "Take e to the power of each score and divide by "
    + "the sum of all: the weights are positive and sum to 1. (The largest score is taken off first, which changes no "
    + "weight.)"),

  values(scene, step, at) {
    const { keys, record } = step, { head, D } = at, start = head * D, weights = record.weights[head];
    const { left, cellHeight, row, open, S } = keyLines(scene, step, at, 20);
    const { box, gap, span: room, across } = twoStrips(scene, left, D);
    const first = left + box + gap, second = first + room, low = row(S) + 12;
    scene.write("weight", left + box / 2, 9, "center");
    scene.write("values", first, 7, "left", false, room, VALUE);
    scene.write("weight \u00d7 value", second, 9);
    scene.write(scene.narrow ? "sum z" : `their sum, z of head ${head}`, second - 10, low + 14, "right");
    scene.strip({ id: "weights", name: "weight", values: weights, signed: false, open,
      rect: (j) => [left, row(j), box, cellHeight], where: (j) => `weight of ${ofKey(keys, j)}` });
    keys.forEach((_, j) => {
      const v = record.values[j].subarray(start, start + D);
      const where = (d) => `value ${j}, ${quoted(keys[j])}, feature ${d}`, weighted = v.map((x) => x * weights[j]);
      scene.strip({ id: `v${j}`, name: `v ${j}`, values: v, rect: across(first, row(j), cellHeight), where });
      scene.strip({ id: `wv${j}`, name: `weight \u00d7 v ${j}`, values: weighted,
        rect: across(second, row(j), cellHeight), where: (d) => `weight \u00d7 ${where(d)}`,
        how: (d) => product(weights[j], v[d]),
        from: (d) => [[`v${j}`, d], ["weights", j]] });
    });
    scene.strip({ id: `z${head}`, name: `z ${head}`, values: record.heads.subarray(start, start + D),
      rect: across(second, low, 28), from: (d) => keys.map((_, j) => [`wv${j}`, d]), main: true,
      how: (d) => added(keys.map((_, j) => weights[j] * record.values[j][start + d])) });
    scene.reach(low + 32);
    return "Each value is multiplied by its weight, and the products are added, feature by feature: this is what the "
      + "head has read.";
  },

  heads(scene, { record, attn }, { D, H }) {
    const E = D * H, gap = H > 1 ? 6 : 0, cellWidth = Math.min(70, (scene.width - gap * (H - 1)) / E);
    for (let h = 0; h < H; h++) {
      const left = h * (D * cellWidth + gap);
      scene.write(`z ${h}`, left, 13);
      scene.strip({ id: `z${h}`, name: `z ${h}`, values: record.heads.subarray(h * D, (h + 1) * D),
        rect: (d) => [left + d * cellWidth, 19, cellWidth, 28], where: (d) => `z of head ${h}, feature ${d}` });
    }
    scene.reach(60);
    scene.vector({ id: "y", name: "y", label: "y = W\u2092 z + b\u2092", values: record.y,
      how: projected(attn.out_proj, record.heads), main: true,
      from: () => span(E).map((n) => [`z${Math.floor(n / D)}`, n % D]) });
    const joined = `The ${H} heads are set end to end, and W\u2092 mixes them`;
    return `${H > 1 ? joined : "W\u2092 maps what the one head has read"}: y = W\u2092 z + b\u2092.`;
  },

  add(scene, { record: { before, y, after }, norm }, { pre, follower: { config } }) {
    const sum = plus(before, y);
    scene.vector({ id: "x", name: "x", label: "x, the residual stream", values: before });
    scene.vector({ id: "y", name: "y", label: "+ y, what the sublayer writes", values: y });
    const how = (n) => `${two(before[n])} + ${factor(y[n])}`, from = (n) => [["x", n], ["y", n]];
    scene.vector({ id: "sum", name: "x + y", label: "= the stream from here on", values: sum, how, from, main: pre });
    if (pre) return "The sublayer does not replace the stream. It writes to it: x + y.";
    normed(scene, "sum", sum, after, norm, config);
    return "The sublayer writes to the stream, x + y, and LayerNorm brings the sum back to scale.";
  },

  network(scene, { record, network: { linear1, linear2 } }, { pre, follower: { config } }) {
    const { input, hidden, active, y } = record;
    const { activation, embed_dim: E, ffn_dim: m } = config, first = pre ? "n" : "x";
    const all = (id, size) => () => span(size).map((n) => [id, n]);
    scene.vector({ id: first, name: "input", label: "what is read from the stream", values: input });
    scene.vector({ id: "hidden", name: "hidden", label: `W\u2081, ${m} hidden units`, values: hidden,
      how: projected(linear1, input), from: all(first, E), where: (n) => `hidden unit ${n}` });
    scene.vector({ id: "active", name: activation, label: `after ${activation}`, values: active,
      how: (n) => `${activation}(${two(hidden[n])})`, from: (n) => [["hidden", n]],
      where: (n) => `hidden unit ${n} after ${activation}` });
    scene.vector({ id: "y", name: "y", label: "W\u2082, back to the width of the stream", values: y,
      how: projected(linear2, active), from: all("active", m), main: true });
    return `This position alone: W\u2081 takes ${E} features to ${m}, ${activation} acts on each, `
      + `and W\u2082 takes them back to ${E}.`;
  },

  out(scene, { x, output, norm, logits }, { pre, tokens, t, follower: { data, config, network } }) {
    if (pre) normed(scene, "x", x, output, norm, config);
    else scene.vector({ id: "x", name: "x", values: x });
    const token = quoted(tokens[t], 12), end = pre ? "One more norm ends the stack. " : "";
    if (!logits) {
      const place = data.names.length ? "a row of the memory that cross-attention reads" : "the output at its position";
      return `${end}This is what has become of ${token}: ${place}.`;
    }
    const probabilities = softmax(logits), order = [...logits.keys()].sort((a, b) => logits[b] - logits[a]);
    const best = order.slice(0, LIKELY), likely = best.map((n) => probabilities[n]);
    const name = (n) => quoted(data.names[best[n]]), letters = scene.narrow ? 10 : 16;
    const left = scene.narrow ? 84 : 130, box = 58, pitch = 24, top = scene.height + 24;
    const bars = left + box + 14, room = scene.width - bars - 52;
    scene.write("logit", left + box / 2, top - 9, "center");
    scene.write("probability", bars, top - 9);
    best.forEach((n, line) => {
      const middle = top + (line + 0.45) * pitch;
      scene.write(visible(data.names[n], letters), left - 10, middle, "right", !line, left - 12);
      scene.write(likely[line].toFixed(3), bars + likely[line] * room + 8, middle);
    });
    scene.strip({ id: "logits", name: "logit", plain: true, values: best.map((n) => logits[n]),
      rect: (n) => [left, top + n * pitch, box, pitch - 3], where: (n) => `logit of ${name(n)}`,
      how: (n) => projected(network.out_proj, output)(best[n]),
      from: () => span(output.length).map((n) => [pre ? "n" : "x", n]) });
    scene.strip({ id: "probabilities", name: "probability", bar: true, signed: false, values: likely, main: true,
      rect: (n) => [bars, top + n * pitch, Math.max(2, likely[n] * room), pitch - 3],
      where: (n) => `probability of ${name(n)}`, from: (n) => [["logits", n]] });
    scene.reach(top + best.length * pitch);
    return `${end}There is one logit for each of ${logits.length} tokens, and the softmax of all says what may follow `
      + `${token}. The ${best.length} likeliest are shown.`;
  },
};

// A vector and what LayerNorm makes of it.
function normed(scene, id, x, y, { weight, bias }, { layer_norm_eps: eps }) {
  const mean = x.reduce((sum, one) => sum + one, 0) / x.length;
  const spread = Math.sqrt(x.reduce((sum, one) => sum + (one - mean) ** 2, 0) / x.length + eps);
  if (id === "x") scene.vector({ id, name: "x", label: "x, the residual stream", values: x });
  const label = `LN: minus \u03bc = ${two(mean)}, over \u03c3 = ${two(spread)}, times gain, plus shift`;
  scene.vector({ id: "n", name: id === "x" ? "LN(x)" : "LN(x + y)", label, values: y, main: true,
    from: (n) => [[id, n]], how: (n) => `(${two(x[n])} \u2212 ${factor(mean)}) / ${two(spread)} `
      + `\u00d7 ${factor(weight[n])} + ${factor(bias[n])}` });
  return "LayerNorm brings the vector to mean 0 and variance 1, then applies the gain and the shift that were learned.";
}

// From the scores to the weights: a column each, of which the first `count` are shown.
function columns(scene, step, at, count, words) {
  const { keys, record } = step, { head, D } = at, scaled = record.scores[head], root = Math.sqrt(D);
  const { left, cellHeight, row, open, S } = keyLines(scene, step, at, 20), scores = scaled.map((x) => x * root);
  const cellWidth = Math.min(110, (scene.width - left + 8) / 5) - 8, top = Math.max(...scaled.slice(0, record.reach));
  const powers = scaled.map((x, j) => (open(j) ? Math.exp(x - top) : 0)), total = powers.reduce((sum, x) => sum + x, 0);
  const all = () => true, of = (id) => (j) => [[id, j]];
  [
    { id: "scores", name: "q \u00b7 k", title: "q \u00b7 k", what: "score", values: scores, open: all },
    { id: "scaled", name: "\u00f7 \u221aD", title: `\u00f7 \u221a${D}`, what: "scaled score", values: scaled, open: all,
      how: (j) => `${two(scores[j])} / ${two(root)}`, from: of("scores") },
    { id: "masked", name: "mask", title: "masked", what: "masked score", values: scaled, from: of("scaled") },
    { id: "powers", name: "e^s", title: "e^(s \u2212 max)", values: powers, signed: false,
      how: (j) => `e^(${two(scaled[j])} \u2212 ${factor(top)})`, from: of("masked") },
    { id: "weights", name: "weight", title: "weight", values: record.weights[head], signed: false,
      how: (j) => `${two(powers[j])} / ${two(total)}`, from: of("powers") },
  ].slice(0, count).forEach((one, n) => {
    const x = left + n * (cellWidth + 8);
    scene.write(one.title, x + cellWidth / 2, 9, "center", n === count - 1, cellWidth + 6);
    scene.strip({ open, ...one, rect: (j) => [x, row(j), cellWidth, cellHeight], main: n === count - 1,
      where: (j) => `${one.what || one.title} of ${ofKey(keys, j)}` });
  });
  scene.reach(row(S));
  return words;
}

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// Every step of a way, laid out.
function laidOut(following, way, width) {
  const { num_heads: H, embed_dim: E } = following.config;
  const at = { ...way, H, D: E / H, pre: following.pre, follower: following };
  return way.steps.map((step) => {
    const scene = stage(width, E);
    scene.text = SCENES[step.kind](scene, step, { ...at, own: step.part === "self" });
    scene.byId = new Map(scene.strips.map((strip) => [strip.id, strip]));
    const coloured = scene.strips.filter(({ signed, plain, most }) => signed && !plain && !most);
    scene.top = largest(coloured.flatMap(({ values }) => Array.from(values, Math.abs))) || 1;
    return scene;
  });
}

// ---------------------------------------------------------------- drawing

const mixed = (a, b, share) => a.map((x, n) => x + (b[n] - x) * share);
const eased = (share) => { const s = Math.max(0, Math.min(1, share)); return s * s * (3 - 2 * s); };

function paintCell(context, colours, top, strip, n, [x, y, width, height], alpha, still = true) {
  const gap = width > 5 ? 1 : 0, value = strip.values[n];
  context.globalAlpha = alpha;
  if (!strip.open(n)) {
    context.fillStyle = hatch(context, colours.muted);
    context.fillRect(x, y, width - gap, height - gap);
    return;
  }
  const size = Math.min(11.5, height - 1), written = width >= 38 && size >= 9 && !strip.bar;
  const plain = strip.plain && written;
  const most = strip.plain ? largest(strip.values.map(Math.abs)) : strip.most || top; // a colour in place of its number
  const word = strip.signed ? DIVERGING[level(value, -most, most)] : SEQUENTIAL[level(value, 0, 1)];
  context.fillStyle = strip.bar ? colours.accent : plain ? colours.panel : css(word);
  context.fillRect(x, y, width - gap, height - gap);
  if (!written || !still) return;
  context.fillStyle = plain ? colours.ink : inkOn(word);
  context.font = `${size}px ${colours.font}`; context.textAlign = "center"; context.textBaseline = "middle";
  context.fillText(two(value), x + width / 2, y + height / 2 + 0.5);
}

// A scene, some of the way from the one before it.
function paintScene(context, colours, scene, before, share) {
  const strip = (id) => scene.byId.get(id) || (before && before.byId.get(id));
  const draw = (...all) => paintCell(context, colours, scene.top, ...all), rest = 1 - share / 0.4;
  for (const one of rest > 0 && before ? before.strips : []) {
    if (!scene.byId.has(one.id)) one.values.forEach((_, n) => draw(one, n, one.rect(n), rest, false));
  }
  for (const one of scene.strips) {
    const stood = before && before.byId.get(one.id), moved = stood && stood.values.length === one.values.length;
    one.values.forEach((_, n) => {
      const place = one.rect(n);
      if (share >= 1) return draw(one, n, place, 1);
      if (moved) return draw(one, n, mixed(stood.rect(n), place, eased(share / 0.65)), 1);
      const come = eased((share - 0.3) / 0.7);
      const all = one.from(n).filter(([id, m]) => strip(id) && m < strip(id).values.length);
      const some = all.length > 16 ? [all[Math.floor((n * all.length) / one.values.length)]] : all;
      for (const [id, m] of some) draw(one, n, mixed(strip(id).rect(m), place, come), come, false);
      if (!some.length) draw(one, n, place, come);
    });
  }
  context.globalAlpha = eased((share - 0.4) / 0.6);
  context.textBaseline = "middle";
  for (const { text, x, y, align, strong, room, hue } of scene.words) {
    context.font = `${strong ? "600 " : ""}12.5px ${colours.font}`;
    context.fillStyle = strong ? colours.ink : colours.muted; context.textAlign = align;
    context.fillText(text, x, y, room);
    if (!hue) continue;
    const long = context.measureText(text).width;
    context.fillStyle = hue; context.fillRect(align === "right" ? x - long : x, y + 7, long, 2);
  }
  context.globalAlpha = 1;
}

// The cell that is pointed at, those it is made of, and its value beside it.
function paintPointed(context, colours, scene, [i, n]) {
  const one = scene.strips[i], [x, y, width, height] = one.rect(n);
  context.strokeStyle = colours.ink; context.lineWidth = 1.5;
  for (const [id, m] of one.from(n)) {
    const made = scene.byId.get(id);
    if (made && m < made.values.length) { const [a, b, w, h] = made.rect(m); context.strokeRect(a, b, w - 1, h - 1); }
  }
  outline(context, x, y, width - 1, height - 1);
  const text = cellText(one, n);
  context.font = `600 12.5px ${colours.font}`;
  const room = Math.min(scene.width, context.measureText(text).width + 16);
  const left = Math.max(0, Math.min(scene.width - room, x + width / 2 - room / 2));
  const top = y > 32 ? y - 30 : y + height + 6;
  context.fillStyle = colours.paper; context.strokeStyle = colours.accent; context.lineWidth = 1.5;
  context.beginPath(); context.roundRect(left + 1, top, room - 2, 24, 5); context.fill(); context.stroke();
  context.fillStyle = colours.ink; context.textAlign = "center"; context.textBaseline = "middle";
  context.fillText(text, left + room / 2, top + 12.5, room - 12);
}

const cellText = (one, n) => (one.open(n) ? (one.how(n) ? `${one.how(n)} = ` : "") + shown(one.values[n]) : "masked");

// ---------------------------------------------------------------- the picture

/**
 * What is on show, and where the reader is in it.
 * @typedef {object} Followed
 * @property {any} way steps and tokens of the token that is followed
 * @property {Scene[]} scenes of all steps
 * @property {Scene} now
 * @property {Scene | null} before from which the cells still move
 * @property {Cell} cursor
 * @property {Cell | null} hover
 * @property {any} step
 * @property {number} number of the step
 */

// The scenes of the token that is followed, laid out anew where the canvas has another width.
/** @returns {Followed & { renew(): void, fit(width: number): void }} */
function followToken(model, following) {
  let width = 0;
  /** @type {any} */
  const followed = { way: null, scenes: [], now: null, before: null, cursor: [0, 0], hover: null,
    get number() { return Math.min(model.get("step"), followed.way.steps.length - 1); },
    get step() { return followed.way.steps[followed.number]; },
    renew() {
      followed.way = following.way();
      followed.scenes = laidOut(following, followed.way, width || 600);
      width ||= 600;
    },
    fit(wanted) {
      if (wanted === width) return;
      followed.scenes = laidOut(following, followed.way, wanted);
      width = wanted;
      followed.now = followed.scenes[followed.number];
      followed.before = null;
    },
  };
  return followed;
}

// The canvas; `go(from)` moves its cells from another scene, or from nowhere.
function sceneView(life, followed) {
  let began = 0, request = 0;
  const view = sharpCanvas(life, {
    keyboard: true, label: "The numbers of this step, in strips of cells. Arrow keys walk the cells.",
    height(width) {
      followed.fit(width);
      return Math.max(...followed.scenes.map((scene) => scene.height)) + 4;
    },
    paint(context) {
      const share = followed.before ? (performance.now() - began) / MOVE : 1;
      const active = followed.hover || (document.activeElement === view.canvas ? followed.cursor : null);
      paintScene(context, view.colours, followed.now, followed.before, share);
      if (share < 1) request = requestAnimationFrame(() => view.draw());
      else { followed.before = null; if (active) paintPointed(context, view.colours, followed.now, active); }
    } });
  life.onEnd(() => cancelAnimationFrame(request));
  return { view, go(from) {
    const next = followed.scenes[followed.number];
    if (from !== next) { followed.before = from; began = performance.now(); }
    followed.now = next;
    cancelAnimationFrame(request);
  } };
}

// The cell at a place on the canvas, or null.
function cellAt({ strips }, [x, y]) {
  for (let i = strips.length - 1; i >= 0; i--) {
    const { values, rect } = strips[i];
    for (let n = 0; n < values.length; n++) {
      const [left, top, width, height] = rect(n);
      if (x >= left && y >= top && x < left + width && y < top + height) return [i, n];
    }
  }
  return null;
}

// Pointer and keys walk the cells, and `readout` says what each holds.
function listen(life, view, followed, readout) {
  function announce([i, n]) {
    const strip = followed.now.strips[i];
    readout.textContent = `${strip.where(n)}: ${cellText(strip, n)}`;
  }
  function point(cell) {
    if (String(cell) === String(followed.hover)) return;
    followed.hover = cell;
    if (cell) announce(cell);
    view.draw();
  }
  const under = (event) => cellAt(followed.now, view.at(event));
  life.listen(view.canvas, "pointermove", (event) => point(under(event)));
  life.listen(view.canvas, "pointerleave", () => point(null));
  life.listen(view.canvas, "pointerdown", (event) => {
    followed.cursor = under(event) || followed.cursor;
    point(under(event));
  });
  for (const type of ["focus", "blur"]) life.listen(view.canvas, type, () => view.draw());
  life.listen(view.canvas, "keydown", (event) => {
    if (withModifier(event)) return;
    const [i, n] = followed.cursor, { strips } = followed.now, last = strips.length - 1;
    const go = { ArrowUp: [i - 1, n], ArrowDown: [i + 1, n], ArrowLeft: [i, n - 1], ArrowRight: [i, n + 1],
      Home: [i, 0], End: [i, Infinity], PageUp: [0, n], PageDown: [last, n] }[event.key];
    if (!go) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(last, go[0]));
    followed.cursor = [to, Math.max(0, Math.min(strips[to].values.length - 1, go[1]))];
    followed.hover = null;
    announce(followed.cursor);
    view.draw();
  });
}

const numberTable = (life, followed) => foldedTable(life, "The numbers of this step as a table", () => {
  const { strips } = followed.now;
  return { corner: "strip \u2193 place \u2192",
    columns: span(Math.max(...strips.map(({ values }) => values.length))).map(String),
    rows: strips.map(({ name, values, open }) =>
      [name, ...Array.from(values, (x, n) => (open(n) ? shown(x) : "masked"))]) };
});

// ---------------------------------------------------------------- steps, tokens and blocks to choose from

// The architecture of a block as a map: the residual stream runs down, and each sublayer reads from it and writes to
// it. Its boxes are the steps. That of the step on show is lit, and to press another is to go there. On a phone the
// stream runs from left to right through a strip, which is swiped and keeps the lit box in sight.
function blockMap(model, life, followed, heading, onPress) {
  const list = h("div", { class: "attn-steps", role: "group", "aria-label": "Steps of this block" });
  const strip = h("div", { class: "attn-strip" }, list);
  let listed = "";
  const box = ({ kind, label, n }) => h("button",
    { type: "button", "data-step": n, "data-kind": kind, "aria-label": `${label}, step ${n + 1}`, ...KEEP_KEYS },
    label);
  const isOnStream = ({ kind }) => ["start", "add", "out"].includes(kind);
  function sublayer(part, all) {
    const inside = all.filter((one) => one.part === part && !isOnStream(one));
    const [sum] = all.filter((one) => one.part === part && one.kind === "add");
    if (!inside.length) return [];
    const card = h("div", { class: "attn-sublayer", "data-part": part }, h("span", {}, SUBLAYERS[part]),
      ...inside.map(box));
    return sum ? [card, box(sum)] : [card];
  }
  life.listen(list, "click", (event) => {
    const pressed = event.target.closest("button");
    if (!pressed) return;
    onPress();
    put(model, { step: Number(pressed.dataset.step) });
  });
  life.listen(strip, "scroll", () => shadeEdges(strip));
  const observer = new ResizeObserver(() => keepInSight(strip, list.querySelector("[aria-pressed=true]")));
  observer.observe(strip);
  life.onEnd(() => observer.disconnect());
  return { el: h("div", { class: "attn-architecture" }, heading, strip), draw() {
    const { block, part: here, kind } = followed.step;
    const all = followed.way.steps.map((one, n) => ({ ...one, n })), mine = all.filter((one) => one.block === block);
    const end = all.filter((one) => (one.block === block && one.kind === "out")
      || (one.block === block + 1 && one.kind === "start")); // the way on: out, or into the next block
    const written = JSON.stringify(mine.map(({ label, part: sublayer, n }) => [label, sublayer, n]));
    if (written !== listed) {
      listed = written;
      list.replaceChildren(...mine.filter((one) => one.kind === "start").map(box),
        ...Object.keys(SUBLAYERS).flatMap((part) => sublayer(part, mine)),
        ...end.map(box));
    }
    for (const one of list.querySelectorAll("button")) {
      one.setAttribute("aria-pressed", String(Number(one.dataset.step) === followed.number));
    }
    for (const one of list.querySelectorAll(".attn-sublayer")) {
      one.classList.toggle("attn-lit-part", one.getAttribute("data-part") === here && !isOnStream({ kind }));
    }
    keepInSight(strip, list.querySelector("[aria-pressed=true]"));
  } };
}

// A box in the middle of its strip, as far as the strip can be moved.
function keepInSight(strip, box) {
  const { left, width } = box.getBoundingClientRect(), middle = strip.getBoundingClientRect();
  strip.scrollLeft += left + width / 2 - middle.left - middle.width / 2;
  shadeEdges(strip);
}

// The tokens to follow: each sentence has its own.
function tokenChoice(model, life, following, followed) {
  const el = h("div", { class: "attn-choices" });
  let inner = null;
  life.onEnd(() => inner.end());
  return { el, renew() {
    if (inner) inner.end();
    inner = lifetime(model);
    const { source, target } = following.sentence(), both = target[0].length > 0;
    const named = ([, tokens], first, heading) => tokens.map((token, n) =>
      [first + n, `${n}: ${visible(token)}`, both ? heading : ""]);
    const chosen = part(model, ["token"], () => followed.way.place, (n) => model.set("token", n)); // there may be fewer
    el.replaceChildren(choice(chosen, inner, "token", { label: "Token", choices: [
      ...named(source, 0, "source (encoder)"), ...named(target, source[0].length, "target (decoder)")] }));
  } };
}

// The same step of another block. Encoder and decoder may have different depths.
function blockChoice(model, life, followed) {
  const el = h("div", { class: "attn-choices" });
  let depth = 0, follow = () => {}, inner = null;
  function toBlock(block) {
    const { kind, part: sublayer } = followed.step, { steps } = followed.way;
    const same = steps.findIndex((one) => one.block === block && one.kind === kind && one.part === sublayer);
    model.set("step", same < 0 ? steps.findIndex((one) => one.block === block) : same);
  }
  const chosen = { get: () => followed.step.block, set: (_, block) => toBlock(block), off() {},
    on: (_, callback) => { follow = callback; }, save_changes: () => model.save_changes && model.save_changes() };
  life.onEnd(() => inner.end());
  return { el, draw() {
    if (followed.way.depth !== depth) {
      if (inner) inner.end();
      ({ depth } = followed.way);
      inner = lifetime(chosen);
      el.replaceChildren(depth > 1 ? choice(chosen, inner, "step", { label: "Block", choices: numbered(depth) }) : "");
    }
    follow();
  } };
}

// ---------------------------------------------------------------- the widget

// What a step does, and an example from the strip that it is about; the reader's place goes there.
function describeStep(followed) {
  const { now, step, way } = followed, main = Math.max(0, now.strips.findLastIndex((strip) => strip.main));
  const strip = now.strips[main], { keys, record } = step;
  const weights = keys && record.weights && record.weights[way.head];
  const best = weights && strip.values.length === keys.length ? weights.indexOf(largest(weights)) : 0;
  followed.cursor = [main, best];
  followed.hover = null;
  const example = strip.how(best) ? ` For example, ${strip.where(best)}: ${cellText(strip, best)}.` : "";
  return [h("span", { class: "attn-step" }, `${step.label}. `), now.text + example];
}

/** @param {import("./controls.js").Mount} mount */
function render({ model, el }) {
  const life = lifetime(model), following = follower(model), { data, config } = following;
  const sentence = h("p", { class: "attn-said", role: "status" });
  const advice = POINT[Number(byFinger())], readout = h("p", { class: "attn-readout", role: "status" }, advice);
  const followed = followToken(model, following), { view, go } = sceneView(life, followed);
  listen(life, view, followed, readout);
  const token = tokenChoice(model, life, following, followed), block = blockChoice(model, life, followed);
  const table = numberTable(life, followed), map = blockMap(model, life, followed, block.el, () => steps.stop());
  const [scale, keyScale, weightScale] = span(3).map(() => colourScale(life));
  keyScale.el.prepend(h("span", {}, "keys"));
  const steps = stepper(model, life, { pace: PACE,
    place: () => ({ step: followed.number, count: followed.way.steps.length }) });
  function draw(moves) {
    go(moves && followed.now && mayMove() ? followed.now : null);
    sentence.replaceChildren(...describeStep(followed));
    if (readout.textContent !== advice) readout.textContent = advice; // once, and not at every step
    scale.show(followed.now.top, true);
    keyScale.show(followed.now.longest || 1, true);
    keyScale.el.hidden = !followed.now.longest;
    weightScale.el.hidden = !followed.now.strips.some(({ signed, bar }) => !signed && !bar);
    block.draw();
    map.draw();
    table.fill();
    steps.draw();
    view.draw();
  }
  function renew() {
    followed.renew();
    draw(false);
  }
  const controls = [sentence, steps.el, token.el], more = [];
  if (config.num_heads > 1) {
    controls.push(choice(model, life, "head", { label: "Head", choices: numbered(config.num_heads) }));
  }
  if (data.sentences.length > 1) {
    const sentences = data.sentences.map(({ source }, n) => [n, visible(source[1].join(" "), 40)]);
    more.push(folded(model, life, "Another sentence", { opens: ["sentence"] }, h("div", { class: "attn-controls" },
      choice(model, life, "sentence", { label: "Sentence", choices: sentences }))));
  }
  weightScale.show(1);
  frame(el, life, { picture: [h("div", { class: "attn-heatmap" }, view.el, readout)], controls, more, aside: map.el,
    body: [h("div", { class: "attn-scales" }, scale.el, keyScale.el, weightScale.el), table.el] });
  life.watch(["sentence"], () => { renew(); token.renew(); });
  life.watch(["token", "head"], renew);
  life.watch(["step"], () => draw(true));
  renew();
  token.renew();
  return life.end;
}

export default { render };
