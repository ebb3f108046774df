/**
 * The configuration file, as a form and as text: two views of one draft. It is checked as one types, and saved only
 * over what one has seen, and after one has seen what will change.
 */

import { CallError, ask } from "../../bus.js";
import { confirm, open } from "../../dialog.js";
import { busy, h, replace } from "../../dom.js";
import { block, visible } from "../../text.js";
import { say } from "../../toast.js";
import { t } from "../../words.js";
import { failed, settled } from "../parts.js";
import { editor } from "./editor.js";
import { form } from "./form.js";
import { tabs } from "./tabs.js";

/**
 * @typedef {import("../../values.js").SettingsPage} SettingsPage
 * @typedef {import("../../values.js").SettingsForm} SettingsForm
 * @typedef {import("../../values.js").SettingsMistake} SettingsMistake
 */

const TYPED = 400;
const [FIELDS, TEXT] = [0, 1];

/**
 * What comes back with the view.
 * @typedef {object} Kept
 * @property {{text: string, revision: string} | null} draft What was changed and not saved, and over which file.
 * @property {number} tab
 * @property {Promise<unknown>} changing The changes of fields that are under way.
 */

/** @returns {Kept} */
export function nothingKept() {
  return { draft: null, tab: FIELDS, changing: Promise.resolve() };
}

/**
 * @param {SettingsPage} first
 * @param {Kept} kept
 * @param {AbortSignal} signal
 * @param {(now: SettingsPage) => void} saved
 */
