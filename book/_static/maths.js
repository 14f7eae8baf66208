// Formulas are typeset as they come near what is seen, a few at a time, so that the page answers
// meanwhile; to print, all are. MathJax itself comes with the first formula, or once a page of
// many is idle, or with the reader's first deed on a page of few.
(() => {
  const FEW = 6, MANY = 30; // as in attn_maths.py
  const address = new URL("mathjax/tex-chtml.js", document.currentScript.src);
  const waiting = new Set(document.querySelectorAll(".math")), near = new Set();
  let loading = null, isRunning = false;

  const load = () => loading ??= new Promise((done, fail) => {
    const script = Object.assign(document.createElement("script"), { src: address, onerror: fail });
    script.onload = () => MathJax.startup.promise.then(done);
    document.head.append(script);
  });
  function take(formulas) {
    for (const one of formulas) {
      seen.unobserve(one);
      near.delete(one);
      waiting.delete(one);
      one.removeAttribute("style"); // the room that it took until now
    }
    return formulas;
  }
  async function typesetNear() {
    if (isRunning) return;
    isRunning = true;
    await load();
    while (near.size) {
      await MathJax.typesetPromise(take([...near].slice(0, FEW)));
      await new Promise((done) => setTimeout(done));
    }
    isRunning = false;
  }
  function typesetAll() {
    const all = take([...waiting]);
    try {
      return MathJax.typeset(all);
    } catch { // an extension of MathJax's must come first
      return MathJax.typesetPromise(all);
    }
  }

  const seen = new IntersectionObserver((found) => {
    for (const { isIntersecting, target } of found) near[isIntersecting ? "add" : "delete"](target);
    if (near.size) typesetNear();
  }, { rootMargin: "300px 0px" });
  for (const one of waiting) seen.observe(one);
  if (waiting.size > MANY) addEventListener("load", () => (window.requestIdleCallback || setTimeout)(load));
  else if (waiting.size) { // what is printed before that is the MathML beside each
    for (const deed of ["pointermove", "pointerdown", "keydown"]) addEventListener(deed, load, { once: true });
  }
  // A formula that scrolls sideways can be reached by the keyboard, as code and tables can; so can
  // code that is unfolded, which the theme does not measure again.
  const scrolling = new ResizeObserver((found) => {
    for (const { target } of found) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  for (const one of document.querySelectorAll("div.math, article details pre")) scrolling.observe(one);
  addEventListener("beforeprint", () => { // a printer waits for nothing that is still to come
    if (MathJax.typeset) typesetAll();
    else load().then(typesetAll);
  });
  addEventListener("keydown", (event) => { // but the keys that ask for one can wait
    if (!(event.ctrlKey || event.metaKey) || event.key !== "p" || !waiting.size || MathJax.typeset) return;
    event.preventDefault();
    load().then(typesetAll).then(() => document.fonts.ready).finally(() => print());
  });
})();
