/**
 * What stands inside a line of Markdown: code, emphasis, links. A part of markdown.js.
 *
 * It goes through the text once, from mark to mark. Where the other end of a mark is looked for, the find is remembered,
 * so that a text of nothing but marks costs no more than another.
 */

import { h } from "./dom.js";
import { prose, visible } from "./text.js";
import { t } from "./words.js";

/** Marks inside of marks, and letters of an address. */
const DEEP = 6;
const ADDRESS = 2_000;
const TRIES = 8;

/** The number of a source as it stands in a text that is drawn. No text from elsewhere can hold one: its key is made anew for each page. */
const KEY = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join("");
const NUMBERS = new RegExp(`\ufdd0${KEY}(\\d+)\ufdd1`, "g");

const STOPS = /[\\`*_~[!<\n\ufdd0]|https?:\/\//g;
const ESCAPED = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const MARKS = /** @type {const} */ (["***", "**", "__", "~~", "*", "_"]);
/** @type {Record<string, (inner: Node[]) => Node>} */
const MARKED = {
  "***": (inner) => h("strong", null, h("em", null, inner)),
  "**": (inner) => h("strong", null, inner),
  __: (inner) => h("strong", null, inner),
  "~~": (inner) => h("del", null, inner),
  "*": (inner) => h("em", null, inner),
  _: (inner) => h("em", null, inner),
};

/** @typedef {{node: Node, end: number}} Found */
/** @typedef {{text: string, depth: number, next: (mark: string, from: number) => number, linked: boolean}} Place */

/**
 * @param {string} text
 * @param {number} [depth]
 * @param {boolean} [linked] Inside of a link there is no other one.
 * @returns {Node[]}
 */
export function inline(text, depth = 0, linked = false) {
  const place = { text, depth, linked, next: finder(text) };
  /** @type {Node[]} */
  const made = [];
  let from = 0;
  STOPS.lastIndex = 0;
  for (let stop = stopAt(text, 0); stop !== -1; ) {
    const found = special(place, stop);
    if (found === null) {
      // A run of the same letter that marks nothing is passed as a whole.
      let after = stop + 1;
      while (text[after] === text[stop] && text[stop] !== "\\" && text[stop] !== "[" && text[stop] !== "<") after++;
      stop = stopAt(text, after);
      continue;
    }
    if (stop > from) made.push(words(text.slice(from, stop)));
    made.push(found.node);
    from = found.end;
    stop = stopAt(text, from);
  }
  if (from < text.length) made.push(words(text.slice(from)));
  return made;
}

/**
 * @param {string} text
 * @param {number} from
 */
function stopAt(text, from) {
  STOPS.lastIndex = from;
  return STOPS.exec(text)?.index ?? -1;
}

/** @param {string} text */
function words(text) {
  return document.createTextNode(prose(text));
}

/**
 * Where a mark is next. What was found is remembered, for whoever asks from a place in between.
 * @param {string} text
 */
function finder(text) {
  /** @type {Map<string, {from: number, found: number}>} */
  const known = new Map();
  return (/** @type {string} */ mark, /** @type {number} */ from) => {
    const last = known.get(mark);
    if (last && last.from <= from && (last.found === -1 || from <= last.found)) return last.found;
    const found = text.indexOf(mark, from);
    known.set(mark, { from, found });
    return found;
  };
}

/** What draws as the number of a source, where a text has it. @param {number} number */
export function sourceMark(number) {
  return `\ufdd0${KEY}${number}\ufdd1`;
}

/** The text without numbers of sources: for code and addresses, in which none can stand. @param {string} text */
export function withoutMarks(text) {
  return text.includes("\ufdd0") ? text.replace(NUMBERS, "") : text;
}

/**
 * @param {string} text
 * @param {number} at
 * @returns {Found | null}
 */
function source(text, at) {
  NUMBERS.lastIndex = at;
  const found = NUMBERS.exec(text);
  if (found?.index !== at) return null;
  return { node: h("sup", { class: "cite", data: { source: found[1] ?? "" } }, `[${found[1]}]`), end: at + found[0].length };
}

/**
 * @param {Place} place
 * @param {number} at
 * @returns {Found | null}
 */
function special(place, at) {
  const { text } = place;
  switch (text[at]) {
    case "\ufdd0":
      return source(text, at);
    case "\n":
      return { node: h("br"), end: at + 1 };
    case "\\":
      return escape(text, at);
    case "`":
      return code(place, at);
    case "!":
      return text[at + 1] === "[" ? link(place, at + 1, true) : null;
    case "[":
      return link(place, at, false);
    case "<":
      return bracketed(place, at);
    case "h":
      return bare(place, at);
  }
  return place.depth < DEEP ? emphasis(place, at) : null;
}

/**
 * @param {string} text
 * @param {number} at
 * @returns {Found | null}
 */
function escape(text, at) {
  const next = text[at + 1] ?? "";
  if (next === "\n") return { node: h("br"), end: at + 2 };
  return ESCAPED.test(next) ? { node: document.createTextNode(next), end: at + 2 } : null;
}

/**
 * @param {Place} place
 * @param {number} at
 * @returns {Found | null}
 */
