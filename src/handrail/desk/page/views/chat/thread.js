/**
 * The messages of a conversation, the newest last, and below them what is under way. Only what is near the end is made
 * at first; older messages come in small pieces as the person scrolls to them.
 */

/** @import { ConversationItem, ConversationEvent } from "../../values.js" */
/** @import { Card, Doings } from "./card.js" */
/** @import { MessageDoings } from "./message.js" */
/** @import { Talk } from "./state.js" */

import { h } from "../../dom.js";
import { t } from "../../words.js";
import { card } from "./card.js";
import { groups } from "./groups.js";
import { message } from "./message.js";
import { first, underWay } from "./state.js";
import { stuck } from "./scroll.js";
import { underway } from "./underway.js";

/** @typedef {Doings & MessageDoings & { older: () => Promise<void> }} ThreadDoings */

/** Whether a reply has anything to be shown but its calls. @param {ConversationItem} item */
const says = ({ text, parts, sources, service_calls: made }) => text?.text || parts?.length || sources?.length || made?.length;

const PIECE_MS = 3;
const TICK_MS = 200;

/** @param {ThreadDoings} doings */
export function thread(doings) {
  const list = groups();
  const older = h("p", { class: "older", hidden: true }, t("chat.older"));
  const live = underway();
  const inner = h("div", { class: "thread-inner" }, older, list.node, live.node);
  const node = h("div", { class: "thread", tabindex: "0", role: "region", "aria-label": t("chat.thread") }, inner);
  const scroll = stuck(node, inner);
  /** @type {Map<number, HTMLElement>} */
  const rows = new Map();
  /** @type {Map<string, Card>} */
  const cards = new Map();
  /** Known and not drawn yet. @type {ConversationItem[]} */
  let pending = [];
  let drawing = 0;
  let loading = false;

  /** @param {IntersectionObserverEntry[]} entries */
  const near = (entries) => entries.some((entry) => entry.isIntersecting) && load();
  const seen = new IntersectionObserver(near, { root: node, rootMargin: "1500px 0px 0px 0px" });
  const clock = setInterval(() => cards.forEach((one) => one.tick(Date.now())), TICK_MS);

  /** @param {string} id @returns {Card} */
  function cardOf(id) {
    const known = cards.get(id) ?? card(doings);
    cards.set(id, known);
    return known;
  }

  /** A row for the message, or none: a result is shown in the card of its call, and who only calls says nothing. @param {ConversationItem} item */
  function row(item) {
    if (item.kind === "result") return void cardOf(item.call_id ?? "").set({ result: item });
    if (item.kind === "assistant" && !says(item)) return;
    let shown;
    if (item.kind === "call") {
      const one = cardOf(item.call_id ?? "");
      one.set({ call: item });
      shown = one.node;
    } else shown = message(item, doings, item.kind === "assistant" && item.text && !item.marks?.length ? live.become(item.text) : null);
    const made = h("li", { class: `said-row ${item.kind}`, data: { index: item.index } }, shown);
    rows.set(item.index, made);
    return made;
  }

  /** Draw what is pending, the newest first, for a few milliseconds a frame. */
  function piece() {
    drawing = 0;
    const until = performance.now() + PIECE_MS;
    scroll.above(() => {
      while (pending.length && performance.now() < until) {
        const made = row(/** @type {ConversationItem} */ (pending.pop()));
        if (made) list.prepend(made);
      }
    });
    if (pending.length) drawing = requestAnimationFrame(piece);
    else watch();
  }

  /** Whether the beginning is near is said once, so it is asked anew after each change. */
  function watch() {
    seen.unobserve(older);
    seen.observe(older);
  }

  async function load() {
    if (loading || pending.length || older.hidden) return;
    loading = true;
    await doings.older();
    loading = false;
  }

  /** @param {Talk} talk */
  function around(talk) {
    older.hidden = first(talk) === 0;
    const active = underWay(talk);
    for (const one of cards.values()) {
      const { active: was, result } = one.sources();
      // A call that has its result stands as it does: with many of them, drawing them all is felt.
      if (was !== active && !result) one.set({ active });
    }
    live.draw(talk);
  }

  /** Cards of calls that are told but in no message stand below the messages. @param {Talk} talk */
  function place(talk) {
    const told = new Map(talk.live.calls.map((call) => [call.call_id, call]));
    for (const [id, call] of told) {
      const one = cardOf(id);
      if (one.sources().live !== call) one.set({ live: call });
      if (!one.node.isConnected) live.calls.append(one.node);
    }
    for (const [id, one] of cards) {
      const { call, result, live: was } = one.sources();
      if (was && !told.has(id)) one.set({ live: null });
      if (call || told.has(id) || (result && pending.length)) continue;
      one.node.remove();
      if (!result) cards.delete(id);
    }
  }

  /** Everything from this index on is replaced. @param {Talk} talk @param {number} from */
  function cut(talk, from) {
    pending = pending.filter((item) => item.index < from);
    for (const [index, made] of rows) {
      if (index < from) continue;
      list.remove(made);
      rows.delete(index);
    }
    for (const one of cards.values()) one.cut(from);
    for (const item of talk.items.filter((one) => one.index >= from)) {
      const made = row(item);
      if (made) list.append(made);
    }
  }

  return {
    node,
    toEnd: scroll.button,
    end: scroll.end,
    /** The conversation as it is now. @param {Talk} talk */
    show(talk) {
      list.clear();
      rows.clear();
      cards.clear();
      live.calls.replaceChildren();
      pending = [...talk.items];
      piece();
      place(talk);
      around(talk);
      scroll.end();
    },
    /** Something was told; this is the conversation after it. @param {Talk} talk @param {ConversationEvent} told */
    told(talk, told) {
      if (told.type === "text" || told.type === "reasoning") return live.draw(talk);
      if (told.type === "items") scroll.above(() => cut(talk, told.data.from));
      if (told.type === "items" || told.type === "call") place(talk);
      around(talk);
      if (told.type === "items" && talk.items.at(-1)?.kind === "user") scroll.end();
    },
    /** These came before the others. @param {Talk} talk @param {ConversationItem[]} items */
    before(talk, items) {
      pending = [...items, ...pending];
      around(talk);
      if (!drawing) piece();
    },
    /** @param {string} callId */
    reveal(callId) {
      cards.get(callId)?.node.scrollIntoView({ block: "nearest" });
    },
    close() {
      seen.disconnect();
      scroll.close();
      clearInterval(clock);
      cancelAnimationFrame(drawing);
    },
  };
}
