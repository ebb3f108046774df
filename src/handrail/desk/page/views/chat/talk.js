/** One conversation: follows what is told of it, shows it, and does with it what the person wants. */

/** @import { Alert, ConversationItem, ConversationSnapshot, ConversationEvent } from "../../values.js" */
/** @import { Context } from "../../shell.js" */
/** @import { Said } from "./composer.js" */
/** @import { Choice } from "./pickers.js" */
/** @import { Talk } from "./state.js" */
/** @import { Word } from "./question.js" */

import { ask, CallError, follow } from "../../bus.js";
import { copy } from "../../copy.js";
import { h } from "../../dom.js";
import { confirm } from "../../dialog.js";
import { visible } from "../../text.js";
import { alert, dismiss, say } from "../../toast.js";
import { t } from "../../words.js";
import { banner, heading } from "./alert.js";
import { argumentLine, oneLine } from "./card.js";
import { asker } from "./asker.js";
import { composer } from "./composer.js";
import { drafts } from "./drafts.js";
import { failed } from "./list.js";
import { after, first, opened, underWay, withOlder } from "./state.js";
import { thread } from "./thread.js";
import { twice } from "./twice.js";

/**
 * @param {string} id
 * @param {Context} ctx
 * @param {(title: string, run: string) => void} titled
 */
export function talk(id, ctx, titled) {
  const end = new AbortController();
  /** @type {Talk | null} */
  let now = null;
  const status = h("p", { class: "unseen", role: "status" });
  const alarm = h("p", { class: "unseen", role: "alert" });
  const lost = h("p", { class: "lost-bar", role: "status", hidden: true });
  const rest = () => matchMedia("(pointer: coarse)").matches || writes.focus();
  const does = doings(id, ctx, (words, upto) => writes.put(words, upto), rest, (upto) => (now ? lastingCalls(now, upto) : []));
  const proof = () => `#/proof/${encodeURIComponent(now?.run || id)}`;
  const shown = thread({ ...does, older, proof, answer: (callId) => asks.open(callId) });
  const alerts = banner({ ...does.afterFailure });
  const asks = asker((question, word) => decide(question.request, word));
  const writes = composer(id, ctx.about, { send: does.send, stop: does.stop, choose: does.choose }, drafts(ctx.kept));
  const unwatch = ctx.watch((event, data) => event === "about" && writes.offer(data));
  const foot = h("div", { class: "talk-foot" }, shown.toEnd, alerts.node, writes.node);
  const node = h("div", { class: "talk-open" }, lost, shown.node, foot, status, alarm);

  async function older() {
    if (!now || first(now) === 0) return;
    const before = first(now);
    const { signal } = end;
    const failure = (/** @type {Error} */ error) => (signal.aborted ? null : failed("chat.failed.older")(error));
    const items = (await ask("desk.items", { id, before, limit: 40 }, { signal }).catch(failure))?.items ?? [];
    // Meanwhile everything may have been shown anew: these would leave a gap.
    if (first(now) !== before || !items.length) return;
    now = withOlder(now, items);
    shown.before(now, items);
  }

  /** @param {string} event @param {any} data */
  function heard(event, data) {
    if (event === "snapshot") snapshot(data);
    else if (event === "told" && now) news(now, data);
  }
  /** @param {ConversationSnapshot} data */
  function snapshot(data) {
    const before = now;
    now = opened(data);
    shown.show(now);
    around(now);
    if (before) announce(before, now);
  }
  /** @param {Talk} before @param {ConversationEvent} event */
  function news(before, event) {
    now = after(before, event);
    if (now.gone) return gone();
    shown.told(now, event);
    if (event.type !== "text" && event.type !== "reasoning") around(now);
    announce(before, now);
  }
  /** @param {Talk} talk */
  function around(talk) {
    titled(talk.title, talk.run);
    alerts.set(talk);
    writes.set(talk);
    asks.set(talk.questions);
    for (const question of talk.questions) dismiss(question.request);
    raise(talk.alert);
  }
  /** A failure is read out at once; to be seen it stands above where one writes, and needs no notice besides. @param {Alert | null} alert */
  function raise(alert) {
    dismiss(id);
    const words = alert ? oneLine(`${heading(alert)}: ${alert.message}`) : "";
    if (alarm.textContent !== words) alarm.textContent = words;
  }
  /** What who cannot see it hears: not each word, but that something begins and ends. @param {Talk} before @param {Talk} next */
  function announce(before, next) {
    if (before.state === next.state) return;
    const last = next.items.at(-1);
    const words = last?.kind === "assistant" ? (last.text?.text.slice(0, 300) ?? "") : "";
    status.textContent = next.state === "idle" ? t("chat.announce.idle", { words: oneLine(words) }) : t(`chat.announce.${next.state}`);
  }
  function gone() {
    say(t("chat.gone"));
    ctx.go("chat");
  }
  /** @param {string} request @param {Word} word */
  async function decide(request, word) {
    await ask("desk.decide", { request, ...word });
  }

  /** @param {"open" | "lost"} state */
  function connection(state) {
    lost.hidden = state === "open";
    lost.textContent = state === "open" ? "" : t("chat.lost");
    writes.connected(state === "open");
  }
  const from = () => ({ id, ...(now ? { after: now.cursor } : {}) });
  follow("desk.follow", from, heard, { signal: end.signal, onState: connection }).catch((error) => {
    if (end.signal.aborted) return;
    const words = error instanceof CallError ? error.message : String(error);
    const none = error instanceof CallError && error.code === "bad_request";
    const begin = h("a", { class: "button", href: "#/chat" }, t("chat.new"));
    node.replaceChildren(h("div", { class: "empty" }, h("h2", null, t(none ? "chat.no-such" : "chat.failed.open")), h("p", null, visible(words)), begin));
    if (!(error instanceof CallError)) throw error;
  });
  const keys = twice(() => now && underWay(now), () => say(t("chat.stop.again")), () => void does.stop());
  document.addEventListener("keydown", keys);

  return {
    node,
    focus: writes.focus,
    close() {
      end.abort();
      unwatch();
      document.removeEventListener("keydown", keys);
      asks.close();
      shown.close();
    },
  };
}