function code({ text, next }, at) {
  let end = at;
  while (text[end] === "`") end++;
  const mark = text.slice(at, end);
  if (mark.length > 8) return null;
  let close = next(mark, end);
  while (close !== -1 && text[close + mark.length] === "`") {
    let after = close;
    while (text[after] === "`") after++;
    close = next(mark, after);
  }
  if (close === -1) return null;
  const inner = withoutMarks(text.slice(end, close)).replaceAll("\n", " ").replace(/^ (.*[^ ].*) $/, "$1");
  return { node: h("code", null, visible(inner)), end: close + mark.length };
}

/**
 * @param {Place} place
 * @param {number} at
 * @returns {Found | null}
 */
function emphasis(place, at) {
  const { text } = place;
  const mark = MARKS.find((one) => text.startsWith(one, at));
  if (!mark) return null;
  const begin = at + mark.length;
  if (/\s/.test(text[begin] ?? " ")) return null;
  if (mark.startsWith("_") && WORD.test(text[at - 1] ?? "")) return null;
  const close = closing(place, mark, begin);
  if (close === -1) return null;
  const inner = inline(text.slice(begin, close), place.depth + 1, place.linked);
  return { node: /** @type {(inner: Node[]) => Node} */ (MARKED[mark])(inner), end: close + mark.length };
}

/**
 * The other end: not after a space, for an underscore not inside of a word, for a single mark not a double one.
 * @param {Place} place
 * @param {string} mark
 * @param {number} begin
 */
function closing({ text, next }, mark, begin) {
  let at = next(mark, begin + 1);
  for (let tries = 0; at !== -1 && tries < TRIES; tries++) {
    const after = text[at + mark.length] ?? "";
    const double = mark.length === 1 && (after === mark || text[at - 1] === mark);
    const inside = mark.startsWith("_") && WORD.test(after);
    if (!double && !inside && !/\s/.test(text[at - 1] ?? " ")) return at;
    at = next(mark, double && after === mark ? at + 2 : at + 1);
  }
  return -1;
}

/**
 * `[words](address "title")`. The words of an image are what it shows.
 * @param {Place} place
 * @param {number} at
 * @param {boolean} image
 * @returns {Found | null}
 */
function link(place, at, image) {
  const { text, next, depth, linked } = place;
  const middle = next("](", at);
  if (linked || middle === -1 || middle - at > ADDRESS || depth >= DEEP) return null;
  const close = next(")", middle);
  if (close === -1 || close - middle > ADDRESS) return null;
  const end = text[close + 1] === ")" && text.slice(middle + 2, close).includes("(") ? close + 1 : close;
  const said = withoutMarks(text.slice(middle + 2, end)).trim().replace(/\s+["'(][^"']*["')]$/, "").replace(/^<(.*)>$/, "$1");
  const label = text.slice(at + 1, middle);
  const url = address(said);
  if (url === null || label.includes("\n\n")) return null;
  const shown = image ? [words(t("shell.link.image", { alt: label || url.hostname }))] : inline(label, depth + 1, true);
  return { node: anchor(url, shown, label), end: end + 1 };
}

/**
 * `<https://…>`; everything else in such brackets is text.
 * @param {Place} place
 * @param {number} at
 * @returns {Found | null}
 */
function bracketed({ text, next, linked }, at) {
  const close = next(">", at);
  if (linked || close === -1 || close - at > ADDRESS) return null;
  const said = withoutMarks(text.slice(at + 1, close));
  const url = /^[a-z]+:\S+$/i.test(said) ? address(said) : null;
  return url === null ? null : { node: anchor(url, [words(said)], said), end: close + 1 };
}

/**
 * An address in the middle of the words. What ends the sentence is not part of it.
 * @param {Place} place
 * @param {number} at
 * @returns {Found | null}
 */
function bare({ text, linked }, at) {
  const said = (/^[^\s<>"`\ufdd0]+/.exec(text.slice(at, at + ADDRESS))?.[0] ?? "").replace(/[.,;:!?'"*_~)\]]+$/, "");
  const url = linked ? null : address(said);
  return url === null ? null : { node: anchor(url, [words(said)], said), end: at + said.length };
}

/**
 * @param {string} said
 * @returns {URL | null}
 */
function address(said) {
  const url = /^(?:https?:\/\/|mailto:)/i.test(said) ? URL.parse(said) : null;
  return url !== null && ["http:", "https:", "mailto:"].includes(url.protocol) ? url : null;
}

/** Words that look like an address: `https://…`, `www.…`, `a@b.example`, `bank.example/login`. */
const NAMES = /https?:\/\/|www\.|^\S+@\S+$|^[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}(?:[/:?#]\S*)?$/iu;

/**
 * Whether words name another place than where the link goes; also by letters that only look like it, or by a name
 * before an `@`.
 * @param {string} label
 * @param {string} where
 */
function misleads(label, where) {
  const said = label.trim().toLowerCase();
  const rest = said.replace(/^(?:https?:\/\/|mailto:)/, "");
  return NAMES.test(said) && !(rest.startsWith(where) && /^(?:$|[/:?#])/.test(rest.slice(where.length)));
}

/**
 * A link that says where it goes, in words too if its own words name another address.
 * @param {URL} url
 * @param {Node[]} shown
 * @param {string} label
 */
function anchor(url, shown, label) {
  const where = url.host || url.pathname;
  const made = h("a", { href: url.href, rel: "noopener noreferrer", target: "_blank", title: visible(url.href) }, shown);
  return misleads(label, where.toLowerCase()) ? h("span", null, made, ` (${visible(where)})`) : made;
}