export function file(first, kept, signal, saved) {
  let settings = first;
  const writable = settings.writable ?? false;
  const where = h("p", { class: "muted anywhere" });
  const state = h("div", { class: "editor-state", role: "status" });
  const save = h("button", { type: "button", class: "primary", disabled: true, on: { click: () => void busy(save, review()).then(ready) } }, t("settings.save"));
  const discard = h("button", { type: "button", hidden: true, on: { click: () => void discarded() } }, t("settings.discard"));
  const typed = settled(() => void check(), TYPED);
  const text = editor({ writable, typed: touched });
  const fields = form({ writable, typed: ready, change, toLine });
  const panels = [{ label: t("settings.tab.form"), node: fields.node }, { label: t("settings.tab.text"), node: text.node }];
  const both = tabs(t("settings.tabs"), panels, kept.tab, (at) => (kept.tab = at));
  let faulty = false;
  let asked = 0;

  function changed() {
    return text.read() !== settings.text;
  }
  function ready() {
    // Whoever corrects a field and presses it is not made to leave the field first.
    const half = fields.typing();
    save.disabled = !half && (!changed() || faulty);
    discard.hidden = !(changed() || half);
  }
  function keep() {
    kept.draft = changed() ? { text: text.read(), revision: settings.revision } : null;
  }
  function touched() {
    keep();
    ready();
    typed.touch();
  }

  /** A field was changed: after those before it, and in the text as it is then. @type {import("./field.js").Draft["change"]} */
  function change(path, value) {
    const done = kept.changing.then(async () => {
      for (;;) {
        const base = text.read();
        // Who leaves the view meanwhile finds it there again.
        const now = /** @type {SettingsForm} */ (await ask("settings.form", { text: base, path, value }));
        if (text.read() !== base) continue;
        typed.cancel();
        asked++;
        text.write(now.text);
        keep();
        show(now, false);
        return "";
      }
    });
    const told = done.catch((error) => {
      if (!(error instanceof CallError)) throw error;
      return error.message;
    });
    kept.changing = told.catch(() => {});
    return told;
  }

  /** Whether it was answered, and the answer is of what is there now. @param {boolean} [all] */
  async function check(all = false) {
    const mine = ++asked;
    if (changed()) replace(state, t("settings.checking"));
    try {
      const now = /** @type {SettingsForm} */ (await ask("settings.form", { text: text.read() }, { signal }));
      if (mine !== asked) return null;
      show(now, all);
      return now;
    } catch (error) {
      if (!signal.aborted && mine === asked) replace(state, failed(error));
      return null;
    }
  }

  /** @param {SettingsForm} now @param {boolean} all */
  function show(now, all) {
    const problems = now.problems ?? [];
    faulty = problems.length > 0;
    text.mark(problems[0]?.line ?? 0);
    fields.show(now, all);
    if (changed()) replace(state, ...(faulty ? problems.map(told) : [h("span", { class: "good" }, t("settings.good"))]));
    else replace(state, settings.problem ? h("p", { class: "problem" }, t("settings.problem", { why: block(settings.problem) })) : t("settings.unchanged"));
    ready();
  }

  /** A problem, with a way to its line if it has one. @param {SettingsMistake} mistake */
  function told({ words, line = 0 }) {
    const button = line ? h("button", { type: "button", class: "quiet", on: { click: () => toLine(line) } }, t("settings.line", { n: line })) : null;
    return h("p", { class: "problem" }, button, button ? " " : null, block(words));
  }

  /** @param {number} line */
  function toLine(line) {
    both.choose(TEXT);
    text.goTo(line);
  }

  /** @param {import("./field.js").Field} wrong */
  function toField(wrong) {
    replace(state, h("p", { class: "problem" }, block(wrong.refused())));
    both.choose(FIELDS);
    wrong.focus();
  }

  /** What will change, before it does. */
  async function review() {
    await kept.changing;
    const wrong = fields.refused();
    if (wrong) return toField(wrong);
    typed.cancel();
    const now = await check();
    if (now === null || faulty || !changed()) return;
    const seen = open({
      title: t("settings.review"),
      body: now.changes?.length ? diff(now.changes) : h("p", {}, t("settings.review.large")),
      actions: [{ label: t("shell.cancel") }, { label: t("settings.review.yes"), kind: "primary", focus: true, run: () => saving(settings.revision) }],
    });
    signal.addEventListener("abort", seen.close);
  }

  /** @param {string} revision That the person has seen. */
  async function saving(revision) {
    const written = text.read();
    lock(true);
    try {
      done(/** @type {SettingsPage} */ (await ask("settings.save", { text: written, revision }, { signal })));
    } catch (error) {
      const theirs = error instanceof CallError ? await elsewhere(revision) : null;
      // Only the answer was lost.
      if (theirs?.text === written) done(theirs);
      else if (!signal.aborted) replace(state, theirs ? conflict(theirs) : failed(error));
    } finally {
      lock(false);
    }
  }

  /** @param {boolean} locked While it is on its way, what is changed would be lost. */
  function lock(locked) {
    text.lock(locked);
    fields.node.inert = locked;
  }

  /** @param {SettingsPage} now */
  function done(now) {
    take(now);
    saved(now);
    say(t("settings.saved"));
  }

  /**
   * The file as it is now, if it is not the one that the person has seen, and can be read.
   *
   * @param {string} seen
   * @returns {Promise<SettingsPage | null>}
   */
  async function elsewhere(seen) {
    const now = /** @type {SettingsPage | null} */ (await ask("settings.show", {}, { signal }).catch(() => null));
    return now === null || now.revision === seen ? null : now;
  }

  /** @param {SettingsPage} theirs */
  function conflict(theirs) {
    const mine = h("button", { type: "button", class: "danger", on: { click: () => void busy(mine, over(theirs)) } }, t("settings.changed.yours"));
    const other = h("button", { type: "button", on: { click: () => (take(theirs), saved(theirs)) } }, t("settings.changed.theirs"));
    return h("div", { class: "problem", role: "alert" }, h("p", {}, t("settings.changed")), h("pre", {}, block(theirs.text)), h("p", { class: "actions" }, other, mine));
  }

  /** What the person has written is now a change of this one. @param {SettingsPage} theirs */
  async function over(theirs) {
    settings = theirs;
    touched();
    await review();
  }

  /** @param {SettingsPage} now */
  function take(now) {
    kept.draft = null;
    settings = now;
    faulty = false;
    text.write(now.text);
    ready();
    replace(where, now.file ? h("code", {}, visible(now.file)) : t("settings.file.none"));
    void check(true);
  }

  async function discarded() {
    if (await confirm(t("settings.discard.sure"), { yes: t("settings.discard"), danger: true })) take(settings);
  }

  signal.addEventListener("abort", typed.cancel);
  const left = kept.draft;
  take(settings);
  if (left && writable) {
    settings = { ...settings, revision: left.revision };
    text.write(left.text);
    touched();
    void check(true);
  }
  return h(
    "div",
    {},
    where,
    writable ? null : h("p", { class: "note" }, t("settings.readonly")),
    both.node,
    state,
    writable ? h("p", { class: "actions" }, save, discard) : null,
  );
}

/** @param {string[]} lines Of a unified diff. */
function diff(lines) {
  const kinds = /** @type {const} */ ({ "+": "ins", "-": "del" });
  const made = lines.map((line) => h(kinds[/** @type {"+" | "-"} */ (line[0])] ?? "span", {}, `${visible(line)}\n`));
  return h("pre", { class: "diff", tabindex: "0", "aria-label": t("settings.review") }, made);
}
