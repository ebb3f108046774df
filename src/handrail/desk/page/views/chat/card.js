/**
 * A call of a tool as a card: what it is, how far it is, what came of it. The same card from the first letter of its
 * arguments to its result, whether that is told live or stands in a message. What is folded is made when it is opened.
 */

/** @import { ClippedText, ConversationItem, LiveCall } from "../../values.js" */

import { h, replace } from "../../dom.js";
import { block, json, jsonText, long, visible } from "../../text.js";
import { duration, number, t } from "../../words.js";

/**
 * @typedef {"writing" | "asked" | "running" | "ok" | "failed" | "denied" | "stopped" | "left"} Standing
 * `left`: nobody knows of a result, and nothing is under way.
 */

/**
 * @typedef {object} Doings What a card can ask of the conversation that it is in.
 * @property {(index: number) => Promise<string>} whole
 * @property {(callId: string) => void} answer
 * @property {() => string} proof The address of the run in the Proof view.
 */

/**
 * @typedef {object} Sources
 * @property {ConversationItem | null} call
 * @property {ConversationItem | null} result
 * @property {LiveCall | null} live
 * @property {boolean} active Whether the turn is under way, so that a result may still come.
 */

/** @typedef {ReturnType<typeof card>} Card */

/** How a call stands that has this outcome; any other is a failure. @type {Record<string, Standing>} */
const ENDS = { ok: "ok", denied: "denied", forbidden: "denied", needs_confirmation: "denied", cancelled: "stopped" };
const LINE = 160;

/** @param {Doings} doings */
export function card(doings) {
  /** @type {Sources} */
  let from = { call: null, result: null, live: null, active: false };
  const head = parts();
  const body = h("div", { class: "card-body" });
  const opened = { toggle: () => fold.open && replace(body, ...inside(from, doings)) };
  const fold = h("details", { class: "card-fold", on: opened }, head.node, body);
  const under = h("div", { class: "card-under" });
  const node = h("article", { class: "tool-card" }, fold, under);
  let drawn = "";

  function draw() {
    const standing = stands(from);
    const name = visible(from.live?.name || from.call?.name || from.result?.name || "");
    node.dataset["state"] = standing;
    node.setAttribute("aria-label", `${name}: ${t(`chat.card.${standing}`)}`);
    head.draw(name, standing, from);
    replace(under, ...below(standing, from, doings), ...notes(from));
    const now = `${standing} ${from.call?.index} ${from.result?.index}`;
    if (fold.open && now !== drawn) replace(body, ...inside(from, doings));
    drawn = now;
  }

  return {
    node,
    /** @param {Partial<Sources>} news */
    set(news) {
      from = { ...from, ...news };
      draw();
    },
    /** A time that is running. @param {number} now */
    tick(now) {
      if (from.live && stands(from) === "running") head.time(since(from.live, now));
    },
    /** Forget messages from this one on. @param {number} index */
    cut(index) {
      const kept = (/** @type {ConversationItem | null} */ item) => (item && item.index < index ? item : null);
      const left = { call: kept(from.call), result: kept(from.result) };
      if (left.call === from.call && left.result === from.result) return;
      from = { ...from, ...left };
      draw();
    },
    sources: () => from,
  };
}

/** @param {Sources} from @returns {Standing} */
function stands({ call, result, live, active }) {
  const outcome = result?.outcome ?? live?.outcome;
  if (outcome) return ENDS[outcome] ?? "failed";
  if (result || live?.stage === "done") return "ok";
  if (live) return live.stage === "asked" || live.stage === "running" ? live.stage : "writing";
  return call && !active ? "left" : "running";
}

/** The line that is always seen. */
function parts() {
  const name = h("code", { class: "card-name" });
  const says = h("span", { class: "card-says" });
  const effect = h("span", { class: "chip warn", hidden: true });
  const state = h("span", { class: "card-state" });
  const time = h("span", { class: "card-time" });
  const mark = h("span", { class: "card-mark", "aria-hidden": "true" });
  const node = h("summary", { class: "card-head" }, mark, name, says, effect, state, time);
  return {
    node,
    /** @param {string} shown @param {Standing} standing @param {Sources} from */
    draw(shown, standing, from) {
      name.textContent = shown;
      says.textContent = summary(from);
      effect.textContent = t("chat.card.effect");
      effect.hidden = !(from.call?.side_effects || from.live?.side_effects);
      state.textContent = t(`chat.card.${standing}`);
      const took = from.result?.duration_us ?? from.live?.duration_us;
      if (took !== undefined && took !== null) time.textContent = duration(took);
      else time.textContent = standing === "running" && from.live ? since(from.live, Date.now()) : "";
    },
    /** @param {string} text */
    time(text) {
      time.textContent = text;
    },
  };
}

