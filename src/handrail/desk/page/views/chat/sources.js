/** What a reply cites: numbers in its text, and the list of sources below it. A link says where it leads. */

/** @import { FootnoteMark, FootnoteSource } from "../../values.js" */

import { h } from "../../dom.js";
import { sourceMark } from "../../inline.js";
import { visible } from "../../text.js";
import { count, t } from "../../words.js";

/** The text with the numbers of its sources, as `drawn` draws them. @param {string} text @param {FootnoteMark[]} marks */
export function withSourceMarks(text, marks) {
  const pieces = [];
  let before = 0;
  for (const { at, number } of marks) {
    if (at > text.length) break;
    pieces.push(text.slice(before, at), sourceMark(number));
    before = at;
  }
  return [...pieces, text.slice(before)].join("");
}

/** @param {FootnoteSource[]} sources @param {number} more How many are not listed. */
export function sourceList(sources, more) {
  if (!sources.length) return null;
  return h(
    "section",
    { class: "sources", "aria-label": t("chat.sources") },
    h("h3", null, t("chat.sources")),
    h("ol", null, sources.map(one)),
    more ? h("p", { class: "meta" }, count(more, "chat.sources.more")) : null,
  );
}

/** From a number in a reply to its source in the list, where a link has the focus then. @param {MouseEvent} event */
export function toSource(event) {
  const mark = event.target instanceof Element ? event.target.closest("sup.cite") : null;
  if (!(mark instanceof HTMLElement)) return;
  const found = mark.closest("article")?.querySelector(`.sources li[value="${Number(mark.dataset["source"])}"]`);
  found?.scrollIntoView({ block: "nearest" });
  found?.querySelector("a")?.focus();
}

/** @param {FootnoteSource} source */
function one({ number, title = "", url = "", host = "", quote = "" }) {
  const address = host ? webAddress(url) : null;
  const words = visible(title.trim() || (address ? address.host + address.pathname : url) || t("chat.sources.untitled"));
  return h(
    "li",
    { value: number },
    address ? h("a", { href: address.href, rel: "noopener noreferrer", target: "_blank", title: visible(address.href) }, words) : h("span", null, words),
    address ? [" ", h("span", { class: "meta" }, visible(address.host))] : null,
    url && !address && title.trim() ? [" ", h("span", { class: "meta" }, visible(url))] : null,
    quote ? h("q", null, visible(quote)) : null,
  );
}

/** An address of http or https; null for anything else, which stays text. @param {string} url */
function webAddress(url) {
  const found = /^https?:\/\//i.test(url.trim()) ? URL.parse(url.trim()) : null;
  return found && ["http:", "https:"].includes(found.protocol) && found.host ? found : null;
}
