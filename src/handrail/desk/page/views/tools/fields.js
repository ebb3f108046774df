/** The fields of a form that is made from a JSON Schema: one function for each kind of value. */

import { h, icon, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { t } from "../../words.js";
import { bounds, kind, typeWords, unnulled } from "./schema.js";
import { exactly, numberIn, rounded, valueIn } from "./written.js";

/**
 * @typedef {import("./schema.js").Schema} Schema
 * @typedef {object} Field
 * @property {HTMLElement} node
 * @property {() => any} read The value; undefined is none. What cannot be read is told to `form.wrong`.
 * @typedef {object} Form What all fields of one form share.
 * @property {Schema} root
 * @property {ReadonlySet<string>} secrets
 * @property {() => string} id
 * @property {() => boolean} full Whether there are so many fields that the rest is written as JSON.
 * @property {Map<HTMLElement, () => string>} places Where problems are shown, and of which path.
 * @property {(path: string, words: string) => void} wrong
 * @typedef {object} Asked
 * @property {() => string} path As it is now: an item of a list moves up when one before it goes.
 * @property {string} name
 * @property {Schema} schema
 * @property {boolean} required
 * @property {boolean} nullable
 * @property {any} given
 * @property {number} depth
 * @typedef {{node: HTMLElement, name: string, read: () => any}} Item Of a list.
 */

/** @type {Record<import("./schema.js").Kind, (form: Form, asked: Asked) => Field>} */
const FIELDS = { choice, yes, text, number, group, list, json };

/**
 * @param {Form} form
 * @param {{path: () => string, name: string, schema: unknown, required: boolean, given?: any, depth?: number}} wanted
 * @returns {Field}
 */
export function field(form, { path, name, schema: written, required, given, depth = 0 }) {
  const { schema, nullable } = unnulled(written, form.root);
  const begun = given !== undefined ? given : schema["default"] !== undefined ? schema["default"] : example(schema);
  return FIELDS[form.full() ? "json" : kind(schema, depth)](form, { path, name, schema, required, nullable, given: begun, depth });
}

/** @param {Schema} schema */
function example(schema) {
  return Array.isArray(schema["examples"]) ? schema["examples"][0] : undefined;
}

/**
 * A control with its name, what it is for and a place for what is wrong with it.
 *
 * @param {Form} form
 * @param {Asked} asked
 * @param {HTMLElement} control
 */
function labelled(form, asked, control) {
  const [id, about, wrong] = [form.id(), form.id(), form.id()];
  const place = h("span", { class: "field-wrong", id: wrong });
  form.places.set(place, asked.path);
  control.id = id;
  control.setAttribute("aria-describedby", `${about} ${wrong}`);
  if (asked.required) control.setAttribute("aria-required", "true");
  const limits = bounds(asked.schema);
  const type = visible(typeWords(asked.schema, form.root));
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, visible(asked.name), asked.required ? h("span", { class: "required" }, ` ${t("tools.form.required")}`) : null),
    h("span", { class: "field-about", id: about }, [type, limits && visible(limits), said(asked)].filter(Boolean).join(" · ")),
    control,
    place,
  );
}

/** @param {Asked} asked */
function said({ schema, name }) {
  const words = schema["description"] ?? (schema["title"] === name ? "" : schema["title"]);
  return typeof words === "string" ? visible(words.replace(/\s+/g, " ")) : "";
}

/** @param {Asked} asked @returns {any} What an empty field means. */
function nothing({ required, nullable }) {
  return required && nullable ? null : undefined;
}

