// What every widget shares, third of three files: the heatmap, its colour scale and its hatching.

// Fine diagonal lines: a cell that may not be read. One pattern a colour.
const HATCHES = {};
function hatch(context, colour) {
  if (HATCHES[colour]) return HATCHES[colour];
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
  pen.stroke();
  return (HATCHES[colour] = context.createPattern(tile, "repeat"));
}

const HINT = "Point at a cell, or focus the map and walk it with the arrow keys.";

// Rows are queries ("read"), columns are keys ("are read"). Call `show(data)` with
// {values, L, S, mask, queries, keys, top, signed, flat, room, broad, mark}; `onPick(i, j)` hears of the
// chosen cell, `onHover(i, j)` of the one pointed at, `onPaint` makes the map paintable. A flat map
// shows its mask alone: open cells in one colour. `room` is how many rows there will be, where not
// all are there yet, and `broad` how many columns; `mark` frames a row. `axes` says what else rows and
// columns are: {columns, rows, corner, cell(i, j)}.
const ATTENTION = { columns: "keys (are read)", rows: "queries (read)", corner: "query \u2193 key \u2192" };
function heatmap(life, { label, hint = HINT, tableLabel = "The numbers as a table", tallest = 42, widest = 3,
  onPick = () => {}, onHover = () => {}, onPaint = null }) {
  let data = null, place = null, pixels = null, hover = null, cursor = [0, 0], told = null;
  const readout = h("p", { class: "attn-readout", role: "status" }, hint);

  const name = (tokens, n) => (tokens ? quoted(tokens[n]) : String(n));
  function describe(i, j) {
    const { values, S, mask, queries, keys, flat, axes } = data;
    const pair = axes ? axes.cell(i, j) : `query ${name(queries, i)} (row ${i}), key ${name(keys, j)} (column ${j})`;
    if (mask && !mask[i * S + j]) return `${pair}: masked`;
    if (axes) return `${pair}: ${shown(values[i * S + j])}`;
    return flat ? `${pair}: open` : `${pair}: weight ${shown(values[i * S + j])}`;
  }

  function measure(width) {
    const { S, queries, keys, room: L = data.L, broad = S } = data;
    const pen = view.canvas.getContext("2d");
    pen.font = `600 12px ${view.colours.font}`;
    const longest = (tokens, size) => (tokens || [String(size)])
      .reduce((most, token) => Math.max(most, pen.measureText(visible(token, 14)).width), 0);
    const across = longest(keys, S);
    const left = Math.min(0.4 * width, 26 + longest(queries, L));
    const wide = (width - left - 10) / Math.max(broad, 1);
    const cell = Math.min(42, wide < 3 ? wide : Math.floor(wide), Math.max(widest, Math.floor(640 / Math.max(L, 1))));
    const tall = Math.min(tallest, Math.max(cell, Math.min(24, 60 / Math.max(L, 1)))); // a long row is no hairline
    const upright = across + 4 < cell; // short labels need no turning
    const below = upright ? 38 : 26 + Math.min(90, 0.87 * across + 10);
    return { left, top: 6, cell, tall, below, upright, width: cell * S, height: tall * L };
  }

  function paintCells(context) {
    const { values, L, S, mask, top = 1, signed = false, flat = false } = data;
    const colours = signed ? DIVERGING : SEQUENTIAL;
    const open = flat ? packed(rgb(view.colours.accent.slice(1))) : 0;
    if (!pixels || pixels.canvas.width !== S || pixels.canvas.height !== L) {
      const canvas = document.createElement("canvas");
      canvas.width = S; canvas.height = L;
      const pen = canvas.getContext("2d");
      pixels = { canvas, pen, image: pen.createImageData(S, L) };
      pixels.words = new Uint32Array(pixels.image.data.buffer);
    }
    const low = signed ? -top : 0;
    for (let n = 0; n < L * S; n++) {
      pixels.words[n] = mask && !mask[n] ? 0 : open || colours[level(values[n], low, top)];
    }
    pixels.pen.putImageData(pixels.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels.canvas, place.left, place.top, place.width, L * place.tall);
    if (flat && place.cell >= 12) paintGrid(context);
    context.fillStyle = view.colours.panel; // rows that are still to come
    context.fillRect(place.left, place.top + L * place.tall, place.width, place.height - L * place.tall);
    if (!mask) return;
    context.beginPath();
    for (let i = 0; i < L; i++) {
      for (let j = 0, start = -1; j <= S; j++) { // a rectangle for each run of closed cells
        const closed = j < S && !mask[i * S + j];
        if (closed && start < 0) start = j;
        if (!closed && start >= 0) {
          context.rect(place.left + start * place.cell, place.top + i * place.tall, (j - start) * place.cell,
            place.tall);
          start = -1;
        }
      }
    }
    context.fillStyle = hatch(context, view.colours.muted);
    context.globalAlpha = 0.6;
    context.fill();
    context.globalAlpha = 1;
  }

  // Where all cells have one colour, what tells one from the next.
  function paintGrid(context) {
    context.beginPath();
    for (let i = 1; i < data.L; i++) {
      context.moveTo(place.left, place.top + i * place.tall);
      context.lineTo(place.left + place.width, place.top + i * place.tall);
    }
    for (let j = 1; j < data.S; j++) {
      context.moveTo(place.left + j * place.cell, place.top);
      context.lineTo(place.left + j * place.cell, place.top + data.L * place.tall);
    }
    context.strokeStyle = view.colours.paper; context.lineWidth = 1; context.stroke();
  }

  function paintNumbers(context) {
    const { values, L, S, mask, top = 1, signed = false, flat = false } = data;
    if (flat || Math.min(place.cell, place.tall) < 22 || place.cell < 32 || L * S > 150) return;
    const colours = signed ? DIVERGING : SEQUENTIAL;
    context.font = `${place.cell < 38 ? 10 : 11}px ${view.colours.font}`;
    context.textAlign = "center"; context.textBaseline = "middle";
    for (let n = 0; n < L * S; n++) {
      if (mask && !mask[n]) continue;
      context.fillStyle = inkOn(colours[level(values[n], signed ? -top : 0, top)]);
      context.fillText(values[n].toFixed(Math.abs(values[n]) >= 10 ? 0 : 2),
        place.left + ((n % S) + 0.5) * place.cell, place.top + (((n / S) | 0) + 0.5) * place.tall);
    }
  }

  function paintLabels(context) {
    const { L, S, queries, keys, mark, axes = ATTENTION } = data;
    const active = hover || (document.activeElement === view.canvas ? cursor : null);
    const every = Math.max(1, Math.ceil(12 / place.cell)), everyRow = Math.max(1, Math.ceil(12 / place.tall));
    const write = (text, bold, room) => {
      context.font = `${bold ? "600 " : ""}12px ${view.colours.font}`;
      context.fillStyle = bold ? view.colours.ink : view.colours.muted;
      context.fillText(text, 0, 0, room);
    };
    for (let i = 0; i < L; i += everyRow) {
      context.save();
      context.translate(place.left - 6, place.top + (i + 0.5) * place.tall);
      context.textAlign = "right"; context.textBaseline = "middle";
      write(queries ? visible(queries[i], 14) : String(i), i === mark || (active && active[0] === i), place.left - 22);
      context.restore();
    }
    for (let j = 0; j < S; j += every) {
      context.save();
      context.translate(place.left + (j + 0.5) * place.cell, place.top + place.height + 6);
      context.textAlign = place.upright ? "center" : "right";
      context.textBaseline = place.upright ? "top" : "middle";
      if (!place.upright) context.rotate(-Math.PI / 3);
      write(keys ? visible(keys[j], 14) : String(j), active && active[1] === j, 100);
      context.restore();
    }
    context.fillStyle = view.colours.muted;
    context.font = `11px ${view.colours.font}`;
    context.textAlign = "center"; context.textBaseline = "bottom";
    const half = context.measureText(axes.columns).width / 2; // under a map of few columns it would begin outside
    const foot = place.top + place.height + place.below;
    context.fillText(axes.columns, Math.max(half, place.left + place.width / 2), foot);
    context.save();
    context.translate(2, place.top + place.height / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = "top";
    if (place.height > 84) context.fillText(axes.rows, 0, 0);
    context.restore();
    if (mark != null && data.flat) { // where open cells have the accent's colour themselves
      outline(context, place.left, place.top + mark * place.tall, place.width, place.tall);
    } else if (mark != null) {
      context.strokeStyle = view.colours.accent; context.lineWidth = 2;
      context.strokeRect(place.left - 1, place.top + mark * place.tall, place.width + 2, place.tall);
    }
    if (active) {
      outline(context, place.left + active[1] * place.cell, place.top + active[0] * place.tall, place.cell, place.tall);
    }
  }

  // The cells from one to another, so that a quick stroke leaves no holes.
  function between([i, j], [k, l]) {
    const steps = Math.max(Math.abs(k - i), Math.abs(l - j));
    return Array.from({ length: steps }, (_, n) => [
      Math.round(i + ((k - i) * (n + 1)) / steps), Math.round(j + ((l - j) * (n + 1)) / steps)]);
  }

  const view = sharpCanvas(life, {
    label, keyboard: true,
    height(width) {
      if (!data) return 40;
      place = measure(width);
      return place.top + place.height + place.below + 4;
    },
    paint(context) {
      if (!data) return;
      if (data.L && data.S) paintCells(context);
      paintNumbers(context);
      paintLabels(context);
    },
  });

  if (onPaint) view.canvas.classList.add("attn-paint");
  function cellAt(event) {
    if (!data || !place) return null;
    const [x, y] = view.at(event);
    const j = Math.floor((x - place.left) / place.cell), i = Math.floor((y - place.top) / place.tall);
    return i >= 0 && j >= 0 && i < data.L && j < data.S ? [i, j] : null;
  }
  // Say what a cell holds, and go on saying it while the numbers change.
  function tell(cell) {
    told = cell;
    readout.textContent = describe(...cell);
  }
  function settle(cell) {
    if (!cell) return;
    cursor = cell;
    tell(cell);
    onPick(...cell);
  }
  life.listen(view.canvas, "pointermove", (event) => {
    const now = cellAt(event);
    if (String(now) === String(hover)) return;
    if (now && hover && onPaint && event.buttons & 1) {
      for (const cell of between(hover, now)) onPaint(...cell, "move");
    }
    hover = now;
    if (hover) { tell(hover); onHover(...hover); }
    view.draw();
  });
  life.listen(view.canvas, "pointerleave", () => { hover = null; view.draw(); });
  life.listen(view.canvas, "pointerdown", (event) => {
    const cell = event.button === 0 ? cellAt(event) : null;
    if (cell && onPaint) onPaint(...cell, "down");
    settle(cell);
  });
  life.listen(view.canvas, "focus", () => view.draw());
  life.listen(view.canvas, "blur", () => view.draw());
  life.listen(view.canvas, "keydown", (event) => {
    if (!data || !data.L || !data.S || withModifier(event)) return;
    const [i, j] = cursor;
    const go = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
      Home: [i, 0], End: [i, data.S - 1], PageUp: [0, j], PageDown: [data.L - 1, j] }[event.key];
    if (go) {
      event.preventDefault();
      hover = null;
      settle([Math.max(0, Math.min(data.L - 1, go[0])), Math.max(0, Math.min(data.S - 1, go[1]))]);
      view.draw();
    } else if (onPaint && (event.key === " " || event.key === "Enter")) {
      event.preventDefault();
      onPaint(i, j, "down");
      tell(cursor);
    }
  });

  const table = foldedTable(life, tableLabel, () => {
    const { values, L, S, mask, queries, keys, axes = ATTENTION } = data;
    const head = (tokens, n) => (tokens ? visible(tokens[n]) : String(n));
    return {
      corner: axes.corner,
      columns: Array.from({ length: S }, (_, j) => head(keys, j)),
      rows: Array.from({ length: L }, (_, i) => [head(queries, i), ...Array.from({ length: S },
        (_, j) => (mask && !mask[i * S + j] ? "masked" : data.flat ? "open" : shown(values[i * S + j])))]),
    };
  });

  return {
    el: h("div", { class: "attn-heatmap" }, view.el, readout), table: table.el, canvas: view.canvas,
    show(next) {
      data = next;
      cursor = [Math.min(cursor[0], Math.max(0, data.L - 1)), Math.min(cursor[1], Math.max(0, data.S - 1))];
      if (hover && (hover[0] >= data.L || hover[1] >= data.S)) hover = null;
      view.draw();
      if (told && (told[0] >= data.L || told[1] >= data.S)) told = null;
      if (told) tell(told);
      else readout.textContent = hint;
      table.fill();
    },
  };
}

// The colour scale: a strip from `low` to `top`, with its two numbers.
function colourScale(_life) {
  let ends = [0, 1, false];
  const low = h("span", {}), high = h("span", {});
  const strip = h("canvas", { width: 128, height: 10, "aria-hidden": "true" });
  const view = h("div", { class: "attn-scale" }, low, strip, high);
  return {
    el: view,
    show(top, signed = false) {
      ends = [signed ? -top : 0, top, signed];
      low.textContent = shown(ends[0]).replace(/\.?0+$/, "");
      high.textContent = shown(ends[1]).replace(/\.?0+$/, "");
      const context = strip.getContext("2d");
      for (let n = 0; n < 128; n++) {
        context.fillStyle = css((signed ? DIVERGING : SEQUENTIAL)[2 * n]);
        context.fillRect(n, 0, 1, 10);
      }
    },
  };
}

// Where the colours end: at 1, or at the largest weight if the reader wants it so.
const scaleTop = (model, values) => (model.get("shared_scale") ? Math.max(largest(values), 1e-9) : 1);
const sharedScale = (model, life) => tick(model, life, "shared_scale", { label: "Colour up to the largest weight" });
