// The colours of weights, the pattern of a masked cell, and the scale that explains them.

import { css, DIVERGING, inks, largest, SEQUENTIAL, shown } from "./numbers.js";
import { h, tick } from "./controls.js";

/** @typedef {import("./controls.js").Model} Model */
/** @typedef {import("./controls.js").Life} Life */

// ---------------------------------------------------------------- colours of weights

// How far up the colours a share of the largest weight lies. The cube root tells small weights apart,
// such as a 64th, which it takes to a quarter; "row" measures each row by its own largest.
const SCALES = [["linear", "linear"], ["root", "cube root"], ["row", "each row by its largest"]];
const STEPS = 65535, ALMOST = 1 - 1e-9; // as many as Python sends
const RAMPS = new Map(); // for each step up to the largest weight its colour, once it is wanted
function ramp(scale) {
  const shade = scale === "root" ? Math.cbrt : (share) => share;
  if (!RAMPS.has(scale)) {
    RAMPS.set(scale, Uint32Array.from({ length: STEPS + 2 },
      (_, n) => SEQUENTIAL[Math.round(255 * shade(Math.min(1, n / STEPS)))]));
  }
  return RAMPS.get(scale);
}

// The largest weight in a row that is open.
function rowTop(values, mask, row, S) {
  let top = 0;
  for (let n = row; n < row + S; n++) if (values[n] > top && !(mask && !mask[n])) top = values[n];
  return top;
}

// The cells of a map as the words of an image, whose rows are `stride` apart from `start` on. A weight
// of 0 has the colour `zero`, which no other weight has, and a masked cell the colour `closed`.
/**
 * @param {Uint32Array} words
 * @param {import("./map_layout.js").MapData} map
 * @param {{ zero: number, closed: number, start?: number, stride?: number }} options
 */
function colourCells(words, map, { zero, closed, start = 0, stride = map.S }) {
  const { values, L, S, mask, top = 1, scale = "linear" } = map;
  const colours = ramp(scale);
  colours[0] = zero; // any weight above 0 is taken to the step above it, and one near 0 to the first
  for (let i = 0; i < L; i++) {
    const step = STEPS / ((scale === "row" ? rowTop(values, mask, i * S, S) : top) || 1);
    for (let j = 0, n = i * S, word = start + i * stride; j < S; j++, n++, word++) {
      words[word] = mask && !mask[n] ? closed : colours[(values[n] * step + ALMOST) | 0 || +(values[n] > 0)];
    }
  }
}

// Where the colours end: at 1, or at the largest weight if the reader wants it so.
/**
 * @param {Model} model
 * @param {ArrayLike<number>} values
 */
const scaleTop = (model, values) => (model.get("shared_scale") ? Math.max(largest(values), 1e-9) : 1);
/**
 * @param {Model} model
 * @param {Life} life
 */
const sharedScale = (model, life) => tick(model, life, "shared_scale", { label: "Colour up to the largest weight" });

// Fine diagonal lines: a cell that may not be read. One pattern a colour.
const HATCHES = new Map();
/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} colour
 */
function hatch(context, colour) {
  if (!HATCHES.has(colour)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
    pen.stroke();
    HATCHES.set(colour, context.createPattern(tile, "repeat"));
  }
  return HATCHES.get(colour);
}

// A swatch of the colour scale and what it stands for.
const swatch = (width, text) => {
  const canvas = h("canvas", { width, height: 10, "aria-hidden": "true" });
  return { el: h("span", { class: "attn-swatched" }, text, canvas), pen: canvas.getContext("2d"), canvas };
};

// The colour scale: the colour of a weight of exactly 0, a strip from there to `top` with its two numbers, and, if
// `masked`, the pattern of a masked cell. Of another scale than the linear one, `words` say what it does.
/** @param {Life} life */
function colourScale(life) {
  const none = swatch(12, "exactly 0"), closed = swatch(18, "masked");
  const low = h("span", {}), high = h("span", {}), words = h("span", {});
  const strip = h("canvas", { width: 128, height: 10, "aria-hidden": "true" });
  const view = h("div", { class: "attn-scale" }, none.el, low, strip, high, words, closed.el);
  const short = (x) => shown(x).replace(/\.?0+$/, "");
  let paint = () => {};
  life.onTheme(() => paint());
  life.onResize(view, () => paint()); // put on the page, it has colours
  return {
    el: view,
    /** @param {number} top */
    show(top, signed = false, scale = "linear", masked = false) {
      none.el.hidden = signed;
      closed.el.hidden = !masked;
      low.textContent = signed ? short(-top) : "above 0";
      high.textContent = scale === "row" ? "the row\u2019s largest" : short(top);
      words.textContent = scale === "root" ? `(half way up: ${short(top / 8)})` : "";
      paint = () => {
        const context = strip.getContext("2d"), { panel, muted } = inks(strip), { width } = strip;
        for (let n = 0; n < width; n++) {
          context.fillStyle = css((signed ? DIVERGING : SEQUENTIAL)[Math.floor((255 * n) / (width - 1))]);
          context.fillRect(n, 0, 1, 10);
        }
        for (const { pen, canvas, fill } of [{ ...none, fill: panel }, { ...closed, fill: hatch(closed.pen, muted) }]) {
          pen.clearRect(0, 0, canvas.width, 10);
          pen.fillStyle = fill;
          pen.fillRect(0, 0, canvas.width, 10);
          pen.strokeStyle = muted;
          pen.strokeRect(0.5, 0.5, canvas.width - 1, 9);
        }
      };
      paint();
    },
  };
}

export { colourCells, colourScale, hatch, SCALES, scaleTop, sharedScale };