/** @type {(form: Form, asked: Asked) => Field} */
function text(form, asked) {
  const { schema, given, required, path } = asked;
  const secret = form.secrets.has(path()) || form.secrets.has(asked.name) || schema["format"] === "password";
  const value = typeof given === "string" ? given : "";
  const line = schema["format"] || schema["pattern"] || (schema["maxLength"] ?? Infinity) <= 120;
  const short = secret || (line && !value.includes("\n"));
  const control = short
    ? h("input", { type: secret ? "password" : "text", autocomplete: secret ? "new-password" : "off", spellcheck: "false", value })
    : h("textarea", { rows: Math.min(12, value.split("\n").length), autocomplete: "off", spellcheck: "false", value });
  const read = () => (control.value === "" && !required ? nothing(asked) : control.value);
  return { node: labelled(form, asked, control), read };
}

/** @type {(form: Form, asked: Asked) => Field} */
function number(form, asked) {
  const { given, schema, path } = asked;
  const whole = schema["type"] === "integer";
  // A default that came rounded is left to the node, which has all of its digits.
  const value = given === undefined || given === null || rounded(given) ? "" : String(given.rawJSON ?? given);
  const control = h("input", { type: "text", inputmode: whole ? "numeric" : "decimal", autocomplete: "off", value });
  const read = () => {
    const written = control.value.trim();
    if (written === "") return nothing(asked);
    const value = numberIn(written);
    if (!Number.isFinite(value)) form.wrong(path(), t("tools.form.no-number"));
    else if (whole && !Number.isInteger(value)) form.wrong(path(), t("tools.form.no-integer"));
    else if (rounded(value) && !/e/i.test(written)) return exactly(written) ?? form.wrong(path(), t("tools.form.rounded"));
    return value;
  };
  return { node: labelled(form, asked, control), read };
}

/** @type {(form: Form, asked: Asked) => Field} */
function choice(form, asked) {
  const { schema, given, required } = asked;
  /** @type {unknown[]} */
  const values = schema["enum"] ?? [schema["const"]];
  const chosen = given === undefined && required ? 0 : values.findIndex((value) => JSON.stringify(value) === JSON.stringify(given));
  const options = values.map((value, at) => {
    return h("option", { value: String(at), selected: at === chosen }, visible(typeof value === "string" ? value : JSON.stringify(value)));
  });
  const none = required ? null : h("option", { value: "-1", selected: chosen < 0 }, t("tools.form.none"));
  const control = h("select", {}, none, options);
  const read = () => (Number(control.value) < 0 ? nothing(asked) : values[Number(control.value)]);
  return { node: labelled(form, asked, control), read };
}

/** @type {(form: Form, asked: Asked) => Field} */
function yes(form, asked) {
  const named = [t("tools.form.yes"), t("tools.form.no")];
  const both = choice(form, { ...asked, schema: { ...asked.schema, enum: [true, false] }, given: asked.given ?? (asked.required ? false : undefined) });
  for (const option of both.node.querySelectorAll("option")) option.textContent = named[Number(option.value)] ?? option.textContent;
  return both;
}

/** @type {(form: Form, asked: Asked) => Field} */
function json(form, asked) {
  const value = asked.given === undefined ? "" : JSON.stringify(asked.given, null, 2);
  const control = h("textarea", { class: "mono", rows: Math.min(12, value.split("\n").length + 1), autocomplete: "off", spellcheck: "false", placeholder: "JSON", value });
  const read = () => {
    if (control.value.trim() === "") return nothing(asked);
    return valueIn(control.value, (words) => form.wrong(asked.path(), words));
  };
  return { node: labelled(form, asked, control), read };
}

/** The fields of an object. @type {(form: Form, asked: Asked) => Field} */
function group(form, asked) {
  const inner = members(form, asked.schema, asked.path, asked.given, asked.depth + 1);
  if (asked.required && !asked.nullable) return { node: boxed(form, asked, inner.nodes), read: inner.read };
  const given = h("input", { type: "checkbox", checked: asked.given !== undefined && asked.given !== null });
  const box = boxed(form, asked, inner.nodes, h("label", { class: "given" }, given, t("tools.form.give")));
  const shown = () => box.classList.toggle("left-out", !given.checked);
  given.addEventListener("change", shown);
  shown();
  return { node: box, read: () => (given.checked ? inner.read() : nothing(asked)) };
}

