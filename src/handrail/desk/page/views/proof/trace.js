/** Where the time and the tokens went: of one run as a waterfall, of all recent ones by day and model. */

/** @typedef {import("../../values.js").RunTrace} RunTrace */
/** @typedef {import("../../values.js").TraceSpan} TraceSpan */
/** @typedef {import("../../values.js").TraceTotals} TraceTotals */

import { ask } from "../../bus.js";
import { h, replace, svg } from "../../dom.js";
import { visible } from "../../text.js";
import { count, duration, number, t } from "../../words.js";
import { failed, outcomeWords } from "../parts.js";

/** The width of all bars, in units of the drawing. */
const WIDE = 100;

/** A part that is asked for when it is opened. @param {string} title @param {(signal: AbortSignal) => Promise<Node>} work @param {AbortSignal} signal */
function opened(title, work, signal) {
  const inner = h("div", { class: "trace-inner" });
  const node = h("details", { class: "trace" }, h("summary", null, title), inner);
  node.addEventListener("toggle", () => {
    if (!node.open) return;
    work(signal).then(
      (made) => replace(inner, made),
      (error) => signal.aborted || replace(inner, failed(error)),
    );
  });
  return node;
}

/** @param {string} run @param {AbortSignal} signal */
export function traceOf(run, signal) {
  return opened(t("proof.trace"), async () => waterfall(/** @type {RunTrace} */ (await ask("desk.trace", { run }, { signal }))), signal);
}

/** @param {AbortSignal} signal */
export function usage(signal) {
  return opened(t("proof.usage"), async () => days((await ask("desk.usage", {}, { signal })).days), signal);
}

/** @param {RunTrace} trace */
function waterfall(trace) {
  const rows = trace.spans.map((span) => row(span, trace.ms));
  const head = ["what", "state", "took", "tokens", "cached", "cost", "when"].map((key) => h("th", { scope: "col" }, t(`proof.trace.${key}`)));
  const table = h("table", { class: "waterfall" }, h("thead", null, h("tr", null, head)), h("tbody", null, rows));
  return h("div", null, h("p", { class: "muted" }, sums(trace.totals, trace.ms)), h("div", { class: "wide" }, table), trace.more ? h("p", { class: "muted" }, t("proof.trace.more")) : null);
}

/** @param {TraceSpan} span @param {number} whole */
function row(span, whole) {
  const depth = Math.min(span.depth ?? 0, 8);
  const name = span.kind === "turn" || span.kind === "call" ? visible(span.name) : t(`proof.trace.${span.kind}`, { name: visible(span.name) });
  const cells = [
    state(span),
    span.state ? duration((span.ms ?? 0) * 1000) : "",
    span.tokens ? `${number(span.tokens[0])} → ${number(span.tokens[1])}` : "",
    span.cached ? number(span.cached) : "",
    cost(span.cost),
  ];
  return h("tr", { class: `span-${span.kind}` }, h("th", { scope: "row" }, h("span", { class: `depth depth-${depth}` }, name)), cells.map((cell) => h("td", null, cell)), h("td", { class: "span-cell" }, bar(span, Math.max(whole, 1))));
}

/** @param {TraceSpan} span */
function state({ kind, state: said = "" }) {
  if (!said) return t("proof.trace.open");
  return kind === "call" && said !== "ok" ? outcomeWords(said) : visible(said);
}

/** @param {TraceSpan} span @param {number} whole */
function bar(span, whole) {
  const x = Math.min(WIDE - 1, (span.start / whole) * WIDE);
  const width = Math.max(0.7, Math.min(WIDE - x, ((span.ms ?? 0) / whole) * WIDE));
  const bad = span.kind === "retry" || (span.kind === "call" && span.state !== "ok");
  return svg("svg", { viewBox: `0 0 ${WIDE} 8`, preserveAspectRatio: "none", "aria-hidden": "true", class: bad ? "bar bad" : "bar" }, svg("rect", { x, y: 1, width, height: 6 }));
}

/** @param {TraceTotals} totals @param {number} [ms] */
function sums(totals, ms) {
  const said = [
    ms === undefined ? "" : duration(ms * 1000),
    count(totals.turns ?? 0, "proof.trace.turns"),
    count(totals.calls ?? 0, "proof.calls-n"),
    totals.failed ? count(totals.failed, "proof.failed-n") : "",
    totals.retries ? count(totals.retries, "proof.trace.retries") : "",
    totals.waited_ms ? t("proof.trace.waited", { time: duration(totals.waited_ms * 1000) }) : "",
    t("proof.trace.sum", { read: totals.input_tokens ?? 0, wrote: totals.output_tokens ?? 0, cached: totals.cached_tokens ?? 0 }),
    cost(totals.cost),
  ];
  return said.filter(Boolean).join(" · ");
}

/** @param {import("../../values.js").DayUsage[]} found */
function days(found) {
  if (!found.length) return h("p", { class: "muted" }, t("proof.usage.none"));
  const head = ["day", "model", "turns", "tokens", "cached", "cost"].map((key) => h("th", { scope: "col" }, t(`proof.usage.${key}`)));
  const rows = found.map(({ day, model, totals }) => {
    const cells = [visible(model), number(totals.turns ?? 0), `${number(totals.input_tokens ?? 0)} → ${number(totals.output_tokens ?? 0)}`, number(totals.cached_tokens ?? 0), cost(totals.cost)];
    return h("tr", null, h("th", { scope: "row" }, visible(day)), cells.map((cell) => h("td", null, cell)));
  });
  return h("div", { class: "wide" }, h("table", { class: "waterfall" }, h("thead", null, h("tr", null, head)), h("tbody", null, rows)));
}

/** @param {number | null} [dollars] */
function cost(dollars) {
  return dollars === undefined || dollars === null ? "" : number(dollars, { style: "currency", currency: "USD", maximumFractionDigits: 4 });
}
