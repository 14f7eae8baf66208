
import { channels, checked, packed, PALETTE } from "./numbers.js";
import { outline, put, sharpCanvas, withModifier } from "./controls.js";
import { colourCells } from "./weights.js";

const MOST_HEADS = 65_536; // more are no model's

// All heads of all layers in one canvas, a layer a row; a click or the arrow keys choose one. `size()`
// gives rows and columns of a map, `map(layer, head)` its {values, mask, top, scale}. `marks()`, where heads
// are ranked, gives {strength, best}: `strength(layer, head)`, from 0 to 1, is how far a head is not
// faded, and `best` lists the [layer, head] that are framed and numbered, the first one first. The
// chosen head is framed while it is `outlined()`; a map is `side` pixels wide, or as much as there is room.
// `pins()`, where heads can be pinned, lists those that are, [layer, head, colour], and `onPin(layer, head)`
// hears of a press with Shift, or of the space bar. `made()` lists what the maps are made of, where that is
// known: while it is the same, none is filled again. `square` maps are as high as wide, whatever their size. Below
// each map `foot` pixels are for `paintFoot(context, colours, layer, head, [x, y, width, height])`, where a press
// pins, too.
function headGrid(life, model, { layers, heads, size, map, marks = () => null, outlined = () => true,
  pins = () => [], onPin = null, pinning = "pins it", made = () => [], side = 44, square = false, foot = 0,
  paintFoot = () => {} }) {
  const gap = 1, left = 22, below = 18;
  checked(layers * heads, MOST_HEADS);
  let sheet = null, rows = 0, columns = 0, filled = [];
  function renew() { // the canvas on which a pixel is a cell
    filled = [];
    [rows, columns] = size();
    const canvas = document.createElement("canvas");
    canvas.width = heads * (columns + gap); canvas.height = layers * (rows + gap);
    const pen = canvas.getContext("2d"), image = pen.createImageData(canvas.width, canvas.height);
    sheet = { canvas, pen, image, words: new Uint32Array(image.data.buffer) };
    filled = [];
  }
  function place(width) {
    if (!sheet || String(size()) !== String([rows, columns])) renew();
    const wide = Math.min(width - left - 4, Math.max(heads * side, 160));
    const whole = square ? (wide * layers) / heads : (wide * sheet.canvas.height) / sheet.canvas.width;
    return { wide, tall: whole + layers * foot };
  }
  function fill() {
    const { words, canvas, pen, image } = sheet, { panel, line } = view.colours;
    const parts = made().concat(made().length ? [panel, line] : []);
    if (parts.length && parts.every((part, n) => part === filled[n])) return;
    filled = parts;
    const colours = { zero: packed(channels(panel)), closed: packed(channels(line)), stride: canvas.width };
    for (let n = 0; n < layers * heads; n++) {
      const start = ((n / heads) | 0) * (rows + gap) * canvas.width + (n % heads) * (columns + gap);
      colourCells(words, { ...map((n / heads) | 0, n % heads), L: rows, S: columns }, { ...colours, start });
    }
    pen.putImageData(image, 0, 0);
  }
  function paintMarks(context, { strength, best }, w, t) {
    context.fillStyle = view.colours.paper;
    for (let n = 0; n < layers * heads; n++) {
      context.globalAlpha = 0.7 * (1 - strength((n / heads) | 0, n % heads));
      context.fillRect(left + (n % heads) * w, ((n / heads) | 0) * t, w, t - foot);
    }
    context.globalAlpha = 1;
    context.strokeStyle = PALETTE.categorical[3]; context.lineWidth = 2;
    for (const [layer, head] of best) context.strokeRect(left + head * w + 1, layer * t + 1, w - 2, t - 2);
  }
  function paintRanks(context, { best }, w, t) {
    const size = 11;
    context.font = `600 10px ${view.colours.font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    best.forEach(([layer, head], n) => {
      const x = left + head * w, y = layer * t;
      context.fillStyle = PALETTE.categorical[3];
      context.fillRect(x, y, size, size);
      context.fillStyle = "#000000";
      context.fillText(String(n + 1), x + size / 2, y + size / 2 + 0.5);
    });
  }
  const view = sharpCanvas(life, {
    label: `All ${layers * heads} heads: rows are layers, columns are heads. Arrow keys choose one`
      + `${onPin ? `, the space bar ${pinning}` : ""}.`,
    keyboard: true,
    height: (width) => place(width).tall + below,
    paint(context, width) {
      const { wide, tall } = place(width), w = wide / heads, t = tall / layers, marked = marks();
      const own = (w * columns) / (columns + gap); // of a map, without the gap after it
      fill();
      context.imageSmoothingEnabled = sheet.canvas.width > wide * view.ratio;
      context.imageSmoothingQuality = "high"; // a diagonal one cell wide must not fall between the pixels
      for (let band = 0, high = sheet.canvas.height / (foot ? layers : 1); band * high < sheet.canvas.height; band++) {
        context.drawImage(sheet.canvas, 0, band * high, sheet.canvas.width, high,
          left, band * t, wide, foot ? t - foot : tall);
      }
      if (marked) paintMarks(context, marked, w, t);
      if (foot) {
        for (let n = 0; n < layers * heads; n++) {
          const layer = (n / heads) | 0, head = n % heads;
          paintFoot(context, view.colours, layer, head, [left + head * w, (layer + 1) * t - foot, own, foot]);
        }
      }
      for (const [layer, head, colour] of pins()) {
        context.fillStyle = colour;
        context.fillRect(left + head * w + w - 12, layer * t, 11, 6);
      }
      if (outlined()) outline(context, left + model.get("head") * w, model.get("layer") * t, w, t);
      if (marked) paintRanks(context, marked, w, t);
      context.fillStyle = view.colours.muted; context.font = `11px ${view.colours.font}`;
      context.textAlign = "right"; context.textBaseline = "middle";
      for (let layer = 0; layer < layers; layer++) {
        context.fillText(String(layer), left - 6, (layer + 0.5) * t - foot / 2);
      }
      context.textAlign = "center"; context.textBaseline = "top";
      for (let head = 0; head < heads; head++) context.fillText(String(head), left + head * w + own / 2, tall + 3);
    },
  });
  const pick = (layer, head) => put(model, {
    layer: Math.max(0, Math.min(layers - 1, layer)), head: Math.max(0, Math.min(heads - 1, head)) });
  life.listen(view.canvas, "click", (event) => { // and not when a finger is put down: it may want to scroll
    const [x, y] = view.at(event), { wide, tall } = place(parseFloat(view.canvas.style.width));
    const at = [Math.floor((y / tall) * layers), Math.floor(((x - left) / wide) * heads)];
    const t = tall / layers, isFoot = x >= left && y < tall && y % t > t - foot, last = [layers - 1, heads - 1];
    if (onPin && (event.shiftKey || isFoot)) onPin(...at.map((n, axis) => Math.max(0, Math.min(last[axis], n))));
    else pick(...at);
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
  return { el: view.el, canvas: view.canvas, draw: view.ask };
}

export { headGrid };
