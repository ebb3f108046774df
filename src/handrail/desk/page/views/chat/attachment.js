/** A file that came with a message or a result: a picture is shown, anything else can be saved. */

/** @import { FileDownload as Saved, ItemAttachment } from "../../values.js" */

import { busy, fromBase64, h, icon, save } from "../../dom.js";
import { visible } from "../../text.js";
import { alert } from "../../toast.js";
import { size, t } from "../../words.js";

/** Those that a browser draws and that can hold nothing that runs. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const SMALL = 5_000_000;

/**
 * @param {ItemAttachment} part
 * @param {() => Promise<Saved>} get
 * @returns {HTMLElement}
 */
export function attachment(part, get) {
  const name = visible(part.name || part.media_type || t("chat.file"));
  if (part.url) return linked(part.url, name);
  const keep = async () => {
    try {
      save(await get());
    } catch (error) {
      alert({ title: t("chat.failed.attachment"), text: String(/** @type {Error} */ (error).message) });
    }
  };
  const button = h("button", { type: "button", class: "attachment", title: t("chat.save"), on: { click: () => busy(button, keep()) } });
  const weighs = h("span", { class: "meta" }, part.size ? size(part.size) : "");
  button.append(icon("attach"), h("span", { class: "attachment-name" }, name), weighs);
  if (PICTURES.has(part.media_type) && (part.size ?? 0) < SMALL) whenSeen(button, () => picture(button, name, part.media_type, get));
  return button;
}

/** @param {string} url @param {string} name */
function linked(url, name) {
  if (!/^https?:/i.test(url)) return h("span", { class: "attachment" }, name);
  const shown = visible(url.length > 80 ? `${url.slice(0, 80)}…` : url);
  return h("a", { class: "attachment", href: url, rel: "noopener noreferrer", target: "_blank" }, icon("attach"), shown);
}

/** @param {Element} node @param {() => void} then */
function whenSeen(node, then) {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    then();
  });
  seen.observe(node);
}

/**
 * @param {HTMLElement} button
 * @param {string} name
 * @param {string} type
 * @param {() => Promise<Saved>} get
 */
async function picture(button, name, type, get) {
  const file = await get().catch(() => null);
  if (!file) return; // It can still be asked for by the button, which says why not.
  const address = URL.createObjectURL(new Blob([fromBase64(file.data)], { type }));
  const forget = () => URL.revokeObjectURL(address);
  // What cannot be drawn is still there to be saved.
  const failed = () => (forget(), drawn.remove());
  const drawn = h("img", { src: address, alt: name, class: "thumb", on: { load: forget, error: failed } });
  button.prepend(drawn);
}
