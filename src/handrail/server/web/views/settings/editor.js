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
/** What was written and not saved when the view was left, and over which file: it comes back with the view.
 * @type {{text: string, revision: string} | null} */
let draft = null;

/**
 * @param {Settings} first
 * @param {AbortSignal} signal
 * @param {(now: Settings) => void} saved
 */
export function editor(first, signal, saved) {
  let settings = first;
  const writable = settings.writable ?? false;
  const where = h("p", { class: "muted anywhere" });
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
    draft = changed() ? { text: text.value, revision: settings.revision } : null;
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
    // What is typed meanwhile would be lost when the answer comes.
    text.readOnly = true;
    try {
      const now = /** @type {Settings} */ (await ask("desk.save", { text: text.value, revision }, { signal }));
      done(now);
    } catch (error) {
      const theirs = error instanceof CallError ? await elsewhere(revision) : null;
      // Only the answer was lost.
      if (theirs?.text === text.value) done(theirs);
      else if (!signal.aborted) replace(state, theirs ? conflict(theirs) : failed(error));
    } finally {
      text.readOnly = false;
    }
  }

  /** @param {Settings} now */
  function done(now) {
    take(now);
    saved(now);
    say(t("settings.saved"));
  }

  /**
   * The file as it is now, if it is not the one that the person has seen, and can be read.
   *
   * @param {string} seen
   * @returns {Promise<Settings | null>}
   */
  async function elsewhere(seen) {
    const now = /** @type {Settings | null} */ (await ask("desk.settings", {}, { signal }).catch(() => null));
    return now === null || now.revision === seen ? null : now;
  }

  /** @param {Settings} theirs */
  function conflict(theirs) {
    const mine = h("button", { type: "button", class: "danger", on: { click: () => void busy(mine, saving(theirs.revision)) } }, t("settings.changed.yours"));
    const other = h("button", { type: "button", on: { click: () => (take(theirs), saved(theirs)) } }, t("settings.changed.theirs"));
    return h("div", { class: "problem", role: "alert" }, h("p", {}, t("settings.changed")), h("pre", {}, block(theirs.text)), h("p", { class: "actions" }, other, mine));
  }

  /** @param {Settings} now */
  function take(now) {
    draft = null;
    settings = now;
    text.value = now.text;
    replace(where, now.file ? h("code", {}, visible(now.file)) : t("settings.file.none"));
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
  const left = draft;
  take(settings);
  if (left && writable) {
    settings = { ...settings, revision: left.revision };
    text.value = left.text;
    touched();
  }
  return h(
    "div",
    {},
    where,
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
