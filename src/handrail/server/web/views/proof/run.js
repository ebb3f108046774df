/** One run: its timeline, each entry checked as it is shown, and what can be taken away of it. */

import { ask } from "../../bus.js";
import { busy, h, icon, replace, save } from "../../dom.js";
import { visible } from "../../text.js";
import { say } from "../../toast.js";
import { count, moment, t } from "../../words.js";
import { breath, failed } from "../parts.js";
import { entryLine } from "./entry.js";
import { parseNote } from "./signed.js";
import { keyBox, summary } from "./summary.js";
import { trusted } from "./trust.js";
import { unable, walk } from "./verify.js";

/**
 * @typedef {import("../../values.js").RunPage} RunPage
 * @typedef {import("./summary.js").Tally} Tally
 */

const PAGE = 100;
/** Entries between two moments for the browser. */
const STRIDE = 20;

/**
 * @param {HTMLElement} place
 * @param {string} run
 * @param {AbortSignal} signal
 */
export async function showRun(place, run, signal) {
  const page = /** @type {RunPage} */ (await ask("desk.run", { run, first: 0, limit: PAGE }, { signal }));
  const kept = trusted(origin(page));
  const look = looking(run, page, kept?.key, await unable());
  const key = keyBox(origin(page), page.verifier_key, kept, () => {
    place.querySelector("h1")?.focus();
    void showRun(place, run, signal);
  });
  replace(
    place,
    h("p", {}, h("a", { href: "#/proof", class: "back" }, icon("back"), t("proof.back"))),
    heading(page),
    look.summary,
    h("section", { "aria-labelledby": "timeline" }, h("h2", { id: "timeline" }, t("proof.timeline")), look.list, look.more),
    key,
  );
  await look.check(page, signal);
}

/**
 * The name of the record, as far as its checkpoint can be read.
 *
 * @param {RunPage} page
 */
function origin(page) {
  try {
    return parseNote(page.checkpoint).origin;
  } catch {
    return "";
  }
}

/** @param {RunPage} page */
function heading({ row, count: entries }) {
  const numbers = [
    [row.calls ?? 0, "proof.calls-n"],
    [row.failed ?? 0, "proof.failed-n"],
    [row.in_doubt ?? 0, "proof.doubt-n"],
    [entries, "proof.entries"],
  ];
  const shown = /** @type {[number, string][]} */ (numbers).filter(([n, key]) => n || key === "proof.calls-n");
  const button = h("button", { type: "button", on: { click: () => void busy(button, bundle(row.run, button)) } }, icon("download"), t("proof.export"));
  return h(
    "header",
    { class: "view-head" },
    h("div", {}, h("h1", { tabindex: "-1" }, visible(row.title || t("proof.run"))), h("p", { class: "muted" }, h("code", {}, visible(row.run)))),
    h("p", { class: "muted" }, [moment(row.started), ...shown.map(([n, key]) => count(n, key))].join(" · ")),
    h("p", { class: "actions" }, button, row.title ? h("a", { class: "button", href: `#/chat/${encodeURIComponent(row.run)}` }, t("proof.open-chat")) : null),
  );
}

/**
 * @param {string} run
 * @param {HTMLButtonElement} button
 */
async function bundle(run, button) {
  try {
    const file = await ask("desk.bundle", { run });
    save(file);
    say(t("proof.exported", { name: visible(file.name) }));
  } catch (error) {
    button.after(failed(error));
  }
}

/**
 * The list of entries that grows page by page, and the walk through it that checks each.
 *
 * @param {string} run
 * @param {RunPage} first
 * @param {string | undefined} key
 * @param {"" | "insecure" | "no-ed25519"} cannot
 */
function looking(run, first, key, cannot) {
  const told = summary();
  const list = h("ol", { class: "timeline" });
  const more = h("p", { class: "actions" });
  const walking = walk(run, key);
  /** @type {import("./says.js").Words} */
  const words = new Map();
  /** @type {Tally} */
  const tally = { all: first.count, done: 0, wrong: [], signature: [], erased: 0, unseen: 0, finished: false };
  if (cannot) told.cannot(cannot);

  /**
   * @param {RunPage} page
   * @param {AbortSignal} signal
   */
  async function check(page, signal) {
    tally.all = page.count;
    const opening = cannot ? [] : await walking.open(page);
    tally.signature.push(...opening);
    for (const [at, row] of page.entries.entries()) {
      if (signal.aborted) return;
      if (at % STRIDE === 0) {
        if (!cannot) told.checking(tally);
        await breath();
      }
      const line = entryLine(run, row, words);
      list.append(line.node);
      if (cannot) line.unproven();
      else await checkOne(row, line, opening.length > 0);
    }
    ended(page, signal);
  }

  /**
   * @param {import("../../values.js").EntryRow} row
   * @param {import("./entry.js").Line} line
   * @param {boolean} unsigned
   */
  async function checkOne(row, line, unsigned) {
    const finding = await walking.entry(row);
    tally.done += 1;
    tally.erased += Number(finding.body === "erased");
    tally.unseen += Number(finding.body === "unseen");
    tally.wrong.push(...finding.problems.map((problem) => ({ n: finding.n, problem })));
    line.found(finding);
    if (unsigned && !finding.problems.length) line.unproven();
  }

  /**
   * @param {RunPage} page
   * @param {AbortSignal} signal
   */
  function ended(page, signal) {
    const shown = list.childElementCount;
    tally.finished = shown >= page.count || !page.entries.length;
    if (tally.finished && !cannot) {
      tally.wrong.push(...walking.finish().map((problem) => ({ n: shown, problem })));
    }
    if (!cannot) told.done(tally);
    replace(more, ...(tally.finished ? [] : rest(signal)));
  }

  /** @param {AbortSignal} signal */
  function rest(signal) {
    const one = h("button", { type: "button", on: { click: () => void busy(one, next(signal)) } }, t("proof.more"));
    const all = h("button", { type: "button", class: "quiet", on: { click: () => void busy(all, everything(signal)) } }, t("proof.all", { n: tally.all }));
    return [one, all];
  }

  /** @param {AbortSignal} signal */
  async function next(signal) {
    try {
      await check(await ask("desk.run", { run, first: list.childElementCount, limit: PAGE }, { signal }), signal);
    } catch (error) {
      if (!signal.aborted) replace(more, failed(error), ...rest(signal));
    }
  }

  /** @param {AbortSignal} signal */
  async function everything(signal) {
    for (let before = -1; !tally.finished && !signal.aborted && list.childElementCount > before; ) {
      before = list.childElementCount;
      await next(signal);
    }
  }

  return { summary: told.node, list, more, check };
}
