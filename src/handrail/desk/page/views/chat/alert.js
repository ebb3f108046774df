/** A tool or a turn failed: said at the place, at once, with every way to go on. */

/** @import { Alert } from "../../values.js" */
/** @import { Talk } from "./state.js" */

import { busy, h, icon, replace } from "../../dom.js";
import { block, visible } from "../../text.js";
import { t } from "../../words.js";
import { putOff, underWay } from "./state.js";

/**
 * @typedef {object} AlertDoings
 * @property {(alert: Alert) => Promise<void>} undo
 * @property {(alert: Alert) => Promise<void>} edit
 * @property {() => Promise<void>} again
 * @property {() => Promise<void>} dismiss
 */

/** @param {Alert} alert */
export function heading(alert) {
  return t(`chat.alert.${alert.kind}`, { tool: visible(alert.tool ?? "") });
}

/** @param {AlertDoings} doings */
export function banner(doings) {
  const node = h("section", { class: "alert-banner", "aria-label": t("chat.alert"), hidden: true });
  let shown = "";
  return {
    node,
    /** @param {Talk} talk */
    set(talk) {
      const alert = talk.alert;
      const now = alert ? `${alert.id} ${underWay(talk)}` : putOff(talk) ? "put off" : "";
      if (now === shown) return;
      shown = now;
      node.hidden = !now;
      node.dataset["alert"] = alert?.id ?? "";
      node.classList.toggle("calm", !alert);
      replace(node, ...(alert ? said(alert, underWay(talk), doings) : now ? left(doings) : []));
    },
  };
}

/**
 * @param {Alert} alert
 * @param {boolean} working The model goes on all the same.
 * @param {AlertDoings} doings
 */
function said(alert, working, doings) {
  /** @type {[string, Parameters<typeof icon>[0], () => Promise<void>][]} */
  const ways = [
    ["chat.alert.undo", "undo", () => doings.undo(alert)],
    ["chat.alert.edit", "edit", () => doings.edit(alert)],
    ["chat.alert.again", "reload", () => doings.again()],
    ["chat.alert.dismiss", "close", () => doings.dismiss()],
  ];
  const open = ways.filter(([key]) => !(working && key === "chat.alert.again"));
  return [
    h("h3", null, icon("alert"), heading(alert), alert.code && alert.code !== alert.outcome ? [" ", h("code", null, visible(alert.code))] : null),
    h("p", { class: "alert-words" }, block(alert.message)),
    h("p", { class: "meta" }, t(working ? "chat.alert.going" : "chat.alert.stays")),
    h("div", { class: "row" }, open.map(([key, drawn, run]) => button(key, drawn, run))),
  ];
}

/** Calls were put off: going on takes them up again. @param {AlertDoings} doings */
function left(doings) {
  const again = button("chat.alert.again", "reload", doings.again);
  return [h("p", { class: "alert-words" }, t("chat.alert.left")), h("div", { class: "row" }, again)];
}

/**
 * @param {string} key
 * @param {Parameters<typeof icon>[0]} drawn
 * @param {() => Promise<void>} run
 */
function button(key, drawn, run) {
  const made = h("button", { type: "button", class: "small", on: { click: () => busy(made, run()) } }, icon(drawn), t(key));
  return made;
}
