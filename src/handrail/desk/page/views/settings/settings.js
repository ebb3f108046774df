/** The Settings view: what this browser keeps for the person, the standing rules, and the configuration of the node. */

import { ask } from "../../bus.js";
import { confirm } from "../../dialog.js";
import { busy, h, replace } from "../../dom.js";
import { chosenTheme, setTheme } from "../../kept.js";
import { visible } from "../../text.js";
import { say } from "../../toast.js";
import { cameFrom, forget } from "../../token.js";
import { add, language, setLanguage, t } from "../../words.js";
import * as fields from "../../words/fields.js";
import * as words from "../../words/settings.js";
import { failed, loading } from "../parts.js";
import { file, nothingKept } from "./file.js";

add(words);
add(fields);

const KEY = "settings";

/** @typedef {import("../../values.js").SettingsPage} SettingsPage */

/**
 * @param {HTMLElement} main
 * @param {string[]} _params
 * @param {import("../../shell.js").Context} ctx
 */
export async function show(main, _params, ctx) {
  const left = new AbortController();
  const kept = ctx.kept.get(KEY) ?? nothingKept();
  ctx.kept.set(KEY, kept);
  const node = h("div", {});
  ctx.title(t("settings.title"));
  replace(main, h("div", { class: "page settings" }, h("header", { class: "view-head" }, h("h1", { tabindex: "-1" }, t("settings.title"))), here(), node));
  void loading(node, left.signal, async () => {
    const settings = /** @type {SettingsPage} */ (await ask("settings.show", {}, { signal: left.signal }));
    await kept.changing;
    if (!left.signal.aborted) ofNode(node, settings, kept, left.signal);
  });
  return { update() {}, leave: () => left.abort() };
}

/** What this browser keeps. */
function here() {
  const languages = { en: "English", de: "Deutsch" };
  const themes = { "": t("settings.theme.system"), light: t("settings.theme.light"), dark: t("settings.theme.dark") };
  const source = cameFrom();
  return section(
    "settings.page",
    h(
      "div",
      { class: "fields" },
      choice(t("settings.language"), "settings-language", languages, language(), (value) => setLanguage(/** @type {"en" | "de"} */ (value))),
      choice(t("settings.theme"), "settings-theme", themes, chosenTheme(), (value) => setTheme(/** @type {"light" | "dark" | ""} */ (value))),
    ),
    h("h3", {}, t("settings.token")),
    h("p", { class: "muted" }, t(`settings.token.${source || "none"}`)),
    source ? h("button", { type: "button", class: "danger", on: { click: forgotten } }, t("settings.token.forget")) : null,
  );
}

async function forgotten() {
  const sure = await confirm(t("settings.token.sure"), { title: t("settings.token.forget"), yes: t("settings.token.yes"), danger: true });
  if (sure) forget();
}

/**
 * @param {string} label
 * @param {string} id
 * @param {Record<string, string>} values
 * @param {string} now
 * @param {(value: string) => void} chosen
 */
function choice(label, id, values, now, chosen) {
  const options = Object.entries(values).map(([value, words]) => h("option", { value, selected: value === now }, words));
  const select = h("select", { id, on: { change: () => chosen(select.value) } }, options);
  return h("label", { for: id }, label, select);
}

/**
 * @param {HTMLElement} place
 * @param {SettingsPage} settings
 * @param {import("./file.js").Kept} kept
 * @param {AbortSignal} signal
 */
function ofNode(place, settings, kept, signal) {
  const rules = h("div", {});
  const sections = h("div", { class: "config" });
  /** @param {SettingsPage} now */
  function shown(now) {
    replace(rules, standing(now, shown));
    replace(sections, ...now.sections.map(values));
  }
  shown(settings);
  replace(
    place,
    section("settings.rules", h("p", { class: "muted" }, t("settings.rules.about")), rules),
    section("settings.file", file(settings, kept, signal, shown)),
    section("settings.now", sections),
  );
}

/**
 * @param {SettingsPage} settings
 * @param {(now: SettingsPage) => void} shown
 */
function standing(settings, shown) {
  if (!settings.rules?.length) return h("p", {}, t("settings.rules.none"));
  return h("ul", { class: "rules" }, settings.rules.map((rule) => standingRule(rule, shown)));
}

/**
 * @param {string} rule
 * @param {(now: SettingsPage) => void} shown
 */
function standingRule(rule, shown) {
  const label = t("settings.rules.remove-one", { rule: visible(rule) });
  const button = h("button", { type: "button", "aria-label": label, on: { click: () => void busy(button, removed()) } }, t("settings.rules.remove"));
  const line = h("li", {}, h("code", {}, visible(rule)), button);
  async function removed() {
    try {
      shown(await ask("settings.forget", { rule }));
      say(t("settings.rules.removed"));
    } catch (error) {
      line.append(failed(error));
    }
  }
  return line;
}

/** @param {import("../../values.js").SettingsSection} part */
function values(part) {
  const rows = (part.values ?? []).map(([name, value]) => [h("dt", {}, visible(name)), h("dd", { class: "anywhere" }, visible(value))]);
  return h("details", {}, h("summary", {}, h("code", {}, visible(part.name))), h("dl", { class: "facts" }, rows.flat()));
}

/**
 * @param {string} key
 * @param {...(Node | null)} inside
 */
function section(key, ...inside) {
  return h("section", { "aria-labelledby": key }, h("h2", { id: key }, t(key)), inside);
}
