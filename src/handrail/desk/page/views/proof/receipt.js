/** A receipt from a file, checked: it needs nothing of the node but this page. */

import { h, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { moment, t } from "../../words.js";
import { outcomeWords } from "../parts.js";
import { momentOf, recorded } from "./entry.js";
import { parseNote } from "./signed.js";
import { trusted } from "./trust.js";
import { Bad, checkReceipt, parseObject, text, unable } from "./verify.js";

/** More than any receipt has. */
const MOST = 32_000_000;

/**
 * @param {HTMLElement} place Where a file may be dropped.
 * @param {AbortSignal} signal
 */
export function receiptBox(place, signal) {
  const answer = h("div", { "aria-live": "polite" });
  const chosen = h("input", { type: "file", accept: ".json,application/json", id: "receipt-file", class: "unseen", on: { change: () => void take(chosen.files) } });
  const button = h("button", { type: "button", on: { click: () => chosen.click() } }, t("proof.receipt.choose"));
  chosen.tabIndex = -1;
  const box = h(
    "section",
    { class: "receipt-box", "aria-labelledby": "receipt-title" },
    h("h2", { id: "receipt-title" }, t("proof.receipt.check")),
    h("p", { class: "muted" }, t("proof.receipt.drop")),
    h("p", {}, button, h("label", { for: "receipt-file", class: "unseen" }, t("proof.receipt.choose")), chosen),
    answer,
  );

  /** @param {FileList | null | undefined} files */
  async function take(files) {
    const file = files?.[0];
    if (!file) return;
    replace(answer, await checked(file));
    chosen.value = "";
  }

  place.addEventListener("dragover", (event) => (event.preventDefault(), box.classList.add("over")), { signal });
  place.addEventListener("dragleave", () => box.classList.remove("over"), { signal });
  place.addEventListener(
    "drop",
    (event) => {
      event.preventDefault();
      box.classList.remove("over");
      void take(event.dataTransfer?.files);
    },
    { signal },
  );
  return box;
}

/** @param {File} file */
async function checked(file) {
  const cannot = await unable();
  if (cannot) return told(false, [t("proof.sum.cannot"), t(`proof.sum.${cannot}`)], null);
  try {
    if (file.size > MOST) throw new Bad("no-receipt");
    return await good(read(await file.text().catch(unreadable)));
  } catch (error) {
    if (!(error instanceof Bad)) throw error;
    return told(false, [t(`proof.bad.${error.code}`, error.params)], null);
  }
}

/** A folder, or a file that went away. @returns {never} */
function unreadable() {
  throw new Bad("no-receipt");
}

/**
 * @param {string} written
 * @returns {import("./verify.js").Receipt}
 */
function read(written) {
  let found;
  try {
    found = parseObject(written);
  } catch {
    throw new Bad("no-receipt");
  }
  const whole = typeof found["checkpoint"] === "string" && typeof found["leaf"] === "string" && Array.isArray(found["proof"]);
  if (!whole) throw new Bad("no-receipt");
  return /** @type {any} */ (found);
}

/** @param {import("./verify.js").Receipt} receipt */
async function good(receipt) {
  const held = trusted(parseNote(receipt.checkpoint).origin);
  const { leaf, note, body } = await checkReceipt(receipt, held?.key);
  const says = t("proof.receipt.says", {
    tool: visible(text(leaf["tool"])),
    outcome: outcomeWords(text(leaf["outcome"]) || "in_doubt"),
    when: moment(momentOf(leaf["at"])),
    index: receipt.index,
    origin: visible(note.origin),
  });
  const key = held ? t("proof.receipt.key.trusted") : t("proof.receipt.key.own", { key: visible(receipt.verifier_key) });
  const shown = body === "fits" && receipt.body ? recorded(receipt.body) : null;
  return told(true, [says, t(`proof.receipt.body.${body}`), key], shown);
}

/**
 * @param {boolean} fine
 * @param {string[]} words
 * @param {HTMLElement | null} shown
 */
function told(fine, words, shown) {
  return h(
    "div",
    { class: "summary", data: { mark: fine ? "good" : "bad" } },
    h("p", { class: "verdict" }, t(fine ? "proof.receipt.good" : "proof.receipt.bad")),
    words.map((line) => h("p", { class: "anywhere" }, line)),
    shown,
  );
}
