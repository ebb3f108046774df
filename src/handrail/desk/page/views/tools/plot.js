/** The last calls of a tool as small bars: how long each took, and which failed. Said in words too. */

import { svg } from "../../dom.js";
import { count, duration, t } from "../../words.js";

const [WIDE, HIGH, MOST] = [120, 28, 40];

/**
 * Heights are logarithmic, so that one slow call leaves the others to be seen. A failed one is hollow and has a cross
 * above it: it is not told by colour alone.
 *
 * @param {readonly number[]} recent Microseconds, the newest last; failed ones negative.
 * @returns {SVGElement}
 */
export function plot(recent) {
  const shown = recent.slice(-MOST);
  const most = Math.log1p(Math.max(1, ...shown.map(Math.abs)));
  const step = Math.min(5, WIDE / shown.length);
  const from = WIDE - shown.length * step;
  const bars = shown.map((took, at) => bar(took, from + at * step, step, Math.max(2, (Math.log1p(Math.abs(took)) / most) * (HIGH - 6))));
  return svg("svg", { class: shown.length ? "plot" : "plot no-calls", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": words(shown) }, ...bars);
}

/**
 * @param {number} took
 * @param {number} x
 * @param {number} step
 * @param {number} high
 */
function bar(took, x, step, high) {
  const box = { x: (x + 0.4).toFixed(1), y: (HIGH - high).toFixed(1), width: (step - 0.8).toFixed(1), height: high.toFixed(1) };
  if (took >= 0) return svg("rect", { ...box, class: "bar" });
  const [left, right, top] = [x + 0.3, x + step - 0.3, HIGH - high - 4.6];
  const cross = `M${left} ${top}L${right} ${top + 3.4}M${right} ${top}L${left} ${top + 3.4}`;
  return svg("g", { class: "bar-failed" }, svg("rect", box), svg("path", { d: cross }));
}

/** @param {readonly number[]} shown */
function words(shown) {
  if (!shown.length) return t("tools.plot.none");
  const long = shown.map(Math.abs).sort((a, b) => a - b);
  const bad = shown.filter((took) => took < 0).length;
  const range = t("tools.plot.range", { least: duration(long[0] ?? 0), most: duration(long.at(-1) ?? 0) });
  return [count(shown.length, "tools.plot.calls"), range, bad ? count(bad, "tools.plot.failed") : ""].filter(Boolean).join(", ");
}
