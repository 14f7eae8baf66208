// A number at each place of a slider, as a line with a mark at the place now chosen, which can be dragged there.

import { dragging, foldedTable, h, handle, sharpCanvas } from "./controls.js";
import { minus } from "./numbers.js";
import { write } from "./pen.js";

const LEFT = 14, RIGHT = 22, TOP = 34, BELOW = 40, HIGH = 236; // pixels
const NEAR = 24; // of the mark, at which a finger takes hold of it

/** @param {number} x */
const short = (x) => minus(String(Number(x.toPrecision(3))));

/**
 * Where the line lies on a canvas of this width: from 0 on, if no number is below.
 * @param {number[]} values
 * @param {number} width
 */
function plotOn(values, width) {
  const low = Math.min(0, ...values), high = Math.max(0, ...values), floor = HIGH - BELOW, right = width - RIGHT;
  return { floor, right,
    x: (n) => LEFT + (n / (values.length - 1)) * (right - LEFT),
    y: (value) => floor - ((value - low) / (high - low || 1)) * (floor - TOP),
    inverse: (x) => Math.max(0, Math.min(values.length - 1,
      Math.round(((x - LEFT) / (right - LEFT)) * (values.length - 1)))) };
}

function paintLine({ context }, values, from, to, { x, y }, colour, thick) {
  context.beginPath();
  for (let n = from; n <= to; n++) context.lineTo(x(n), y(values[n]));
  context.strokeStyle = colour; context.lineWidth = thick; context.lineJoin = "round";
  context.stroke();
}

// The line of the mark, down to where its place is named.
function paintMark(pen, values, at, plot, named) {
  const { context, colours } = pen, x = plot.x(at), y = plot.y(values[at]);
  context.strokeStyle = colours.line; context.lineWidth = 1;
  context.beginPath(); context.moveTo(x, TOP); context.lineTo(x, plot.floor); context.stroke();
  paintLine(pen, values, 0, at, plot, colours.accent, 2);
  handle(context, colours, x, y);
  const { ink } = colours, isLeft = x < (LEFT + plot.right) / 2, aside = isLeft ? 12 : -12;
  write(pen, short(values[at]), x + aside, Math.max(TOP - 12, y - 15),
    { colour: ink, bold: true, size: 13, align: isLeft ? "left" : "right" });
  write(pen, named, Math.max(LEFT + 8, Math.min(plot.right - 4, x)), plot.floor + 13, { colour: ink, align: "center" });
}

/**
 * The line and its table; `current()` is the place now chosen, and `choose` hears of another.
 * @param {import("./controls.js").Life} life
 * @param {{ label: string, values: number[], name: string, places: any[], current: () => number,
 *   choose: (place: number) => void }} options
 */
function curveView(life, { label, values, name, places, current, choose }) {
  const say = () => `${label} at each ${name}; at ${name} ${minus(String(places[current()]))} it is `
    + short(values[current()]);
  let plot = plotOn(values, 300);
  const view = sharpCanvas(life, { label: say(), height: () => HIGH,
    paint(context, width) {
      const { colours } = view, pen = { context, colours }, at = current();
      plot = plotOn(values, width);
      context.strokeStyle = colours.muted; context.lineWidth = 1;
      context.beginPath(); context.moveTo(LEFT, plot.floor); context.lineTo(plot.right, plot.floor); context.stroke();
      write(pen, label, LEFT, 9, { bold: true, size: 12 });
      write(pen, name, plot.right, plot.floor + 30, { align: "right" });
      paintLine(pen, values, 0, values.length - 1, plot, colours.muted, 1.2);
      paintMark(pen, values, at, plot, minus(String(places[at])));
    } });
  view.canvas.classList.add("attn-slide");
  const to = (x) => { const place = plot.inverse(x); if (place !== current()) choose(place); };
  dragging(life, view, ([x, y], touch) => {
    if (touch && Math.hypot(x - plot.x(current()), y - plot.y(values[current()])) > NEAR) return null;
    to(x);
    return true;
  }, (_, place) => to(place[0]));
  const table = foldedTable(life, "The curve as a table", () => ({ corner: name, columns: [label],
    rows: places.map((place, n) => [minus(String(place)), short(values[n])]) }));
  return { el: h("div", { class: "attn-curve" }, view.el), table: table.el,
    draw() { view.canvas.setAttribute("aria-label", say()); view.ask(); } };
}

export { curveView };
