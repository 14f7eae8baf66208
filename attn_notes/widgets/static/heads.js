// All heads of a published encoder on several sentences: choose a head, walk the tokens, find heads
// by what they read. Traits: data {sentences: [{tokens, weights}], special, title}, sentence, layer,
// head, token, hide_special, shared_scale, pattern; typing, text, reply.

const PATTERNS = [["", "anything"], ["previous", "the previous token"], ["next", "the next token"],
  ["same", "the same token elsewhere"], ["itself", "the token itself"], ["first", "the first token"],
  ["separator", "the separator, [SEP]"]];
const BEST = 5;
const SCORE = "Score: the weight that a token gives there. A mean over the tokens that have such a place "
  + "(special ones left out), then over the sentences. What is hidden changes no score.";

// The functions of attn_notes.patterns. Cells: (L, L), 1 = wanted; rows of special tokens are empty.
function patternCells(pattern, tokens, special) {
  const L = tokens.length;
  const wanted = {
    previous: (t, i) => i === t - 1,
    next: (t, i) => i === t + 1,
    same: (t, i) => i !== t && tokens[i] === tokens[t],
    itself: (t, i) => i === t,
    first: (t, i) => i === 0,
    separator: (t, i) => tokens[i] === "[SEP]",
  }[pattern];
  return Uint8Array.from({ length: L * L }, (_, n) => {
    const t = (n / L) | 0;
    return +(!special.includes(tokens[t]) && wanted(t, n % L));
  });
}

// For each of the maps that stand one after the other, the weight on the wanted cells: a mean over
// the rows that have one, NaN where no row has.
function patternScores(weights, cells, L) {
  let rows = 0;
  for (let t = 0; t < L; t++) rows += cells.subarray(t * L, (t + 1) * L).some((cell) => cell);
  return Float64Array.from({ length: weights.length / (L * L) }, (_, map) => {
    let found = 0;
    for (let n = 0; n < L * L; n++) if (cells[n]) found += weights[map * L * L + n];
    return found / rows;
  });
}

// Maps without the special tokens; what is left of a row is divided by its sum.
function withoutSpecial(weights, tokens, special) {
  const L = tokens.length, kept = [...tokens.keys()].filter((n) => !special.includes(tokens[n]));
  const K = kept.length, left = new Float64Array((weights.length / (L * L)) * K * K);
  for (let row = 0; row < left.length / K; row++) {
    const from = (((row / K) | 0) * L + kept[row % K]) * L;
    let sum = 0;
    for (let j = 0; j < K; j++) sum += left[row * K + j] = weights[from + kept[j]];
    if (sum > 0) for (let j = 0; j < K; j++) left[row * K + j] /= sum;
  }
  return { weights: left, kept };
}

// The mean over the sentences that have the pattern, each counting alike.
const hasPattern = (scores) => !Number.isNaN(scores[0]);
function meanScores(all) {
  const told = all.filter(hasPattern);
  return told.length ? all[0].map((_, n) => told.reduce((sum, scores) => sum + scores[n], 0) / told.length) : null;
}

// A sentence as it was before it was cut: "##" begins a piece that continues a word.
function sentenceText(tokens, special) {
  const words = tokens.filter((token) => !special.includes(token));
  return visible((words.length ? words : tokens).join(" ").replaceAll(" ##", ""), 60);
}

// What is shown: the sentence, with or without its special tokens, and all maps of it.
function sentenceReader(model) {
  const data = model.get("data"), count = data.sentences.length, maps = new Map();
  const [layers, heads] = data.sentences[0].weights.shape;
  const numbers = (sentence) => { // decoded once
    if (!maps.has(sentence)) maps.set(sentence, decode(sentence.weights));
    return maps.get(sentence);
  };
  let last = {}, typed = null;
  function now() {
    const n = model.get("sentence"), answer = model.get("reply").sentence, hide = model.get("hide_special");
    if (typed !== answer) { maps.delete(typed); typed = answer; }
    const sentence = n < count || !typed ? data.sentences[Math.min(n, count - 1)] : typed;
    if (last.sentence !== sentence || last.hide !== hide) {
      const all = numbers(sentence), { tokens } = sentence;
      const { weights, kept } = hide ? withoutSpecial(all, tokens, data.special)
        : { weights: all, kept: [...tokens.keys()] };
      last = { sentence, hide, weights, kept, tokens: kept.map((t) => tokens[t]), L: kept.length };
    }
    return last;
  }
  const map = ({ weights, L }, layer, head) => {
    const start = (layer * heads + head) * L * L;
    return weights.subarray(start, start + L * L);
  };
  const scores = (pattern, sentence) => {
    const { tokens } = sentence;
    return patternScores(numbers(sentence), patternCells(pattern, tokens, data.special), tokens.length);
  };
  return { data, count, layers, heads, now, map, scores };
}

