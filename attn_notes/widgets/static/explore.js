// A heatmap that a Python function answers: live by the kernel, on a page from stored frames.
// Traits: data {controls, queries, keys, title}, values, frame, error, shared_scale; frames on a page.

function render({ model, el }) {
  const life = lifetime(model);
  const { controls, queries, keys, title } = model.get("data");
  const stored = model.get("frames"), frames = stored && decode(stored);
  const [L, S] = model.get("frame").shape;
  const map = heatmap(life, { label: `${title || "Weights"}. Arrow keys walk the cells.` });
  const scale = colourScale(life);
  const problem = h("p", { class: "attn-error", role: "alert" });

  // Frames lie in the order of the grid, the last control fastest.
  function frameNow() {
    if (!frames) return decode(model.get("frame"));
    const values = model.get("values");
    const at = controls.reduce((n, { name, choices }) => n * choices.length + choices.indexOf(values[name]), 0);
    return frames.subarray(at * L * S, (at + 1) * L * S);
  }
  function draw() {
    const values = frameNow();
    const top = scaleTop(model, values);
    map.show({ values, L, S, mask: null, queries, keys, top });
    scale.show(top);
    problem.textContent = model.get("error") || "";
    problem.hidden = !problem.textContent;
  }

  // An entry of `values` as a model, so that the shared controls work on it.
  const entry = (name) => part(model, ["values"], () => model.get("values")[name],
    (value) => model.set("values", { ...model.get("values"), [name]: value }));
  const made = controls.map(({ name, kind, choices }) => {
    const label = name.replaceAll("_", " ");
    if (kind === "box") return tick(entry(name), life, name, { label });
    if (kind === "menu") return choice(entry(name), life, name, { label, choices: choices.map((c) => [c, String(c)]) });
    return slider(entry(name), life, name, { label, places: choices });
  });
  made.push(sharedScale(model, life));
  frame(el, life, { title, controls: made, body: [map.el, scale.el, problem, map.table] });
  life.watch(["frame", "error", "shared_scale"].concat(frames ? ["values"] : []), draw);
  draw();
  return life.end;
}

export default { render };
