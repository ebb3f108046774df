/** A call that the service of the model ran itself, as a card of its own kind: nothing here ran it, or could have refused it. */

/** @import { ShownServiceCall } from "../../values.js" */

import { h, replace } from "../../dom.js";
import { json, jsonText, long, visible } from "../../text.js";
import { t } from "../../words.js";
import { argumentLine } from "./card.js";

/** @param {ShownServiceCall[]} calls */
export function serviceCards(calls) {
  return calls.map(card);
}

/** @param {ShownServiceCall} call */
function card(call) {
  const name = visible(call.name);
  const state = t(call.failed ? "chat.service.failed" : "chat.service.done");
  const body = h("div", { class: "card-body" });
  const fold = h(
    "details",
    { class: "card-fold", on: { toggle: () => fold.open && replace(body, inside(call)) } },
    h(
      "summary",
      { class: "card-head" },
      h("span", { class: "card-mark", "aria-hidden": "true" }),
      h("code", { class: "card-name" }, name),
      h("span", { class: "card-says" }, argumentLine(call.arguments)),
      h("span", { class: "chip" }, t("chat.service")),
      h("span", { class: "card-state" }, state),
    ),
    body,
  );
  const label = `${name}: ${t("chat.service")}, ${state}`;
  return h("article", { class: "tool-card service-card", data: { state: call.failed ? "failed" : "ok" }, "aria-label": label }, fold);
}

/** @param {ShownServiceCall} call */
function inside({ arguments: given, written, result }) {
  const said = given === undefined || given === null ? null : written ? jsonText(written) : typeof given === "string" ? long(given) : json(given);
  return [
    h("h3", null, t("chat.card.arguments")),
    said ?? h("p", { class: "card-note" }, t("chat.service.no-arguments")),
    h("h3", null, t("chat.card.result")),
    result ? long(result.text) : h("p", { class: "card-note" }, t("chat.service.no-result")),
    result?.whole ? h("p", { class: "card-note" }, t("chat.card.clipped", { whole: result.whole })) : null,
    h("p", { class: "card-note" }, t("chat.service.note")),
  ];
}
