/** The nodes, each in a place that it keeps: who is new comes after the others, who is lost stays where it was. */

import { h, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, number, t, when } from "../../words.js";

/**
 * @typedef {import("../../values.js").NodeRow} NodeRow
 * @typedef {import("../../values.js").CapabilityRow} CapabilityRow
 */

export function nodeCards() {
  const list = h("ul", { class: "nodes" });
  /** @type {Map<string, ReturnType<typeof card>>} */
  const shown = new Map();

  return {
    node: list,
    /** @param {readonly NodeRow[]} nodes */
    set(nodes) {
      const there = new Set(nodes.map((node) => node.node_id));
      for (const [id, one] of shown) if (!there.has(id)) (one.node.remove(), shown.delete(id));
      for (const node of nodes) {
        let one = shown.get(node.node_id);
        if (one === undefined) {
          one = card();
          shown.set(node.node_id, one);
          list.append(one.node);
        }
        one.set(node);
      }
    },
  };
}

const TONES = { here: "", there: "good", lost: "bad" };

function card() {
  const title = h("h3", {});
  const state = h("span", { class: "chip" });
  const id = h("code", { class: "hash" });
  const busy = h("span", { class: "muted" });
  const rows = h("tbody", {});
  const label = h("summary", {});
  const heads = h("tr", {}, h("th", { scope: "col" }, t("network.capability")), h("th", { scope: "col", class: "num" }, t("network.in-flight")));
  const fold = h("details", {}, label, h("div", { class: "wide" }, h("table", {}, h("thead", {}, heads), rows)));
  const node = h("li", { class: "node" }, h("div", { class: "node-head" }, title, state), id, busy, fold);
  let offered = "";

  /** @param {NodeRow} row */
  function set(row) {
    const now = row.state ?? "there";
    node.dataset["state"] = now;
    title.textContent = visible(row.name || t(row.local ? "network.this" : "network.nameless"));
    state.className = `chip ${TONES[now]}`;
    state.textContent = now === "lost" && row.seen ? t("network.state.lost-since", { when: when(row.seen) }) : t(`network.state.${now}`);
    id.textContent = visible(row.node_id);
    busy.textContent = count(row.in_flight ?? 0, "network.busy");
    capabilities(row.capabilities ?? []);
  }

  /** @param {readonly CapabilityRow[]} found */
  function capabilities(found) {
    label.textContent = count(found.length, "network.offers");
    fold.hidden = found.length === 0;
    const names = found.map(({ name }) => name).join(" ");
    if (names !== offered) replace(rows, ...found.map(capability));
    offered = names;
    for (const [at, { in_flight = 0 }] of found.entries()) {
      const cell = rows.rows[at]?.cells[1];
      if (cell) cell.textContent = in_flight ? number(in_flight) : "–";
    }
  }
  return { node, set };
}

/** @param {CapabilityRow} row */
function capability(row) {
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h("code", {}, visible(row.name)),
      row.side_effects ? h("span", { class: "chip effect" }, t("network.changes")) : null,
      row.streams ? h("span", { class: "chip off" }, t("network.streams")) : null,
      row.description ? h("span", { class: "about" }, visible(row.description)) : null,
    ),
    h("td", { class: "num" }),
  );
}
