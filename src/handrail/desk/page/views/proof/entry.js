/** One entry of the timeline: a line with its mark, and what is behind it when it is opened. */

import { ask } from "../../bus.js";
import { busy, h, replace, save } from "../../dom.js";
import { block, jsonText, visible } from "../../text.js";
import { say } from "../../toast.js";
import { count, moment, size, t } from "../../words.js";
import { failed, outcome } from "../parts.js";
import { remember, says } from "./says.js";
import { hex, leafHash } from "./signed.js";
import { Bad, checkBody, text } from "./verify.js";

/**
 * @typedef {import("../../values.js").EntryRow} EntryRow
 * @typedef {import("./verify.js").Finding} Finding
 * @typedef {"wait" | "good" | "bad" | "open"} Mark
 * @typedef {{node: HTMLElement, found: (finding: Finding) => void, unproven: () => void}} Line
 */

const SIGNS = { wait: "○", good: "✓", bad: "✗", open: "–" };
const CALLS = new Set(["call.settled", "call.amended", "call.intended"]);
/** The last moment that a date can name. */
const LAST = 8.64e15;

/**
 * @param {string} run
 * @param {EntryRow} row
 * @param {import("./says.js").Words} words Whose word it was, of the entries before.
 * @param {(finding: Finding) => void} later A long body of an entry that holds was fetched: what is known of it now.
 * @returns {Line}
 */
export function entryLine(run, row, words, later) {
  /** @type {Finding | null} */
  let known = null;
  /** @type {Mark} */
  let state = "wait";
  const mark = h("span", { class: "seal" });
  const problems = h("div", { class: "problems" });
  const line = h("summary", {}, mark, ...told(readable(row), row, words));
  const inside = h("div", { class: "entry-inside" });
  const fold = h("details", { on: { toggle: () => fold.open && replace(inside, ...opened(run, row, checked)) } }, line, problems, inside);
  const node = h("li", { class: "entry" }, fold);
  set("wait");

  /** @param {Mark} now */
  function set(now) {
    state = now;
    node.dataset["mark"] = state;
    replace(mark, h("span", { "aria-hidden": "true" }, SIGNS[state]), h("span", { class: "unseen" }, t(`proof.mark.${state}`)));
  }

  /** @param {Finding} finding */
  function found(finding) {
    known = finding;
    set(finding.problems.length ? "bad" : "good");
    replace(problems, ...finding.problems.map(({ code, params }) => h("p", { class: "problem" }, t(`proof.bad.${code}`, params))));
    if (finding.problems.length) fold.open = true;
  }

  /**
   * What a body that came later is worth. One that fits an entry which nothing vouches for is vouched for by nothing.
   *
   * @param {{salt: string, body: string}} held
   * @returns {Promise<Mark>}
   */
  async function checked(held) {
    if (known === null || known.leaf === null || state !== "good") return "open";
    const body = await checkBody(known.leaf, held).catch(changed);
    const problems = body === "fits" ? [] : [{ code: "body-changed", params: {} }];
    found({ ...known, body, problems });
    later(/** @type {Finding} */ (known));
    return body === "fits" ? "good" : "bad";
  }

  return {
    node,
    found,
    /** Nothing that was checked vouches for it. */
    unproven: () => set("open"),
  };
}

/**
 * @param {unknown} error
 * @returns {import("./verify.js").BodyState}
 */
function changed(error) {
  if (error instanceof Bad) return "unseen";
  throw error;
}

/**
 * The leaf as far as it can be read: the line is made before anything was checked.
 *
 * @param {EntryRow} row
 * @returns {Record<string, any>}
 */
function readable(row) {
  try {
    const leaf = JSON.parse(row.leaf);
    return typeof leaf === "object" && leaf !== null ? leaf : {};
  } catch {
    return {};
  }
}

/**
 * @param {Record<string, any>} leaf
 * @param {EntryRow} row
 * @param {import("./says.js").Words} words
 */
