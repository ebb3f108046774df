/** Which model answers, and which ensembles and tools it may use. */

/** @import { DeskInfo, EnsembleChoice, ModelChoice } from "../../values.js" */

import { h, icon, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, t } from "../../words.js";

/**
 * @typedef {object} Choice
 * @property {string} model
 * @property {string[] | null} ensembles null is all of them.
 * @property {string[]} off Tools that are switched off, by their scoped names.
 */

/**
 * @param {DeskInfo} about
 * @param {(choice: Choice) => void} chosen
 * @param {Choice | null} [first]
 */
export function pickers(about, chosen, first = null) {
  /** What nobody has chosen, and no conversation has said, is as usual. @type {Choice} */
  let now = first ?? { model: "", ensembles: null, off: [] };
  const model = h("select", { class: "picker", "aria-label": t("chat.model.pick"), title: t("chat.model.pick") });
  model.addEventListener("change", () => change({ model: model.value }));
  const said = h("span");
  const boxes = h("fieldset", { class: "choices" });
  const fold = h("details", { class: "picker-fold" }, h("summary", { class: "picker" }, icon("tools"), said), boxes);
  const node = h("div", { class: "pickers" }, model, fold);
  /** Ensembles whose tools are shown. @type {Set<string>} */
  const unfolded = new Set();
  fold.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !fold.open) return;
    event.stopPropagation();
    shut();
    fold.querySelector("summary")?.focus();
  });
  const outside = (/** @type {Event} */ event) => fold.contains(/** @type {Node} */ (event.target)) || shut();
  fold.addEventListener("toggle", () => {
    if (fold.open) document.addEventListener("pointerdown", outside);
    else document.removeEventListener("pointerdown", outside);
  });
  fold.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !fold.contains(/** @type {Node} */ (event.relatedTarget))) shut();
  });

  function shut() {
    fold.open = false;
  }
  /** @param {Partial<Choice>} news */
  function change(news) {
    now = { ...now, ...news };
    draw();
    chosen(now);
  }
  function draw() {
    fold.hidden = !about.ensembles.length;
    replace(model, options(about.models, now.model || usual(about)));
    const all = about.ensembles.map((one) => one.name);
    const used = now.ensembles ?? all;
    const on = (/** @type {string} */ name) => !now.off.includes(name);
    const tools = about.ensembles.filter((one) => used.includes(one.name)).reduce((sum, one) => sum + (one.names ?? []).filter(on).length, 0);
    said.textContent = count(tools, "chat.tools");
    /** @param {EnsembleChoice} one @param {boolean} on */
    const toggle = (one, on) => {
      const left = all.filter((name) => (name === one.name ? on : used.includes(name)));
      change({ ensembles: left.length === all.length ? null : left });
    };
    /** @param {string} name @param {boolean} on */
    const turn = (name, on) => change({ off: on ? now.off.filter((one) => one !== name) : [...now.off, name] });
    const focused = boxes.contains(document.activeElement) ? document.activeElement?.getAttribute("data-name") : null;
    replace(boxes, h("legend", null, t("chat.ensembles")), about.ensembles.flatMap((one) => [box(one, used.includes(one.name), toggle), toolBoxes(one, used.includes(one.name), now.off, turn, unfolded)]));
    if (focused !== null) for (const one of boxes.querySelectorAll("input")) if (one.dataset["name"] === focused) one.focus();
  }
  draw();

  return {
    node,
    now: () => ({ ...now, model: now.model || usual(about) }),
    /** There is something else to choose from. @param {DeskInfo} news */
    offer(news) {
      if (JSON.stringify([news.models, news.ensembles]) === JSON.stringify([about.models, about.ensembles])) return;
      about = news;
      now = { ...now, ensembles: now.ensembles?.filter((name) => about.ensembles.some((one) => one.name === name)) ?? null };
      draw();
    },
    /** @param {Choice} choice */
    set(choice) {
      if (JSON.stringify([choice.model, choice.ensembles, choice.off]) === JSON.stringify([now.model, now.ensembles, now.off])) return;
      now = { model: choice.model || now.model, ensembles: choice.ensembles, off: choice.off };
      draw();
    },
  };
}

/** @param {DeskInfo} about */
function usual(about) {
  return (about.models.find((one) => one.is_default) ?? about.models[0])?.name ?? "";
}

/** @param {ModelChoice[]} models @param {string} chosen */
function options(models, chosen) {
  const known = models.some((one) => one.name === chosen) || !chosen ? models : [{ name: chosen }, ...models];
  return known.map((one) => h("option", { value: one.name, selected: one.name === chosen, title: visible(one.model ?? "") }, visible(one.name)));
}

/**
 * @param {EnsembleChoice} one
 * @param {boolean} on
 * @param {(one: EnsembleChoice, on: boolean) => void} toggle
 */
function box(one, on, toggle) {
  const input = h("input", { type: "checkbox", checked: on, data: { name: one.name } });
  input.addEventListener("change", () => toggle(one, input.checked));
  const name = one.name ? visible(one.name) : t("chat.hello.own");
  const meta = one.problem ? visible(one.problem) : count(one.tools ?? 0, "chat.tools");
  return h(
    "label",
    { class: "choice", title: visible(one.source ?? "") },
    input,
    h("span", { class: "choice-name" }, name),
    h("span", { class: one.problem ? "meta bad" : "meta" }, meta),
  );
}

/**
 * The tools of an ensemble, each of which can be switched off by itself.
 * @param {EnsembleChoice} one
 * @param {boolean} used
 * @param {string[]} off
 * @param {(name: string, on: boolean) => void} turn
 * @param {Set<string>} unfolded
 */
function toolBoxes(one, used, off, turn, unfolded) {
  const names = one.names ?? [];
  if (!names.length) return null;
  const boxes = names.map((name) => {
    const input = h("input", { type: "checkbox", checked: used && !off.includes(name), disabled: !used, data: { name: `tool ${name}` } });
    input.addEventListener("change", () => turn(name, input.checked));
    return h("label", { class: "choice" }, input, h("span", { class: "choice-name" }, visible(name)));
  });
  const group = one.name ? visible(one.name) : t("chat.hello.own");
  const node = h("details", { class: "choice-tools", open: unfolded.has(one.name) }, h("summary", { "aria-label": t("chat.tools.each", { group }) }, t("chat.tools.single")), boxes);
  node.addEventListener("toggle", () => void (node.open ? unfolded.add(one.name) : unfolded.delete(one.name)));
  return node;
}
