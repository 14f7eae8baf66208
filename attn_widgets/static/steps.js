// Buttons and a slider for something that comes step by step. Trait: step. `place()` gives {step, count,
// whole}: the step on show, how many there are, and the first at which nothing is missing any more;
// `draw()` is to be called after they are drawn.

import { button, h, mayMove, put, slider } from "./controls.js";

/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {{ pace: number, place: () => { step: number, count: number, whole?: number } }} options
 */
function stepper(model, life, { pace, place }) {
  const slide = slider(model, life, "step", { label: "Step", min: 0, max: 1, step: 1, format: (n) => String(n + 1) });
  let timer = 0;
  function stop() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = "Play";
  }
  function go(by) {
    const { step, count } = place();
    put(model, { step: Math.max(0, Math.min(count - 1, step + by)) });
  }
  function advance() {
    const { step, count, whole = count - 1 } = place();
    if (step >= whole) return stop();
    go(1);
    timer = setTimeout(advance, pace);
  }
  // From where it stands, or from the first step where there is none left; where nothing plays yet.
  function start(wait = 0) {
    const { step, count, whole = count - 1 } = place(), again = step >= whole;
    clearTimeout(timer);
    play.textContent = "Pause";
    if (again) put(model, { step: 0 });
    timer = setTimeout(advance, again ? pace : wait);
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
  const play = button(life, "Play", () => (timer ? stop() : start()));
  play.classList.add("attn-main");
  const on = button(life, "Next", () => { stop(); go(1); });
  life.onEnd(stop);
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

export { stepper };
