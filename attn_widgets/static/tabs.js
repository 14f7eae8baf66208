// One of several views at a time, under a row of tabs.

import { button, h, unique, withModifier } from "./controls.js";

// The arrow keys walk the tabs and open what they reach.
/**
 * @param {import("./controls.js").Life} life
 * @param {string} label
 * @param {Record<string, HTMLElement>} views by the names of their tabs
 * @param {number} [first] which of them is open at first
 */
function tabs(life, label, views, first = 0) {
  const names = Object.keys(views), panels = Object.values(views);
  const all = names.map((name, n) => {
    const tab = button(life, name, () => open(n)), id = unique("tab"), panelId = unique("view");
    const said = { id, role: "tab", "aria-controls": panelId };
    for (const [key, value] of Object.entries(said)) tab.setAttribute(key, value);
    for (const [key, value] of Object.entries({ id: panelId, role: "tabpanel", "aria-labelledby": id })) {
      panels[n].setAttribute(key, value);
    }
    return tab;
  });
  function open(chosen) {
    all.forEach((tab, n) => {
      tab.setAttribute("aria-selected", String(n === chosen));
      tab.tabIndex = n === chosen ? 0 : -1;
      panels[n].hidden = n !== chosen;
    });
  }
  const row = h("div", { class: "attn-tabs", role: "tablist", "aria-label": label }, ...all);
  life.listen(row, "keydown", (event) => {
    const at = all.indexOf(event.target), last = all.length - 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (to === undefined || withModifier(event)) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, to));
    open(next);
    all[next].focus();
  });
  open(first);
  return h("div", {}, row, ...panels);
}

// Tabs on a phone alone: where there is room, all views stand side by side.
/** @type {typeof tabs} */
function tabsOnPhone(life, label, views, first = 0) {
  const el = tabs(life, label, views, first);
  el.classList.add("attn-either");
  return el;
}

export { tabs, tabsOnPhone };
