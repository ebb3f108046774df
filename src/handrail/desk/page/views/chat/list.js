/** The conversations: searched, begun, forked, renamed, shared as a file, taken from one, deleted. */

/** @import { ConversationSummary } from "../../values.js" */

import { ask } from "../../bus.js";
import { h, icon, replace, save } from "../../dom.js";
import { confirm } from "../../dialog.js";
import { visible } from "../../text.js";
import { alert } from "../../toast.js";
import { t, when } from "../../words.js";
import { base64 } from "./files.js";
import { menu } from "./menu.js";
import { prompt } from "./prompt.js";

/** @import { Context } from "../../shell.js" */

const PIECE = 60;
const PAUSE = 180;

/** @param {Context} ctx */
export function list(ctx) {
  /** @type {ConversationSummary[]} */
  let talks = [];
  let shown = PIECE;
  let current = "";
  let asked = 0;
  const said = { "aria-label": t("chat.search"), placeholder: t("chat.search") };
  const search = h("input", { type: "search", class: "talk-search", autocomplete: "off", ...said });
  const rows = h("ul", { class: "talks" });
  const none = h("p", { class: "meta none", role: "status" });
  const end = h("div", { class: "talks-end" });
  const file = h("input", { type: "file", accept: ".json,.jsonl,application/json", hidden: true, "aria-label": t("chat.take") });
  const begin = h("a", { class: "button begin", href: "#/chat" }, icon("plus"), t("chat.new"));
  const more = menu(t("chat.more"), icon("more"), () => [{ label: t("chat.take"), icon: icon("download"), do: () => file.click() }]);
  const tools = h("div", { class: "talk-tools" }, begin, more.node, file);
  const node = h("nav", { class: "talk-list", "aria-label": t("chat.talks") }, tools, search, rows, none, end);

  async function load() {
    const mine = ++asked;
    const words = search.value.trim();
    const found = await ask("desk.talks", words ? { search: words } : {}).catch(failed("chat.failed.talks"));
    if (mine !== asked || !found) return;
    talks = found.talks;
    shown = PIECE;
    draw();
  }
  /** The row of each as it was told last. @type {WeakMap<ConversationSummary, HTMLElement>} */
  const made = new WeakMap();
  /** @param {ConversationSummary} talk */
  function rowOf(talk) {
    const shown = made.get(talk) ?? row(talk, ctx, soon);
    made.set(talk, shown);
    const link = shown.querySelector("a");
    if (talk.id === current) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
    return shown;
  }
  /** Whoever is in the list with the keyboard stays where they were; an open menu is waited for. */
  function draw() {
    if (rows.querySelector(".menu:not([hidden])")) return;
    const at = document.activeElement;
    const [id, tag] = rows.contains(at) ? [at?.closest("li")?.dataset["id"], at?.tagName] : [];
    const all = talks.slice(0, shown).map(rowOf);
    replace(rows, all);
    if (tag) /** @type {HTMLElement} */ (all.find((one) => one.dataset["id"] === id)?.querySelector(tag) ?? search).focus();
    none.textContent = talks.length ? "" : t(search.value.trim() ? "chat.none.found" : "chat.none");
    none.hidden = talks.length > 0;
  }
  /** @param {string} event @param {any} data */
  function news(event, data) {
    if (event === "back") return void load();
    if (event === "gone") talks = talks.filter((talk) => talk.id !== (data.id ?? data));
    else if (event !== "talk") return;
    else if (search.value.trim()) talks = talks.map((talk) => (talk.id === data.id ? { ...data, excerpt: talk.excerpt } : talk));
    else talks = [data, ...talks.filter((talk) => talk.id !== data.id)].sort((a, b) => b.updated - a.updated);
    soon();
  }
  let drawing = 0;
  function soon() {
    drawing ||= requestAnimationFrame(() => {
      drawing = 0;
      draw();
    });
  }

  let typed = 0;
  search.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(load, PAUSE);
  });
  file.addEventListener("change", () => void take(file, ctx));
  const further = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting) || shown >= talks.length) return;
    shown += PIECE;
    draw();
  });
  further.observe(end);
  const unwatch = ctx.watch(news);
  void load();

  return {
    node,
    focusSearch: () => search.focus(),
    /** @param {string} id */
    mark(id) {
      current = id;
      draw();
    },
    /** @param {string} id */
    title: (id) => talks.find((talk) => talk.id === id)?.title ?? "",
    close() {
      unwatch();
      further.disconnect();
      clearTimeout(typed);
    },
  };
}

/**
 * @param {ConversationSummary} talk
 * @param {Context} ctx
 * @param {() => void} closed Of its menu.
 */
function row(talk, ctx, closed) {
  const state = talk.state ?? "idle";
  const title = visible(talk.title || t("chat.untitled"));
  return h(
    "li",
    { class: "talk", data: { id: talk.id, state } },
    h(
      "a",
      { href: `#/chat/${talk.id}` },
      h("span", { class: "talk-title" }, title),
      h("span", { class: "meta" }, when(talk.updated), talk.forked_from ? [" ", icon("fork")] : null),
      state === "idle" ? null : h("span", { class: `dot ${state}` }, h("span", { class: "dot-words" }, t(`chat.state.${state}`))),
      talk.excerpt ? h("span", { class: "talk-excerpt" }, visible(talk.excerpt)) : null,
    ),
    menu(t("chat.talk.menu", { title }), icon("more"), () => entries(talk, ctx), closed).node,
  );
}

/** @param {ConversationSummary} talk @param {Context} ctx */
function entries(talk, ctx) {
  return [
    { label: t("chat.rename"), icon: icon("edit"), do: () => void rename(talk) },
    { label: t("chat.fork.all"), icon: icon("fork"), do: () => void fork(talk, ctx) },
    { label: t("chat.share"), icon: icon("share"), do: () => void share(talk) },
    { label: t("chat.delete"), icon: icon("trash"), danger: true, do: () => void remove(talk) },
  ];
}

/** @param {ConversationSummary} talk */
async function rename(talk) {
  const title = await prompt(t("chat.rename"), t("chat.rename.field"), talk.title);
  if (title) await ask("desk.rename", { id: talk.id, title }).catch(failed("chat.failed.rename"));
}

/** @param {ConversationSummary} talk @param {Context} ctx */
async function fork(talk, ctx) {
  const made = await ask("desk.fork", { id: talk.id }).catch(failed("chat.failed.fork"));
  if (made) ctx.go(`chat/${made.id}`);
}

/** @param {ConversationSummary} talk */
async function share(talk) {
  const made = await ask("desk.share", { id: talk.id }).catch(failed("chat.failed.share"));
  if (made) save(made);
}

/** @param {ConversationSummary} talk */
async function remove(talk) {
  const title = t("chat.delete.title", { title: visible(talk.title || t("chat.untitled")) });
  if (!(await confirm(t("chat.delete.sure"), { title, yes: t("chat.delete"), danger: true }))) return;
  await ask("desk.delete", { id: talk.id }).catch(failed("chat.failed.delete"));
}

/** @param {HTMLInputElement} input @param {Context} ctx */
async function take(input, ctx) {
  const chosen = input.files?.[0];
  input.value = "";
  if (!chosen) return;
  const made = await ask("desk.take", { data: await base64(chosen) }).catch(failed("chat.failed.take"));
  if (made) ctx.go(`chat/${made.id}`);
}

/** What to do with an error of something that a person asked for: say it. @param {string} key */
export function failed(key) {
  return (/** @type {Error} */ error) => {
    alert({ title: t(key), text: visible(error.message) });
    return null;
  };
}
