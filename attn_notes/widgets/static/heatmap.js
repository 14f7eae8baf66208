// The heatmap every chapter uses: weights, or scores that it turns into weights itself.
// Traits: data {kind, values, mask, queries, keys, title, heads, layers}, and the controls layer,
// head, temperature, mask_choice, shared_scale, overview.

// All heads of all layers in one canvas; a click or the arrow keys choose one.
function headGrid(life, model, { layers, heads, L, S, map }) {
  const gap = 1;
  const sheet = document.createElement("canvas");
  sheet.width = heads * (S + gap); sheet.height = layers * (L + gap);
  const pen = sheet.getContext("2d");
  const image = pen.createImageData(sheet.width, sheet.height);
  const words = new Uint32Array(image.data.buffer);
  const left = 22, below = 18;
  const size = (width) => {
    const wide = Math.min(width - left, Math.max(heads * 44, 160));
    return [wide, (wide * sheet.height) / sheet.width];
  };
  const view = sharpCanvas(life, {
    label: `All ${layers * heads} heads: rows are layers, columns are heads. Arrow keys choose one.`,
    keyboard: true,
    height: (width) => size(width)[1] + below,
    paint(context, width) {
      const [wide, tall] = size(width);
      for (let n = 0; n < layers * heads; n++) {
        const { values, mask, top } = map((n / heads) | 0, n % heads);
        const start = ((n / heads) | 0) * (L + gap) * sheet.width + (n % heads) * (S + gap);
        for (let i = 0; i < L; i++) {
          for (let j = 0, k = i * S, word = start + i * sheet.width; j < S; j++, k++, word++) {
            words[word] = mask && !mask[k] ? 0 : SEQUENTIAL[level(values[k], 0, top)];
          }
        }
      }
      pen.putImageData(image, 0, 0);
      context.imageSmoothingEnabled = sheet.width > wide;
      context.drawImage(sheet, left, 0, wide, tall);
      const w = wide / heads, t = tall / layers;
      outline(context, left + model.get("head") * w, model.get("layer") * t, w, t);
      context.fillStyle = view.colours.muted; context.font = `11px ${view.colours.font}`;
      context.textAlign = "right"; context.textBaseline = "middle";
      for (let layer = 0; layer < layers; layer++) context.fillText(String(layer), left - 6, (layer + 0.5) * t);
      context.textAlign = "center"; context.textBaseline = "top";
      for (let head = 0; head < heads; head++) context.fillText(String(head), left + (head + 0.5) * w, tall + 3);
    },
  });
  const pick = (layer, head) => put(model, {
    layer: Math.max(0, Math.min(layers - 1, layer)), head: Math.max(0, Math.min(heads - 1, head)) });
  life.listen(view.canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = view.at(event), [wide, tall] = size(view.el.clientWidth);
    pick(Math.floor((y / tall) * layers), Math.floor(((x - left) / wide) * heads));
  });
  life.listen(view.canvas, "keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || withModifier(event)) return;
    event.preventDefault();
    pick(model.get("layer") + step[0], model.get("head") + step[1]);
  });
  return view;
}

// What the data and the controls say is shown: {values, mask} of one head.
function headReader(model) {
  const data = model.get("data");
  const values = decode(data.values), given = data.mask ? decode(data.mask) : null;
  const [layers, heads, L, S] = data.values.shape;
  const causal = namedMask("causal", L, S);
  const mask = () => {
    if (data.kind === "weights") return given;
    return { none: null, causal, given }[model.get("mask_choice")];
  };
  const read = (layer, head) => {
    const start = (layer * heads + head) * L * S;
    const one = values.subarray(start, start + L * S);
    return data.kind === "weights" ? one : maskedSoftmax(one, mask(), L, S, model.get("temperature"));
  };
  return { data, layers, heads, L, S, mask, read };
}

function render({ model, el }) {
  const life = lifetime(model);
  const reader = headReader(model);
  const map = heatmap(life, { label: "Attention weights. Arrow keys walk the cells.",
    onPick: (row, column) => put(model, { row, column }) });
  const scale = colourScale(life);
  const { data, layers, heads } = reader;

  // One scale for all heads of all layers, or their colours could not be compared.
  function scaleTop() {
    if (!model.get("shared_scale")) return 1;
    let most = 1e-9;
    for (let n = 0; n < layers * heads; n++) most = Math.max(most, largest(reader.read((n / heads) | 0, n % heads)));
    return most;
  }
  let top = 1;
  let grid = null;
  const which = h("p", { class: "attn-note", role: "status" });
  function draw() {
    const { L, S } = reader;
    const values = reader.read(model.get("layer"), model.get("head"));
    top = scaleTop();
    map.show({ values, L, S, mask: reader.mask(), queries: reader.data.queries, keys: reader.data.keys, top });
    scale.show(top);
    which.textContent = `Layer ${model.get("layer")}, head ${model.get("head")}`;
    if (grid && model.get("overview")) grid.draw();
  }

  const controls = [];
  const numbers = (count) => Array.from({ length: count }, (_, n) => [n, String(n)]);
  if (layers > 1) controls.push(choice(model, life, "layer", { label: "Layer", choices: numbers(layers) }));
  if (heads > 1) controls.push(choice(model, life, "head", { label: "Head", choices: numbers(heads) }));
  if (data.kind === "scores") {
    controls.push(slider(model, life, "temperature", { label: "Temperature", places: twoDigits(0.05, 20), format: sized }));
    const choices = [["none", "none"], ["causal", "causal"]].concat(data.mask ? [["given", "the given one"]] : []);
    controls.push(choice(model, life, "mask_choice", { label: "Mask", choices }));
  }
  controls.push(tick(model, life, "shared_scale", { label: "Colour up to the largest weight" }));
  const body = [map.el, scale.el, map.table];
  if (layers * heads > 1) {
    controls.push(tick(model, life, "overview", { label: "All heads at once" }));
    grid = headGrid(life, model, { ...reader, map: (layer, head) => {
      return { values: reader.read(layer, head), mask: reader.mask(), top };
    } });
    const fold = () => { grid.el.hidden = which.hidden = !model.get("overview"); };
    life.watch(["overview"], fold);
    fold();
    body.unshift(h("div", {}, grid.el, which));
  }
  frame(el, life, { title: data.title, controls, body });
  life.watch(["layer", "head", "temperature", "mask_choice", "shared_scale", "overview"], draw);
  draw();
  return life.end;
}

export default { render };
