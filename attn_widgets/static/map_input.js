// What a reader does to a heatmap: by mouse, by finger, by keys.

import { h, withModifier } from "./controls.js";
import { cellAt, describe, pairText, valueText, within } from "./map_layout.js";

/** @typedef {import("./map_layout.js").MapState} MapState */
/** @typedef {import("./map_layout.js").Cell} Cell */
/** @typedef {import("./controls.js").Life} Life */

const FINGER = 56; // pixels that it covers

const isSame = (a, b) => a === b || Boolean(a && b && a[0] === b[0] && a[1] === b[1]);

// The cells from one to another, so that a quick stroke leaves no holes.
function between([i, j], [k, l]) {
  const steps = Math.max(Math.abs(k - i), Math.abs(l - j));
  return Array.from({ length: steps }, (_, n) => [
    Math.round(i + ((k - i) * (n + 1)) / steps), Math.round(j + ((l - j) * (n + 1)) / steps)]);
}

/**
 * The number beside the pointer.
 * @param {MapState} map
 */
function pointerTip(map) {
  const value = h("strong", {}), pair = h("span", {});
  const el = h("div", { class: "attn-tip", "aria-hidden": "true", hidden: true }, value, pair);
  return {
    el,
    /** @param {PointerEvent} event */
    show(event) {
      const { data, place, hover, view } = map;
      el.hidden = !hover || !place;
      if (el.hidden) return;
      const [i, j] = hover, [x, y] = view.at(event), width = view.canvas.clientWidth;
      value.textContent = valueText(data, i, j);
      pair.textContent = pairText(map, i, j);
      const over = event.pointerType === "touch" ? FINGER : 0; // not under the finger
      el.style.left = x > width / 2 ? "auto" : `${x + 14}px`;
      el.style.right = x > width / 2 ? `${view.el.clientWidth - x + 8}px` : "auto";
      el.style.top = `${Math.max(0, y + 14 - over)}px`;
    },
    renew() { if (map.hover) value.textContent = valueText(map.data, ...map.hover); },
    hide() { el.hidden = true; },
  };
}

/**
 * Which cell the reader is told of, and what is done when they choose one or leave the map.
 * @param {MapState} map
 * @param {HTMLElement} readout
 * @param {ReturnType<typeof pointerTip>} tip
 */
function announcer(map, readout, tip) {
  // Say what a cell holds, and go on saying it while the numbers change.
  function announce(cell) {
    map.announced = cell;
    readout.textContent = describe(map, cell[0], cell[1]);
  }
  return {
    announce,
    choose(cell) {
      if (!cell) return;
      map.cursor = cell;
      announce(cell);
      map.options.onPick(...cell);
    },
    leave() {
      if (!map.hover) return;
      map.hover = null;
      tip.hide();
      map.view.ask();
    },
  };
}

/**
 * Mouse and finger. A finger that taps chooses; one that moves scrolls the page, unless it began on the framed
 * cell of a map that can be painted.
 * @param {Life} life
 * @param {MapState} map
 * @param {ReturnType<typeof pointerTip>} tip
 * @param {ReturnType<typeof announcer>} reader
 */
function listenToPointer(life, map, tip, { announce, choose, leave }) {
  const { view, view: { canvas }, options: { onPaint, onHover } } = map;
  const under = (event) => cellAt(map, view.at(event));
  let stroke = false, tapping = false;
  life.listen(canvas, "pointermove", (event) => {
    const now = under(event), touch = event.pointerType === "touch";
    if (touch && !stroke) { tapping = tapping && isSame(now, map.hover); return; }
    if (isSame(now, map.hover)) {
      if (now) tip.show(event);
      return;
    }
    if (now && map.hover && onPaint && event.buttons & 1) {
      for (const cell of between(map.hover, now)) onPaint(...cell, "move");
      if (touch) map.cursor = now;
    }
    map.hover = now;
    tip.show(event);
    if (now) { announce(now); onHover(...now); }
    view.ask();
  });
  life.listen(canvas, "pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
  life.listen(canvas, "pointercancel", () => { stroke = tapping = false; leave(); });
  life.listen(canvas, "pointerdown", (event) => {
    const cell = event.button === 0 ? under(event) : null, touch = event.pointerType === "touch";
    stroke = Boolean(touch && onPaint && cell && isSame(cell, map.cursor));
    tapping = touch && !stroke;
    if (touch) map.hover = cell;
    if (touch && !stroke) return;
    if (stroke) canvas.setPointerCapture(event.pointerId);
    if (cell && onPaint) onPaint(...cell, "down");
    choose(cell);
  });
  life.listen(canvas, "pointerup", (event) => {
    const cell = tapping ? under(event) : null;
    if (cell) {
      map.hover = cell;
      if (onPaint) onPaint(...cell, "down");
      choose(cell);
      tip.show(event);
      view.ask();
    }
    stroke = tapping = false;
  });
  if (onPaint) { // elsewhere the browser need not ask before it scrolls
    life.listen(canvas, "touchstart", (event) => { if (stroke) event.preventDefault(); }, { passive: false });
  }
}

// The cell to which a key goes from here, or undefined.
function walked(key, [i, j], { L, S }) {
  return { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    Home: [i, 0], End: [i, S - 1], PageUp: [0, j], PageDown: [L - 1, j] }[key];
}

/**
 * Keys: arrows walk, space paints, plus and minus zoom.
 * @param {Life} life
 * @param {MapState} map
 * @param {ReturnType<typeof pointerTip>} tip
 * @param {ReturnType<typeof announcer>} reader
 * @param {ReturnType<typeof import("./map_zoom.js").zooming>} zoom
 */
function listenToKeys(life, map, tip, { announce, choose, leave }, zoom) {
  const { view, options: { onPaint } } = map;
  life.listen(view.canvas, "focus", () => view.ask());
  life.listen(view.canvas, "blur", () => { leave(); view.ask(); });
  life.listen(view.canvas, "keydown", (event) => {
    const { data, cursor } = map;
    if (!data || !data.L || !data.S || withModifier(event)) return;
    const to = walked(event.key, cursor, data);
    if (to) {
      event.preventDefault();
      leave();
      choose([within(to[0], data.L - 1), within(to[1], data.S - 1)]);
      zoom.bringIn(map.cursor);
      view.ask();
    } else if (onPaint && (event.key === " " || event.key === "Enter")) {
      event.preventDefault();
      onPaint(...cursor, "down");
      announce(map.cursor);
    } else if (event.key === "Escape") {
      tip.hide();
    } else if ("+=-".includes(event.key)) {
      zoom.step(event.key === "-" ? -1 : 1);
    }
  });
}

export { announcer, listenToKeys, listenToPointer, pointerTip };
