/** One setting as a field: its name, what it is for, its value, and where that comes from. */

import { h, replace } from "../../dom.js";
import { newId } from "../../ids.js";
import { block, visible } from "../../text.js";
import { number, t } from "../../words.js";
import { spoken } from "../parts.js";
import { numberIn } from "../tools/written.js";

/**
 * @typedef {import("../../values.js").SettingField} Setting
 * @typedef {boolean | number | string | string[] | null} Value
 * @typedef {object} Draft What a field can do with the text that it is a part of.
 * @property {boolean} writable
 * @property {() => void} typed Something was typed that is not in the text yet.
 * @property {(path: string[], value: Value) => Promise<string>} change Tells why not, or nothing.
 * @property {(line: number) => void} toLine
 * @typedef {ReturnType<typeof settingField>} Field
 * @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control
 */

/** What a control says that cannot be a value. */
class Unread extends Error {}

/** Of each form how a control shows a value, and reads it.
 * @type {Record<string, {make: (setting: Setting) => Control, show: (value: any) => string, read: (written: string) => Value}>} */
const FORMS = {
  flag: { make: (setting) => select(setting, [["true", yesNo(true)], ["false", yesNo(false)]]), show: shown, read: (written) => (written === "" ? null : written === "true") },
  choice: { make: (setting) => select(setting, (setting.words ?? []).map((word) => [word, word])), show: shown, read: (written) => written || null },
  count: { make: () => line("numeric"), show: shown, read: asNumber },
  number: { make: () => line("decimal"), show: shown, read: asNumber },
  text: { make: () => line("text"), show: shown, read: (written) => written || null },
  variable: { make: () => line("text"), show: shown, read: (written) => written.trim() || null },
  texts: {
    make: () => h("textarea", { rows: 1, class: "mono", spellcheck: "false", autocomplete: "off" }),
    show: (value) => (value ?? []).join("\n"),
    read: (written) => written.split("\n").filter((each) => each.trim() !== ""),
  },
};

/**
 * @param {Setting} first
 * @param {Draft} draft
 */
