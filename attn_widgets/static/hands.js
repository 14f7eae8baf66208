// What keys do to things that lie on a canvas and can be dragged.

import { withModifier } from "./controls.js";

/** @type {Record<string, number[]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

// The keys that choose and move what can be dragged on a canvas: arrows choose the next or the one before, and
// with Shift they move it, to the right and up by as many steps; Home and End choose the first and the last.
/**
 * @param {import("./controls.js").Life} life
 * @param {import("./controls.js").View} view
 * @param {{ choose: (by: number) => void, move: (right: number, up: number) => void }} hands
 */
function handKeys(life, view, { choose, move }) {
  life.listen(view.canvas, "keydown", (event) => {
    if (withModifier(event)) return;
    const [right, up] = ARROWS[event.key] || [];
    const end = { Home: -Infinity, End: Infinity }[event.key];
    if (right === undefined && end === undefined) return;
    event.preventDefault();
    if (end !== undefined) choose(end);
    else if (event.shiftKey) move(right, up);
    else choose(right - up); // down is the next, as in a list
  });
}

export { handKeys };
