// All heads of all layers in one canvas, a layer a row.

import { channels, checked, packed, PALETTE } from "./numbers.js";
import { outline, put, sharpCanvas, withModifier } from "./controls.js";
import { colourCells } from "./weights.js";
import { within } from "./map_layout.js";

/** @typedef {import("./controls.js").Life} Life */
/** @typedef {import("./controls.js").Model} Model */
/** @typedef {import("./controls.js").Colours} Colours */
/** @typedef {[layer: number, head: number]} Head */
/**
 * How heads are ranked.
 * @typedef {object} Marks
 * @property {(layer: number, head: number) => number} strength from 0 to 1, how far a head is not faded
 * @property {number[][]} best the [layer, head] that are framed and numbered, the first one first
 */
/**
 * What paints the strip of `foot` pixels below a map.
 * @callback PaintFoot
 * @param {CanvasRenderingContext2D} context
 * @param {Colours} colours
 * @param {number} layer
 * @param {number} head
 * @param {number[]} box [x, y, width, height]
 * @returns {void}
 */
/**
 * How a grid of heads is made.
 * @typedef {object} GridOptions
 * @property {number} layers
 * @property {number} heads of each layer
 * @property {() => number[]} size rows and columns of a map
 * @property {(layer: number, head: number) => any} map {values, mask, top, scale} of a head
 * @property {() => Marks | null} [marks] where heads are ranked
 * @property {() => boolean} [outlined] whether the chosen head is framed
 * @property {() => any[][]} [pins] the heads that are pinned, [layer, head, colour]
 * @property {((layer: number, head: number) => void) | null} [onPin] hears of a press with Shift, or of the space bar
 * @property {string} [pinning] what that does, in words
 * @property {() => any[]} [made] what the maps are made of, where that is known: while it is the same, none is filled
 * again
 * @property {number} [groups] how many heads of keys and values a layer has: heads that share one are bracketed
 * @property {number} [side] pixels of a map; fewer where there is no room
 * @property {boolean} [square] whether maps are as high as wide, whatever their size
 * @property {number} [foot] pixels below each map for `paintFoot`, where a press pins, too
 * @property {PaintFoot} [paintFoot]
 */

const MOST_HEADS = 65_536; // more are no model's
const GAP = 1, LEFT = 22, BELOW = 18; // pixels between the maps, before the first column, and below the last row
const RANK = 11; // pixels of a number on a map
const TALLEST = 220; // pixels of all layers of few heads
const DEFAULTS = { marks: () => null, outlined: () => true, pins: () => [], onPin: null, pinning: "pins it",
  made: () => [], side: 44, square: false, foot: 0, groups: 0, paintFoot: () => {} };

// ---------------------------------------------------------------- the maps

// The sheet on which a cell of a map is a pixel, with all maps beside each other.
function sheetOf({ layers, heads, size, map, made }) {
  let sheet = null, rows = 0, columns = 0, filled = [];
  function renew() {
    [rows, columns] = size();
    const canvas = document.createElement("canvas");
    canvas.width = heads * (columns + GAP); canvas.height = layers * (rows + GAP);
    const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height);
    sheet = { canvas, pen, image, words: new Uint32Array(image.data.buffer) };
    filled = [];
  }
  return {
    get canvas() {
      if (!sheet || String(size()) !== String([rows, columns])) renew();
      return sheet.canvas;
    },
    /** @returns {number} the share of a column of the sheet that is a map's, without the gap after it */
    get share() { return columns / (columns + GAP); },
    /** @param {Colours} colours */
    fill({ panel, line }) {
      const { words, canvas, pen, image } = sheet;
      const parts = made().concat(made().length ? [panel, line] : []);
      if (parts.length && parts.every((part, n) => part === filled[n])) return;
      filled = parts;
      const colours = { zero: packed(channels(panel)), closed: packed(channels(line)), stride: canvas.width };
      for (let n = 0; n < layers * heads; n++) {
        const start = ((n / heads) | 0) * (rows + GAP) * canvas.width + (n % heads) * (columns + GAP);
        colourCells(words, { ...map((n / heads) | 0, n % heads), L: rows, S: columns }, { ...colours, start });
      }
      pen.putImageData(image, 0, 0);
    },
  };
}

// How wide and high all maps are on a canvas, and how wide and high each is, with its foot.
function placeOf({ layers, heads, side, square, foot }, sheet, width) {
  const { canvas } = sheet, most = Math.max(TALLEST, 20 * layers); // few heads are drawn larger, but not so high
  const least = Math.min(160, (most * canvas.width) / canvas.height);
  const across = Math.min(width - LEFT - 4, Math.max(heads * side, least));
  const whole = square ? (across * layers) / heads : (across * canvas.height) / canvas.width;
  const down = whole + layers * foot;
  return { across, down, width: across / heads, height: down / layers };
}

// ---------------------------------------------------------------- painting

function paintMaps(context, { layers, foot }, { canvas }, { across, down, height }, ratio) {
  context.imageSmoothingEnabled = canvas.width > across * ratio;
  context.imageSmoothingQuality = "high"; // a diagonal one cell wide must not fall between the pixels
  const bands = foot ? layers : 1, rows = canvas.height / bands;
  for (let band = 0; band * rows < canvas.height; band++) {
    context.drawImage(canvas, 0, band * rows, canvas.width, rows, LEFT, band * height, across,
      foot ? height - foot : down);
  }
}

