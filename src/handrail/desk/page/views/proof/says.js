/** What an entry says, in words for people: taken from the leaf that was verified, never from what the node adds. */

import { visible } from "../../text.js";
import { count, duration, t } from "../../words.js";
import { spoken } from "../parts.js";
import { text } from "./verify.js";

/**
 * @typedef {Record<string, any>} Leaf
 * @typedef {Map<string, string>} Words Who gave which word: request → by.
 */

const LONG = 60;

/** @type {Record<string, (leaf: Leaf, words: Words) => string>} */
const SAYS = {
  "run.started": (leaf) => t("proof.e.run.started", { principal: who(leaf.principal) }),
  "run.resumed": (leaf) => t("proof.e.run.resumed", { principal: who(leaf.principal) }),
  "run.finished": (leaf) => t("proof.e.run.finished", { reason: spoken(`proof.ended.${text(leaf.reason)}`, shown(leaf.reason)) }),
  "tools.offered": (leaf) => count(leaf.tools?.length ?? 0, "proof.e.tools.offered"),
  "conversation.changed": (leaf) =>
    t(leaf.keep ? "proof.e.conversation.changed.kept" : "proof.e.conversation.changed", { keep: leaf.keep ?? 0 }),
  "reply.given": (leaf) => t("proof.e.reply.given", { model: shown(leaf.model) }),
  "reply.failed": (leaf) => t("proof.e.reply.failed", { model: shown(leaf.model), error: shown(leaf.error) }),
  "confirmation.requested": () => t("proof.e.confirmation.requested"),
  "confirmation.answered": (leaf) => t(`proof.e.confirmation.${decided(leaf)}`, { by: shown(leaf.by) }),
  "call.asked": () => t("proof.e.call.asked"),
  "call.intended": (leaf, words) => {
    const by = words.get(text(leaf.grant));
    return by === undefined ? t("proof.e.call.intended") : t("proof.e.call.intended.by", { by: shown(by) });
  },
  "call.settled": (leaf) =>
    leaf.ran === false ? t("proof.e.call.settled.unrun") : t("proof.e.call.settled", { took: duration(leaf.duration_us ?? 0) }),
  "call.amended": (leaf) => t(leaf.why === "late" ? "proof.e.call.amended.late" : "proof.e.call.amended.person"),
};

/**
 * @param {Leaf} leaf
 * @param {Words} words
 */
export function says(leaf, words) {
  const said = Object.hasOwn(SAYS, leaf.type) ? SAYS[leaf.type] : null;
  return said ? said(leaf, words) : t("proof.e.other", { type: shown(leaf.type) });
}

/**
 * Remembers whose word it is, for the calls that follow.
 *
 * @param {Leaf} leaf
 * @param {Words} words
 */
export function remember(leaf, words) {
  if (leaf.type === "confirmation.answered" && leaf.decision === "allow") words.set(text(leaf.request), text(leaf.by));
}

/** A name, or the beginning of a key. @param {unknown} principal */
function who(principal) {
  const said = text(principal);
  return visible(said.length > 28 ? `${said.slice(0, 24)}…` : said) || "–";
}

/** @param {Leaf} leaf */
function decided(leaf) {
  return leaf.decision === "deny" ? "deny" : leaf.edited ? "edited" : "allow";
}

/** What is very long is cut: the leaf has all of it. @param {unknown} value */
function shown(value) {
  const said = text(value);
  return visible(said.length > LONG ? `${said.slice(0, LONG)}…` : said) || "–";
}
