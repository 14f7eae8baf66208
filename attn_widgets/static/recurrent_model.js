// The encoder-decoder of chapter 4 in plain JavaScript: what attn_notes.seq2seq computes with one GRU
// in each direction, one in the decoder and the additive score, for one sentence, in float64. Names
// and shapes are those of transformer_model.js, which also reads the packed weights.

import { affine, END, NEVER_SAID, plus, softmax, START, unpackWeights } from "./transformer_model.js";

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// One step of a GRU, from the state h to the next; its rows stand in the order reset, update, new.
function gruStep(rnn, x, h, direction = "") {
  const part = (kind, input) => affine(
    { weight: rnn[`weight_${kind}_l0${direction}`], bias: rnn[`bias_${kind}_l0${direction}`] }, input);
  const from = part("ih", x), own = part("hh", h), H = h.length;
  return h.map((old, n) => {
    const reset = sigmoid(from[n] + own[n]), update = sigmoid(from[H + n] + own[H + n]);
    const fresh = Math.tanh(from[2 * H + n] + reset * own[2 * H + n]);
    return (1 - update) * fresh + update * old;
  });
}

class RecurrentModel {
  constructor(stored) {
    const { encoder, decoder } = unpackWeights(stored);
    this.encoder = encoder;
    this.decoder = decoder;
  }

  // The encoder's outputs, a vector a token: what the GRU from the left and that from the right say.
  read(tokens) {
    const { embedding, rnn } = this.encoder, x = tokens.map((token) => embedding.weight[token]);
    const along = (places, direction) => {
      const states = [];
      let h = new Float64Array(rnn[`weight_hh_l0${direction}`][0].length);
      for (const place of places) states[place] = h = gruStep(rnn, x[place], h, direction);
      return states;
    };
    const places = [...x.keys()], left = along(places, ""), right = along([...places].reverse(), "_reverse");
    return { outputs: places.map((t) => concatenated(left[t], right[t])), final: concatenated(left.at(-1), right[0]) };
  }

  // The likeliest token again and again, until END or `most`: {tokens, weights}, a row of weights a token.
  translate(source, most) {
    const { bridge, embedding, rnn, out_proj, attention: { score } } = this.decoder;
    const { outputs, final } = this.read(source), keys = outputs.map((output) => affine(score.k_proj, output));
    const tokens = [], weights = [];
    for (let h = affine(bridge, final).map(Math.tanh), token = START; tokens.length < most;) {
      const query = affine(score.q_proj, h);
      const scores = keys.map((key) => affine(score.v_proj, plus(query, key).map(Math.tanh))[0]);
      const row = softmax(scores), context = new Float64Array(outputs[0].length);
      outputs.forEach((output, t) => output.forEach((number, n) => { context[n] += row[t] * number; }));
      h = gruStep(rnn, concatenated(embedding.weight[token], context), h);
      const logits = affine(out_proj, h);
      for (const id of NEVER_SAID) logits[id] = -Infinity;
      token = logits.indexOf(Math.max(...logits));
      if (token === END) break;
      tokens.push(token);
      weights.push(Array.from(row));
    }
    return { tokens, weights };
  }
}

const concatenated = (x, y) => Float64Array.of(...x, ...y);

export { RecurrentModel };
