/** Files that a person gives with their words: chosen, pasted or dropped, listed, taken out again. */

/** @import { AttachedFile } from "../../values.js" */

import { h, icon, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { say } from "../../toast.js";
import { size, t } from "../../words.js";

const MOST = 10_000_000;
/** Types that browsers do not name, or name as something that no model reads. */
const TEXT = /\.(txt|md|csv|tsv|json|jsonl|toml|ya?ml|xml|html?|css|js|ts|py|rs|go|java|c|h|cpp|sh|sql|log|ini|cfg|tex)$/i;
const PICTURE = /^image\/(png|jpeg|gif|webp)$/;

/** @param {File[]} chosen At first. @param {() => void} changed */
export function files(chosen, changed) {
  const list = h("ul", { class: "chosen", "aria-label": t("chat.attached"), hidden: true });
  const input = h("input", { type: "file", multiple: true, hidden: true, "aria-label": t("chat.attach") });
  const says = { "aria-label": t("chat.attach"), title: t("chat.attach") };
  const button = h("button", { type: "button", class: "quiet icon-button", ...says, on: { click: () => input.click() } }, icon("attach"));
  input.addEventListener("change", () => {
    add([...(input.files ?? [])]);
    input.value = "";
  });

  /** @param {File[]} more */
  function add(more) {
    for (const file of more) {
      if (!readable(file)) say(t("chat.attach.kind", { name: visible(file.name) }));
      else if (total() + file.size > MOST) say(t("chat.attach.size", { name: visible(file.name), most: size(MOST) }));
      else chosen = [...chosen, file];
    }
    draw();
    changed();
  }
  function total() {
    return chosen.reduce((sum, file) => sum + file.size, 0);
  }
  function draw() {
    list.hidden = !chosen.length;
    replace(list, chosen.map(row));
  }
  /** @param {File[]} these */
  function without(these) {
    chosen = chosen.filter((file) => !these.includes(file));
    draw();
    changed();
  }
  /** @param {File} file */
  function row(file) {
    const name = h("span", { class: "attachment-name" }, visible(file.name));
    return h("li", null, name, h("span", { class: "meta" }, size(file.size)), remove(file));
  }
  /** @param {File} file */
  function remove(file) {
    const click = () => {
      without([file]);
      button.focus();
    };
    const label = t("chat.attach.remove", { name: visible(file.name) });
    return h("button", { type: "button", class: "quiet icon-button", "aria-label": label, on: { click } }, icon("close"));
  }

  draw();
  return {
    list,
    input,
    button,
    add,
    chosen: () => chosen,
    /** @returns {Promise<AttachedFile[]>} */
    read: () => Promise.all(chosen.map(encoded)),
    without,
  };
}

/** @param {File} file */
function readable(file) {
  return PICTURE.test(file.type) || file.type.startsWith("text/") || file.type === "application/json" || TEXT.test(file.name);
}

/** @param {File} file @returns {Promise<AttachedFile>} */
async function encoded(file) {
  return { name: file.name, media_type: PICTURE.test(file.type) ? file.type : textual(file.type), data: await base64(file) };
}

/** @param {string} type */
function textual(type) {
  return type.startsWith("text/") || type === "application/json" ? type.split(";")[0] ?? "text/plain" : "text/plain";
}

/** @param {Blob} blob @returns {Promise<string>} */
export function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
