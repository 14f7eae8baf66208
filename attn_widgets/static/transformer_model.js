// A Transformer in plain JavaScript, to be read beside chapters 7 and 9: what attn_notes.transformer
// computes, for one sentence, in float64. Nothing here knows of a page; the softmax and
// the products come from numbers.js.
//
// A vector is a Float64Array, a sequence is a list of vectors, one a position, and a matrix is a list
// of its rows. The weights stand in a tree under the names that they have in PyTorch, so that
// `block.self_attn.q_proj` here is `block.self_attn.q_proj` there.

import { checked, dot, largest, maskedSoftmax, matvec } from "./numbers.js";

const START = 1, END = 2, NEVER_SAID = [0, 1]; // token ids of attn_notes.data; 0 is padding

// ---------------------------------------------------------------- on one vector

/** @typedef {Float64Array<ArrayBuffer>} Vector */
/** @typedef {{ weight: Vector[], bias?: Vector }} Linear */
/** @typedef {{ keys: Vector[], values: Vector[] }} Cache of what has been read */

/**
 * @param {Vector} x
 * @param {Vector} y
 */
const plus = (x, y) => x.map((number, n) => number + y[n]);

// W x + b
/**
 * @param {Linear} layer
 * @param {Vector} x
 */
function affine({ weight, bias }, x) {
  const y = Float64Array.from(matvec(weight, x));
  return bias ? plus(y, bias) : y;
}

function layerNorm({ weight, bias }, x, eps) {
  const mean = x.reduce((sum, number) => sum + number, 0) / x.length;
  const variance = x.reduce((sum, number) => sum + (number - mean) ** 2, 0) / x.length;
  return x.map((number, n) => ((number - mean) / Math.sqrt(variance + eps)) * weight[n] + bias[n]);
}

// A series without a minus sign loses no digits: 2/sqrt(pi) e^(-x^2) (x + 2x^3/3 + 4x^5/(3*5) + ...)
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x); // to the last bit
  let term = x, sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * x * x) / (2 * n + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)), // x times the chance that a normal number is below x
  gelu_tanh: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))), // nearly that
};

/**
 * @param {ArrayLike<number>} scores
 * @param {number} [temperature]
 */
const softmax = (scores, temperature = 1) => maskedSoftmax(scores, null, 1, scores.length, temperature);

// Where the hands of E/2 clocks point at a position (chapter 6).
const sinusoid = (position, E) => Float64Array.from({ length: E }, (_, n) => {
  const angle = position * 10000 ** (-(n - (n % 2)) / E);
  return n % 2 ? Math.cos(angle) : Math.sin(angle);
});

// ---------------------------------------------------------------- the model

// What both models below are built of: embeddings, and the sublayers of a block.
class Blocks {
  edit = null; // `edit(heads, attention)`, if there is one, may change what the heads of an attention have read
  constructor(stored) {
    this.config = stored.config;
    const { num_heads: heads, embed_dim: E } = this.config;
    if (E % checked(heads, E)) throw new RangeError(`${heads} heads do not share ${E} dimensions`);
    // The first two, or the third, or an encoder's own parts; and no other name, whatever is stored.
    const { encoder, decoder, body, embeddings, blocks, norm, out_proj } = unpackWeights(stored);
    this.encoder = encoder;
    this.decoder = decoder;
    this.body = body;
    this.embeddings = embeddings;
    this.blocks = blocks;
    this.norm = norm;
    this.out_proj = out_proj;
  }

  // The token's vector, and its position's if there is one: the stream begins with their sum.
  embedding({ tokens, positions }, token, position) {
    const { embed_dim: E, scale_embeddings: scaled, positions: scheme } = this.config;
    const x = tokens.weight[token].map((number) => (scaled ? number * Math.sqrt(E) : number));
    if (scheme === "none") return [x];
    return [x, scheme === "learned" ? positions.weight[position] : sinusoid(position, E)];
  }
  embed(embeddings, token, position) {
    return this.embedding(embeddings, token, position).reduce(plus);
  }

