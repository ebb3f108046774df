/** A question with one line for an answer. */

import { open } from "../../dialog.js";
import { h } from "../../dom.js";
import { t } from "../../words.js";

/**
 * @param {string} title
 * @param {string} label
 * @param {string} value
 * @returns {Promise<string | null>} null if the person thought better of it.
 */
export function prompt(title, label, value) {
  return new Promise((resolve) => {
    const field = h("input", { type: "text", value, maxlength: "200", autocomplete: "off", autofocus: true });
    /** @type {string | null} */
    let answer = null;
    /** @param {Event} event */
    const submit = (event) => {
      event.preventDefault();
      answer = field.value.trim() || null;
      shown.close();
    };
    const buttons = h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, t("shell.ok")));
    const body = h("form", { class: "word-form", on: { submit } }, h("label", null, label, field), buttons);
    const shown = open({ title, body, class: "dialog-small", onClose: () => resolve(answer) });
    field.select();
  });
}
