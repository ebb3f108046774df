/** The runs of the record, the newest first, searched and paged. */

import { ask } from "../../bus.js";
import { busy, h, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, moment, t, when } from "../../words.js";
import { failed, fill, settled, spoken } from "../parts.js";
import { receiptBox } from "./receipt.js";
import { usage } from "./trace.js";

/** @typedef {import("../../values.js").RunRow} RunRow */

const PAGE = 50;
const TYPED = 250;

/**
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 */
export async function showRuns(place, signal) {
  const list = h("ul", { class: "runs" });
  const says = h("p", { class: "muted", role: "status" });
  const more = h("p", { class: "actions" });
  const search = h("input", { type: "search", id: "run-search", placeholder: t("proof.searching"), autocomplete: "off" });
  const typed = settled(() => void load(""), TYPED);
  search.addEventListener("input", typed.touch);
  signal.addEventListener("abort", typed.cancel);
  let asked = 0;
  let drawing = new AbortController();

  /** @param {string} before The last run that is shown, or "" to begin. */
  async function load(before) {
    const mine = ++asked;
    const wanted = { limit: PAGE, search: search.value.trim(), ...(before ? { before } : {}) };
    try {
      const { runs, more: older } = await ask("desk.runs", wanted, { signal });
      // Another search was begun meanwhile: its answer counts.
      if (mine === asked) await shown(runs, before, older);
    } catch (error) {
      if (!signal.aborted) replace(says, failed(error));
    }
  }

  /**
   * @param {RunRow[]} runs
   * @param {string} before
   * @param {boolean} older
   */
  async function shown(runs, before, older) {
    drawing.abort();
    drawing = new AbortController();
    if (!before) replace(list);
    const last = runs.at(-1);
    replace(more, older && last ? olderButton(last.run) : null);
    replace(says, runs.length || before ? null : t(search.value ? "proof.not-found" : "proof.none"));
    await fill(list, runs, line, AbortSignal.any([signal, drawing.signal]));
  }

  /** @param {string} before */
  function olderButton(before) {
    const button = h("button", { type: "button", on: { click: () => void busy(button, load(before)) } }, t("proof.older"));
    return button;
  }

  replace(
    place,
    h("header", { class: "view-head" }, h("h1", { tabindex: "-1" }, t("proof.title")), h("p", { class: "muted lead" }, t("proof.about"))),
    h("div", { class: "filters" }, h("label", { for: "run-search" }, t("proof.search"), search)),
    usage(signal),
    h("section", { "aria-label": t("proof.runs") }, list, says, more),
    receiptBox(place, signal),
  );
  await load("");
}

/** @param {RunRow} run */
function line(run) {
  const name = run.title || (run.tools ?? []).join(", ");
  const told = [
    run.failed ? h("span", { class: "chip bad" }, count(run.failed, "proof.failed-n")) : null,
    run.in_doubt ? h("span", { class: "chip warn" }, count(run.in_doubt, "proof.doubt-n")) : null,
  ];
  return h(
    "li",
    {},
    h(
      "a",
      { href: `#/proof/${encodeURIComponent(run.run)}`, class: "run" },
      h("span", { class: run.title ? "run-title" : "run-title mono" }, visible(name || run.run)),
      h("span", { class: "run-chips" }, told, run.state ? h("span", { class: "chip" }, stateWords(run.state)) : null),
      h("time", { class: "run-when", datetime: new Date(run.started).toISOString(), title: moment(run.started) }, when(run.started)),
      h("span", { class: "run-more" }, [count(run.calls ?? 0, "proof.calls-n"), count(run.entries ?? 0, "proof.entries")].join(" · ")),
      name ? h("code", { class: "run-id" }, visible(run.run)) : null,
    ),
  );
}

/** @param {string} said As `handrail proof list` says it. */
function stateWords(said) {
  const open = /^open, (\d+) unanswered$/.exec(said);
  if (open) return count(Number(open[1]), "proof.state.unanswered");
  return spoken(said === "open" || said === "waiting" ? `proof.state.${said}` : `proof.ended.${said}`, said);
}