/**
 * @param {Form} form
 * @param {Schema} schema
 * @param {() => string} path
 * @param {any} given
 * @param {number} depth
 */
export function members(form, schema, path, given, depth) {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const fields = Object.entries(schema["properties"] ?? {}).map(([name, inner]) => {
    const value = typeof given === "object" && given !== null && Object.hasOwn(given, name) ? given[name] : undefined;
    const wanted = { path: () => [path(), name].filter(Boolean).join("."), name, schema: inner, required: required.includes(name), given: value, depth };
    return { name, ...field(form, wanted) };
  });
  const read = () => {
    const found = fields.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined);
    return Object.fromEntries(found);
  };
  return { nodes: fields.map(({ node }) => node), read };
}

/**
 * @param {Form} form
 * @param {Asked} asked
 * @param {Node[]} inside
 * @param {Node | null} [switched]
 */
function boxed(form, asked, inside, switched = null) {
  const wrong = form.id();
  const place = h("span", { class: "field-wrong", id: wrong });
  form.places.set(place, asked.path);
  const star = asked.required ? h("span", { class: "required" }, ` ${t("tools.form.required")}`) : null;
  const about = said(asked);
  return h(
    "fieldset",
    { class: "group", "aria-describedby": wrong },
    h("legend", {}, visible(asked.name), star),
    about ? h("span", { class: "field-about" }, about) : null,
    switched,
    h("div", { class: "inside" }, inside),
    place,
  );
}

/** @type {(form: Form, asked: Asked) => Field} */
function list(form, asked) {
  const items = h("ol", { class: "items" });
  /** @type {Item[]} */
  const held = [];

  /** @param {any} [given] */
  function add(given) {
    const name = `${asked.name} ${held.length + 1}`;
    const item = { node: h("li", {}), name, read: () => undefined };
    held.push(item);
    const path = () => `${asked.path()}[${held.indexOf(item)}]`;
    const one = field(form, { path, name, schema: asked.schema["items"], required: true, given, depth: asked.depth + 1 });
    const label = visible(t("tools.form.remove", { name }));
    const button = h("button", { type: "button", class: "quiet", "aria-label": label, on: { click: () => remove(item) } }, icon("close"));
    item.read = one.read;
    items.append(replace(item.node, one.node, button));
    return item.node;
  }
  /** The rest moves up, and keeps what was written there. @param {Item} gone */
  function remove(gone) {
    held.splice(held.indexOf(gone), 1);
    for (const place of form.places.keys()) if (gone.node.contains(place)) form.places.delete(place);
    gone.node.remove();
    for (const [at, item] of held.entries()) rename(item, `${asked.name} ${at + 1}`);
    more.focus();
  }
  const more = h("button", { type: "button", class: "quiet", on: { click: () => focusFirst(add()) } }, icon("plus"), t("tools.form.add"));
  for (const value of Array.isArray(asked.given) ? asked.given : []) add(value);
  const node = boxed(form, asked, [items, more]);
  const read = () => (held.length || asked.required ? held.map(({ read }) => read()) : nothing(asked));
  return { node, read };
}

/**
 * An item has its number in its name, and in the names of what is in it.
 *
 * @param {Item} item
 * @param {string} now
 */
function rename(item, now) {
  const [old, other] = [visible(item.name), visible(now)];
  for (const each of item.node.querySelectorAll("label, legend")) {
    const words = each.firstChild;
    if (words?.textContent?.startsWith(old)) words.textContent = other + words.textContent.slice(old.length);
  }
  for (const each of item.node.querySelectorAll("[aria-label]")) {
    each.setAttribute("aria-label", (each.getAttribute("aria-label") ?? "").replace(old, () => other));
  }
  item.name = now;
}

/** @param {HTMLElement} node */
function focusFirst(node) {
  /** @type {HTMLElement | null} */ (node.querySelector("input, textarea, select"))?.focus();
}
