// From one state of a picture to the next.

const SLIDE = 700; // milliseconds

/**
 * First what was there goes, then what is new comes: `moments()` says how far each is, from 0 to 1, and `draw` draws
 * one of them.
 * @param {import("./controls.js").Life} life
 * @param {() => void} draw
 */
function transition(life, draw) {
  let began = -1, request = 0;
  function moments() {
    const p = began < 0 ? 1 : Math.min(1, (performance.now() - began) / SLIDE);
    const ease = (x) => { const t = Math.max(0, Math.min(1, x)); return t * t * (3 - 2 * t); };
    return [ease(2 * p), ease(2 * p - 1)];
  }
  function animate() {
    if (moments()[1] >= 1) began = -1;
    draw();
    if (began >= 0) request = requestAnimationFrame(animate);
  }
  function stop() {
    cancelAnimationFrame(request);
    began = -1;
  }
  life.onEnd(stop);
  return { moments, stop, start() { began = performance.now(); animate(); } };
}

/**
 * @param {number} a
 * @param {number} b
 * @param {number} t
 */
const between = (a, b, t) => a + (b - a) * t;

export { between, transition };
