/** What the checks came to: in a sentence, with what it proves, what it does not, and the key that it hangs on. */

import { h, icon, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, moment, t } from "../../words.js";
import { trust } from "./trust.js";

/**
 * @typedef {import("./verify.js").Problem} Problem
 * @typedef {object} Tally
 * @property {number} all Entries of the run.
 * @property {number} done Checked so far.
 * @property {{n: number, problem: Problem, node?: HTMLElement}[]} wrong `node` is where it is shown.
 * @property {Problem[]} signature What is wrong with a checkpoint.
 * @property {number} erased
 * @property {number} unseen
 * @property {boolean} finished
 */

const PROVES = ["proof.sum.proves.1", "proof.sum.proves.2", "proof.sum.proves.3"];
const NOT = ["proof.sum.not.1", "proof.sum.not.2", "proof.sum.not.3", "proof.sum.not.4"];
const SHOWN = 10;

export function summary() {
  const title = h("p", { class: "verdict", role: "status" });
  const inside = h("div", {});
  const node = h("section", { class: "summary", "aria-label": t("proof.sum.proves") }, title, inside);

  /**
   * @param {"wait" | "good" | "bad" | "open"} tone
   * @param {string} words
   */
  function verdict(tone, words) {
    node.dataset["mark"] = tone;
    const shown = tone === "good" ? icon("proof") : tone === "wait" ? null : icon("alert");
    // A status is read out when it changes: the same words again are no change.
    if (title.dataset["says"] !== words) replace(title, shown, h("span", {}, words));
    title.dataset["says"] = words;
  }

  return {
    node,
    /** @param {"insecure" | "no-ed25519"} why */
    cannot(why) {
      verdict("open", t("proof.sum.cannot"));
      replace(inside, h("p", {}, t(`proof.sum.${why}`)));
    },
    /** @param {Tally} tally */
    checking(tally) {
      verdict("wait", t("proof.sum.checking", { done: tally.done, all: entries(tally.all) }));
    },
    /** @param {Tally} tally */
    done(tally) {
      const [tone, words] = concluded(tally);
      verdict(tone, words);
      replace(inside, ...(tone === "bad" ? wrongs(tally) : proven(tally)));
    },
  };
}

/**
 * @param {Tally} tally
 * @returns {["good" | "bad", string]}
 */
function concluded(tally) {
  const all = entries(tally.all);
  if (tally.signature.length) return ["bad", t("proof.sum.unsigned")];
  if (tally.wrong.length) return ["bad", t("proof.sum.bad", { n: new Set(tally.wrong.map(({ n }) => n)).size, all })];
  return ["good", tally.finished ? t("proof.sum.whole", { all }) : t("proof.sum.good", { n: tally.done, all })];
}

/** @param {number} n */
function entries(n) {
  return count(n, "proof.entries");
}

/** @param {Tally} tally */
function wrongs(tally) {
  const signature = tally.signature.map(({ code, params }) => t(`proof.bad.${code}`, params));
  const found = tally.wrong.slice(0, SHOWN).map(({ n, problem, node }) => {
    const words = t("proof.sum.first", { n, why: t(`proof.bad.${problem.code}`, problem.params) });
    return node ? h("button", { type: "button", class: "quiet", on: { click: () => goTo(node) } }, words) : words;
  });
  return [h("ul", { class: "problems" }, [...new Set(signature), ...found].map((words) => h("li", { class: "problem" }, words)))];
}

/** @param {HTMLElement} entry */
function goTo(entry) {
  entry.scrollIntoView({ block: "center" });
  entry.querySelector("summary")?.focus();
}

/** @param {Tally} tally */
function proven(tally) {
  const proves = tally.finished ? PROVES : PROVES.map((key) => (key === "proof.sum.proves.2" ? `${key}part` : key));
  return [
    tally.erased ? h("p", {}, count(tally.erased, "proof.sum.erased")) : null,
    tally.unseen ? h("p", {}, count(tally.unseen, "proof.sum.unseen")) : null,
    h(
      "div",
      { class: "proves" },
      h("div", {}, h("h2", {}, t("proof.sum.proves")), h("ul", {}, proves.map((key) => h("li", {}, t(key))))),
      h("div", {}, h("h2", {}, t("proof.sum.not")), h("ul", {}, NOT.map((key) => h("li", {}, t(key))))),
    ),
  ];
}

/**
 * Which key signed it, and how to know whose it is.
 *
 * @param {string} origin
 * @param {string} key
 * @param {import("./trust.js").Trusted | undefined} held
 * @param {() => void} again The person changed what they trust: check anew.
 */
export function keyBox(origin, key, held, again) {
  const same = held?.key === key;
  const words = held === undefined ? t("proof.key.own") : same ? t("proof.key.trusted", { when: moment(held.at) }) : t("proof.key.other");
  /** @param {string | null} value */
  const set = (value) => () => (trust(origin, value), again());
  const button = held === undefined
    ? h("button", { type: "button", on: { click: set(key) } }, t("proof.key.trust"))
    : h("button", { type: "button", class: "quiet", on: { click: set(null) } }, t("proof.key.forget"));
  return h(
    "section",
    { class: "key-box", "aria-label": t("proof.key"), data: { mark: held === undefined ? "open" : same ? "good" : "bad" } },
    h("h2", {}, t("proof.key")),
    h("p", {}, h("code", { class: "hash" }, visible(key))),
    h("p", {}, words),
    held === undefined ? h("pre", { class: "command" }, "handrail proof checkpoint") : null,
    button,
  );
}
