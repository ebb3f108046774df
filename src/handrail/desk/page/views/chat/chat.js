/** The chat: the conversations beside the one that is open. At phone width the list is a drawer. */

/** @import { Context } from "../../shell.js" */
/** @import { Said } from "./composer.js" */

import { ask } from "../../bus.js";
import { h, icon } from "../../dom.js";
import { singleKeys } from "../../kept.js";
import { visible } from "../../text.js";
import { add, t } from "../../words.js";
import * as words from "../../words/chat.js";
import { composer } from "./composer.js";
import { drafts } from "./drafts.js";
import { hello } from "./hello.js";
import { failed, list } from "./list.js";
import { talk } from "./talk.js";

add(words);

/**
 * @param {HTMLElement} main
 * @param {string[]} params The id of a conversation, or nothing for a new one.
 * @param {Context} ctx
 */
export async function show(main, params, ctx) {
  const talks = list(ctx);
  const title = h("h1", { class: "talk-heading" });
  const proof = h("a", { class: "quiet small to-proof" }, icon("proof"), h("span", null, t("chat.proof")));
  const says = { "aria-expanded": "false", "aria-controls": "talk-drawer", "aria-label": t("chat.talks"), title: t("chat.talks") };
  const drawer = h("button", { type: "button", class: "quiet icon-button open-drawer", ...says }, icon("menu"));
  const head = h("header", { class: "talk-head" }, drawer, title, proof);
  const place = h("div", { class: "talk-place" });
  const side = h("aside", { class: "talk-side", id: "talk-drawer" }, talks.node);
  const shade = h("div", { class: "shade", on: { click: () => slide(false) } });
  const body = h("section", { class: "talk-main", "aria-label": t("chat.talk") }, head, place);
  const view = h("div", { class: "chat" }, side, shade, body);
  /** @type {{ node: HTMLElement, focus: () => void, close: () => void } | null} */
  let open = null;

  /** @param {boolean} out */
  function slide(out) {
    view.classList.toggle("drawn", out);
    drawer.setAttribute("aria-expanded", String(out));
    if (out && !matchMedia("(pointer: coarse)").matches) talks.focusSearch();
  }
  /** @param {string} name @param {string} run */
  function titled(name, run) {
    const shown = visible(name || t("chat.untitled"));
    if (title.textContent !== shown) ctx.title(shown);
    title.textContent = shown;
    proof.hidden = !run;
    if (run) proof.setAttribute("href", `#/proof/${encodeURIComponent(run)}`);
  }
  /** @param {string[]} [wanted] */
  function turnTo([id = ""] = []) {
    open?.close();
    slide(false);
    talks.mark(id);
    if (id) titled(talks.title(id) || t("chat.talk"), id);
    else titled(t("chat.new"), "");
    open = id ? talk(id, ctx, titled) : fresh(ctx);
    place.replaceChildren(open.node);
    if (!matchMedia("(pointer: coarse)").matches) open.focus();
  }

  drawer.addEventListener("click", () => slide(!view.classList.contains("drawn")));
  view.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || !view.classList.contains("drawn")) return;
    event.preventDefault();
    slide(false);
    drawer.focus();
  });
  side.addEventListener("focusout", ({ relatedTarget }) => body.contains(/** @type {Node | null} */ (relatedTarget)) && slide(false));
  main.replaceChildren(view);
  turnTo(params);
  const search = () => (drawer.checkVisibility() ? slide(true) : talks.focusSearch());
  const keys = pressed({ "/": search, n: () => ctx.go("chat") });
  document.addEventListener("keydown", keys);
  return {
    update: turnTo,
    shortcuts: shortcuts(),
    leave() {
      document.removeEventListener("keydown", keys);
      open?.close();
      talks.close();
    },
  };
}

/** Keys that do something where nobody writes. @param {Record<string, () => void>} keys */
function pressed(keys) {
  return (/** @type {KeyboardEvent} */ event) => {
    const other = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey;
    if (other || !singleKeys() || document.querySelector("dialog[open]")) return;
    if (/** @type {Element} */ (event.target).closest("input, textarea, select")) return;
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  };
}

/** @returns {[string, string][]} */
function shortcuts() {
  return [
    ["Enter", t("chat.keys.send")],
    ["Shift Enter", t("chat.keys.line")],
    ["Esc Esc", t("chat.keys.stop")],
    ["/", t("chat.keys.search")],
    ["n", t("chat.keys.new")],
    ["a d e", t("chat.keys.ask")],
  ];
}

/** A conversation that begins with the first words. @param {Context} ctx */
function fresh(ctx) {
  /** @param {Said} said */
  async function send({ text, attached, once }) {
    const { model, ensembles, off } = writes.choice();
    const made = await ask("desk.begin", { ...(model ? { model } : {}), ensembles, off }).catch(said("chat.failed.begin"));
    const input = { id: made.id, text, once, ...(attached.length ? { attached } : {}) };
    await ask("desk.say", input).catch(async (error) => {
      // What may have been said is looked for where it would be. Else all of it stays here, with its files.
      if (error.outcome === "in_doubt") return written.keep(made.id, { text }), failed("chat.failed.say")(error);
      await ask("desk.delete", { id: made.id }).catch(failed("chat.failed.delete"));
      said("chat.failed.say")(error);
    });
    written.keep("", { choice: null });
    if (!left) ctx.go(`chat/${made.id}`);
  }
  /** @param {string} key @returns {(error: Error) => never} */
  const said = (key) => (error) => {
    failed(key)(error);
    throw error;
  };
  let left = false;
  const written = drafts(ctx.kept);
  const writes = composer("", ctx.about, { send, stop: async () => {}, choose: ({ model }) => shown.draw(ctx.about, model) }, written);
  const shown = hello(ctx.about, writes.begin);
  const node = h("div", { class: "talk-open" }, h("div", { class: "thread" }, shown.node), h("div", { class: "talk-foot" }, writes.node));
  const unwatch = ctx.watch((event, data) => {
    if (event !== "about") return;
    writes.offer(data);
    shown.draw(data, writes.choice().model);
  });
  const close = () => {
    left = true;
    unwatch();
  };
  return { node, focus: writes.focus, close };
}
