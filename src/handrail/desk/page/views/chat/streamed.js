/**
 * Markdown that is still being written, or is long. It is drawn for a few milliseconds a frame, block by block; what
 * cannot change any more stays as it is, and only the last blocks are made anew as they grow.
 */

/** @import { Reader } from "../../markdown.js" */

import { h, replace } from "../../dom.js";
import { LONGEST, reading, step, wordsAt } from "../../markdown.js";
import { long } from "../../text.js";

/** Milliseconds of a frame for drawing; to lay out what was drawn takes the browser some times as many. */
const PIECE_MS = 4;
const FRAME_MS = 16;
/** Letters after which a part is whole: the browser passes over such a part while it is far from the screen. */
const PART = 6_000;
/** What has room below it: after anything else no part ends, so that it is not seen where one does. */
const SPACED = "p, ul, ol, blockquote, .code";

/** A text that has ended. @param {string} text */
export function drawn(text) {
  if (text.length > LONGEST) return h("div", { class: "prose" }, long(text));
  const made = streamed();
  made.set(text);
  made.end();
  return made.node;
}

/** A node for a text that grows. */
export function streamed() {
  const node = h("div", { class: "prose" });
  let text = "";
  let read = reading([""]);
  let part = h("div", { class: "part" });
  let letters = 0;
  /** Where everything before is drawn for good. */
  let kept = mark(read);
  /** What is drawn after that. @type {Node[]} */
  let loose = [];
  let ended = false;
  let waiting = false;
  /** How often it was drawn: a frame that was asked for before then comes too late. */
  let times = 0;
  let pause = 0;

  function draw() {
    waiting = false;
    times++;
    const begun = performance.now();
    for (const one of loose) one.parentNode?.removeChild(one);
    loose = [];
    const { open, ...where } = kept;
    Object.assign(read, where, { outline: { open } });
    let more = true;
    // Time is up only where all is drawn for good, or the next frame would begin where this one did.
    while (more && (loose.length || performance.now() - begun < PIECE_MS)) more = next();
    pause = (performance.now() - begun) * 4;
    if (more) soon(0);
  }
  /** Whether there was anything. */
  function next() {
    const made = step(read, place);
    if (!made) return false;
    loose.push(made);
    // The last line may not be whole yet, and where a block ends is known two lines later.
    if (ended || wordsAt(read) + 1 < read.lines.length - 1) settle();
    return true;
  }
  function settle() {
    for (let at = kept.at; at < read.at; at++) letters += read.lines[at]?.length ?? 0;
    [kept, loose] = [mark(read), []];
  }
  /** Where the next block goes: in another part, if this one has enough. */
  function place() {
    if (letters < PART || !part.lastElementChild?.matches(SPACED)) return part;
    part.classList.add("whole", ...(read.cut === read.at ? ["mid-words"] : []));
    part = node.appendChild(h("div", { class: "part" }));
    letters = 0;
    return part;
  }
  /** @param {number} wait */
  function soon(wait) {
    if (waiting) return;
    waiting = true;
    const asked = times;
    const frame = () => asked === times && draw();
    if (wait > FRAME_MS) setTimeout(() => requestAnimationFrame(frame), wait);
    else requestAnimationFrame(frame);
  }
  function anew() {
    [text, read, loose, letters] = ["", reading([""]), [], 0];
    kept = mark(read);
    part = h("div", { class: "part" });
    replace(node, part);
  }

  anew();
  return {
    node,
    text: () => text,
    /** @param {string} whole All that was written so far. */
    set(whole) {
      if (whole === text) return;
      if (!whole.startsWith(text)) anew();
      grow(read.lines, whole.slice(text.length));
      text = whole;
      soon(pause);
    },
    /** Nothing more is written: what can be is drawn at once. */
    end() {
      ended = true;
      draw();
    },
  };
}

/** @param {Reader} read */
function mark({ outline, lines, ...place }) {
  return { ...place, open: outline.open };
}

/** @param {string[]} lines @param {string} piece */
function grow(lines, piece) {
  const [first = "", ...rest] = piece.split("\n");
  lines.push((lines.pop() ?? "") + first);
  for (const line of rest) lines.push((lines.pop() ?? "").replace(/\r$/, ""), line);
}
