/** The configuration as a form: a group for each table of the file, a field for each setting. What is there stays in place. */

import { h, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, t } from "../../words.js";
import { spoken } from "../parts.js";
import { settingField } from "./field.js";

/**
 * @typedef {import("../../values.js").SettingsForm} SettingsForm
 * @typedef {import("../../values.js").FieldGroup} FieldGroup
 * @typedef {import("../../values.js").SettingsMistake} SettingsMistake
 * @typedef {import("./field.js").Draft} Draft
 */

/** @param {Draft} draft */
export function form(draft) {
  const node = h("div", { class: "setting-groups" });
  /** @type {Map<string, ReturnType<typeof settingGroup>>} */
  const made = new Map();
  const fields = () => [...made.values()].flatMap((group) => group.fields()).filter((field) => field.node.isConnected);
  return {
    node,
    /** Whether something is typed that is not in the text. */
    typing: () => fields().some((field) => field.typing()),
    /** The first field that says what cannot be in the text. */
    refused: () => fields().find((field) => field.refused()) ?? null,
    /** @param {SettingsForm} now @param {boolean} all Also what is being typed. */
    show(now, all) {
      if (!now.groups?.length) return void replace(node, h("p", { class: "note" }, t("settings.form.none")));
      const mistake = now.problems?.[0];
      const groups = now.groups.map((group) => {
        const key = JSON.stringify(group.path);
        const found = made.get(key) ?? settingGroup(group, draft);
        made.set(key, found);
        found.update(group, mistake, all);
        return found.node;
      });
      inPlace(node, groups);
    },
  };
}

/**
 * @param {FieldGroup} first
 * @param {Draft} draft
 */
function settingGroup(first, draft) {
  const path = first.path.map((each) => visible(each)).join(".");
  const many = h("span", { class: "chip off" });
  const about = spoken(`fields.group.${first.help || "top"}`, "");
  const fields = h("div", { class: "inside", role: "group", "aria-label": path ? `[${path}]` : about });
  const others = h("ul", { class: "setting-others" });
  const title = [path ? h("code", {}, `[${path}]`) : null, " ", h("span", {}, about), " ", many];
  const node = h("details", { class: "setting-group", open: path === "" }, h("summary", {}, title), fields, others);
  /** @type {Map<string, import("./field.js").Field>} */
  const made = new Map();
  return {
    node,
    fields: () => [...made.values()],
    /** @param {FieldGroup} now @param {SettingsMistake | undefined} mistake @param {boolean} all */
    update(now, mistake, all) {
      const wanted = mistake?.path ?? [];
      const nodes = (now.fields ?? []).map((setting) => {
        const key = JSON.stringify(setting.path);
        const found = made.get(key) ?? settingField(setting, draft);
        made.set(key, found);
        const wrong = wanted.length > 0 && key === JSON.stringify(wanted.slice(0, setting.path.length));
        found.update(setting, wrong ? (mistake?.words ?? "") : "", all);
        if (wrong) node.open = true;
        return found.node;
      });
      inPlace(fields, nodes);
      replace(others, ...(now.inside ?? []).map(other));
      const n = written(now) + (now.inside?.length ?? 0);
      many.hidden = n === 0;
      many.textContent = count(n, "settings.form.written");
    },
  };

  /** @param {[string, number]} inside */
  function other([name, line]) {
    const button = h("button", { type: "button", class: "quiet", on: { click: () => draft.toLine(line) } }, t("settings.line", { n: line }));
    button.setAttribute("aria-label", t("settings.field.line", { n: line, name: visible(name) }));
    return h("li", {}, h("code", {}, visible(name)), " ", h("span", { class: "muted" }, t("settings.form.as-text")), " ", button);
  }
}

/** @param {FieldGroup} group */
function written(group) {
  return (group.fields ?? []).filter(({ line }) => line).length;
}

/**
 * Who stands in one of them still does afterwards.
 * @param {HTMLElement} parent
 * @param {HTMLElement[]} nodes
 */
function inPlace(parent, nodes) {
  if (nodes.length === parent.children.length && nodes.every((node, at) => parent.children[at] === node)) return;
  const at = /** @type {HTMLElement | null} */ (document.activeElement);
  const inside = at !== null && parent.contains(at);
  replace(parent, ...nodes);
  if (inside && at.isConnected) at.focus({ preventScroll: true });
}
