// Two rows of tokens, joined by links as strong as the weights: above are those that are read,
// below those that read. Call `show(data)` with {above, below, weights, chosen, reach, wrong, top}:
// the links of the row `chosen` are drawn, those of the others hinted at; of `below` the first
// `reach` are there yet, all unless it is said; `wrong` is framed. `onPick(row)` hears which token
// is pointed at, or walked to by arrow keys, and null where the pointer is at none.
function links(life, { label, captions, onPick }) {
  const SPAN = 104, CHIP = 24, EDGE = 2;
  let data = null, rows = null, before = null, started = 0, request = 0;

  // Where the tokens of a row stand: upright where they fit, slanted where they don't.
  function lay(tokens, width) {
    const pen = view.canvas.getContext("2d");
    pen.font = `600 14px ${view.colours.font}`;
    const texts = tokens.map((token) => visible(token, 14)), count = texts.length;
    const sizes = texts.map((text) => pen.measureText(text).width);
    const longest = Math.max(...sizes), bare = sizes.reduce((sum, size) => sum + size, 2 * EDGE);
    const pad = [8, 3].find((n) => bare + count * 2 * n + (count - 1) * 4 <= width);
    if (pad === undefined) return { texts, sizes, longest, pad: 0 };
    const free = width - bare - count * 2 * pad, gap = Math.min(18, free / Math.max(1, count - 1));
    let x = EDGE + (free - gap * (count - 1)) / 2 - gap;
    const places = sizes.map((size) => (x += gap + size + 2 * pad) - size / 2 - pad);
    return { texts, sizes, longest, pad, places, every: 1, tall: CHIP + 4 };
  }

  function layout(width) {
    const above = lay(data.above, width), below = lay(data.below, width);
    const slanted = [above, below].filter((row) => !row.pad);
    // Slanted labels lean over to the right above and to the left below: the less, the narrower.
    const crowded = slanted.some((row) => width - 120 < 14 * row.texts.length);
    const slant = crowded ? 1.3 : 0.98;
    const lean = (row) => (row.pad ? 8 : row.longest * Math.cos(slant) + 14);
    const room = width - lean(above) - lean(below);
    for (const row of slanted) {
      const count = row.texts.length, pitch = Math.min(40, room / count);
      const start = lean(below) + (room - pitch * count) / 2;
      row.places = row.texts.map((_, n) => start + (n + 0.5) * pitch);
      row.every = Math.ceil(13 / (pitch * Math.sin(slant)));
      row.tall = row.longest * Math.sin(slant) + 14;
    }
    const top = (above.pad === 8 ? 34 : 18) + above.tall, bottom = top + SPAN; // numbers need room
    return { above, below, top, bottom, slant, height: bottom + below.tall + 20 };
  }
  // A token: its text on a chip, which is coloured as far as it is `lit`, filled as far as `solid`.
  function chip(context, row, n, { up, lit = 0, solid = 0, wrong = false }) {
    const { ink, muted, panel, paper, accent, font } = view.colours;
    const size = row.sizes[n] + 2 * (row.pad || 4), stands = Math.max(lit, solid) > 0.3;
    if (n % row.every && !stands) return; // no room for every label
    context.save();
    context.translate(row.places[n], up ? rows.top - 2 : rows.bottom + 2);
    if (!row.pad) context.rotate(-rows.slant);
    const [x, y] = row.pad ? [-size / 2, up ? -CHIP : 0] : [up ? 0 : -size, -CHIP / 2];
    const shape = (fill, alpha, edge = false) => {
      context.globalAlpha = alpha;
      context.beginPath();
      context.roundRect(x + 0.5, y + 0.5, size - 1, CHIP - 1, 5);
      context.fillStyle = context.strokeStyle = fill;
      if (edge) context.stroke(); else context.fill();
    };
    context.lineWidth = 1;
    if (row.pad || stands) shape(row.pad ? panel : paper, 1);
    shape(accent, solid || 0.3 * lit);
    if (lit > 0.05) shape(accent, lit, true);
    context.globalAlpha = 1;
    context.fillStyle = solid > 0.5 ? paper : lit > 0.1 || !up ? ink : muted;
    context.font = `${lit > 0.5 || solid ? "600 " : ""}14px ${font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    context.fillText(row.texts[n], x + size / 2, y + CHIP / 2 + 1);
    if (wrong) {
      context.lineWidth = 2; context.setLineDash([4, 2]);
      shape(PALETTE.categorical[3], 1, true);
    }
    context.restore();
  }

  // How far a row's links are drawn: all of the chosen one's, and of the one before while it fades.
  const drawn = () => (before === null ? 1 : Math.min(1, (performance.now() - started) / 260));
  const weight = (i, j) => Math.min(1, data.weights[i * data.above.length + j] / data.top);

  function paintLinks(context, share) {
    const { above, reach } = data, { muted, accent } = view.colours, middle = (rows.top + rows.bottom) / 2;
    const link = (i, j, colour, alpha, thick) => {
      const from = rows.above.places[j], to = rows.below.places[i];
      context.globalAlpha = alpha; context.strokeStyle = colour; context.lineWidth = thick;
      context.beginPath();
      context.moveTo(from, rows.top);
      context.bezierCurveTo(from, middle, to, middle, to, rows.bottom);
      context.stroke();
    };
    const each = (draw) => {
      for (let i = 0; i < reach; i++) for (let j = 0; j < above.length; j++) draw(i, j, weight(i, j), share(i));
    };
    each((i, j, w, part) => { if (w > 0.15 && part < 1) link(i, j, muted, 0.4 * w * (1 - part), 1.25); });
    each((i, j, w, part) => { if (w > 0.004 && part > 0) link(i, j, accent, w * part, 1 + 4 * w); });
    context.globalAlpha = 1;
  }

  function paintTokens(context, share) {
    const { above, below, reach, chosen, wrong } = data;
    const lit = above.map((_, j) => share(chosen) * weight(chosen, j)
      + (before === null ? 0 : share(before) * weight(before, j)));
    const faintFirst = above.map((_, j) => j).sort((i, j) => lit[i] - lit[j]);
    for (const j of faintFirst) chip(context, rows.above, j, { up: true, lit: lit[j] });
    const read = (i) => chip(context, rows.below, i, { up: false, solid: share(i), wrong: i === wrong });
    for (let i = 0; i < reach; i++) read(i);
    read(chosen); // on top
    context.fillStyle = view.colours.line;
    for (let i = reach; i < below.length; i++) { // places that are still to be filled
      context.beginPath(); context.arc(rows.below.places[i], rows.bottom + 14, 2.5, 0, 7); context.fill();
    }
  }

  function paintWords(context) {
    context.fillStyle = view.colours.muted; context.font = `11px ${view.colours.font}`;
    context.textAlign = "left"; context.textBaseline = "top";
    context.fillText(captions[0], 0, 0);
    context.textBaseline = "bottom";
    context.fillText(captions[1], 0, rows.height);
    if (rows.above.pad < 8) return; // no room for numbers
    context.textAlign = "center";
    for (let j = 0; j < data.above.length; j++) {
      const w = data.weights[data.chosen * data.above.length + j];
      if (w >= 0.095) context.fillText(w.toFixed(2), rows.above.places[j], 33);
    }
  }

  const view = sharpCanvas(life, {
    label, keyboard: true,
    height(width) {
      if (!data) return 40;
      rows = layout(width);
      return rows.height;
    },
    paint(context) {
      if (!data) return;
      const part = drawn(), share = (i) => (i === data.chosen ? part : i === before ? 1 - part : 0);
      paintLinks(context, share);
      paintTokens(context, share);
      paintWords(context);
      if (part === 1) before = null;
      else request = requestAnimationFrame(() => view.draw());
    },
  });

  const pick = (row) => { if (row !== data.chosen) onPick(row); };
  function tokenAt(event) {
    const [x, y] = view.at(event), { below, bottom } = rows;
    if (y < bottom - SPAN / 3) return null;
    const along = x + (below.pad ? 0 : Math.max(0, y - bottom) / Math.tan(rows.slant));
    const found = nearest(below.places.slice(0, data.reach), along);
    return Math.abs(below.places[found] - along) < 40 ? found : null;
  }
  for (const type of ["pointermove", "pointerdown"]) {
    life.listen(view.canvas, type, (event) => { if (data) pick(tokenAt(event)); });
  }
  life.listen(view.canvas, "pointerleave", (event) => { if (event.pointerType === "mouse") onPick(null); });
  life.listen(view.canvas, "keydown", (event) => {
    if (!data || withModifier(event)) return;
    const go = { ArrowLeft: data.chosen - 1, ArrowRight: data.chosen + 1, Home: 0, End: data.reach - 1 }[event.key];
    if (go === undefined) return;
    event.preventDefault();
    pick(Math.max(0, Math.min(data.reach - 1, go)));
  });
  life.onEnd(() => cancelAnimationFrame(request));

  return {
    el: h("div", { class: "attn-links" }, view.el), canvas: view.canvas,
    show(next) {
      next = { reach: next.below.length, top: 1, ...next };
      const moves = data && data.below === next.below && data.chosen !== next.chosen && data.chosen < next.reach;
      before = moves && mayMove() ? data.chosen : null;
      started = performance.now();
      cancelAnimationFrame(request);
      data = next;
      view.draw();
    },
  };
}

// What a token reads, in words: the strongest first, three at most, and none that is weak.
function strongest(tokens, weights) {
  const most = Array.from(weights, (w, j) => [w, j]).sort((a, b) => b[0] - a[0])
    .filter(([w], n) => n === 0 || (n < 3 && w >= 0.095));
  return most.map(([w, j]) => `${quoted(tokens[j])} ${w.toFixed(2)}`).join(", then ");
}