/** The calls from this message on that changed something, or may have: undo takes back words, and not what was done.
 * @param {Talk} talk @param {number} upto */
function lastingCalls(talk, upto) {
  const calls = talk.items.filter((item) => item.kind === "call" && item.side_effects && item.index >= upto);
  const outcome = (/** @type {string} */ id) => talk.items.find((item) => item.kind === "result" && item.call_id === id)?.outcome ?? "in_doubt";
  const lasts = calls.filter((item) => LASTING.has(outcome(item.call_id ?? "")));
  return lasts.map((item) => `${visible(item.name ?? "")} (${argumentLine(item.arguments)}): ${t(`chat.undone.${outcome(item.call_id ?? "") === "ok" ? "ok" : "doubt"}`)}`);
}
const LASTING = new Set(["ok", "in_doubt", "timeout", "cancelled"]);

/**
 * What a person can do with a conversation. What cannot be done is said, and nothing else happens.
 * @param {string} id
 * @param {Context} ctx
 * @param {(words: string, upto?: number | null) => void} write Puts words where they can be changed.
 * @param {() => void} rest Where the person is once what they pressed is gone.
 * @param {(upto: number) => string[]} lasting What tools did from this message on, in words.
 */
function doings(id, ctx, write, rest, lasting) {
  /** @param {string} capability @param {object} [input] @param {string} [key] */
  const call = (capability, input = {}, key = "chat.failed") => ask(capability, { id, ...input }).catch(failed(key));
  const again = async () => void (await call("desk.again", {}, "chat.failed.again").finally(rest));
  const dismiss = async () => void (await call("desk.dismiss").finally(rest));
  /** All of its words; null if they cannot be had, which is said. @param {ConversationItem} item @returns {Promise<string | null>} */
  const words = async ({ index, text }) => (text?.whole ? ((await call("desk.whole", { index }))?.text ?? null) : (text?.text ?? ""));
  /** @param {number} index @returns {Promise<string>} */
  const whole = async (index) => (await ask("desk.whole", { id, index })).text;
  /** @param {number} upto */
  const back = async (upto) => {
    const stays = lasting(upto);
    const said = await call("desk.undo", { upto }, "chat.failed.undo");
    if (!said) return;
    write(said.words);
    if (stays.length) alert({ title: t("chat.undone"), text: stays.join("\n"), key: `undone ${id}`, tone: "told" });
  };
  const afterFailure = {
    /** @param {Alert} alert */
    undo: (alert) => back(alert.upto ?? 0),
    /** @param {Alert} alert */
    edit: async (alert) => write(alert.words ?? "", alert.upto ?? 0),
    again,
    dismiss,
  };
  return {
    afterFailure,
    whole,
    again,
    /** @param {number} index @param {number} part */
    attachment: (index, part) => ask("desk.attachment", { id, index, part }),
    /** @param {ConversationItem} item */
    edit: async (item) => {
      const text = await words(item);
      if (text !== null) write(text, item.index);
    },
    /** @param {ConversationItem} item */
    undo: async (item) => {
      if (await confirm(t("chat.undo.sure"), { title: t("chat.undo.title"), yes: t("chat.undo.yes") })) await back(item.index);
    },
    /** @param {ConversationItem} item */
    fork: async (item) => {
      const made = await call("desk.fork", { upto: item.index }, "chat.failed.fork");
      if (!made) return;
      drafts(ctx.kept).keep(made.id, { text: (await words(item)) ?? "" });
      ctx.go(`chat/${made.id}`);
    },
    /** @param {ConversationItem} item */
    copy: async (item) => {
      const text = await words(item);
      if (text !== null) await copy(text);
    },
    stop: async () => void (await call("desk.stop", {}, "chat.failed.stop")),
    /** @param {Choice} choice */
    choose: ({ model, ensembles, off }) => void call("desk.choose", { ...(model ? { model } : {}), ensembles, off }, "chat.failed.choose"),
    /** @param {Said} said */
    send: async ({ text, attached, upto, once }) => {
      const input = { id, text, once, ...(attached.length ? { attached } : {}), ...(upto === null ? {} : { upto }) };
      await ask("desk.say", input).catch((error) => {
        failed("chat.failed.say")(error);
        throw error;
      });
    },
  };
}
