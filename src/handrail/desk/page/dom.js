/**
 * Elements, made by hand: nothing here, and nothing that uses it, ever parses HTML. Text is text.
 *
 * An address that could run something is refused, whoever asks for it.
 */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Child | Child[]} Children */
/**
 * `on` are listeners, `data` are data- attributes, `style` are custom properties and other styles (set by script, which
 * the policy of the page allows). Everything else is an attribute: `true` is an empty one, `false`, null and undefined
 * are none. `value`, `checked`, `indeterminate`, `selected` are properties.
 * @typedef {{class?: string | null, on?: Record<string, (event: any) => void>, data?: Record<string, string | number>,
 *   style?: Record<string, string>, [attribute: string]: unknown}} Props
 */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "indeterminate", "selected"]);
const ADDRESSES = new Set(["href", "src"]);
const HARMLESS = /^(?:https?:|mailto:|blob:|#|\/(?!\/)|\.\/)/i;

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props | null} [props]
 * @param {...Children} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const made = document.createElement(tag);
  dress(made, props ?? {});
  return fill(made, children);
}

/**
 * An element of a drawing.
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...Children} children
 * @returns {SVGElement}
 */
export function svg(tag, props, ...children) {
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  dress(made, props ?? {});
  return fill(made, children);
}

/**
 * What a node holds from now on.
 * @template {Element | DocumentFragment} N
 * @param {N} node
 * @param {...Children} children
 * @returns {N}
 */
export function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}

/**
 * One by one: there may be more of them than a call takes arguments.
 * @template {Element | DocumentFragment} N
 * @param {N} node
 * @param {Children[]} children
 * @returns {N}
 */
export function fill(node, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/**
 * @param {HTMLElement | SVGElement} made
 * @param {Props} props
 */
function dress(made, props) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") listen(made, props.on ?? {});
    else if (name === "data") for (const [key, said] of Object.entries(props.data ?? {})) made.dataset[key] = String(said);
    else if (name === "style") for (const [key, said] of Object.entries(props.style ?? {})) made.style.setProperty(key, said);
    else if (PROPERTIES.has(name)) Reflect.set(made, name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) attribute(made, name, String(value));
  }
}

/**
 * @param {Element} made
 * @param {string} name
 * @param {string} value
 */
function attribute(made, name, value) {
  if (/^on/i.test(name) || name === "srcdoc") throw new TypeError(`${name} is no attribute to be set; use on: {}`);
  if (ADDRESSES.has(name) && !HARMLESS.test(value)) throw new TypeError(`this is no address to go to: ${value.slice(0, 40)}`);
  made.setAttribute(name, value);
}

/**
 * @param {Element} made
 * @param {Record<string, (event: any) => void>} listeners
 */
function listen(made, listeners) {
  for (const [event, heard] of Object.entries(listeners)) made.addEventListener(event, heard);
}

/** Paths on a ground of 24 by 24, drawn with a line. */
const ICONS = {
  alert: "M12 8v5M12 16.5v.01M10.3 4 2.6 17.5A2 2 0 0 0 4.3 20.5h15.4a2 2 0 0 0 1.7-3L13.7 4a2 2 0 0 0-3.4 0Z",
  attach: "m20 11.5-8.4 8.4a5 5 0 0 1-7-7L13 4.4a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.4a1.7 1.7 0 0 1-2.4-2.3l7.8-7.8",
  back: "M19 12H5m6-6-6 6 6 6",
  chat: "M4 5h16v11H10l-4.5 4V16H4Z",
  check: "m5 12.5 4.5 4.5L19 7.5",
  chevron: "m9 6 6 6-6 6",
  close: "m6 6 12 12M18 6 6 18",
  copy: "M9 9h11v11H9ZM5 15H4V4h11v1",
  download: "M12 4v11m-5-4.5 5 5 5-5M4 20h16",
  edit: "M4 20h4L19 9l-4-4L4 16Zm9-13 4 4",
  fork: "M7 4v16m0-7c0-4 10-2 10-7M7 4l-2.5 2.5M7 4l2.5 2.5M17 6l-2-2.5M17 6l2-2.5",
  help: "M9 9.2a3 3 0 1 1 4.3 2.7c-.9.5-1.3 1-1.3 2.1M12 17.5v.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  language: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM3 12h18M12 3c5 5.5 5 12.5 0 18M12 3c-5 5.5-5 12.5 0 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  more: "M5.5 12v.01M12 12v.01M18.5 12v.01",
  network: "M12 4.5v4M12 12l-5.5 4M12 12l5.5 4M12 8.5a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6ZM5 16a2 2 0 1 0 0 4 2 2 0 0 0 0-4ZM19 16a2 2 0 1 0 0 4 2 2 0 0 0 0-4ZM12 2.5a1 1 0 1 0 0 2 1 1 0 0 0 0-2Z",
  plus: "M12 5v14M5 12h14",
  proof: "M12 3 5 6v5.5c0 4.5 3 7.7 7 9.5 4-1.8 7-5 7-9.5V6Zm-3 9 2.2 2.2L15.5 10",
  reload: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Zm4.7-1.8L20 20",
  send: "M12 19V5m-6 6 6-6 6 6",
  settings: "M4 7h9m4 0h3M4 17h3m4 0h9M15 4.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5ZM9 14.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5Z",
  share: "M12 15V4m-4.5 4L12 3.5 16.5 8M5 12v8h14v-8",
  stop: "M7 7h10v10H7Z",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  tools: "M14.5 6.5a4 4 0 0 1 5-1.5l-2.7 2.7 1.5 1.5L21 6.5a4 4 0 0 1-5.3 5L8.2 19a2 2 0 0 1-3.2-3.2l7.5-7.5a4 4 0 0 1 2-1.8Z",
  trash: "M4 7h16M9 7V4h6v3m2.5 0-.8 13H7.3L6.5 7M10 11v5m4-5v5",
  undo: "M8 5 4 9l4 4M4 9h10a5.5 5.5 0 0 1 0 11H9",
};

/**
 * A small drawing that says nothing to who cannot see it: the button around it has its own name.
 * @param {keyof typeof ICONS} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const drawn = { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" };
  return svg("svg", drawn, svg("path", { d: ICONS[name] }));
}

/**
 * A button that cannot be pressed again until what it began has ended. Whoever pressed it by key is still there then.
 * @template T
 * @param {HTMLButtonElement} button
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export async function busy(button, promise) {
  const focused = document.activeElement === button;
  button.setAttribute("aria-busy", "true");
  button.disabled = true;
  try {
    return await promise;
  } finally {
    button.removeAttribute("aria-busy");
    button.disabled = false;
    if (focused && unfocused()) button.focus();
  }
}

/** Whether the focus is nowhere: what had it is gone, hidden or cannot be used. */
export function unfocused() {
  return document.activeElement === null || document.activeElement === document.body;
}

/**
 * Let the person save something that came over the wire.
 * @param {import("./values.js").FileDownload} file
 */
export function save(file) {
  const bytes = fromBase64(file.data);
  // Never the type that was said: what is saved is not shown as a page of this node.
  const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  h("a", { href: address, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/**
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  // By hand: `Uint8Array.from` with a function is many times slower, and this may be 10 MB.
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}