  // A sublayer f takes the stream from x to LayerNorm(x + f(x)), or to x + f(LayerNorm(x)):
  // f reads `read(norm, x)`, and `write(norm, x, y)` is the stream after it.
  normed(norm, x) { return layerNorm(norm, x, this.config.layer_norm_eps); }
  read(norm, x) { return this.config.norm === "pre" ? this.normed(norm, x) : x; }
  write(norm, x, y) { return this.config.norm === "pre" ? plus(x, y) : this.normed(norm, plus(x, y)); }
  last({ norm }, x) { return this.config.norm === "pre" ? this.normed(norm, x) : x; } // one more at the end

  // Put the key and the value of a vector into a cache: whoever reads it later computes neither again.
  remember({ k_proj, v_proj }, x, { keys, values }) {
    keys.push(affine(k_proj, x));
    values.push(affine(v_proj, x));
  }

  // What a vector reads in a cache, or in the first `reach` places of it, each head with a slice of
  // its own of queries, keys and values: a record of all that is computed on the way to `after`, the
  // stream after it. The scores are divided by the root of D already.
  attend(attention, norm, before, { keys, values }, reach = keys.length) {
    const { num_heads: H, embed_dim: E } = this.config, D = E / H, input = this.read(norm, before);
    const query = affine(attention.q_proj, input), heads = new Float64Array(E), scores = [], weights = [];
    const open = reach < keys.length ? keys.map((_, j) => +(j < reach)) : null;
    for (let h = 0; h < H; h++) {
      const start = h * D, end = start + D, mine = query.subarray(start, end);
      scores[h] = keys.map((key) => dot(mine, key.subarray(start, end)) / Math.sqrt(D));
      weights[h] = maskedSoftmax(scores[h], open, 1, keys.length);
      values.forEach((value, j) => {
        for (let d = start; d < end; d++) heads[d] += weights[h][j] * value[d];
      });
    }
    if (this.edit) this.edit(heads, attention);
    const y = affine(attention.out_proj, heads), after = this.write(norm, before, y);
    return { before, input, query, keys, values, scores, weights, reach, heads, y, after };
  }

  // A vector reads itself and those before it: later ones are in no cache yet, and that is the whole
  // causal mask.
  attendToPast({ self_attn, norm1 }, x, cache) {
    this.remember(self_attn, this.read(norm1, x), cache);
    return this.attend(self_attn, norm1, x, cache);
  }

  // The feed-forward network, as a record like that of `attend`.
  feedForward(norm, { feed_forward: { linear1, linear2 } }, before) {
    const input = this.read(norm, before), hidden = affine(linear1, input);
    const active = hidden.map(ACTIVATIONS[this.config.activation]), y = affine(linear2, active);
    return { before, input, hidden, active, y, after: this.write(norm, before, y) };
  }

  // A whole sequence at once: for each block and position the records of its sublayers, and the
  // outputs. With a memory to read, the blocks are a decoder's.
  run(stack, tokens, { causal = false, memory = null } = {}) {
    let x = tokens.map((token, position) => this.embed(stack.embeddings, token, position));
    const blocks = Object.values(stack.blocks).map((block) => {
      const own = emptyCache(), source = emptyCache();
      for (const vector of x) this.remember(block.self_attn, this.read(block.norm1, vector), own);
      for (const vector of memory || []) this.remember(block.cross_attn, vector, source);
      const records = x.map((vector, i) => {
        const self = this.attend(block.self_attn, block.norm1, vector, own, causal ? i + 1 : undefined);
        const cross = memory && this.attend(block.cross_attn, block.norm2, self.after, source);
        const ff = this.feedForward(memory ? block.norm3 : block.norm2, block, (cross || self).after);
        return { self, cross, ff };
      });
      x = records.map(({ ff }) => ff.after);
      return records;
    });
    return { blocks, outputs: x.map((vector) => this.last(stack, vector)) };
  }
}

// Encoder and decoder (chapter 7).
class TransformerModel extends Blocks {
  // Every position of the source reads every position of it, in each block anew.
  encode(source) {
    const { blocks, outputs } = this.run(this.encoder, source);
    return { memory: outputs, maps: blocks.map((records) => records.map(({ self }) => self.weights)) };
  }

