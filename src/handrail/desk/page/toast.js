/**
 * Short notices. An alert has a place of its own above the view, where it covers nothing, stays until somebody has dealt
 * with it and is read out at once; what is only said goes away by itself.
 */

import { h, icon, unfocused } from "./dom.js";
import { prose } from "./text.js";
import { t } from "./words.js";

/** @typedef {{label: string, run: () => void}} ToastAction */

const STAYS = 5_000;

/** @param {"alerts" | "said"} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * @param {object} what
 * @param {string} what.title
 * @param {string} [what.text]
 * @param {ToastAction[]} [what.actions]
 * @param {string} [what.key] An alert with the same key takes the place of this one.
 * @param {"failed" | "asks" | "told"} [what.tone] Whether something went wrong, waits, or is only to be known.
 * @returns {{close: () => void, where: (title: string) => void}} `where` names the conversation that it is about.
 */
export function alert({ title, text = "", actions = [], key = "", tone = "failed" }) {
  if (key) dismiss(key);
  const close = () => {
    made.remove();
    if (unfocused()) document.getElementById("main")?.focus({ preventScroll: true });
  };
  const button = (/** @type {ToastAction} */ action) =>
    h("button", { type: "button", on: { click: () => (close(), action.run()) } }, action.label);
  const place = h("span", { class: "toast-where" });
  const made = h(
    "div",
    { class: `toast-alert toast-${tone}`, role: "alert", data: { key } },
    icon(tone === "told" ? "undo" : "alert"),
    h("div", { class: "toast-words" }, h("p", null, h("strong", null, prose(title)), place), text && h("p", null, prose(text))),
    actions.length > 0 && h("div", { class: "row" }, actions.map(button)),
    h("button", { type: "button", class: "icon-button", "aria-label": t("shell.dismiss"), on: { click: close } }, icon("close")),
  );
  byId("alerts").append(made);
  return { close, where: (talk) => void (place.textContent = talk ? t("shell.alert.in", { title: prose(talk) }) : "") };
}

/**
 * The alert is dealt with.
 * @param {string} key
 */
export function dismiss(key) {
  for (const old of byId("alerts").children) if (old instanceof HTMLElement && old.dataset.key === key) old.remove();
}

/** @param {string} text */
export function say(text) {
  const made = h("div", { class: "toast" }, prose(text));
  byId("said").replaceChildren(made);
  setTimeout(() => made.remove(), STAYS);
}