function paintMarks(context, { layers, heads, foot }, { strength, best }, { width, height }, colours) {
  context.fillStyle = colours.paper;
  for (let n = 0; n < layers * heads; n++) {
    context.globalAlpha = 0.7 * (1 - strength((n / heads) | 0, n % heads));
    context.fillRect(LEFT + (n % heads) * width, ((n / heads) | 0) * height, width, height - foot);
  }
  context.globalAlpha = 1;
  context.strokeStyle = PALETTE.categorical[3]; context.lineWidth = 2;
  for (const [layer, head] of best) {
    context.strokeRect(LEFT + head * width + 1, layer * height + 1, width - 2, height - 2);
  }
}

function paintRanks(context, { best }, { width, height }, colours) {
  context.font = `600 10px ${colours.font}`;
  context.textAlign = "center"; context.textBaseline = "middle";
  best.forEach(([layer, head], n) => {
    const x = LEFT + head * width, y = layer * height;
    context.fillStyle = PALETTE.categorical[3];
    context.fillRect(x, y, RANK, RANK);
    context.fillStyle = "#000000";
    context.fillText(String(n + 1), x + RANK / 2, y + RANK / 2 + 0.5);
  });
}

function paintFeet(context, { layers, heads, foot, paintFoot }, { width, height }, mapWidth, colours) {
  if (!foot) return;
  for (let n = 0; n < layers * heads; n++) {
    const layer = (n / heads) | 0, head = n % heads;
    paintFoot(context, colours, layer, head, [LEFT + head * width, (layer + 1) * height - foot, mapWidth, foot]);
  }
}

function paintNumbers(context, { layers, heads, foot }, { down, width, height }, mapWidth, colours) {
  context.fillStyle = colours.muted; context.font = `11px ${colours.font}`;
  context.textAlign = "right"; context.textBaseline = "middle";
  for (let layer = 0; layer < layers; layer++) {
    context.fillText(String(layer), LEFT - 6, (layer + 0.5) * height - foot / 2);
  }
  context.textAlign = "center"; context.textBaseline = "top";
  for (let head = 0; head < heads; head++) {
    context.fillText(String(head), LEFT + head * width + mapWidth / 2, down + 3);
  }
}

// A bracket below the heads that share keys and values, and a gap beside them.
function paintGroups(context, { heads, groups }, { down, width }, mapWidth, colours) {
  const each = heads / groups;
  context.strokeStyle = colours.muted; context.fillStyle = colours.paper; context.lineWidth = 1.5;
  for (let head = 0; head < heads; head += each) {
    const from = LEFT + head * width + 2, to = LEFT + (head + each - 1) * width + mapWidth - 2, y = down + BELOW + 2;
    if (head) context.fillRect(from - 4, 0, 4, down);
    context.beginPath();
    context.moveTo(from, y - 4); context.lineTo(from, y); context.lineTo(to, y); context.lineTo(to, y - 4);
    context.stroke();
  }
}

// ---------------------------------------------------------------- the grid

function listen(life, model, view, options, placed) {
  const { layers, heads, foot, onPin } = options;
  const pick = (layer, head) => put(model, { layer: within(layer, layers - 1), head: within(head, heads - 1) });
  life.listen(view.canvas, "click", (event) => { // and not when a finger is put down: it may want to scroll
    const [x, y] = view.at(event), { across, down, height } = placed(parseFloat(view.canvas.style.width));
    const layer = Math.floor((y / down) * layers), head = Math.floor(((x - LEFT) / across) * heads);
    const isFoot = x >= LEFT && y < down && y % height > height - foot;
    if (onPin && (event.shiftKey || isFoot)) onPin(within(layer, layers - 1), within(head, heads - 1));
    else pick(layer, head);
  });
  life.listen(view.canvas, "keydown", (event) => {
    if (onPin && event.key === " ") {
      event.preventDefault();
      onPin(model.get("layer"), model.get("head"));
    }
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || withModifier(event)) return;
    event.preventDefault();
    pick(model.get("layer") + step[0], model.get("head") + step[1]);
  });
}

/**
 * The grid. A click or the arrow keys choose a head: the traits `layer` and `head`.
 * @param {Life} life
 * @param {Model} model
 * @param {GridOptions} given
 */
function headGrid(life, model, given) {
  const options = { ...DEFAULTS, ...given }, { layers, heads, marks, outlined, pins, onPin, pinning } = options;
  checked(layers * heads, MOST_HEADS);
  const sheet = sheetOf(options), placed = (width) => placeOf(options, sheet, width);
  const view = sharpCanvas(life, {
    label: `All ${layers * heads} heads: rows are layers, columns are heads. Arrow keys choose one`
      + `${onPin ? `, the space bar ${pinning}` : ""}.`,
    keyboard: true,
    height: (width) => placed(width).down + BELOW + (options.groups ? 6 : 0),
    paint(context, whole) {
      const place = placed(whole), { width, height } = place, { colours } = view, ranked = marks();
      sheet.fill(colours);
      const mapWidth = width * sheet.share;
      paintMaps(context, options, sheet, place, view.ratio);
      if (ranked) paintMarks(context, options, ranked, place, colours);
      paintFeet(context, options, place, mapWidth, colours);
      if (options.groups) paintGroups(context, options, place, mapWidth, colours);
      for (const [layer, head, colour] of pins()) {
        context.fillStyle = colour;
        context.fillRect(LEFT + head * width + width - 12, layer * height, 11, 6);
      }
      if (outlined()) outline(context, LEFT + model.get("head") * width, model.get("layer") * height, width, height);
      if (ranked) paintRanks(context, ranked, place, colours);
      paintNumbers(context, options, place, mapWidth, colours);
    },
  });
  listen(life, model, view, options, placed);
  return { el: view.el, canvas: view.canvas, draw: view.ask };
}

export { headGrid };