function told(leaf, row, words) {
  remember(leaf, words);
  const at = momentOf(leaf["at"] ?? row.at);
  return [
    h("time", { class: "entry-time", datetime: new Date(at).toISOString(), title: moment(at) }, clock(at)),
    h("span", { class: "entry-says" }, says(leaf, words)),
    leaf["tool"] === undefined ? null : h("code", { class: "entry-tool" }, visible(text(leaf["tool"]))),
    typeof leaf["outcome"] === "string" ? outcome(leaf["outcome"]) : null,
  ];
}

/**
 * An entry that was changed may say anything.
 *
 * @param {unknown} at
 */
export function momentOf(at) {
  return Number.isSafeInteger(at) ? Math.min(Math.max(Number(at), 0), LAST) : 0;
}

/**
 * JSON as it was hashed: it is not shown as a value, of which a browser would round long numbers.
 *
 * @param {string} text
 */
export function recorded(text) {
  try {
    JSON.parse(text);
    return jsonText(text);
  } catch {
    return h("pre", {}, block(text));
  }
}

/** @param {number} at */
function clock(at) {
  return new Date(at).toTimeString().slice(0, 8);
}

/**
 * @typedef {(held: {salt: string, body: string}) => Promise<Mark>} Checked
 * @param {string} run
 * @param {EntryRow} row
 * @param {Checked} checked
 */
function opened(run, row, checked) {
  const hashed = h("code", { class: "hash" });
  leafHash(row.leaf).then(
    (hash) => replace(hashed, hex(hash)),
    () => replace(hashed, "–"),
  );
  return [
    h(
      "dl",
      { class: "facts" },
      ...fact("proof.d.seq", String(row.seq)),
      ...fact("proof.d.time", moment(momentOf(row.at))),
      ...(row.call_id ? fact("proof.d.call", h("code", {}, visible(row.call_id))) : []),
      ...fact("proof.d.hash", hashed),
      ...fact("proof.d.path", path(row)),
    ),
    h("h3", {}, t("proof.d.body")),
    body(run, row, checked),
    h("h3", {}, t("proof.d.leaf")),
    recorded(row.leaf),
    row.call_id && CALLS.has(row.type) ? receiptButton(run, row.call_id) : null,
  ];
}

/**
 * @param {string} key
 * @param {Node | string} value
 */
function fact(key, value) {
  return [h("dt", {}, t(key)), h("dd", {}, value)];
}

/** @param {EntryRow} row */
function path(row) {
  const steps = row.proof.map((step) => h("li", {}, h("code", { class: "hash" }, visible(step))));
  return h("details", {}, h("summary", {}, count(steps.length, "proof.d.steps")), h("ol", { class: "steps" }, steps));
}

/**
 * @param {string} run
 * @param {EntryRow} row
 * @param {Checked} checked
 */
function body(run, row, checked) {
  if (row.body !== undefined && row.body !== null) return recorded(row.body);
  if (row.erased) return h("p", { class: "muted" }, t("proof.d.body.erased"));
  if (!readable(row)["body"]) return h("p", { class: "muted" }, t("proof.d.body.none"));
  const place = h("div", {});
  const label = t("proof.d.body.load", { size: size(row.body_size ?? 0) });
  const button = h("button", { type: "button", on: { click: () => void busy(button, fetched(place, run, row, checked)) } }, label);
  return replace(place, button);
}

/**
 * @param {HTMLElement} place
 * @param {string} run
 * @param {EntryRow} row
 * @param {Checked} checked
 */
async function fetched(place, run, row, checked) {
  try {
    const held = await ask("desk.body", { run, seq: row.seq });
    const mark = await checked(held);
    Object.assign(row, held);
    const words = t(mark === "bad" ? "proof.bad.body-changed" : `proof.mark.${mark}`);
    replace(place, h("p", { class: mark === "bad" ? "problem" : `note ${mark}`, role: "status" }, words), recorded(held.body ?? ""));
  } catch (error) {
    place.append(failed(error));
  }
}

/**
 * @param {string} run
 * @param {string} call
 */
function receiptButton(run, call) {
  const button = h("button", { type: "button", on: { click: () => void busy(button, saved()) } }, t("proof.receipt"));
  async function saved() {
    try {
      const file = await ask("desk.receipt", { run, call });
      save(file);
      say(t("proof.saved", { name: visible(file.name) }));
    } catch (error) {
      button.after(failed(error));
    }
  }
  return h("p", {}, button);
}
