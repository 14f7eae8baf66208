// A row of weights as a sentence: every key a word, filled as high as its weight.

import { quoted, visible } from "./numbers.js";
import { h } from "./controls.js";

const MOST = 64; // words that are still read as a sentence
const WRITTEN = 0.045; // a weight that is written out

/**
 * Whether there is such a sentence.
 * @param {string[] | null | undefined} keys
 */
const isSentence = (keys) => Boolean(keys && keys.length <= MOST);

/**
 * The sentence. `show` takes the tokens, the chosen row and its weights; a masked key is hatched, and `itself` is the
 * place of the query among the keys, or -1.
 * @param {string[]} keys
 */
function rowWords(keys) {
  const heading = h("p", { class: "attn-heading" });
  const words = keys.map((token) => {
    const share = h("span", { class: "attn-share" });
    return { el: h("span", { class: "attn-word" }, h("bdi", {}, visible(token, 14)), share), share };
  });
  return {
    el: h("div", { class: "attn-row" }, heading, h("div", { class: "attn-words" }, ...words.map(({ el }) => el))),
    /**
     * @param {{ query: string, itself: number, weights: ArrayLike<number>, mask: ArrayLike<number> | null,
     *   top: number }} row
     */
    show({ query, itself, weights, mask, top }) {
      heading.textContent = `${query} reads`;
      words.forEach(({ el, share }, n) => {
        const isOpen = !mask || Boolean(mask[n]), weight = isOpen ? weights[n] : 0;
        el.style.setProperty("--attn-weight", String(Math.min(1, weight / top)));
        el.classList.toggle("attn-masked", !isOpen);
        el.classList.toggle("attn-itself", n === itself);
        share.textContent = isOpen ? weight.toFixed(2) : "masked";
        share.classList.toggle("attn-faint", isOpen && weight < WRITTEN);
      });
    },
  };
}

/**
 * What a row is called.
 * @param {string[] | null | undefined} queries
 * @param {number} row
 */
const rowName = (queries, row) => (queries ? quoted(queries[row]) : `Query ${row}`);

export { isSentence, rowName, rowWords };
