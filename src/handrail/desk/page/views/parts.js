/** Small things that the views Tools, Proof, Network and Settings share. */

import { CallError } from "../bus.js";
import { h, replace } from "../dom.js";
import { block } from "../text.js";
import { add, t } from "../words.js";
import * as words from "../words/views.js";

add(words);

/**
 * How a call ended, as a chip: its words say it, the colour only adds to them.
 *
 * @param {string} name
 */
export function outcome(name) {
  const tone = name === "ok" ? "good" : name === "in_doubt" || name === "needs_confirmation" ? "warn" : "bad";
  return h("span", { class: `chip ${tone}` }, outcomeWords(name));
}

/** @param {string} name */
export function outcomeWords(name) {
  return spoken(`views.outcome.${name}`, name);
}

/**
 * The words for something that the node said, if there are any; else what it said.
 *
 * @param {string} key
 * @param {string} said
 */
export function spoken(key, said) {
  const words = t(key);
  return words === key ? block(said) : words;
}

/**
 * What went wrong, for the place where it did.
 *
 * @param {unknown} error
 */
export function failed(error) {
  if (!(error instanceof CallError)) throw error;
  return h("p", { class: "problem", role: "alert" }, block(error.message));
}

/**
 * Fills a place; what goes wrong is said there, with a way to try again.
 *
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} work
 */
export async function loading(place, signal, work) {
  place.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    if (signal.aborted) return;
    const again = h("button", { type: "button", on: { click: () => void loading(place, signal, work) } }, t("views.again"));
    replace(place, failed(error), h("p", {}, again));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/**
 * Calls `act` once nothing more was typed for a while.
 *
 * @param {() => void} act
 * @param {number} ms
 */
export function settled(act, ms) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return {
    touch() {
      clearTimeout(timer);
      timer = setTimeout(act, ms);
    },
    cancel: () => clearTimeout(timer),
  };
}

/** A moment for the browser to paint and to hear the person. */
export function breath() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/**
 * Puts many nodes into a list, a few at a time, so that no task is long.
 *
 * @template T
 * @param {Element} list
 * @param {readonly T[]} items
 * @param {(item: T) => Node} make
 * @param {AbortSignal} signal
 * @param {number} [most] At a time.
 */
export async function fill(list, items, make, signal, most = 25) {
  for (let at = 0; at < items.length && !signal.aborted; at += most) {
    if (at) await breath();
    if (!signal.aborted) list.append(...items.slice(at, at + most).map(make));
  }
}
