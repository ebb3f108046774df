/** One entry of the timeline: a line with its mark, and what is behind it when it is opened. */

import { ask } from "../../bus.js";
import { busy, h, replace, save } from "../../dom.js";
import { block, json, long, visible } from "../../text.js";
import { say } from "../../toast.js";
import { count, moment, size, t } from "../../words.js";
import { failed, outcome } from "../parts.js";
import { remember, says } from "./says.js";
import { leafHash } from "./signed.js";
import { checkBody, text } from "./verify.js";

/**
 * @typedef {import("../../values.js").EntryRow} EntryRow
 * @typedef {import("./verify.js").Finding} Finding
 * @typedef {"wait" | "good" | "bad" | "open"} Mark
 * @typedef {{node: HTMLElement, found: (finding: Finding) => void, unproven: () => void}} Line
 */

const SIGNS = { wait: "○", good: "✓", bad: "✗", open: "–" };
const CALLS = new Set(["call.settled", "call.amended", "call.intended"]);

/**
 * @param {string} run
 * @param {EntryRow} row
 * @param {import("./says.js").Words} words Whose word it was, of the entries before.
 * @returns {Line}
 */
export function entryLine(run, row, words) {
  const mark = h("span", { class: "seal" });
  const problems = h("div", { class: "problems" });
  const line = h("summary", {}, mark, ...told(readable(row), row, words));
  const inside = h("div", { class: "entry-inside" });
  const fold = h("details", { on: { toggle: () => fold.open && replace(inside, ...opened(run, row)) } }, line, problems, inside);
  const node = h("li", { class: "entry" }, fold);
  set("wait");

  /** @param {Mark} state */
  function set(state) {
    node.dataset["mark"] = state;
    replace(mark, h("span", { "aria-hidden": "true" }, SIGNS[state]), h("span", { class: "unseen" }, t(`proof.mark.${state}`)));
  }

  return {
    node,
    /** @param {Finding} finding */
    found(finding) {
      set(finding.problems.length ? "bad" : "good");
      replace(problems, ...finding.problems.map(({ code, params }) => h("p", { class: "problem" }, t(`proof.bad.${code}`, params))));
      if (finding.problems.length) fold.open = true;
    },
    /** Nothing that was checked vouches for it. */
    unproven: () => set("open"),
  };
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
  const at = Number.isSafeInteger(leaf["at"]) ? leaf["at"] : row.at;
  return [
    h("time", { class: "entry-time", datetime: new Date(at).toISOString(), title: moment(at) }, clock(at)),
    h("span", { class: "entry-says" }, says(leaf, words)),
    leaf["tool"] === undefined ? null : h("code", { class: "entry-tool" }, visible(text(leaf["tool"]))),
    typeof leaf["outcome"] === "string" ? outcome(leaf["outcome"]) : null,
  ];
}

/** @param {number} at */
function clock(at) {
  return new Date(at).toTimeString().slice(0, 8);
}

/**
 * @param {string} run
 * @param {EntryRow} row
 */
function opened(run, row) {
  const leaf = readable(row);
  const hashed = h("code", { class: "hash" });
  leafHash(row.leaf).then(
    (hash) => replace(hashed, Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")),
    () => replace(hashed, "–"),
  );
  return [
    h(
      "dl",
      { class: "facts" },
      ...fact("proof.d.seq", String(row.seq)),
      ...fact("proof.d.time", moment(row.at)),
      ...(row.call_id ? fact("proof.d.call", h("code", {}, visible(row.call_id))) : []),
      ...fact("proof.d.hash", hashed),
      ...fact("proof.d.path", path(row)),
    ),
    h("h3", {}, t("proof.d.body")),
    body(run, row, leaf),
    h("h3", {}, t("proof.d.leaf")),
    json(leaf),
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
 * @param {Record<string, any>} leaf
 */
function body(run, row, leaf) {
  if (row.body !== undefined && row.body !== null) return pretty(row.body);
  if (row.erased) return h("p", { class: "muted" }, t("proof.d.body.erased"));
  if (!leaf["body"]) return h("p", { class: "muted" }, t("proof.d.body.none"));
  const place = h("div", {});
  const label = t("proof.d.body.load", { size: size(row.body_size ?? 0) });
  const button = h("button", { type: "button", on: { click: () => void busy(button, fetched(place, run, row, leaf)) } }, label);
  return replace(place, button);
}

/**
 * @param {HTMLElement} place
 * @param {string} run
 * @param {EntryRow} row
 * @param {Record<string, any>} leaf
 */
async function fetched(place, run, row, leaf) {
  try {
    const held = await ask("desk.body", { run, seq: row.seq });
    const state = await checkBody(leaf, held).catch(() => "bad");
    const good = state === "fits";
    const mark = h("p", { class: good ? "note good" : "problem", role: "status" }, t(good ? "proof.mark.good" : "proof.bad.body-changed"));
    replace(place, mark, pretty(held.body ?? ""));
  } catch (error) {
    place.append(failed(error));
  }
}

/** @param {string} written */
function pretty(written) {
  try {
    return written.length < 200_000 ? json(JSON.parse(written)) : long(written);
  } catch {
    return h("pre", {}, block(written));
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
