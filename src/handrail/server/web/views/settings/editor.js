/** The configuration file as text: with line numbers, checked as one types, and saved only over what one has seen. */

import { CallError, ask } from "../../bus.js";
import { confirm } from "../../dialog.js";
import { busy, h, replace } from "../../dom.js";
import { block, visible } from "../../text.js";
import { say } from "../../toast.js";
import { t } from "../../words.js";
import { failed, settled } from "../parts.js";

/** @typedef {import("../../values.js").Settings} Settings */

const TYPED = 400;

/**
 * @param {Settings} first
 * @param {AbortSignal} signal
 * @param {(now: Settings) => void} saved
 */
export function editor(first, signal, saved) {
  let settings = first;
  const writable = settings.writable ?? false;
  const state = h("div", { class: "editor-state", role: "status" });
  const numbers = h("pre", { class: "line-numbers", "aria-hidden": "true" });
  const text = h("textarea", { id: "config-text", spellcheck: "false", autocomplete: "off", wrap: "off", readonly: !writable, value: settings.text, "aria-label": t("settings.file.label") });
  const save = h("button", { type: "button", class: "primary", disabled: true, on: { click: () => void busy(save, saving(settings.revision)).then(ready) } }, t("settings.save"));
  const discard = h("button", { type: "button", hidden: true, on: { click: () => void discarded() } }, t("settings.discard"));
  const typed = settled(() => void check(), TYPED);
  let faulty = false;
  let bad = 0;
  let asked = 0;

  function changed() {
    return text.value !== settings.text;
  }
  function count() {
    const lines = text.value.split("\n").length;
    const all = Array.from({ length: lines }, (_, at) => [at + 1 === bad ? h("mark", {}, String(bad)) : String(at + 1), "\n"]);
    replace(numbers, ...all);
    text.rows = Math.min(30, Math.max(8, lines + 1));
  }
  function ready() {
    save.disabled = !changed() || faulty;
    discard.hidden = !changed();
  }
  function touched() {
    count();
    ready();
    typed.touch();
  }

  async function check() {
    const mine = ++asked;
    if (!changed()) return (([faulty, bad] = [false, 0]), count(), ready(), replace(state, t("settings.unchanged")));
    replace(state, t("settings.checking"));
    try {
      const { problems } = await ask("desk.check", { text: text.value }, { signal });
      if (mine !== asked) return;
      faulty = problems.length > 0;
      bad = faulty ? lineOf(problems[0]) : 0;
      count();
      replace(state, ...(faulty ? problems.map(told) : [h("span", { class: "good" }, t("settings.good"))]));
    } catch (error) {
      if (!signal.aborted && mine === asked) replace(state, failed(error));
    }
    ready();
  }

  /** A problem, with a way to its line if it names one. @param {string} words */
  function told(words) {
    const line = lineOf(words);
    const button = line ? h("button", { type: "button", class: "quiet", on: { click: () => goTo(line) } }, t("settings.line", { n: line })) : null;
    return h("p", { class: "problem" }, button, button ? " " : null, block(shortened(words)));
  }

  /** Without the name of the file, which stands above. @param {string} words */
  function shortened(words) {
    return settings.file && words.startsWith(settings.file) ? words.slice(settings.file.length).replace(/^(:\d+)*: */, "") : words;
  }

  /** @param {number} line */
  function goTo(line) {
    const lines = text.value.split("\n");
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
  }

  /** @param {string} revision That the person has seen. */
  async function saving(revision) {
    typed.cancel();
    try {
      const now = /** @type {Settings} */ (await ask("desk.save", { text: text.value, revision }, { signal }));
      take(now);
      saved(now);
      say(t("settings.saved"));
    } catch (error) {
      if (signal.aborted) return;
      const theirs = error instanceof CallError ? await elsewhere() : null;
      replace(state, theirs ? conflict(theirs) : failed(error));
    }
  }

  /** The file as it is now, if it is not the one that was changed here. @returns {Promise<Settings | null>} */
  async function elsewhere() {
    const now = /** @type {Settings} */ (await ask("desk.settings", {}, { signal }));
    return now.revision === settings.revision ? null : now;
  }

  /** @param {Settings} theirs */
  function conflict(theirs) {
    const mine = h("button", { type: "button", class: "danger", on: { click: () => void busy(mine, saving(theirs.revision)) } }, t("settings.changed.yours"));
    const other = h("button", { type: "button", on: { click: () => (take(theirs), saved(theirs)) } }, t("settings.changed.theirs"));
    return h("div", { class: "problem", role: "alert" }, h("p", {}, t("settings.changed")), h("pre", {}, block(theirs.text)), h("p", { class: "actions" }, other, mine));
  }

  /** @param {Settings} now */
  function take(now) {
    settings = now;
    text.value = now.text;
    [faulty, bad] = [false, 0];
    replace(state, now.problem ? h("p", { class: "problem" }, t("settings.problem", { why: block(now.problem) })) : t("settings.unchanged"));
    count();
    ready();
  }

  async function discarded() {
    if (await confirm(t("settings.discard.sure"), { yes: t("settings.discard"), danger: true })) take(settings);
  }

  text.addEventListener("input", touched);
  text.addEventListener("scroll", () => (numbers.scrollTop = text.scrollTop));
  signal.addEventListener("abort", typed.cancel);
  take(settings);
  return h(
    "div",
    {},
    h("p", { class: "muted anywhere" }, settings.file ? h("code", {}, visible(settings.file)) : t("settings.file.none")),
    writable ? null : h("p", { class: "note" }, t("settings.readonly")),
    h("div", { class: "editor" }, numbers, text),
    state,
    writable ? h("p", { class: "actions" }, save, discard) : null,
  );
}

/**
 * The line that a problem names, as `handrail.toml:12: …`; 0 is none.
 *
 * @param {string} words
 */
function lineOf(words) {
  return Number(/^[^\n]*?:(\d+): |\bline (\d+)/.exec(words)?.slice(1).find(Boolean) ?? 0);
}
