/** Text for the clipboard of the person. */

import { h } from "./dom.js";
import { alert, say } from "./toast.js";
import { t } from "./words.js";

/**
 * Copies it, and says so; or that it could not be.
 * @param {string} text
 */
export async function copy(text) {
  const done = await written(text).catch(() => false);
  if (done) say(t("shell.copied"));
  else alert({ title: t("shell.copied.not") });
}

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function written(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true);
  // Over plain HTTP from another machine there is none; this is how it was done before.
  const field = h("textarea", { class: "unseen", "aria-hidden": "true" });
  const back = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (back instanceof HTMLElement) back.focus();
  return done;
}
