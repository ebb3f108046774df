/** The Tools view: all of them, or one. */

import { h, replace } from "../../dom.js";
import { add, t } from "../../words.js";
import * as words from "../../words/tools.js";
import { loading } from "../parts.js";
import { showList } from "./list.js";
import { showPage } from "./page.js";

add(words);

/**
 * @param {HTMLElement} main
 * @param {string[]} params
 * @param {import("../../shell.js").Context} ctx
 */
export async function show(main, params, ctx) {
  let left = new AbortController();

  /** @param {string[]} to */
  function update([name = ""]) {
    left.abort();
    left = new AbortController();
    const place = h("div", { class: "page tools-view" });
    replace(main, place);
    ctx.title(name || t("tools.title"));
    void loading(place, left.signal, () => (name ? showPage(place, name, left.signal) : showList(place, left.signal, ctx)));
  }

  update(params);
  return { update, leave: () => left.abort() };
}
