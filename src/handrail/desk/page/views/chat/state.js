/** What is known of an open conversation, and how each thing that is told changes it. Pure: nothing here is shown. */

/** @import { Alert, ConversationItem, LiveTurn, LiveCall, DeskQuestion, ShownServiceCall, ConversationSnapshot, State, ConversationEvent } from "../../values.js" */

/**
 * @typedef {object} Turn What of the turn under way is in no message yet.
 * @property {string} text
 * @property {string} reasoning
 * @property {LiveCall[]} calls
 * @property {string[]} notices
 * @property {string} model
 * @property {number} begun
 * @property {ShownServiceCall[]} service_calls
 */

/**
 * @typedef {object} Talk
 * @property {string} id
 * @property {string} title
 * @property {State} state
 * @property {number} total
 * @property {ConversationItem[]} items The last messages, without gaps.
 * @property {number} cursor
 * @property {string} model
 * @property {string[] | null} ensembles Which are offered; null is all.
 * @property {string[]} off Tools that are switched off.
 * @property {Turn} live
 * @property {DeskQuestion[]} questions
 * @property {Alert | null} alert
 * @property {string} run
 * @property {string} forked Which one it was forked from, or "".
 * @property {boolean} gone
 */

/** @type {Turn} */
const QUIET = { text: "", reasoning: "", calls: [], notices: [], model: "", begun: 0, service_calls: [] };

/** @param {ConversationSnapshot} snapshot @returns {Talk} */
export function opened(snapshot) {
  return {
    id: snapshot.id,
    title: snapshot.title,
    state: snapshot.state,
    total: snapshot.total,
    items: [...snapshot.items],
    cursor: snapshot.cursor,
    model: snapshot.model,
    ensembles: snapshot.ensembles ? [...snapshot.ensembles] : null,
    off: [...(snapshot.off ?? [])],
    live: turn(snapshot.live),
    questions: [...(snapshot.questions ?? [])],
    alert: snapshot.alert ?? null,
    run: snapshot.run || snapshot.id,
    forked: snapshot.forked_from ?? "",
    gone: false,
  };
}

/** @param {LiveTurn | null | undefined} live @returns {Turn} */
function turn(live) {
  return { ...QUIET, ...live, calls: [...(live?.calls ?? [])], notices: [...(live?.notices ?? [])], service_calls: [...(live?.service_calls ?? [])] };
}

/** @type {Record<string, (talk: Talk, data: any) => Partial<Talk>>} */
const CHANGES = {
  text: (talk, data) => ({ live: { ...talk.live, text: talk.live.text + data.text } }),
  reasoning: (talk, data) => ({ live: { ...talk.live, reasoning: talk.live.reasoning + data.text } }),
  notice: (talk, data) => ({ live: { ...talk.live, notices: [...talk.live.notices, data.text] } }),
  call: (talk, data) => ({ live: { ...talk.live, calls: put(talk.live.calls, data) } }),
  service_call: (talk, data) => ({ live: { ...talk.live, service_calls: [...talk.live.service_calls, data] } }),
  question: (talk, data) => ({ questions: [...without(talk.questions, data.request), data] }),
  answered: (talk, data) => ({ questions: without(talk.questions, data.request) }),
  state: (talk, { state, model, begun }) => ({
    state,
    // What was noticed stays until another turn begins.
    live: { ...talk.live, model, begun, notices: begun && begun !== talk.live.begun ? [] : talk.live.notices },
  }),
  items: (talk, data) => ({
    items: [...talk.items.filter((item) => item.index < data.from), ...data.items],
    total: data.total,
    live: { ...talk.live, text: "", reasoning: "", calls: [...data.calls], service_calls: [] },
  }),
  alert: (_talk, data) => ({ alert: data?.id ? data : null }),
  about: (talk, data) => ({
    title: data.title ?? talk.title,
    model: data.model ?? talk.model,
    ensembles: data.ensembles ?? null,
    off: [...(data.off ?? [])],
  }),
  gone: () => ({ gone: true }),
};

/** The conversation after this was told. What a newer node tells and this page does not know changes nothing.
 * @param {Talk} talk @param {ConversationEvent} told @returns {Talk} */
export function after(talk, told) {
  return { ...talk, ...CHANGES[told.type]?.(talk, told.data), cursor: told.n };
}

/** With older messages before those that are known.
 * @param {Talk} talk @param {ConversationItem[]} older @returns {Talk} */
export function withOlder(talk, older) {
  const from = first(talk);
  return { ...talk, items: [...older.filter((item) => item.index < from), ...talk.items] };
}

/** The index from which on the messages are known. @param {Talk} talk */
export function first(talk) {
  return talk.items[0]?.index ?? talk.total;
}

/** Whether a turn is; one that waits with nothing asked was put off, and is over. @param {Talk} talk */
export function underWay(talk) {
  return talk.state === "working" || (talk.state === "waiting" && talk.questions.length > 0);
}

/** Whether calls wait for a word that nobody asks for now. @param {Talk} talk */
export function putOff(talk) {
  return talk.state === "waiting" && !talk.questions.length;
}

/** @param {LiveCall[]} calls @param {LiveCall} call */
function put(calls, call) {
  const at = calls.findIndex((one) => one.call_id === call.call_id);
  return at < 0 ? [...calls, call] : calls.with(at, call);
}

/** @param {DeskQuestion[]} questions @param {string} request */
function without(questions, request) {
  return questions.filter((question) => question.request !== request);
}
