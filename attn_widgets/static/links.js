// Two rows of tokens, or two columns, joined by links as strong as the weights: above, or on the right,
// are those that are read, below, or on the left, those that read. Call `show(data)` with {above, below,
// weights, strands, columns, power, chosen, reach, wrong, top}: the links of the row `chosen` are drawn, those of
// the others hinted at; `strands`, where several maps lie over one another, are their {weights, colour};
// of `below` the first `reach` are there yet, all unless it is said; `wrong` is framed. `onPick(row)`
// hears which token is pointed at, or pressed where it is to be `byPress`, or walked to by arrow keys, and
// null where the pointer is at none.

import { PALETTE, quoted, visible } from "./numbers.js";
import { h, mayMove, nearest, sharpCanvas, withModifier } from "./controls.js";

function links(life, { label, captions, onPick }) {
  const SPAN = 104, CHIP = 24, EDGE = 6;
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

  // Columns: tokens may be long, and their pitch is at most a chip's height.
  function layColumns(width) {
    const count = Math.max(data.above.length, data.below.length), top = 22;
    const pitch = Math.max(2, Math.min(CHIP, 960 / count)), tall = Math.max(15, Math.min(CHIP, pitch));
    const pen = view.canvas.getContext("2d");
    const column = (tokens) => {
      pen.font = `600 ${tall < 20 ? 12 : 14}px ${view.colours.font}`;
      const texts = tokens.map((token) => visible(token, 32));
      const sizes = texts.map((text) => Math.min(pen.measureText(text).width, 0.32 * width));
      const places = texts.map((_, n) => top + (n + 0.5) * pitch);
      return { texts, sizes, places, pad: 6, every: Math.ceil(14 / pitch), longest: Math.max(...sizes) + 12 };
    };
    const above = column(data.above), below = column(data.below), numbers = 36;
    const span = Math.max(60, Math.min(420, width - above.longest - below.longest - numbers));
    const left = Math.max(below.longest, (width - span + below.longest - above.longest - numbers) / 2);
    return { above, below, columns: true, left, right: left + span, tall, height: top + count * pitch + 6 };
  }
  function layRows(width) {
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
  // Where the chip of a token begins, from the point to which its links run, and how large it is.
  function chipBox(row, n, up) {
    const size = row.sizes[n] + 2 * (row.pad || 4);
    if (rows.columns) {
      const at = [up ? rows.right : rows.left, row.places[n]];
      return { at, box: [up ? 0 : -size, -rows.tall / 2, size, rows.tall] };
    }
    const at = [row.places[n], up ? rows.top - 2 : rows.bottom + 2];
    return { at, box: row.pad ? [-size / 2, up ? -CHIP : 0, size, CHIP] : [up ? 0 : -size, -CHIP / 2, size, CHIP] };
  }
  // A token: its text on a chip, which is coloured as far as it is `lit`, filled as far as `solid`.
  function chip(context, row, n, { up, lit = 0, solid = 0, wrong = false }) {
    const { ink, muted, panel, paper, accent, font } = view.colours;
    const stands = Math.max(lit, solid) > 0.3;
    if (n % row.every && !stands) return; // no room for every label
    const { at, box: [x, y, size, tall] } = chipBox(row, n, up);
    context.save();
    context.translate(...at);
    if (!row.pad) context.rotate(-rows.slant);
    const shape = (fill, alpha, edge = false) => {
      context.globalAlpha = alpha;
      context.beginPath();
      context.roundRect(x + 0.5, y + 0.5, size - 1, tall - 1, 5);
      context.fillStyle = context.strokeStyle = fill;
      if (edge) context.stroke(); else context.fill();
    };
    context.lineWidth = 1;
    if (row.pad || stands) shape(stands ? paper : panel, 1);
    shape(accent, solid || 0.3 * lit);
    if (lit > 0.05) shape(accent, lit, true);
    context.globalAlpha = 1;
    context.fillStyle = solid > 0.5 ? paper : lit > 0.1 || !up ? ink : muted;
    context.font = `${lit > 0.5 || solid ? "600 " : ""}${tall < 20 ? 12 : 14}px ${font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    context.fillText(row.texts[n], x + size / 2, y + tall / 2 + 1, row.sizes[n] + 4);
    if (wrong) {
      context.lineWidth = 2; context.setLineDash([4, 2]);
      shape(PALETTE.categorical[3], 1, true);
    }
    context.restore();
  }

  // How far a row's links are drawn: all of the chosen one's, and of the one before while it fades.
  const drawn = () => (before === null ? 1 : Math.min(1, (performance.now() - started) / 260));
  const share = (weights, i, j) => Math.min(1, weights[i * data.above.length + j] / data.top) ** data.power;
  const weight = (i, j) => share(data.weights, i, j);

  function paintLinks(context, part) {
    const { above, reach, chosen, strands } = data, { muted, accent } = view.colours;
    const link = (i, j, colour, alpha, thick, aside = 0) => {
      const from = rows.above.places[j] + aside, to = rows.below.places[i] + aside;
      context.globalAlpha = alpha; context.strokeStyle = colour; context.lineWidth = thick;
      context.beginPath();
      if (rows.columns) {
        const middle = (rows.left + rows.right) / 2;
        context.moveTo(rows.right, from);
        context.bezierCurveTo(middle, from, middle, to, rows.left, to);
      } else {
        const middle = (rows.top + rows.bottom) / 2;
        context.moveTo(from, rows.top);
        context.bezierCurveTo(from, middle, to, middle, to, rows.bottom);
      }
      context.stroke();
    };
    for (let i = 0; i < reach; i++) {
      for (let j = 0; j < above.length; j++) {
        const w = weight(i, j);
        if (w > 0.15 && part(i) < 1) link(i, j, muted, 0.4 * w * (1 - part(i)), 1.25);
      }
    }
    const drawnRows = before === null || before >= reach ? [chosen] : [before, chosen];
    for (const i of drawnRows) {
      strands.forEach(({ weights, colour = accent }, n) => {
        const aside = 3 * (n - (strands.length - 1) / 2);
        for (let j = 0; j < above.length; j++) {
          const w = share(weights, i, j);
          if (w > 0.004 && part(i) > 0) link(i, j, colour, w * part(i), 1 + 4 * w, aside);
        }
      });
    }
    context.globalAlpha = 1;
  }

  function paintTokens(context, part) {
    const { above, below, reach, chosen, wrong } = data;
    const lit = above.map((_, j) => part(chosen) * weight(chosen, j)
      + (before === null ? 0 : part(before) * weight(before, j)));
    const faintFirst = above.map((_, j) => j).sort((i, j) => lit[i] - lit[j]);
    for (const j of faintFirst) chip(context, rows.above, j, { up: true, lit: lit[j] });
    const read = (i) => chip(context, rows.below, i, { up: false, solid: part(i), wrong: i === wrong });
    for (let i = 0; i < reach; i++) read(i);
    read(chosen); // on top
    context.fillStyle = view.colours.line;
    for (let i = reach; i < below.length; i++) { // places that are still to be filled
      const { at: [x, y] } = chipBox(rows.below, i, false);
      context.beginPath();
      context.arc(rows.columns ? x - 12 : x, rows.columns ? y : y + 12, 2.5, 0, 7);
      context.fill();
    }
  }

  function paintWords(context) {
    const { columns, above } = rows;
    context.fillStyle = view.colours.muted; context.font = `11px ${view.colours.font}`;
    context.textAlign = columns ? "right" : "left"; context.textBaseline = "top";
    if (columns) context.fillText(captions[1], rows.left, 0);
    context.textAlign = "left";
    context.fillText(captions[0], columns ? rows.right : 0, 0);
    context.textBaseline = "bottom";
    if (!columns) context.fillText(captions[1], 0, rows.height);
    if (!columns && above.pad < 8) return; // no room for numbers
    context.textAlign = columns ? "left" : "center";
    if (columns) context.textBaseline = "middle";
    for (let j = 0; j < data.above.length; j++) {
      const w = data.weights[data.chosen * data.above.length + j];
      if (w < 0.095) continue;
      const { at, box: [x, , size] } = chipBox(above, j, true);
      context.fillText(w.toFixed(2), columns ? at[0] + x + size + 5 : at[0], columns ? at[1] : 33);
    }
  }

  const view = sharpCanvas(life, {
    label, keyboard: true,
    height(width) {
      if (!data) return 40;
      rows = data.columns ? layColumns(width) : layRows(width);
      return rows.height;
    },
    paint(context) {
      if (!data) return;
      const now = drawn(), part = (i) => (i === data.chosen ? now : i === before ? 1 - now : 0);
      paintLinks(context, part);
      paintTokens(context, part);
      paintWords(context);
      if (now === 1) before = null;
      else request = requestAnimationFrame(() => view.draw());
    },
  });

  const pick = (row) => { if (row !== data.chosen) onPick(row); };
  function tokenAt(event) {
    const [x, y] = view.at(event), { below, bottom } = rows;
    if (rows.columns) return x > rows.left + 60 ? null : nearest(below.places.slice(0, data.reach), y);
    if (y < bottom - SPAN / 3) return null;
    const along = x + (below.pad ? 0 : Math.max(0, y - bottom) / Math.tan(rows.slant));
    const found = nearest(below.places.slice(0, data.reach), along);
    return Math.abs(below.places[found] - along) < 40 ? found : null;
  }
  // A mouse picks what it points at; a finger what it taps, as one that is put down may scroll the page.
  for (const type of ["pointermove", "pointerdown", "click"]) {
    life.listen(view.canvas, type, (event) => {
      const waits = type === "pointermove" && data && data.byPress;
      if (data && !waits && (type === "click" || event.pointerType !== "touch")) pick(tokenAt(event));
    });
  }
  life.listen(view.canvas, "pointerleave", (event) => { if (event.pointerType === "mouse") onPick(null); });
  life.listen(view.canvas, "keydown", (event) => {
    if (!data || withModifier(event)) return;
    const [back, on] = data.columns ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    const go = { [back]: data.chosen - 1, [on]: data.chosen + 1, Home: 0, End: data.reach - 1 }[event.key];
    if (go === undefined) return;
    event.preventDefault();
    pick(Math.max(0, Math.min(data.reach - 1, go)));
  });
  life.onEnd(() => cancelAnimationFrame(request));

  return {
    el: h("div", { class: "attn-links" }, view.el), canvas: view.canvas,
    show(next) {
      next = { reach: next.below.length, top: 1, power: 1, strands: [next], ...next };
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

export { links, strongest };
