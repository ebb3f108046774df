/** Where a person writes: words, files, which model and tools; to send, to stop, to say something else instead. */

/** @import { DeskInfo, AttachedFile } from "../../values.js" */
/** @import { Choice } from "./pickers.js" */
/** @import { Talk } from "./state.js" */

import { busy, h, icon, unfocused } from "../../dom.js";
import { newId } from "../../ids.js";
import { say } from "../../toast.js";
import { t } from "../../words.js";
import { drafts } from "./drafts.js";
import { files } from "./files.js";
import { pickers } from "./pickers.js";
import { underWay } from "./state.js";

/**
 * @typedef {object} Said
 * @property {string} text
 * @property {AttachedFile[]} attached
 * @property {number | null} upto Everything from this message on is taken back first.
 * @property {string} once The same words are not said twice.
 */

/**
 * @typedef {object} ComposerDoings
 * @property {(said: Said) => Promise<void>} send
 * @property {() => Promise<void>} stop
 * @property {(choice: Choice) => void} choose
 */

const TOUCH = "(pointer: coarse)";
/** Letters that are pasted as words; more of them are a file. */
const PASTED = 50_000;
/** What a key says that belongs to an input method; Safari says it of the Enter that ends one, and nothing else. */
const COMPOSING = 229;

/**
 * @param {string} id Of the conversation, or "" for one that is not begun yet.
 * @param {DeskInfo} about
 * @param {ComposerDoings} doings
 * @param {import("./drafts.js").Drafts} [written]
 */
export function composer(id, about, doings, written = drafts(new Map())) {
  const begun = written.of(id);
  const label = { "aria-label": t("chat.write"), placeholder: t("chat.write") };
  const text = h("textarea", { rows: "1", autocomplete: "off", ...label });
  const given = files(begun.files, () => changed());
  const choose = (/** @type {Choice} */ choice) => (written.keep(id, { choice }), doings.choose(choice));
  const picked = pickers(about, choose, id ? null : begun.choice);
  const sends = { "aria-label": t("chat.send"), title: t("chat.send") };
  const send = h("button", { type: "submit", class: "primary send", ...sends }, icon("send"));
  const stop = h("button", { type: "button", class: "danger stop", hidden: true, title: t("chat.stop.keys") }, icon("stop"), h("span", null, t("chat.stop")));
  const hint = h("span", { class: "hint", role: "status" });
  const instead = h("div", { class: "instead", hidden: true }, h("span", null, t("chat.instead")));
  const drop = h("button", { type: "button", class: "quiet small", on: { click: () => forget() } }, t("chat.instead.cancel"));
  instead.append(drop);
  const foot = h("div", { class: "composer-foot" }, given.button, given.input, picked.node, hint, stop, send);
  const node = h("form", { class: "composer", "aria-label": t("chat.composer") }, instead, given.list, text, foot);

  let once = newId();
  /** @type {number | null} */
  let upto = begun.upto;
  let working = false;
  let sending = false;
  let online = true;

  function refresh() {
    const empty = !text.value.trim() && !given.chosen().length;
    send.disabled = empty || !online || (working && upto === null);
    send.hidden = working && upto === null;
    stop.hidden = !working;
    hint.textContent = online ? "" : t("chat.offline");
    instead.hidden = upto === null;
    if (!CSS.supports("field-sizing", "content")) {
      text.style.height = "auto";
      text.style.height = `${text.scrollHeight}px`;
    }
  }
  function changed() {
    once = newId();
    written.keep(id, { text: text.value, upto, files: given.chosen() });
    refresh();
  }
  function forget() {
    upto = null;
    text.value = "";
    changed();
    text.focus();
  }
  async function go() {
    refresh();
    if (send.disabled) {
      if (working && text.value.trim()) say(t("chat.busy"));
      return;
    }
    if (sending) return;
    sending = true;
    const words = text.value;
    const files = given.chosen();
    await busy(send, given.read().then((attached) => doings.send({ text: words, attached, upto, once }))).then(
      () => sent(words, files),
      () => {},
    );
    sending = false;
    refresh();
  }
  /** What came after it stays: the next words may be begun already. @param {string} words @param {File[]} files */
  function sent(words, files) {
    upto = null;
    text.value = text.value.startsWith(words) ? text.value.slice(words.length) : text.value;
    given.without(files);
    if (!matchMedia(TOUCH).matches) text.focus();
  }

  node.addEventListener("submit", (event) => {
    event.preventDefault();
    void go();
  });
  text.addEventListener("input", changed);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && upto !== null) {
      event.stopPropagation();
      forget();
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === COMPOSING || matchMedia(TOUCH).matches) return;
    event.preventDefault();
    void go();
  });
  takeFiles(node, text, given.add);
  stop.addEventListener("click", (event) => {
    // It takes the place of Send: the second half of a double click is not meant for it.
    if (event.detail < 2) void busy(stop, doings.stop()).finally(() => unfocused() && text.focus());
  });
  text.value = begun.text;
  refresh();

  return {
    node,
    focus: () => text.focus(),
    choice: picked.now,
    offer: picked.offer,
    /** @param {boolean} now */
    connected(now) {
      online = now;
      refresh();
    },
    /** @param {Talk} talk */
    set(talk) {
      working = underWay(talk);
      if (upto !== null && upto > talk.total) upto = null;
      picked.set({ model: talk.model, ensembles: talk.ensembles, off: talk.off });
      refresh();
    },
    /** Words to begin with; the first `open` in them is what the person says next. @param {string} words @param {string} open */
    begin(words, open) {
      text.value = words;
      changed();
      text.focus();
      const at = words.indexOf(open);
      text.setSelectionRange(at < 0 ? words.length : at, at < 0 ? words.length : at + open.length);
    },
    /** Words to be said again, otherwise. @param {string} words @param {number | null} [from] */
    put(words, from = null) {
      upto = from;
      text.value = words;
      changed();
      text.focus();
      text.setSelectionRange(words.length, words.length);
    },
  };
}

/** Files that are pasted or dropped.
 * @param {HTMLElement} place
 * @param {HTMLElement} field
 * @param {(files: File[]) => void} add
 */
function takeFiles(place, field, add) {
  /** @param {DataTransfer | null} data */
  const held = (data) => [...(data?.files ?? [])];
  field.addEventListener("paste", (event) => {
    const pasted = held(event.clipboardData);
    const words = event.clipboardData?.getData("text/plain") ?? "";
    if (!pasted.length && words.length <= PASTED) return;
    event.preventDefault();
    add(pasted.length ? pasted : [new File([words], "pasted.txt", { type: "text/plain" })]);
  });
  /** @param {DragEvent} event */
  const over = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    place.classList.toggle("dropping", event.type === "dragover");
  };
  place.addEventListener("dragover", over);
  place.addEventListener("dragleave", over);
  place.addEventListener("drop", (event) => {
    over(event);
    add(held(event.dataTransfer));
  });
}
