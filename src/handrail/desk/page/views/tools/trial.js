/**
 * Trying a tool: a form, a call like any other (checked, confirmed and recorded), and its card as it goes on. It is the
 * node's: who leaves the view finds it there again, and what ended meanwhile with it.
 */

import { CallError, ask, stream } from "../../bus.js";
import { busy, h, icon, replace } from "../../dom.js";
import { block } from "../../text.js";
import { add, t } from "../../words.js";
import * as chatWords from "../../words/chat.js";
import { asker } from "../chat/asker.js";
import { card } from "../chat/card.js";
import { failed } from "../parts.js";
import { schemaForm } from "./form.js";
import { nameless } from "./schema.js";
import { noJson, valueIn } from "./written.js";

add(chatWords);

/**
 * @typedef {import("../../values.js").ToolPage} ToolPage
 * @typedef {import("../../values.js").LiveCall} LiveCall
 * @typedef {import("../../values.js").DeskQuestion} DeskQuestion
 */

const TICK = 100;

/**
 * @param {ToolPage} page
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} ended After each trial.
 */
export function trial(page, signal, ended) {
  const fields = inputs(page);
  const answer = h("div", { class: "trial-answer", "aria-live": "polite" });
  const run = h("button", { type: "submit", class: "primary" }, t("tools.try.run"));
  const stop = h("button", { type: "button" }, icon("stop"), t("tools.try.stop"));
  const under = h("p", { class: "actions", hidden: true }, stop, h("span", { class: "muted" }, t("tools.try.leaving")));
  const form = h(
    "form",
    { novalidate: true, on: { submit: (/** @type {Event} */ event) => (event.preventDefault(), void begin()) } },
    fields.node,
    h("p", { class: "actions" }, run, fields.change),
    under,
  );

  let looking = false;

  async function begin() {
    const given = fields.given();
    if (given === null) return;
    const call = await look("desk.try", { name: page.row.name, arguments: given });
    if (call?.outcome === "invalid_arguments") fields.refused(call.result?.text ?? "");
  }

  /** The last that was begun before. */
  async function takeUp() {
    const { trials } = await ask("desk.trials", { name: page.row.name }, { signal });
    if (trials?.length && !looking) await look("desk.trial", { run: trials[0].run });
  }

  /**
   * @param {string} capability
   * @param {object} input
   * @returns {Promise<LiveCall | null>}
   */
  async function look(capability, input) {
    let stopped = false;
    looking = true;
    try {
      const call = await busy(run, followed(capability, input, answer, begun, signal));
      if (stopped && call?.outcome === "cancelled") answer.append(h("p", { class: "note", role: "status" }, t("tools.try.stopped")));
      if (!signal.aborted) await ended();
      return call;
    } catch (error) {
      told(error);
      return null;
    } finally {
      looking = false;
      under.hidden = true;
    }

    /** @param {string} name Its run. */
    function begun(name) {
      under.hidden = false;
      stop.onclick = () => {
        stopped = true;
        busy(stop, ask("desk.untry", { run: name })).catch(told);
      };
    }
  }

  /** @param {unknown} error */
  function told(error) {
    if (!signal.aborted) answer.append(failed(error));
  }

  takeUp().catch(told);

  return h(
    "section",
    { class: "trial", "aria-labelledby": "trial-title" },
    h("h2", { id: "trial-title" }, t("tools.try")),
    h("p", { class: "muted" }, t(page.row.side_effects ? "tools.try.effects" : "tools.try.reads")),
    form,
    answer,
  );
}

/**
 * One call, shown to its end. Gives what came of it.
 *
 * @param {string} capability
 * @param {object} input
 * @param {HTMLElement} answer
 * @param {(run: string) => void} begun
 * @param {AbortSignal} signal
 * @returns {Promise<LiveCall | null>}
 */
async function followed(capability, input, answer, begun, signal) {
  /** @type {LiveCall | null} */
  let last = null;
  /** @type {DeskQuestion[]} */
  let questions = [];
  const asked = asker((question, word) => ask("desk.decide", { request: question.request, ...word }));
  const shown = card({
    whole: () => Promise.resolve(last?.result?.text ?? ""),
    answer: (id) => asked.open(id),
    proof: () => (last?.run ? `#/proof/${encodeURIComponent(last.run)}` : "#/proof"),
  });
  const clock = setInterval(() => shown.tick(Date.now()), TICK);
  /** @type {Record<string, (data: any) => void>} */
  const heard = {
    call(data) {
      if (last === null) begun(data.run);
      last = data;
      shown.set({ live: data });
    },
    question(data) {
      asked.set((questions = [...questions.filter(({ request }) => request !== data.request), data]));
    },
    answered: (data) => asked.set((questions = questions.filter(({ request }) => request !== data.request))),
  };
  replace(answer, shown.node);
  try {
    await stream(capability, input, (event, data) => heard[event]?.(data), { signal });
  } catch (error) {
    // Nobody hears of it any more, so it is not shown as if it went on.
    const outcome = error instanceof CallError ? /** @type {LiveCall["outcome"]} */ (error.outcome) : "cancelled";
    if (last !== null) shown.set({ live: { .../** @type {LiveCall} */ (last), stage: "done", outcome } });
    throw error;
  } finally {
    clearInterval(clock);
    asked.close();
  }
  return last;
}

/**
 * The fields, and beside them the same as JSON for whoever prefers to write that.
 *
 * @param {ToolPage} page
 */
function inputs(page) {
  const options = { secrets: page.secrets ?? [], given: page.examples?.[0] };
  let form = schemaForm(page.input_schema, options);
  const text = h("textarea", { class: "mono", rows: 10, spellcheck: "false", autocomplete: "off", "aria-label": t("tools.try.json") });
  const wrong = h("p", { class: "field-wrong" });
  const node = h("div", {}, form.node);
  const change = h("button", { type: "button", class: "quiet", on: { click: turn } }, t("tools.try.as-json"));
  let written = false;

  function turn() {
    const given = read();
    if (given === null) return;
    written = !written;
    change.textContent = t(written ? "tools.try.as-form" : "tools.try.as-json");
    if (written) text.value = JSON.stringify(given, null, 2);
    else form = schemaForm(page.input_schema, { ...options, given });
    replace(wrong);
    replace(node, ...(written ? [text, wrong] : [form.node]));
  }

  /** @returns {Record<string, any> | null} */
  function read() {
    if (!written) return form.read();
    replace(wrong);
    const value = valueIn(text.value, told);
    return wrong.childElementCount ? null : value;
  }

  /** As it was written: the node reads it, rounds nothing, and takes no name twice. */
  function asWritten() {
    try {
      JSON.parse(text.value);
      return text.value;
    } catch (error) {
      told(noJson(error));
      return null;
    }
  }

  /** @param {string} words */
  function told(words) {
    replace(wrong, h("span", { class: "problem" }, words));
    text.focus();
  }

  if (nameless(page.input_schema)) turn();
  return {
    node,
    change,
    /** What it is to be called with; null where that cannot be said. */
    given: () => (written ? asWritten() : form.read()),
    /** @param {string} message */
    refused(message) {
      if (written) replace(wrong, h("span", { class: "problem" }, block(message)));
      else form.refused(message);
    },
  };
}
