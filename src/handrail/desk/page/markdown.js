/**
 * Markdown as a model writes it, made into elements of a short list and nothing else. What is not understood is text.
 *
 * HTML in it is text. A link goes to http, https or mail, elsewhere, and says where; an image is a link. It takes time in
 * proportion to the text, whatever the text is.
 */

import { copy } from "./copy.js";
import { fill, h } from "./dom.js";
import { inline, withoutMarks } from "./inline.js";
import { block, long, prose } from "./text.js";
import { t } from "./words.js";

/** Deeper than this, lists and quotes are text. Longer than this, all of it is. */
const DEEP = 6;
export const LONGEST = 400_000;
const LONG_CODE = 16_000;
/** Letters after which the next line of a paragraph, or item of a list, begins another one: to the eye it is the same, to the browser less at once. */
const LONG_BLOCK = 4_000;
/** Cells of a table that are shown at once. */
const LONG_TABLE = 900;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const HEADINGS = /** @type {const} */ (["h1", "h2", "h3", "h4", "h5", "h6"]);
/** What stands above the words of a message. */
const ABOVE = 2;

/**
 * The headings that the next one may stand under, each by its marks. So none is more than one deeper than the one
 * before it, whatever the model writes, and what has the same marks has the same level.
 * @typedef {{open: number[]}} Outline
 */
/** A list or a table that has begun, and how it goes on: with an item or a row, or null. @typedef {{body: Element, next: () => Node | null}} Begun */
/**
 * @typedef {object} Reader
 * @property {string[]} lines
 * @property {number} at
 * @property {number} depth
 * @property {Outline} outline
 * @property {Begun | null} begun
 * @property {number} cut Where a paragraph or a list goes on that became too long.
 * @property {number} letters Of the list that has begun.
 * @property {number} count Of its next item, or rows of the table.
 */

/**
 * @param {string} text
 * @returns {DocumentFragment}
 */
export function markdown(text) {
  const made = text.length > LONGEST ? [long(text)] : blocks(text.replaceAll("\r\n", "\n").split("\n"), 0, { open: [] });
  return fill(document.createDocumentFragment(), made);
}

/**
 * Who reads these lines, from the first on; more of them may come.
 * @param {string[]} lines
 * @param {number} [depth]
 * @param {Outline} [outline]
 * @returns {Reader}
 */
export function reading(lines, depth = 0, outline = { open: [] }) {
  return { lines, at: 0, depth, outline, begun: null, cut: -1, letters: 0, count: 0 };
}

/**
 * Draw what is next: a block, or an item or row of the one that has begun. Whether it ends where it does follows from the
 * lines up to the second of what comes after it.
 * @param {Reader} reader
 * @param {() => Element | DocumentFragment} into Where a block goes.
 * @returns {Node | null} Null at the end.
 */
export function step(reader, into) {
  const more = reader.begun?.next();
  if (more) return reader.begun?.body.appendChild(more) ?? null;
  reader.begun = null;
  reader.at = wordsAt(reader);
  const line = reader.lines[reader.at];
  if (line === undefined) return null;
  return into().appendChild(BLOCKS.find(([begins]) => begins(line, reader))?.[1](reader) ?? paragraph(reader));
}

/** The next line that is not empty. @param {Reader} reader */
export function wordsAt({ lines, at }) {
  while (lines[at]?.trim() === "") at++;
  return at;
}

/**
 * @param {string[]} lines
 * @param {number} depth
 * @param {Outline} outline
 * @returns {Node[]}
 */
function blocks(lines, depth, outline) {
  const read = reading(lines, depth, outline);
  const made = document.createDocumentFragment();
  while (step(read, () => made));
  return [...made.childNodes];
}

/** @type {[(line: string, reader: Reader) => boolean, (reader: Reader) => Node][]} */
const BLOCKS = [
  [(line) => FENCE.test(line), fence],
  [(line) => HEADING.test(line), heading],
  [(line) => RULE.test(line), rule],
  [(line, { depth }) => depth < DEEP && QUOTE.test(line), quote],
  [(line, { depth }) => depth < DEEP && ITEM.test(line), list],
  [(_, reader) => isTable(reader), table],
];

