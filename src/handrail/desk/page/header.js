/** The head of the page: its mark, the ways to the views, whether the node is there, language, colours, shortcuts. */

import { open } from "./dialog.js";
import { h, icon, replace, svg } from "./dom.js";
import { singleKeys, setSingleKeys, setTheme, theme } from "./kept.js";
import { language, setLanguage, t } from "./words.js";

/**
 * @param {HTMLElement} top
 * @param {string[]} names Of the views.
 * @param {() => [string, string][]} shortcuts Of the view that is shown: keys, and what they do.
 */
export function header(top, names, shortcuts) {
  let here = "";
  /** @type {"open" | "lost" | "wait"} */
  let connection = "wait";

  function draw() {
    document.documentElement.lang = language();
    const skip = h("a", { class: "skip", href: "#main", on: { click: toMain } }, t("shell.skip"));
    replace(top, skip, brand(), nav(names, here), h("div", { class: "top-tools" }, light(connection), switches(help)));
  }
  const help = () => showShortcuts(names, shortcuts());
  document.addEventListener("keydown", (event) => pressed(event, names, help));
  document.addEventListener("theme", draw);
  draw();
  return {
    draw,
    /** @param {string} name */
    at(name) {
      here = name;
      for (const link of top.querySelectorAll("nav a")) mark(link, link.getAttribute("href") === `#/${name}`);
    },
    /** @param {"open" | "lost"} state */
    state(state) {
      connection = state;
      top.querySelector(".connection")?.replaceWith(light(state));
    },
  };
}

/** The mark: a rail that climbs, on two posts. */
export function logo() {
  return svg("svg", { viewBox: "0 0 24 24", class: "mark", "aria-hidden": "true" }, svg("path", { d: "M3 13.5 21 5.5M7 12v8M17 7.5v12.5" }));
}

function brand() {
  return h("a", { class: "brand", href: "#/chat" }, logo(), h("span", null, "handrail"));
}

/**
 * @param {string[]} names
 * @param {string} here
 */
function nav(names, here) {
  const links = names.map((name) => {
    const drawn = icon(/** @type {Parameters<typeof icon>[0]} */ (name));
    const link = h("a", { href: `#/${name}` }, drawn, h("span", null, t(`shell.nav.${name}`)));
    mark(link, name === here);
    return h("li", null, link);
  });
  return h("nav", { "aria-label": t("shell.nav") }, h("ul", null, links));
}

/**
 * @param {Element} link
 * @param {boolean} current
 */
function mark(link, current) {
  if (current) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

/** @param {"open" | "lost" | "wait"} state */
function light(state) {
  const words = t(`shell.state.${state}`);
  return h(
    "span",
    { class: `connection is-${state}`, role: "status", title: words },
    h("span", { class: "dot", "aria-hidden": "true" }),
    h("span", { class: "connection-words" }, words),
  );
}

/** @param {() => void} help */
function switches(help) {
  const tongue = language() === "en" ? "de" : "en";
  const colours = theme() === "dark" ? "light" : "dark";
  const recolour = () => {
    setTheme(colours);
    focusOn(".theme");
  };
  const translate = () => {
    setLanguage(tongue);
    focusOn(".language");
  };
  return [
    small("help", t("shell.help"), help, icon("help")),
    h("span", { lang: tongue }, small("language", t("shell.language"), translate, tongue.toUpperCase())),
    small("theme", t(colours === "light" ? "shell.theme.light" : "shell.theme.dark"), recolour, icon(colours === "light" ? "sun" : "moon")),
  ];
}

/**
 * @param {string} kind
 * @param {string} words
 * @param {() => void} press
 * @param {Node | string} shown
 */
function small(kind, words, press, shown) {
  return h("button", { type: "button", class: `icon-button ${kind}`, title: words, "aria-label": words, on: { click: press } }, shown);
}

/** The button was drawn anew: whoever pressed it stays where they were. @param {string} which */
function focusOn(which) {
  const found = document.querySelector(`#top ${which}`);
  if (found instanceof HTMLElement) found.focus();
}

/** The address says which view is shown, so that a link into the page must not change it. @param {Event} event */
function toMain(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/**
 * @param {KeyboardEvent} event
 * @param {string[]} names
 * @param {() => void} help
 */
function pressed(event, names, help) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const digit = /^Digit([1-9])$/.exec(event.code)?.[1];
  const name = event.altKey && digit ? names[Number(digit) - 1] : undefined;
  if (name) {
    event.preventDefault();
    location.hash = `#/${name}`;
  } else if (event.key === "?" && singleKeys() && !writing(event.target)) {
    event.preventDefault();
    help();
  }
}

/** @param {EventTarget | null} target */
function writing(target) {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

/**
 * @param {string[]} names
 * @param {[string, string][]} more
 */
function showShortcuts(names, more) {
  const views = names.map((name, n) => [`Alt ${n + 1}`, t(`shell.nav.${name}`)]);
  const all = [...views, ...more, ["Esc", t("shell.help.escape")], ["?", t("shell.help.this")]];
  const pressed = (/** @type {string} */ keys) => keys.split(" ").map((key) => h("kbd", null, key));
  const rows = all.map(([keys = "", does]) => h("div", null, h("dt", null, pressed(keys)), h("dd", null, does)));
  const box = h("input", { type: "checkbox", checked: singleKeys(), on: { change: () => setSingleKeys(box.checked) } });
  open({ title: t("shell.help"), body: [h("dl", { class: "keys" }, rows), h("label", { class: "check" }, box, t("shell.help.single"))], class: "dialog-small" });
}
