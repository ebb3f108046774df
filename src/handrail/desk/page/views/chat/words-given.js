/** What a person may add to their word: a reason, a rule for the next time, other arguments. */

/** @import { DeskQuestion, RuleOffer } from "../../values.js" */
/** @import { Word } from "./question.js" */

import { h } from "../../dom.js";
import { visible } from "../../text.js";
import { add, t } from "../../words.js";

/** @typedef {(word: Word, button: HTMLButtonElement) => void} Give */

/** No, and why. @param {Give} give */
export function denied(give) {
  const reason = h("input", { type: "text", autocomplete: "off", maxlength: "2000" });
  const go = h("button", { type: "submit", class: "danger" }, t("chat.ask.deny.now"));
  const run = () => give({ decision: "deny", ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) }, go);
  return form(run, h("label", null, t("chat.ask.reason"), reason), go);
}

/** Yes, now and whenever a rule says so. @param {DeskQuestion} question @param {Give} give */
export function standing(question, give) {
  /** @param {RuleOffer} offer @param {number} at */
  const one = (offer, at) =>
    h(
      "div",
      { class: "rule" },
      h("label", null, h("input", { type: "radio", name: "rule", value: offer.rule, checked: at === 0 }), h("span", null, sentence(offer))),
      h("details", { class: "rule-text" }, h("summary", null, t("chat.ask.rule.text")), h("code", null, visible(offer.rule))),
    );
  const choices = h("fieldset", { class: "rules" }, h("legend", null, t("chat.ask.rules")), (question.offers ?? []).map(one));
  const go = h("button", { type: "submit", class: "primary" }, t("chat.ask.always.now"));
  const chosen = () => choices.querySelector("input:checked")?.getAttribute("value") ?? "";
  return form(() => give({ decision: "always", rule: chosen() }, go), choices, h("p", { class: "meta" }, t("chat.ask.rules.where")), go);
}

/** Which tool, which values. For how long stands below all of them. @param {RuleOffer} offer */
function sentence(offer) {
  const { tool, values, free = [] } = { ...offer, values: valuesOf(offer) };
  const rest = values && free.length ? [" ", t("chat.ask.rule.free", { names: free.map((name) => visible(name)).join(", ") })] : [];
  return [t(values ? "chat.ask.rule.with" : "chat.ask.rule.any", { tool: visible(tool), values }), ...rest].join("");
}

/** The same as the words of a button, which leads to all rules that are offered. @param {RuleOffer} offer */
export function alwaysSentence(offer) {
  const values = valuesOf(offer);
  return t(values ? "chat.ask.always.with" : "chat.ask.always.any", { tool: visible(offer.tool), values });
}

/** @param {RuleOffer} offer */
function valuesOf({ values = [] }) {
  return values
    .map(({ name, value, inside }) => t(inside ? "chat.ask.rule.inside" : "chat.ask.rule.is", { name: visible(name), value: visible(value) }))
    .join(t("chat.ask.rule.and"));
}

/** Yes, but so. @param {DeskQuestion} question @param {Give} give */
export function edited(question, give) {
  const text = h("textarea", { class: "json-edit", spellcheck: "false", rows: "8", autocomplete: "off" });
  text.value = question.written ?? "{}";
  const wrong = h("p", { class: "problem", role: "alert", hidden: true });
  const go = h("button", { type: "submit", class: "primary" }, t("chat.ask.edit.now"));
  const run = () => {
    const problem = problemOf(text.value);
    wrong.hidden = !problem;
    wrong.textContent = problem;
    if (!problem) give({ decision: "edit", arguments: text.value }, go);
  };
  return form(run, h("label", null, t("chat.ask.json"), text), wrong, fields(question.input_schema), go);
}

/**
 * What a server asks for, in a form. Few ask, so what makes forms is loaded only then.
 * @param {Record<string, any>} schema @param {Record<string, any>} given @param {Give} give
 */
export function filled(schema, given, give) {
  const place = h("div");
  const go = h("button", { type: "submit", class: "primary", disabled: true }, t("chat.ask.fill.now"));
  /** @type {() => Record<string, any> | null} */
  let read = () => null;
  const run = () => {
    const values = read();
    if (values) give({ decision: "edit", arguments: JSON.stringify(values) }, go);
  };
  Promise.all([import("../tools/form.js"), import("../../words/tools.js")]).then(
    ([{ schemaForm }, words]) => {
      add(words);
      const made = schemaForm(schema, { given });
      read = made.read;
      place.replaceChildren(made.node);
      go.disabled = false;
    },
    (error) => place.replaceChildren(h("p", { class: "problem" }, t("shell.view.failed", { why: visible(String(error)) }))),
  );
  return form(run, place, go);
}

/** @param {() => void} run @param {...(Node | null)} parts */
function form(run, ...parts) {
  return h("form", { class: "word-form", on: { submit: (/** @type {Event} */ event) => (event.preventDefault(), run()) } }, parts);
}

/** Why it is no object in JSON, or "". What it says is read by the node. @param {string} text */
function problemOf(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? "" : t("chat.ask.object");
  } catch (error) {
    return t("chat.ask.no-json", { why: visible(/** @type {Error} */ (error).message) });
  }
}

/** What may be written, in a line for each. @param {Record<string, any> | undefined} schema */
function fields(schema) {
  const properties = Object.entries(schema?.["properties"] ?? {});
  const required = new Set(Array.isArray(schema?.["required"]) ? schema["required"] : []);
  /** @param {[string, any]} entry */
  const line = ([name, about]) => {
    const kinds = [about?.type ?? (Array.isArray(about?.enum) ? about.enum.join(" | ") : ""), required.has(name) && t("chat.ask.required")].flat().filter(Boolean);
    const kind = h("span", { class: "meta" }, visible(kinds.join(", ")));
    return [h("dt", null, h("code", null, visible(name)), " ", kind), h("dd", null, visible(String(about?.description ?? "")))];
  };
  if (!properties.length) return null;
  return h("details", { class: "schema" }, h("summary", null, t("chat.ask.schema")), h("dl", null, properties.map(line).flat()));
}
