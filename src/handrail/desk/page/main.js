/** Where the page begins: words, a token, and then the shell. */

import { h, replace } from "./dom.js";
import { logo } from "./header.js";
import { inline } from "./inline.js";
import { shell } from "./shell.js";
import { prose } from "./text.js";
import { arrived, begin, give } from "./token.js";
import { add, language, t } from "./words.js";
import * as words from "./words/shell.js";

/** @param {string} id */
function part(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * The field for a token, over everything, until there is one.
 * @param {string} why What the node said of the last one.
 */
function askForToken(why) {
  const typed = { type: "password", autocomplete: "off", spellcheck: "false", required: true };
  const field = h("input", { id: "token", name: "token", ...typed, "aria-describedby": "token-why" });
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    const pasted = tokenIn(field.value);
    if (pasted) give(pasted);
  };
  const form = h(
    "form",
    { class: "token", on: { submit: go } },
    logo(),
    h("h1", { id: "token-title" }, t("shell.token.title")),
    h("p", { id: "token-why" }, inline(t("shell.token.why"))),
    h("label", { for: "token" }, t("shell.token.field")),
    field,
    why && h("p", { class: "problem", role: "alert" }, t("shell.token.refused", { why: prose(why) })),
    h("button", { class: "primary" }, t("shell.token.go")),
  );
  const stay = (/** @type {Event} */ event) => event.preventDefault();
  const dialog = h("dialog", { class: "gate", "aria-labelledby": "token-title", on: { cancel: stay } }, form);
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  void arrived().then(() => dialog.remove());
}

/**
 * The token alone, or the whole address that `handrail serve` printed.
 * @param {string} pasted
 */
function tokenIn(pasted) {
  return pasted.trim().replace(/^.*#token=/, "");
}

async function start() {
  add(words);
  document.documentElement.lang = language();
  await begin(askForToken);
  await shell(part("top"), part("main"));
}

start().catch((error) => {
  const why = error instanceof Error ? error.message : String(error);
  const again = h("button", { type: "button", on: { click: () => location.reload() } }, t("shell.view.again"));
  replace(part("main"), h("div", { class: "notice", role: "alert" }, h("p", null, prose(why)), again));
});
