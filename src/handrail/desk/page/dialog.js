/**
 * Dialogs, on the browser's own `<dialog>`: it keeps the focus inside, gives it back afterwards, and closes on Esc.
 * A press beside it does nothing: what a person is asked should not vanish by a slip.
 */

import { busy, h, icon } from "./dom.js";
import { newId } from "./ids.js";
import { block } from "./text.js";
import { t } from "./words.js";

/**
 * `run` decides what becomes of the dialog: it closes unless that returns false; what it throws is shown in it.
 * @typedef {object} Action
 * @property {string} label
 * @property {"primary" | "danger" | "quiet"} [kind]
 * @property {() => unknown} [run]
 * @property {boolean} [focus] The one to begin with.
 */

/**
 * @param {object} what
 * @param {string} what.title
 * @param {Node | string | (Node | string)[]} what.body
 * @param {Action[]} [what.actions]
 * @param {() => void} [what.onClose] However it closed.
 * @param {string} [what.class]
 * @returns {{close: () => void, element: HTMLDialogElement, fail: (why: string) => void}}
 */
export function open({ title, body, actions = [], onClose, class: kind = "" }) {
  const id = `dialog-${newId()}`;
  const failed = h("p", { class: "problem", role: "alert", hidden: true });
  const fail = (/** @type {string} */ why) => {
    failed.textContent = block(why);
    failed.hidden = why === "";
  };
  const close = () => made.close();
  const made = h(
    "dialog",
    { class: `dialog ${kind}`.trim(), "aria-labelledby": id },
    h(
      "header",
      null,
      h("h2", { id }, title),
      h("button", { type: "button", class: "icon-button", "aria-label": t("shell.close"), on: { click: close } }, icon("close")),
    ),
    h("div", { class: "dialog-body" }, body, failed),
    actions.length > 0 && h("footer", null, actions.map((action) => button(action, close, fail))),
  );
  made.addEventListener("close", () => {
    made.remove();
    caret();
    onClose?.();
  });
  document.body.append(made);
  made.showModal();
  return { close, element: made, fail };
}

/** Chromium gives the focus back without the caret: who wrote in the dialog could not go on writing where they were. */
function caret() {
  const at = /** @type {HTMLElement | null} */ (document.activeElement);
  if (!at?.matches("textarea, input")) return;
  at.blur();
  at.focus({ preventScroll: true });
}

/**
 * @param {Action} action
 * @param {() => void} close
 * @param {(why: string) => void} fail
 */
function button(action, close, fail) {
  const press = async () => {
    fail("");
    try {
      if ((await action.run?.()) !== false) close();
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
    }
  };
  const props = { type: "button", class: action.kind ?? "", autofocus: action.focus ?? false, on: { click: () => busy(made, press()) } };
  const made = h("button", props, action.label);
  return made;
}

/**
 * A question that is answered yes or no; whoever closes it says no.
 * @param {string} question
 * @param {{title?: string, yes?: string, danger?: boolean}} [how]
 * @returns {Promise<boolean>}
 */
export function confirm(question, { title = question, yes = t("shell.ok"), danger = false } = {}) {
  return new Promise((resolve) => {
    let answer = false;
    open({
      title,
      body: title === question ? "" : h("p", null, block(question)),
      actions: [
        { label: t("shell.cancel"), focus: true },
        { label: yes, kind: danger ? "danger" : "primary", run: () => void (answer = true) },
      ],
      onClose: () => resolve(answer),
      class: "dialog-small",
    });
  });
}
