// What every widget computes and says with: numbers, masks and scores, words, colours. Nothing here draws.

// ---------------------------------------------------------------- numbers

/** @typedef {Float64Array<ArrayBuffer>} Floats */
/** @typedef {ArrayLike<number>} Numbers a list of them or an array */
/** @typedef {Record<string, any>} Parameters of a score, by their names in Python */

// A size that the page's data state: what somebody changed is refused, and fills neither memory nor time.
/**
 * @param {number} n
 * @param {number} most
 */
function checked(n, most) {
  if (!(Number.isInteger(n) && n >= 0 && n <= most)) throw new RangeError(`a size must be from 0 to ${most}, got ${n}`);
  return n;
}

// Undo attn_widgets.encoding: quanta or packed bits, with their shape.
/**
 * @param {{ b64: string, shape: number[], bits: number, lo?: number, hi?: number, power?: number }} packed
 * @returns {Uint8Array | Floats}
 */
function decode({ b64, shape, bits, lo, hi, power = 1 }) {
  const bytes = Uint8Array.from(atob(b64), (c) => c.charCodeAt(0));
  const size = shape.reduce((product, n) => product * n, 1);
  if (!shape.every((n) => checked(n, size) > 0) || size * bits > 8 * bytes.length) {
    throw new RangeError(`${shape} numbers of ${bits} bits do not fit into ${bytes.length} bytes`);
  }
  if (bits === 1) {
    return Uint8Array.from({ length: size }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
  }
  const view = new DataView(bytes.buffer);
  /**
 * @param {number} x
 * @param {number} low
 * @param {number} high
 */
const level = {
    12: (i) => { // three hexadecimal digits each, in a row
      const at = (3 * i) >> 1;
      return i & 1 ? ((bytes[at] & 15) << 8) | bytes[at + 1] : (bytes[at] << 4) | (bytes[at + 1] >> 4);
    },
    8: (i) => bytes[i],
    16: (i) => view.getUint16(2 * i, true),
  }[bits];
  const quantum = (hi - lo) / (2 ** bits - 1);
  return Float64Array.from({ length: size }, (_, i) => (lo + level(i) * quantum) ** power);
}

// Row by row; masked keys get 0, and so does every key of an empty row. Many heads may share one
// array for their weights: making 144 of them takes as long as filling them.
/**
 * @param {Numbers} scores (L, S)
 * @param {Numbers | null} mask (L, S)
 * @param {number} L
 * @param {number} S
 * @param {number} [temperature]
 * @param {Floats} [weights] what is filled
 */
function maskedSoftmax(scores, mask, L, S, temperature = 1, weights = new Float64Array(L * S)) {
  weights.fill(0);
  for (let i = 0; i < L; i++) {
    let top = -Infinity;
    for (let n = i * S; n < (i + 1) * S; n++) {
      if ((!mask || mask[n]) && scores[n] > top) top = scores[n];
    }
    if (top === -Infinity) continue;
    let total = 0;
    for (let n = i * S; n < (i + 1) * S; n++) {
      if (!mask || mask[n]) total += weights[n] = Math.exp((scores[n] - top) / temperature);
    }
    for (let n = i * S; n < (i + 1) * S; n++) weights[n] /= total;
  }
  return weights;
}

const KERNELS = {
  gaussian: (u) => Math.exp(-u * u / 2) / Math.sqrt(2 * Math.PI),
  boxcar: (u) => (Math.abs(u) <= 1 ? 0.5 : 0),
  triangular: (u) => Math.max(0, 1 - Math.abs(u)),
  epanechnikov: (u) => 0.75 * Math.max(0, 1 - u * u),
};

// (L, S) weights of Nadaraya-Watson; a row with no key in reach is 0.
/**
 * @param {string} kernel
 * @param {Numbers} queries
 * @param {Numbers} keys
 * @param {number} bandwidth
 */
function kernelWeights(kernel, queries, keys, bandwidth) {
  const L = queries.length, S = keys.length;
  const u = (i, j) => (queries[i] - keys[j]) / bandwidth;
  if (kernel === "gaussian") { // in log space: e^-200 is no weight to divide by
    const scores = Float64Array.from({ length: L * S }, (_, n) => -(u((n / S) | 0, n % S) ** 2) / 2);
    return maskedSoftmax(scores, null, L, S);
  }
  const weights = new Float64Array(L * S);
  for (let i = 0; i < L; i++) {
    let total = 0;
    for (let j = 0; j < S; j++) total += weights[i * S + j] = KERNELS[kernel](u(i, j));
    if (total > 0) for (let j = 0; j < S; j++) weights[i * S + j] /= total;
  }
  return weights;
}

/**
 * @param {Numbers} a
 * @param {Numbers} b
 */
function dot(a, b) { // a loop and not reduce: a Transformer spends its time here
  let sum = 0;
  for (let n = 0; n < a.length; n++) sum += a[n] * b[n];
  return sum;
}
/**
 * @param {Numbers[]} rows
 * @param {Numbers} x
 */
const matvec = (rows, x) => rows.map((row) => dot(row, x));

const SCORES = {
  dot: (q, k) => dot(q, k),
  scaled_dot: (q, k) => dot(q, k) / Math.sqrt(q.length),
  gaussian: (q, k) => -q.reduce((sum, x, n) => sum + (x - k[n]) ** 2, 0) / 2,
  bilinear: (q, k, { bilinear }) => dot(q, matvec(bilinear, k)),
  additive: (q, k, { q_proj, k_proj, v_proj }) => {
    const keyed = matvec(k_proj, k);
    return dot(v_proj, matvec(q_proj, q).map((x, n) => Math.tanh(x + keyed[n])));
  },
};

// (L, S) scores by name.
/**
 * @param {string} score
 * @param {number[][]} queries
 * @param {number[][]} keys
 * @param {Parameters} [parameters]
 */
function scoreMatrix(score, queries, keys, parameters = {}) {
  return Float64Array.from(
    queries.flatMap((q) => keys.map((k) => SCORES[score](q, k, parameters))),
  );
}

// (L, S) masks by name, 1 = may attend; the same rules as attn_notes.masks.
const MASKS = {
  none: () => 1,
  causal: (i, j) => j <= i,
  window: (i, j, size) => j <= i && i - j < size,
  prefix: (i, j, size) => j <= i || j < size,
  padding: (i, j, size) => j < size,
  block: (i, j, size) => ((i / size) | 0) === ((j / size) | 0),
};

/**
 * @param {string} name
 * @param {number} L
 * @param {number} S
 */
function namedMask(name, L, S, size = 1) {
  return Uint8Array.from({ length: L * S }, (_, n) => +MASKS[name]((n / S) | 0, n % S, size));
}

// The largest number, or 0.
/** @param {Numbers} values */
function largest(values) {
  let top = 0;
  for (let n = 0; n < values.length; n++) if (values[n] > top) top = values[n];
  return top;
}

// ---------------------------------------------------------------- words

// C1 controls, line separators and marks that turn the text around them, isolates whose end could
// be forged, halves of a surrogate pair, what no XML may hold: as in attn_notes.palette.
const LONGEST = 1000; // characters of a token that are looked at
const UNPRINTABLE = [[0x80, 0x9f], [0x2028, 0x202e], [0x2066, 0x2069], [0xd800, 0xdfff],
  [0xfffe, 0xffff]];

// A token as it can be drawn: control characters and lone spaces made visible. Of a very long one only
// as much is looked at as could be shown.
/**
 * @param {any} token
 * @returns {string}
 */
function visible(token, most = 24) {
  const text = Array.from(String(token).slice(0, 2 * most + 2), (c) => {
    const code = c.codePointAt(0);
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    if (code === 127) return "\u2421";
    if (UNPRINTABLE.some(([first, last]) => code >= first && code <= last)) return "\ufffd";
    return c;
  });
  if (text.every((c) => c === " ")) return "\u2423".repeat(Math.max(1, Math.min(text.length, most)));
  return text.length > most ? text.slice(0, most - 1).join("") + "\u2026" : text.join("");
}

// Tokens as one text: a space between two that do not join.
/**
 * @param {string[]} tokens
 * @param {(before: string, token: string) => boolean} joins
 */
const joined = (tokens, joins) => tokens.reduce(
  (text, token, n) => text + (n && !joins(tokens[n - 1], token) ? " " : "") + token, "");

// Tokens as they can be drawn where there is little room. Those that would look alike if cut show from
// where they differ.
/**
 * @param {string[]} tokens
 * @param {number} most characters
 */
function distinct(tokens, most) {
  const cut = tokens.map((token) => visible(token, most)), groups = new Map();
  cut.forEach((text, n) => groups.set(text, [...(groups.get(text) || []), n]));
  for (const places of groups.values()) {
    const all = places.map((n) => Array.from(String(tokens[n]).slice(0, LONGEST)));
    let alike = 0;
    while (alike < LONGEST && all.every((one) => alike < one.length && one[alike] === all[0][alike])) alike++;
    if (alike < most - 1 || all.every((one) => one.length === alike)) continue;
    places.forEach((n, at) => {
      cut[n] = `\u2026${visible(all[at].slice(Math.max(0, alike - 2)).join(""), most - 1)}`;
    });
  }
  return cut;
}

// First-strong isolates keep a right-to-left token from turning the words around it.
/** @param {string} text */
const inQuotes = (text) => `\u201c\u2068${text}\u2069\u201d`;
/**
 * @param {any} token
 * @param {number} [most] characters
 */
const quoted = (token, most) => inQuotes(visible(token, most));
// A number as it is printed: the sign before it is a minus and no hyphen.
/** @param {string} text */
const minus = (text) => text.replace(/^-/, "\u2212");
/** @param {number} x */
const two = (x) => minus(x.toFixed(2));
/** @param {number} x */
const shown = (x) => minus(Math.abs(x) >= 1000 ? x.toExponential(1) : x.toFixed(Math.abs(x) < 10 ? 3 : 1));

// ---------------------------------------------------------------- colours

// The 256 colours of matplotlib's cividis, six hexadecimal digits each.
const CIVIDIS =
  "00224e00234f00245100255300255400265600275800285900285b00295d002a5f002a61002b62002c64002c66002d68" +
  "002e6a002e6c002f6d00306f0030700031700031710132710533710833700c34700f357012357014367016377018376f" +
  "1a386f1c396f1e3a6f203a6f213b6e233c6e243c6e263d6e273e6e293f6e2a3f6d2b406d2d416d2e416d2f426d31436d" +
  "32436d33446d34456c35456c36466c38476c39486c3a486c3b496c3c4a6c3d4a6c3e4b6c3f4c6c404c6c414d6c424e6c" +
  "434e6c444f6c45506c46516c47516c48526c49536c4a536c4b546c4c556c4d556c4e566c4f576c50576c51586d52596d" +
  "535a6d545a6d555b6d555c6d565c6d575d6d585e6d595e6e5a5f6e5b606e5c616e5d616e5e626e5e636f5f636f60646f" +
  "61656f62656f636670646770656870656870666970676a71686a71696b716a6c716b6d726c6d726c6e726d6f726e6f73" +
  "6f70737071737172747272747273747374757474757575757676767777767777777878777979777a7a787b7a787c7b78" +
  "7d7c787e7c787e7d787f7e78807f78817f788280798381798482798582798683798784788885788985788a86788b8778" +
  "8c88788d88788e89788f8a78908b78918b78928c78928d78938e78948e77958f779690779791779892779992779a9376" +
  "9b94769c95769d95769e96769f9775a09875a19975a29975a39a74a49b74a59c74a69c74a79d73a89e73a99f73aaa073" +
  "aba072aca172ada272aea371afa471b0a571b1a570b3a670b4a76fb5a86fb6a96fb7a96eb8aa6eb9ab6dbaac6dbbad6d" +
  "bcae6cbdae6cbeaf6bbfb06bc0b16ac1b26ac2b369c3b369c4b468c5b568c6b667c7b767c8b866c9b965cbb965ccba64" +
  "cdbb63cebc63cfbd62d0be62d1bf61d2c060d3c05fd4c15fd5c25ed6c35dd7c45cd9c55cdac65bdbc75adcc859ddc858" +
  "dec958dfca57e0cb56e1cc55e2cd54e4ce53e5cf52e6d051e7d150e8d24fe9d34eead34cebd44bedd54aeed649efd748" +
  "f0d846f1d945f2da44f3db42f5dc41f6dd3ff7de3ef8df3cf9e03afbe138fce236fde334fee434fee535fee636fee838";
// The hues of attn_notes.palette.
const PALETTE = { categorical: ["#4a7fc1", "#b9812a", "#3f9a6b", "#cf5f57", "#9a70c4", "#2f97a3"],
  negative: "#3f7fbf", neutral: "#e9e6df", positive: "#c9643c" };

const rgb = (hex) => [0, 2, 4].map((n) => parseInt(hex.slice(n, n + 2), 16));
// Of a colour as a style sheet gives it, "#rrggbb" or "rgb(r, g, b)"; black where it gives none yet.
/** @param {string} colour */
const channels = (colour) => (colour.startsWith("#") ? rgb(colour.slice(1))
  : (colour.match(/\d+/g) || [0, 0, 0]).slice(0, 3).map(Number));
/**
 * @param {number[]} a
 * @param {number[]} b
 * @param {number} t
 */
const mix = (a, b, t) => a.map((x, n) => Math.round(x + (b[n] - x) * t));
/** @param {number[]} channels red, green, blue */
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// 256 colours as the words of an ImageData (little-endian: every browser there is).
const SEQUENTIAL = Uint32Array.from({ length: 256 }, (_, i) => packed(rgb(CIVIDIS.slice(6 * i, 6 * i + 6))));
/**
 * 256 colours from one to another, with the page's neutral between.
 * @param {string} low
 * @param {string} high
 */
function diverging(low, high) {
  const ends = [low, PALETTE.neutral, high].map((hex) => rgb(hex.slice(1)));
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const t = i / 127.5;
    return packed(t < 1 ? mix(ends[0], ends[1], t) : mix(ends[1], ends[2], t - 1));
  });
}
const DIVERGING = diverging(PALETTE.negative, PALETTE.positive);
/** @param {number} word of an ImageData */
const css = (word) => `rgb(${word & 255},${(word >> 8) & 255},${(word >> 16) & 255})`;
// Black on light and white on dark: WCAG's luminance, above which black has the more contrast.
const linear = (byte) => (byte <= 10 ? byte / 3294.6 : ((byte / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (word) => 0.2126 * linear(word & 255) + 0.7152 * linear((word >> 8) & 255)
  + 0.0722 * linear((word >> 16) & 255);
/** @param {number} word of an ImageData */
const inkOn = (word) => (luminance(word) > 0.179 ? "#000000" : "#ffffff");
const level = (x, low, high) => Math.max(0, Math.min(255, Math.round((255 * (x - low)) / (high - low || 1))));

// The page's colours as they are now; widgets.css defines them for light and dark. Where the reader's
// system forces its own, these are asked for by name.
const FORCED = "(forced-colors: active)";
/** @param {HTMLElement} el */
function inks(el) {
  const style = getComputedStyle(el), forced = matchMedia(FORCED).matches && el.parentElement;
  const system = { paper: "Canvas", surface: "Canvas", ink: "CanvasText", muted: "CanvasText", rule: "GrayText",
    accent: "Highlight" };
  function ask(name) {
    const probe = el.parentElement.appendChild(document.createElement("span"));
    probe.style.color = system[name];
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }
  const read = (name) => (forced ? ask(name) : style.getPropertyValue(`--attn-${name}`).trim());
  return { paper: read("paper"), panel: read("surface"), ink: read("ink"), muted: read("muted"),
    line: read("rule"), accent: read("accent"), font: style.fontFamily };
}

export {
  channels, checked, css, decode, distinct, diverging, DIVERGING, dot, FORCED, inkOn, inks, inQuotes, joined,
  kernelWeights, largest, level, maskedSoftmax, matvec, minus, mix, namedMask, packed, PALETTE, quoted,
  scoreMatrix, SEQUENTIAL, shown, two, visible,
};
