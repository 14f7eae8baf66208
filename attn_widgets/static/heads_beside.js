// Two sentences, or what two models read in one, side by side: the same head of both on one scale, and where the
// tokens are the same the difference of their weights.

import { shown } from "./numbers.js";
import { button, h, put } from "./controls.js";
import { heatmap } from "./map.js";

/** @typedef {import("./controls.js").Life} Life */

const sameTokens = (one, other) => ["queries", "keys"].every((side) =>
  one[side].length === other[side].length && one[side].every((token, n) => token === other[side][n]));

// The head whose maps differ most, in the mean over all cells of their thumbnails.
function mostDifferent(one, other) {
  const a = one.thumbnails.maps, b = other.thumbnails.maps, count = one.layers * one.heads, cells = a.length / count;
  const apart = Array.from({ length: count }, (_, head) => {
    let sum = 0;
    for (let n = head * cells; n < (head + 1) * cells; n++) sum += Math.abs(a[n] - b[n]);
    return sum;
  });
  return apart.indexOf(Math.max(...apart));
}

/**
 * @param {import("./controls.js").Model} model
 * @param {Life} life
 * @param {any} here as explorer() of heads.js makes it
 * @param {string[]} names of the two
 * @param {(shows: any, values: import("./numbers.js").Floats, row: number) => string} readingOf a row, in words
 */
function besideView(model, life, here, names, readingOf) {
  const second = heatmap(life, { label: `Weights of the same head, ${names[1]}.`, tallest: 32, hint: "",
    onPick: here.look, tableLabel: `The numbers of ${names[1]} as a table` });
  const apart = heatmap(life, { label: `The weights of ${names[1]} less those of ${names[0]}.`, tallest: 20, hint: "",
    tableLabel: "The differences as a table" });
  const said = h("p", { class: "attn-said attn-reads", role: "status" });
  second.el.querySelector(".attn-readout").before(said);
  const heading = (text) => h("p", { class: "attn-heading" }, h("bdi", {}, text));
  const words = h("p", { class: "attn-note", role: "status" });
  const both = h("div", {}, heading(`${names[1]} less ${names[0]}`), apart.el);
  apart.el.querySelector(".attn-readout").before(words);
  const press = button(life, "Show the head that differs most", () => {
    const [layer, head] = here.place(mostDifferent(here.reader.now(0), here.reader.now(1)));
    put(model, { layer, head });
  });
  const fits = () => sameTokens(here.reader.now(0), here.reader.now(1));
  return { press, names, fits, first: heading(names[0]), second: [heading(names[1]), second.el], apart: both,
    tables: [second.table, apart.table],
    // The values of the first, and their row of the token.
    draw(values, mark, top) {
      const all = here.shownHeads(), other = here.reader.now(1), map = here.combinedOf(other, all);
      press.hidden = both.hidden = apart.table.hidden = !fits();
      if (!map) return;
      const { queries, keys, size: [L, S] } = other, mask = other.mask(all), shape = { L, S, mask, queries, keys };
      const row = Math.min(mark, L - 1);
      second.show({ ...shape, values: map, top, scale: model.get("scale"), mark: row });
      said.textContent = readingOf(other, map, row);
      if (both.hidden) return;
      const differences = map.map((weight, n) => weight - values[n]);
      const most = differences.reduce((top, x) => Math.max(top, Math.abs(x)), 0);
      apart.show({ ...shape, values: differences, signed: true, top: Math.max(most, 1e-9), mark });
      words.textContent = `Orange: ${names[1]} reads it more, blue: less, by ${shown(most)} at most.`;
    } };
}

export { besideView };