export function settingField(first, draft) {
  const form = FORMS[first.form] ?? FORMS["text"];
  if (!form) throw new TypeError(first.form);
  const { make, show, read } = form;
  const [id, about, where, wrong] = [newId(), newId(), newId(), newId()].map((each) => `setting-${each}`);
  const dotted = first.path.map((each) => visible(each)).join(".");
  const control = make(first);
  const origin = h("span", { class: "setting-origin", id: where });
  const place = h("span", { class: "field-wrong", id: wrong });
  let setting = first;
  let typing = false;
  /** Why what is typed is not in the text. */
  let refused = "";
  let told = "";

  async function changed() {
    /** @type {Value} */
    let value;
    try {
      value = read(control.value);
    } catch (error) {
      if (!(error instanceof Unread)) throw error;
      return complain((refused = error.message));
    }
    await put(value);
  }
  async function reset() {
    const group = node.closest("details")?.querySelector("summary");
    await put(null);
    // One that goes by another name, too, is not shown once it is taken out.
    if (!refused) (control.isConnected ? control : group)?.focus();
  }
  /** @param {Value} value */
  async function put(value) {
    [typing, refused] = [false, ""];
    refused = await draft.change(setting.path, value);
    if (!refused) return;
    typing = true;
    complain(refused, setting.line ?? 0);
  }
  /** @param {string} words @param {number} [at] */
  function complain(words, at = 0) {
    control.setAttribute("aria-invalid", "true");
    replace(place, h("span", { class: "problem", role: "alert" }, block(words), " ", at ? toLine(at) : null));
  }
  /** @param {number} at */
  function toLine(at) {
    const label = t("settings.field.line", { n: at, name: dotted });
    return h("button", { type: "button", class: "quiet", "aria-label": label, on: { click: () => draft.toLine(at) } }, t("settings.line", { n: at }));
  }
  function sources() {
    const written = Boolean(setting.line);
    const said = setting.stuck ? t("settings.field.stuck") : written ? t("settings.field.written") : byDefault(setting);
    const out = t(setting.default == null ? "settings.field.remove" : "settings.field.reset");
    const label = `${out}: ${dotted}`;
    const back = written && !setting.stuck && draft.writable ? h("button", { type: "button", class: "quiet", "aria-label": label, on: { click: () => void reset() } }, out) : null;
    const held = written && setting.default != null ? h("span", {}, t("settings.field.default", { value: inWords(setting.default) })) : null;
    return [h("span", {}, said), written ? toLine(setting.line ?? 0) : null, held, back, ...(setting.variables ?? []).map(variable)];
  }

  /** Where the value comes from, anew only if that has changed: somebody may stand on a button of it. */
  function tell() {
    const now = JSON.stringify([setting.line, setting.stuck, setting.default, setting.variables]);
    if (now === told) return;
    told = now;
    const inside = origin.contains(document.activeElement);
    replace(origin, ...sources());
    if (inside) control.focus({ preventScroll: true });
  }

  control.id = id ?? "";
  control.setAttribute("aria-describedby", `${about} ${where} ${wrong}`);
  control.addEventListener("input", () => ((typing = control.value !== show(setting.value ?? null)), draft.typed()));
  control.addEventListener("change", () => void changed());
  const node = h(
    "div",
    { class: "field setting" },
    h("label", { for: id }, h("code", {}, visible(first.path.at(-1) ?? ""))),
    h("span", { class: "field-about", id: about }, spoken(`fields.${first.help}`, "")),
    control,
    origin,
    place,
  );
  return {
    node,
    typing: () => typing,
    refused: () => refused,
    focus() {
      node.closest("details")?.setAttribute("open", "");
      control.focus();
    },
    /** What is being typed stays, unless it is taken back. @param {Setting} now @param {string} why @param {boolean} all */
    update(now, why, all) {
      setting = now;
      if (all) [typing, refused] = [false, ""];
      if (!typing) control.value = show(now.value ?? null);
      control.disabled = !draft.writable || Boolean(now.stuck);
      if (control instanceof HTMLSelectElement && control.options[0]) control.options[0].textContent = otherwise(now);
      tell();
      if (why) complain(why);
      else if (!typing) (replace(place), control.removeAttribute("aria-invalid"));
    },
  };
}

/** @param {Setting} setting */
function byDefault(setting) {
  return setting.default == null ? t("settings.field.unset") : t("settings.field.unset-holds", { value: inWords(setting.default) });
}

/** What holds where nothing is chosen. @param {Setting} setting */
function otherwise(setting) {
  return setting.default == null ? t("settings.field.none") : t("settings.field.as-default", { value: inWords(setting.default) });
}

/** @param {[string, boolean]} variable */
function variable([name, set]) {
  return h("span", { class: set ? "chip good" : "chip warn" }, t(set ? "settings.field.set" : "settings.field.not-set", { name: visible(name) }));
}

/** @param {boolean} value */
function yesNo(value) {
  return t(value ? "settings.field.yes" : "settings.field.no");
}

/** A value in words. @param {any} value */
function inWords(value) {
  if (typeof value === "boolean") return yesNo(value);
  if (typeof value === "number") return number(value);
  return Array.isArray(value) ? value.map((each) => visible(each)).join(", ") || t("settings.field.none") : visible(String(value));
}

/** @param {any} value */
function shown(value) {
  return value === null ? "" : String(value);
}

/** @param {string} written */
function asNumber(written) {
  if (written.trim() === "") return null;
  const value = numberIn(written.trim());
  if (!Number.isFinite(value)) throw new Unread(t("settings.field.no-number"));
  return value;
}

/** @param {"numeric" | "decimal" | "text"} mode */
function line(mode) {
  return h("input", { type: "text", inputmode: mode, spellcheck: "false", autocomplete: "off" });
}

/** @param {Setting} setting @param {string[][]} options */
function select(setting, options) {
  const none = h("option", { value: "" }, otherwise(setting));
  return h("select", {}, none, options.map(([value, words]) => h("option", { value }, visible(words ?? ""))));
}
