/** Every tool of the node, searched and filtered, with how it did so far. */

import { ask } from "../../bus.js";
import { h, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, duration, number, t } from "../../words.js";
import { failed, fill, settled, spoken } from "../parts.js";
import { plot } from "./plot.js";

/** @typedef {import("../../values.js").ToolRow} ToolRow */

const TYPED = 120;
const ALL = "*";

/**
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 * @param {import("../../shell.js").Context} ctx
 */
export async function showList(place, signal, ctx) {
  let tools = await asked(signal);
  const list = h("ul", { class: "tools" });
  const says = h("p", { class: "muted", role: "status" });
  const search = h("input", { type: "search", id: "tool-search", autocomplete: "off", placeholder: t("tools.searching") });
  const pick = h("select", { id: "tool-ensemble", on: { change: () => void draw() } }, choices(tools, ALL));
  const typed = settled(() => void draw(), TYPED);
  search.addEventListener("input", typed.touch);
  signal.addEventListener("abort", typed.cancel);
  /** @type {Map<string, HTMLElement>} */
  const made = new Map();
  let drawing = new AbortController();

  async function draw() {
    drawing.abort();
    drawing = new AbortController();
    const fitting = chosen(tools, search.value, pick.value);
    says.textContent = tools.length ? count(fitting.length, "tools.count") : t("tools.none");
    replace(list);
    await fill(list, fitting, line, AbortSignal.any([signal, drawing.signal]));
  }

  /** Other tools are there now; what the person looks for stays. */
  async function renew() {
    try {
      tools = await asked(signal);
    } catch (error) {
      if (!signal.aborted) replace(says, failed(error));
      return;
    }
    made.clear();
    replace(pick, choices(tools, pick.value));
    await draw();
  }

  /** @param {ToolRow} tool */
  function line(tool) {
    const node = made.get(tool.name) ?? row(tool);
    made.set(tool.name, node);
    return node;
  }

  replace(
    place,
    h("header", { class: "view-head" }, h("h1", { tabindex: "-1" }, t("tools.title")), h("p", { class: "muted lead" }, t("tools.about"))),
    h(
      "div",
      { class: "filters" },
      h("label", { for: "tool-search" }, t("tools.search"), search),
      h("label", { for: "tool-ensemble" }, t("tools.ensemble"), pick),
    ),
    says,
    list,
  );
  signal.addEventListener("abort", ctx.watch((event) => (event === "tools" || event === "back") && void renew()));
  await draw();
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<ToolRow[]>}
 */
async function asked(signal) {
  return (await ask("desk.tools", {}, { signal })).tools;
}

/**
 * @param {readonly ToolRow[]} tools
 * @param {string} now
 */
function choices(tools, now) {
  const ensembles = [...new Set(tools.map((tool) => tool.ensemble ?? ""))].sort();
  const option = (/** @type {string} */ value, /** @type {string} */ words) => h("option", { value, selected: value === now }, words);
  return [option(ALL, t("tools.all")), ...ensembles.map((name) => option(name, name ? visible(name) : t("tools.alone")))];
}

/**
 * Those in which every word occurs.
 *
 * @param {readonly ToolRow[]} tools
 * @param {string} search
 * @param {string} ensemble
 */
function chosen(tools, search, ensemble) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return tools.filter((tool) => {
    const said = `${tool.name} ${tool.summary} ${tool.source ?? ""}`.toLowerCase();
    return (ensemble === ALL || (tool.ensemble ?? "") === ensemble) && words.every((word) => said.includes(word));
  });
}

/** @param {ToolRow} tool */
function row(tool) {
  return h(
    "li",
    { class: "tool" },
    h(
      "a",
      { href: `#/tools/${encodeURIComponent(tool.name)}`, class: "tool-link" },
      h("code", { class: "tool-name" }, visible(tool.name)),
      h("span", { class: "tool-chips" }, effects(tool), tool.deprecated ? h("span", { class: "chip warn" }, t("tools.deprecated")) : null),
      tool.source ? h("span", { class: "tool-source" }, visible(tool.source)) : null,
      h("span", { class: "tool-says" }, visible(tool.summary)),
    ),
    numbers(tool),
  );
}

/** @param {ToolRow} tool */
export function effects(tool) {
  if (!tool.effects) return null;
  return h("span", { class: tool.side_effects ? "chip effect" : "chip" }, spoken(`tools.effect.${tool.effects}`, tool.effects));
}

/**
 * How it did so far.
 *
 * @param {ToolRow} tool
 */
export function numbers(tool) {
  const failed = tool.failed ?? 0;
  /** @type {[string, string, boolean][]} */
  const told = [
    ["tools.offered", number(tool.offered ?? 0), false],
    ["tools.picked", number(tool.picked ?? 0), false],
    ["tools.failed", number(failed), failed > 0],
    ["tools.p50", tool.p50_us ? duration(tool.p50_us) : "–", false],
    ["tools.p95", tool.p95_us ? duration(tool.p95_us) : "–", false],
  ];
  return h(
    "div",
    { class: "numbers" },
    h("dl", {}, told.map(([key, value, bad]) => h("div", { class: bad ? "bad" : "" }, h("dt", {}, t(key)), h("dd", {}, value)))),
    plot(tool.recent ?? []),
  );
}