/** @param {LiveCall} live @param {number} now */
function since(live, now) {
  return live.begun ? `${number(Math.max(0, Math.floor((now - live.begun) / 100) / 10), { minimumFractionDigits: 1 })} s` : "";
}

/** What the call is about, in one line. @param {Sources} from */
function summary({ call, live }) {
  return argumentLine(call?.arguments ?? live?.arguments);
}

/** Arguments in one line. @param {any} given */
export function argumentLine(given) {
  if (given === undefined || given === null) return "";
  if (typeof given !== "object") return oneLine(String(given));
  const said = (/** @type {unknown} */ value) => (typeof value === "string" ? value.slice(0, LINE) : JSON.stringify(value));
  return oneLine(Object.entries(given).map(([name, value]) => `${name}: ${said(value)}`).join(" · "));
}

/** @param {string} text */
export function oneLine(text) {
  // A letter of two halves is not parted.
  const cut = text.length > LINE ? `${text.slice(0, LINE).replace(/[\ud800-\udbff]$/, "")}…` : text;
  return visible(cut.replace(/\s+/g, " ").trim());
}

/**
 * What is said without unfolding: the arguments as they come, progress, a question, an error, a glimpse of the result.
 * @param {Standing} standing @param {Sources} from @param {Doings} doings
 */
function below(standing, { result, live }, doings) {
  switch (standing) {
    case "writing":
      return live?.written && !live.arguments ? [h("pre", { class: "card-written" }, block(live.written.slice(-2_000)))] : [];
    case "asked":
      return [asked(live?.call_id ?? "", doings)];
    case "running":
      return live ? progress(live) : [];
    case "ok":
      return glimpse(result?.text ?? live?.result);
    case "failed":
    case "denied":
    case "stopped":
      return [trouble(result, live)];
    case "left":
      return [h("p", { class: "card-note" }, t("chat.card.no-result"))];
  }
}

/** What a person changed, and whatever else was said beside the result. @param {Sources} from */
function notes({ result, live }) {
  return (result?.notes ?? live?.notes ?? []).map((note) => h("p", { class: "card-note" }, block(note)));
}

/** @param {string} callId @param {Doings} doings */
function asked(callId, doings) {
  const answer = h("button", { type: "button", class: "small", on: { click: () => doings.answer(callId) } }, t("chat.card.answer"));
  return h("p", { class: "card-ask" }, h("span", null, t("chat.card.waits")), answer);
}

/** @param {LiveCall} live @returns {HTMLElement[]} */
function progress({ current, total, says }) {
  if ((current === undefined || current === null) && !says) return [];
  const known = current !== undefined && current !== null;
  const bar = h("progress", { "aria-label": t("chat.card.progress"), ...(known && total ? { value: current, max: total } : {}) });
  const figures = known ? (total ? `${number(current)} / ${number(total)}` : number(current)) : "";
  const stage = h("span", { class: "card-stage" }, visible(says ?? ""));
  return [h("div", { class: "card-progress" }, bar, stage, h("span", { class: "card-figures" }, figures))];
}

/** @param {ClippedText | null | undefined} text */
function glimpse(text) {
  const line = oneLine(text?.text ?? "");
  return line ? [h("p", { class: "card-glimpse" }, line)] : [];
}

/** @param {ConversationItem | null} result @param {LiveCall | null} live */
function trouble(result, live) {
  const outcome = result?.outcome ?? live?.outcome ?? "failed";
  const code = result?.error || live?.error || "";
  const text = (result?.text ?? live?.result)?.text ?? "";
  return h(
    "div",
    { class: "card-error" },
    h("p", null, h("strong", null, t(`chat.outcome.${outcome}`)), code && code !== outcome ? [" ", h("code", null, visible(code))] : null),
    text ? h("p", { class: "card-words" }, block(text.slice(0, 600).trim())) : null,
  );
}

/** @param {Sources} from @param {Doings} doings */
function inside({ call, result, live }, doings) {
  const given = call?.arguments ?? live?.arguments;
  const exact = call ? call.written : live?.written;
  const text = result?.text ?? live?.result;
  const whole = result ? () => doings.whole(result.index) : null;
  return [
    h("h3", null, t("chat.card.arguments")),
    given === undefined || given === null ? long(live?.written ?? "") : exact ? jsonText(exact) : json(given),
    text ? h("h3", null, t("chat.card.result")) : null,
    text ? (whole && text.whole ? long(text.text, text.whole, whole) : long(text.text)) : null,
    text?.whole && !whole ? h("p", { class: "card-note" }, t("chat.card.clipped", { whole: text.whole })) : null,
    h(
      "p",
      { class: "card-foot" },
      h("a", { href: doings.proof() }, t("chat.card.proof")),
      result?.reused_from ? h("span", null, t("chat.card.reused")) : null,
    ),
  ];
}
