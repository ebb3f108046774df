/** What this browser keeps for the person: colours, and whether single keys do something. Not the language (words.js). */

const THEME = "handrail.theme";
const KEYS = "handrail.single-keys";

/** @returns {"light" | "dark"} */
export function theme() {
  const said = document.documentElement.dataset.theme;
  if (said === "light" || said === "dark") return said;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @returns {"light" | "dark" | ""} What the person chose; "" is as the system has it. */
export function chosenTheme() {
  const said = document.documentElement.dataset.theme;
  return said === "light" || said === "dark" ? said : "";
}

/** @param {"light" | "dark" | ""} wanted "" is as the system has it. */
export function setTheme(wanted) {
  if (wanted) document.documentElement.dataset.theme = wanted;
  else delete document.documentElement.dataset.theme;
  keep(THEME, wanted);
  document.dispatchEvent(new Event("theme"));
}

/** @returns {boolean} */
export function singleKeys() {
  return read(KEYS) !== "off";
}

/** @param {boolean} wanted */
export function setSingleKeys(wanted) {
  keep(KEYS, wanted ? "on" : "off");
}

/** @param {string} key */
function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // a browser that keeps nothing for pages
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Then it holds until the page is closed.
  }
}
