/** JSON Schemas as people read them, and the few questions that a form has about one. No DOM. */

/** @typedef {Record<string, any>} Schema */

const DEEP = 12;
/** Forms and values that are said one by one, and choices that are offered. */
const SAID = 8;
const CHOICES = 500;

/**
 * A schema with its reference followed, as far as it points into the same document.
 *
 * @param {unknown} schema
 * @param {Schema} root
 * @returns {Schema}
 */
export function resolved(schema, root) {
  let found = object(schema);
  for (let step = 0; step < DEEP && typeof found["$ref"] === "string"; step++) {
    const { $ref, ...beside } = found;
    const target = pointed($ref, root);
    if (target === null) return found;
    found = { ...target, ...beside };
  }
  return found;
}

/**
 * @param {string} ref
 * @param {Schema} root
 * @returns {Schema | null}
 */
function pointed(ref, root) {
  if (!ref.startsWith("#")) return null;
  /** @type {any} */
  let found = root;
  for (const step of ref.slice(1).split("/").slice(1)) {
    const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, name)) return null;
    found = found[name];
  }
  return object(found);
}

/**
 * @param {unknown} schema `true` and `false` are schemas too.
 * @returns {Schema}
 */
function object(schema) {
  return typeof schema === "object" && schema !== null && !Array.isArray(schema) ? /** @type {Schema} */ (schema) : {};
}

/**
 * A schema of which `null` is one form, without that form.
 *
 * @param {unknown} schema
 * @param {Schema} root
 * @returns {{schema: Schema, nullable: boolean}}
 */
export function unnulled(schema, root) {
  const found = resolved(schema, root);
  const forms = found["anyOf"] ?? found["oneOf"];
  if (Array.isArray(forms)) {
    const real = forms.filter((form) => resolved(form, root)["type"] !== "null");
    if (real.length === 1 && real.length < forms.length) {
      const { anyOf: _any, oneOf: _one, ...beside } = found;
      return { schema: { ...resolved(real[0], root), ...beside }, nullable: true };
    }
  }
  if (Array.isArray(found["type"]) && found["type"].includes("null") && found["type"].length === 2) {
    return { schema: { ...found, type: found["type"].find((type) => type !== "null") }, nullable: true };
  }
  return { schema: found, nullable: false };
}

const OPEN = ["anyOf", "oneOf", "allOf", "if", "patternProperties", "minProperties", "additionalProperties"];

/**
 * Whether arguments are asked for that have no names here, so that only JSON can say them.
 *
 * @param {Schema} root
 */
export function nameless(root) {
  const found = resolved(root, root);
  return !Object.keys(found["properties"] ?? {}).length && OPEN.some((word) => Boolean(found[word]));
}

/** @typedef {"choice" | "yes" | "text" | "number" | "group" | "list" | "json"} Kind */

/**
 * Which field asks for a value of this schema.
 *
 * @param {Schema} schema
 * @param {number} depth
 * @returns {Kind}
 */
export function kind(schema, depth) {
  if (Array.isArray(schema["enum"]) && schema["enum"].length) return schema["enum"].length > CHOICES ? "json" : "choice";
  if (schema["const"] !== undefined) return "choice";
  if (["anyOf", "oneOf", "allOf", "if", "not"].some((word) => schema[word] !== undefined)) return "json";
  switch (schema["type"]) {
    case "boolean":
      return "yes";
    case "string":
      return "text";
    case "number":
    case "integer":
      return "number";
    case "object":
      return depth < DEEP && Object.keys(schema["properties"] ?? {}).length ? "group" : "json";
    case "array":
      return depth < DEEP && schema["items"] && !schema["prefixItems"] ? "list" : "json";
    default:
      return "json";
  }
}

/**
 * The type in a word or two, as `integer`, `list of string` or `"a" | "b"`.
 *
 * @param {unknown} schema
 * @param {Schema} root
 * @param {number} [depth]
 * @returns {string}
 */
export function typeWords(schema, root, depth = 0) {
  const found = resolved(schema, root);
  if (depth > 3) return "…";
  if (Array.isArray(found["enum"])) return several(found["enum"], (value) => JSON.stringify(value));
  if (found["const"] !== undefined) return JSON.stringify(found["const"]);
  const forms = found["anyOf"] ?? found["oneOf"];
  if (Array.isArray(forms)) return several(forms, (form) => typeWords(form, root, depth + 1));
  if (found["type"] === "array") return found["items"] ? `[${typeWords(found["items"], root, depth + 1)}]` : "array";
  if (Array.isArray(found["type"])) return found["type"].join(" | ");
  if (found["type"] === undefined) return found["properties"] ? "object" : "any";
  return found["format"] ? `${found["type"]} (${found["format"]})` : String(found["type"]);
}

/**
 * @param {unknown[]} values
 * @param {(value: unknown) => string} words
 */
function several(values, words) {
  return [...values.slice(0, SAID).map(words), ...(values.length > SAID ? ["…"] : [])].join(" | ");
}

const BOUNDS = [
  ["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["exclusiveMaximum", "<"], ["multipleOf", "×"],
  ["minLength", "≥ …"], ["maxLength", "≤ …"], ["minItems", "≥ #"], ["maxItems", "≤ #"], ["pattern", "~"],
];

/**
 * What else it must fulfil, as short as it can be said.
 *
 * @param {Schema} schema
 * @returns {string}
 */
export function bounds(schema) {
  return BOUNDS.filter(([word]) => schema[/** @type {string} */ (word)] !== undefined)
    .map(([word, sign]) => `${sign} ${schema[/** @type {string} */ (word)]}`)
    .join(", ");
}

/**
 * @typedef {{path: string, depth: number, name: string, schema: Schema, required: boolean, type: string}} Line
 */

/**
 * The fields of a schema, one line each, those of nested objects after their own.
 *
 * @param {Schema} root
 * @returns {Line[]}
 */
export function lines(root) {
  /** @type {Line[]} */
  const found = [];
  spread(resolved(root, root), root, "", 0, found);
  return found;
}

const MOST = 200;

/**
 * @param {Schema} schema
 * @param {Schema} root
 * @param {string} path
 * @param {number} depth
 * @param {Line[]} found
 */
function spread(schema, root, path, depth, found) {
  for (const [name, inner] of Object.entries(schema["properties"] ?? {})) {
    if (found.length >= MOST) return;
    const { schema: own } = unnulled(inner, root);
    const here = path ? `${path}.${name}` : name;
    const required = Array.isArray(schema["required"]) && schema["required"].includes(name);
    found.push({ path: here, depth, name, schema: own, required, type: typeWords(inner, root) });
    const below = own["type"] === "array" ? resolved(own["items"], root) : own;
    if (depth < 4) spread(below, root, own["type"] === "array" ? `${here}[]` : here, depth + 1, found);
  }
}
