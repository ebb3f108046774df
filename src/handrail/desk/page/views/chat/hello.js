/** What an empty conversation shows: what may be asked first, what the model can do, and which tools there are. */

/** @import { DeskInfo, EnsembleChoice, ExamplePrompt } from "../../values.js" */

import { h, replace } from "../../dom.js";
import { visible } from "../../text.js";
import { count, t } from "../../words.js";

/** What stands where the person has to say something. */
const OPEN = "…";
/** Names of tools of one group that are shown at once. */
const SHOWN = 12;

/**
 * @param {DeskInfo} about
 * @param {(words: string, open: string) => void} write Puts words where they can be changed, with the first place to
 *   fill selected.
 */
export function hello(about, write) {
  const node = h("div", { class: "empty hello" });

  /** @param {DeskInfo} now @param {string} model The name of the one that would answer. */
  function draw(now, model) {
    replace(node, h("h2", null, t("chat.hello")), h("p", null, count(now.tools, "chat.hello.says")), examples(now.examples ?? []), can(now, model), tools(now.ensembles));
  }
  /** @param {ExamplePrompt[]} found */
  function examples(found) {
    if (!found.length) return null;
    const chips = found.map((one) => {
      const words = prompt(one);
      const press = () => write(words, OPEN);
      return h("li", null, h("button", { type: "button", class: "example", title: visible(one.tool), on: { click: press } }, words));
    });
    return h("ul", { class: "examples", "aria-label": t("chat.hello.examples") }, chips);
  }
  draw(about, "");
  return { node, draw };
}

/** @param {ExamplePrompt} example */
function prompt({ says, inputs = [] }) {
  const needed = inputs.map((one) => `${visible(one.name)} = ${visible(one.value || OPEN)}`);
  return visible(says) + (needed.length ? `: ${needed.join(", ")}` : "");
}

/** @param {DeskInfo} about @param {string} name */
function can(about, name) {
  const model = about.models.find((one) => one.name === name) ?? about.models.find((one) => one.is_default) ?? about.models[0];
  if (!model?.can?.length) return null;
  const abilities = model.can.map((one) => t(`chat.hello.can.${one}`)).join(", ");
  return h("p", { class: "hello-can" }, t("chat.hello.can", { model: visible(model.name), abilities }));
}

/** @param {EnsembleChoice[]} found */
function tools(found) {
  const shown = found.filter((one) => one.names?.length);
  if (!shown.length) return null;
  const rows = shown.flatMap((one) => {
    const names = one.names ?? [];
    const rest = names.length - SHOWN;
    const links = names.slice(0, SHOWN).map((name) => h("a", { href: `#/tools/${encodeURIComponent(name)}` }, visible(short(name, one.name))));
    return [h("dt", null, one.name ? visible(one.name) : t("chat.hello.own")), h("dd", null, links, rest > 0 && h("a", { href: "#/tools" }, count(rest, "chat.hello.more")))];
  });
  return h("details", { class: "hello-tools" }, h("summary", null, t("chat.hello.tools")), h("dl", null, rows));
}

/** Without its group, which stands before it. @param {string} name @param {string} group */
function short(name, group) {
  return group && name.startsWith(`${group}:`) ? name.slice(group.length + 1) : name;
}
