// Waits until all of the book is there, and draws smaller what is wider than the page.
async () => {
  await MathJax.startup.promise;
  await MathJax.startup.document.lazyTypesetAll?.();
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode()));
  const raw = [...document.querySelectorAll(".math")].find(
    (one) => !one.querySelector("mjx-container mjx-math *"));
  if (raw) throw new Error(`a formula is not typeset: ${raw.textContent}`);
  for (const one of document.querySelectorAll("div.math, table, svg.attn-drawing, pre")) {
    const edge = one.closest("article").getBoundingClientRect().right;
    const { left } = one.getBoundingClientRect();
    const inside = [one, ...one.querySelectorAll("mjx-container")];
    const right = Math.max(left + one.scrollWidth,
      ...inside.map((part) => part.getBoundingClientRect().right));
    const size = parseFloat(getComputedStyle(one).fontSize);
    if (right > edge + 1) one.style.fontSize = `${(0.97 * size * (edge - left)) / (right - left)}px`;
    if (one.matches("pre") && one.textContent.split("\n").length > 30) one.classList.add("long");
  }
}