  // The state before the first step: in each block of the decoder nothing is said yet, and of the
  // source all keys and values are known once and for all.
  start(source) {
    const { memory, maps } = this.encode(source);
    const caches = Object.values(this.decoder.blocks).map((block) => {
      const cache = { own: emptyCache(), source: emptyCache() };
      memory.forEach((vector) => this.remember(block.cross_attn, vector, cache.source));
      return cache;
    });
    return { length: 0, caches, maps };
  }

  // Read one token more, and give the scores of what may follow it.
  step(token, state) {
    let x = this.embed(this.decoder.embeddings, token, state.length++);
    const own = [], cross = [];
    Object.values(this.decoder.blocks).forEach((block, n) => {
      const cache = state.caches[n];
      own[n] = this.attendToPast(block, x, cache.own);
      cross[n] = this.attend(block.cross_attn, block.norm2, own[n].after, cache.source);
      x = this.feedForward(block.norm3, block, cross[n].after).after;
    });
    const weights = (blocks) => blocks.map((block) => block.weights); // [layer][head][key]
    return { logits: affine(this.out_proj, this.last(this.decoder, x)), decoder: weights(own), cross: weights(cross) };
  }
}

// A decoder alone, which goes on with a text (chapter 9): the encoder's blocks, and nothing to read
// but what has been said.
class LanguageModel extends Blocks {
  start() {
    return { length: 0, caches: Object.values(this.body.blocks).map(emptyCache) };
  }

  // Read one token more, and give the scores of what may follow it.
  step(token, state) {
    let x = this.embed(this.body.embeddings, token, state.length++);
    const weights = Object.values(this.body.blocks).map((block, n) => {
      const attended = this.attendToPast(block, x, state.caches[n]);
      x = this.feedForward(block.norm2, block, attended.after).after;
      return attended.weights; // [layer][head][key]
    });
    return { logits: affine(this.out_proj, this.last(this.body, x)), weights };
  }

  // Forget all but the first `length` tokens.
  rewind(state, length) {
    for (const { keys, values } of state.caches) keys.length = values.length = length;
    state.length = length;
  }
}

const emptyCache = () => ({ keys: [], values: [] });

// Where the window begins in which position `i` is read: a model reads `context` tokens at most, and
// of a longer text it goes on from the last half of them.
function windowStart(i, context) {
  const stride = context + 1 - Math.max(1, context >> 1);
  return stride * Math.max(0, Math.ceil((i - context + 1) / stride));
}

// What follows each token of a text: a record for each, {logits, weights, start}. Of a text that begins
// like the last one, only the rest is read.
class Reader {
  constructor(network, context) {
    this.network = network;
    this.context = context;
    this.tokens = [];
    this.records = [];
    this.start = 0;
    this.state = network.start();
  }

  read(tokens) {
    const differs = tokens.findIndex((token, i) => token !== this.tokens[i]);
    const same = differs < 0 ? tokens.length : differs;
    this.records.length = same;
    this.tokens = [...tokens];
    for (let i = same; i < tokens.length; i++) this.records.push(this.next(i));
    return this.records;
  }

  next(i) {
    const { network, state, tokens } = this, start = windowStart(i, this.context);
    const held = start === this.start ? Math.min(state.length, i - start) : 0;
    this.start = start;
    network.rewind(state, held);
    for (let j = start + held; j < i; j++) network.step(tokens[j], state);
    return { ...network.step(tokens[i], state), start };
  }
}

// ---------------------------------------------------------------- decoding

// A number from 0 to 1 for each seed and step: mulberry32, whose state is a counter.
/**
 * @param {number} seed
 * @param {number} step
 */
function chance(seed, step) {
  let a = Math.imul(seed, 0x9e3779b1) + Math.imul(step + 1, 0x6d2b79f5);
  a = Math.imul(a ^ (a >>> 15), a | 1);
  a ^= a + Math.imul(a ^ (a >>> 7), a | 61);
  return ((a ^ (a >>> 14)) >>> 0) / 2 ** 32;
}

