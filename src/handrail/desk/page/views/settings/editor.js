/** The configuration file as text, with line numbers. */

import { h, replace } from "../../dom.js";
import { t } from "../../words.js";

/**
 * @param {object} how
 * @param {boolean} how.writable
 * @param {() => void} how.typed
 */
export function editor({ writable, typed }) {
  const numbers = h("pre", { class: "line-numbers", "aria-hidden": "true" });
  const text = h("textarea", { id: "config-text", spellcheck: "false", autocomplete: "off", wrap: "off", readonly: !writable, "aria-label": t("settings.file.label") });
  let bad = 0;

  function count() {
    const lines = text.value.split("\n").length;
    const all = Array.from({ length: lines }, (_, at) => [at + 1 === bad ? h("mark", {}, String(bad)) : String(at + 1), "\n"]);
    replace(numbers, ...all);
    text.rows = Math.min(30, Math.max(8, lines + 1));
  }

  text.addEventListener("input", () => (count(), typed()));
  text.addEventListener("scroll", () => (numbers.scrollTop = text.scrollTop));
  return {
    node: h("div", { class: "editor" }, numbers, text),
    read: () => text.value,
    /** @param {string} words */
    write(words) {
      text.value = words;
      count();
    },
    /** @param {number} line That is wrong; 0 is none. */
    mark(line) {
      bad = line;
      count();
    },
    /** @param {boolean} locked While it is on its way, what is typed would be lost. */
    lock(locked) {
      text.readOnly = locked || !writable;
    },
    /** @param {number} line */
    goTo(line) {
      const lines = text.value.split("\n");
      const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      text.focus();
      text.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
    },
  };
}
