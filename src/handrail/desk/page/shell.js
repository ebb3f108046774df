/**
 * The frame around the views: where one can go, what is shown, whether the node is there, and news of conversations
 * that are not on the screen.
 *
 * A view is a module with `show(main, params, ctx)`. It gives back how it is left and, if it can, how it goes to other
 * params without being made anew.
 */

import { ask, follow } from "./bus.js";
import { h, replace } from "./dom.js";
import { header } from "./header.js";
import { prose } from "./text.js";
import { alert, dismiss, say } from "./toast.js";
import { add, onLanguage, t } from "./words.js";

/**
 * @typedef {object} Context
 * @property {import("./values.js").DeskInfo} about
 * @property {(route: string) => void} go As `go("chat/run_1")`.
 * @property {(heard: (event: string, data: any) => void) => () => void} watch News of `desk.watch`, `about` when that is
 *   another, and `back` when the node was lost and is there again: something may have been missed. Returns how to end it.
 * @property {(text: string) => void} title
 * @property {Map<string, any>} kept What a view leaves here is there when it is shown again.
 */
/** @typedef {{leave?: () => void, update?: (params: string[]) => void | Promise<void>, shortcuts?: [string, string][]}} Shown */
/** @typedef {{show: (main: HTMLElement, params: string[], ctx: Context) => Promise<Shown | void>}} View */

/** @type {Record<string, () => Promise<View>>} */
const VIEWS = {
  chat: () => import("./views/chat/chat.js"),
  tools: () => import("./views/tools/tools.js"),
  proof: () => import("./views/proof/proof.js"),
  network: () => import("./views/network/network.js"),
  settings: () => import("./views/settings/settings.js"),
};
const NAMES = Object.keys(VIEWS);

/**
 * Begin. Nothing is shown before the node has said what it is.
 * @param {HTMLElement} top
 * @param {HTMLElement} main
 */
export async function shell(top, main) {
  /** @type {Set<(event: string, data: any) => void>} */
  const heard = new Set();
  /** @type {Context} */
  const ctx = {
    about: await ask("desk.about"),
    go: (route) => void (location.hash = `#/${route.split("/").map(encodeURIComponent).join("/")}`),
    watch: (fn) => (heard.add(fn), () => void heard.delete(fn)),
    kept: new Map(),
    title: (text) => void (document.title = text ? `${prose(text)} · ${ctx.about.name}` : ctx.about.name),
  };
  const frame = header(top, NAMES, () => showing.shown?.shortcuts ?? []);
  const showing = stage(main, ctx, frame);
  window.addEventListener("hashchange", () => showing.go());
  onLanguage(() => {
    frame.draw();
    void showing.go(true);
  });
  void showing.go();
  await news(ctx, heard, frame);
}

/**
 * @param {HTMLElement} main
 * @param {Context} ctx
 * @param {ReturnType<typeof header>} frame
 */
function stage(main, ctx, frame) {
  let turn = 0;
  let name = "";
  /** @type {{shown: Shown | null, go: (anew?: boolean) => Promise<void>}} */
  const self = { shown: null, go };

  /** Show what the address says; the same view goes on unless it has to be made anew. */
  async function go(anew = false) {
    const [wanted = "", ...params] = route();
    const mine = ++turn;
    frame.at(wanted);
    try {
      if (wanted === name && self.shown?.update && !anew) return void (await self.shown.update(params));
      self.shown?.leave?.();
      const moved = name !== "" && name !== wanted;
      [self.shown, name] = [null, wanted];
      await enter(mine, wanted, params, moved);
    } catch (error) {
      if (mine === turn) failed(error);
    }
  }

  /**
   * @param {number} mine
   * @param {string} wanted
   * @param {string[]} params
   * @param {boolean} moved
   */
  async function enter(mine, wanted, params, moved) {
    const load = VIEWS[wanted];
    if (!load) return void replace(main, notice(t("shell.view.none")));
    const view = await load();
    if (mine !== turn) return;
    ctx.title(t(`shell.nav.${wanted}`));
    const place = h("div", { class: `view view-${wanted}` });
    replace(main, place);
    if (moved) main.focus({ preventScroll: true });
    main.scrollTop = 0;
    const shown = (await view.show(place, params, ctx)) ?? {};
    if (mine === turn) self.shown = shown;
    else shown.leave?.();
  }

  /** @param {unknown} error */
  function failed(error) {
    const why = error instanceof Error ? error.message : String(error);
    const again = h("button", { type: "button", on: { click: () => go(true) } }, t("shell.view.again"));
    replace(main, notice(t("shell.view.failed", { why: prose(why) }), again));
  }
  return self;
}

