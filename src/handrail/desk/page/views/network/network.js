/**
 * The Network view: which nodes are there, what they offer and do, and the last calls between them, live.
 *
 * Nothing moves under the pointer: what is pointed at or has the focus stays as it is, and says that it is held.
 */

import { follow } from "../../bus.js";
import { h, replace } from "../../dom.js";
import { add, number, t } from "../../words.js";
import * as words from "../../words/network.js";
import { failed } from "../parts.js";
import { nodeCards } from "./nodes.js";
import { traceTable } from "./traces.js";

add(words);

/** @typedef {import("../../values.js").NetworkPage} NetworkPage */

/**
 * @param {HTMLElement} main
 * @param {string[]} _params
 * @param {import("../../shell.js").Context} ctx
 */
export async function show(main, _params, ctx) {
  const left = new AbortController();
  const nodes = nodeCards();
  const traces = traceTable();
  const tiles = h("dl", { class: "tiles" });
  const state = h("p", { class: "muted", role: "status" }, t("network.waiting"));
  ctx.title(t("network.title"));
  replace(
    main,
    h(
      "div",
      { class: "page network" },
      h("header", { class: "view-head" }, h("h1", { tabindex: "-1" }, t("network.title")), h("p", { class: "muted lead" }, t("network.about"))),
      state,
      tiles,
      h("section", { "aria-labelledby": "network-nodes" }, h("h2", { id: "network-nodes" }, t("network.nodes")), nodes.node),
      h("section", { "aria-labelledby": "network-traces" }, h("h2", { id: "network-traces" }, t("network.traces")), traces.node),
    ),
  );

  /**
   * @param {string} event
   * @param {NetworkPage} network
   */
  function heard(event, network) {
    if (event !== "network") return;
    replace(state);
    replace(tiles, ...numbers(network));
    nodes.set(network.nodes);
    traces.set(network.traces, names(network));
  }
  const following = follow("desk.network", () => ({}), heard, {
    signal: left.signal,
    onState: (now) => now === "lost" && replace(state, t("network.lost-node")),
  });
  following.catch((error) => left.signal.aborted || replace(state, failed(error)));
  return { update() {}, leave: () => left.abort() };
}

/** @param {NetworkPage} network */
function numbers(network) {
  /** @type {[string, number, boolean][]} */
  const told = [
    ["network.under-way", network.under_way ?? 0, false],
    ["network.answered", network.answered ?? 0, false],
    ["network.failed", network.failed ?? 0, true],
    ["network.lost", network.lost ?? 0, true],
  ];
  return told.map(([key, value, grave]) => h("div", { class: grave && value ? "bad" : "" }, h("dt", {}, t(key)), h("dd", {}, number(value))));
}

/** @param {NetworkPage} network */
function names(network) {
  return new Map(network.nodes.map((node) => [node.node_id, node.name || ""]));
}
