/** Which field a refusal speaks of. Arguments are refused as `path: expected …; other.path: …`. No DOM. */

/**
 * The problems of a refusal, by the path of the field they belong to; "" is for all of them.
 *
 * @param {string} message
 * @param {ReadonlySet<string>} known The paths that the form has.
 * @returns {Map<string, string[]>}
 */
export function byField(message, known) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  let last = { path: "", words: "" };
  const keep = () => last.words && found.set(last.path, [...(found.get(last.path) ?? []), last.words]);
  for (const piece of message.replace(/^[\w ]*invalid_arguments: /, "").split("; ")) {
    const begun = begins(piece, known);
    if (begun === null && last.words) {
      // A value may hold "; " itself, and the forms of a union are listed with it.
      last.words += `; ${piece}`;
      continue;
    }
    keep();
    last = begun ?? { path: "", words: piece };
  }
  keep();
  return found;
}

/**
 * @param {string} piece
 * @param {ReadonlySet<string>} known
 */
function begins(piece, known) {
  const colon = piece.indexOf(": ");
  if (colon < 0) return null;
  const [path, words] = [piece.slice(0, colon), piece.slice(colon + 2)];
  const whole = path === "(arguments)";
  if (!whole && !known.has(path)) return null;
  const missing = /^missing required '([^']+)'/.exec(words)?.[1];
  const field = missing === undefined ? "" : whole ? missing : `${path}.${missing}`;
  return known.has(field) ? { path: field, words } : { path: whole ? "" : path, words };
}