/** @param {Reader} reader */
function fence(reader) {
  const [, mark = "", language = ""] = FENCE.exec(reader.lines[reader.at] ?? "") ?? [];
  const begin = ++reader.at;
  while (reader.at < reader.lines.length && !closes(reader.lines[reader.at] ?? "", mark)) reader.at++;
  return code(withoutMarks(reader.lines.slice(begin, reader.at++).join("\n")), withoutMarks(language));
}

/**
 * @param {string} line
 * @param {string} mark
 */
function closes(line, mark) {
  const said = line.trim();
  return said.startsWith(mark) && said.replaceAll(mark.charAt(0), "") === "";
}

/**
 * Code, with a button that copies what is shown.
 * @param {string} text
 * @param {string} language
 */
export function code(text, language = "") {
  const button = h("button", { type: "button", class: "quiet copy", on: { click: () => void copy(block(text)) } }, t("shell.copy"));
  const shown = text.length > LONG_CODE ? long(text, 0, null, 40) : h("pre", { tabindex: "0" }, h("code", null, block(text)));
  return h("div", { class: "code" }, h("div", { class: "code-head" }, h("span", null, prose(language.slice(0, 30))), button), shown);
}

/** @param {Reader} reader */
function heading(reader) {
  const [, marks = "#", text = ""] = HEADING.exec(reader.lines[reader.at++] ?? "") ?? [];
  const { outline } = reader;
  outline.open = [...outline.open.filter((above) => above < marks.length), marks.length];
  return h(HEADINGS[ABOVE + outline.open.length - 1] ?? "h6", null, inline(text.replace(/[ \t]#+[ \t]*$/, "").trim()));
}

/** @param {Reader} reader */
function rule(reader) {
  reader.at++;
  return h("hr");
}

/** @param {Reader} reader */
function quote(reader) {
  const inner = [];
  while (reader.at < reader.lines.length && QUOTE.test(reader.lines[reader.at] ?? "")) {
    inner.push((reader.lines[reader.at++] ?? "").replace(QUOTE, ""));
  }
  return h("blockquote", null, blocks(inner, reader.depth + 1, reader.outline));
}

/** @param {Reader} reader */
function list(reader) {
  const [, , first = "-"] = ITEM.exec(reader.lines[reader.at] ?? "") ?? [];
  const goesOn = reader.cut === reader.at;
  const says = { class: goesOn ? "goes-on" : null };
  if (!goesOn) reader.count = Number.parseInt(first, 10);
  reader.letters = 0;
  const made = /\d/.test(first) ? h("ol", { start: reader.count, ...says }) : h("ul", says);
  const next = () => {
    const found = sameList(reader, first);
    const full = reader.letters > LONG_BLOCK;
    if (found && full) reader.cut = reader.at;
    return found && !full ? item(reader, found) : null;
  };
  reader.begun = { body: made, next };
  return made;
}

/**
 * The next item, if the next line that is not empty begins one of the same kind.
 * @param {Reader} reader
 * @param {string} first
 */
function sameList(reader, first) {
  const at = wordsAt(reader);
  const line = reader.lines[at] ?? "";
  const found = RULE.test(line) ? null : ITEM.exec(line);
  if (!found || found[2]?.slice(-1) !== first.slice(-1)) return null;
  reader.at = at;
  return found;
}

/**
 * @param {Reader} reader
 * @param {RegExpExecArray} found
 */
function item(reader, found) {
  const indent = (found[1]?.length ?? 0) + 2;
  const from = reader.at;
  const inner = [(reader.lines[reader.at++] ?? "").slice(found[0].length)];
  while (reader.at < reader.lines.length && belongs(reader, indent)) {
    inner.push(unindented(reader.lines[reader.at++] ?? "", found[0].length));
  }
  reader.count++;
  for (let at = from; at < reader.at; at++) reader.letters += reader.lines[at]?.length ?? 0;
  const task = /^\[([ xX])\][ \t]+/.exec(inner[0] ?? "");
  if (task) inner[0] = `${task[1] === " " ? "☐" : "☑"} ${(inner[0] ?? "").slice(task[0].length)}`;
  return h("li", { class: task ? "task" : null }, tight(blocks(inner, reader.depth + 1, reader.outline)));
}

/**
 * Whether the line goes on with the item: indented, or the next words of its paragraph, or empty before such.
 * @param {Reader} reader
 * @param {number} indent
 */
function belongs(reader, indent) {
  const line = reader.lines[reader.at] ?? "";
  const space = line.length - line.trimStart().length;
  if (line.trim() !== "") return space >= indent || (reader.lines[reader.at - 1]?.trim() !== "" && !startsBlock(line));
  const next = reader.lines[reader.at + 1] ?? "";
  return next.trim() !== "" && next.length - next.trimStart().length >= indent;
}

/**
 * @param {string} line
 * @param {number} most
 */
function unindented(line, most) {
  const space = line.length - line.trimStart().length;
  return line.slice(Math.min(space, most));
}

/**
 * An item of one paragraph needs none.
 * @param {Node[]} made
 */
function tight(made) {
  const [first, ...rest] = made;
  const inline = first instanceof HTMLParagraphElement && rest.every((node) => !(node instanceof HTMLParagraphElement));
  return inline ? [...first.childNodes, ...rest] : made;
}

/** @param {string} line */
function startsBlock(line) {
  return [FENCE, HEADING, RULE, QUOTE, ITEM].some((begins) => begins.test(line));
}

/** @param {Reader} reader */
function paragraph(reader) {
  const begin = reader.at++;
  const goesOn = reader.cut === begin;
  let letters = reader.lines[begin]?.length ?? 0;
  while (reader.at < reader.lines.length) {
    const line = reader.lines[reader.at] ?? "";
    if (line.trim() === "" || (startsBlock(line) && reader.depth < DEEP) || isTable(reader)) break;
    if (letters > LONG_BLOCK) {
      reader.cut = reader.at;
      break;
    }
    letters += line.length;
    reader.at++;
  }
  return h("p", { class: goesOn ? "goes-on" : null }, inline(reader.lines.slice(begin, reader.at).map((line) => line.trimStart()).join("\n")));
}

/** @param {Reader} reader */
function isTable(reader) {
  const line = reader.lines[reader.at] ?? "";
  const under = reader.lines[reader.at + 1] ?? "";
  if (!line.includes("|") || !/^[\s|:-]+$/.test(under) || !under.includes("-")) return false;
  const marks = cells(under);
  return marks.length === cells(line).length && marks.every((mark) => /^:?-+:?$/.test(mark));
}

/** @param {string} line */
function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** @param {Reader} reader */
function table(reader) {
  const head = cells(reader.lines[reader.at] ?? "");
  const sides = cells(reader.lines[reader.at + 1] ?? "").map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "mid" : "num") : ""));
  reader.at += 2;
  reader.count = 0;
  const top = h("tr", null, head.map((cell, n) => h("th", { scope: "col", class: sides[n] || null }, inline(cell))));
  const body = h("tbody");
  const whole = h("table", null, h("thead", null, top), body);
  const made = h("div", { class: "wide", tabindex: "0" }, whole);
  const most = Math.max(1, Math.floor(LONG_TABLE / head.length));
  const next = () => {
    if (!reader.lines[reader.at]?.includes("|")) return null;
    begun.body = whole.tBodies[Math.floor(reader.count++ / most)] ?? folded(made, whole);
    const row = cells(reader.lines[reader.at++] ?? "");
    return h("tr", null, head.map((_, n) => h("td", { class: sides[n] || null }, inline(row[n] ?? ""))));
  };
  /** @type {Begun} */
  const begun = { body, next };
  reader.begun = begun;
  return made;
}

/**
 * A place for more rows, folded: the browser lays out every row that is seen whenever one comes.
 * @param {HTMLElement} made
 * @param {HTMLTableElement} whole
 */
function folded(made, whole) {
  if (made.lastElementChild === whole) made.append(unfolder(whole));
  return whole.appendChild(h("tbody", { hidden: true }));
}

/** A button that unfolds more rows, until it has unfolded all. @param {HTMLTableElement} whole */
function unfolder(whole) {
  const unfold = () => {
    const [next, ...rest] = [...whole.tBodies].filter((each) => each.hidden);
    if (next) next.hidden = false;
    if (!rest.length) button.remove();
  };
  const button = h("button", { type: "button", class: "quiet more", on: { click: unfold } }, t("shell.long.more"));
  return button;
}
