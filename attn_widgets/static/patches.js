// A picture that a model has cut into patches: a row of weights lies over it. Left is what was read, with a frame
// around the patch that reads; right how much it reads of each.

import { css, decode, level, SEQUENTIAL } from "./numbers.js";
import { button, h, outline, sharpCanvas, withModifier } from "./controls.js";

const WIDEST = 300, GAP = 16, COVER = 0.72; // pixels of a picture, and between two; how much the colours hide

/**
 * A picture, its patches, and the tokens before them.
 * @typedef {{ pixels: any, grid: [number, number], first: number }} Cut
 */
/**
 * What lies over the picture.
 * @typedef {object} PatchData
 * @property {Cut} image
 * @property {string[]} names of the tokens before the patches
 * @property {number} chosen the token that reads
 * @property {(token: number) => number | null} weight that it has for a token; null where that is hidden
 * @property {number} top the weight with the last colour
 */

// The picture as a canvas, a pixel of it each, made once.
const PICTURES = new WeakMap();
/** @param {Cut} image */
function pictureOf(image) {
  if (!PICTURES.has(image)) {
    const [height, width] = image.pixels.shape, numbers = decode(image.pixels);
    const canvas = document.createElement("canvas");
    canvas.width = width; canvas.height = height;
    const pen = canvas.getContext("2d"), made = pen.createImageData(width, height);
    for (let n = 0; n < width * height; n++) {
      for (let c = 0; c < 3; c++) made.data[4 * n + c] = Math.round(255 * numbers[3 * n + c]);
      made.data[4 * n + 3] = 255;
    }
    pen.putImageData(made, 0, 0);
    PICTURES.set(image, canvas);
  }
  return PICTURES.get(image);
}

// Where the two pictures lie: their left edges, and the size of each.
function placesOf(image, width) {
  const [rows, columns] = image.pixels.shape, side = Math.min(WIDEST, Math.floor((width - GAP) / 2));
  return { lefts: [0, side + GAP], width: side, height: Math.round((side * rows) / columns) };
}

// The token whose patch is at a place, or null.
function patchAt({ grid: [rows, columns], first }, { lefts, width, height }, [x, y]) {
  const left = lefts.find((one) => x >= one && x < one + width);
  if (left === undefined || y < 0 || y >= height) return null;
  return first + Math.floor((y / height) * rows) * columns + Math.floor(((x - left) / width) * columns);
}

function boxOf({ grid: [rows, columns], first }, { width, height }, token) {
  const n = token - first, w = width / columns, t = height / rows;
  return [(n % columns) * w, Math.floor(n / columns) * t, w, t];
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {PatchData} data
 */
function paintPatches(context, data, place) {
  const { image, chosen, weight, top } = data, { lefts, width, height } = place, picture = pictureOf(image);
  context.imageSmoothingEnabled = picture.width > width;
  for (const left of lefts) context.drawImage(picture, left, 0, width, height);
  const last = image.first + image.grid[0] * image.grid[1];
  context.globalAlpha = COVER;
  for (let token = image.first; token < last; token++) {
    const [x, y, w, t] = boxOf(image, place, token), share = weight(token);
    if (share === null) continue;
    context.fillStyle = css(SEQUENTIAL[level(share, 0, top)]);
    context.fillRect(lefts[1] + x, y, w, t);
  }
  context.globalAlpha = 1;
  if (chosen < image.first) return;
  const [x, y, w, t] = boxOf(image, place, chosen);
  for (const left of lefts) outline(context, left + x, y, w, t);
}

// Where a key leads from a token: among the patches, or to the first token of all.
function walked(key, token, { grid: [rows, columns], first }) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (key === "Home") return 0;
  if (!step) return null;
  if (token < first) return first;
  const n = token - first, across = (n % columns) + (Math.abs(step) === 1 ? step : 0);
  const isOut = across < 0 || across >= columns || n + step < 0 || n + step >= rows * columns;
  return isOut ? token : token + step;
}

/**
 * @param {import("./controls.js").Life} life
 * @param {{ onPick: (token: number) => void }} options
 */
function patchView(life, { onPick }) {
  /** @type {PatchData | null} */
  let data = null;
  let place = null;
  const view = sharpCanvas(life, { keyboard: true,
    label: "The picture, and over it the weights of the chosen patch. "
      + "Arrow keys walk the patches, Home leads before them.",
    height(width) {
      if (!data) return 40;
      place = placesOf(data.image, width);
      return place.height;
    },
    paint(context) { if (data) paintPatches(context, data, place); } });
  const named = { class: "attn-controls attn-buttons", role: "group", "aria-label": "Tokens before the patches" };
  const row = h("div", named);
  row.style.marginTop = "0.5rem";
  const note = h("p", { class: "attn-note" });
  const point = (event) => {
    const token = data && place ? patchAt(data.image, place, view.at(event)) : null;
    if (token !== null) onPick(token);
  };
  life.listen(view.canvas, "pointermove", (event) => { if (event.pointerType !== "touch") point(event); });
  life.listen(view.canvas, "click", point);
  life.listen(view.canvas, "keydown", (event) => {
    const to = data && !withModifier(event) ? walked(event.key, data.chosen, data.image) : null;
    if (to === null) return;
    event.preventDefault();
    onPick(to);
  });
  return { el: h("div", { class: "attn-patches" }, view.el, row, note),
    /** @param {PatchData} next */
    show(next) {
      if (!data || data.names.join("\n") !== next.names.join("\n")) {
        row.replaceChildren(...next.names.map((name, token) => button(life, name, () => onPick(token))));
        row.hidden = !next.names.length;
      }
      data = next;
      [...row.children].forEach((el, n) => el.setAttribute("aria-pressed", String(n === next.chosen)));
      note.textContent = "Left the patch that reads, right what it reads: the patch that it reads most has the last "
        + `colour, at a weight of ${next.top.toPrecision(2)}. Patches are named by row and column, from 0.`;
      view.ask();
    } };
}

export { patchView };
