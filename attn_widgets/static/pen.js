// What is written on a canvas.

/** @typedef {{ context: CanvasRenderingContext2D, colours: import("./controls.js").Colours }} Pen */
/** @typedef {{ colour?: string, align?: CanvasTextAlign, bold?: boolean, size?: number }} Style */

/**
 * A text whose middle lies at this height.
 * @param {Pen} pen
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {Style} [style]
 */
function write({ context, colours }, text, x, y, { colour, align = "left", bold = false, size = 11 } = {}) {
  context.font = `${bold ? "600 " : ""}${size}px ${colours.font}`;
  context.textAlign = align; context.textBaseline = "middle";
  context.fillStyle = colour || colours.muted;
  context.fillText(text, x, y);
}

export { write };