// How probable each token is to be said; padding and START never are. Temperature 0, at which the
// likeliest is always taken, shows the model's own probabilities.
/**
 * @param {Vector} logits
 * @param {number} temperature
 */
function nextProbabilities(logits, temperature) {
  const scores = logits.map((logit, token) => (NEVER_SAID.includes(token) ? -Infinity : logit));
  return softmax(scores, temperature || 1);
}

// What a token is drawn from: of the probabilities at a temperature the `top_k` largest, and of those,
// the largest first, as few as it takes to reach `top_p`. Of equals the lower id goes first. As in
// attn_notes.decoding.sampling_distribution.
/**
 * @param {Vector} logits
 * @param {any} settings {temperature, top_k, top_p}
 */
function samplingDistribution(logits, { temperature, top_k, top_p }) {
  const probabilities = nextProbabilities(logits, temperature);
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]); // a stable sort
  const share = (ids) => ids.reduce((sum, id) => sum + probabilities[id], 0);
  const best = order.slice(0, top_k), whole = share(best);
  let rest = 0, size = best.length; // from the end, where the sums are small and exact
  while (size > 1 && (rest += probabilities[best[size - 1]] / whole) <= 1 - top_p) size--;
  const kept = best.slice(0, size), total = share(kept), result = new Float64Array(logits.length);
  for (const id of kept) result[id] = probabilities[id] / total;
  return result;
}

// The token under the point `share` of a line on which each has its probability for a length.
/**
 * @param {Vector} probabilities
 * @param {number} share
 */
function drawn(probabilities, share) {
  let sum = 0;
  const token = probabilities.findIndex((p) => (sum += p) > share);
  return token < 0 ? probabilities.lastIndexOf(largest(probabilities)) : token; // rounding at the end
}

// A whole translation, a record for each step; it begins with the tokens of `prefix`, and ends after
// END or `most` tokens.
/**
 * @param {any} model a TransformerModel, or what starts and steps as one
 * @param {number[]} source
 * @param {{ temperature?: number, seed?: number, prefix?: number[], most?: number }} options
 */
function translateTokens(model, source, { temperature = 0, seed = 0, prefix = [], most = 32 }) {
  const state = model.start(source), steps = [];
  for (let token = START; token !== END && steps.length < most; token = steps.at(-1).token) {
    const next = model.step(token, state), probabilities = nextProbabilities(next.logits, temperature);
    const free = temperature
      ? drawn(probabilities, chance(seed, steps.length)) : probabilities.indexOf(largest(probabilities));
    steps.push({ ...next, probabilities, token: prefix[steps.length] ?? free });
  }
  return { steps, encoder: state.maps };
}

// ---------------------------------------------------------------- what is stored

// Matrices are stored in a byte a number, with one scale a row; vectors, such as biases, as they are;
// tied weights once.
/** @param {any} stored as attn_widgets.packing packs it */
function unpackWeights({ tensors, tied, bytes, floats }) {
  const raw = ({ b64 }) => Uint8Array.from(atob(b64), (character) => character.charCodeAt(0)).buffer;
  const quanta = new Int8Array(raw(bytes)), numbers = new Float32Array(raw(floats));
  const found = Object.create(null), tree = Object.create(null); // nothing is inherited, so nothing can be changed
  let byte = 0, float = 0;
  const vector = (size) => Float64Array.from(numbers.subarray(float, float += size));
  const row = (size, scale) => Float64Array.from(quanta.subarray(byte, byte += size), (quantum) => quantum * scale);
  for (const [name, [size, columns]] of tensors) {
    found[name] = columns ? Array.from(vector(size), (scale) => row(columns, scale)) : vector(size);
  }
  for (const [name, first] of tied) found[name] = found[first];
  for (const [name, weight] of Object.entries(found)) {
    const path = name.split("."), leaf = path.pop();
    path.reduce((branch, key) => (branch[key] ??= Object.create(null)), tree)[leaf] = weight;
  }
  return tree;
}

export {
  affine, Blocks, chance, drawn, END, LanguageModel, NEVER_SAID, nextProbabilities, plus, Reader,
  samplingDistribution, softmax, START, TransformerModel, translateTokens, unpackWeights,
};
