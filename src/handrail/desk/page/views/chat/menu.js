/** A small menu at a button: opened by click or arrow, walked with the arrows, closed by Esc or by looking elsewhere. */

/** @import { Child } from "../../dom.js" */

import { h } from "../../dom.js";

/** @typedef {{ label: string, icon?: Child, danger?: boolean, do: () => void }} Entry */

/**
 * @param {string} label Of the button, for who cannot see it.
 * @param {Child} face
 * @param {() => Entry[]} entries
 * @param {() => void} [closed]
 */
export function menu(label, face, entries, closed = () => {}) {
  const list = h("div", { class: "menu", role: "menu", "aria-label": label, hidden: true });
  const says = { "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": label, title: label };
  const button = h("button", { type: "button", class: "quiet icon-button", ...says }, face);
  const node = h("div", { class: "menu-place" }, button, list);

  function open() {
    list.replaceChildren(...entries().map(made));
    list.hidden = false;
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside);
    list.classList.toggle("upwards", list.getBoundingClientRect().bottom > innerHeight);
    items()[0]?.focus();
  }
  function close() {
    list.hidden = true;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside);
    closed();
  }
  /** @param {Event} event */
  function outside(event) {
    if (!node.contains(/** @type {Node} */ (event.target))) close();
  }
  function items() {
    return /** @type {HTMLElement[]} */ ([...list.children]);
  }
  /** @param {Entry} entry */
  function made(entry) {
    const click = () => {
      close();
      button.focus();
      entry.do();
    };
    const how = { type: "button", role: "menuitem", tabindex: "-1", class: entry.danger ? "danger" : "" };
    return h("button", { ...how, on: { click } }, entry.icon, entry.label);
  }
  /** @param {KeyboardEvent} event */
  function walk(event) {
    const all = items();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") {
      close();
      button.focus();
    }
    if (to !== undefined) all[to % all.length]?.focus();
    if (to !== undefined || event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  button.addEventListener("click", () => (list.hidden ? open() : close()));
  button.addEventListener("keydown", (event) => event.key === "ArrowDown" && list.hidden && (event.preventDefault(), open()));
  list.addEventListener("keydown", walk);
  return { node, close };
}
