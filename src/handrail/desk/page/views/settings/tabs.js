/** Panels of which one is seen. The arrow keys go from tab to tab, as everywhere. */

import { h } from "../../dom.js";
import { newId } from "../../ids.js";

/**
 * @param {string} name Of all of them.
 * @param {{label: string, node: HTMLElement}[]} panels
 * @param {number} first
 * @param {(at: number) => void} chosen
 */
export function tabs(name, panels, first, chosen) {
  const made = panels.map(({ label, node }, at) => {
    const [id, panel] = [`tab-${newId()}`, `panel-${newId()}`];
    const tab = h("button", { type: "button", role: "tab", class: "tab", id, "aria-controls": panel, on: { click: () => choose(at) } }, label);
    return { tab, panel: h("div", { role: "tabpanel", class: "tab-panel", id: panel, "aria-labelledby": id }, node) };
  });

  /** @param {number} at */
  function choose(at) {
    made.forEach(({ tab, panel }, each) => {
      tab.setAttribute("aria-selected", String(each === at));
      tab.tabIndex = each === at ? 0 : -1;
      panel.hidden = each !== at;
    });
    chosen(at);
  }

  /** @param {KeyboardEvent} event */
  function pressed(event) {
    const at = made.findIndex(({ tab }) => tab === event.target);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: made.length - 1 }[event.key];
    if (next === undefined || at < 0) return;
    event.preventDefault();
    const to = (next + made.length) % made.length;
    choose(to);
    made[to]?.tab.focus();
  }

  choose(first);
  const list = h("div", { role: "tablist", class: "tab-list", "aria-label": name, on: { keydown: pressed } }, made.map(({ tab }) => tab));
  return { node: h("div", {}, list, made.map(({ panel }) => panel)), choose };
}
