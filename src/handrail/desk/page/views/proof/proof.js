/** The Proof view: the runs of the record, or one of them. */

import { h, replace } from "../../dom.js";
import { add, t } from "../../words.js";
import * as words from "../../words/proof.js";
import { loading } from "../parts.js";
import { showRun } from "./run.js";
import { showRuns } from "./runs.js";

add(words);

/**
 * @param {HTMLElement} main
 * @param {string[]} params
 * @param {import("../../shell.js").Context} ctx
 */
export async function show(main, params, ctx) {
  let left = new AbortController();

  /** @param {string[]} to */
  function update([run = ""]) {
    left.abort();
    left = new AbortController();
    const place = h("div", { class: "page proof" });
    replace(main, place);
    ctx.title(run ? `${t("proof.run")} ${run}` : t("proof.title"));
    void loading(place, left.signal, () => (run ? showRun(place, run, left.signal) : showRuns(place, left.signal)));
  }

  update(params);
  return { update, leave: () => left.abort() };
}
