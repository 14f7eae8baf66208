// A heatmap that a Python function answers: live by the kernel, on a page from stored frames.
// Traits: data {controls, queries, keys, title, perhaps curve}, values, answered (the values that the rest
// belongs to), frame, error, printed, shared_scale; on a page frames, or null where none were stored.

import { decode } from "./numbers.js";
import { choice, frame, h, lifetime, part, put, slider, tick } from "./controls.js";
import { curveView } from "./curve.js";
import { player } from "./steps.js";
import { colourScale, scaleTop, sharedScale } from "./weights.js";
import { heatmap } from "./map.js";

const PATIENCE = 300; // milliseconds
const WHOLE = 7000, SHORTEST = 80, LONGEST = 900; // of a slider that plays from end to end, and of one of its places

function render({ model, el }) {
  const life = lifetime(model);
  const { controls, queries, keys, title, curve } = model.get("data");
  const stored = model.get("frames"), frames = stored && decode(stored), isLive = stored === undefined;
  const [L, S] = model.get("frame").shape;
  const map = heatmap(life, { label: `${title || "Weights"}. Arrow keys walk the cells.` });
  const scale = colourScale(life);
  const problem = h("p", { class: "attn-error", role: "alert" }), printed = h("pre");
  const note = h("p", { class: "attn-note attn-wait", role: "status" });
  note.hidden = Boolean(frames);
  if (stored === null) note.textContent = "These controls need a kernel: run the notebook to move them.";
  let wait = 0; // an answer that comes at once needs no word
  const same = (a, b) => controls.every(({ name }) => a[name] === b[name]);
  const isBusy = () => isLive && !same(model.get("values"), model.get("answered"));

  // Frames lie in the order of the grid, the last control fastest.
  function frameNow() {
    if (!frames) return decode(model.get("frame"));
    const values = model.get("values");
    const at = controls.reduce((n, { name, choices }) => {
      const place = choices.indexOf(values[name]);
      if (place < 0) throw new RangeError(`${name} must be one of ${choices}, got ${values[name]}`);
      return n * choices.length + place;
    }, 0);
    return frames.subarray(at * L * S, (at + 1) * L * S);
  }
  function draw() {
    const values = frameNow();
    const top = scaleTop(model, values);
    map.show({ values, L, S, mask: null, queries, keys, top });
    scale.show(top);
    if (line) line.draw();
    root.classList.toggle("attn-busy", isBusy());
    clearTimeout(wait);
    if (isBusy()) wait = setTimeout(() => { note.textContent = "Python is computing \u2026"; }, PATIENCE);
    else if (isLive) note.textContent = "";
    problem.textContent = model.get("error") || "";
    problem.hidden = !problem.textContent;
    map.el.hidden = scale.el.hidden = map.table.hidden = !problem.hidden; // not a picture of other values
    printed.textContent = model.get("printed") || "";
    printed.hidden = !printed.textContent;
  }

  // An entry of `values` as a model, so that the shared controls work on it.
  const entry = (name) => part(model, ["values"], () => model.get("values")[name],
    (value) => model.set("values", { ...model.get("values"), [name]: value }));
  // The first slider plays, and a curve runs along it.
  const first = controls.find(({ kind }) => kind === "slider");
  const at = () => first.choices.indexOf(model.get("values")[first.name]);
  const go = (place) => put(model, { values: { ...model.get("values"), [first.name]: first.choices[place] } });
  function playing(control) {
    const last = first.choices.length - 1, pace = Math.max(SHORTEST, Math.min(LONGEST, WHOLE / last));
    const play = player(life, { pace, place: () => ({ step: at(), whole: last }), show: go, isReady: () => !isBusy() });
    life.listen(control, "input", play.stop);
    control.prepend(play.el);
    return play;
  }
  const made = controls.map(({ name, kind, choices }) => {
    const label = name.replaceAll("_", " ");
    if (kind === "box") return tick(entry(name), life, name, { label });
    if (kind === "menu") return choice(entry(name), life, name, { label, choices: choices.map((c) => [c, String(c)]) });
    return slider(entry(name), life, name, { label, places: choices });
  });
  made.push(sharedScale(model, life));
  if (stored === null) made.slice(0, -1).forEach((one) => { one.querySelector("input, select").disabled = true; });
  const play = first && stored !== null ? playing(made[controls.indexOf(first)]) : null;
  const line = curve && curveView(life, { ...curve, name: first.name.replaceAll("_", " "), places: first.choices,
    current: at, choose(place) { if (play) { play.stop(); go(place); } } });
  const picture = [map.el, scale.el, problem], tables = line ? [map.table, line.table] : [map.table];
  const body = [note, printed, ...tables];
  const root = frame(el, life, { title, picture, controls: made, aside: line && line.el, body });
  life.watch(["frame", "error", "printed", "answered", "values", "shared_scale"], draw);
  life.onEnd(() => clearTimeout(wait));
  draw();
  return life.end;
}

export default { render };
