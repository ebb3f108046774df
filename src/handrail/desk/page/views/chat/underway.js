/** What of the turn under way is in no message yet: words as they come, thoughts, notices, and that it goes on at all. */

/** @import { ClippedText } from "../../values.js" */
/** @import { Talk } from "./state.js" */

import { h, replace } from "../../dom.js";
import { block, visible } from "../../text.js";
import { count, t } from "../../words.js";
import { serviceCards } from "./service-call.js";
import { streamed } from "./streamed.js";

const TAIL = 20_000;

export function underway() {
  const thoughts = h("pre", { class: "thoughts" });
  const reasoning = h("details", { class: "reasoning", hidden: true }, h("summary", null, t("chat.reasoning")), thoughts);
  let words = streamed();
  const calls = h("div", { class: "live-calls" });
  const services = h("div", { class: "live-service-calls" });
  const early = h("div", { class: "notices" });
  const folded = h("summary");
  const fold = h("details", { class: "early-notices", hidden: true }, folded, early);
  const notices = h("div", { class: "notices" });
  const doing = h("span");
  const going = h("p", { class: "going", hidden: true }, h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")), doing);
  const node = h("div", { class: "underway" }, reasoning, services, words.node, calls, fold, notices, going);
  let thought = "";
  let noticed = "";
  /** Notices from before the model began to answer, as that it is loaded: once it answers they are folded away. */
  let before = 0;
  let served = 0;

  return {
    node,
    calls,
    /** The words as they are drawn, if they became this message: so nothing moves. @param {ClippedText} said */
    become(said) {
      const text = words.text();
      const same = said.whole ? said.whole === text.length && text.startsWith(said.text) : said.text === text;
      if (!same || !text) return null;
      const made = words;
      words = streamed();
      made.node.replaceWith(words.node);
      made.end();
      return made.node;
    },
    /** @param {Talk} talk */
    draw({ live, state }) {
      words.set(live.text);
      words.node.hidden = !live.text;
      reasoning.hidden = !live.reasoning;
      if (thought !== live.reasoning) thoughts.textContent = block(live.reasoning.slice(-TAIL));
      thought = live.reasoning;
      if (live.notices.length < before) before = 0;
      if (!before && (live.text || live.reasoning || live.calls.length)) before = live.notices.length;
      const shows = `${live.begun} ${before} ${live.notices.length}`;
      if (noticed !== shows) {
        const said = live.notices.map((text) => h("p", { class: "turn-notice" }, visible(text)));
        folded.textContent = count(before, "chat.notices");
        fold.hidden = !before;
        replace(early, said.slice(0, before));
        replace(notices, said.slice(before));
      }
      noticed = shows;
      if (served !== live.service_calls.length) replace(services, serviceCards(live.service_calls));
      served = live.service_calls.length;
      const silent = state === "working" && !live.text && !live.calls.length;
      going.hidden = !silent;
      if (silent) doing.textContent = live.model ? t("chat.going", { model: visible(live.model) }) : t("chat.going.anyone");
    },
  };
}
