/** One tool: what it is for, what it takes, how its calls are treated, how it did, and a form to try it. */

import { ask } from "../../bus.js";
import { h, icon, replace } from "../../dom.js";
import { markdown } from "../../markdown.js";
import { json, visible } from "../../text.js";
import { number, t } from "../../words.js";
import { outcome, spoken } from "../parts.js";
import { effects, numbers } from "./list.js";
import { bounds, lines, typeWords } from "./schema.js";
import { trial } from "./trial.js";

/** @typedef {import("../../values.js").ToolPage} ToolPage */

/**
 * @param {HTMLElement} place
 * @param {string} name
 * @param {AbortSignal} signal
 */
export async function showPage(place, name, signal) {
  const page = /** @type {ToolPage} */ (await ask("desk.tool", { name }, { signal }));
  const usage = h("div", {}, numbers(page.row), outcomes(page));
  /** What is known of its use after it was tried. */
  async function renew() {
    const now = /** @type {ToolPage} */ (await ask("desk.tool", { name }, { signal }));
    replace(usage, numbers(now.row), outcomes(now));
  }
  replace(
    place,
    h("p", {}, h("a", { href: "#/tools", class: "back" }, icon("back"), t("tools.back"))),
    head(page),
    h(
      "div",
      { class: "tool-columns" },
      h(
        "div",
        {},
        h("div", { class: "prose" }, markdown(page.description)),
        section("tools.takes", table(page.input_schema, "tools.takes"), raw("tools.raw", page.input_schema)),
        page.output_schema ? section("tools.gives", table(page.output_schema, "tools.gives"), raw("tools.raw", page.output_schema)) : null,
        section("tools.treated", limits(page)),
        section("tools.rules", rules(page)),
        section("tools.use", usage),
      ),
      trial(page, signal, renew),
    ),
  );
}

/** @param {ToolPage} page */
function head({ row, tags }) {
  const source = [row.ensemble ? t("tools.of", { name: visible(row.ensemble) }) : "", visible(row.source ?? "")].filter(Boolean);
  return h(
    "header",
    { class: "view-head" },
    h("h1", { tabindex: "-1" }, h("code", {}, visible(row.name))),
    h(
      "p",
      { class: "tool-chips" },
      effects(row),
      row.deprecated ? h("span", { class: "chip warn" }, t("tools.deprecated")) : null,
      (tags ?? []).map((tag) => h("span", { class: "chip" }, visible(tag))),
    ),
    source.length ? h("p", { class: "muted anywhere" }, source.join(" · ")) : null,
  );
}

/**
 * @param {string} key
 * @param {...(Node | null)} inside
 */
function section(key, ...inside) {
  return h("section", {}, h("h2", {}, t(key)), inside);
}

/**
 * @param {Record<string, any>} schema
 * @param {string} title
 */
function table(schema, title) {
  const found = lines(schema);
  const type = typeWords(schema, schema);
  if (!found.length) return h("p", { class: "muted" }, type === "object" ? t("tools.no-fields") : h("code", {}, visible(type)));
  const rows = found.map(({ name, depth, schema: own, required, type }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", style: { "--depth": String(depth) } }, h("code", {}, visible(name)), required ? h("span", { class: "required" }, ` ${t("tools.form.required")}`) : null),
      h("td", {}, h("code", {}, visible(type)), bounds(own) ? h("span", { class: "muted" }, ` ${visible(bounds(own))}`) : null),
      h("td", {}, visible(String(own["description"] ?? "").replace(/\s+/g, " ")), standard(own)),
    ),
  );
  const heads = ["tools.field", "tools.type", "tools.says"].map((key) => h("th", { scope: "col" }, t(key)));
  return h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": t(title) }, h("table", { class: "schema" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

/** @param {Record<string, any>} schema */
function standard(schema) {
  if (schema["default"] === undefined) return null;
  return h("span", { class: "muted" }, ` ${t("tools.default")} `, h("code", {}, visible(JSON.stringify(schema["default"]))));
}

/**
 * @param {string} key
 * @param {unknown} value
 */
function raw(key, value) {
  const inside = h("div", {});
  const fold = h("details", { class: "raw", on: { toggle: () => fold.open && replace(inside, json(value)) } }, h("summary", {}, t(key)), inside);
  return fold;
}

/** @param {ToolPage} page */
function limits(page) {
  const known = Object.entries(page.limits ?? {}).filter(([, value]) => value !== null && value !== "");
  const told = known.map(([name, value]) => [spoken(`tools.limit.${name}`, name.replaceAll("_", " ")), typeof value === "object" ? JSON.stringify(value) : plainly(value)]);
  const secrets = visible((page.secrets ?? []).join(", "));
  if (secrets) told.push([t("tools.secrets"), secrets]);
  if (page.definition) told.push([t("tools.digest"), page.definition]);
  return h("dl", { class: "facts" }, told.map(([name, value]) => [h("dt", {}, visible(name ?? "")), h("dd", { class: "anywhere" }, visible(value ?? ""))]).flat());
}

/** @param {unknown} value */
function plainly(value) {
  if (typeof value === "boolean") return t(value ? "tools.form.yes" : "tools.form.no");
  return typeof value === "number" ? number(value) : String(value);
}

/** @param {ToolPage} page */
function rules(page) {
  if (!page.rules?.length) return h("p", { class: "muted" }, t(page.row.side_effects ? "tools.rules.none" : "tools.rules.reads"));
  return h("ol", { class: "rules" }, page.rules.map((rule) => h("li", {}, h("code", {}, visible(rule)))));
}

/** @param {ToolPage} page */
function outcomes(page) {
  const found = Object.entries(page.outcomes ?? {});
  if (!found.length) return null;
  return h("p", { class: "outcomes" }, found.map(([name, n]) => h("span", {}, outcome(name), ` ${number(n)}`)));
}
