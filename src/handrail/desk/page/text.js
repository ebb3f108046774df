/**
 * Text of unknown origin as people may safely see it: what could deceive a reader is written as an escape, what is very
 * long is shown piece by piece. The rules are those of handrail/core/visible.py, and a test holds the two together.
 */

import { busy, h } from "./dom.js";
import { count, t } from "./words.js";

/** Control, format (bidi, zero width), surrogate, private, unassigned, other line breaks; and letters that show nothing. */
const UNSEEN =
  "[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164" +
  "\\ufe00-\\ufe0f\\uffa0\\u{e0100}-\\u{e01ef}]";
const PICTURE = "(?!\\p{Cn})\\p{Extended_Pictographic}(?:\\ufe0f|\\p{Emoji_Modifier})?";
/** A picture letter is drawn as one although it is written with joiners; each of them is where it belongs. */
const EMOJI = `[0-9#*]\\ufe0f\\u20e3|${PICTURE}(?:\\u200d${PICTURE})*`;
const LOOKED_AT = new RegExp(UNSEEN, "gu");
const LOOKED_AT_IN_PROSE = new RegExp(`${EMOJI}|${UNSEEN}`, "gu");
const UNSEEN_ALONE = new RegExp(`^${UNSEEN}$`, "u");
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Of a text that unfolds. */
const FOLDED = 12;
const LINES = 200;
const LETTERS = 16_000;

/**
 * The text with everything that could deceive a reader written as an escape, but the letters of `keep`.
 * @param {string} text
 * @param {string} [keep]
 * @returns {string}
 */
export function visible(text, keep = "") {
  return text.replace(LOOKED_AT, (letter) => (keep.includes(letter) ? letter : escaped(letter)));
}

/**
 * Text of several lines, made safe line by line.
 * @param {string} text
 * @returns {string}
 */
export function block(text) {
  return visible(text.replaceAll("\r\n", "\n"), "\n\t");
}

/**
 * As `block`, for what people write to be read: emoji stay what they are.
 * @param {string} text
 * @returns {string}
 */
export function prose(text) {
  return text.replaceAll("\r\n", "\n").replace(LOOKED_AT_IN_PROSE, (found) => {
    return found === "\n" || found === "\t" || !UNSEEN_ALONE.test(found) ? found : escaped(found);
  });
}

/** @param {string} letter */
function escaped(letter) {
  const short = SHORT[/** @type {keyof typeof SHORT} */ (letter)];
  if (short) return short;
  const code = /** @type {number} */ (letter.codePointAt(0));
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
}

/**
 * @param {number} code
 * @param {number} digits
 */
function hex(code, digits) {
  return code.toString(16).padStart(digits, "0");
}

/**
 * A short text as a node: its lines and spaces stay as they are.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function plain(text) {
  return h("span", { class: "plain" }, block(text));
}

/**
 * A text that may be very long: its beginning, and the rest in pieces as the person asks for them, so that never more
 * than some 200 lines are laid out at once.
 * @param {string} text
 * @param {number} [whole] Characters of all of it, where `text` is only its beginning.
 * @param {(() => Promise<string>) | null} [more] Gets all of it.
 * @param {number} [folded] Lines that are shown at first.
 * @returns {HTMLElement}
 */
export function long(text, whole = 0, more = null, folded = FOLDED) {
  const shown = h("div", { class: "long" });
  let all = text.replaceAll("\r\n", "\n");
  let fetched = whole === 0 || more === null;
  let at = 0;

  /** @param {number} lines */
  function add(lines) {
    const end = piece(all, at, lines);
    shown.append(h("pre", { class: "piece" }, block(all.slice(at, end))));
    at = all[end] === "\n" ? end + 1 : end;
  }
  /** Whether all of it is there. */
  async function fetchAll() {
    try {
      all = (await more?.() ?? all).replaceAll("\r\n", "\n");
      return true;
    } catch (error) {
      shown.after(h("p", { class: "problem", role: "alert" }, block(error instanceof Error ? error.message : String(error))));
      return false;
    }
  }
  async function unfold() {
    box.querySelector(".problem")?.remove();
    if (at >= all.length && !fetched) fetched = await fetchAll();
    if (at < all.length) add(LINES);
    button.hidden = at >= all.length && fetched;
    button.textContent = label();
  }
  function label() {
    return fetched ? count(linesLeft(all, at), "shell.long.lines") : t("shell.long.more");
  }

  add(folded);
  const button = h("button", { type: "button", class: "quiet more", on: { click: () => busy(button, unfold()) } }, label());
  button.hidden = at >= all.length && fetched;
  const box = h("div", { class: "long-box" }, shown, button);
  return box;
}

/**
 * Where a piece ends that begins at `at`: after so many lines, or so many letters of one that does not end.
 * @param {string} text
 * @param {number} at
 * @param {number} lines
 * @returns {number}
 */
export function piece(text, at, lines) {
  const most = Math.min(text.length, at + LETTERS);
  let end = at;
  for (let n = 0; n < lines && end < most; n++) {
    const next = text.indexOf("\n", n ? end + 1 : end);
    end = next === -1 || next > most ? most : next;
  }
  // A letter of two halves stays whole.
  return end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? "") && end - 1 > at ? end - 1 : end;
}

/**
 * @param {string} text
 * @param {number} at
 */
function linesLeft(text, at) {
  let n = 1;
  for (let next = text.indexOf("\n", at); next !== -1 && n < 100_000; next = text.indexOf("\n", next + 1)) n++;
  return n;
}

const PIECES = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const DEEPEST = 40;
/** Letters that are spread over lines; with more it would be felt. */
const SPREAD = 200_000;

/**
 * JSON over several lines, each piece of it as it was written.
 * @param {string} text
 */
function spread(text) {
  /** @type {string[]} */
  const made = [];
  let depth = 0;
  let opened = false;
  const line = () => made.push("\n", "  ".repeat(Math.min(Math.max(depth, 0), DEEPEST)));
  for (const [piece] of text.matchAll(PIECES)) {
    const closes = piece === "}" || piece === "]";
    if (closes) depth--;
    if (opened !== closes) line();
    opened = piece === "{" || piece === "[";
    if (opened) depth++;
    made.push(piece === ":" ? ": " : piece);
    if (piece === ",") line();
  }
  return made.join("");
}

const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * A JSON value, spread over lines and coloured lightly; a very long one is text that unfolds.
 * @param {unknown} value
 * @returns {HTMLElement}
 */
export function json(value) {
  return jsonText(JSON.stringify(value, null, 2) ?? "null");
}

/**
 * As `json`, of a text. It is not read, so that each number keeps its digits and each name is there.
 * @param {string} written
 * @returns {HTMLElement}
 */
export function jsonText(written) {
  const text = written.length > SPREAD ? written : spread(written);
  if (text.length > LETTERS) return long(text, 0, null, 40);
  /** @type {(Node | string)[]} */
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    parts.push(text.slice(at, found.index));
    const [whole, string, colon] = found;
    if (string === undefined) parts.push(h("span", { class: "j-n" }, whole));
    else parts.push(h("span", { class: colon === undefined ? "j-s" : "j-k" }, visible(string)), colon ?? "");
    at = found.index + whole.length;
  }
  return h("pre", { class: "json" }, parts, text.slice(at));
}
