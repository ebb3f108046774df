/** A message of a conversation as it is shown: the person's words, the model's, a note, a document. Calls are cards. */

/** @import { ConversationItem, ItemAttachment } from "../../values.js" */

import { busy, h, icon } from "../../dom.js";
import { long, plain, prose, visible } from "../../text.js";
import { moment, number, t, when } from "../../words.js";
import { attachment } from "./attachment.js";
import { failed } from "./list.js";
import { serviceCards } from "./service-call.js";
import { sourceList, toSource, withSourceMarks } from "./sources.js";
import { drawn } from "./streamed.js";

/**
 * @typedef {object} MessageDoings What a message can ask of its conversation.
 * @property {(item: ConversationItem) => void} edit
 * @property {(item: ConversationItem) => void} undo
 * @property {(item: ConversationItem) => void} fork
 * @property {(item: ConversationItem) => void} copy
 * @property {() => void} again
 * @property {(index: number) => Promise<string>} whole
 * @property {(index: number, part: number) => Promise<import("../../values.js").FileDownload>} attachment
 */

const FOLDED = 30;

/** @type {Record<string, (item: ConversationItem, doings: MessageDoings, words: HTMLElement | null) => HTMLElement>} */
const KINDS = { user: said, assistant: replied, supervisor: noted, document: given };

/**
 * @param {ConversationItem} item
 * @param {MessageDoings} doings
 * @param {HTMLElement | null} [all] Its words, where they are drawn already.
 */
export function message(item, doings, all = null) {
  return KINDS[item.kind]?.(item, doings, all) ?? noted(item, doings);
}

/** @param {ConversationItem} item @param {MessageDoings} doings */
function said(item, doings) {
  const text = item.text?.text ?? "";
  const whole = item.text?.whole;
  const words = whole ? long(text, whole, () => doings.whole(item.index), FOLDED) : h("p", { class: "said" }, prose(text));
  const actions = h(
    "div",
    { class: "message-actions" },
    action("edit", "chat.edit", () => doings.edit(item)),
    action("undo", "chat.undo", () => doings.undo(item)),
    action("fork", "chat.fork", () => doings.fork(item)),
  );
  return h(
    "article",
    { class: "message said-by-person", "aria-label": t("chat.you") },
    h("header", { class: "message-head" }, h("h2", { class: "who" }, t("chat.you")), at(item), actions),
    text ? words : null,
    attached(item, doings),
  );
}

/** @param {ConversationItem} item @param {MessageDoings} doings @param {HTMLElement | null} all */
function replied(item, doings, all) {
  const text = item.text?.text ?? "";
  return h(
    "article",
    { class: "message said-by-model", "aria-label": t("chat.model"), on: { click: toSource } },
    h("h2", { class: "unseen" }, t("chat.model")),
    serviceCards(item.service_calls ?? []),
    text ? (all ?? words(item, doings)) : null,
    attached(item, doings, true),
    sourceList(item.sources ?? [], item.more_sources ?? 0),
    text
      ? h(
          "div",
          { class: "message-actions" },
          action("copy", "chat.copy", () => doings.copy(item)),
          h("span", { class: "only-last" }, action("reload", "chat.again", () => doings.again())),
          h("span", { class: "meta" }, figures(item)),
        )
      : null,
  );
}

/** What the model wrote; of something very long its beginning, and all of it when that is wanted.
 * @param {ConversationItem} item @param {MessageDoings} doings */
function words({ index, text, marks = [] }, doings) {
  const box = h("div", null, drawn(withSourceMarks(text?.text ?? "", marks)));
  const all = async () => {
    const whole = await doings.whole(index).catch(failed("chat.failed"));
    if (whole !== null) box.replaceChildren(drawn(withSourceMarks(whole, marks)));
  };
  const more = h("button", { type: "button", class: "quiet more", on: { click: () => busy(more, all()) } }, t("shell.long.more"));
  if (text?.whole) box.append(more);
  return box;
}

/** @param {ConversationItem} item @param {MessageDoings} doings */
function noted(item, doings) {
  const text = item.text?.text ?? "";
  const label = t(item.kind === "supervisor" ? "chat.supervisor" : "chat.note");
  const words = h("p", null, h("strong", null, label), " ", plain(text));
  return h("article", { class: "message note", "aria-label": label }, words, attached(item, doings));
}

/** @param {ConversationItem} item @param {MessageDoings} doings */
function given(item, doings) {
  const text = item.text?.text ?? "";
  const fold = h("details", { class: "document" }, h("summary", null, t("chat.document"), " ", h("code", null, visible(item.name || "–"))));
  const open = () => fold.childElementCount === 1 && fold.append(long(text, item.text?.whole ?? 0, () => doings.whole(item.index)));
  fold.addEventListener("toggle", open);
  return h("article", { class: "message note", "aria-label": t("chat.document") }, fold, attached(item, doings));
}

/** @param {ConversationItem} item */
function at(item) {
  const ms = item.at || NaN;
  const date = new Date(ms); // a file may claim a moment that no date can name
  return Number.isNaN(date.getTime()) ? null : h("time", { datetime: date.toISOString(), title: moment(ms) }, when(ms));
}

/** Who answered, with how many tokens, for how much. @param {ConversationItem} item */
function figures({ model, tokens, cost }) {
  const parts = [model && visible(model)];
  if (tokens?.some(Boolean)) parts.push(t("chat.tokens", { read: tokens[0], wrote: tokens[1] }));
  if (cost) parts.push(number(cost, { style: "currency", currency: "USD", maximumSignificantDigits: 2 }));
  return parts.filter(Boolean).join(" · ");
}

/** @param {ConversationItem} item @param {MessageDoings} doings @param {boolean} [made] Whether the model made them. */
function attached(item, doings, made = false) {
  /** @param {ItemAttachment} part @param {number} at */
  const one = (part, at) => h("li", null, attachment(part, () => doings.attachment(item.index, at)));
  const label = t(made ? "chat.made" : "chat.attached");
  return item.parts?.length ? h("ul", { class: made ? "attachments made" : "attachments", "aria-label": label }, item.parts.map(one)) : null;
}

/**
 * @param {Parameters<typeof icon>[0]} drawn
 * @param {string} key
 * @param {() => void} click
 */
function action(drawn, key, click) {
  return h("button", { type: "button", class: "quiet small", on: { click } }, icon(drawn), h("span", null, t(key)));
}
