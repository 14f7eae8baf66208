// Attention by spelling: a word's vector counts its letters, words read each other by the cosine.
// Traits: text, temperature, causal, shared_scale.

function spellingScores(words) {
  const counts = words.map((word) => {
    const count = new Map();
    for (const letter of word.toLowerCase()) count.set(letter, (count.get(letter) || 0) + 1);
    return count;
  });
  const norms = counts.map((count) => Math.hypot(...count.values()));
  return Float64Array.from(counts.flatMap((a, i) => counts.map((b, j) => {
    let sum = 0;
    for (const [letter, n] of a) sum += n * (b.get(letter) || 0);
    return sum / (norms[i] * norms[j]);
  })));
}

function render({ model, el }) {
  const life = lifetime(model);
  const map = heatmap(life, { label: "How much each word reads each other. Arrow keys walk the cells." });
  const scale = colourScale(life);
  const note = h("p", { class: "attn-note", role: "status" });
  const input = h("input", { type: "text", maxlength: 400, spellcheck: "false", autocomplete: "off", ...KEEP_KEYS });
  const showText = () => { if (input.value !== model.get("text")) input.value = model.get("text"); };
  life.listen(input, "input", () => put(model, { text: input.value }));

  function draw() {
    showText();
    const all = model.get("text").split(/[ \t\r\n]+/).filter(Boolean), words = all.slice(0, 24);
    const L = words.length;
    const mask = model.get("causal") ? namedMask("causal", L, L) : null;
    const weights = maskedSoftmax(spellingScores(words), mask, L, L, model.get("temperature"));
    const top = scaleTop(model, weights);
    map.show({ values: weights, L, S: L, mask, queries: words, keys: words, top });
    scale.show(top);
    note.textContent = L === 0 ? "Type a word or two."
      : all.length > L ? `The first ${L} of ${all.length} words are shown.` : "";
    note.hidden = !note.textContent;
  }
  const controls = [
    labelled("Words", input),
    slider(model, life, "temperature", { label: "Temperature", places: twoDigits(0.02, 5), format: sized }),
    tick(model, life, "causal", { label: "Read no later word (causal mask)" }),
    sharedScale(model, life),
  ];
  frame(el, life, { controls, body: [note, map.el, scale.el, map.table] });
  life.watch(["text", "temperature", "causal", "shared_scale"], draw);
  draw();
  return life.end;
}

export default { render };
