/** Numbers and JSON as a person writes them: read exactly, or not at all. No DOM. */

import { visible } from "../../text.js";
import { t } from "../../words.js";

/**
 * A number as people write it; a comma may stand for the point. `1,000` is two numbers, so it is none.
 * @param {string} written
 */
export function numberIn(written) {
  return /^[-+]?(\d+([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?$/i.test(written) && !/,\d{3}$/.test(written) ? Number(written.replace(",", ".")) : NaN;
}

/**
 * Whether a browser may have made another number of what was written: beyond 2^53 it does not know every one.
 * @param {unknown} value
 */
export function rounded(value) {
  return typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
}

/**
 * A large number with all of its digits, where the browser can send them.
 * @param {string} written
 */
export function exactly(written) {
  const raw = /** @type {{rawJSON?: (text: string) => object}} */ (/** @type {unknown} */ (JSON)).rawJSON;
  return /^-?[1-9]\d*$/.test(written) ? raw?.(written) : undefined;
}

/**
 * JSON that a person wrote.
 * @param {string} text
 * @param {(words: string) => void} wrong Told why it cannot be read, or not without a loss.
 */
export function valueIn(text, wrong) {
  try {
    let lost = false;
    const value = JSON.parse(text, (_, each) => ((lost ||= rounded(each)), each));
    if (lost) wrong(t("tools.form.rounded"));
    return value;
  } catch (error) {
    wrong(noJson(error));
  }
}

/** @param {unknown} error */
export function noJson(error) {
  return `${t("tools.form.no-json")} ${error instanceof Error ? visible(error.message) : ""}`;
}
