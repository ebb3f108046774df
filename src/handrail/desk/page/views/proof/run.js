/** One run: its timeline, each entry checked as it is shown, and what can be taken away of it. */

import { ask } from "../../bus.js";
import { busy, h, icon, replace, save } from "../../dom.js";
import { visible } from "../../text.js";
import { say } from "../../toast.js";
import { count, moment, t } from "../../words.js";
import { breath, failed, loading } from "../parts.js";
import { entryLine } from "./entry.js";
import { parseNote } from "./signed.js";
import { keyBox, summary } from "./summary.js";
import { traceOf } from "./trace.js";
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
 * @param {AbortSignal} left
 * @param {boolean} [again] Whether the person was here before, and stays.
 */
export async function showRun(place, run, left, again = false) {
  const over = new AbortController();
  const signal = AbortSignal.any([left, over.signal]);
  const page = /** @type {RunPage} */ (await ask("desk.run", { run, first: 0, limit: PAGE }, { signal }));
  const kept = trusted(origin(page));
  const look = looking(run, page, kept?.key, await unable(), signal);
  const key = keyBox(origin(page), page.verifier_key, kept, () => {
    over.abort();
    void loading(place, left, () => showRun(place, run, left, true));
  });
  replace(
    place,
    h("p", {}, h("a", { href: "#/proof", class: "back" }, icon("back"), t("proof.back"))),
    heading(page),
    look.summary,
    traceOf(run, signal),
    h("section", { "aria-labelledby": "timeline" }, h("h2", { id: "timeline" }, t("proof.timeline")), look.list, look.more),
    key,
  );
  if (again) place.querySelector("h1")?.focus();
  await look.begin();
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
    h("div", {}, h("h1", { tabindex: "-1" }, visible(row.title || (row.tools ?? []).join(", ") || t("proof.run"))), h("p", { class: "muted" }, h("code", {}, visible(row.run)))),
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
 * @param {AbortSignal} signal
 */
function looking(run, first, key, cannot, signal) {
  const told = summary();
  const list = h("ol", { class: "timeline" });
  const more = h("p", { class: "actions" });
  const walking = walk(run, key);
  /** @type {import("./says.js").Words} */
  const words = new Map();
  /** @type {Tally} */
  const tally = { all: first.count, done: 0, wrong: [], signature: [], erased: 0, unseen: 0, finished: false };
  let checking = true;
  if (cannot) told.cannot(cannot);

  /** @param {RunPage} page */
  async function check(page) {
    const opening = cannot ? [] : await walking.open(page);
    tally.signature = [...new Set([...tally.signature, ...opening])];
    for (const [at, row] of page.entries.entries()) {
      if (at % STRIDE === 0) {
        if (!cannot) told.checking(tally);
        await breath();
      }
      if (signal.aborted) return;
      const line = entryLine(run, row, words, (finding) => fetched(finding, line.node));
      list.append(line.node);
      if (cannot) line.unproven();
      else await checkOne(row, line, opening.length > 0);
    }
    tally.finished = list.childElementCount >= first.count || !page.entries.length;
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
    note(finding, line.node);
    line.found(finding);
    if (unsigned && !finding.problems.length) line.unproven();
  }

  /**
   * @param {import("./verify.js").Finding} finding
   * @param {HTMLElement} node
   */
  function note({ n, problems }, node) {
    tally.wrong.push(...problems.map((problem) => ({ n, problem, node })));
  }

  /**
   * @param {import("./verify.js").Finding} finding
   * @param {HTMLElement} node
   */
  function fetched(finding, node) {
    tally.unseen -= 1;
    note(finding, node);
    if (!checking) told.done(tally);
  }

  /** What it came to so far, and a way to go on. */
  function conclude() {
    checking = false;
    if (cannot) return replace(more, ...rest());
    if (tally.finished) tally.wrong.push(...walking.finish().map((problem) => ({ n: list.childElementCount, problem })));
    told.done(tally);
    return replace(more, ...rest());
  }

  function rest() {
    if (tally.finished) return [];
    return [
      h("button", { type: "button", on: { click: () => void further(false) } }, t("proof.more")),
      h("button", { type: "button", class: "quiet", on: { click: () => void further(true) } }, t("proof.all", { n: tally.all })),
    ];
  }

  /**
   * The next page, or all of them. Meanwhile there is no button: a page that came twice would look like a forgery.
   *
   * @param {boolean} whole
   */
  async function further(whole) {
    checking = true;
    replace(more);
    try {
      do {
        const from = { first: list.childElementCount, limit: PAGE, size: first.size };
        await check(await ask("desk.run", { run, ...from }, { signal }));
      } while (whole && !tally.finished && !signal.aborted);
      if (!signal.aborted) conclude();
    } catch (error) {
      if (!signal.aborted) replace(more, failed(error), ...rest());
    }
    more.querySelector("button")?.focus();
  }

  async function begin() {
    await check(first);
    if (!signal.aborted) conclude();
  }

  return { summary: told.node, list, more, begin };
}
