/**
 * A call that waits for a person's word, with exactly what will run. Nothing is allowed by accident: nothing that is
 * focused when it opens does anything, and a key counts only where nobody writes, and only once nobody has typed for a
 * moment: who writes while the dialog opens says nothing by their next letter.
 */

/** @import { DeskQuestion } from "../../values.js" */

import { busy, h } from "../../dom.js";
import { open } from "../../dialog.js";
import { block, jsonText, visible } from "../../text.js";
import { singleKeys } from "../../kept.js";
import { count, t } from "../../words.js";
import { alwaysSentence, denied, edited, filled, standing } from "./words-given.js";

/** That moment, in milliseconds. */
const CALM = 400;

/**
 * @typedef {object} Word What a person decides.
 * @property {"allow" | "always" | "deny" | "edit"} decision
 * @property {string} [arguments] As JSON: the node reads them, so that no number is rounded and no name is lost.
 * @property {string} [reason]
 * @property {string} [rule]
 */

/**
 * One question as a dialog.
 * @param {DeskQuestion} question
 * @param {number} waiting How many more wait behind it.
 * @param {(word: Word) => Promise<void>} decide Fails with the reasons if the word cannot be taken.
 * @param {() => void} onClose
 */
export function ask(question, waiting, decide, onClose) {
  const trouble = h("p", { class: "problem", role: "alert", hidden: true });
  const panel = h("div", { class: "word-panel" });

  /** @param {Word} word @param {HTMLButtonElement} button */
  async function give(word, button) {
    trouble.hidden = true;
    try {
      await busy(button, decide(word));
    } catch (error) {
      trouble.textContent = block(/** @type {Error} */ (error).message);
      trouble.hidden = false;
    }
  }
  /** @param {HTMLElement} made */
  function turnTo(made) {
    trouble.hidden = true;
    panel.replaceChildren(made);
    /** @type {HTMLElement | null} */ (made.querySelector("textarea, input"))?.focus();
  }

  const asked = question.form ? filled(question.form, question.arguments, give) : null;
  const allow = asked || question.unseen ? null : choice("primary", t("chat.ask.allow"), "a", (button) => give({ decision: "allow" }, button));
  const deny = choice("danger", t("chat.ask.deny"), "d", (button) => give({ decision: "deny" }, button));
  const edit = asked || !question.conversation ? null : choice("", t("chat.ask.edit"), "e", () => turnTo(edited(question, give)));
  const refuse = choice("quiet", t("chat.ask.deny.why"), "r", () => turnTo(denied(give)));
  const first = asked ? undefined : question.offers?.[0];
  const always = first ? choice("quiet always", alwaysSentence(first), "", () => turnTo(standing(question, give))) : null;
  const later = h("button", { type: "button", class: "quiet", on: { click: () => shown.close() } }, t("chat.ask.later"));
  const keys = { a: allow, d: deny, e: edit, r: refuse };
  const focused = { role: "group", tabindex: "0", autofocus: true, "aria-labelledby": "question-arguments" };
  const body = h(
    "div",
    { class: "question", data: { request: question.request } },
    h("p", { class: "question-says" }, block(question.description)),
    question.why ? h("p", { class: "question-why" }, visible(question.why)) : null,
    h("h3", { id: "question-arguments" }, t(asked ? "chat.ask.asked" : "chat.ask.runs", { tool: visible(question.tool) })),
    h("div", { class: asked ? "question-form" : "question-arguments", ...focused }, asked ?? jsonText(question.written ?? "{}")),
    question.unseen ? h("p", { class: "problem" }, visible(question.unseen)) : null,
    waiting ? h("p", { class: "meta" }, count(waiting, "chat.ask.more")) : null,
    h("div", { class: "row choices-row" }, allow, deny, edit, h("span", { class: "spring" }), later),
    h("div", { class: "row choices-more" }, always, refuse),
    panel,
    trouble,
  );
  const title = t(asked ? "chat.ask.form" : "chat.ask.title", { tool: visible(question.tool) });
  const counts = calm(body);
  body.addEventListener("keydown", (event) => counts() && pressed(event, keys));
  const shown = open({ title, body, onClose, class: "question-dialog" });
  return shown;
}

/**
 * @param {string} kind How the button looks.
 * @param {string} says
 * @param {string} letter That does the same.
 * @param {(button: HTMLButtonElement) => void} then
 */
function choice(kind, says, letter, then) {
  const hint = letter ? h("kbd", { "aria-hidden": "true" }, letter) : null;
  const keys = letter ? { "aria-keyshortcuts": letter } : {};
  const made = h("button", { type: "button", class: kind, ...keys, on: { click: () => then(made) } }, h("span", null, says), hint);
  return made;
}

/** Whether a key counts yet: not before a pause, and each that comes too early makes it longer. @param {HTMLElement} body */
function calm(body) {
  let timer = 0;
  const wait = () => {
    clearTimeout(timer);
    body.dataset["keys"] = "wait";
    timer = setTimeout(() => void (body.dataset["keys"] = "on"), CALM);
  };
  wait();
  return () => body.dataset["keys"] === "on" || wait();
}

/** @param {KeyboardEvent} event @param {Record<string, HTMLButtonElement | null>} keys */
function pressed(event, keys) {
  const writes = /** @type {Element} */ (event.target).closest("input, textarea, select");
  if (writes || !singleKeys() || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const button = keys[event.key];
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
}
