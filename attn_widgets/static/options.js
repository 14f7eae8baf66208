// What could be said at a place of a text, the likeliest first, as buttons that have it said. `make()` gives
// what stands between a word and its share, {middle, ...}; `fill(option, token, ...more)` writes one, with what
// `show` was given beside the probabilities; `press(token)` hears which one the reader wants.

import { button, h } from "./controls.js";
import { NEVER_SAID } from "./transformer_model.js";

/** @param {Float64Array} probabilities */
const likeliest = (probabilities) => [...probabilities.keys()].filter((token) => !NEVER_SAID.includes(token))
  .sort((a, b) => probabilities[b] - probabilities[a]);

/**
 * @param {import("./controls.js").Life} life
 * @param {number} count
 * @param {{ make: () => any, fill: (option: any, token: number, ...more: any[]) => void,
 *   press: (token: number) => void }} parts
 */
function optionList(life, count, { make, fill, press }) {
  let order = [];
  const options = Array.from({ length: count }, (_, n) => {
    const option = { word: h("bdi"), share: h("span", { class: "attn-share" }), ...make(),
      el: button(life, "", () => press(order[n])) };
    option.el.classList.add("attn-option");
    option.el.append(option.word, option.middle, option.share);
    return option;
  });
  return { els: options.map(({ el }) => el), show(probabilities, ...more) {
    order = likeliest(probabilities);
    options.forEach((option, n) => fill(option, order[n], ...more));
  } };
}

export { likeliest, optionList };
