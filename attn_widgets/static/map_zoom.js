// How near the reader is to a map of many tokens: a slider, and the whole map small, with a frame around what
// is on show, which can be dragged.

import { dragging, h, KEEP_KEYS, labelled, outline, sharpCanvas } from "./controls.js";
import { isLarge, isNear, onShow, wholeSize, ZOOMABLE } from "./map_layout.js";

/** @typedef {import("./map_layout.js").MapState} MapState */
/** @typedef {import("./map_layout.js").Cell} Cell */
/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Point} Point */

const NEAREST = 12; // tokens on show when the reader is as near as can be
const GRIP = 16; // pixels around the frame where a finger still takes it

// How many tokens may be on show: all, and fewer and fewer.
function zoomSizes(whole) {
  const all = [whole];
  for (let n = 2 ** Math.floor(Math.log2(whole - 1)); n >= NEAREST; n /= 2) all.push(n, Math.round(0.75 * n));
  return all.filter((n, at) => n >= NEAREST && (at === 0 || n < all[0]));
}

// The whole map small, on which the part on show is framed and can be dragged.
function overviewOf(life, map, sheet, moveTo) {
  /** @type {Point} */
  let size = [1, 1];
  const frameOn = ([width, height]) => {
    const { rows, columns, i0, j0 } = onShow(map), x = width / sheet.width, y = height / sheet.height;
    return [j0 * x, i0 * y, columns * x, rows * y];
  };
  const overview = sharpCanvas(life, { least: 80,
    label: "The whole map; the frame is the part on show, and can be dragged.",
    height: (width) => Math.max(24, Math.min(160, (width * sheet.height) / Math.max(1, sheet.width))),
    paint(context, width, height) {
      size = [width, height];
      context.drawImage(sheet, 0, 0, width, height);
      const [x, y, w, t] = frameOn(size);
      outline(context, x, y, w, t);
    } });
  overview.canvas.classList.add("attn-drag");
  // From where in the frame it is held; a mouse may take it to another place at once.
  function grab([x, y], touch) {
    const [left, top, width, height] = frameOn(size), grip = touch ? GRIP : 0;
    const isIn = x >= left - grip && x <= left + width + grip && y >= top - grip && y <= top + height + grip;
    if (isIn) return [x - left, y - top];
    if (touch) return null;
    drag([width / 2, height / 2], [x, y]);
    return [width / 2, height / 2];
  }
  /**
   * @param {number[]} held
   * @param {number[]} to
   */
  function drag([dx, dy], [x, y]) {
    moveTo(((y - dy) / size[1]) * sheet.height, ((x - dx) / size[0]) * sheet.width);
  }
  dragging(life, overview, grab, drag);
  return overview;
}

// The slider and the small map.
function zoomControl(life, map, sheet, { moveTo, zoomTo }) {
  const input = h("input", { type: "range", min: 0, step: 1, ...KEEP_KEYS }), output = h("output", {});
  const sizes = () => zoomSizes(wholeSize(map)), overview = overviewOf(life, map, sheet, moveTo);
  life.listen(input, "input", () => zoomTo(sizes()[Number(input.value)]));
  const el = h("div", { class: "attn-zoom attn-controls", hidden: true }, labelled("Zoom", input, output), overview.el);
  return {
    el,
    step(by) {
      const all = sizes();
      zoomTo(all[Math.max(0, Math.min(all.length - 1, Number(input.value) + by))]);
    },
    follow() {
      const whole = wholeSize(map);
      el.hidden = whole <= ZOOMABLE;
      if (el.hidden) return;
      const now = Math.min(map.side, whole), all = sizes();
      input.max = String(all.length - 1);
      input.value = String(all.findIndex((n) => n <= now));
      output.textContent = now === whole ? `all ${now}` : `${now} of ${whole}`;
      input.setAttribute("aria-valuetext", output.textContent);
      overview.el.hidden = now === whole;
      overview.ask();
    },
  };
}

/**
 * What moves a map and brings it nearer. The controls are made, before `readout`, when a map is large for the
 * first time; `sheet` is the canvas on which a cell is a pixel.
 * @param {Life} life
 * @param {MapState} map
 * @param {HTMLCanvasElement} sheet
 * @param {HTMLElement} readout
 */
function zooming(life, map, sheet, readout) {
  let control = null;
  function follow() {
    if (!control && isLarge(map)) {
      control = zoomControl(life, map, sheet, { moveTo, zoomTo });
      readout.before(control.el);
    }
    if (control) control.follow();
  }
  function moveTo(i, j) {
    map.corner = [Math.round(i), Math.round(j)];
    map.view.ask();
    follow();
  }
  function zoomTo(size) { // around the cell that the reader is at, or in the marked row, if they are in no cell of it
    const { data: { mark, L, S }, cursor } = map, elsewhere = Number.isInteger(mark) && mark !== cursor[0];
    const [i, j] = elsewhere ? [mark, ((mark + 0.5) * S) / L] : cursor;
    map.side = size;
    const { rows, columns } = onShow(map);
    moveTo(i - rows / 2, j - columns / 2);
  }
  return {
    follow,
    /** @param {number} by how many places of the slider */
    step(by) { if (isLarge(map)) control.step(by); },
    /** @param {Cell} cell that the reader has walked to */
    bringIn([i, j]) {
      const { rows, columns, i0, j0 } = onShow(map);
      const into = (n, first, count) => Math.min(n, Math.max(first, n - count + 1));
      if (isNear(map)) moveTo(into(i, i0, rows), into(j, j0, columns));
    },
  };
}

export { zooming };
