// What is one fold away.

import { h, KEEP_KEYS } from "./controls.js";

// Controls that are folded away at first sight. Where a trait that they show is moved by something else, such
// as a link, `opens` lists it: they unfold, so that what changed is seen.
/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {string} summary
 * @param {{ opens?: string[], open?: boolean }} options
 * @param {...Node} children
 */
function folded(model, life, summary, { opens = [], open = false }, ...children) {
  const details = h("details", { class: "attn-more", open }, h("summary", KEEP_KEYS, summary), ...children);
  life.watch(opens, () => { details.open = true; }, model);
  return details;
}

// What is folded away on a phone alone: where there is room, it stands there without a summary.
/**
 * @param {import("./controls.js").Model} model
 * @param {import("./controls.js").Life} life
 * @param {string} summary
 * @param {string[]} opens
 * @param {...Node} children
 */
function foldedOnPhone(model, life, summary, opens, ...children) {
  const narrow = matchMedia("(max-width: 600px)");
  const details = folded(model, life, summary, { opens, open: !narrow.matches }, ...children);
  details.classList.add("attn-phone");
  life.listen(narrow, "change", () => { details.open = !narrow.matches; });
  return details;
}

export { folded, foldedOnPhone };
