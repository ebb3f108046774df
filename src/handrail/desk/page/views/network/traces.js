/** The last calls, the newest first, each with a bar for when it was and how long it took. */

import { h, replace, svg } from "../../dom.js";
import { visible } from "../../text.js";
import { count, duration, moment, t } from "../../words.js";

/** @typedef {import("../../values.js").TraceRow} TraceRow */

const MOST = 50;
const WIDE = 160;

export function traceTable() {
  const rows = h("tbody", {});
  const held = h("p", { class: "muted held", role: "status" });
  const heads = ["network.when", "network.capability", "network.from-to", "network.result", "network.took", "network.line"];
  const table = h("table", { class: "traces" }, h("thead", {}, h("tr", {}, heads.map((key) => h("th", { scope: "col" }, t(key))))), rows);
  const region = h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": t("network.traces") }, table);
  const none = h("p", { class: "muted" }, t("network.no-traces"));
  const node = h("div", {}, held, none, region);
  /** @type {{traces: readonly TraceRow[], names: Map<string, string>} | null} */
  let waiting = null;
  let pointed = false;
  let shown = "";
  let news = 0;

  function draw() {
    if (waiting === null) return;
    const { traces, names } = waiting;
    none.hidden = traces.length > 0;
    region.hidden = traces.length === 0;
    replace(held);
    const recent = traces.slice(0, MOST);
    const span = window(recent);
    replace(rows, ...recent.map((trace) => line(trace, names, span)));
    shown = key(traces[0]);
    [waiting, news] = [null, 0];
  }
  /** @param {boolean} now */
  function point(now) {
    pointed = now;
    if (!now) draw();
  }
  region.addEventListener("pointerenter", () => point(true));
  region.addEventListener("pointerleave", () => point(region.matches(":focus-within")));
  region.addEventListener("focusin", () => point(true));
  region.addEventListener("focusout", () => point(region.matches(":hover")));

  return {
    node,
    /**
     * @param {readonly TraceRow[]} traces
     * @param {Map<string, string>} names
     */
    set(traces, names) {
      waiting = { traces, names };
      if (!pointed) return draw();
      const known = traces.findIndex((trace) => key(trace) === shown);
      news = known < 0 ? traces.length : known;
      if (news) replace(held, count(news, "network.held"));
    },
  };
}

/** @param {TraceRow | undefined} trace */
function key(trace) {
  return trace ? `${trace.trace} ${trace.at} ${trace.capability}` : "";
}

/**
 * From when until when the bars go.
 *
 * @param {readonly TraceRow[]} traces
 */
function window(traces) {
  const begun = Math.min(...traces.map(({ at, ms }) => at - ms));
  const ended = Math.max(...traces.map(({ at }) => at));
  return { begun, long: Math.max(1, ended - begun) };
}

/**
 * @param {TraceRow} trace
 * @param {Map<string, string>} names
 * @param {{begun: number, long: number}} span
 */
function line(trace, names, span) {
  const good = trace.result === "ok";
  const took = duration(Math.round(trace.ms * 1000));
  const from = Math.max(0, ((trace.at - trace.ms - span.begun) / span.long) * WIDE);
  const wide = Math.max(2, (trace.ms / span.long) * WIDE);
  const bar = svg("rect", { x: Math.min(from, WIDE - wide).toFixed(1), y: "3", width: wide.toFixed(1), height: "8", rx: "1.5", class: good ? "bar" : "bar-failed" });
  return h(
    "tr",
    {},
    h("td", {}, h("time", { datetime: new Date(trace.at).toISOString(), title: moment(trace.at) }, new Date(trace.at).toTimeString().slice(0, 8))),
    h("td", {}, h("code", { title: visible(trace.trace) }, visible(trace.capability))),
    h("td", { class: "from-to" }, named(trace.from_node, names), h("span", { "aria-hidden": "true" }, " → "), h("span", { class: "unseen" }, t("network.to")), named(trace.to_node, names)),
    h("td", {}, h("span", { class: good ? "chip good" : "chip bad" }, visible(trace.result))),
    h("td", { class: "num" }, took),
    h("td", {}, svg("svg", { class: "span", viewBox: `0 0 ${WIDE} 14`, "aria-hidden": "true" }, bar)),
  );
}

/**
 * @param {string} id
 * @param {Map<string, string>} names
 */
function named(id, names) {
  // Who called with a token is the node, and after a # the token.
  const name = names.get(id.split("#")[0] ?? "");
  const short = id.length > 16 ? `${id.slice(0, 14)}…` : id;
  return h("span", { title: visible(id) }, visible(name || short || "–"));
}
