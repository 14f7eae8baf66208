// A word as the fewest known tokens that make it up, or null; of two ways the one found first, from
// its end. As in attn_widgets.translator.
function segments(word, known) {
  const best = Array(word.length).fill(null).concat([[]]);
  for (let i = word.length - 1; i >= 0; i--) {
    for (const token of known) {
      const rest = token && word.startsWith(token, i) ? best[i + token.length] : null;
      if (rest && !(best[i] && best[i].length <= rest.length + 1)) best[i] = [token, ...rest];
    }
  }
  return best[0];
}

// Without commas and points before three digits, and without those at the end.
const withoutMarks = (word) => word.replace(/[.,](?=[0-9]{3}(?![0-9]))/g, "").replace(/[.,]+$/, "");

// A text as {tokens}, or {wrong}: the first word that is not made of known ones.
/**
 * @param {string} text
 * @param {string[]} known
 * @returns {{ tokens?: string[], wrong?: string }}
 */
function cut(text, known) {
  const tokens = [];
  for (const word of text.split(/[ \t\r\n]+/).filter(Boolean)) {
    const small = word.toLowerCase(), tries = [word, small, `${small},`, withoutMarks(small)];
    const found = tries.map((one) => segments(one, known)).find((all) => all && all.length);
    if (!found) return { wrong: word };
    tokens.push(...found);
  }
  return { tokens };
}

export { cut };
