/** Rows in groups: a group that is far from the screen is one thing to the browser, however many rows it has. */

import { h } from "../../dom.js";

const MOST = 20;

export function groups() {
  const node = h("div", { class: "messages" });
  const made = () => h("ol", { class: "said-group" });
  /** What belongs together is not parted: a group ends only where a turn does. @param {Element | null} group @param {Element | null | undefined} next */
  const full = (group, next) => !group || (group.childElementCount >= MOST && next?.classList.contains("user"));

  return {
    node,
    /** @param {HTMLElement} row */
    prepend(row) {
      const group = node.firstElementChild;
      if (full(group, group?.firstElementChild)) node.prepend(made());
      node.firstElementChild?.prepend(row);
    },
    /** @param {HTMLElement} row */
    append(row) {
      if (full(node.lastElementChild, row)) node.append(made());
      node.lastElementChild?.append(row);
    },
    /** @param {HTMLElement} row */
    remove(row) {
      const group = row.parentElement;
      row.remove();
      if (!group?.childElementCount) group?.remove();
    },
    clear: () => node.replaceChildren(),
  };
}
