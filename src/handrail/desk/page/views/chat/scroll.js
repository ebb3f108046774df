/** A place that stays at its end while more comes, unless the person has scrolled away from it. */

import { h, icon } from "../../dom.js";
import { t } from "../../words.js";

const NEAR = 40;
/** For how long after a movement of the person a scroll is taken for theirs. */
const THEIRS = 1_000;
/** For how long after one nothing is scrolled for them: their own scrolling may be under way, and would end here. */
const PAUSE = 400;
const MOVES = ["wheel", "touchmove", "pointerdown", "keydown", "focusin"];

/**
 * @param {HTMLElement} box What scrolls.
 * @param {HTMLElement} inner What grows in it.
 */
export function stuck(box, inner) {
  let held = true;
  let last = 0;
  let moved = -THEIRS;
  const says = { "aria-label": t("chat.to-end"), title: t("chat.to-end") };
  const down = h("button", { type: "button", class: "to-end", hidden: true, ...says }, icon("back"));
  down.addEventListener("click", () => end());

  function end() {
    held = true;
    box.scrollTop = box.scrollHeight;
  }
  function look() {
    const left = box.scrollHeight - box.scrollTop - box.clientHeight;
    // What grows or shrinks scrolls too: only a person who goes up leaves the end.
    if (left < NEAR) held = true;
    else if (box.scrollTop < last && performance.now() - moved < THEIRS) held = false;
    last = box.scrollTop;
    down.hidden = held || left < NEAR;
  }
  const grown = new ResizeObserver(() => {
    if (held && performance.now() - moved > PAUSE) box.scrollTop = box.scrollHeight;
    look();
  });
  grown.observe(inner);
  grown.observe(box);
  box.addEventListener("scroll", look, { passive: true });
  for (const kind of MOVES) box.addEventListener(kind, () => (moved = performance.now()), { passive: true });
  // What is unfolded stays where it is: the person looks at it.
  inner.addEventListener("click", (event) => {
    if (/** @type {Element} */ (event.target).closest("summary")) held = false;
  });

  return {
    button: down,
    end,
    /** Put something above, or elsewhere, without moving what is seen. @param {() => void} change */
    above(change) {
      const anchor = held ? null : first(box, inner);
      const before = anchor?.getBoundingClientRect().top ?? 0;
      change();
      if (anchor?.isConnected) box.scrollTop += anchor.getBoundingClientRect().top - before;
    },
    close: () => grown.disconnect(),
  };
}

/** The first thing that can be seen. @param {HTMLElement} box @param {HTMLElement} inner */
function first(box, inner) {
  const top = box.getBoundingClientRect().top;
  const seen = (/** @type {Element} */ part) => part.getBoundingClientRect().bottom > top;
  // By groups first: to ask for the place of a row that the browser passes over would lay out its group.
  const group = [...inner.querySelectorAll(".said-group")].find(seen);
  return [...(group?.children ?? inner.querySelectorAll(".underway .part"))].find(seen) ?? null;
}