/** @returns {string[]} */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  return parts.length ? parts : ["chat"];
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * @param {string} text
 * @param {...Node} more
 */
function notice(text, ...more) {
  return h("div", { class: "notice", role: "alert" }, h("p", null, text), more);
}

/**
 * What happens in all conversations, for as long as the page is open.
 * @param {Context} ctx
 * @param {Set<(event: string, data: any) => void>} heard
 * @param {ReturnType<typeof header>} frame
 */
async function news(ctx, heard, frame) {
  let lost = false;
  /** @param {"open" | "lost"} state */
  const onState = (state) => {
    frame.state(state);
    const back = lost && state === "open";
    lost = state === "lost";
    if (back) onFrame("back", {});
  };
  /** @param {string} event @param {any} data */
  const onFrame = (event, data) => {
    (NEWS[event] ?? (() => {}))(data, ctx);
    tell(event, data);
    if (event === "tools" || event === "back") void renew(ctx).then(() => tell("about", ctx.about));
  };
  /** @param {string} event @param {any} data */
  const tell = (event, data) => [...heard].forEach((fn) => fn(event, data));
  await follow("desk.watch", () => ({}), onFrame, { signal: new AbortController().signal, onState });
}

/** @type {Record<string, (data: any, ctx: Context) => void>} */
const NEWS = {
  alert: failedElsewhere,
  question: askedElsewhere,
  answered: (data) => dismiss(data.request),
  settled: (data) => dismiss(data.id),
  gone: (data) => dismiss(data.id),
  back: () => say(t("shell.state.back")),
};

/** @param {Context} ctx */
async function renew(ctx) {
  // A node that is away again says so in the head of the page; until then what is known holds.
  ctx.about = await ask("desk.about").catch(() => ctx.about);
}

/**
 * @param {import("./values.js").Alert} told
 * @param {Context} ctx
 */
function failedElsewhere(told, ctx) {
  if (isOpen(told.conversation)) return;
  const title = t(`shell.alert.${told.kind}`, { tool: told.tool ?? "" });
  const action = { label: t("shell.open"), run: () => ctx.go(`chat/${told.conversation}`) };
  const shown = alert({ title, text: told.message, key: told.conversation, actions: [action] });
  void titleOf(told.conversation).then(shown.where);
}

/**
 * @param {import("./values.js").DeskQuestion} asked
 * @param {Context} ctx
 */
function askedElsewhere(asked, ctx) {
  if (isOpen(asked.conversation) || isAsked(asked.request)) return;
  const action = { label: t("shell.question.answer"), run: () => void look(asked, ctx) };
  const title = t("shell.question.title", { tool: asked.tool });
  const shown = alert({ title, key: asked.request, actions: [action], tone: "asks" });
  // What another program asks is in no conversation: its run says which call it is.
  void titleOf(asked.conversation).then((title) => shown.where(title || (asked.conversation ? "" : asked.run)));
}

/** What a conversation is called; nothing if it is none, or cannot be had. @param {string} id @returns {Promise<string>} */
async function titleOf(id) {
  const found = id ? await ask("desk.talks").catch(() => null) : null;
  return found?.talks.find((/** @type {{id: string}} */ talk) => talk.id === id)?.title ?? "";
}

/** @param {string} conversation */
function isOpen(conversation) {
  const [view, id] = route();
  return view === "chat" && id !== undefined && id === conversation;
}

/** Whether the dialog for it is open: that of a tool that is tried here. @param {string} request */
function isAsked(request) {
  return document.querySelector(`dialog[open] [data-request="${CSS.escape(request)}"]`) !== null;
}

/**
 * To the conversation in which something is asked. A tool that is tried in another tab has none, and what another
 * program asks: it is answered here, and what is put off is told again.
 * @param {import("./values.js").DeskQuestion} asked
 * @param {Context} ctx
 */
async function look(asked, ctx) {
  const id = asked.conversation;
  const found = id !== "" && (await ask("desk.items", { id, before: 0, limit: 1 }).then(() => true, () => false));
  if (found) return ctx.go(`chat/${id}`);
  const { asker } = await import("./views/chat/asker.js");
  add(await import("./words/chat.js"));
  const putOff = () => {
    end();
    askedElsewhere(asked, ctx);
  };
  const asks = asker((question, word) => ask("desk.decide", { request: question.request, ...word }), putOff);
  const end = ctx.watch((event, data) => {
    if (event !== "answered" || data.request !== asked.request) return;
    asks.set([]);
    end();
  });
  asks.set([asked]);
}
