/** Markdown that is still being written, or is long: finished blocks stay as they are, only the last one is made anew. */

import { h, replace } from "../../dom.js";
import { LONGEST, markdown, noOutline } from "../../markdown.js";

const FENCE = /^ {0,3}(```+|~~~+)/;
const GOES_ON = /^(\s|[-*+>|]|\d+[.)])/;
/** Letters that are drawn at once. */
const PIECE = 8_000;

/**
 * Where in the text a block begins whose predecessors cannot change any more. A line that may belong to the list,
 * quote or table before it begins none.
 * @param {string} text @param {number} from A place that was found before, or 0.
 */
export function settled(text, from) {
  let at = from;
  let fence = "";
  let blank = false;
  let found = from;
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    if (end < 0) break;
    const line = text.slice(at, end);
    const mark = FENCE.exec(line)?.[1];
    if (!fence && blank && line.trim() && !GOES_ON.test(line)) found = at;
    if (mark && !fence) fence = mark;
    else if (mark?.startsWith(fence) && !line.trim().slice(mark.length)) fence = "";
    blank = !line.trim();
    at = end + 1;
  }
  return found;
}

/**
 * A text that has ended. A long one is drawn in pieces, a frame for each, and looks the same.
 * @param {string} text
 */
export function drawn(text) {
  const node = h("div", { class: "prose" });
  const outline = noOutline();
  let from = 0;
  function more() {
    let end = text.length > LONGEST ? text.length : from;
    for (let most = PIECE; end === from && from + most < text.length; most *= 2) end = settled(text.slice(0, from + most), from);
    if (end === from) end = text.length;
    node.append(markdown(text.slice(from, end), outline));
    from = end;
    if (from < text.length) requestAnimationFrame(more);
  }
  more();
  return node;
}

/**
 * A node for a text that grows. It is drawn once a frame at most, and less often when drawing takes long.
 */
export function streamed() {
  const done = h("div", { class: "streamed-done" });
  const last = h("div", { class: "streamed-last" });
  const node = h("div", { class: "prose streamed" }, done, last);
  let text = "";
  let upto = 0;
  let outline = noOutline();
  let waiting = false;
  let pause = 0;

  function draw() {
    waiting = false;
    const before = performance.now();
    const end = settled(text, upto);
    if (end > upto) done.append(markdown(text.slice(upto, end), outline));
    upto = end;
    replace(last, markdown(text.slice(upto), { open: outline.open }));
    pause = (performance.now() - before) * 4;
  }

  function soon() {
    if (waiting) return;
    waiting = true;
    if (pause > 16) setTimeout(() => requestAnimationFrame(draw), pause);
    else requestAnimationFrame(draw);
  }

  return {
    node,
    /** @param {string} whole All that was written so far. */
    set(whole) {
      if (whole === text) return;
      if (!whole.startsWith(text)) {
        upto = 0;
        outline = noOutline();
        replace(done);
      }
      text = whole;
      soon();
    },
  };
}
