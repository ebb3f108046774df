/** A form that is made from the schema of a tool. What it gives is checked by the node, not here. */

import { h, replace } from "../../dom.js";
import { block } from "../../text.js";
import { t } from "../../words.js";
import { members } from "./fields.js";
import { byField } from "./problems.js";
import { resolved } from "./schema.js";

/** Fields of a form. A schema that contains itself would have no end of them. */
const MOST = 200;

/**
 * @param {Record<string, any>} schema
 * @param {{given?: any, secrets?: readonly string[]}} [options]
 */
export function schemaForm(schema, { given, secrets = [] } = {}) {
  /** @type {Map<HTMLElement, () => string>} */
  const places = new Map();
  const general = h("div", { class: "field-wrong" });
  let numbered = 0;
  let faults = 0;

  /**
   * @param {string} path
   * @param {string} words
   */
  function wrong(path, words) {
    faults += 1;
    const place = [...places].find(([, at]) => at() === path)?.[0] ?? general;
    place.append(h("span", { class: "problem" }, block(place === general && path ? `${path}: ${words}` : words)));
    const control = place.previousElementSibling;
    if (control?.matches("input, textarea, select")) control.setAttribute("aria-invalid", "true");
  }

  function clear() {
    faults = 0;
    for (const place of [general, ...places.keys()]) {
      replace(place);
      place.previousElementSibling?.removeAttribute("aria-invalid");
    }
  }

  const form = { root: schema, secrets: new Set(secrets), id: () => `f${(numbered += 1)}`, full: () => places.size >= MOST, places, wrong };
  const inner = members(form, resolved(schema, schema), () => "", given, 0);
  const none = inner.nodes.length ? null : h("p", { class: "muted" }, t("tools.form.nothing"));
  const node = h("div", { class: "schema-form" }, none, inner.nodes, general);

  return {
    node,
    /**
     * What the person wrote, or null where something of it cannot be read.
     *
     * @returns {Record<string, any> | null}
     */
    read() {
      clear();
      const value = inner.read();
      return faults ? (first(), null) : value;
    },
    /**
     * Why the node refused it, each beside its field.
     *
     * @param {string} message
     */
    refused(message) {
      clear();
      for (const [path, words] of byField(message, new Set([...places.values()].map((at) => at())))) for (const each of words) wrong(path, each);
      first();
    },
    clear,
  };

  /** The first field with a problem is where the person goes on. */
  function first() {
    /** @type {HTMLElement | null} */ (node.querySelector("[aria-invalid]"))?.focus();
  }
}
