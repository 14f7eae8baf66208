// Buttons and a slider for something that comes step by step. Trait: step. `place()` gives {step, count,
// whole}: the step on show, how many there are, and the first at which nothing is missing any more;
// `draw()` is to be called after they are drawn.

import { button, h, mayMove, put, slider } from "./controls.js";

/**
 * A button that plays to the end and stops there; from the first step where there is none left. `place()` gives
 * {step, whole}, the step on show and the last to come; `show` hears of the next, once this one `isReady()`.
 * @param {import("./controls.js").Life} life
 * @param {{ pace: number, place: () => { step: number, whole: number }, show: (step: number) => void,
 *   isReady?: () => boolean }} options
 */
function player(life, { pace, place, show, isReady = () => true }) {
  let timer = 0;
  function stop() {
    clearTimeout(timer);
    timer = 0;
    el.textContent = "Play";
  }
  function advance() {
    const { step, whole } = place();
    if (step >= whole) return stop();
    if (isReady()) show(step + 1);
    timer = setTimeout(advance, pace);
  }
  function start(wait = 0) {
    const { step, whole } = place(), again = step >= whole;
    clearTimeout(timer);
    el.textContent = "Pause";
    if (again) show(0);
    timer = setTimeout(advance, again ? pace : wait);
  }
  const el = button(life, "Play", () => (timer ? stop() : start()));
  el.classList.add("attn-play");
  life.onEnd(stop);
  return { el, start, stop };
}

/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {{ pace: number, place: () => { step: number, count: number, whole?: number } }} options
 */
function stepper(model, life, { pace, place }) {
  const slide = slider(model, life, "step", { label: "Step", min: 0, max: 1, step: 1, format: (n) => String(n + 1) });
  const { el: play, start, stop } = player(life, { pace, show: (step) => put(model, { step }),
    place() { const { step, count, whole = count - 1 } = place(); return { step, whole }; } });
  function go(by) {
    const { step, count } = place();
    put(model, { step: Math.max(0, Math.min(count - 1, step + by)) });
  }
  // By itself, once, when most of the figure is on the screen; the reader's first touch comes before that.
  function playOnce(root, figure) {
    if (!mayMove()) return;
    const seen = new IntersectionObserver(([{ intersectionRatio }]) => {
      if (intersectionRatio < 0.6) return;
      seen.disconnect();
      put(model, { step: 0 });
      start(pace);
    }, { threshold: 0.6 });
    seen.observe(figure);
    life.onEnd(() => seen.disconnect());
    for (const type of ["pointerdown", "keydown"]) life.listen(root, type, () => seen.disconnect());
  }
  const back = button(life, "Previous", () => { stop(); go(-1); });
  play.classList.add("attn-main");
  const on = button(life, "Next", () => { stop(); go(1); });
  return {
    el: h("div", { class: "attn-controls attn-buttons", role: "group", "aria-label": "Steps" }, back, play, on, slide),
    start, stop, playOnce,
    draw() {
      const { step, count } = place(), input = slide.querySelector("input"), text = `${step + 1} of ${count}`;
      input.max = String(count - 1);
      input.value = String(step);
      slide.querySelector("output").textContent = text;
      input.setAttribute("aria-valuetext", text);
      back.setAttribute("aria-disabled", String(step === 0)); // and not disabled: it would lose the focus
      on.setAttribute("aria-disabled", String(step === count - 1));
    },
  };
}

export { player, stepper };