function render({ model, el }) {
  const life = lifetime(model), reader = sentenceReader(model), { data, count, layers, heads } = reader;
  const current = () => [model.get("layer"), model.get("head")];
  const row = ({ kept }) => Math.max(0, kept.findLastIndex((t) => t <= model.get("token")));
  const look = (shownRow) => {
    if (shownRow === null || reader.now().kept[shownRow] === model.get("token")) return;
    put(model, { token: reader.now().kept[shownRow] });
  };

  // Scores of a pattern over all the sentences given; of the pattern now chosen, once.
  let found = { pattern: "" };
  function ranking() {
    const pattern = model.get("pattern");
    if (found.pattern !== pattern) {
      const all = pattern ? data.sentences.map((sentence) => reader.scores(pattern, sentence)) : [];
      const told = all.filter(hasPattern).length, means = meanScores(all);
      const order = means ? [...means.keys()].sort((a, b) => means[b] - means[a]) : [];
      found = { pattern, told, means, order };
    }
    return found;
  }
  function marks() {
    const { means, order } = ranking();
    if (!means) return null;
    const top = Math.max(means[order[0]], 1e-9);
    return { strength: (layer, head) => means[layer * heads + head] / top,
      best: order.slice(0, BEST).map((n) => [(n / heads) | 0, n % heads]) };
  }

  const scaleTop = () => (model.get("shared_scale") ? Math.max(largest(reader.now().weights), 1e-9) : 1);
  let top = 1;
  const grid = headGrid(life, model, { layers, heads, marks,
    size: () => [reader.now().L, reader.now().L],
    map: (layer, head) => ({ values: reader.map(reader.now(), layer, head), mask: null, top }) });
  const figure = links(life, {
    label: "Tokens that are read, above, and tokens that read, below. Arrow keys walk the tokens below.",
    captions: ["keys (are read)", "queries (read)"], onPick: look });
  const map = heatmap(life, { label: "Weights of the head. Arrow keys walk the cells.", tallest: 32, onPick: look,
    onHover: look });
  const scale = colourScale(life);
  const which = h("p", { class: "attn-said", role: "status" });
  const said = h("p", { class: "attn-said", role: "status" });

  function drawToken() {
    const shows = reader.now(), { tokens, L } = shows, values = reader.map(shows, ...current()), chosen = row(shows);
    map.show({ values, L, S: L, mask: null, queries: tokens, keys: tokens, top, mark: chosen });
    figure.show({ above: tokens, below: tokens, weights: values, chosen, top });
    const read = values.subarray(chosen * L, (chosen + 1) * L);
    said.textContent = `${quoted(tokens[chosen])} reads ${strongest(tokens, read)}.`;
  }
  function draw() {
    const [layer, head] = current();
    top = scaleTop();
    grid.draw();
    scale.show(top);
    drawToken();
    which.textContent = `Layer ${layer}, head ${head}${judgement(layer * heads + head)}`;
    follow();
  }
  function judgement(n) {
    const { pattern, told, means, order } = ranking();
    if (!pattern) return "";
    if (!means) return ": none of the sentences has such a pair.";
    const here = reader.scores(pattern, reader.now().sentence)[n];
    const rank = `rank ${order.indexOf(n) + 1} of ${layers * heads}`;
    const over = `${told < count ? `${told} of ` : ""}${count} sentence${count > 1 ? "s" : ""}`;
    return `: score ${means[n].toFixed(2)} over ${over}, ${rank}; `
      + (Number.isNaN(here) ? "this one has no such pair." : `${here.toFixed(2)} in this one.`);
  }

  const texts = data.sentences.map(({ tokens }, n) => [n, sentenceText(tokens, data.special)]);
  if (model.get("typing") !== "off") texts.push([count, "what you typed"]);
  const sentences = choice(model, life, "sentence", { label: "Sentence", choices: texts });
  const numbered = (size) => Array.from({ length: size }, (_, n) => [n, String(n)]);
  const best = Array.from({ length: Math.min(BEST, layers * heads) }, (_, n) => button(life, "", () => {
    const at = ranking().order[n];
    put(model, { layer: (at / heads) | 0, head: at % heads });
  }));
  const list = h("div", { class: "attn-buttons attn-controls attn-best", role: "group",
    "aria-label": "The best heads, layer.head: score" }, ...best);
  const about = h("p", { class: "attn-note" });
  const scoreTable = foldedTable(life, "The scores of all heads as a table", () => ({
    corner: "layer \u2193 head \u2192", columns: numbered(heads).map(([, text]) => text),
    rows: numbered(layers).map(([layer, text]) => [text, ...numbered(heads).map(([head]) =>
      (ranking().means ? shown(ranking().means[layer * heads + head]) : "\u2013"))]),
  }));
  function follow() {
    const own = sentences.querySelector("select").options[count], { means, order } = ranking();
    if (own) own.disabled = !model.get("reply").sentence;
    const at = model.get("layer") * heads + model.get("head");
    best.forEach((el, n) => {
      if (means) el.textContent = `${(order[n] / heads) | 0}.${order[n] % heads}: ${means[order[n]].toFixed(2)}`;
      el.setAttribute("aria-pressed", Boolean(means) && order[n] === at);
    });
    about.textContent = means ? SCORE : "Choose a head among all of them, or let a pattern find it.";
    list.hidden = scoreTable.el.hidden = !means;
    scoreTable.fill();
  }

  const controls = [sentences, choice(model, life, "layer", { label: "Layer", choices: numbered(layers) }),
    choice(model, life, "head", { label: "Head", choices: numbered(heads) }),
    choice(model, life, "pattern", { label: "Heads that read", choices: PATTERNS }),
    tick(model, life, "hide_special", { label: "Hide special tokens" }),
    tick(model, life, "shared_scale", { label: "Colour up to the largest weight" })];
  if (model.get("typing") !== "off") {
    controls.push(typingBox(model, life, { label: "Type your own", send: "Read", waiting: "The encoder reads \u2026",
      page: "Run this notebook, and a box stands here: the encoder reads what you type." }));
  }
  frame(el, life, { title: data.title, controls, body: [
    h("div", { class: "attn-heads" }, h("div", {}, grid.el, which, list, about), h("div", {}, map.el, scale.el)),
    figure.el, said, map.table, scoreTable.el] });
  life.watch(["token"], drawToken);
  life.watch(["sentence", "layer", "head", "hide_special", "shared_scale", "pattern", "reply"], draw);
  draw();
  return life.end;
}

export default { render };
