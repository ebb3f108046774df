/**
 * Short notices at the edge of the page. An alert stays until somebody has dealt with it and is read out at once; what
 * is only said goes away by itself.
 */

import { h, icon, unfocused } from "./dom.js";
import { prose } from "./text.js";
import { t } from "./words.js";

/** @typedef {{label: string, run: () => void}} ToastAction */

const STAYS = 5_000;

/** @param {"alerts" | "said"} id */
function place(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * @param {object} what
 * @param {string} what.title
 * @param {string} [what.text]
 * @param {ToastAction[]} [what.actions]
 * @param {string} [what.key] An alert with the same key takes the place of this one.
 * @returns {{close: () => void}}
 */
export function alert({ title, text = "", actions = [], key = "" }) {
  if (key) dismiss(key);
  const close = () => {
    made.remove();
    if (unfocused()) document.getElementById("main")?.focus({ preventScroll: true });
  };
  const button = (/** @type {ToastAction} */ action) =>
    h("button", { type: "button", on: { click: () => (close(), action.run()) } }, action.label);
  const made = h(
    "div",
    { class: "toast toast-alert", role: "alert", data: { key } },
    icon("alert"),
    h(
      "div",
      { class: "toast-words" },
      h("strong", null, prose(title)),
      text && h("p", null, prose(text)),
      actions.length > 0 && h("div", { class: "row" }, actions.map(button)),
    ),
    h("button", { type: "button", class: "icon-button", "aria-label": t("shell.dismiss"), on: { click: close } }, icon("close")),
  );
  place("alerts").append(made);
  return { close };
}

/**
 * The alert is dealt with.
 * @param {string} key
 */
export function dismiss(key) {
  for (const old of place("alerts").querySelectorAll(".toast")) if (old instanceof HTMLElement && old.dataset.key === key) old.remove();
}

/** @param {string} text */
export function say(text) {
  const made = h("div", { class: "toast" }, prose(text));
  place("said").replaceChildren(made);
  setTimeout(() => made.remove(), STAYS);
}
